"""Chapter 05: what students write and what a check says of it, references against the library, recorded claims."""

import json
from pathlib import Path

import numpy as np
import pytest

from grader import check
from grader.checking import run_check
from grader.exercises import chapter_05
from grader.exercises.chapter_05 import common, encode, mlp_grpo_gradient, paired_difference, read_run, train_mlp
from grpo.expressions import (
    TARGETS,
    TOKENS,
    MLPPolicy,
    compare,
    count_features,
    group_advantages,
    one_hot_features,
    token_loss,
    token_weights,
)
from grpo.expressions.game import PREFIXES
from grpo.expressions.per_token import PerTokenMLP, next_token_logprobs, per_token_policy, score_response

SEEDS = (0, 7)
STUDIES = Path(__file__).parents[2] / "data" / "studies"
BY_NAME = {exercise.name: exercise for exercise in chapter_05.EXERCISES}


def states(report):
    return [part.passed for part in report.parts]


def graded(function, seed=0):
    """The report of a function that has the name of its exercise."""
    return run_check(BY_NAME[function.__name__], function, seed)


# --- the exercises themselves ----------------------------------------------------------------------------------------


def test_the_nine_exercises_stand_in_the_order_of_the_story():
    assert list(BY_NAME) == [
        "encode",
        "mlp_forward",
        "logit_gradient",
        "mlp_backward",
        "mlp_grpo_gradient",
        "train_mlp",
        "paired_difference",
        "read_run",
        "held_out_split",
    ]
    assert {exercise.chapter for exercise in chapter_05.EXERCISES} == {common.CHAPTER}


@pytest.mark.parametrize("exercise", chapter_05.EXERCISES, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = (
        ".T @",
        "1 - hidden",
        "one_hot - p",
        "np.exp(",
        "np.tanh(",
        ".std(ddof",
        "tuple(sorted(",
        "return ",
        "-= learning_rate",
    )
    for text in texts:
        assert not any(code in text for code in given_away), text
    assert all(part.hint for part in exercise.parts)


@pytest.mark.parametrize("exercise", chapter_05.EXERCISES, ids=lambda exercise: exercise.name)
def test_the_parts_are_worth_three_to_six_points(exercise):
    assert 3 <= exercise.points <= 6 and len(exercise.mistakes) >= 4 and exercise.alternatives


# --- the references agree with the library ---------------------------------------------------------------------------


def test_encode_is_the_input_of_the_library_s_policy():
    for row, prefix in enumerate(PREFIXES):
        for column, target in enumerate(TARGETS):
            expected = np.concatenate([count_features()[row], one_hot_features(10)[column]])
            np.testing.assert_array_equal(encode.encode(list(prefix), target, list(TARGETS)), expected)


def test_forward_and_backward_are_the_library_s():
    policy = MLPPolicy(one_hot_features(10), [np.random.default_rng(0)])
    policy.parameters["b1"] += 0.3
    view = per_token_policy(policy)
    x = np.array([encode.encode(list(prefix), 17, list(TARGETS)) for prefix in PREFIXES[:9]])
    slopes = np.random.default_rng(1).normal(size=(9, len(TOKENS)))
    gradient = {name: np.zeros_like(value) for name, value in view.parameters.items()}
    for row, prefix in enumerate(PREFIXES[:9]):
        view.add_gradient(gradient, TARGETS.index(17), prefix, slopes[row])
    logits = [view.logits(TARGETS.index(17), prefix) for prefix in PREFIXES[:9]]
    np.testing.assert_allclose(common.mlp_forward(view.parameters, x), logits, atol=1e-12)
    for name, value in common.mlp_backward(view.parameters, x, slopes).items():
        np.testing.assert_allclose(value, gradient[name], atol=1e-12)


def test_the_gradient_of_a_batch_is_that_of_the_vectorised_policy():
    rngs = [np.random.default_rng(5)]
    policy = MLPPolicy(one_hot_features(10), rngs)
    reference = policy.frozen_copy()
    rollouts = policy.sample(None, 3, rngs)
    for value in policy.parameters.values():
        value += 0.6 * rngs[0].standard_normal(value.shape) / np.sqrt(value.shape[-1])
    policy.parameters_changed()
    advantages = rngs[0].normal(size=(1, 10, 3))
    weights = token_weights(rollouts.mask, rollouts.lengths)
    ref_logps = reference.token_logprobs(rollouts)
    loss = token_loss(policy.token_logprobs(rollouts), rollouts.logps, ref_logps, advantages, weights, 0.2, 0.3)
    assert 0.02 < (~loss.open_gate & rollouts.mask).sum() / rollouts.mask.sum()

    places = [(prompt, k) for prompt in range(10) for k in range(3)]
    lengths = rollouts.lengths[0]
    found = mlp_grpo_gradient.mlp_grpo_gradient(
        {name: value[0] for name, value in policy.parameters.items()},
        {name: value[0] for name, value in reference.parameters.items()},
        [prompt for prompt, _ in places],
        [[TOKENS[token] for token in rollouts.tokens[0][place][: lengths[place]]] for place in places],
        [rollouts.logps[0][place][: lengths[place]] for place in places],
        [advantages[0][place] for place in places],
        kl_coef=0.3,
    )
    for name, value in policy.gradient(rollouts, loss.coefficients).items():
        np.testing.assert_allclose(found[name], value[0], atol=1e-12)


def test_the_interval_is_the_library_s():
    rng = np.random.default_rng(2)
    for n in (1, 2, 20):
        values, baseline = rng.normal(size=n), rng.normal(size=n)
        expected = compare.paired_difference(values, baseline)
        mine = paired_difference.paired_difference(values, baseline)
        assert mine == pytest.approx((expected.mean, expected.low, expected.high))


def test_the_trained_policies_are_those_of_the_written_out_loop():
    for kwargs in ({}, {"inner_updates": 3, "kl_coef": 0.5}):
        ours = train_mlp.train_mlp([4, 9], 3, **kwargs)
        theirs = train_mlp._changed()([4, 9], 3, **kwargs)
        for name, value in ours.items():
            np.testing.assert_allclose(value, theirs[name], atol=1e-12)


# --- what students write ---------------------------------------------------------------------------------------------


def test_a_backward_pass_without_the_tanh_keeps_the_points_of_the_upper_layer():
    def mlp_backward(weights, x, logit_gradient):
        hidden = np.tanh(x @ weights["w1"].T + weights["b1"])
        below = logit_gradient @ weights["w2"]
        w1, w2 = np.einsum("nh,nd->hd", below, x), np.einsum("nv,nh->vh", logit_gradient, hidden)
        return {"w1": w1, "b1": below.sum(0), "w2": w2, "b2": logit_gradient.sum(0)}

    report = graded(mlp_backward)
    assert report.mistake == "tanh' left out"
    assert states(report) == [True, False, True, False]
    assert "the slope along" in str(report) and "yours is" in str(report)


def test_a_missing_gradient_is_named_by_its_key():
    def mlp_backward(weights, x, logit_gradient):
        found = common.mlp_backward(weights, x, logit_gradient)
        del found["b2"]
        return found

    assert "no gradient under the key 'b2'" in str(graded(mlp_backward))


def per_token_gradient(coefficient):
    """A student's token-by-token gradient; coefficient(a, ratio, delta, gate, kl_coef)."""

    def mlp_grpo_gradient(
        weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04
    ):  # fmt: skip
        n_prompts = weights["w1"].shape[1] - 5
        policy, reference = (PerTokenMLP(w, np.eye(n_prompts), count_features()) for w in (weights, ref_weights))
        gradient = {name: np.zeros_like(value) for name, value in weights.items()}
        for prompt, response, old, a in zip(prompts, responses, old_logps, advantages, strict=True):
            ref = score_response(reference, prompt, response)
            for t, token in enumerate(response):
                logps = next_token_logprobs(policy, prompt, response[:t])
                k = TOKENS.index(token)
                ratio, delta = np.exp(logps[k] - old[t]), ref[t] - logps[k]
                shut = (a > 0 and ratio > 1 + clip_eps) or (a < 0 and ratio < 1 - clip_eps)
                c = coefficient(a, ratio, delta, not shut, kl_coef) / (len(responses) * len(response))
                policy.add_gradient(gradient, prompt, response[:t], -c * (np.eye(6)[k] - np.exp(logps)))
        return gradient

    return mlp_grpo_gradient


@pytest.mark.parametrize("seed", SEEDS)
def test_the_readable_gradient_earns_everything(seed):
    right = per_token_gradient(lambda a, r, d, gate, beta: gate * a * r - beta * (1 - np.exp(d)))
    assert graded(right, seed).points == 6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gradient_without_its_gate_is_named(seed):
    report = graded(per_token_gradient(lambda a, r, d, gate, beta: a * r - beta * (1 - np.exp(d))), seed)
    assert report.mistake == "clip gate left out"
    assert states(report) == [True, False, True, False]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_penalty_on_good_rollouts_only_is_named(seed):
    report = graded(
        per_token_gradient(lambda a, r, d, gate, beta: gate * a * r - (a > 0) * beta * (1 - np.exp(d))), seed
    )
    assert report.mistake == "KL only on rewarded rollouts"


def loop(old="kept", reference="frozen", random=None):
    """A student's training loop. random: makes the generator of all draws (case E1 and C14)."""

    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        rngs = [np.random.default_rng(seed) for seed in seeds]
        policy = MLPPolicy(one_hot_features(10), rngs)
        ref = policy if reference == "the policy" else policy.frozen_copy()
        draws = rngs if random is None else [random(seed) for seed in seeds]
        for _ in range(steps):
            rollouts = policy.sample(None, 8, draws)
            advantages = group_advantages(chapter_reward(rollouts))
            weights = token_weights(rollouts.mask, rollouts.lengths, "sum")
            ref_logps = ref.token_logprobs(rollouts)
            for _ in range(inner_updates):
                new = policy.token_logprobs(rollouts)
                before = new.copy() if old == "refreshed" else rollouts.logps
                loss = token_loss(new, before, ref_logps, advantages, weights, 0.2, kl_coef, "k3_capped")
                gradient = policy.gradient(rollouts, loss.coefficients)
                for name in gradient:
                    policy.parameters[name] -= learning_rate * gradient[name]
                policy.parameters_changed()
        return policy.parameters

    return train_mlp


def chapter_reward(rollouts):
    return train_mlp.REWARD(rollouts)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_random_numbers_are_as_good(seed):
    assert graded(loop(random=lambda seed: np.random.default_rng([seed, 1])), seed).points == 5


def test_old_log_probs_that_are_refreshed_lose_the_part_about_the_clip():
    report = graded(loop(old="refreshed"))
    assert report.mistake == "old recomputed (ratio always 1)"
    assert states(report) == [True, True, False, True]


def test_a_reference_that_is_the_policy_loses_the_part_about_the_penalty():
    report = graded(loop(reference="the policy"))
    assert report.mistake == "reference trained along"
    assert states(report) == [True, True, True, False]


def test_weights_without_the_axis_of_the_seeds_are_explained():
    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        return {"w1": np.zeros((48, 15)), "b1": np.zeros(48), "w2": np.zeros((6, 48)), "b2": np.zeros(6)}

    report = graded(train_mlp)
    assert report.points == 0 and "it has shape (1, 48, 15)" in str(report)


def test_an_interval_of_single_seeds_is_named():
    def paired_difference(values, baseline):
        d = np.subtract(values, baseline)
        if np.isnan(d).any():
            raise ValueError("NaN")
        if len(d) == 1:
            return d[0], -np.inf, np.inf
        half = compare.student_t_quantile(len(d) - 1) * d.std(ddof=1)
        return d.mean(), d.mean() - half, d.mean() + half

    report = check(paired_difference, seed=0)
    assert report.mistake == "std for standard error"
    assert states(report) == [True, False, True, True]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_split_by_row_is_shown_a_leaking_group(seed):
    def held_out_split(numbers, share, rng):
        return rng.random(len(numbers)) < share

    report = graded(held_out_split, seed)
    assert not states(report)[1] and report.mistake == "split by row"


def test_readings_by_one_signal_are_not_enough():
    for signal, threshold, label in (("zero_variance_share", 0.8, "tied groups"), ("length", 3.9, "length collapse")):

        def reading(curves, signal=signal, threshold=threshold, label=label):
            beyond = curves[signal][-1] > threshold
            return label if beyond == (signal != "length") else "healthy"

        reading.__name__ = "read_run"
        assert graded(reading).points <= 1


def test_the_runs_to_read_are_clear_cases():
    for seed in range(3):
        for kind, runs in read_run._runs(seed).items():
            assert len(runs) >= 2
            for curves in runs[:2]:
                expected = "healthy" if kind in ("learning", "finished") else kind
                assert read_run.read_run(curves) == expected
                assert len({len(values) for values in curves.values()}) == 1 and len(curves["kl"]) >= 8


# --- what the chapter says of the recorded runs ----------------------------------------------------------------------


def study(name):
    return json.loads((STUDIES / f"{name}.json").read_text(encoding="utf-8"))


def ends(recorded, arm, signal="exact_success"):
    return np.array(recorded["arms"][arm]["end"][signal])


def against(recorded, arm, baseline, signal="exact_success"):
    return compare.paired_difference(ends(recorded, arm, signal), ends(recorded, baseline, signal))


def test_the_claims_about_baselines():
    recorded = study("baselines")
    standard = "group mean, std, token mean"
    assert against(recorded, "group mean, no std, token mean", standard).mean == pytest.approx(-0.20, abs=0.01)
    assert against(recorded, "group mean, no std, token mean, matched step", standard).verdict(0.05) == "equal"
    assert against(recorded, "global mean, std, token mean", standard).verdict(0.05) == "equal"
    for arm in ("global mean, no std", "running mean, no std"):
        same, matched = (against(recorded, f"{arm}, token mean{end}", standard) for end in ("", ", matched step"))
        assert same.mean == pytest.approx(-0.18, abs=0.01) and matched.mean == pytest.approx(-0.09, abs=0.01)
    sums = [arm for arm in recorded["arms"] if arm.endswith("token sum, matched step")]
    assert {against(recorded, arm, "group mean, std, token sum").verdict(0.05) for arm in sums} == {"undecided"}


def test_the_claims_about_the_penalty():
    recorded = study("no_kl")
    for average, more in (("mean", 0.17), ("sum", 0.13)):
        names = [f"beta {beta}, token {average}" for beta in ("0", "0.04")]
        drift = against(recorded, *names, signal="kl")
        assert drift.low > 0 and drift.share_above == pytest.approx(0.92, abs=0.01)
        assert drift.mean / ends(recorded, names[1], "kl").mean() == pytest.approx(more, abs=0.01)
        assert against(recorded, *names).mean > 0
    destroyed = [recorded["arms"][f"beta {beta}, token sum"]["destroyed"] for beta in ("0", "0.04", "0.1")]
    assert destroyed == [0, 5, 9]


def test_the_claims_about_the_four_penalties():
    recorded = study("kl_kinds")
    middle = ("token sum", "token sum, beta 0.1", "four inner updates")
    assert [recorded["arms"][f"k3, {case}"]["destroyed"] for case in middle] == [5, 9, 32]
    for case in middle:
        for kind in ("k2", "k3_capped"):
            assert recorded["arms"][f"{kind}, {case}"]["destroyed"] == 0
            gain = against(recorded, f"{kind}, {case}", f"no KL, {case}")
            assert gain.low > 0 and 0.05 < gain.mean < 0.09
    assert against(recorded, "k1, beta 0.3, 3 x step", "no KL, beta 0.3, 3 x step").mean == pytest.approx(
        -0.24, abs=0.01
    )


def test_the_claims_about_length():
    recorded = study("length_term")
    for weight in ("0.02", "0.1", "0.3"):
        assert ends(recorded, f"weight {weight}, plain, std").mean() == pytest.approx(0.10, abs=0.01)
        assert ends(recorded, f"weight {weight}, plain, std", "expected_length").mean() < 2.1
        gated, no_std = f"weight {weight}, gated, std", f"weight {weight}, plain, no std, matched step"
        assert against(recorded, gated, "weight 0, std").verdict(0.05) == "equal"
        assert against(recorded, no_std, "weight 0, no std, matched step").verdict(0.05) == "equal"


def test_the_claims_about_the_advice():
    rows = {(r["arm"], r["signal"]): r for r in study("advice_stalled")["comparisons"]}
    assert rows["slow, twice the step", "exact_success"]["mean"] == pytest.approx(0.22, abs=0.01)
    assert rows["slow, half the step", "exact_success"]["mean"] == pytest.approx(-0.15, abs=0.01)
    assert rows["stuck, group 32", "exact_success"]["verdict"] == "equal"
    negative = study("advice_negative_reward")
    held = negative["arms"]["length weight 2, beta 1"]
    assert max(held["curves"]["reward"]["mean"]) < 0 and np.mean(held["end"]["exact_success"]) < 0.1
    overshoot = study("advice_overshoot")
    for arm in ("running mean with the batch", "running mean before the batch", "group"):
        assert abs(against(overshoot, f"{arm}, first batch fails", arm).mean) < 0.0025


def test_the_claims_about_generalisation():
    arms = study("countdown")["arms"]
    last = {arm: np.mean(recorded["heldout_greedy"][-1]) for arm, recorded in arms.items()}
    assert last["numeric, held-out prompts"] == pytest.approx(0.83, abs=0.01)
    assert last["numeric, held-out numbers"] == pytest.approx(0.79, abs=0.01)
    assert last["one-hot, held-out prompts"] == pytest.approx(0.20, abs=0.01)
    assert np.mean(arms["one-hot, held-out prompts"]["train_greedy"][-1]) > 0.99
