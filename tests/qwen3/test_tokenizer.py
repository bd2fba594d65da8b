"""The tiny tokenizer: its alphabet, its way from text to tokens and back, and its chat template."""

import pytest

from grpo.qwen3.arithmetic import SPLITS, make_problems
from grpo.qwen3.tokenizer import VOCABULARY, completion_text, encode_text, tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_it_has_forty_tokens_and_its_special_ones_are_apart(tokenizer):
    assert len(tokenizer) == len(VOCABULARY) == len(set(VOCABULARY)) == 40
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    assert tokenizer.padding_side == "left"
    assert tokenizer.convert_ids_to_tokens(list(range(40))) == list(VOCABULARY)


def test_every_text_of_the_task_comes_back_and_fits_into_26_tokens(tokenizer):
    longest = 0
    for split in SPLITS:
        for problem in make_problems(split)[::5]:
            for text in (problem.prompt, problem.direct, problem.reasoning, problem.prompt + problem.reasoning):
                ids = tokenizer(text)["input_ids"]
                assert tokenizer.decode(ids) == text and tokenizer.unk_token_id not in ids
            longest = max(longest, 1 + len(tokenizer(problem.reasoning)["input_ids"]))
    assert longest == 25


def test_words_are_one_token_and_parts_of_them_are_characters(tokenizer):
    def tokens(text):
        return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])

    assert tokens("What is 37+48?\n") == ["What is", " ", "3", "7", "+", "4", "8", "?", "\n"]
    assert tokens(r"<think>8</think>\boxed{85}") == ["<think>", "8", "</think>", r"\boxed{", "8", "5", "}"]
    assert tokens("b a}{\\ 1*2/3-4=5,.:!(7)") == list("b a}{\\ 1*2/3-4=5,.:!(7)")
    for text in ("  1 ,  2 . ", "\n\n1\n", "1 . 2 ! a ' "[:7], "0" * 40):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_batches_are_padded_on_the_left(tokenizer):
    batch = tokenizer(["1", "12+3"], padding=True)
    assert batch["input_ids"][0] == [0, 0, 0, *tokenizer("1")["input_ids"]]
    assert batch["attention_mask"] == [[0, 0, 0, 1], [1, 1, 1, 1]]


def test_saved_and_loaded_again_it_is_the_same(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = "What is 3+4?\n<think>3+4+0=7</think>\\boxed{7}<|endoftext|>"
    assert again(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert again.decode(again(text)["input_ids"]) == text
    for name in ("pad_token_id", "eos_token_id", "unk_token_id", "padding_side", "chat_template"):
        assert getattr(again, name) == getattr(tokenizer, name)
    assert chat(again, True) == chat(tokenizer, True)


def test_a_text_becomes_ints_and_nothing_is_added(tokenizer):
    ids = encode_text(tokenizer, "What is 3+4?\n")
    assert ids == [8, 35, 14, 21, 15, 29, 36] and all(type(token) is int for token in ids)
    assert encode_text(tokenizer, "") == [] and encode_text(tokenizer, "<|endoftext|>") == [1]

    class Adds:
        unk_token_id = None

        def __call__(self, text, add_special_tokens=True):
            return {"input_ids": [0] * add_special_tokens + [5, 6]}

    assert encode_text(Adds(), "text") == [5, 6]


def chat(tokenizer, tokenize, **options):
    turns = [{"role": "user", "content": "What is 3+4?"}]
    result = tokenizer.apply_chat_template(turns, tokenize=tokenize, return_dict=tokenize, **options)
    return result["input_ids"] if tokenize else result


def test_the_chat_template_has_turns_and_the_switch_for_thinking(tokenizer):
    asked = "<|im_start|>user\nWhat is 3+4?<|im_end|>\n"
    assert chat(tokenizer, False) == asked
    text = chat(tokenizer, False, add_generation_prompt=True)
    assert text == asked + "<|im_start|>assistant\n"
    assert chat(tokenizer, False, add_generation_prompt=True, enable_thinking=True) == text
    direct = chat(tokenizer, False, add_generation_prompt=True, enable_thinking=False)
    assert direct == text + "<think>\n\n</think>\n\n"
    ids = chat(tokenizer, True, add_generation_prompt=True, enable_thinking=False)
    assert ids == encode_text(tokenizer, direct) and ids[-6:] == [5, 36, 36, 6, 36, 36]


def test_the_stop_token_is_left_off_and_nothing_else(tokenizer):
    ids = tokenizer(r"\boxed{8<|pad|>5}<|endoftext|>")["input_ids"]
    assert completion_text(tokenizer, ids, {1}) == r"\boxed{8<|pad|>5}"
    assert completion_text(tokenizer, ids) == r"\boxed{8<|pad|>5}<|endoftext|>"
    assert completion_text(tokenizer, [1, 9], {1}) == "<|endoftext|>user"
    assert completion_text(tokenizer, [], {1}) == ""
    assert completion_text(tokenizer, [12, 1, 1], {1}) == tokenizer.decode([12, 1])


def test_a_text_outside_the_alphabet_is_refused(tokenizer):
    with pytest.raises(ValueError, match="no token for a part of 'Wie geht"):
        encode_text(tokenizer, "Wie geht es?")
