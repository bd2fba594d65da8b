"""What the torch and text exercises of chapter 07 share."""

from __future__ import annotations

import numpy as np

from grader.torch_calls import kind_of, torch

CHAPTER = "07_qwen3_on_a_gpu"
CUT = "Was .detach(), .item(), torch.no_grad() or numpy used on the way?"


def numpy_log_softmax(logits):
    """Log-softmax along the last axis, in float64."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def no_tensor(value):
    """The sentence about a result that is neither a tensor nor a number, else an empty one."""
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic, int, float)):
        return ""
    return f"a tensor is due, and {kind_of(value)} came back"
