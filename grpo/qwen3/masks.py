"""Which tokens count, in torch: lengths, masks, left padding, position ids, and sums that a NaN at padding cannot hurt.

Everything is decided by position, never by comparing ids with the padding id: Qwen3's base model pads with its own end
token, so that `ids != pad` would drop the real end, and a policy that is never scored on stopping never learns to.
"""

from collections.abc import Iterable

import torch

from grpo.checks import as_count


def completion_lengths(completion_ids, stop_ids):
    """How many tokens of each completion count: up to and including the first stop token.

    Args:
        completion_ids: (N, C) int64, without the prompt.
        stop_ids: the ids that end a completion, as a set or a sequence; Qwen3 has two (151643 and 151645).

    Returns: (N,) int64 in 0 .. C. C for a row without a stop token: it was cut off.

    Raises: ValueError if completion_ids is no 2-D integer tensor, or stop_ids is a single number, is empty, or holds
        something other than whole numbers of at least 0.
    """
    _require_integers(completion_ids, "completion_ids", ndim=2)
    if not isinstance(stop_ids, Iterable) or isinstance(stop_ids, str | bytes | dict):
        raise ValueError(f"stop_ids is {stop_ids!r}: pass all the ids that end a completion, for example {{7}}")
    stops = [as_count(stop_id, "a stop id", minimum=0) for stop_id in stop_ids]
    if not stops:
        raise ValueError("stop_ids is empty: no completion would ever end; pass the tokenizer's end ids")
    is_stop = torch.isin(completion_ids, torch.tensor(stops, device=completion_ids.device)).long()
    stops_before = is_stop.cumsum(dim=1) - is_stop
    return (stops_before == 0).sum(dim=1)


def length_mask(lengths, width):
    """True at the first `lengths[i]` positions of row i.

    Args:
        lengths: (N,) integers in 0 .. width.
        width: C, the number of columns.

    Returns: (N, C) bool, on the device of lengths.

    Raises: ValueError if lengths is no 1-D integer tensor or a length is outside 0 .. width (the row is named).
    """
    _require_integers(lengths, "lengths", ndim=1)
    width = as_count(width, "width", minimum=0)
    bad = ((lengths < 0) | (lengths > width)).nonzero()
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"lengths[{row}] is {int(lengths[row])}: a row of width {width} holds 0 to {width} tokens")
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def left_pad(prompts, pad_id):
    """Prompts of different lengths as one rectangle that ends where the completions begin.

    Args:
        prompts: N lists of token ids, none of them empty: the first completion token is scored by a prompt token.
        pad_id: what stands to the left of a shorter prompt. It may be a token that the prompts use.

    Returns: ids (N, P) int64 and mask (N, P) bool, true at the real tokens. P is the longest prompt's length.

    Raises: ValueError if there is no prompt, a prompt is empty (its place is named), or an id is no whole number of at
        least 0.
    """
    prompts = [[as_count(token, f"a token of prompt {row}", minimum=0) for token in prompt]
               for row, prompt in enumerate(prompts)]  # fmt: skip
    pad_id = as_count(pad_id, "pad_id", minimum=0)
    if not prompts:
        raise ValueError("prompts is empty: pass at least one list of token ids")
    if not all(prompts):
        row = prompts.index([])
        raise ValueError(f"prompt {row} has no token: give it one, for example the start-of-text token")
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (width - len(prompt)) + prompt for prompt in prompts])
    return ids, length_mask(torch.tensor([len(prompt) for prompt in prompts]), width).flip(1)


def position_ids(mask):
    """Positions that count real tokens only, so that a padded row is computed as if it stood alone.

    Args:
        mask: (N, P) bool, true at real tokens; padding may stand on either side, or on both.

    Returns: (N, P) int64: 0, 1, 2, ... along the real tokens, 0 at padding.

    Raises: ValueError if the mask is no 2-D bool tensor.
    """
    require_mask(mask, ndim=2)
    return torch.where(mask, mask.cumsum(dim=1) - 1, 0)


def masked_sum(values, mask, dim=None):
    """Sum of the values whose mask is true.

    Args:
        values: tensor. What stands under a false mask never matters, not even NaN: values * mask would keep it, because
            0 * NaN is NaN. The gradient there is exactly 0.
        mask: bool tensor of exactly the same shape.
        dim: the axis to sum over; all of them by default.

    Returns: tensor without that axis.

    Raises: ValueError if the mask is no bool tensor or has another shape.
    """
    require_mask(mask, shape=values.shape)
    return torch.where(mask, values, 0).sum(dim=dim)


def masked_mean(values, mask, dim=None):
    """Mean of the values whose mask is true; 0 where there is none.

    Args, returns and errors: as in `masked_sum`.
    """
    return masked_sum(values, mask, dim) / mask.sum(dim=dim).clamp(min=1)


def require_mask(mask, shape=None, ndim=None):
    """Raise a ValueError unless the mask is a bool tensor of this shape or number of axes (nothing is broadcast)."""
    # The values are not looked at: that would make a GPU wait. So 0/1 integers are refused by their type.
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ValueError(f"mask is of type {kind}: pass a bool tensor, for example mask.bool() or length_mask(...)")
    if (shape is not None and mask.shape != shape) or (ndim is not None and mask.ndim != ndim):
        wanted = f"{ndim} axes" if shape is None else f"{tuple(shape)}, one entry per value"
        raise ValueError(f"mask has shape {tuple(mask.shape)}: pass {wanted}")


def _require_integers(ids, name, ndim):
    if not isinstance(ids, torch.Tensor) or ids.dtype not in (torch.int64, torch.int32) or ids.ndim != ndim:
        found = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise ValueError(f"{name} is {found}: pass a tensor of int64 with {ndim} {'axis' if ndim == 1 else 'axes'}")
