"""Chapter 05: what students write and what a check says of it, references against the library, recorded claims."""

import json
from pathlib import Path

import numpy as np
import pytest

from grader import check
from grader.checking import run_check
from grader.exercises import chapter_05
from grader.exercises.chapter_05 import common, paired_difference, read_run, train_mlp
from grpo.expressions import (
    TARGETS,
    TOKENS,
    MLPPolicy,
    compare,
    count_features,
    group_advantages,
    networks,
    one_hot_features,
    token_loss,
    token_weights,
)
from grpo.expressions.advantages import global_advantages
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
            np.testing.assert_array_equal(networks.encode(list(prefix), target, list(TARGETS)), expected)


def test_forward_and_backward_are_the_library_s():
    policy = MLPPolicy(one_hot_features(10), [np.random.default_rng(0)])
    policy.parameters["b1"] += 0.3
    view = per_token_policy(policy)
    x = np.array([networks.encode(list(prefix), 17, list(TARGETS)) for prefix in PREFIXES[:9]])
    slopes = np.random.default_rng(1).normal(size=(9, len(TOKENS)))
    gradient = {name: np.zeros_like(value) for name, value in view.parameters.items()}
    for row, prefix in enumerate(PREFIXES[:9]):
        view.add_gradient(gradient, TARGETS.index(17), prefix, slopes[row])
    logits = [view.logits(TARGETS.index(17), prefix) for prefix in PREFIXES[:9]]
    np.testing.assert_allclose(networks.mlp_forward(view.parameters, x), logits, atol=1e-12)
    for name, value in networks.mlp_backward(view.parameters, x, slopes).items():
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
    found = networks.mlp_grpo_gradient(
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
        ours = networks.train_mlp([4, 9], 3, **kwargs)
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
        found = networks.mlp_backward(weights, x, logit_gradient)
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
    """As good a policy; only the part about the numbers that a seed gives is lost."""
    report = graded(loop(random=lambda seed: np.random.default_rng([seed, 1])), seed)
    assert states(report) == [True, False, True, True, True] and report.points == 5
    assert "generator of the draws" in str(report) and graded(loop(), seed).points == 6


def test_old_log_probs_that_are_refreshed_lose_the_part_about_the_clip():
    report = graded(loop(old="refreshed"))
    assert report.mistake == "old recomputed (ratio always 1)"
    assert states(report) == [True, False, True, False, True]


def test_a_reference_that_is_the_policy_loses_the_part_about_the_penalty():
    report = graded(loop(reference="the policy"))
    assert report.mistake == "reference trained along"
    assert states(report) == [True, False, True, True, False]


def test_weights_without_the_axis_of_the_seeds_are_explained():
    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        return {"w1": np.zeros((48, 15)), "b1": np.zeros(48), "w2": np.zeros((6, 48)), "b2": np.zeros(6)}

    report = graded(train_mlp)
    assert report.points == 0 and "it has shape (1, 48, 15)" in str(report)


def test_an_interval_of_single_seeds_is_named():
    def paired_difference(values, baseline):
        if len(values) != len(baseline):
            raise ValueError("lengths")
        d = np.subtract(values, baseline)
        if np.isnan(d).any():
            raise ValueError("NaN")
        if len(d) == 1:
            return d[0], -np.inf, np.inf
        half = compare.student_t_quantile(len(d) - 1) * d.std(ddof=1)
        return d.mean(), d.mean() - half, d.mean() + half

    report = check(paired_difference, seed=0)
    assert report.mistake == "std for standard error"
    assert states(report) == [True, False, True, True, True]


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
                assert networks.read_run(curves) == expected
                assert len({len(values) for values in curves.values()}) == 1 and len(curves["kl"]) >= 8


# --- what a trial of the chapter stumbled over -----------------------------------------------------------------------


def split(key=lambda row: tuple(sorted(row)), count=lambda wanted, n: min(max(round(wanted), 1), n - 1), draw=None):
    """A student's split. key: of a row; count(share * groups, groups); draw(rng, groups, how many)."""

    def held_out_split(numbers, share, rng):
        keys = [key(row) for row in numbers]
        groups = sorted(set(keys))
        wanted = count(share * len(groups), len(groups))
        held = (draw or (lambda rng, g, k: [g[i] for i in rng.permutation(len(g))[:k]]))(rng, groups, wanted)
        return [one in held for one in keys]

    return held_out_split


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("places", "name"),
    [
        ({"draw": lambda rng, groups, k: [groups[i] for i in rng.choice(len(groups), k)]}, "drawn with replacement"),
        ({"key": sum}, "sum for the key"),
        ({"key": np.prod}, "product for the key"),
        ({"key": min}, "a part of the numbers for the key"),
        ({"count": lambda wanted, n: min(int(np.ceil(wanted)) + 1, n - 1)}, "one group too many"),
        ({"count": lambda wanted, n: min(int(wanted) + 1, n - 1)}, "one group too many"),
        ({"count": lambda wanted, n: min(max(int(wanted), 1), n - 1)}, "rounded down"),
        ({"count": lambda wanted, n: min(int(np.ceil(wanted)), n - 1)}, "rounded up"),
        ({"count": lambda wanted, n: max(round(wanted), 1)}, "everything held out"),
        ({"count": lambda wanted, n: min(round(wanted), n - 1)}, "nothing held out"),
    ],
)
def test_a_split_that_leaks_nothing_can_still_be_wrong(places, name, seed):
    report = graded(split(**places), seed)
    assert report.points <= 3 and report.mistake == name and states(report)[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_block_of_neighbours_is_named(seed):
    def block(rng, groups, k):
        start = int(rng.integers(len(groups)))
        return [groups[(start + i) % len(groups)] for i in range(k)]

    report = graded(split(draw=block), seed)
    assert report.mistake == "a block of groups" and states(report) == [True, True, False]
    assert graded(split(), seed).points == 4


@pytest.mark.parametrize("flag", [False, True])
def test_an_empty_side_is_not_put_down_to_a_key_or_a_generator(flag):
    def held_out_split(numbers, share, rng):
        return [flag] * len(numbers)

    report = graded(held_out_split)
    assert report.points == 0 and report.mistake == "" and "both sides need a group" in str(report)


def test_numbers_of_groups_are_shown_whole():
    def held_out_split(numbers, share, rng):
        return split(count=lambda wanted, n: 3)(numbers, share, rng)

    text = str(graded(held_out_split))
    assert "of 4 groups of numbers 2 were to be held out, not 3" in text and "not rows" not in text


def backward(**changes):
    def mlp_backward(weights, x, logit_gradient):
        found = networks.mlp_backward(weights, x, logit_gradient)
        for key, change in changes.items():
            found[key] = change(found[key], logit_gradient)
        return found

    return mlp_backward


def test_biases_with_an_axis_too_many_cost_one_point():
    for change in (lambda g, _: g[np.newaxis], lambda g, _: g[:, np.newaxis]):
        report = graded(backward(b1=change, b2=change))
        assert states(report) == [True, True, True, False] and report.mistake == "bias gradients with two axes"
        assert "rows add up" not in str(report)
    assert graded(backward(b2=lambda g, _: g[np.newaxis])).mistake == "bias gradients with two axes"


def test_a_wrong_b2_is_not_explained_with_w2():
    for change in (lambda g, _: 0 * g, lambda g, slopes: slopes.sum()):
        report = graded(backward(b2=change))
        assert "b2" in report.parts[0].evidence.sentence and not states(report)[0] and states(report)[1]
    assert "An entry of b2 is added to one logit" in graded(backward(b2=lambda g, _: 0 * g)).parts[0].hint


def test_both_weight_gradients_on_their_sides_are_named():
    report = graded(backward(w1=lambda g, _: g.T, w2=lambda g, _: g.T))
    assert report.mistake == "w1 and w2 gradients transposed" and report.points == 1


@pytest.mark.parametrize("illegal", [1e-3, -1.0, np.nan, -np.inf])
def test_only_illegal_entries_wrong_lose_only_their_part(illegal):
    def logit_gradient(coefficients, tokens, probs):
        return np.where(probs > 0, networks.logit_gradient(coefficients, tokens, probs), illegal)

    report = graded(logit_gradient)
    assert states(report) == [True, True, False]
    assert "is illegal; in row 0 its logit gets" in report.parts[2].evidence.sentence
    assert report.mistake or "probability 0" in report.parts[2].hint


@pytest.mark.parametrize("ends", [(0.0, 0.0), (np.nan, np.nan), None])
def test_one_pair_costs_one_point_and_says_why(ends):
    def paired_difference(values, baseline):
        found = compare.paired_difference(values, baseline)
        if len(values) == 1:
            return (found.mean, *ends) if ends else compare.student_t_quantile(0)
        return found.mean, found.low, found.high

    report = graded(paired_difference)
    assert states(report) == [True, True, False, True, True]
    assert report.mistake or "n = 1 apart" in report.parts[2].hint


def test_a_nan_that_comes_out_again_is_not_called_dropped():
    def paired_difference(values, baseline):
        n, d = len(values), np.subtract(values, baseline)
        half = compare.student_t_quantile(n - 1) * d.std(ddof=1) / np.sqrt(n) if n > 1 else np.inf
        return d.mean(), d.mean() - half, d.mean() + half

    report = graded(paired_difference)
    assert report.points == 5 and report.mistake == "left to numpy"


def test_biases_added_as_columns_are_not_called_a_transposed_w1():
    def mlp_forward(weights, x):
        hidden = np.tanh(x @ weights["w1"].T + weights["b1"])
        return hidden @ weights["w2"].T + weights["b2"][:, np.newaxis]

    assert graded(mlp_forward).mistake == ""


def test_sums_over_states_are_not_called_the_first_state():
    def mlp_forward(weights, x):
        return networks.mlp_forward(weights, x).sum(axis=0)

    assert graded(mlp_forward).mistake == "summed over the states"


def test_what_depends_on_the_other_states_is_named_as_that():
    def mlp_forward(weights, x):
        logits = networks.mlp_forward(weights, x)
        return logits - logits.max(axis=0)

    assert graded(mlp_forward).mistake == "states that see each other"


@pytest.mark.parametrize(
    ("extra_steps", "extra_updates", "name"),
    [(1, 0, "one iteration too many"), (0, 1, "one update too many"), (-1, 0, "one iteration too few")],
)
def test_iterations_and_updates_are_counted(extra_steps, extra_updates, name):
    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        steps, updates = steps + extra_steps, inner_updates + extra_updates
        return loop()(seeds, steps, learning_rate, kl_coef, updates)

    assert graded(train_mlp).mistake == name


def test_a_penalty_that_is_not_handed_on_gets_a_true_sentence():
    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        return loop()(seeds, steps, learning_rate, 0.0, inner_updates)

    report = graded(train_mlp)
    assert states(report) == [True, False, True, True, False] and "`kl_coef` is not handed on" in str(report)


def test_answers_in_another_spelling_are_explained():
    def read_run(curves):
        return networks.read_run(curves).title()

    report = graded(read_run)
    assert report.points == 0 and report.mistake == "another spelling"


def test_what_is_refused_and_what_is_not_is_said_exactly():
    def encode(prefix, target, targets, refuse_target, refuse_token):
        if (refuse_target and target not in targets) or (refuse_token and set(prefix) - set("235+*")):
            raise ValueError
        return [prefix.count(token) for token in "235+*"] + [int(one == target) for one in targets]

    for refuses, name in (
        ((True, False), "unknown token accepted"),
        ((False, True), "unknown target accepted"),
        ((False, False), "everything accepted"),
    ):
        report = run_check(BY_NAME["encode"], lambda *args, refuses=refuses: encode(*args, *refuses), 0)
        assert report.points == 3 and report.mistake == name


# --- what a second trial stumbled over -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("places", "name"),
    [
        ({"kind": "k3"}, "k3 not capped"),
        ({"clip_eps": 0.1}, "clip .1"),
        ({"clip_eps": 0.1, "kind": "k3"}, "clip .1 and k3 not capped"),
        ({"group_size": 16}, "group of 16"),
        ({"advantage": global_advantages}, "one mean and std for all prompts"),
        ({"new": "once"}, "new computed once"),
    ],
)
def test_what_the_text_pins_is_looked_at(places, name, seed):
    report = run_check(BY_NAME["train_mlp"], train_mlp._changed(**places), seed)
    assert report.points < 6 and report.mistake == name and not states(report)[1]


def test_a_seed_that_depends_on_its_neighbours_is_not_put_down_to_the_generator_alone():
    def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        return loop()(list(range(len(seeds))), steps, learning_rate, kl_coef, inner_updates)

    report = graded(train_mlp)
    assert report.mistake == "places for seeds" and "any mean or std taken over several seeds" in " ".join(
        str(report).split()
    )


def interval(turned=False, checks_lengths=True):
    def paired_difference(values, baseline):
        if checks_lengths and len(values) != len(baseline):
            raise ValueError("lengths")
        d = np.array(values, dtype=float) - np.array(baseline, dtype=float)
        found = compare.paired_difference(d, np.zeros(len(d)))
        return (found.mean, found.high, found.low) if turned else (found.mean, found.low, found.high)

    return paired_difference


def test_three_seeds_against_one_are_refused():
    report = graded(interval(checks_lengths=False))
    assert states(report) == [True, True, True, True, False] and report.mistake == "one against many"
    assert graded(interval()).points == 6


def test_exchanged_ends_cost_the_part_about_the_width_only():
    report = graded(interval(turned=True))
    assert states(report) == [True, False, True, True, True] and report.mistake == "ends exchanged"


def test_a_gradient_that_was_added_and_not_averaged_keeps_the_later_parts():
    def mlp_grpo_gradient(
        weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04
    ):  # fmt: skip
        found = networks.mlp_grpo_gradient(
            weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef
        )
        return {name: len(responses) * value for name, value in found.items()}

    report = graded(mlp_grpo_gradient)
    assert states(report) == [False, True, True, False] and report.mistake == "1/N left out"


@pytest.mark.parametrize("seed", range(4))
def test_a_split_that_leaks_loses_only_the_points_of_the_leak(seed):
    report = graded(split(key=tuple), seed)
    assert states(report) == [True, False, True] and report.mistake == "order of the numbers matters"


@pytest.mark.parametrize("seed", range(4))
def test_a_coin_for_each_group_and_a_look_up_in_an_array_are_named(seed):
    def held_out_split(numbers, share, rng):
        keys = [tuple(sorted(row)) for row in numbers]
        held = {group: rng.random() < share for group in sorted(set(keys))}
        return [held[key] for key in keys]

    assert graded(held_out_split, seed).mistake == "a coin for each group"

    def held_out_split(numbers, share, rng):
        keys = [tuple(sorted(row)) for row in numbers]
        groups = sorted(set(keys))
        held = rng.choice(groups, min(max(round(share * len(groups)), 1), len(groups) - 1), replace=False)
        return [key in held for key in keys]

    assert graded(held_out_split, seed).mistake == "looked up in an array"


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        (lambda end: "tied groups" if end["zero_variance_share"] > 0.8 else "held back", "ties first and alone"),
        (lambda end: "held back" if end["reward"] < 0.9 else "healthy", "low reward is the penalty's fault"),
        (lambda end: "length collapse" if end["length"] < 3 else "healthy", "rising is healthy"),
    ],
)
def test_readings_are_named_by_what_they_confuse(reading, name):
    def read_run(curves):
        return reading(networks.end_of_run(curves))

    assert graded(read_run).mistake == name


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
    fast, no_std = "group mean, std, token sum", "group mean, no std, token sum"
    same, matched = (against(recorded, no_std + ending, fast) for ending in ("", ", matched step"))
    assert same.mean == pytest.approx(-0.13, abs=0.005) and matched.mean == pytest.approx(-0.12, abs=0.005)
    assert matched.high == pytest.approx(-0.05, abs=0.005) and matched.low == pytest.approx(-0.18, abs=0.005)
    assert [recorded["arms"][arm]["destroyed"] for arm in (fast, no_std + ", matched step")] == [5, 11]
    for arm in ("global mean, no std", "running mean, no std"):
        same, matched = (against(recorded, f"{arm}, token sum{end}", fast) for end in ("", ", matched step"))
        assert same.high < 0 and matched.low < -0.05 and matched.high > 0
    for ending in ("", ", matched step"):
        open_question = against(recorded, f"global mean, std, token sum{ending}", fast)
        assert open_question.low < 0 < open_question.high and open_question.verdict(0.05) == "undecided"
    assert {recorded["arms"][arm]["settings"]["kl_kind"] for arm in recorded["arms"]} == {"k3"}


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
    k1 = against(recorded, "k1, four inner updates", "no KL, four inner updates")
    assert k1.mean == pytest.approx(-0.04, abs=0.005) and k1.high < 0
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
