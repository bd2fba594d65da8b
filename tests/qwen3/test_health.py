"""The signals on the disk, and what they say in words."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, micro_model, settings

from grpo.qwen3.health import SIGNALS, SignalLog, diagnose, read_signals, sicknesses
from grpo.qwen3.trainer import Trainer

WELL = {
    "reward": 0.5,
    "zero_variance_share": 0.3,
    "entropy": 0.3,
    "kl": 0.05,
    "clip_fraction": 0.02,
    "gradient_norm": 1.0,
    "length": 20.0,
    "truncation_rate": 0.1,
    "ratio_max": 1.5,
    "loss": 0.01,
}


def run(steps, **changes):
    """A history: each signal a number, or a function of the step."""
    rows = []
    for step in range(1, steps + 1):
        row = {**WELL, **changes}
        rows.append({"step": step, **{name: value(step) if callable(value) else value for name, value in row.items()}})
    return rows


def test_a_healthy_run_has_nothing_to_report():
    assert diagnose([]) == []
    for steps in (1, 2, 4, 5, 10, 15, 40):
        assert diagnose(run(steps)) == []
    # It learns: surer of itself, further from the start, and shorter.
    learning = run(
        60,
        reward=lambda step: 0.3 + 0.01 * step,
        entropy=lambda step: 0.3 / step,
        kl=lambda step: 0.005 * step,
        zero_variance_share=lambda step: step / 61,
    )
    assert diagnose(learning) == []


def test_a_run_without_a_reference_is_no_sickness():
    assert diagnose(run(40, kl=None)) == []


@pytest.mark.parametrize("steps", [1, 8])
def test_everything_truncated(steps):
    (warning,) = diagnose(run(steps, truncation_rate=1.0, zero_variance_share=1.0, length=16.0, reward=0.0))
    assert "100% of the rollouts are truncated at 16 tokens, and all groups have zero variance" in warning
    assert "raise max_new_tokens" in warning
    (warning,) = diagnose(run(steps, truncation_rate=1.0))
    assert "zero variance" not in warning
    assert diagnose(run(steps, truncation_rate=0.99)) == []


def test_a_budget_that_ends_before_the_box_is_seen_at_the_first_step():
    """E2: reward, loss and gradient are all 0, without any error. With room to finish, the reward is above 0."""
    model, tokenizer = micro_model()
    reward = boxes_at_token_40
    for budget, sick in ((16, True), (64, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("grpo.qwen3.trainer.sample", scripted_sample)
            trainer = Trainer(model, tokenizer, PROBLEMS, reward, settings(max_new_tokens=budget))
            signals = trainer.step()
        assert (signals["truncation_rate"] == 1.0) is sick
        assert (signals["reward"] > 0) is not sick
        warnings = diagnose(trainer.history)
        if sick:
            assert signals["gradient_norm"] == 0.0 and signals["trained_rollouts"] == 0
            assert len(warnings) == 1 and "truncated at 16 tokens, and all groups have zero variance" in warnings[0]
        else:
            assert warnings == []


def scripted_sample(model, prompts, group_size, *, max_new_tokens, stop_ids, pad_id, **options):
    """Rollouts of a policy whose every second rollout boxes at token 40 and stops; the others stop without a box."""
    import torch

    from grpo.qwen3.sampler import Rollouts

    stop, digit, box, brace = min(stop_ids), 11, 7, 31
    rows = []
    for number in range(len(prompts) * group_size):
        written = [digit] * 39 + ([box, digit, brace] if number % 2 else [digit] * 3) + [stop]
        rows.append(written[:max_new_tokens])
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = torch.tensor([row + [pad_id] * (width - len(row)) for row in rows])
    prompt_ids = torch.tensor(prompts).repeat_interleave(group_size, dim=0)
    return Rollouts(
        prompt_ids=prompt_ids,
        prompt_mask=torch.ones_like(prompt_ids, dtype=torch.bool),
        completion_ids=ids,
        lengths=lengths,
        logprobs=torch.full(ids.shape, -3.0).masked_fill(torch.arange(width) >= lengths[:, None], 0.0),
        finished=torch.tensor([row[-1] == stop for row in rows]),
        group_size=group_size,
        prompt_index=torch.arange(len(prompts)).repeat_interleave(group_size),
    )


def boxes_at_token_40(text, truth, finished):
    return float(finished and "boxed" in text)


RECORDED = json.loads(Path(__file__).with_name("recorded_runs.json").read_text())


def recorded(name):
    """The history of a run of the tiny model after its cold start."""
    columns = RECORDED[name]
    return [
        {"step": step, **dict(zip(columns, values, strict=True))}
        for step, values in enumerate(zip(*columns.values(), strict=True), start=1)
    ]


def test_the_recorded_healthy_run_is_never_called_sick():
    history = recorded("recipe a, seed 0")
    assert len(history) == 150
    assert [steps for steps in range(1, 151) if diagnose(history[:steps])] == []


@pytest.mark.parametrize(
    ("run", "first"),
    [
        ("recipe a, seed 0, learning rate 5e-3", {"kl_runaway": 2, "no_variance": 6, "reward_collapse": 15}),
        ("recipe a, seed 0, learning rate 2e-3, no penalty", {"no_variance": 6, "reward_collapse": 15}),
        ("recipe a, seed 0, at most 10 tokens", {"truncated": 1, "no_variance": 2}),
    ],
)
def test_the_recorded_sick_runs_are_found_early(run, first):
    history, found = recorded(run), {}
    for steps in range(1, len(history) + 1):
        for name in sicknesses(history[:steps]):
            found.setdefault(name, steps)
    assert found == first


def test_all_groups_without_variance():
    (warning,) = diagnose(run(6, zero_variance_share=1.0, reward=0.0))
    assert "all groups have zero variance (mean reward 0.00)" in warning
    assert diagnose(run(6, zero_variance_share=lambda step: float(step > 2))) == []
    assert "zero variance" in diagnose(run(7, zero_variance_share=lambda step: float(step > 2)))[0]


def test_entropy_collapse_needs_a_reward_that_does_not_follow():
    sick = run(20, entropy=lambda step: 0.3 if step < 10 else 0.01)
    assert list(sicknesses(sick)) == ["entropy_collapse"]
    assert "from 0.300 to 0.0100 nats" in diagnose(sick)[0]
    assert diagnose(run(20, entropy=lambda step: 0.3 if step < 10 else 0.04)) == []
    assert diagnose(run(20, entropy=lambda step: 0.3 if step < 10 else 0.01, reward=lambda step: step / 20)) == []


def test_kl_runaway_by_level_and_by_jump():
    assert list(sicknesses(run(30, kl=lambda step: 1.5 if step > 20 else 0.3))) == ["kl_runaway"]
    assert "1.50 nats per token" in diagnose(run(30, kl=1.5))[0]
    jump = run(30, kl=lambda step: 0.6 if step > 25 else 0.03)
    assert list(sicknesses(jump)) == ["kl_runaway"]
    assert diagnose(run(30, kl=lambda step: 0.2 if step > 25 else 0.03)) == []
    # From next to nothing to very little is no runaway.
    assert diagnose(run(30, kl=lambda step: 0.05 if step > 25 else 1e-6)) == []


def test_reward_collapse_names_the_better_days():
    sick = run(40, reward=lambda step: 0.8 if step <= 20 else 0.1)
    assert list(sicknesses(sick)) == ["reward_collapse"]
    assert "0.10 over the last 5 steps, 0.80 around step 5" in diagnose(sick)[0]
    assert diagnose(run(40, reward=lambda step: 0.8 if step <= 20 else 0.45)) == []
    assert diagnose(run(40, reward=-1.0)) == []


def test_a_clip_that_takes_most_tokens():
    (warning,) = diagnose(run(8, clip_fraction=0.7))
    assert "switches off 70% of the tokens" in warning
    assert diagnose(run(8, clip_fraction=lambda step: 0.7 if step != 6 else 0.1)) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_numbers_that_are_not_finite_come_first_and_alone(value):
    history = [*run(12, zero_variance_share=1.0), {"step": 13, "loss": value, "gradient_norm": 2.0}]
    (warning,) = diagnose(history)
    assert warning.startswith("not finite in step 13: loss. Lower learning_rate")


def test_the_gravest_sickness_is_said_first():
    both = run(20, truncation_rate=1.0, zero_variance_share=1.0, clip_fraction=0.9)
    assert list(sicknesses(both)) == ["truncated", "mostly_clipped"]


def test_each_step_is_a_line_at_once(tmp_path):
    model, tokenizer = micro_model()
    trainer = Trainer(
        model, tokenizer, PROBLEMS, lambda text, truth, done: float(len(text)), settings(), out_dir=tmp_path / "run"
    )
    path = tmp_path / "run" / "metrics.jsonl"
    for step in (1, 2):
        signals = trainer.step()
        assert len(path.read_text().splitlines()) == step
    assert read_signals(path) == trainer.history
    assert set(signals) == set(SIGNALS) and signals["step"] == 2


def test_json_never_holds_nan(tmp_path):
    log = SignalLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "loss": float("nan"), "kl": None, "reward": float("inf"), "length": 2.0})
    assert json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail) == {
        "step": 1,
        "loss": None,
        "kl": None,
        "reward": None,
        "length": 2.0,
    }


@pytest.mark.parametrize("tail", ['{"step": 3, "rew', '{"step": 3, "reward": 0.5}', "{", "\n"])
def test_a_half_line_at_the_end_is_left_out_or_whole(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n' + tail)
    steps = [row["step"] for row in read_signals(path)]
    assert steps == ([1, 2, 3] if tail.endswith("}") else [1, 2])


def test_a_broken_line_in_the_middle_is_numbered(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match="line 2 is no JSON object with a step"):
        read_signals(path)
    path.write_text('{"step": 1}\n{"loss": 2}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_signals(path)


def test_a_resume_drops_what_came_after_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = SignalLog(path)
    assert log.resume(4) == [] and path.read_text() == ""
    for step in range(1, 7):
        log.append({"step": step})
    with path.open("a") as file:
        file.write('{"step": 7, "re')
    assert [row["step"] for row in log.resume(4)] == [1, 2, 3, 4]
    log.append({"step": 5})
    assert [row["step"] for row in read_signals(path)] == [1, 2, 3, 4, 5]
