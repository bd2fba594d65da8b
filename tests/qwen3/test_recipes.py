"""The recipes: arms do what their names say, a broken-off study goes on, the shipped results add up."""

import json
import statistics
from pathlib import Path

import pytest
import torch

from grpo.qwen3 import recipes
from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.recipes import (
    CONTROLS,
    CURVES,
    MEASURED,
    RECIPES,
    NoBaseline,
    WatchedReward,
    arm_trainer,
    assemble,
    cold_started,
    curve_problems,
    main,
    run_arm,
    run_study,
)
from grpo.qwen3.rewards import RandomReward, boxed_reward
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.tokenizer import tiny_tokenizer

STUDIES = Path(__file__).parents[2] / "data" / "studies"
SMALL = {"prompts_per_step": 4, "group_size": 2, "steps": 4}


@pytest.fixture(scope="module")
def started():
    model, tokenizer, _ = cold_started("a", 0, steps=3, stop_at=None, batch_size=8)
    return model, tokenizer


@pytest.fixture
def quick(monkeypatch):
    """Ten problems where hundreds are used, and training that takes a blink."""
    monkeypatch.setattr(recipes, "curve_problems", lambda: load_arithmetic("validation")[:5])
    load = load_arithmetic
    monkeypatch.setattr(recipes, "load_arithmetic", lambda split: load(split)[:10])
    starts = []

    def start(recipe, seed, **changes):
        starts.append((recipe, seed))
        return cold_started(recipe, seed, steps=1, stop_at=None, batch_size=2)

    monkeypatch.setattr(recipes, "cold_started", start)
    return starts


def test_a_cold_start_depends_on_the_seed_only(started):
    model, _ = started
    again, _, result = cold_started("a", 0, steps=3, stop_at=None, batch_size=8)
    other, _, _ = cold_started("a", 1, steps=3, stop_at=None, batch_size=8)
    assert torch.equal(model.lm_head.weight, again.lm_head.weight) and result.steps == 3
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight)


def test_curves_use_validation_only():
    validation = {problem.id for problem in load_arithmetic("validation")}
    assert {problem.id for problem in curve_problems()} < validation and len(curve_problems()) == 249


def test_arms_are_what_their_names_say(started):
    model, tokenizer = started
    trainers = {arm: arm_trainer("a", arm, 3, model, tokenizer, steps=1) for arm in RECIPES["a"].arms}
    assert {arm for arm, trainer in trainers.items() if isinstance(trainer, NoBaseline)} == {"no baseline"}
    coin = trainers["random rewards"].reward.reward
    assert isinstance(coin, RandomReward)
    assert all(trainers[arm].reward.reward is boxed_reward for arm in trainers if arm != "random rewards")
    pairs = trainers["groups of 2"].settings
    assert pairs.group_size == 2
    assert all(trainer.settings.rollouts_per_step == 128 for trainer in trainers.values())
    assert all(trainer.settings.seed == 3 and trainer.settings.kl_coef == 0.02 for trainer in trainers.values())
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    assert trainers["no baseline"].advantages(rewards, None).tolist() == [1.0, 0.0, 1.0, 1.0]
    assert arm_trainer("b", "recipe b", 0, model, tokenizer).settings.learning_rate == 1e-4


def test_a_watched_reward_pays_one_thing_and_counts_another():
    watched = WatchedReward(lambda completion, truth, finished: 0.25)
    paid = [watched(rf"\boxed{{{answer}}}", "1", finished) for answer, finished in ((1, True), (1, False), (2, True))]
    assert paid == [0.25] * 3 and watched.take() == pytest.approx(1 / 3)
    watched(r"\boxed{1}", "1", True)
    assert watched.take() == 1.0


def test_points_of_a_curve(started, quick, monkeypatch):
    model, tokenizer = started
    weights = model.lm_head.weight.detach().clone()
    numbers = iter(range(1, 100))
    original = recipes.Trainer.step

    def step(self):
        return original(self) | {"length": float(next(numbers)), "cpu_seconds": 2.0}

    monkeypatch.setattr(recipes.Trainer, "step", step)
    seen = []
    problems = load_arithmetic("test")[:3]
    result = run_arm(
        "a", "recipe a", 0, model, tokenizer, every=2, test=problems, progress=lambda *now: seen.append(now), **SMALL
    )
    assert result["steps"] == [0, 2, 4]
    assert result["length"] == [1.0, 1.5, 3.5]  # the first batch, then means of the iterations since
    assert all(len(result[name]) == 3 for name in ("greedy", *CURVES))
    assert all(len(result[name]) == 2 for name in MEASURED)
    assert [step for step, _ in seen] == [0, 2, 4] and seen[1][1]["length"] == 1.5
    assert torch.equal(model.lm_head.weight, weights)  # a copy was trained


def test_a_study_goes_on_where_it_was_broken_off(quick, tmp_path):
    def run(seeds, arms):
        said = []
        path = run_study("a", seeds, arms, tmp_path / "work", tmp_path / "out", said.append, **SMALL)
        return json.loads(path.read_text()), [line.split(":")[0] for line in said]

    study, said = run(1, ["recipe a"])
    assert said == ["recipe a, seed 0, start", "recipe a, seed 0, recipe a"] and len(quick) == 1
    assert list(study["arms"]) == ["recipe a"] and study["seeds"] == [0]
    again, said = run(1, ["recipe a"])
    assert again == study and said == [] and len(quick) == 1
    more, said = run(2, ["recipe a"])
    assert said == ["recipe a, seed 1, start", "recipe a, seed 1, recipe a"]
    assert more["arms"]["recipe a"]["greedy"][0] == study["arms"]["recipe a"]["greedy"][0]
    more, said = run(1, ["random rewards"])
    assert said == ["recipe a, seed 0, random rewards"]
    assert more["arms"]["recipe a"]["seeds"] == [0, 1] and more["arms"]["random rewards"]["seeds"] == [0]
    assert more["cold_start"][0]["losses"] and more["forced_think"]["test_greedy"] == [0.0, 0.0]


def test_summary_is_minimum_median_maximum(tmp_path):
    for seed, values in enumerate(((0.1, 0.9), (0.5, 0.7), (0.2, 0.8))):
        start = {"steps": 1, "losses": [1.23456], "checks": [], "reached": True}
        start["controls"] = {name: dict.fromkeys(MEASURED, values[0]) for name in CONTROLS}
        (tmp_path / f"b-start-{seed}.json").write_text(json.dumps(start))
        arm = {"steps": [0, 10], "greedy": [0.0, 1.0]} | {key: list(values) for key in MEASURED}
        (tmp_path / f"b-recipe_b-{seed}.json").write_text(json.dumps(arm))
    study = assemble("b", tmp_path)
    assert study["summary"]["recipe b"]["test_greedy"] == {"before": [0.1, 0.2, 0.5], "after": [0.7, 0.8, 0.9]}
    assert study["summary"]["forced_think"]["test_sampled"] == [0.1, 0.2, 0.5]
    assert study["arms"]["recipe b"]["test_greedy"] == [[0.1, 0.9], [0.5, 0.7], [0.2, 0.8]]
    assert study["cold_start"][0]["losses"] == [1.2346] and study["steps"] == [0, 10]


def test_errors(started):
    with pytest.raises(ValueError, match="recipe is 'c': choose one of a, b"):
        cold_started("c", 0)
    with pytest.raises(ValueError, match="recipe b has recipe b"):
        arm_trainer("b", "random rewards", 0, *started)


def test_the_command(quick, monkeypatch, tmp_path, capsys):
    calls = []
    monkeypatch.setattr(recipes, "run_study", lambda *arguments: calls.append(arguments) or tmp_path / "x.json")
    main(["--recipe", "b", "--seeds", "2", "--arms", "recipe b,other", "--folder", "f", "--work", "w"])
    main(["--recipe", "a"])
    assert calls == [("b", 2, ["recipe b", "other"], "w", "f"), ("a", 5, None, "runs/recipes", "data/studies")]
    assert "x.json" in capsys.readouterr().out


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_shipped_study_is_complete_and_adds_up(recipe):
    path = STUDIES / f"qwen3_recipe_{recipe}.json"
    assert path.stat().st_size < 150_000
    study = json.loads(path.read_text())
    chosen = RECIPES[recipe]
    assert study["seeds"] == [0, 1, 2, 3, 4]
    assert list(study["arms"]) == [arm for arm in chosen.arms if arm in study["arms"]]
    assert {"a": {"recipe a", "random rewards"}, "b": {"recipe b"}}[recipe] <= study["arms"].keys()
    assert GRPOSettings.from_dict(study["settings"]) == chosen.settings  # settings that came later have their defaults
    assert study["cold_start_settings"] == chosen.cold_start
    points = len(study["steps"])
    assert study["steps"] == list(range(0, chosen.settings.steps + 1, 10))
    for arm, values in study["arms"].items():
        seeds = len(values["seeds"])
        assert values["settings"] == chosen.arms[arm] and seeds >= 3
        for name in ("greedy", *CURVES):
            assert len(values[name]) == seeds and {len(row) for row in values[name]} == {points}
        for name in MEASURED:
            for side, when in enumerate(("before", "after")):
                column = [pair[side] for pair in values[name]]
                due = [min(column), statistics.median(column), max(column)]
                assert study["summary"][arm][name][when] == pytest.approx(due, abs=1e-3)
    # All arms of a seed begin with the same policy.
    first, *others = (values["test_greedy"] for values in study["arms"].values())
    for other in others:
        assert [pair[0] for pair in other] == [pair[0] for pair in first[: len(other)]]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_shipped_cold_start_begins_as_it_does_here(recipe):
    study = json.loads((STUDIES / f"qwen3_recipe_{recipe}.json").read_text())
    losses = []

    def watch(step, loss):
        losses.append(loss)
        if step == 16:
            raise InterruptedError  # the schedule of b depends on the number of steps: do not ask for fewer

    with pytest.raises(InterruptedError):
        cold_started(recipe, 2, watch)
    assert losses[::15] == pytest.approx(study["cold_start"][2]["losses"][:2], abs=0.02)


def test_the_recipes_fit_the_task():
    assert len(tiny_tokenizer()(load_arithmetic("train")[-1].reasoning)["input_ids"]) < 26
    assert RECIPES["a"].settings.max_new_tokens == RECIPES["b"].settings.max_new_tokens == 26
