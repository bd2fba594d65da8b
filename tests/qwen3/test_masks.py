"""Lengths, masks, padding and position ids: cases C3, C5, C6 and E4, and sums that NaN cannot hurt."""

import numpy as np
import pytest
import torch

from grpo.logprobs import completion_mask
from grpo.qwen3.masks import completion_lengths, left_pad, length_mask, masked_mean, masked_sum, position_ids


def test_case_c3_pad_is_the_end_token():
    ids = torch.tensor([[7, 2, 2, 2], [7, 8, 9, 7], [2, 7, 7, 2], [7, 8, 9, 2]])
    lengths = completion_lengths(ids, {2})
    assert lengths.tolist() == [2, 4, 1, 4] and lengths.dtype == torch.int64
    assert length_mask(lengths, 4)[0].tolist() == [True, True, False, False]
    assert length_mask(completion_lengths(torch.tensor([[5, 9, 1, 1, 1]]), {1}), 5).int().tolist() == [[1, 1, 1, 0, 0]]


def test_case_e4_every_stop_id_ends_a_completion():
    ids = torch.tensor([[9, 151643, 9, 9], [9, 151645, 9, 9], [9, 9, 151645, 151643]])
    for stop_ids in ({151643, 151645}, [151645, 151643], (151643, 151645), frozenset((151643, 151645))):
        assert completion_lengths(ids, stop_ids).tolist() == [2, 2, 3]
    assert completion_lengths(ids, {151643}).tolist() == [2, 4, 4]
    assert completion_lengths(torch.tensor([[9, 0, 9]]), [0]).tolist() == [2]


def test_lengths_of_completions_without_tokens():
    assert completion_lengths(torch.zeros((3, 0), dtype=torch.int64), {2}).tolist() == [0, 0, 0]
    assert completion_lengths(torch.zeros((0, 3), dtype=torch.int64), {2}).tolist() == []
    assert length_mask(torch.tensor([0, 0]), 0).shape == (2, 0)


def test_lengths_are_the_numpy_library_s_mask():
    ids = np.random.default_rng(0).integers(0, 6, (200, 7))
    stop_ids = {1, 4}
    lengths = completion_lengths(torch.tensor(ids), stop_ids)
    np.testing.assert_array_equal(length_mask(lengths, 7).numpy(), completion_mask(ids, stop_ids))
    assert set(lengths.tolist()) == set(range(1, 8))


def test_lengths_errors():
    ids = torch.tensor([[1, 2]])
    for wrong in (ids[0], ids.float(), [[1, 2]], ids.bool()):
        with pytest.raises(ValueError, match=r"completion_ids is .*: pass a tensor of int64 with 2 axes"):
            completion_lengths(wrong, {2})
    for wrong in (2, None, "2", b"2", {2: 3}):
        with pytest.raises(ValueError, match=r"stop_ids is .*: pass all the ids"):
            completion_lengths(ids, wrong)
    with pytest.raises(ValueError, match=r"completion_ids is torch.float32 \(1, 2\): pass"):
        completion_lengths(ids.float(), {2})
    with pytest.raises(ValueError, match="completion_ids is list: pass"):
        completion_lengths([[1, 2]], {2})
    with pytest.raises(ValueError, match="stop_ids is empty: no completion would ever end"):
        completion_lengths(ids, set())
    for wrong in ([2.0], [None], [[2]], [-1]):
        with pytest.raises(ValueError, match="a stop id is"):
            completion_lengths(ids, wrong)


def test_length_mask():
    mask = length_mask(torch.tensor([0, 1, 3]), 3)
    assert mask.dtype == torch.bool
    assert mask.int().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 1]]


def test_length_mask_errors():
    with pytest.raises(ValueError, match=r"lengths\[1\] is 4: a row of width 3 holds 0 to 3 tokens"):
        length_mask(torch.tensor([3, 4, 9]), 3)
    with pytest.raises(ValueError, match=r"lengths\[0\] is -1"):
        length_mask(torch.tensor([-1]), 3)
    for wrong in (torch.tensor([[1]]), torch.tensor([1.0]), [1]):
        with pytest.raises(ValueError, match=r"lengths is .*: pass a tensor of int64 with 1 axis"):
            length_mask(wrong, 3)
    for wrong in (-1, 3.0):
        with pytest.raises(ValueError, match="width is"):
            length_mask(torch.tensor([0]), wrong)


def test_left_pad():
    ids, mask = left_pad([[5], [6, 0, 7], [8, 9]], pad_id=0)
    assert ids.tolist() == [[0, 0, 5], [6, 0, 7], [0, 8, 9]] and ids.dtype == torch.int64
    # The 0 in the second prompt is a token, whatever the pad id.
    assert mask.int().tolist() == [[0, 0, 1], [1, 1, 1], [0, 1, 1]] and mask.dtype == torch.bool
    assert left_pad([[5], [6, 7]], pad_id=3)[0].tolist() == [[3, 5], [6, 7]]
    assert left_pad((np.array([5]), range(6, 8)), pad_id=np.int64(3))[0].tolist() == [[3, 5], [6, 7]]


def test_left_pad_errors():
    with pytest.raises(ValueError, match="prompts is empty"):
        left_pad([], 0)
    with pytest.raises(ValueError, match="prompt 1 has no token"):
        left_pad([[5], [], []], 0)
    for wrong in (5.0, None, -1):
        with pytest.raises(ValueError, match="a token of prompt 1 is"):
            left_pad([[5], [6, wrong]], 0)
        with pytest.raises(ValueError, match="pad_id is"):
            left_pad([[5]], wrong)


def test_case_c5_position_ids():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
    positions = position_ids(mask)
    assert positions.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert positions.dtype == torch.int64
    for wrong in (mask.int(), mask[0], mask.numpy()):
        with pytest.raises(ValueError, match=r"^mask "):
            position_ids(wrong)


class AbsolutePositions(torch.nn.Module):
    """One layer of causal attention with learned absolute positions: rotary ones cannot see a row that is shifted."""

    def __init__(self, generator):
        super().__init__()
        draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
        self.tokens, self.positions, self.head = draw(12, 8), draw(9, 8), draw(8, 12)

    def forward(self, ids, mask, positions):
        x = self.tokens[ids] + self.positions[positions]
        causal = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
        scores = (x @ x.mT).masked_fill(~(causal & mask[:, None, :]), -1e9)
        return torch.log_softmax((x + scores.softmax(-1) @ x) @ self.head, dim=-1)


def test_case_c5_a_left_padded_row_scores_as_if_alone():
    generator = torch.Generator().manual_seed(0)
    model = AbsolutePositions(generator)
    prompts = [[3, 4, 5], [6, 7, 8, 9, 1]]
    ids, mask = left_pad(prompts, pad_id=0)
    together = model(ids, mask, position_ids(mask))
    for row, prompt in enumerate(prompts):
        alone = model(torch.tensor([prompt]), torch.ones((1, len(prompt))).bool(), torch.arange(len(prompt))[None])
        torch.testing.assert_close(together[row, -len(prompt) :], alone[0], atol=1e-5, rtol=0)
    # The two usual mistakes are far off.
    without_positions = model(ids, mask, torch.arange(5).expand(2, 5))
    without_mask = model(ids, torch.ones_like(mask), position_ids(mask))
    for wrong in (without_positions, without_mask):
        assert (wrong[0, -3:] - together[0, -3:]).abs().max() > 0.1


def test_case_c6_nan_under_the_mask_has_no_value_and_no_gradient():
    values = torch.tensor([[torch.nan, -0.5], [2.0, torch.inf]], requires_grad=True)
    mask = torch.tensor([[False, True], [True, False]])
    assert masked_sum(values, mask).item() == 1.5
    assert masked_mean(values, mask).item() == 0.75
    assert masked_sum(values, mask, dim=1).tolist() == [-0.5, 2.0]
    assert masked_sum(values, mask, dim=0).tolist() == [2.0, -0.5]
    (3 * masked_sum(values, mask)).backward()
    assert values.grad.tolist() == [[0.0, 3.0], [3.0, 0.0]]


def test_masked_mean_divides_by_what_is_kept():
    values = torch.tensor([[1.0, 2.0, 6.0], [5.0, 5.0, 5.0]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert masked_mean(values, mask, dim=1).tolist() == [1.5, 0.0]
    assert masked_mean(values, mask, dim=0).tolist() == [1.0, 2.0, 0.0]
    assert masked_mean(values, mask).item() == 1.5
    assert masked_mean(values, ~mask).item() == 5.25
    nothing = values.clone().requires_grad_()
    masked_mean(nothing, torch.zeros_like(mask)).backward()
    assert nothing.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("function", [masked_sum, masked_mean])
def test_masked_sums_refuse_other_masks(function):
    values = torch.ones(2, 3)
    for wrong, message in (
        (torch.ones(2, 3), "mask is of type torch.float32: pass a bool tensor"),
        (np.ones((2, 3), bool), "mask is of type ndarray"),
        ([[True] * 3] * 2, "mask is of type list"),
        (torch.ones(2, 1).bool(), r"mask has shape \(2, 1\): pass \(2, 3\), one entry per value"),
        (torch.ones(3).bool(), r"mask has shape \(3,\): pass \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            function(values, wrong)
    with pytest.raises(ValueError, match=r"mask has shape \(3,\): pass 2 axes"):
        position_ids(torch.ones(3).bool())
