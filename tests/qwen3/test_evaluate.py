"""Evaluation: against models whose answers are known, with the same answer however the problems are batched."""

import pytest
import torch

from grpo.qwen3 import answers as module
from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.evaluate import evaluate, wilson_interval
from grpo.qwen3.model import tiny_model
from grpo.qwen3.sampler import Rollouts
from grpo.qwen3.tokenizer import encode_text, tiny_tokenizer


@pytest.fixture(scope="module")
def model():
    return tiny_model(0)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def problems():
    return load_arithmetic("validation")[100:112]


@pytest.fixture
def answers(monkeypatch, tokenizer):
    """Let the sampler return chosen texts: a function of prompt text and number of the rollout."""
    calls = []

    def script(answer):
        def sample(model, prompts, group_size, **options):
            calls.append((prompts, group_size, options))
            texts = [answer(tokenizer.decode(ids), k) for ids in prompts for k in range(group_size)]
            rows = [encode_text(tokenizer, text) for text in texts]
            lengths = torch.tensor([len(row) for row in rows])
            ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.int64)
            for row, tokens in enumerate(rows):
                ids[row, : len(tokens)] = torch.tensor(tokens)
            done = torch.tensor([row[-1] in options["stop_ids"] for row in rows])
            empty = torch.zeros(len(rows), 0)
            return Rollouts(empty, empty, ids, lengths, ids.float(), done, group_size, torch.arange(len(rows)))

        monkeypatch.setattr(module, "sample", sample)
        return calls

    return script


def right(prompt):
    return str(eval(prompt.split()[2].rstrip("?")))


def test_accuracy_lengths_and_shares(answers, model, tokenizer, problems):
    def answer(prompt, k):
        number = [problem.prompt for problem in problems].index(prompt)
        return (
            rf"\boxed{{{right(prompt)}}}<|endoftext|>",  # right: 5 or 4 tokens
            rf"<think>1</think>\boxed{{{right(prompt)}}}<|im_end|>",  # right: another end token
            r"\boxed{7}<|endoftext|>",  # wrong
            rf"\boxed{{{right(prompt)}}}",  # cut off
        )[number % 4]

    calls = answers(answer)
    result = evaluate(model, tokenizer, problems, batch_size=5)
    assert result.rewards == (1.0, 1.0, 0.0, 0.0) * 3
    assert (result.accuracy, result.rollouts) == (0.5, 12)
    assert (result.finished_share, result.think_share) == (0.75, 0.25)
    digits = [len(problem.truth) for problem in problems]
    assert result.mean_length == pytest.approx(
        sum((3 + n, 6 + n, 4, 2 + n)[row % 4] for row, n in enumerate(digits)) / 12
    )
    assert (result.low, result.high) == wilson_interval(6, 12)
    assert [len(call[0]) for call in calls] == [5, 5, 2] and all(call[2]["temperature"] == 0 for call in calls)
    assert calls[0][2]["stop_ids"] == frozenset({1, 4}) and calls[0][2]["pad_id"] == 0
    assert calls[0][2]["max_new_tokens"] == 26
    assert set(result.summary()) == {
        *("accuracy", "low", "high", "rollouts", "mean_length", "finished_share", "think_share")
    }


def test_groups_belong_to_their_problem(answers, model, tokenizer, problems):
    answers(lambda prompt, k: rf"\boxed{{{right(prompt) if k == 1 else 'a'}}}<|endoftext|>")
    result = evaluate(
        model, tokenizer, problems, temperature=1.0, group_size=3, generator=torch.Generator(), batch_size=4
    )
    assert result.rewards == (0.0, 1.0, 0.0) * 12


def test_a_forced_prefix_is_part_of_the_completion(answers, model, tokenizer, problems):
    seen = []

    def reward(text, truth, finished):
        seen.append((text, truth, finished))
        return 1.0

    calls = answers(lambda prompt, k: r"1</think>\boxed{2}<|endoftext|>")
    result = evaluate(model, tokenizer, problems[:2], forced_prefix="<think>", reward=reward)
    assert calls[0][0][0] == encode_text(tokenizer, problems[0].prompt + "<think>")
    assert calls[0][2]["max_new_tokens"] == 25
    assert seen == [(r"<think>1</think>\boxed{2}", problem.truth, True) for problem in problems[:2]]
    assert result.mean_length == 1 + 6 and result.think_share == 1.0
    with pytest.raises(ValueError, match="nothing is left"):
        evaluate(model, tokenizer, problems[:2], forced_prefix="<think>", max_new_tokens=1)


def test_the_batch_size_changes_nothing_and_greedy_repeats(model, tokenizer, problems):
    # CASES E3: greedy evaluation run twice must match.
    def length(text, truth, finished):
        return len(text) / 1000

    first = evaluate(model, tokenizer, problems, reward=length, batch_size=12)
    assert first == evaluate(model, tokenizer, problems, reward=length, batch_size=12)
    assert first.rewards == evaluate(model, tokenizer, problems, reward=length, batch_size=5).rewards


def test_sampling_repeats_by_generator_and_leaves_global_state_alone(model, tokenizer, problems):
    def length(text, truth, finished):
        return len(text) / 1000

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        return evaluate(model, tokenizer, problems, reward=length, temperature=1.0, generator=generator)

    before = torch.get_rng_state()
    assert run(1) == run(1) != run(2)
    assert torch.equal(before, torch.get_rng_state())


def test_errors(model, tokenizer, problems):
    with pytest.raises(ValueError, match="problems is empty"):
        evaluate(model, tokenizer, [])
    with pytest.raises(ValueError, match=r"temperature is 0\.7 without a generator"):
        evaluate(model, tokenizer, problems, temperature=0.7)
    for value in (-0.5, 1.5, float("nan")):
        with pytest.raises(ValueError, match="rewards in"):
            evaluate(model, tokenizer, problems[:1], reward=lambda *rollout, value=value: value)


def test_wilson_interval():
    # Worked by hand for 0 of 10: z^2 / (10 + z^2).
    assert wilson_interval(0, 10) == (0.0, pytest.approx(1.96**2 / (10 + 1.96**2)))
    low, high = wilson_interval(10, 10)
    assert (low, high) == (pytest.approx(10 / (10 + 1.96**2)), 1.0)
    # It holds the proportions p whose distance to the share is z standard errors of p.
    for share in wilson_interval(74, 500):
        assert abs(74 / 500 - share) == pytest.approx(1.96 * (share * (1 - share) / 500) ** 0.5)
    for successes, trials in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="trials"):
            wilson_interval(successes, trials)
