"""Chapter 04: its finished pieces against the library, and what a check says of functions that students write."""

import math

import numpy as np
import pytest

import grpo
from grader.checking import run_check
from grader.exercises import chapter_04
from grader.exercises.chapter_04.common import CHAPTER
from grpo.expressions import (
    EXPRESSIONS,
    PREFIXES,
    TARGETS,
    TOKENS,
    Evaluator,
    TabularPolicy,
    expression_task,
    grammar_mask,
    group_advantages,
    group_rewards,
    length_terms,
    per_token_policy,
    tables,
    token_loss,
    token_weights,
)
from grpo.expressions.faulty_runs import DIAGNOSES, faulty_runs
from grpo.expressions.per_token import loss_and_gradient, score_response

SEEDS = (0, 7)
BY_NAME = {exercise.name: exercise for exercise in chapter_04.EXERCISES}


def check(fn, seed=0):
    return run_check(BY_NAME[fn.__name__], fn, seed)


def states(report):
    return [part.passed for part in report.parts]


def library_policies(seed=7):
    """A library policy that has moved since it drew a batch, the batch, and a reference that is somewhere else."""
    rngs = [np.random.default_rng(seed)]
    policy, reference = (TabularPolicy(len(TARGETS), rngs, scale=0.5) for _ in range(2))
    rollouts = policy.sample(None, 8, rngs)
    value = policy.parameters["logits"]
    value += 0.4 * rngs[0].standard_normal(value.shape)
    policy.parameters_changed()
    return policy, reference, rollouts


def as_table(policy):
    logits = policy.parameters["logits"][0]
    return {
        (target, *prefix): logits[:, place, policy.column[k]].copy()
        for place, target in enumerate(TARGETS)
        for k, prefix in enumerate(PREFIXES)
    }


def as_lists(rollouts):
    prompts = [target for target in TARGETS for _ in range(rollouts.lengths.shape[2])]
    rows = zip(rollouts.tokens.reshape(len(prompts), -1), rollouts.lengths.ravel(), strict=True)
    return prompts, [[TOKENS[token] for token in ids[:n]] for ids, n in rows]


# --- the exercises themselves --------------------------------------------------------------------------------


def test_the_nine_exercises_stand_in_the_order_of_the_story():
    assert list(BY_NAME) == [
        "legal_tokens",
        "masked_probs",
        "verify_expression",
        "length_term",
        "sample_rollouts",
        "token_coefficients",
        "tabular_update",
        "train_tabular",
        "diagnose_run",
    ]
    assert {exercise.chapter for exercise in chapter_04.EXERCISES} == {CHAPTER}


@pytest.mark.parametrize("exercise", chapter_04.EXERCISES, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = ("np.exp(", "np.where(mask", "-np.inf", "np.minimum(", ".any(", "% 2", "np.log(", "return ")
    for text in texts:
        assert not any(code in text for code in given_away), text
    assert all(part.hint for part in exercise.parts)


# --- the finished pieces are the library ---------------------------------------------------------------------


def test_masks_probabilities_and_oracles_are_the_library_s():
    policy, reference, _ = library_policies()
    table, start = as_table(policy), as_table(reference)
    evaluation = Evaluator(expression_task().correct, reference=reference)(policy)
    for k, prefix in enumerate(PREFIXES):
        np.testing.assert_array_equal(tables.legal_tokens(prefix), grammar_mask(prefix))
        mine = tables.masked_probs(table[13, *prefix], tables.legal_tokens(prefix))
        np.testing.assert_allclose(mine, np.exp(policy.prefix_logprobs()[0, TARGETS.index(13), k]), atol=1e-12)
    for place, target in enumerate(TARGETS):
        whole = np.exp(policy.expression_logprobs()[0, place])
        np.testing.assert_allclose(tables.expression_probs(table, target), whole, atol=1e-12)
    success = np.mean([tables.exact_success(table, target) for target in TARGETS])
    drift = np.mean([tables.exact_kl(table, start, target) for target in TARGETS])
    length = np.mean([tables.mean_length(table, target) for target in TARGETS])
    assert success == pytest.approx(evaluation.exact_success[0], abs=1e-12)
    assert drift == pytest.approx(evaluation.kl[0], abs=1e-12)
    assert length == pytest.approx(evaluation.expected_length[0], abs=1e-12)


def test_verifier_and_length_term_are_the_library_s():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens = rng.choice(TOKENS, size=rng.integers(0, 7)).tolist()
        value, reward, reason = tables.verify_expression(tokens, 5)
        assert reward == pytest.approx(group_rewards([tokens], 5)[0]) and (value is None) == bool(reason)
    lengths, correct = rng.integers(1, 5, size=(50, 4)), rng.integers(0, 2, size=(50, 4)).astype(bool)
    for gated in (False, True):
        rows = [length_terms(n, ok, gated) for n, ok in zip(lengths, correct, strict=True)]
        np.testing.assert_allclose(tables.length_term(lengths, correct, gated), rows)


def test_one_update_is_the_library_s_to_twelve_digits():
    policy, reference, rollouts = library_policies()
    # With the real rewards many groups have no signal, and only tokens with an advantage can be clipped.
    A = group_advantages(np.random.default_rng(5).integers(0, 2, size=rollouts.lengths.shape) + 0.0)
    weights = token_weights(rollouts.mask, rollouts.lengths)
    new_logps, ref_logps = policy.token_logprobs(rollouts), reference.token_logprobs(rollouts)
    result = token_loss(new_logps, rollouts.logps, ref_logps, A, weights)
    clipped = (~result.open_gate & rollouts.mask).sum() / rollouts.mask.sum()
    assert 0.1 < clipped < 0.25

    prompts, texts = as_lists(rollouts)
    table = as_table(policy)
    new, mask = tables.score_rollouts(table, prompts, texts)
    ref, _ = tables.score_rollouts(as_table(reference), prompts, texts)
    np.testing.assert_array_equal(mask, rollouts.mask.reshape(80, -1))
    np.testing.assert_allclose(new, new_logps.reshape(80, -1), atol=1e-12)
    pulls = tables.token_coefficients(new, rollouts.logps.reshape(80, -1), ref, mask, A.ravel())
    np.testing.assert_allclose(pulls, -result.coefficients.reshape(80, -1), atol=1e-12)

    groups = [
        [(texts[8 * p + g], rollouts.logps[0, p, g, : len(texts[8 * p + g])]) for g in range(8)] for p in range(10)
    ]
    _, slow = loss_and_gradient(per_token_policy(policy), per_token_policy(reference), groups, A[0])
    fast = policy.gradient(rollouts, result.coefficients)["logits"]
    np.testing.assert_allclose(slow["logits"], fast[0], atol=1e-12)

    ours = tables.tabular_update(table, prompts, texts, pulls, 3.0)
    policy.parameters["logits"] -= 3.0 * fast
    theirs = as_table(policy)
    assert max(np.abs(ours[state] - theirs[state]).max() for state in ours) < 1e-12


def test_the_sampler_draws_from_the_table_and_keeps_its_log_probs():
    policy, _, _ = library_policies()
    table, view = as_table(policy), per_token_policy(policy)
    group = tables.sample_rollouts(table, 17, 400, np.random.default_rng(2))
    counts = np.zeros(len(EXPRESSIONS))
    for tokens, logps in group:
        counts[EXPRESSIONS.index(tuple(tokens[:-1]))] += 1
        np.testing.assert_allclose(logps, score_response(view, TARGETS.index(17), tokens), atol=1e-12)
    probs = tables.expression_probs(table, 17)
    assert np.all(np.abs(counts / 400 - probs) < 5 * np.sqrt(probs / 400) + 0.01)


def test_a_uniform_start_has_the_success_that_the_chapter_names():
    zero = tables.zero_table(TARGETS)
    assert np.mean([tables.exact_success(zero, target) for target in TARGETS]) == pytest.approx(0.0778, abs=5e-5)
    assert tables.exact_success(zero, 5) == pytest.approx(4 / 27)


# --- mask and sampling (cases C7, E3) ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_renormalised_mask_after_the_softmax_loses_only_the_extreme_logits(seed):
    def masked_probs(logits, mask):
        if logits.shape != mask.shape or not mask.any():
            raise ValueError("nothing to choose from")
        probs = np.exp(logits - logits.max())
        probs = probs * mask
        with np.errstate(all="ignore"):
            return probs / probs.sum()

    report = check(masked_probs, seed)
    assert states(report) == [True, False, True, True]
    assert report.mistake == "mask after the softmax, renormalised"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("masked", "passed"),
    [
        (lambda x, ok: np.where(ok, x, -1e9), [True, True, False, True]),
        (lambda x, ok: np.where(ok, x, -1e30), [True, True, False, True]),
        (lambda x, ok: x + ~ok * -1e9, [True, False, True, True]),
        (lambda x, ok: np.where(ok, x, np.finfo(np.float32).min), [True] * 4),
        (lambda x, ok: np.where(ok, x, -np.inf).astype(np.float32), [True] * 4),
    ],
)
def test_a_number_in_place_of_minus_infinity_loses_a_point(masked, passed, seed):
    def masked_probs(logits, mask):
        if logits.shape != mask.shape or not mask.any():
            raise ValueError("nothing to choose from")
        x = masked(logits, mask)
        weights = np.exp(x - x.max())
        return weights / weights.sum()

    report = check(masked_probs, seed)
    assert states(report) == passed
    assert bool(report.mistake) == (not all(passed))


@pytest.mark.parametrize("seed", SEEDS)
def test_log_probs_of_another_distribution_than_the_one_drawn_from(seed):
    def sample_rollouts(table, target, group_size, rng):
        group = []
        for _ in range(group_size):
            tokens, logps = [], []
            while not tokens or tokens[-1] != "END":
                row = np.asarray(table[(target, *tokens)])
                soft = np.exp(row) / np.exp(row).sum()
                legal = soft * grammar_mask(tokens)
                k = rng.choice(6, p=legal / legal.sum())
                logps.append(np.log(soft[k]))
                tokens = [*tokens, TOKENS[k]]
            group.append([tokens, logps])
        return group

    report = check(sample_rollouts, seed)
    assert states(report) == [True, True, False, True] and "mask after softmax" in report.mistake


@pytest.mark.parametrize(
    ("spoil", "mistake"),
    [
        (lambda tokens, logps: (tokens, [x / math.log(10) for x in logps]), "logarithm of another base"),
        (lambda tokens, logps: (tokens, np.cumsum(logps)), "cumulative sums"),
        (lambda tokens, logps: (" ".join(tokens), logps), "one text instead of a list of tokens"),
        (lambda tokens, logps: (tokens, [str(x) for x in logps]), ""),
        (lambda tokens, logps: {"tokens": tokens, "logps": logps}, ""),
    ],
)
def test_rollouts_of_another_form_are_told_in_words(spoil, mistake):
    def sample_rollouts(table, target, group_size, rng):
        return [spoil(*pair) for pair in tables.sample_rollouts(table, target, group_size, rng)]

    report = check(sample_rollouts)
    assert report.points < report.max_points and report.mistake == mistake
    assert "does not have the form" not in str(report)


def test_a_table_asked_without_a_mask_stops_with_the_state_that_does_not_exist():
    def sample_rollouts(table, target, group_size, rng):
        group = []
        for _ in range(group_size):
            tokens = []
            while "END" not in tokens:
                p = grpo.softmax(table[target, *tokens])
                tokens.append(TOKENS[rng.choice(6, p=p)])
            group.append((tokens, [0.0] * len(tokens)))
        return group

    report = check(sample_rollouts)
    assert report.points == 0 and "KeyError" in report.headline


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_rollouts_and_a_seed_in_the_loop_are_told_apart(seed):
    def draw(choose):
        def sample_rollouts(table, target, group_size, rng):
            group = []
            for _ in range(group_size):
                own, tokens, logps = np.random.default_rng(1), [], []
                while "END" not in tokens:
                    p = tables.masked_probs(table[target, *tokens], grammar_mask(tokens))
                    k = choose(p, own)
                    tokens, logps = [*tokens, TOKENS[k]], [*logps, math.log(p[k])]
                group.append((tokens, logps))
            return group

        return sample_rollouts

    assert check(draw(lambda p, own: int(p.argmax())), seed).mistake == "argmax"
    assert check(draw(lambda p, own: own.choice(6, p=p)), seed).mistake.startswith("reseeded in the loop")


@pytest.mark.parametrize("scored_under_the_mask", [True, False])
def test_rollouts_that_are_thrown_away_leave_another_distribution(scored_under_the_mask):
    def sample_rollouts(table, target, group_size, rng):
        rows = {}
        for state, row in table.items():
            legal = tables.legal_tokens(state[1:])
            drawn = np.exp(row) / np.exp(row).sum()
            scores = tables.masked_probs(row, legal) if scored_under_the_mask else drawn
            rows[state] = drawn.cumsum().tolist(), legal.tolist(), scores.tolist()
        group = []
        while len(group) < group_size:
            tokens, logps = (), []
            while "END" not in tokens:
                heights, legal, scores = rows[target, *tokens]
                u = rng.random()
                k = sum(u > height for height in heights[:5])
                if not legal[k]:
                    break
                tokens, logps = (*tokens, TOKENS[k]), [*logps, math.log(scores[k])]
            else:
                group.append((tokens, logps))
        return group

    report = check(sample_rollouts)
    assert states(report) == [True, False, scored_under_the_mask, True] and report.mistake == "rollouts thrown away"


@pytest.mark.parametrize("place", [0, -1])
def test_a_sampler_that_does_not_read_its_target_loses_the_shares(place):
    def sample_rollouts(table, target, group_size, rng):
        return tables.sample_rollouts(table, list(table)[place][0], group_size, rng)

    report = check(sample_rollouts)
    assert states(report) == [True, False, True, True] and report.mistake == "target ignored"


# --- the verifier --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_verifier_that_asks_eval_is_named_whatever_its_reasons_say(seed):
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        try:
            if tokens[-1] != "END":
                return None, 0, "unfinished"
            value = eval("".join(tokens[:-1]))
        except Exception as error:
            return None, 0, f"python says {error}"
        return value, 1.1 if value == target else 0.1, ""

    report = check(verify_expression, seed)
    assert report.mistake == "eval decides what is well formed"
    assert states(report) == [True, True, False, False]


@pytest.mark.parametrize("seed", SEEDS)
def test_left_to_right_keeps_the_points_for_rewards_and_form(seed):
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        *body, last = tokens or [""]
        right = [t in (numbers if i % 2 == 0 else ("+", "*")) for i, t in enumerate(body)]
        repeated = len(set(body[::2])) < len(body[::2])
        if last != "END" or len(body) % 2 == 0 or not all(right) or repeated:
            return None, 0.0, "malformed"
        value = int(body[0])
        for operator, number in zip(body[1::2], body[2::2], strict=True):
            value = value + int(number) if operator == "+" else value * int(number)
        return value, 0.1 + (value == target), ""

    report = check(verify_expression, seed)
    assert states(report) == [False, True, True, True] and report.mistake == "left to right"


@pytest.mark.parametrize("seed", SEEDS)
def test_an_operator_looked_for_in_a_text_is_found_out(seed):
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        *body, last = tokens or [""]
        wrong = any(t not in numbers for t in body[::2]) or any(t not in "+*" for t in body[1::2])
        if last != "END" or len(body) % 2 == 0 or wrong or len(set(body[::2])) < len(body[::2]):
            return None, 0.0, "malformed"
        total, product = 0, int(body[0])
        for operator, number in zip(body[1::2], body[2::2], strict=True):
            total, product = (total, product * int(number)) if operator == "*" else (total + product, int(number))
        return total + product, 0.1 + (total + product == target), ""

    report = check(verify_expression, seed)
    assert states(report) == [True, True, False, True] and report.mistake == "operators looked for in a text"


def test_a_verifier_that_raises_is_named():
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        value, reward, reason = tables.verify_expression(tokens, target, numbers)
        if reason:
            raise ValueError(reason)
        return value, reward, reason

    assert check(verify_expression).mistake == "an error instead of a verdict"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("change", "passed", "mistake"),
    [
        (lambda right, tokens, target, numbers: tables.verify_expression(tokens, target), [True, False, True, True],
         "numbers ignored"),
        (lambda right, *_: (None if right[0] is None else str(right[0]), *right[1:]), [False, True, True, True],
         "value as a text"),
        (lambda right, *_: right[1], [False] * 4, "no triple"),
        (lambda right, *_: None if right[2] else right, [True, True, False, False], "no triple"),
        (lambda right, *_: (*right[:2], right[2] or None), [True, True, True, False], "None for no reason"),
    ],
)  # fmt: skip
def test_a_spoilt_verdict_loses_its_own_part_and_no_hint_about_products(change, passed, mistake, seed):
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        return change(tables.verify_expression(tokens, target, numbers), tokens, target, numbers)

    report = check(verify_expression, seed)
    assert states(report) == passed and report.mistake == mistake
    assert "running product" not in str(report)


@pytest.mark.parametrize("seed", SEEDS)
def test_eval_after_half_a_check_is_told_in_a_sentence_that_fits_the_case_shown(seed):
    def verify_expression(tokens, target, numbers=("2", "3", "5")):
        *body, last = tokens or [""]
        used = [token for token in body if token.isdigit()]
        if last != "END" or len(set(used)) < len(used):
            return None, 0.0, "no end, or a number twice"
        try:
            value = eval("".join(body))
        except Exception:
            return None, 0.0, "no expression"
        return value, 0.1 + (value == target), ""

    report = check(verify_expression, seed)
    assert states(report) == [True, True, False, True] and report.mistake == "eval decides what is well formed"
    shown = report.parts[2]
    assert "starts with an operator" in shown.evidence.sentence and "`+2`" in shown.mistake_says


# --- length term ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_ties_are_a_part_of_their_own(seed):
    def length_term(lengths, correct, gated=False):
        low, high = lengths.min(1, keepdims=True), lengths.max(1, keepdims=True)
        with np.errstate(all="ignore"):
            lam = 0.5 - (lengths - low) / (high - low)
        lam = np.where(correct, lam, np.minimum(0, lam))
        return lam * correct.any(1, keepdims=True) if gated else lam

    report = check(length_term, seed)
    assert states(report) == [True, True, False, True, True] and report.mistake == "no tie rule (0/0)"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tied_group_does_not_silence_its_neighbours(seed):
    def length_term(lengths, correct, gated=False):
        low, high = lengths.min(1, keepdims=True), lengths.max(1, keepdims=True)
        if (low == high).any():
            return np.zeros(lengths.shape)
        lam = 0.5 - (lengths - low) / (high - low)
        lam = np.where(correct, lam, np.minimum(0, lam))
        return lam * correct.any(1, keepdims=True) if gated else lam

    report = check(length_term, seed)
    assert states(report) == [True, True, False, True, True]
    assert report.mistake == "one tied group sets the whole batch to 0"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("change", "passed", "mistake"),
    [
        ({"longest_of": "right"}, [True, False, True, True, True], "longest of the right answers only"),
        ({"middle": "mean"}, [False, False, True, True, True], "mean instead of the middle of the range"),
        ({"asks": "shortest"}, [True, True, True, True, False], "gate asks the shortest answer"),
    ],
)
def test_no_length_term_passes_by_the_luck_of_the_draw(change, passed, mistake, seed):
    def length_term(lengths, correct, gated=False):
        rows = []
        for n, ok in zip(lengths.astype(float), correct, strict=True):
            high = n[ok].max() if "longest_of" in change and ok.any() else n.max()
            low = n.min()
            middle = n.mean() if "middle" in change else (low + high) / 2
            lam = (middle - n) / (high - low if high > low else 1)
            term = np.where(ok, lam, np.minimum(lam, 0)) * (np.ptp(n) > 0)
            asked = ok[n.argmin()] if "asks" in change else ok.any()
            rows.append(term if asked or not gated else 0 * term)
        return np.array(rows)

    report = check(length_term, seed)
    assert states(report) == passed and report.mistake == mistake


# --- coefficients: clip corners, averages, padding (cases C6, D3, D8, D9) -----------------------------------


def coefficient(weigh=None, gate=None):
    def token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
        new, old, ref = (np.where(mask, x, 0.0) for x in (new_logps, old_logps, ref_logps))
        a = advantages[:, None]
        ratio = np.exp(new - old)
        shut = (ratio > 1 + clip_eps) & (a > 0) | (ratio < 1 - clip_eps) & (a < 0)
        push = np.where(gate(ratio, a, clip_eps) if gate else shut, 0.0, a * ratio)
        c = push - kl_coef * (1 - np.exp(ref - new))
        counts = weigh(mask) if weigh else len(mask) * mask.sum(1, keepdims=True)
        return np.where(mask, c / counts, 0.0)

    return token_coefficients


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("weigh", "mistake"),
    [
        (lambda mask: len(mask), "token sum instead of mean"),
        (lambda mask: mask.sum(), "mean over all tokens of the batch (DAPO)"),
        (lambda mask: mask.size, "divided by the padded length"),
        (lambda mask: mask.sum(1, keepdims=True), "1/N forgotten"),
        (None, ""),
    ],
)
def test_the_four_averages_of_case_d8(weigh, mistake, seed):
    report = check(coefficient(weigh=weigh), seed)
    assert report.mistake == mistake and (report.points == report.max_points) == (not mistake)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("gate", "mistake"),
    [
        (lambda ratio, a, eps: np.zeros(ratio.shape, dtype=bool), "gate left out"),
        (lambda ratio, a, eps: (a > 0) & (ratio > 1 + eps), "gate only for A > 0"),
        (lambda ratio, a, eps: abs(ratio - 1) > eps, "gate shut on both sides"),
    ],
)
def test_the_gates_of_case_d3_lose_only_the_later_updates(gate, mistake, seed):
    report = check(coefficient(gate=gate), seed)
    assert states(report) == [True, False, True, True] and report.mistake == mistake


def test_nan_behind_the_end_token_is_case_c6():
    def token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
        a = advantages[:, None]
        ratio = np.exp(new_logps - old_logps)
        shut = (ratio > 1 + clip_eps) & (a > 0) | (ratio < 1 - clip_eps) & (a < 0)
        c = np.where(shut, 0, a * ratio) - kl_coef * (1 - np.exp(ref_logps - new_logps))
        return c * mask / mask.sum(1, keepdims=True) / len(mask)

    report = check(token_coefficients)
    assert states(report) == [True, True, True, False] and report.mistake == "NaN times 0"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("spoil", "passed", "mistake"),
    [
        (lambda right, mask: np.where(mask, right, np.nan), [True, True, True, False], "NaN behind the end token"),
        (lambda right, mask: np.where(mask, right, 7.0), [True, True, True, False], ""),
        (lambda right, mask: {"coefficients": right}, [False] * 4, ""),
    ],
)
def test_padding_costs_the_part_about_padding_and_another_form_gets_no_hint(spoil, passed, mistake, seed):
    def token_coefficients(new_logps, old_logps, ref_logps, mask, *rest, **settings):
        right = tables.token_coefficients(new_logps, old_logps, ref_logps, mask, *rest, **settings)
        return spoil(right, np.array(mask))

    report = check(token_coefficients, seed)
    assert states(report) == passed and report.mistake == mistake
    if not any(passed):
        assert "it returned a dict" in report.parts[0].evidence.sentence and not report.parts[0].hint


def test_a_mask_that_is_forgotten_keeps_the_points_for_gate_and_penalty():
    def token_coefficients(new_logps, old_logps, ref_logps, mask, *rest, **settings):
        everywhere = np.ones(mask.shape, dtype=bool)
        logps = (np.nan_to_num(x) for x in (new_logps, old_logps, ref_logps))
        return tables.token_coefficients(*logps, everywhere, *rest, **settings)

    report = check(token_coefficients)
    assert states(report) == [False, True, True, False] and report.mistake == "padding counted"


# --- update and training loop (case E1) ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_overwriting_and_stepping_one_by_one_keep_the_single_rollout(seed):
    def tabular_update(table, targets, rollouts, coefficients, learning_rate):
        new = {state: logits.copy() for state, logits in table.items()}
        for target, tokens, row in zip(targets, rollouts, coefficients, strict=True):
            for t, token in enumerate(tokens):
                state = (target, *tokens[:t])
                p = tables.masked_probs(table[state], tables.legal_tokens(tokens[:t]))
                new[state] = table[state] + learning_rate * row[t] * ((np.array(TOKENS) == token) - p)
        return new

    report = check(tabular_update, seed)
    assert report.mistake == "overwritten instead of added" and states(report) == [True, False, True, True]


@pytest.mark.parametrize(("shift", "mistake"), [(1, "state one token too long"), (-1, "state one token too short")])
def test_a_slice_that_is_one_off_is_named(shift, mistake):
    def tabular_update(table, targets, rollouts, coefficients, learning_rate):
        new = {state: row.copy() for state, row in table.items()}
        for target, tokens, row in zip(targets, rollouts, coefficients, strict=True):
            for t, token in enumerate(tokens):
                state = (target, *tokens[: t + shift])
                p = tables.masked_probs(table[state], tables.legal_tokens(state[1:]))
                new[state] += learning_rate * row[t] * ((np.array(TOKENS) == token) - p)
        return new

    assert check(tabular_update).mistake == mistake


@pytest.mark.parametrize("copied", [lambda table: table, dict])
def test_a_table_that_is_changed_in_place_costs_a_point(copied):
    def tabular_update(table, targets, rollouts, coefficients, learning_rate):
        steps, new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate), copied(table)
        for state, row in steps.items():
            new[state] += row - new[state]
        return new

    report = check(tabular_update)
    assert states(report) == [True, True, True, False] and report.mistake == "the table changed in place"
    assert "the table that came in was changed" in report.parts[3].evidence.sentence
    assert any("`table` in place" in note for note in report.notes)


def test_a_missing_row_is_told_by_its_state():
    def tabular_update(table, targets, rollouts, coefficients, learning_rate):
        new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
        visited = {(target, *tokens[:t]) for target, tokens in zip(targets, rollouts, strict=True) for t in range(6)}
        return {state: row for state, row in new.items() if state in visited}

    report = check(tabular_update)
    assert states(report) == [True, True, True, False] and report.mistake == "unvisited rows dropped"
    assert "there is no row for the state (" in report.parts[3].evidence.sentence


def training_loop(refresh_old=False, follow=False, own_seed=False, from_start=False, eight=False, stale_new=False,
                  own_settings=None, once=False, advantages_of=None, in_place=False):  # fmt: skip
    def train_tabular(start, targets, steps, rng, group_size=8, inner_updates=1, learning_rate=3.0, clip_eps=0.2,
                      kl_coef=0.04):  # fmt: skip
        policy = {state: row.copy() for state, row in start.items()}
        rng = np.random.default_rng(1) if own_seed else rng
        group_size, batch = 8 if eight else group_size, []
        if own_settings:
            clip_eps, kl_coef = own_settings(clip_eps, kl_coef)
        for _ in range(steps):
            if not (once and batch):
                table = start if from_start else policy
                batch = [(t, *pair) for t in targets for pair in tables.sample_rollouts(table, t, group_size, rng)]
            prompts, texts = [one[0] for one in batch], [one[1] for one in batch]
            rewards = [tables.verify_expression(text, t)[1] for t, text, _ in batch]
            A = grpo.group_relative_advantage(rewards, group_size).ravel()
            A = advantages_of(np.reshape(rewards, (-1, group_size))).ravel() if advantages_of else A
            old, mask = tables.score_rollouts(policy, prompts, texts)
            frozen = policy if follow else start
            ref, _ = tables.score_rollouts(frozen, prompts, texts)
            new = old
            for _ in range(inner_updates):
                new = new if stale_new else tables.score_rollouts(policy, prompts, texts)[0]
                c = tables.token_coefficients(new, new if refresh_old else old, ref, mask, A, clip_eps, kl_coef)
                policy = tables.tabular_update(policy, prompts, texts, c, learning_rate)
        if in_place:
            for state, row in policy.items():
                start[state][:] = row
        return policy

    return train_tabular


@pytest.mark.parametrize(
    ("faults", "passed", "mistake"),
    [
        ({}, [True] * 5, ""),
        ({"refresh_old": True}, [True, True, False, True, True], "old recomputed (the clip never acts)"),
        ({"follow": True}, [True, True, True, False, True], "reference trained along (or no penalty)"),
        ({"own_seed": True}, [True, True, True, True, False], "reseeded inside"),
        ({"from_start": True}, [False, True, True, True, True], "rollouts always drawn from the start"),
        ({"once": True}, [False, True, True, True, True], "one batch for the whole run"),
        ({"eight": True}, [True, True, True, True, False], "group_size ignored"),
        ({"stale_new": True}, [True, True, False, True, True], "old recomputed (the clip never acts)"),
        ({"own_settings": lambda eps, beta: (0.2, 0.04)}, [True, True, False, False, True],
         "clip_eps and kl_coef not handed on"),
        ({"own_settings": lambda eps, beta: (eps, 0.04)}, [True, True, True, False, True],
         "reference trained along (or no penalty)"),
        ({"advantages_of": lambda r: r - r.mean(axis=1, keepdims=True)}, [True, False, True, True, True],
         "std left out of the advantages"),
        ({"advantages_of": lambda r: r}, [True, False, True, True, True],
         "rewards taken for advantages (no mean subtracted)"),
        ({"advantages_of": lambda r: (r - r.mean()) / (r.std() + 1e-4)}, [True, False, True, True, True],
         "advantage not from the group"),
        ({"in_place": True}, [True, True, True, False, True], "the start changed in place"),
    ],
)  # fmt: skip
def test_a_training_loop_is_judged_by_what_it_does(faults, passed, mistake):
    for seed in (5, 11):
        report = check(training_loop(**faults), seed)
        assert states(report) == passed and report.mistake == mistake


@pytest.mark.parametrize("seed", SEEDS)
def test_settings_that_are_swapped_are_told_as_that(seed):
    report = check(training_loop(own_settings=lambda eps, beta: (beta, eps)), seed)
    assert report.mistake == "clip_eps and kl_coef swapped" and not report.parts[2].passed


@pytest.mark.parametrize(
    ("targets_of", "mistake"),
    [
        (lambda targets, rng: [[t] for t in targets], "an update of its own for each prompt"),
        (lambda targets, rng: [[targets[rng.integers(len(targets))]]], "one prompt in each iteration"),
    ],
)
def test_two_prompts_share_a_step(targets_of, mistake):
    def train_tabular(start, targets, steps, rng, **settings):
        policy = start
        for _ in range(steps):
            for some in targets_of(targets, rng):
                policy = tables.train_tabular(policy, some, 1, rng, **{**settings, "kl_coef": 0.0})
        return policy

    report = check(train_tabular)
    assert not report.parts[1].passed and report.parts[1].mistake == mistake


def test_the_log_probs_of_masked_probs_are_recognised_however_they_are_computed():
    def masked_probs(logits, mask):
        if logits.shape != mask.shape or not mask.any():
            raise ValueError("nothing to choose from")
        z = np.where(mask, logits, -np.inf) - logits[mask].max()
        return z - np.log(np.exp(z).sum())

    report = check(masked_probs)
    assert report.mistake == "log-probs returned" and states(report) == [False, False, False, True]


def test_a_loop_that_returns_something_else_than_a_table_earns_nothing():
    def train_tabular(start, targets, steps, rng, **settings):
        return start, 0.9

    report = check(train_tabular)
    assert report.points == 0 and "it returned a tuple, not a dict" in str(report)


# --- diagnoses -----------------------------------------------------------------------------------------------


def test_the_faults_of_the_runs_are_what_their_names_say():
    runs = dict(zip(DIAGNOSES, faulty_runs(DIAGNOSES, 4, 25.0, 3), strict=True))
    rise = {name: run["reward"][-1] - run["reward"][0] for name, run in runs.items()}
    assert rise["broken sign"] < 0 and all(rise[name] > 0.3 for name in DIAGNOSES if name != "broken sign")
    assert [max(run["clip_fraction"]) == 0 for run in runs.values()] == [False, False, True, False]
    assert max(runs["leaking reference"]["kl"]) < 0.1 < 0.5 < runs["healthy"]["kl"][-1]
    assert all(len(run["reward"]) == 30 for run in runs.values())


def test_a_diagnosis_that_forgets_the_single_update():
    def diagnose_run(signals):
        if signals["reward"][-1] < 0.25:
            return "broken sign"
        if not any(signals["clip_fraction"]):
            return "dead clip"
        return "healthy" if signals["kl"][-1] > 0.3 else "leaking reference"

    report = check(diagnose_run)
    assert report.points == 1 and report.parts[2].passed
    assert "clip fraction 0 taken for dead with one update" in [part.mistake for part in report.parts]


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda found: "healthy" if found == "leaking reference" else found, "leaking reference overlooked"),
        (lambda found: found.replace(" ", "_"), "another spelling"),
        (lambda found: (found, "since the curves say so"), "diagnosis in a list"),
        (lambda found: "dead clip", "always a dead clip"),
    ],
)
def test_wrong_words_and_blind_spots_of_a_diagnosis(answer, mistake):
    reference = BY_NAME["diagnose_run"].reference

    def diagnose_run(signals):
        return answer(reference(signals))

    assert check(diagnose_run).mistake == mistake


@pytest.mark.parametrize("seed", SEEDS)
def test_a_number_used_twice_needs_its_reason(seed):
    def verify_expression(tokens, target, numbers=tables.NUMBERS):
        value, reward, reason = tables.verify_expression(tokens, target, numbers)
        return value, reward, "" if "twice" in reason else reason

    report = check(verify_expression, seed)
    assert report.points == report.max_points - 1 and "is malformed: say why" in report.parts[-1].evidence.sentence


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("is_dead", "mistake"),
    [
        (lambda one: one["inner_updates"] > 1 and min(one["clip_fraction"]) == 0,
         "one iteration without a clip taken for a dead one"),
        (lambda one: one["inner_updates"] > 3 and max(one["clip_fraction"]) == 0, "two updates taken for one"),
    ],
)  # fmt: skip
def test_a_dead_clip_is_told_by_all_iterations_and_from_two_updates_on(is_dead, mistake, seed):
    def diagnose_run(signals):
        if signals["reward"][-1] < signals["reward"][0]:
            return "broken sign"
        if is_dead(signals):
            return "dead clip"
        return "healthy" if signals["kl"][-1] > 0.3 else "leaking reference"

    report = check(diagnose_run, seed)
    assert states(report) == [True, False, True, True] and report.mistake == mistake
