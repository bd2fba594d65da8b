"""Matrix products of a decode: few rows against weights that stay the same for many steps.

On a CPU most of the time of a small product goes into laying out the weights for the vector units. oneDNN, which comes
with torch, can do that once; the operators are those that torch's own compiler uses. Where they are missing (another
processor, another build), or give something else than the plain product, the plain product is used.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F


class Projection:
    """x -> x @ W.T + b for one matrix, or for several with the same input, whose outputs stand side by side.

    Args:
        weights: (out, in) each, on one device. Referred to, not copied, unless cast, packed or moved together.
        biases: one per weight or None each; default none.
        dtype: of the products; default that of the weights.
        pack: lay the weights out for the CPU, once. A copy: later changes of the weights are not seen.
    """

    def __init__(self, weights, biases=None, dtype: torch.dtype | None = None, pack: bool = False):
        biases = [None] * len(weights) if biases is None else list(biases)
        self.dtype = dtype or weights[0].dtype
        copied = self.dtype != weights[0].dtype or (pack and can_pack(self.dtype, weights[0].device))
        self.weights = [weight.detach().to(self.dtype) for weight in weights]
        self.biases = [None if bias is None else bias.detach().to(self.dtype) for bias in biases]
        if copied and len(weights) > 1:
            # A copy is made anyway; as one matrix it is one product instead of several.
            self.weights = [torch.cat(self.weights)]
            self.biases = [None if self.biases[0] is None else torch.cat(self.biases)]
        self.packed = pack and can_pack(self.dtype, weights[0].device)
        if self.packed:
            self.weights = [_pack(self.weights[0])]

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in) of any float type -> (..., sum of out) in `dtype`."""
        x = x.to(self.dtype)
        product = _packed_product if self.packed else F.linear
        outputs = [product(x, weight, bias) for weight, bias in zip(self.weights, self.biases, strict=True)]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)


@cache
def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether packing is available for this dtype and device, found by trying it on a small product."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return False
    weight = torch.linspace(-1, 1, 48 * 32).sin().view(48, 32).to(dtype)
    x = torch.linspace(-2, 2, 5 * 32).cos().view(5, 32).to(dtype)
    try:
        product = _packed_product(x, _pack(weight), None)
    except (AttributeError, RuntimeError, TypeError):  # no such operator, or not for this processor
        return False
    return torch.allclose(product.float(), (x.double() @ weight.double().T).float(), rtol=0.02, atol=0.02)


def _pack(weight):
    # The number is the expected count of rows: a hint, any count works. This one is within 5% of the best
    # for 5 to 256 rows.
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 256)


def _packed_product(x, weight, bias):
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
