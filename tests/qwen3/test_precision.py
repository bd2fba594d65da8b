"""Half precision in the training pass: close to float32, weights untouched by it, and overflows that do no harm."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from small_models import prompts_of_lengths, qwen3, rollouts_of

from grpo.qwen3.logprobs import chunked_logprobs, completion_logprobs
from grpo.qwen3.precision import LossScaler, autocast, native_half, product_dtype

HALVES = [torch.bfloat16, torch.float16]


def batch():
    completions = [[(5 * row + 3 * place) % 50 for place in range(4 + row)] for row in range(6)]
    return rollouts_of(prompts_of_lengths(7, 3, 1), completions, group_size=2)


def gradients(model, rollouts, scale=1.0, **options):
    """Flat gradient of the mean log-prob, and the log-probs."""
    model.zero_grad()
    logps, entropy = completion_logprobs(model, rollouts, **options)
    (scale * logps.sum() / len(rollouts)).backward()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {torch.float32}
    assert logps.dtype == entropy.dtype == torch.float32
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]) / scale, logps.detach()


def cosine(left, right):
    return float(torch.nn.functional.cosine_similarity(left, right, dim=0))


def test_products_are_in_half_precision_only_inside():
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    for dtype in HALVES:
        with autocast("cpu", dtype):
            assert layer(x).dtype == dtype == product_dtype(x)
            assert (x + x).dtype == torch.float32
        assert layer(x).dtype == torch.float32 == product_dtype(x)
    with autocast("cpu", None):
        assert layer(x).dtype == torch.float32 == product_dtype(x)


def test_casts_of_weights_are_not_kept():
    """A cache of them would hold half a model while layers are computed again."""
    layer, x, copies = torch.nn.Linear(3, 5, bias=False), torch.ones(2, 3), []

    def note(tensor):
        if tensor.dtype == torch.bfloat16 and tensor.numel() == 15:
            copies.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), autocast("cpu", torch.bfloat16):
        x = x.requires_grad_()
        layer(x), layer(x)
    assert len(copies) == 2 and copies[0].data_ptr() != copies[1].data_ptr()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shared", [True, False])
def test_half_precision_is_close_to_float32(half, shared, record_property):
    model, rollouts = qwen3(initializer_range=0.1, vocab_size=300), batch()
    exact, exact_logps = gradients(model, rollouts, shared_prompts=shared)
    rounded, logps = gradients(model, rollouts, shared_prompts=shared, precision=half, scale=1024.0)
    worst, aligned = float((logps - exact_logps).abs().max()), cosine(rounded, exact)
    record_property(f"{half}: worst log-prob, 1 - cosine of the gradient", (worst, 1 - aligned))
    limits = {torch.bfloat16: (0.05, 1e-3), torch.float16: (0.01, 1e-5)}[half]
    assert 1e-6 < worst < limits[0] and 0 < 1 - aligned < limits[1]
    assert float(rounded.norm() / exact.norm()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("half", HALVES)
def test_layers_computed_again_are_computed_in_the_same_precision(half):
    model, rollouts = qwen3(), batch()
    kept, again = (
        gradients(model, rollouts, precision=half, checkpoint_layers=checkpointed)[0] for checkpointed in (False, True)
    )
    assert torch.equal(kept, again)


@pytest.mark.parametrize("half", HALVES)
def test_the_pieces_of_the_logits_add_up_in_float32(half):
    """However small the pieces are, and whether the probabilities are kept; and no (M, V) product in float32."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(40, 16, generator=generator, requires_grad=True)
    weight = torch.randn(300, 16, generator=generator, requires_grad=True)
    targets = torch.randint(300, (40,), generator=generator)
    found = []
    for options in ({"chunk_size": 40}, {"chunk_size": 3}, {"keep_bytes": 10**9}):
        hidden.grad = weight.grad = None
        logps, _ = chunked_logprobs(hidden, weight, targets, 0.7, precision=half, **options)
        logps.mean().backward()
        found.append((logps.detach(), hidden.grad, weight.grad))
    for one in found[1:]:
        for left, right in zip(one, found[0], strict=True):
            torch.testing.assert_close(left, right, rtol=1e-2, atol=1e-5)
    exact = (hidden.to(half).double() @ weight.to(half).double().T).to(half).double() / 0.7
    expected = exact.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    torch.testing.assert_close(found[0][0].double(), expected, rtol=0, atol=0.1 if half == torch.bfloat16 else 0.02)


def stepper(precision):
    parameter = torch.nn.Parameter(torch.ones(3))
    return parameter, torch.optim.AdamW([parameter], lr=0.1), LossScaler(precision, "cpu")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_without_float16_nothing_is_scaled(precision):
    parameter, optimizer, scaler = stepper(precision)
    loss = parameter.sum()
    assert scaler.scale(loss) is loss and scaler.scale_factor is None and scaler.state_dict() is None
    loss.backward()
    scaler.unscale(optimizer)
    assert scaler.step(optimizer) and torch.equal(parameter.grad, torch.ones(3)) and float(parameter.detach()[0]) < 1
    scaler.load_state_dict(None)


def test_an_overflow_leaves_weights_and_averages_alone_and_halves_the_scale():
    parameter, optimizer, scaler = stepper("float16")
    assert scaler.scale_factor == 65536.0
    scaler.scale(parameter.sum() * 1e-6).backward()
    assert float(parameter.grad[0]) == pytest.approx(0.065536)
    scaler.unscale(optimizer)
    assert float(parameter.grad[0]) == pytest.approx(1e-6)
    assert scaler.step(optimizer)
    before, average = parameter.detach().clone(), optimizer.state[parameter]["exp_avg"].clone()
    assert float(before[0]) < 1
    parameter.grad = torch.tensor([1.0, float("inf"), 1.0])
    scaler.unscale(optimizer)
    assert not scaler.step(optimizer)
    assert torch.equal(parameter, before) and torch.equal(optimizer.state[parameter]["exp_avg"], average)
    assert scaler.scale_factor == 32768.0
    # Without any backward pass there is a scale all the same: AdamW's momentum still acts.
    parameter, optimizer, scaler = stepper("float16")
    parameter.grad = torch.zeros(3)
    scaler.unscale(optimizer)
    assert scaler.step(optimizer)


def test_the_state_of_the_scale_comes_back():
    _, _, scaler = stepper("float16")
    state = {**scaler.state_dict(), "scale": 2.0**20, "_growth_tracker": 7}
    scaler.load_state_dict(copy.deepcopy(state))
    assert scaler.state_dict() == state and scaler.scale_factor == 2.0**20
    for nothing in (None, {}):
        with pytest.raises(ValueError, match="holds no loss scale, which precision 'float16' needs"):
            scaler.load_state_dict(nothing)


def test_which_half_a_device_is_fast_at(monkeypatch):
    assert native_half("cpu") is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for capability, half in (((7, 5), "float16"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert native_half("cuda:0") == half
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert native_half("cuda") is None
