"""Cold start: what is learned and what is not, by hand; the same run by seed; when it stops."""

import math

import pytest
import torch

from grpo.qwen3 import sft
from grpo.qwen3.arithmetic import load_arithmetic, make_problem
from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.model import tiny_config, tiny_model
from grpo.qwen3.sft import cold_start, demonstration_batch, demonstration_loss
from grpo.qwen3.tokenizer import encode_text, tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def problems():
    return load_arithmetic("train")


def small_model(seed=0):
    return tiny_model(seed, tiny_config(hidden_size=64, layers=1))


def test_prompt_and_padding_are_not_learned_the_end_token_is(tokenizer):
    long, short = make_problem(37, 48), make_problem(1, 2)
    input_ids, targets = demonstration_batch(tokenizer, [long.prompt, short.prompt], [long.reasoning, short.direct])
    assert input_ids.shape == targets.shape == (2, 9 + 23)
    ids = [*encode_text(tokenizer, long.prompt + long.reasoning), 1]
    assert input_ids[0].tolist() == ids
    assert targets[0].tolist() == [-100] * 9 + ids[9:]
    ids = [*encode_text(tokenizer, short.prompt + short.direct), 1]
    assert input_ids[1].tolist() == ids + [0] * (32 - len(ids))
    assert targets[1].tolist() == [-100] * 7 + ids[7:] + [-100] * (32 - len(ids))


def test_padding_with_the_end_token_still_learns_the_end(tokenizer):
    other = tiny_tokenizer()
    other.pad_token = other.eos_token
    input_ids, targets = demonstration_batch(other, ["1+1?", "1?"], [r"\boxed{2}", r"\boxed{1}"])
    assert input_ids[1, -2:].tolist() == [1, 1] and (targets == 1).sum(dim=1).tolist() == [1, 1]


def test_the_loss_is_the_mean_over_completion_tokens(tokenizer):
    model = small_model()
    problem, other = make_problem(37, 48), make_problem(1, 2)
    total, count = 0.0, 0
    for one in (problem, other):
        prompt, answer = encode_text(tokenizer, one.prompt), [*encode_text(tokenizer, one.reasoning), 1]
        with torch.no_grad():
            logps = model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
        for place, token in enumerate(answer, start=len(prompt)):
            total -= logps[place - 1, token].item()
            count += 1
    batch = demonstration_batch(tokenizer, [problem.prompt, other.prompt], [problem.reasoning, other.reasoning])
    assert demonstration_loss(model, *batch).item() == pytest.approx(total / count, rel=1e-5)


def test_a_cold_start_repeats_by_seed_and_leaves_global_state_alone(tokenizer, problems):
    def run(seed):
        model = small_model()
        result = cold_start(
            model, tokenizer, problems, generator=torch.Generator().manual_seed(seed), steps=3, batch_size=8
        )
        return result, model.lm_head.weight.detach().clone()

    before = torch.get_rng_state()
    (first, weights), (again, same), (other, _) = run(0), run(0), run(1)
    assert torch.equal(before, torch.get_rng_state())
    assert first == again and torch.equal(weights, same) and first.losses != other.losses
    assert first.steps == 3 == len(first.losses) and first.checks == [] and first.reached


def test_it_learns_the_form_of_the_answers(tokenizer, problems):
    model, seen = small_model(), []
    result = cold_start(
        model,
        tokenizer,
        problems,
        generator=torch.Generator().manual_seed(0),
        steps=60,
        batch_size=32,
        learning_rate=5e-3,
        progress=lambda step, loss: seen.append((step, loss)),
    )
    assert result.losses[0] == pytest.approx(math.log(40), abs=0.1)
    assert sum(result.losses[-5:]) / 5 < 1.3
    assert seen == list(enumerate(result.losses, start=1))
    assert not model.training
    outcome = evaluate(model, tokenizer, problems[:50])
    assert outcome.think_share == 1.0 and outcome.finished_share > 0.9


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_mixture_of_demonstrations(tokenizer, problems, monkeypatch, share):
    shown = []
    original = sft.demonstration_batch

    def spy(tokenizer, prompts, completions, device):
        shown.extend(zip(prompts, completions, strict=True))
        return original(tokenizer, prompts, completions, device)

    monkeypatch.setattr(sft, "demonstration_batch", spy)
    generator = torch.Generator().manual_seed(0)
    cold_start(small_model(), tokenizer, problems, generator=generator, steps=5, batch_size=64, reasoning_share=share)
    reasons = [completion.startswith("<think>") for _, completion in shown]
    assert abs(sum(reasons) / 320 - share) < 0.08
    demonstrations = {problem.prompt: (problem.direct, problem.reasoning) for problem in problems}
    for (prompt, completion), reason in zip(shown, reasons, strict=True):
        assert completion == demonstrations[prompt][reason]
    assert len({prompt for prompt, _ in shown}) > 300


def test_it_stops_at_the_first_check_above_the_threshold(tokenizer, problems, monkeypatch):
    rewards, asked = iter([0.1, 0.2, 0.21, 0.9]), []

    def fake(model, tokenizer, problems, **options):
        asked.append((list(problems), options["temperature"], model.training))
        return type("Evaluation", (), {"accuracy": next(rewards)})

    monkeypatch.setattr(sft, "evaluate", fake)

    def run(**options):
        return cold_start(
            small_model(),
            tokenizer,
            problems,
            generator=torch.Generator().manual_seed(0),
            batch_size=4,
            check_every=2,
            stop_at=0.2,
            validation=problems[:3],
            **options,
        )

    result = run(steps=20)
    assert (result.steps, result.reached) == (6, True)
    assert result.checks == [(2, 0.1), (4, 0.2), (6, 0.21)]
    assert [one[:2] for one in asked] == [(problems[:3], 1.0)] * 3
    rewards = iter([0.1] * 9)
    result = run(steps=5)
    assert (result.steps, result.reached, len(result.checks)) == (5, False, 2)


def test_schedules_of_the_learning_rate(tokenizer, problems, monkeypatch):
    rates = []

    class Watched(torch.optim.AdamW):
        def step(self):
            rates.append(self.param_groups[0]["lr"])
            super().step()

    monkeypatch.setattr(torch.optim, "AdamW", Watched)
    options = {"batch_size": 2, "learning_rate": 0.01, "steps": 40}
    for schedule in ("constant", "cosine"):
        generator = torch.Generator().manual_seed(0)
        cold_start(small_model(), tokenizer, problems, generator=generator, schedule=schedule, **options)
    assert rates[:40] == [0.01] * 40
    assert rates[40] == pytest.approx(0.01 / 20 * (1 + math.cos(math.pi / 40)) / 2)
    assert rates[59] == pytest.approx(0.005) and rates[79] == pytest.approx(0.0, abs=1e-12)
    assert rates[40:60] != sorted(rates[40:60], reverse=True) and rates[59:] == sorted(rates[59:], reverse=True)


def test_errors(tokenizer, problems):
    model, generator = small_model(), torch.Generator()
    for options, words in (
        ({"reasoning_share": 1.1}, "reasoning_share is 1.1"),
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"check_every": 0}, "check_every is 0"),
        ({"schedule": "linear"}, "schedule is 'linear': choose constant or cosine"),
        ({"stop_at": 0.2}, "stop_at needs validation problems"),
    ):
        with pytest.raises(ValueError, match=words):
            cold_start(model, tokenizer, problems, generator=generator, **options)
