"""Half precision in the training pass: products in bfloat16 or float16, everything that adds up in float32."""

from __future__ import annotations

import torch


def autocast(device, dtype):
    """Context in which matrix products run in `dtype`; None leaves everything as it is.

    Casts of weights are not cached: each weight is used once in a pass, and with layers computed again the cache would
    keep a copy of the whole model.

    Args:
        device: torch.device of the model.
        dtype: torch.bfloat16, torch.float16 or None.
    """
    kind = torch.device(device).type
    return torch.autocast(kind, dtype=dtype or torch.bfloat16, enabled=dtype is not None, cache_enabled=False)


def product_dtype(tensor):
    """The dtype that a matrix product of this tensor has here: autocast's, or its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


class LossScaler:
    """Keeps small gradients within float16's range: torch.amp.GradScaler for "float16", nothing at all otherwise.

    Gradients of float16 products below 6e-8 would be 0 and above 65504 infinite. The loss is multiplied by a power of
    two before the backward pass, and the float32 gradients divided by it. If one is not finite the update is skipped
    and the scale halved; after 2000 updates in a row without that it is doubled.

    Args:
        precision: "float32", "bfloat16" or "float16". bfloat16 has float32's range and needs no scale.
        device: torch.device of the model.
    """

    def __init__(self, precision, device):
        self.scaler = None
        if precision == "float16":
            self.scaler = torch.amp.GradScaler(torch.device(device).type)
            self.scaler.scale(torch.zeros((), device=device))  # makes the scale: a step may have no backward pass

    @property
    def scale_factor(self):
        """The present factor, a float; None without a scaler."""
        return None if self.scaler is None else self.scaler.get_scale()

    def scale(self, loss):
        """The loss to call backward on."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizer):
        """Bring the gradients back to their size, before their norm is taken."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer):
        """Step the optimizer unless a gradient overflowed. Returns whether the step was taken."""
        if self.scaler is None:
            optimizer.step()
            return True
        before = self.scale_factor
        self.scaler.step(optimizer)
        self.scaler.update()
        return self.scale_factor >= before

    def state_dict(self):
        """Plain data for a checkpoint; None without a scaler."""
        return None if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, state):
        """Go on with the scale of a checkpoint. Raises ValueError if it has none and one is needed."""
        if self.scaler is None:
            return
        if not state:
            raise ValueError("the checkpoint holds no loss scale, which precision 'float16' needs: start a new run")
        self.scaler.load_state_dict(state)


def native_half(device):
    """The format of half precision that a device is fast at.

    Returns: "bfloat16" for a GPU of compute capability 8.0 or more, "float16" for an older one (a T4 has 7.5, and only
    emulates bfloat16), None for a CPU, where float32 is the fast one, and for a GPU that is not here.
    """
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    return "bfloat16" if torch.cuda.get_device_capability(device)[0] >= 8 else "float16"
