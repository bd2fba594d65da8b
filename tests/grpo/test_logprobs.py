"""grpo.logprobs: which logits score which token, and which tokens count (conventions C8 and C9)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import completion_mask, entropy, log_softmax, masked_sum, nucleus_logprobs, sequence_logprob, token_logprobs

few = settings(derandomize=True, max_examples=30, deadline=None)
rows_of_logits = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=5)


def next_token_model(token_ids, vocabulary=3):
    """(T-1, V) logits: after token t the model gives .9 to (t+1) mod 3 and .05 to each of the others."""
    favourite = (np.asarray(token_ids[:-1]) + 1) % vocabulary
    return np.log(np.where(np.arange(vocabulary) == favourite[:, None], 0.9, 0.05))


def test_log_softmax_of_a_known_distribution():
    np.testing.assert_allclose(log_softmax(np.log([0.2, 0.3, 0.5])), np.log([0.2, 0.3, 0.5]), atol=1e-15)
    np.testing.assert_allclose(log_softmax([0, 0]), np.log([0.5, 0.5]), atol=1e-15)


def test_log_softmax_of_huge_logits():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        np.testing.assert_array_equal(log_softmax([1e4, 0.0]), [0.0, -1e4])
        np.testing.assert_allclose(log_softmax([-1e4, -1e4]), np.log([0.5, 0.5]))
        np.testing.assert_array_equal(log_softmax([[1e4, -1e4], [-1e4, 1e4]]), [[0, -2e4], [-2e4, 0]])


@few
@given(rows_of_logits, st.floats(-1e3, 1e3))
def test_log_softmax_is_normalised_and_ignores_a_constant(logits, constant):
    logps = log_softmax(logits)
    assert np.all(logps <= 0.0)
    np.testing.assert_allclose(np.exp(logps).sum(), 1.0, atol=1e-12)
    np.testing.assert_allclose(log_softmax(np.array(logits) + constant), logps, atol=1e-9)


def test_log_softmax_works_along_the_last_axis():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4))
    logps = log_softmax(logits)
    assert logps.shape == (2, 3, 4)
    np.testing.assert_allclose(logps[1, 2], log_softmax(logits[1, 2]), atol=1e-15)


def test_masked_logits_are_impossible_tokens():
    np.testing.assert_allclose(log_softmax([0.0, -np.inf, 0.0]), [np.log(0.5), -np.inf, np.log(0.5)])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_logits_are_named_by_index(bad):
    with pytest.raises(ValueError, match=r"logits\[1, 0\] is (nan|inf): find the layer"):
        log_softmax([[0.0, 1.0], [bad, bad]])


def test_a_row_without_any_possible_token():
    with pytest.raises(ValueError, match=r"logits\[1\] is -inf for every token"):
        log_softmax([[0.0, -np.inf], [-np.inf, -np.inf], [-np.inf, -np.inf]])
    with pytest.raises(ValueError, match=r"logits\[0, 1\] is -inf for every token"):
        log_softmax([[[0.0], [-np.inf]], [[-np.inf], [0.0]]])


def test_what_is_no_number_is_named():
    for function in (log_softmax, entropy, lambda logits: token_logprobs(logits, [0, 1], 1)):
        with pytest.raises(ValueError, match=r"^logits must be an array of numbers"):
            function([["a", "b"]])
    with pytest.raises(ValueError, match=r"^values must be an array of numbers"):
        masked_sum(["a", "b"], [1, 1])


@pytest.mark.parametrize("logits", [1.0, [], np.zeros((2, 0))])
def test_logits_need_a_last_axis(logits):
    for function in (log_softmax, entropy):
        with pytest.raises(ValueError, match=r"logits has shape .*: pass \(..., V\)"):
            function(logits)


def test_logits_may_be_an_empty_batch_or_hold_one_token():
    assert log_softmax(np.zeros((0, 3))).shape == (0, 3)
    assert log_softmax([[5.0]]).tolist() == [[0.0]]
    assert entropy([[5.0]]).tolist() == [0.0]


def test_entropy_in_nats():
    np.testing.assert_allclose(entropy(np.zeros((2, 4))), [np.log(4)] * 2)
    np.testing.assert_allclose(entropy(np.log([0.9, 0.1])), -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert entropy([0.0, -np.inf]) == 0.0
        assert not np.signbit(entropy([0.0, -np.inf]))
        assert entropy([1e4, 0.0]) == 0.0
        np.testing.assert_allclose(entropy([0.0, -np.inf, 0.0]), np.log(2))


@few
@given(rows_of_logits)
def test_entropy_is_between_zero_and_log_v(logits):
    assert 0.0 <= entropy(logits) <= np.log(len(logits)) + 1e-12


def test_case_c1_token_is_scored_by_the_position_before():
    token_ids = [0, 1, 2]
    logits = next_token_model(token_ids)
    assert abs(sequence_logprob(logits, token_ids, 1) - 2 * np.log(0.9)) < 1e-12
    assert abs(sequence_logprob(logits, token_ids, 1) - -0.2107) < 5e-5
    # What reading each token at its own position would give:
    own_position = next_token_model([*token_ids, 0])[[1, 2], [1, 2]].sum()
    assert abs(own_position - -5.9915) < 5e-5


def test_token_logprobs_come_one_per_answer_token():
    token_ids = [0, 1, 0, 1]
    logps = token_logprobs(next_token_model(token_ids), token_ids, 1)
    np.testing.assert_allclose(logps, np.log([0.9, 0.05, 0.9]), atol=1e-12)
    logps = token_logprobs(next_token_model(token_ids), token_ids, 3)
    np.testing.assert_allclose(logps, np.log([0.9]), atol=1e-12)


def test_case_c2_the_mask_is_shifted_with_the_targets():
    logps_of_targets, mask = [-1.0, -2.0, -4.0, -8.0], [0, 0, 1, 1, 0]
    assert masked_sum(logps_of_targets, mask[1:]) == -6.0
    assert masked_sum(logps_of_targets, mask[:-1]) == -12.0  # the mistake


def test_case_c7_temperature_belongs_to_the_distribution():
    logits, ids = [[2.0, 0.0]], [1, 0]
    assert abs(sequence_logprob(logits, ids, 1, temperature=2) - -0.3133) < 5e-5
    assert abs(sequence_logprob(logits, ids, 1) - -0.1269) < 5e-5
    assert abs(token_logprobs(logits, ids, 1, temperature=2)[0] - -0.3133) < 5e-5
    # Raw log-prob of token 0; after top-1 filtering the sampler would report 0.
    assert abs(sequence_logprob([[2.0, 1.0, 0.0]], ids, 1) - -0.4076) < 5e-5
    assert sequence_logprob([[2.0, -np.inf, -np.inf]], ids, 1) == 0.0


def test_prompt_logits_never_count():
    token_ids = [0, 1, 2, 0, 2]
    logits = next_token_model(token_ids)
    perturbed = logits.copy()
    perturbed[:2] = [[5.0, -3.0, np.nan], [np.inf, 0.0, 1.0]]
    assert sequence_logprob(perturbed, token_ids, 3) == sequence_logprob(logits, token_ids, 3)
    perturbed[2] += [1.0, 0.0, 0.0]
    assert sequence_logprob(perturbed, token_ids, 3) != sequence_logprob(logits, token_ids, 3)


def test_longer_answers_have_lower_sums_at_equal_confidence():
    short, long = [0, 1, 2], [0, 1, 2, 0, 1]
    sums = [sequence_logprob(next_token_model(ids), ids, 1) for ids in (short, long)]
    means = [token_logprobs(next_token_model(ids), ids, 1).mean() for ids in (short, long)]
    np.testing.assert_allclose(sums, [2 * np.log(0.9), 4 * np.log(0.9)])
    np.testing.assert_allclose(means, np.log([0.9, 0.9]))
    assert type(sums[0]) is float


@few
@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_all_answers_of_one_length_share_the_probability(vocabulary, prompt_len, seed):
    # Over all next tokens the probabilities of the one-token answers add up to 1.
    rng = np.random.default_rng(seed)
    prompt = rng.integers(vocabulary, size=prompt_len).tolist()
    logits = rng.normal(size=(prompt_len, vocabulary))
    total = sum(np.exp(sequence_logprob(logits, [*prompt, token], prompt_len)) for token in range(vocabulary))
    assert abs(total - 1.0) < 1e-12


@pytest.mark.parametrize(
    ("logits_shape", "ids"),
    [
        ((3, 2), [0, 1, 0]),
        ((1, 2), [0, 1, 0]),
        ((2,), [0, 1, 0]),
        ((2, 2, 2), [0, 1, 0]),
        ((2, 2), [[0, 1, 0]]),
        ((2, 2), [[0], [1], [0]]),
    ],
)
def test_shapes_must_fit(logits_shape, ids):
    with pytest.raises(ValueError, match=r"logits has shape .*, token_ids .*: pass \(T-1, V\) and \(T,\)"):
        token_logprobs(np.zeros(logits_shape), ids, 1)


@pytest.mark.parametrize("prompt_len", [0, -1, 1.0])
def test_prompt_len_must_be_a_positive_count(prompt_len):
    with pytest.raises(ValueError, match="prompt_len is"):
        sequence_logprob(np.zeros((2, 2)), [0, 1, 0], prompt_len)


@pytest.mark.parametrize("prompt_len", [3, 4])
def test_an_answer_must_be_left(prompt_len):
    with pytest.raises(ValueError, match=rf"prompt_len is {prompt_len} of 3 tokens"):
        sequence_logprob(np.zeros((2, 2)), [0, 1, 0], prompt_len)


@pytest.mark.parametrize("bad", [-1, 2, 99])
def test_ids_outside_the_vocabulary_are_named(bad):
    with pytest.raises(ValueError, match=rf"token_ids\[1\] is {bad}: ids must be in 0 .. 1"):
        sequence_logprob(np.zeros((2, 2)), [0, bad, bad], 1)
    with pytest.raises(ValueError, match=rf"token_ids\[0\] is {bad}"):  # in the prompt too
        sequence_logprob(np.zeros((2, 2)), [bad, 0, 1], 1)


def test_ids_must_be_integers():
    with pytest.raises(ValueError, match="token_ids has dtype float64: pass integers"):
        sequence_logprob(np.zeros((2, 2)), [0.0, 1.0, 0.0], 1)


@pytest.mark.parametrize("temperature", [0, -1.0, np.nan, np.inf, None])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="temperature is"):
        token_logprobs(np.zeros((2, 2)), [0, 1, 0], 1, temperature)


def test_case_c3_pad_equal_to_eos():
    mask = completion_mask([7, 2, 2, 2], {2})
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, [1, 1, 0, 0])
    np.testing.assert_array_equal(completion_mask([5, 9, 1, 1, 1], {1}), [1, 1, 1, 0, 0])


@pytest.mark.parametrize("stop", [151643, 151645])
def test_case_e4_several_stop_ids(stop):
    np.testing.assert_array_equal(completion_mask([9, stop, 9, 9], {151643, 151645}), [1, 1, 0, 0])


def test_completion_mask_by_rows():
    ids = np.array([[[1, 2, 3], [2, 1, 1]], [[1, 1, 1], [1, 1, 2]]])
    np.testing.assert_array_equal(
        completion_mask(ids, frozenset({2, 5})), [[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]]
    )


@few
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_completion_mask_against_a_loop(ids):
    expected, running = [], True
    for token in ids:
        expected.append(running)
        running = running and token not in {2, 3}
    np.testing.assert_array_equal(completion_mask(ids, {2, 3}), expected)


@pytest.mark.parametrize("stop_ids", [2, [2], set(), None])
def test_stop_ids_must_be_a_set(stop_ids):
    with pytest.raises(ValueError, match=r"stop_ids is .*: pass a non-empty set"):
        completion_mask([7, 2], stop_ids)


def test_completion_mask_checks_ids():
    with pytest.raises(ValueError, match="completion_ids has dtype float64"):
        completion_mask([7.0, 2.0], {2})
    with pytest.raises(ValueError, match="completion_ids is the single number 7"):
        completion_mask(7, {2})
    with pytest.raises(ValueError, match="stop_ids has dtype"):
        completion_mask([7, 2], {"</s>"})


def test_case_c6_nan_under_the_mask():
    assert masked_sum([np.nan, -0.5], [0, 1]) == -0.5
    assert masked_sum([np.inf, -0.5], [False, True]) == -0.5
    assert np.isnan(masked_sum([np.nan, -0.5], [1, 1]))


def test_masked_sum_over_the_last_axis():
    np.testing.assert_array_equal(masked_sum([[1, 2, 4], [8, 16, 32]], [[1, 0, 1], [0, 0, 0]]), [5.0, 0.0])


@pytest.mark.parametrize("mask", [[1, 1], [[1, 1, 1]], 1])
def test_masked_sum_does_not_broadcast(mask):
    with pytest.raises(ValueError, match="mask has shape"):
        masked_sum([1.0, 2.0, 3.0], mask)


def test_masked_sum_checks_the_entries():
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        masked_sum([1.0, 2.0], [0.5, 1.0])


FOUR = np.log([0.15, 0.5, 0.05, 0.3])


def test_nucleus_keeps_the_token_that_crosses_top_p():
    kept = np.log(np.array([0.15, 0.5, 0.0, 0.3]) / 0.95, where=[True, True, False, True], out=np.full(4, -np.inf))
    np.testing.assert_allclose(nucleus_logprobs(FOUR, 0.9), kept, atol=1e-12)
    np.testing.assert_allclose(nucleus_logprobs(FOUR.tolist(), 0.81), kept, atol=1e-12)
    # .5 + .3 = .8 does reach .79, and .5 alone reaches .5 and less.
    assert np.isfinite(nucleus_logprobs(FOUR, 0.79)).tolist() == [False, True, False, True]
    assert nucleus_logprobs(FOUR, 0.49).tolist() == [-np.inf, 0.0, -np.inf, -np.inf]


def test_nucleus_ratio_to_the_full_softmax_is_the_kept_mass():
    kept = nucleus_logprobs(FOUR, 0.9)
    drawn = np.isfinite(kept)
    np.testing.assert_allclose(np.exp(log_softmax(FOUR) - kept)[drawn], 0.95)


def test_nucleus_at_the_ends_of_top_p():
    # The running sum is exactly 1 from the first token on.
    np.testing.assert_allclose(nucleus_logprobs([0.0, -40.0, -50.0], 1), [0.0, -40.0, -50.0], atol=1e-12)
    np.testing.assert_array_equal(nucleus_logprobs([[1.0, 2.0], [3.0, 0.0]], 0), [[-np.inf, 0.0], [0.0, -np.inf]])
    assert nucleus_logprobs([1.0, -np.inf], 1).tolist() == [0.0, -np.inf]


def test_nucleus_takes_equal_logits_in_their_order():
    logits = np.tile([0.0, 1.0], 20)  # each of the twenty likely ones has .0366
    kept = np.flatnonzero(np.isfinite(nucleus_logprobs(logits, 0.35)))
    assert kept.tolist() == list(range(1, 20, 2))
    assert nucleus_logprobs([7.0, 7.0], 0.5).tolist() == [0.0, -np.inf]  # one of two reaches a half


def test_nucleus_takes_each_row_by_itself():
    rows = np.array([FOUR, [3.0, 0.0, 0.0, 3.0], [0.0, 0.0, 9.0, 1.0]])
    batch = nucleus_logprobs(rows.reshape(3, 1, 4), 0.6)
    assert batch.shape == (3, 1, 4)
    for row, logps in zip(rows, batch[:, 0], strict=True):
        np.testing.assert_array_equal(logps, nucleus_logprobs(row, 0.6))
    assert np.isfinite(batch).sum(axis=-1).ravel().tolist() == [2, 2, 1]


def test_nucleus_temperature_comes_first():
    logits = [2.0, 0.0, 1.0, -1.0]
    np.testing.assert_array_equal(nucleus_logprobs(logits, 0.8, 2.0), nucleus_logprobs([1.0, 0.0, 0.5, -0.5], 0.8))
    assert np.isfinite(nucleus_logprobs(logits, 0.8)).sum() == 2 < np.isfinite(nucleus_logprobs(logits, 0.8, 2.0)).sum()


@few
@given(rows_of_logits, st.floats(0, 1))
def test_nucleus_is_normalised_and_no_longer_than_needed(logits, top_p):
    logps = nucleus_logprobs(logits, top_p)
    kept = np.isfinite(logps) | (top_p == 1)
    chances = np.exp(log_softmax(logits))[kept]
    np.testing.assert_allclose(np.exp(logps).sum(), 1.0, atol=1e-12)
    assert chances.sum() >= top_p - 1e-9
    assert top_p == 1 or len(chances) == 1 or chances.sum() - chances.min() < top_p + 1e-9


@pytest.mark.parametrize(
    "top_p, temperature, words",
    [
        (-0.1, 1.0, "top_p is -0.1"),
        (1.5, 1.0, "top_p is 1.5: pass a probability"),
        (90, 1.0, "top_p is 90"),
        (float("nan"), 1.0, "top_p is nan"),
        (0.9, 0.0, "temperature is 0.0"),
        (0.9, -1.0, "temperature is -1.0"),
        (0.9, float("nan"), "temperature is nan"),
    ],
)
def test_nucleus_out_of_range(top_p, temperature, words):
    with pytest.raises(ValueError, match=words):
        nucleus_logprobs(FOUR, top_p, temperature)


@pytest.mark.parametrize(
    "logits, words",
    [(1.0, "one logit per token"), ([], "shape"), ([0.0, float("nan")], "nan"), ([[0.0], [1.0, 2.0]], "^logits must")],
)
def test_nucleus_of_what_are_no_logits(logits, words):
    with pytest.raises(ValueError, match=words):
        nucleus_logprobs(logits, 0.9)
