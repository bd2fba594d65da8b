"""Chapter 03: what students write and what a check says of it, with the inputs that broke other systems."""

import math

import numpy as np
import pytest

import grpo
from grader import check
from grader.exercises import chapter_03
from grader.exercises.chapter_03.common import CHAPTER

SEEDS = (0, 7)
BY_NAME = {exercise.name: exercise for exercise in chapter_03.EXERCISES}


def states(report):
    return [part.passed for part in report.parts]


def names(report):
    return [part.mistake for part in report.parts]


# --- the exercises themselves --------------------------------------------------------------------------------


def test_the_nine_exercises_stand_in_the_order_of_the_story():
    assert list(BY_NAME) == [
        "rollout_ratio",
        "clipped_surrogate",
        "kl_k3",
        "grpo_loss",
        "sample_group",
        "policy_gradient_analytic",
        "finite_diff_gradient",
        "toy_loss_gradient",
        "toy_grpo_step",
    ]
    assert {exercise.chapter for exercise in chapter_03.EXERCISES} == {CHAPTER}


@pytest.mark.parametrize("exercise", chapter_03.EXERCISES, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = ("expm1(", "np.minimum(", "np.clip(", "np.exp(np.sum", "onehot -", "rho > 1", "1 - np.exp", "return ")
    for text in texts:
        assert not any(code in text for code in given_away), text
    assert all(part.hint for part in exercise.parts)


@pytest.mark.parametrize("exercise", chapter_03.EXERCISES, ids=lambda exercise: exercise.name)
def test_the_first_call_is_small_enough_for_a_report(exercise):
    first = exercise.parts[0].calls(np.random.default_rng(0))[0]
    assert sum(np.size(value) for value in first.args) <= 20


# --- rollout_ratio: which ratio is meant (case D5) ----------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("reading", "mistake", "points"),
    [
        (lambda d: np.exp(d.mean()), "mean of log-ratios (GSPO)", 1),
        (lambda d: np.exp(d), "one ratio per token", 0),
        (lambda d: np.exp(d).mean(), "mean of token ratios", 0),
    ],
)
def test_another_reading_of_the_ratio_is_named(reading, mistake, points, seed):
    def rollout_ratio(new_logps, old_logps):
        return reading(np.asarray(new_logps) - np.asarray(old_logps))

    report = check(rollout_ratio, seed=seed)
    assert report.points == points
    assert report.mistake == mistake
    assert report.parts[-1].mistake == "shapes left to numpy"


def test_the_worked_number_is_the_rollout_sum_of_case_d5():
    first = BY_NAME["rollout_ratio"].parts[0].calls(np.random.default_rng(0))[0]
    log_ratios = first.args[0] - first.args[1]
    assert log_ratios == pytest.approx([0.3, -0.1])
    surrogate = grpo.clipped_surrogate
    assert surrogate(grpo.rollout_ratio(*first.args), 1.0) == pytest.approx(1.2)
    assert surrogate(grpo.token_ratios(*first.args), 1.0).mean() == pytest.approx(1.0524, abs=5e-5)
    assert surrogate(grpo.sequence_mean_ratio(*first.args), 1.0) == pytest.approx(1.1052, abs=5e-5)


def test_a_quotient_of_probabilities_loses_only_the_long_rollouts():
    def rollout_ratio(new_logps, old_logps):
        if new_logps.ndim != 1 or new_logps.shape != old_logps.shape:
            raise ValueError("shapes")
        return math.exp(sum(new_logps)) / math.exp(sum(old_logps))

    report = check(rollout_ratio, seed=1)
    assert states(report) == [True, True, False, True]


@pytest.mark.parametrize("seed", (0, 7, 11))
def test_a_clipped_ratio_is_shown_with_the_call_that_it_belongs_to(seed):
    def rollout_ratio(new_logps, old_logps):
        if new_logps.shape != old_logps.shape:
            raise ValueError("shapes")
        return np.clip(np.exp(np.sum(new_logps - old_logps)), 0.8, 1.2)

    report = check(rollout_ratio, seed=seed)
    assert report.mistake == "clipped already"
    assert states(report) == [False, False, False, True]
    part = BY_NAME["rollout_ratio"].parts[1]
    place, sentence = part.holds([1.0, 1.2, 0.8], part.calls(np.random.default_rng(seed)))
    assert place == 1
    assert "1.2 here and 0.8" in sentence


# --- clipped_surrogate: the four corners (cases D3 and C13) --------------------------------------------------


def test_the_four_corners_of_case_d3_are_the_first_calls():
    good, bad = (part.calls(np.random.default_rng(0))[:2] for part in BY_NAME["clipped_surrogate"].parts[:2])
    corners = {(c.args[0], c.args[1]): float(grpo.clipped_surrogate(*c.args)) for c in [*good, *bad]}
    assert corners == {
        (2.0, 1.0): pytest.approx(1.2),
        (0.5, 1.0): 0.5,
        (2.0, -1.0): -2.0,
        (0.5, -1.0): pytest.approx(-0.8),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_min_before_multiplying_keeps_the_points_for_good_rollouts(seed):
    def clipped_surrogate(ratio, advantage, eps=0.2):
        return np.minimum(ratio, np.clip(ratio, 1 - eps, 1 + eps)) * advantage

    report = check(clipped_surrogate, seed=seed)
    assert report.mistake == "min before multiplying"
    assert states(report)[:2] == [True, False]


@pytest.mark.parametrize("seed", (0, 7, 11))
@pytest.mark.parametrize(
    ("formula", "mistake", "points"),
    [
        (lambda r, a, e: np.minimum(r * a, np.clip(r, 1 / (1 + e), 1 + e) * a), "lower limit 1/(1 + eps)", 2),
        (lambda r, a, e: np.minimum(r * a, np.clip(r * a, 1 - e, 1 + e)), "clip on the product", 0),
        (lambda r, a, e: np.clip(r * a, 1 - e, 1 + e), "only the product, clipped", 0),
    ],
)
def test_other_ranges_earn_the_same_with_every_seed(formula, mistake, points, seed):
    def clipped_surrogate(ratio, advantage, eps=0.2):
        return formula(ratio, advantage, eps)

    report = check(clipped_surrogate, seed=seed)
    assert (report.mistake, report.points) == (mistake, points)


def test_minus_the_maximum_of_two_losses_is_accepted():
    def clipped_surrogate(ratio, advantage, eps=0.2):
        return -np.maximum(-(ratio * advantage), -(np.clip(ratio, 1 - eps, 1 + eps) * advantage))

    assert check(clipped_surrogate, seed=3).points == 5


def test_plain_min_and_max_lose_only_the_part_with_arrays():
    def clipped_surrogate(ratio, advantage, eps=0.2):
        return min(ratio * advantage, max(1 - eps, min(ratio, 1 + eps)) * advantage)

    assert states(check(clipped_surrogate, seed=3)) == [True, True, False]


# --- kl_k3 (cases D4 and C11) --------------------------------------------------------------------------------


def test_the_first_call_is_case_d4():
    first = BY_NAME["kl_k3"].parts[0].calls(np.random.default_rng(0))[0].args[0]
    assert first == pytest.approx(-0.6931, abs=5e-5)
    assert grpo.kl_k3(first) == pytest.approx(0.1931, abs=5e-5)
    assert grpo.kl_k3(-first) == pytest.approx(0.3069, abs=5e-5)
    pair = BY_NAME["kl_k3"].parts[1].calls(np.random.default_rng(0))[0].args[0]
    assert grpo.kl_k3(pair).mean() == pytest.approx(0.14384, abs=5e-6)
    assert grpo.kl_k3(pair).mean() == pytest.approx(grpo.categorical_kl([0.5, 0.5], [0.25, 0.75]))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("formula", "mistake"),
    [
        (lambda d: np.exp(-d) + d - 1, "delta the wrong way round"),
        (lambda d: -d, "k1"),
        (lambda d: 0.5 * d * d, "k2"),
        (lambda d: np.exp(d) - 1, "delta not subtracted"),
        (lambda d: np.exp(d) - d - 1, "naive exp"),
        (lambda d: np.exp(d) - 1 - d, ""),
        (lambda d: np.expm1(np.minimum(d, 80)) - np.minimum(d, 80) - 1, "1 subtracted twice"),
        (lambda d: np.expm1(d) - d - 1, "1 subtracted twice, and no limit"),
        (lambda d: np.expm1(np.maximum(d, 80)) - np.maximum(d, 80), "limited from below"),
        (lambda d: np.maximum(np.exp(d) - d - 1, 0), "negative values cut off, and no limit"),
    ],
)
def test_other_formulas_are_named(formula, mistake, seed):
    report = check(formula, exercise="kl_k3", seed=seed)
    assert report.points < report.max_points
    assert not mistake or mistake in names(report)


def test_the_formula_on_paper_earns_half_and_shows_the_delta_at_which_it_fails():
    def kl_k3(delta):
        return np.exp(delta) - delta - 1

    report = check(kl_k3, seed=0)
    assert states(report) == [True, True, False, False]
    assert "below 0" in report.parts[2].evidence.sentence
    assert "2e-09" in report.parts[2].evidence.call


@pytest.mark.parametrize("seed", (0, 7, 11))
@pytest.mark.parametrize("hide", [np.abs, lambda k3: np.maximum(k3, 0), lambda k3: np.where(k3 < 0, 0, k3)])
def test_hiding_the_sign_does_not_bring_the_digits_back(hide, seed):
    def kl_k3(delta):
        delta = np.minimum(delta, 80)
        return hide(np.exp(delta) - delta - 1)

    report = check(kl_k3, seed=seed)
    assert states(report) == [True, True, False, True]
    assert "the digits got lost" in report.parts[2].evidence.sentence


def test_one_point_three_times_k3_does_not_pass():
    assert check(lambda delta: 1.3 * grpo.kl_k3(delta), exercise="kl_k3", seed=0).points < 4


# --- grpo_loss (cases D1, C12 and C15) -----------------------------------------------------------------------


def _loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    surrogate = np.minimum(ratios * advantages, np.clip(ratios, 1 - clip_eps, 1 + clip_eps) * advantages)
    return -surrogate.mean() + kl_coef * (np.expm1(deltas) - deltas).mean()


def test_a_right_formula_that_broadcasts_loses_one_point_and_hears_why():
    report = check(_loss, exercise="grpo_loss", seed=0)
    assert states(report) == [True, True, False]
    assert report.mistake == "shapes not checked"


def test_the_broadcast_that_averages_to_nothing():
    advantages = np.array([0.866, 0.866, -0.866, -0.866])
    assert _loss(np.ones(4), advantages[:, None], np.zeros(4)) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="shape"):
        grpo.grpo_loss(np.ones(4), advantages[:, None], np.zeros(4))


def test_tables_of_one_shape_are_told_from_shapes_that_differ():
    def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
        if not ratios.shape == advantages.shape == deltas.shape:
            raise ValueError("shapes")
        return _loss(ratios, advantages, deltas, clip_eps, kl_coef)

    report = check(grpo_loss, seed=0)
    assert states(report) == [True, True, False]
    assert report.mistake == "tables accepted"


@pytest.mark.parametrize("seed", SEEDS)
def test_k3_of_the_mean_delta_is_named(seed):
    def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
        loss = grpo.grpo_loss(ratios, advantages, deltas, clip_eps)
        return loss + kl_coef * grpo.kl_k3(np.mean(deltas))

    report = check(grpo_loss, seed=seed)
    assert report.mistake == "k3 of the mean delta"
    assert states(report) == [True, False, True]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_penalty_that_skips_groups_without_signal_is_named_and_shown(seed):
    def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
        loss = grpo.grpo_loss(ratios, advantages, deltas, clip_eps, kl_coef)
        return 0.0 if not np.any(advantages) else loss

    report = check(grpo_loss, seed=seed)
    assert report.mistake == "KL skipped without a signal"
    assert states(report) == [True, False, True]
    assert "advantages are all 0" in report.parts[1].evidence.sentence


def test_the_wrong_sign_of_the_surrogate_keeps_the_points_for_the_penalty():
    def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
        return grpo.grpo_loss(ratios, advantages, deltas, clip_eps, kl_coef) - 2 * grpo.grpo_loss(
            ratios, advantages, deltas, clip_eps
        )

    report = check(grpo_loss, seed=4)
    assert report.mistake == "loss sign"
    assert states(report) == [False, True, True]


# --- sample_group --------------------------------------------------------------------------------------------


def _choice(logits, group_size, rng):
    return rng.choice(len(logits), size=group_size, p=grpo.softmax(logits))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("sampler", "mistake"),
    [
        (lambda x, n, rng: [int(np.argmax(x))] * n, "argmax"),
        (lambda x, n, rng: _choice(x, n, np.random.default_rng(42)), "reseeded inside"),
        (
            lambda x, n, rng: [int(_choice(x, 1, np.random.default_rng(42))[0]) for _ in range(n)],
            "reseeded in the loop (all rollouts equal)",
        ),
        (lambda x, n, rng: [rng.integers(len(x)) for _ in range(n)], "uniform"),
        (lambda x, n, rng: _choice(grpo.softmax(x), n, rng), "softmax twice"),
        (lambda x, n, rng: rng.choice(len(x), n, p=x), "softmax missing"),
        (lambda x, n, rng: [rng.choice(len(x), p=x) for _ in range(n)], "softmax missing"),
        (lambda x, n, rng: rng.choice(len(x), n, replace=False, p=grpo.softmax(x)), "without replacement"),
    ],
)
def test_samplers_are_named_although_their_draws_are_random(sampler, mistake, seed):
    assert check(sampler, exercise="sample_group", seed=seed).mistake == mistake


def test_a_right_sampler_is_not_failed_by_chance():
    def sample_group(logits, group_size, rng):
        noise = -np.log(-np.log(rng.random((group_size, len(logits)))))
        return (np.asarray(logits) + noise).argmax(axis=1)

    assert all(check(sample_group, seed=seed).points == 4 for seed in range(60))


# --- policy_gradient_analytic --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_p_is_right_for_one_complete_group_only(seed):
    def policy_gradient_analytic(logits, actions, advantages):
        gradient = np.zeros(len(logits))
        for action, advantage in zip(actions, advantages, strict=True):
            gradient[action] += advantage / len(actions)
        return gradient

    report = check(policy_gradient_analytic, seed=seed)
    assert report.mistake == 'no "- p"'
    assert states(report) == [True, False, False]


def test_repeated_answers_that_numpy_adds_once_are_named():
    def policy_gradient_analytic(logits, actions, advantages):
        gradient = -grpo.softmax(logits) * np.sum(advantages)
        gradient[actions] += advantages
        return gradient / len(actions)

    report = check(policy_gradient_analytic, seed=5)
    assert report.mistake == "repeated answers counted once"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("minus", "centre", "mistake"),
    [
        (grpo.log_softmax, False, "log-probs for probabilities"),
        (grpo.softmax, True, "advantages centred again"),
    ],
)
def test_slips_that_cancel_in_a_complete_group_are_named(minus, centre, mistake, seed):
    def policy_gradient_analytic(logits, actions, advantages):
        weights = advantages - advantages.mean() if centre else advantages
        rows = np.eye(len(logits))[actions] - minus(logits)
        return (weights[:, None] * rows).mean(axis=0)

    report = check(policy_gradient_analytic, seed=seed)
    assert report.mistake == mistake
    assert states(report)[:2] == [True, False]


# --- finite_diff_gradient ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_stays_an_integer_loses_one_point_and_is_named(seed):
    def finite_diff_gradient(f, x, h=1e-5):
        gradient = np.zeros_like(x)
        for i in range(len(x)):
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            gradient[i] = (f(up) - f(down)) / (2 * h)
        return gradient

    report = check(finite_diff_gradient, seed=seed)
    assert report.mistake == "whole numbers cut off"
    assert states(report) == [True, True, False]


def test_an_x_that_is_not_put_back_is_named_and_the_change_noted():
    def finite_diff_gradient(f, x, h=1e-5):
        gradient = []
        for i in range(len(x)):
            x[i] += h
            up = f(x)
            x[i] -= 2 * h
            gradient.append((up - f(x)) / (2 * h))
        return gradient

    report = check(finite_diff_gradient, seed=2)
    assert report.mistake == "x not put back"
    assert any("`x`" in note for note in report.notes)


@pytest.mark.parametrize("seed", (0, 7, 11))
@pytest.mark.parametrize(
    ("slope", "mistake", "passed"),
    [
        (lambda f, x, e, h: (f(x + e) - f(x - e)) / 2 * h, "brackets missing around 2 * h", [False, False, False]),
        (lambda f, x, e, h: (f(x + e) - f(x)) / h, "forward difference", [True, False, True]),
        (lambda f, x, e, h: (f(x + e / h * 1e-5) - f(x - e / h * 1e-5)) / 2e-5, "h ignored", [True, False, True]),
        # Five points: nearer to the derivative, and no step is ignored.
        (
            lambda f, x, e, h: (8 * (f(x + e) - f(x - e)) - f(x + 2 * e) + f(x - 2 * e)) / (12 * h),
            "",
            [True, False, True],
        ),
    ],
)
def test_each_slip_of_a_difference_costs_its_own_part(slope, mistake, passed, seed):
    def finite_diff_gradient(f, x, h=1e-5):
        return [slope(f, x, h * direction, h) for direction in np.eye(len(x))]

    report = check(finite_diff_gradient, seed=seed)
    assert report.mistake == mistake
    assert states(report) == passed


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_that_are_never_taken_back_add_up(seed):
    def finite_diff_gradient(f, x, h=1e-5):
        up, down, gradient = x.astype(float), x.astype(float), []
        for i in range(len(x)):
            up[i] += h
            down[i] -= h
            gradient.append((f(up) - f(down)) / (2 * h))
        return gradient

    assert check(finite_diff_gradient, seed=seed).mistake == "steps add up"


# --- toy_loss_gradient (cases D1, D2 and E1) ------------------------------------------------------------------


def test_case_d1_loss_zero_and_a_gradient_is_the_first_call():
    first = BY_NAME["toy_loss_gradient"].parts[0].calls(np.random.default_rng(0))[0]
    assert grpo.toy_loss(*first.args) == pytest.approx(0, abs=1e-12)
    assert grpo.toy_loss_gradient(*first.args) == pytest.approx([-0.35355, 0.35355], abs=1e-5)
    second_step = BY_NAME["toy_loss_gradient"].parts[1].calls(np.random.default_rng(0))[0]
    assert not grpo.toy_loss_gradient(*second_step.args).any()


def _toy_gradient(slope_of):
    def toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
        p = grpo.softmax(logits)
        new = np.log(p)[actions]
        slope = slope_of(advantages, np.exp(new - old_logps), ref_logps - new, clip_eps, kl_coef)
        return -(slope @ (np.eye(len(p))[actions] - p)) / len(actions)

    return toy_loss_gradient


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("slope", "mistake", "passed"),
    [
        (lambda a, r, d, e, b: a * r - b * (1 - np.exp(d)), "clip gate left out", [True, False, True, False]),
        (
            lambda a, r, d, e, b: a * np.clip(r, 1 - e, 1 + e) - b * (1 - np.exp(d)),
            "clipped ratio as coefficient",
            [True, False, True, False],
        ),
        (lambda a, r, d, e, b: a - b * (1 - np.exp(d)), "old recomputed (ratio always 1)", [True, False, True, False]),
        (lambda a, r, d, e, b: (abs(r - 1) <= e) * a * r + b * np.expm1(d), "gate blind to the sign of A", None),
        (
            lambda a, r, d, e, b: grpo.clip_gate(r, a, e) * a * r + b * np.exp(d),
            "KL pull at the reference",
            [True, True, False, False],
        ),
    ],
)
def test_slopes_by_hand_are_named_and_the_other_half_is_paid(slope, mistake, passed, seed):
    report = check(_toy_gradient(slope), exercise="toy_loss_gradient", seed=seed)
    assert report.mistake == mistake
    assert passed is None or states(report) == passed


@pytest.mark.parametrize("seed", SEEDS)
def test_log_probs_picked_a_second_time_are_named(seed):
    def toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
        return grpo.toy_loss_gradient(logits, actions, advantages, old_logps[actions], ref_logps, clip_eps, kl_coef)

    report = check(toy_loss_gradient, seed=seed)
    assert report.mistake == "old log-probs indexed by the actions"
    assert states(report)[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mean_over_the_unclipped_rollouts_is_named(seed):
    def toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
        new = grpo.log_softmax(logits)[actions]
        ratios = np.exp(new - old_logps)
        keep = grpo.clip_gate(ratios, advantages, clip_eps)
        slopes = (advantages * ratios + kl_coef * np.expm1(ref_logps - new))[keep]
        return -(slopes @ (np.eye(len(logits))[actions] - grpo.softmax(logits))[keep]) / keep.sum()

    report = check(toy_loss_gradient, seed=seed)
    assert report.mistake == "mean over unclipped rollouts"
    assert states(report) == [True, False, True, False]


def test_no_text_of_a_report_uses_a_symbol_that_the_notebook_does_not():
    exercise = BY_NAME["toy_loss_gradient"]
    texts = [exercise.hint, *(part.says + part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    assert not any("rho" in text for text in texts)


# --- toy_grpo_step (case E1) ----------------------------------------------------------------------------------


def test_case_e1_a_second_step_changes_nothing_unless_old_is_refreshed():
    zero, pair, rewards = np.zeros(2), np.array([0, 1]), np.array([1.0, 0.0])
    once = grpo.toy_grpo_step(zero, zero, zero, pair, rewards, learning_rate=1.0, advantage_eps=0.0)
    assert once == pytest.approx([0.35355, -0.35355], abs=1e-5)
    assert grpo.softmax(once)[0] == pytest.approx(0.6698, abs=5e-5)
    again = grpo.toy_grpo_step(once, zero, zero, pair, rewards, learning_rate=1.0, advantage_eps=0.0)
    assert np.array_equal(again, once)

    def refreshed(logits, ref_logits, old_logits, *rest, **settings):
        return grpo.toy_grpo_step(logits, ref_logits, logits, *rest, **settings)

    report = check(refreshed, exercise="toy_grpo_step", seed=0)
    assert report.mistake == "old refreshed (ratio always 1)"
    assert states(report) == [True, False, True, True]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("swap", "mistake"),
    [
        (lambda new, ref, old: (new, old, old), "reference = old"),
        (lambda new, ref, old: (new, new, old), "no penalty (reference trained along, or KL forgotten)"),
        (lambda new, ref, old: (new, old, ref), "old and reference swapped"),
    ],
)
def test_one_variable_for_two_policies_is_named(swap, mistake, seed):
    def toy_grpo_step(logits, ref_logits, old_logits, *rest, **settings):
        return grpo.toy_grpo_step(*swap(logits, ref_logits, old_logits), *rest, **settings)

    report = check(toy_grpo_step, seed=seed)
    assert 0 < report.points < report.max_points
    assert report.mistake == mistake


def test_uphill_instead_of_downhill_keeps_one_point():
    def toy_grpo_step(logits, *rest, **settings):
        return 2 * logits - grpo.toy_grpo_step(logits, *rest, **settings)

    report = check(toy_grpo_step, seed=0)
    assert report.mistake == "ascent instead of descent"
    assert states(report) == [False, False, False, True]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("step", "mistake"),
    [
        (lambda x, a, old, ref, lr, eps, kl, n: (grpo.log_softmax(old), grpo.log_softmax(ref), lr, kl, eps),
         "clip_eps and kl_coef exchanged"),
        (lambda x, a, old, ref, lr, eps, kl, n: (grpo.log_softmax(old), grpo.log_softmax(ref), lr * n, eps, kl),
         "step times the group size"),
        (lambda x, a, old, ref, lr, eps, kl, n: (old, ref, lr, eps, kl),
         "old and reference logits taken for log-probs"),
    ],
)  # fmt: skip
def test_slips_in_handing_over_are_named(step, mistake, seed):
    def toy_grpo_step(logits, ref_logits, old_logits, actions, rewards, learning_rate=0.1, clip_eps=0.2, kl_coef=0.0,
                      advantage_eps=1e-4):  # fmt: skip
        n = len(actions)
        a = grpo.group_relative_advantage(rewards, n, advantage_eps).ravel()
        old, ref, rate, eps, beta = step(logits, actions, old_logits, ref_logits, learning_rate, clip_eps, kl_coef, n)
        return logits - rate * grpo.toy_loss_gradient(logits, actions, a, old[actions], ref[actions], eps, beta)

    assert check(toy_grpo_step, seed=seed).mistake == mistake


def test_finished_functions_that_would_do_the_work_are_mentioned():
    def toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
        return grpo.finite_diff_gradient(
            lambda x: grpo.toy_loss(x, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef), logits
        )

    report = check(toy_loss_gradient, seed=0)
    assert report.points == report.max_points
    assert any("the finished `finite_diff_gradient`" in note for note in report.notes)
