"""Chapter 02: what students write, and what the check makes of it.

The functions below are written as a student would write them, not as the exercises' own lists have them.
"""

import re

import nbformat
import numpy as np
import pytest

from grader.checking import check
from grader.classroom.annotate import BEGIN, END
from grader.exercises import EXERCISES, chapter_02
from grader.paths import SOLUTIONS, notebook_path

NAMES = [exercise.name for exercise in chapter_02.EXERCISES]


def graded(name, fn, seed=3):
    return check(fn, exercise=name, seed=seed)


def says(report):
    """Everything a student reads, on one line, so that a line break does not hide a word."""
    return " ".join(str(report).split())


# --- group_relative_advantage (CASES B2 to B4, B7) ---


def test_the_default_of_numpy_costs_two_points_and_names_ddof():
    def group_relative_advantage(rewards, group_size, eps=1e-4):
        if group_size < 2 or np.isnan(rewards).any():
            raise ValueError("bad group")
        r = np.array(rewards).reshape(-1, group_size)
        return (r - r.mean(axis=1, keepdims=True)) / (r.std(axis=1, keepdims=True) + eps)

    report = check(group_relative_advantage, seed=3)
    assert (report.points, report.mistake) == (3, "ddof 0")
    text = says(report)
    assert "ddof" in text and "expected 0.866 0.866 -0.866 -0.866" in text and "yours 1.000 1.000 -1.000 -1.000" in text


def test_statistics_over_the_batch_pass_for_one_group_and_not_for_two():
    def answer(rewards, group_size, eps=1e-4):
        if group_size < 2 or np.isnan(rewards).any():
            raise ValueError("bad group")
        r = np.asarray(rewards, float)
        return ((r - r.mean()) / (r.std(ddof=1) + eps)).reshape(-1, group_size)

    report = graded("group_relative_advantage", answer)
    assert report.mistake == "batch statistics"
    assert [part.passed for part in report.parts] == [True, False, False, True]


@pytest.mark.parametrize(
    ("eps_used", "mistake"), [(lambda eps: 0.0, "no eps"), (lambda eps: 1e-8, "eps 1e-8"), (lambda eps: eps, "")]
)
def test_near_ties_tell_the_size_of_eps(eps_used, mistake):
    def answer(rewards, group_size, eps=1e-4):
        if group_size < 2 or np.isnan(rewards).any():
            raise ValueError("bad group")
        rows = []
        for start in range(0, len(rewards), group_size):
            group = np.asarray(rewards[start : start + group_size], float)
            if len(group) < group_size:
                raise ValueError("bad group")
            rows.append((group - group.mean()) / (group.std(ddof=1) + eps_used(eps)))
        return rows

    report = graded("group_relative_advantage", answer)
    assert report.mistake == mistake
    assert report.parts[2].passed is (mistake == "")


def test_an_integer_array_that_swallows_the_fractions_is_named():
    def answer(rewards, group_size, eps=1e-4):
        if group_size < 2 or np.isnan(rewards).any():
            raise ValueError("bad group")
        out = np.array(rewards).reshape(-1, group_size)
        for i, group in enumerate(out.copy()):
            out[i] = (group - group.mean()) / (group.std(ddof=1) + eps)
        return out

    assert graded("group_relative_advantage", answer).mistake == "cut to whole numbers"


def test_who_forgets_only_the_nan_loses_one_point_and_sees_that_call():
    def answer(rewards, group_size, eps=1e-4):
        if group_size < 2:
            raise ValueError("a group of one")
        r = np.array(rewards, float).reshape(-1, group_size)
        return (r - r.mean(1, keepdims=True)) / (r.std(1, ddof=1, keepdims=True) + eps)

    report = graded("group_relative_advantage", answer)
    assert (report.points, report.max_points) == (4, 5)
    assert "nan" in report.parts[3].evidence.call


@pytest.mark.parametrize(
    ("compute", "mistake"),
    [
        (lambda r, G, eps: normal(r.reshape(G, -1).T, eps), "groups mixed by the reshape"),
        (lambda r, G, eps: normal(r.reshape(-1, G)[:1], eps), "only the first group returned"),
        (lambda r, G, eps: normal(r.reshape(-1, G), 1e-4), "eps of the argument ignored"),
        (lambda r, G, eps: normal(r.reshape(-1, G), eps, power=2), "divided by the variance"),
        (lambda r, G, eps: np.round(normal(r.reshape(-1, G), eps), 4), "rounded"),
    ],
)
def test_slips_around_the_formula_are_named(compute, mistake):
    def answer(rewards, group_size, eps=1e-4):
        if group_size < 2 or np.isnan(rewards).any() or len(rewards) % group_size:
            raise ValueError("bad group")
        return compute(np.array(rewards, float), group_size, eps)

    assert graded("group_relative_advantage", answer).mistake == mistake


def normal(groups, eps, power=1):
    return (groups - groups.mean(1, keepdims=True)) / (groups.std(1, ddof=1, keepdims=True) ** power + eps)


# --- rollout_advantages (CASES B1) ---


def by_hand(prompt_ids, rewards, eps):
    groups = {}
    for one, reward in zip(prompt_ids, rewards, strict=False):
        groups.setdefault(one, []).append(reward)
    return {one: [(r - np.mean(group)) / (np.std(group, ddof=1) + eps) for r in group] for one, group in groups.items()}


def test_a_reshape_earns_nothing_and_is_told_about_the_ids():
    def answer(prompt_ids, rewards, group_size, eps=1e-4):
        r = np.array(rewards, float).reshape(-1, group_size)
        return ((r - r.mean(1, keepdims=True)) / (r.std(1, ddof=1, keepdims=True) + eps)).ravel()

    report = graded("rollout_advantages", answer)
    assert (report.points, report.mistake) == (0, "reshape without ids")
    assert "expected 0.707 0.707 -0.707 -0.707" in says(report)


def test_values_prompt_after_prompt_are_named_as_lost_order():
    def answer(prompt_ids, rewards, group_size, eps=1e-4):
        if len(prompt_ids) != len(rewards) or any(list(prompt_ids).count(p) != group_size for p in prompt_ids):
            raise ValueError("no whole groups")
        if np.isnan(rewards).any():
            raise ValueError("NaN")
        return [a for group in by_hand(prompt_ids, rewards, eps).values() for a in group]

    report = graded("rollout_advantages", answer)
    assert (report.points, report.mistake) == (1, "order lost")


def test_a_right_answer_without_checks_loses_the_errors_only():
    def answer(prompt_ids, rewards, group_size, eps=1e-4):
        queue = {one: iter(group) for one, group in by_hand(prompt_ids, rewards, eps).items()}
        return np.array([next(queue[one]) for one in prompt_ids[: len(rewards)]])

    report = graded("rollout_advantages", answer)
    assert [part.passed for part in report.parts] == [True, True, False]


@pytest.mark.parametrize(("end", "mistake"), [(0, "eps not passed on"), (-1, "taken from the wrong end")])
def test_the_points_do_not_depend_on_the_seed(end, mistake):
    def answer(prompt_ids, rewards, group_size, eps=1e-4):
        if len(prompt_ids) != len(rewards) or any(list(prompt_ids).count(p) != group_size for p in prompt_ids):
            raise ValueError("no whole groups")
        if np.isnan(rewards).any():
            raise ValueError("NaN")
        queues = by_hand(prompt_ids, rewards, eps if end else 1e-4)
        return [queues[p].pop(end) for p in prompt_ids]

    reports = [graded("rollout_advantages", answer, seed) for seed in range(12)]
    assert {report.mistake for report in reports} == {mistake}
    assert {report.points for report in reports} == {1 if end else 2}


# --- zero_variance_fraction ---


@pytest.mark.parametrize(
    "is_equal",
    [
        lambda group: len(set(group)) == 1,
        lambda group: all(r == group[0] for r in group),
        lambda group: np.std(group) < 1e-6,
        lambda group: np.isclose(np.var(group), 0),
        lambda group: np.allclose(group, group[0]),
    ],
)
def test_exact_and_tolerant_comparisons_are_both_right(is_equal):
    def answer(rewards, group_size):
        if group_size < 2 or len(rewards) % group_size or np.isnan(rewards).any():
            raise ValueError("no whole groups")
        groups = [rewards[i : i + group_size] for i in range(0, len(rewards), group_size)]
        return sum(map(is_equal, groups)) / len(groups)

    assert all(graded("zero_variance_fraction", answer, seed).state == "right" for seed in range(5))


def test_a_computed_std_of_exactly_zero_is_not_enough():
    def answer(rewards, group_size):
        if group_size < 2 or np.isnan(rewards).any():
            raise ValueError("no whole groups")
        return np.mean(np.array(rewards).reshape(-1, group_size).std(axis=1) == 0)

    report = graded("zero_variance_fraction", answer)
    assert (report.points, report.mistake) == (3, "computed std is exactly 0")
    assert "seven rewards of 0.1 give 0, seven rewards of 0.5 give 0.5" in says(report)


# --- log_softmax ---


@pytest.mark.parametrize("floor", [1e-9, 1e-12, 1e-20, 1e-45])
@pytest.mark.parametrize("how", [lambda p, floor: p + floor, lambda p, floor: np.clip(p, floor, 1)])
def test_any_floor_inside_the_log_is_named(floor, how):
    def answer(logits):
        e = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.log(how(e / e.sum(axis=-1, keepdims=True), floor))

    report = graded("log_softmax", answer)
    assert (report.points, report.mistake) == (3, "floor inside the log")


def test_overflow_is_named_and_leaves_the_other_points():
    report = graded("log_softmax", lambda x: np.log(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)))
    assert (report.points, report.mistake) == (3, "naive softmax")


def test_one_row_right_and_arrays_wrong():
    report = graded("log_softmax", lambda x: x - x.max() - np.log(np.sum(np.exp(x - x.max()))))
    assert [part.passed for part in report.parts] == [True, False, False]
    assert report.mistake == "whole-array normaliser"


def test_pythons_own_max_and_other_logarithms_are_named():
    own_max = graded("log_softmax", lambda x: x - max(x) - np.log(np.exp(x - max(x)).sum(axis=-1, keepdims=True)))
    log10 = graded("log_softmax", lambda x: x - np.log10(np.exp(x - x.max()).sum()) - x.max())
    assert (own_max.points, own_max.mistake) == (2, "Python's own max")
    assert log10.parts[0].mistake == "sum in base 10"


# --- sequence_logprob (CASES C1, C2, C7) ---


def log_softmax(x):
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def guarded(answer):
    def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
        rows, vocabulary = logits.shape
        if rows != len(token_ids) - 1 or not 0 < prompt_len < len(token_ids):
            raise ValueError("shapes")
        if min(token_ids) < 0 or max(token_ids) >= vocabulary:
            raise ValueError("ids")
        return answer(logits, token_ids, prompt_len, temperature)

    return sequence_logprob


def test_own_position_gives_the_well_known_number():
    def answer(logits, ids, prompt_len, temperature):
        logps = log_softmax(logits / temperature)
        own = [logps[i, ids[i]] for i in range(len(logits))]
        return sum(own[prompt_len - 1 :])

    report = graded("sequence_logprob", guarded(answer))
    assert (report.points, report.mistake) == (3, "own position")
    assert "expected -0.211 yours -5.991" in says(report)


def test_own_position_past_the_end_is_explained_and_not_only_an_index_error():
    def answer(logits, token_ids, prompt_len, temperature=1.0):
        logps = log_softmax(logits / temperature)
        return logps[np.arange(prompt_len, len(token_ids)), token_ids[prompt_len:]].sum()

    report = graded("sequence_logprob", answer)
    assert report.mistake == "own position, past the last row" and "IndexError" in says(report)


def test_a_mask_that_is_not_shifted_with_the_targets():
    def answer(logits, ids, prompt_len, temperature):
        logps = log_softmax(logits / temperature)
        mask = np.arange(len(ids)) >= prompt_len
        return (logps[np.arange(len(logits)), ids[1:]] * mask[:-1]).sum()

    report = graded("sequence_logprob", guarded(answer))
    assert (report.points, report.mistake) == (3, "mask shifted")


def test_a_forgotten_temperature_costs_one_point():
    def answer(logits, ids, prompt_len, temperature):
        logps = log_softmax(logits)
        return sum(logps[t - 1, ids[t]] for t in range(prompt_len, len(ids)))

    report = graded("sequence_logprob", guarded(answer))
    assert (report.points, report.mistake) == (4, "temperature left out")
    assert "temperature 2 gives -0.1269" in says(report) and "give -0.3133" in says(report)


def test_a_slice_with_an_array_of_ids_adds_up_a_block():
    def answer(logits, ids, prompt_len, temperature):
        return log_softmax(logits / temperature)[prompt_len - 1 :, ids[prompt_len:]].sum()

    report = graded("sequence_logprob", guarded(answer))
    assert (report.points, report.mistake) == (3, "a block instead of pairs")


def test_ids_of_the_prompt_are_looked_at_too():
    def answer(logits, token_ids, prompt_len, temperature=1.0):
        if len(logits) != len(token_ids) - 1 or not 0 < prompt_len < len(token_ids):
            raise ValueError("shapes")
        if not all(0 <= token < logits.shape[1] for token in token_ids[prompt_len:]):
            raise ValueError("ids")
        logps = log_softmax(logits / temperature)
        return sum(logps[t - 1, token_ids[t]] for t in range(prompt_len, len(token_ids)))

    report = graded("sequence_logprob", answer)
    assert (report.points, report.mistake) == (4, "ids of the prompt not checked")


def test_a_product_of_probabilities_underflows():
    def answer(logits, ids, prompt_len, temperature):
        probs = np.exp(log_softmax(logits / temperature))[prompt_len - 1 :]
        return np.log(np.prod([row[i] for row, i in zip(probs, ids[prompt_len:], strict=True)]))

    report = graded("sequence_logprob", guarded(answer))
    assert (report.points, report.mistake) == (3, "log of a product")


# --- what students read ---


@pytest.fixture(scope="module")
def solutions():
    """{exercise: the lines of its solution in the notebook}."""
    notebook = nbformat.read(notebook_path(SOLUTIONS, chapter_02.EXERCISES[0].chapter), as_version=4)
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and BEGIN in cell.source:
            name = re.findall(r"^def (\w+)\(", cell.source, re.MULTILINE)[-1]
            body = cell.source.partition(BEGIN)[2].partition(END)[0]
            found[name] = [line.strip() for line in body.split("\n") if line.strip()]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_feedback_does_not_give_the_answer_away(name, solutions):
    exercise = EXERCISES[name]
    words = " ".join(
        [mistake.says for mistake in exercise.mistakes] + [part.hint for part in exercise.parts] + [exercise.hint]
    )
    squeezed = re.sub(r"\s", "", words)
    for line in solutions[name]:
        right_side = re.sub(r"\s", "", line.removeprefix("return ").partition("=")[2] or line)
        assert len(right_side) < 12 or right_side not in squeezed, line
    assert not re.search(r"ddof ?= ?1|prompt_len ?- ?1|\.max\(|np\.log\(", words)


@pytest.mark.parametrize("name", NAMES)
def test_the_stub_is_not_attempted_and_costs_nothing_else(name):
    def stub(*args, **kwargs):
        raise NotImplementedError()

    report = graded(name, stub)
    assert (report.state, report.points, report.parts) == ("not attempted", 0, ())
