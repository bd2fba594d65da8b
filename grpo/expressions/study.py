"""Runs the ablation studies and stores what came out, small enough to ship: chapter 05 plots it without recomputing.

    python -m grpo.expressions.study [NAME]... [--seeds N] [--folder FOLDER]

writes one JSON file per study (default: all of them, and "countdown", into data/studies). A file holds

    study, question, margin, command, seeds, policy, matched_rates
    arms         name -> settings, reward_weights, start and end (a number per seed), destroyed (a count), curves:
                 step, and for each signal its mean over seeds (for some also the 10 % and the 90 % quantile: low, high)
    comparisons  arm, baseline, signal, n (pairs), mean, low, high (95 % interval of the paired difference), verdict
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from grpo.checks import require_choice
from grpo.expressions.advantages import make_advantage
from grpo.expressions.compare import paired_difference
from grpo.expressions.experiment import default_settings, evaluation_dict, rounded, run_experiment
from grpo.expressions.studies import STUDIES
from grpo.expressions.verifier import RewardWeights

EVERY = 10
POLICY = "mlp"
N_SEEDS = 64
SECOND_STAGE = 200
WITH_BAND = ("exact_success", "greedy_success", "kl", "expected_length")
MEAN_ONLY = ("entropy", "reward", "zero_variance_share", "advantage_rms", "clip_fraction")
COMPARED = WITH_BAND


def matched_rates(seeds=range(N_SEEDS), token_average="mean"):
    """By how much each kind of advantage must lengthen its step to be as long as GRPO's.

    On the rewards of the standard run: the root mean square of the group advantage, over that of the other kind, both
    summed over all iterations and seeds.

    Returns: dict, kind -> factor on the learning rate.
    """
    kinds = ("group", "group_no_std", "global", "global_no_std", "running_mean")
    functions, totals = {kind: make_advantage(kind) for kind in kinds}, dict.fromkeys(kinds, 0.0)

    def watch(rewards):
        for kind, function in functions.items():
            totals[kind] += np.sqrt((function(rewards) ** 2).mean(axis=(1, 2))).sum()
        return functions["group"](rewards)

    settings = default_settings(POLICY, token_average=token_average)
    run_experiment(POLICY, settings, seeds, evaluate_every=0, advantage_function=watch)
    return {kind: float(totals["group"] / totals[kind]) for kind in kinds}


def run_arm(arm, seeds, rates):
    """Train one arm. rates: from `matched_rates`. Returns: Run, evaluated every 10 steps."""
    settings = default_settings(POLICY, **arm.settings)
    factor = rates[settings.advantage] if arm.rate == "matched" else arm.rate
    settings = replace(settings, learning_rate=settings.learning_rate * factor)
    then = None if arm.then is None else replace(settings, steps=SECOND_STAGE, **arm.then)
    parts = {"advantage_function": _after_a_failed_batch(settings.advantage)} if arm.first_batch_fails else {}
    return run_experiment(
        POLICY, settings, seeds, RewardWeights(**arm.weights), evaluate_every=EVERY, then=then, **parts
    )


def run_study(name, seeds=range(N_SEEDS), on_arm=None):
    """Run all arms of a study on the same seeds and compare them.

    Args:
        name: one of STUDIES.
        seeds: integers.
        on_arm: callable (name of the arm, Run), called after each.

    Returns: dict, as described at the top of the module.

    Raises: ValueError if the study is unknown.
    """
    require_choice(name, "study", STUDIES)
    study, seeds = STUDIES[name](), tuple(seeds)
    averages = {arm.settings.get("token_average", "mean") for arm in study.arms.values() if arm.rate == "matched"}
    rates = {average: matched_rates(seeds, average) for average in sorted(averages)}
    runs = {}
    for arm_name, arm in study.arms.items():
        runs[arm_name] = run_arm(arm, seeds, rates.get(arm.settings.get("token_average", "mean"), {}))
        if on_arm is not None:
            on_arm(arm_name, runs[arm_name])
    return {
        "study": name,
        "question": study.question,
        "margin": study.margin,
        "command": f"python -m grpo.expressions.study {name} --seeds {len(seeds)}",
        "policy": POLICY,
        "seeds": list(seeds),
        "matched_rates": {average: {k: rounded(v) for k, v in found.items()} for average, found in rates.items()},
        "arms": {arm_name: _arm_dict(study.arms[arm_name], run) for arm_name, run in runs.items()},
        "comparisons": [
            _comparison(arm_name, baseline, signal, runs, study)
            for arm_name, baseline in study.baselines.items()
            for signal in COMPARED
        ],
    }


def destroyed(run):
    """(S,) bool: seeds whose exact success ends below half of the best it had on the way."""
    return run.end.exact_success < 0.5 * run.curves["exact_success"].max(axis=0)


def run_countdown_study(n_seeds=20):
    """The generalisation experiment: numeric inputs and the one-hot control, both splits, and one long run."""
    from grpo.expressions.countdown import countdown_settings, run_countdown

    plans = {
        "numeric, held-out prompts": ("numeric", "split", {}),
        "one-hot, held-out prompts": ("one-hot", "split", {}),
        "numeric, held-out numbers": ("numeric", "split_by_numbers", {}),
        "numeric, held-out prompts, long": ("numeric", "split", {"steps": 2500, "prompts_per_step": 64}),
    }
    arms = {}
    for name, (inputs, split, changes) in plans.items():
        settings = countdown_settings(**changes)
        seeds = range(n_seeds if not changes else max(n_seeds // 4, 1))
        run = run_countdown(inputs, seeds, settings, split, evaluate_every=settings.steps // 10)
        arms[name] = {
            "inputs": inputs,
            "split": split,
            "settings": asdict(settings),
            "seeds": list(run.seeds),
            "steps": run.steps.tolist(),
            **{
                score: rounded(getattr(run, score), 4)
                for score in ("train_exact", "train_greedy", "heldout_exact", "heldout_greedy")
            },
        }
    return {
        "study": "countdown",
        "question": "Does a network share what it learns with prompts it was never trained on?",
        "command": f"python -m grpo.expressions.study countdown --seeds {n_seeds}",
        "arms": arms,
    }


def _after_a_failed_batch(kind):
    """The advantage function of a kind, whose first batch is scored as if every answer were wrong."""
    function, batches = make_advantage(kind), []

    def advantages(rewards):
        batches.append(None)
        # A wrong answer earns the format reward, the lowest there is.
        return function(np.full_like(rewards, RewardWeights().format) if len(batches) == 1 else rewards)

    return advantages


def _arm_dict(arm, run):
    curves = {"step": [EVERY * (row + 1) for row in range(len(run.curves["reward"]))]}
    for signal in (*WITH_BAND, *MEAN_ONLY):
        curve = run.curves[signal]
        curves[signal] = {"mean": rounded(curve.mean(axis=1), 3)}
        if signal in WITH_BAND:
            low, high = np.quantile(curve, (0.1, 0.9), axis=1)
            curves[signal] |= {"low": rounded(low, 3), "high": rounded(high, 3)}
    return {
        "settings": asdict(run.settings),
        "then": arm.then,
        "reward_weights": asdict(run.weights),
        "first_batch_fails": arm.first_batch_fails,
        "start": evaluation_dict(run.start, 3),
        "end": evaluation_dict(run.end, 4),
        "destroyed": int(destroyed(run).sum()),
        "curves": curves,
    }


def _comparison(name, baseline, signal, runs, study):
    run, other = runs[name], runs[baseline]
    chosen = np.ones(len(run.seeds), dtype=bool)
    if study.stalled_below is not None:
        chosen = other.curves["exact_success"][other.settings.steps // EVERY - 1] < study.stalled_below
    row = {"arm": name, "baseline": baseline, "signal": signal, "n": int(chosen.sum())}
    if chosen.sum() < 2:
        return {**row, "verdict": "undecided"}
    difference = paired_difference(getattr(run.end, signal)[chosen], getattr(other.end, signal)[chosen])
    numbers = {part: rounded(getattr(difference, part)) for part in ("mean", "low", "high", "share_above")}
    return {**row, **numbers, "verdict": difference.verdict(study.margin if signal.endswith("success") else 0.0)}


def main(arguments=None):
    """The command line: run studies, write files, print one line per arm."""
    parser = argparse.ArgumentParser(prog="python -m grpo.expressions.study", description="Run the ablation studies.")
    names = [*STUDIES, "countdown"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=None, help=f"default {N_SEEDS}, countdown 20")
    parser.add_argument("--folder", type=Path, default=Path("data/studies"))
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in names:
            parser.error(f"no study is called {name!r}; there are: {', '.join(names)}")
    if options.seeds is not None and options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}: paired differences need at least 2")

    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or names:
        if name == "countdown":
            data = run_countdown_study(options.seeds or 20)
        else:
            data = run_study(name, range(options.seeds or N_SEEDS), _print_arm)
        file = options.folder / f"{name}.json"
        file.write_text(json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"wrote {file} ({file.stat().st_size / 1000:.0f} kB)", flush=True)


def _print_arm(name, run):
    end = run.end.mean()
    print(
        f"{name}: exact {end['exact_success']:.3f} greedy {end['greedy_success']:.3f} KL {end['kl']:.2f} "
        f"length {end['expected_length']:.2f} destroyed {destroyed(run).sum()}/{len(run.seeds)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
