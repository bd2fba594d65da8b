"""Controls: which ways of asking belong to a model, that each is asked as it says, and how two are compared."""

import io
import math
import re

import pytest
import torch
from rich.console import Console

from grpo.expressions import paired_difference
from grpo.qwen3 import answers as module
from grpo.qwen3 import controls as controls_module
from grpo.qwen3.answers import Answer
from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.control_tables import compare_rows, comparison_table, controls_table
from grpo.qwen3.controls import (
    Control,
    asked,
    can_read,
    control_row,
    default_controls,
    generator_for,
    run_controls,
)
from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.model import tiny_model
from grpo.qwen3.published import CAVEAT, PUBLISHED, published_table
from grpo.qwen3.tokenizer import tiny_tokenizer

PROBLEMS = load_arithmetic("validation")[100:106]


@pytest.fixture(scope="module")
def tiny():
    return tiny_model(0), tiny_tokenizer()


@pytest.fixture(scope="module")
def words():
    """A tokenizer that can read the request to go step by step."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE({chr(code): code for code in range(128)}, []))
    inner.pre_tokenizer = pre_tokenizers.Split("", behavior="isolated")
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def shown(table):
    output = io.StringIO()
    Console(file=output, width=160).print(table)
    return output.getvalue()


def test_the_tiny_model_is_made_to_think(tiny):
    _, tokenizer = tiny
    assert not can_read(tokenizer, "step_by_step") and can_read(tokenizer, "plain")
    assert default_controls(tokenizer, votes=3, temperature=0.9) == (
        Control("plain prompt", "plain"),
        Control("<think> forced", "plain", "<think>"),
        Control("<think> forced, majority of 3", "plain", "<think>", 3, 0.9),
    )


@pytest.mark.parametrize("style", ["base", "step_by_step"])
def test_a_base_model_is_asked_to_explain(words, style):
    controls = default_controls(words, style)
    assert [control.style for control in controls] == ["base", "step_by_step", "step_by_step"]
    assert [control.votes for control in controls] == [1, 1, 5]
    assert [control.temperature for control in controls] == [0.0, 0.0, 0.7]
    assert not any(control.forced_prefix for control in controls)


@pytest.mark.parametrize("style", ["chat_direct", "chat_thinking"])
def test_a_chat_model_thinks(tiny, style):
    controls = default_controls(tiny[1], style, votes=2)
    assert [control.style for control in controls] == ["chat_direct", "chat_thinking", "chat_thinking"]


def test_one_way_of_asking():
    assert asked("base") == Control("base prompt", "base")
    assert asked("base", 2).votes == 2
    assert asked("base", 4, 1.0) == Control("base prompt, majority of 4", "base", votes=4, temperature=1.0)


def test_what_is_no_control(tiny):
    with pytest.raises(ValueError, match="2 votes at temperature 0 are one vote"):
        Control("x", votes=2)
    with pytest.raises(ValueError, match="votes"):
        Control("x", votes=0)
    with pytest.raises(ValueError, match="temperature"):
        Control("x", temperature=-1.0)
    with pytest.raises(ValueError, match="needs at least 2"):
        default_controls(tiny[1], votes=1)


def test_generators_depend_on_seed_control_and_batch():
    def number(seed, name, start):
        return torch.rand(1, generator=generator_for(seed, Control(name), start)).item()

    assert number(0, "a", 0) == number(0, "a", 0)
    assert len({number(0, "a", 0), number(1, "a", 0), number(0, "b", 0), number(0, "a", 8)}) == 4


def test_each_control_is_asked_as_it_says(tiny, monkeypatch):
    calls = []
    sample = module.sample

    def watched(model, prompts, group_size, **options):
        texts = [tiny[1].decode(prompt) for prompt in prompts]
        calls.append((texts, group_size, options["temperature"], options["max_new_tokens"], options["rollout_dtype"]))
        return sample(model, prompts, group_size, **options)

    monkeypatch.setattr(module, "sample", watched)
    done = []
    rows = run_controls(
        *tiny,
        PROBLEMS,
        votes=2,
        temperature=0.9,
        max_new_tokens=5,
        batch_size=6,
        rollout_dtype=torch.bfloat16,
        progress=lambda control, count: done.append((control.votes, count)),
    )
    texts = [problem.prompt for problem in PROBLEMS]
    thinking = [f"{text}<think>" for text in texts]
    half = torch.bfloat16
    assert calls == [
        (texts, 1, 0.0, 5, half),
        (thinking, 1, 0.0, 4, half),
        (thinking[:3], 2, 0.9, 4, half),
        (thinking[3:], 2, 0.9, 4, half),
    ]
    assert done == [(1, 6), (1, 6), (2, 3), (2, 6)]
    assert [row.name for row in rows] == ["plain prompt", "<think> forced", "<think> forced, majority of 2"]


def test_a_control_hands_on_all_it_is_and_its_time_is_that_of_all_batches(monkeypatch):
    seen = []

    def batches(model, tokenizer, problems, **options):
        seen.append(options)
        for took in (1.0, 2.5):
            yield [[Answer("", None, 0.0, 3, True)] * options["votes"]], took

    monkeypatch.setattr(controls_module, "answer_batches", batches)
    control = Control("a", "step_by_step", "<think>", votes=2, temperature=0.4)
    rows = run_controls(None, None, PROBLEMS[:2], controls=[control], max_new_tokens=8, batch_size=4, rollout_dtype=7)
    (options,) = seen
    names = ("style", "forced_prefix", "votes", "temperature", "max_new_tokens", "batch_size", "rollout_dtype")
    assert [options[name] for name in names] == ["step_by_step", "<think>", 2, 0.4, 8, 4, 7]
    assert [made.seconds for made in rows] == [3.5]


def test_rows_agree_with_evaluate_and_repeat(tiny):
    def length(text, truth, finished):
        return len(text) / 1000

    def run(seed=0):
        return run_controls(*tiny, PROBLEMS, votes=3, reward=length, seed=seed)

    plain, think, vote = run()
    greedy = evaluate(*tiny, PROBLEMS, reward=length)
    forced = evaluate(*tiny, PROBLEMS, reward=length, forced_prefix="<think>")
    assert (plain.rewards, plain.mean_length, plain.finished_share) == (
        greedy.rewards,
        greedy.mean_length,
        greedy.finished_share,
    )
    assert (plain.accuracy, plain.low, plain.high) == (greedy.accuracy, greedy.low, greedy.high)
    assert think.rewards == forced.rewards and think.vote == {}
    assert vote.tokens_per_problem == pytest.approx(3 * vote.mean_length)
    again, other = run()[2], run(seed=1)[2]
    assert again.vote_rewards == vote.vote_rewards != other.vote_rewards
    assert [len(row) for row in vote.vote_rewards] == [3] * 6
    only = run_controls(*tiny, PROBLEMS, controls=[plain.control], reward=length)
    assert [row.rewards for row in only] == [plain.rewards]


def row(name, rewards, seconds=2.0, votes=1):
    several = [[Answer("", None, reward, 10, True)] * votes for reward in rewards]
    return control_row(Control(name, votes=votes, temperature=float(votes > 1)), several, ["1"] * len(rewards), seconds)


def test_a_row_is_plain_data_without_texts():
    made = row("a", [1.0, 0.0], votes=2)
    assert made.tokens_per_second == 2 * 2 * 10 / 2.0 and made.vote == {
        "single": 0.5,
        "any_right": 0.5,
        "agreement": 0.0,
        "undecided": 1.0,
    }
    summary = made.summary()
    assert summary["name"] == "a" and summary["vote_rewards"] == ((1.0, 1.0), (0.0, 0.0))
    assert row("a", [1.0], seconds=0.5).tokens_per_second == 20
    assert "text" not in str(summary) and math.isnan(row("a", [1.0], seconds=0.0).tokens_per_second)


def test_two_ways_on_the_same_problems():
    rows = [row("a", [1, 1, 0, 0, 0]), row("b", [1, 0, 1, 1, 0]), row("c", [1, 1, 1, 1, 1])]
    pairs = compare_rows(rows)
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    first = pairs[0]
    expected = paired_difference(rows[1].rewards, rows[0].rewards)
    assert (first.difference, first.low, first.high) == (expected.mean, expected.low, expected.high)
    assert first.difference == pytest.approx(0.2) and (first.only_first, first.only_second) == (1, 2)
    text = shown(comparison_table(pairs))
    interval = re.escape(f"{expected.low:+.3f}..{expected.high:+.3f}")
    assert re.search(rf"│ a +│ b +│ +\+0\.200 │ +{interval} │ +1 │ +2 │", text)
    assert "only 1st" in text
    assert compare_rows(rows[:1]) == []


def test_the_table():
    text = shown(controls_table([row("asked so", [1, 1, 0, 0])]))
    assert "4 problems, measured here" in text
    for cell in ("asked so", "0.500", "0.150..0.850", "10.0", "1.000", "2.0", "20"):
        assert cell in text
    text = shown(controls_table([row("vote", [1, 0], votes=3)]))
    assert re.search(r"│ vote +│ +0\.000 │ .* │ +10\.0 │ +1\.000 │", text)  # tokens of an answer, not of a problem


def test_published_figures_are_marked_as_what_they_are():
    assert [figure.value for figure in PUBLISHED] == [15.2, 40.6, 52.0, 48.2, 47.4, 44.0, 33.4, 0.4]
    assert all(figure.problems == 500 and CAVEAT in figure.note and figure.source for figure in PUBLISHED)
    assert max(figure.standard_error for figure in PUBLISHED) == pytest.approx(2.234, abs=1e-3)
    text = shown(published_table())
    assert "PUBLISHED figures, not measured here" in text and "one run each" in text and "15.2 %" in text
    assert re.search(r"│ base model +│ +15\.2 % │ +1\.6 │", text)
