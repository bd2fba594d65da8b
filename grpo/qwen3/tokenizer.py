r"""A tokenizer of 40 tokens for the tiny model, and completions from text to tokens and back.

`<think>`, `</think>`, `\boxed{` and `What is` are one token each, everything else is one token a character: the
longest answer of the task, end token included, has 25 tokens.
"""

from __future__ import annotations

import re

PAD, END, UNKNOWN = "<|pad|>", "<|endoftext|>", "<|unknown|>"
TURN, TURN_END = "<|im_start|>", "<|im_end|>"
WORDS = ("<think>", "</think>", r"\boxed{", "What is", "user", "assistant")
CHARACTERS = "0123456789+-*/=,.:?!(){} \n\\ab"
VOCABULARY = (PAD, END, UNKNOWN, TURN, TURN_END, *WORDS, *CHARACTERS)

# As Qwen3's own template: one turn each, and with enable_thinking=False an empty thought in front of the answer.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)


def tiny_tokenizer():
    """The tokenizer of the tiny model, built in memory: no file and no network.

    Padding on the left, pad and end token apart, text in = text out for every text of its alphabet (what is not in
    it becomes the unknown token; `encode_text` refuses it).

    Returns: transformers.PreTrainedTokenizerFast with 40 tokens.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({token: index for index, token in enumerate(VOCABULARY)}, unk_token=UNKNOWN))
    words = "|".join(re.escape(word) for word in WORDS)
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{words}|[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[TURN, TURN_END],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def encode_text(tokenizer, text):
    """Token ids of a text as it stands: a completion, or the start of one. (For prompts: `grpo.qwen3.prompts`.)

    Args:
        tokenizer: any transformers tokenizer.
        text: str; may be empty.

    Returns: list of ints, no special token added.

    Raises: ValueError if the tokenizer has no token for a part of the text.
    """
    ids = [int(token) for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    unknown = tokenizer.unk_token_id
    if unknown is not None and unknown in ids:
        raise ValueError(f"the tokenizer has no token for a part of {text!r}: leave out what it does not know")
    return ids


def completion_text(tokenizer, ids, stop_ids=()):
    r"""The text of one completion, its stop token left off and every other token kept.

    Special tokens in the middle stay visible: were they dropped, `\boxed{8`, a pad token and `5}` would read as 85.

    Args:
        tokenizer: any transformers tokenizer.
        ids: ints, the tokens that count (no padding).
        stop_ids: ids that end a completion.

    Returns: str.
    """
    ids = [int(token) for token in ids]
    if ids and ids[-1] in stop_ids:
        ids = ids[:-1]
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
