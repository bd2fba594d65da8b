"""Log-probs with gradients: in pieces against all at once, shared prompts against whole rows, padding, positions."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
from small_models import LearnedPositions, logprobs_alone, prompts_of_lengths, qwen3, rollouts_of

from grpo.qwen3 import logprobs
from grpo.qwen3.logprobs import chunked_logprobs, completion_logprobs

PROMPTS = prompts_of_lengths(2, 40, 11, 1)
GROUP = 3


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def random_rollouts(vocabulary=50, prompts=PROMPTS, pad_id=1, longest=12):
    """GROUP completions per prompt, of 1 to `longest` tokens; the padding id is a token that they use too."""
    lengths = torch.randint(1, longest + 1, (len(prompts) * GROUP,), generator=rng(2)).tolist()
    lengths[0] = longest
    tokens = [torch.randint(vocabulary, (length,), generator=rng(length)).tolist() for length in lengths]
    return rollouts_of(prompts, tokens, pad_id, GROUP)


def plain(hidden, weight, targets, temperature):
    """The textbook way, with all logits at once."""
    logps = F.log_softmax((hidden @ weight.T) / temperature, dim=-1)
    return logps.gather(-1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(-1)


# In pieces


@pytest.mark.parametrize("keep", [0, 2**30])
@pytest.mark.parametrize("chunk", [None, 1, 7, 37, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_pieces_give_values_and_gradients_of_the_whole(keep, chunk, temperature, record_property):
    hidden, weight = torch.randn(37, 16, generator=rng(1)), torch.randn(300, 16, generator=rng(2))
    targets, upstream = torch.randint(300, (37,), generator=rng(3)), torch.randn(37, generator=rng(4))
    results = []
    for function, options in ((plain, {}), (chunked_logprobs, {"chunk_size": chunk, "keep_bytes": keep})):
        leaves = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        logps, entropy = function(*leaves, targets, temperature, **options)
        gradients = torch.autograd.grad((logps * upstream).sum(), leaves)
        results.append((logps, entropy, *gradients))
    assert not results[1][1].requires_grad
    for name, expected, found in zip(("log-prob", "entropy", "d hidden", "d weight"), *results, strict=True):
        error = ((found - expected).abs().max() / expected.abs().max()).item()
        record_property(f"largest error of {name}, relative to the largest", error)
        assert error < 1e-5


@pytest.mark.parametrize("keep", [0, 2**30])
def test_gradcheck(keep):
    hidden = torch.randn(5, 4, generator=rng(1), dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, generator=rng(2), dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 6, 3, 3, 1])

    def logps(hidden, weight):
        return chunked_logprobs(hidden, weight, targets, 0.8, chunk_size=2, keep_bytes=keep)[0]

    assert gradcheck(logps, (hidden, weight))
    assert gradcheck(lambda hidden: logps(hidden, weight.detach()), (hidden,))
    assert gradcheck(lambda weight: logps(hidden.detach(), weight), (weight,))


@pytest.mark.parametrize("keep", [0, 2**30])
def test_backward_twice_gives_the_same(keep):
    hidden = torch.randn(6, 4, generator=rng(1), requires_grad=True)
    weight = torch.randn(9, 4, generator=rng(2), requires_grad=True)
    logps, _ = chunked_logprobs(hidden, weight, torch.arange(6), chunk_size=4, keep_bytes=keep)
    one, two = (torch.autograd.grad(logps.sum(), (hidden, weight), retain_graph=True) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert torch.equal(first, second) and first.abs().sum() > 0


def test_half_precision_is_computed_in_float32():
    hidden, weight = torch.randn(8, 16, generator=rng(1)).bfloat16(), torch.randn(500, 16, generator=rng(2)).bfloat16()
    targets = torch.arange(8)
    logps, entropy = chunked_logprobs(hidden, weight.requires_grad_(), targets)
    expected = (hidden @ weight.T).float().log_softmax(-1)[targets, targets]
    assert logps.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logps, expected, rtol=0, atol=1e-5)
    logps.sum().backward()
    assert weight.grad.dtype == torch.bfloat16 and weight.grad.abs().sum() > 0


def test_large_and_impossible_logits():
    hidden = torch.tensor([[1e4, 0.0], [0.0, 1.0]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, 300.0]])
    logps, entropy = chunked_logprobs(hidden, weight, torch.tensor([0, 2]))
    torch.testing.assert_close(logps, torch.tensor([-math.log(2), 0.0]))
    torch.testing.assert_close(entropy, torch.tensor([math.log(2), 0.0]))
    logps.sum().backward()
    assert hidden.grad.isfinite().all()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"temperature": 0.0}, "temperature is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"chunk_size": 0}, "chunk_size is 0"),
        ({"targets": torch.zeros(3, dtype=torch.int64)}, r"targets \(3,\)"),
        ({"weight": torch.ones(5, 3)}, r"weight \(5, 3\)"),
    ],
)
def test_errors_of_the_pieces(changes, message):
    arguments = {"hidden": torch.ones(2, 4), "weight": torch.ones(5, 4), "targets": torch.zeros(2, dtype=torch.int64)}
    with pytest.raises(ValueError, match=message):
        chunked_logprobs(**{**arguments, **changes})


# Whole rollouts


@pytest.mark.parametrize("shared", [True, False, None])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_batch_gives_what_each_row_gives_alone(shared, temperature, record_property):
    model, rollouts = qwen3(), random_rollouts()
    logps, entropy = completion_logprobs(model, rollouts, temperature=temperature, shared_prompts=shared)
    assert logps.shape == entropy.shape == rollouts.completion_ids.shape
    worst = 0.0
    for row, length in enumerate(rollouts.lengths.tolist()):
        tokens = rollouts.completion_ids[row, :length].tolist()
        expected = logprobs_alone(model, PROMPTS[row // GROUP], tokens, temperature)
        for found, alone in zip((logps, entropy), expected, strict=True):
            worst = max(worst, (found[row, :length] - alone).abs().max().item())
    record_property("batched against one by one", worst)
    assert worst < 1e-4


@pytest.mark.parametrize(
    "changes", [{}, {"tie_word_embeddings": False, "attention_bias": True}, {"num_key_value_heads": 4}]
)
@pytest.mark.parametrize("rows", [slice(None), [5, 1, 0, 11], [7]])
def test_shared_prompts_give_values_and_gradients_of_whole_rows(changes, rows, record_property):
    model, rollouts = qwen3(**changes), random_rollouts().rows(rows)
    upstream = torch.randn(rollouts.completion_ids.shape, generator=rng(5))
    results = []
    for shared in (False, True):
        model.zero_grad()
        logps, entropy = completion_logprobs(model, rollouts, shared_prompts=shared)
        (logps * upstream).sum().backward()
        results.append((logps, entropy, [parameter.grad.clone() for parameter in model.parameters()]))
    (logps, entropy, gradients), (shared_logps, shared_entropy, shared_gradients) = results
    torch.testing.assert_close(shared_logps, logps, rtol=0, atol=2e-5)
    torch.testing.assert_close(shared_entropy, entropy, rtol=0, atol=2e-5)
    worst = max(
        ((one - two).abs().max() / two.abs().max()).item() for one, two in zip(shared_gradients, gradients, strict=True)
    )
    record_property("gradients, shared prompts against whole rows, relative", worst)
    assert worst < 1e-5


def test_the_order_of_the_rows_does_not_matter():
    model, rollouts = qwen3(), random_rollouts()
    order = torch.randperm(len(rollouts), generator=rng(1))
    logps, _ = completion_logprobs(model, rollouts)
    shuffled, _ = completion_logprobs(model, rollouts.rows(order))
    torch.testing.assert_close(shuffled, logps[order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_padding_is_zero_and_what_stands_there_does_not_matter(shared):
    model, rollouts = qwen3(), random_rollouts()
    results = []
    for filler in (1, 33):
        filled = rollouts.rows(slice(None))
        filled.prompt_ids[~filled.prompt_mask] = filler
        filled.completion_ids[~filled.mask] = filler
        model.zero_grad()
        logps, entropy = completion_logprobs(model, filled, shared_prompts=shared)
        logps.sum().backward()
        assert (logps[~rollouts.mask] == 0).all() and (entropy[~rollouts.mask] == 0).all()
        assert (logps[rollouts.mask] < 0).all() and (entropy[rollouts.mask] > 0).all()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        assert all(gradient.isfinite().all() for gradient in gradients)
        results.append([logps.detach(), entropy, *gradients])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_learned_positions_of_a_left_padded_row():
    # CASES C5. A rotary model scores a shifted row the same; this one does not.
    model = LearnedPositions()
    rollouts = rollouts_of([[3, 4], [5, 6, 7, 8, 9]], [[10, 11, 2], [12, 2]])
    together, _ = completion_logprobs(model, rollouts, shared_prompts=False)
    assert model.seen["position_ids"].tolist() == [[0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 0]]
    assert model.seen["attention_mask"].tolist() == [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]]
    assert model.seen["use_cache"] is False
    for row, (prompt, completion) in enumerate([([3, 4], [10, 11, 2]), ([5, 6, 7, 8, 9], [12, 2])]):
        alone, _ = completion_logprobs(model, rollouts_of([prompt], [completion]))
        torch.testing.assert_close(alone[0], together[row, : len(completion)], rtol=0, atol=1e-4)
        assert model.seen["position_ids"].tolist() == [list(range(len(prompt) + len(completion) - 1))]
    # The fixture does see a shift.
    shifted = model.model.positions.roll(1, dims=0)
    model.model.positions = torch.nn.Parameter(shifted.detach())
    moved, _ = completion_logprobs(model, rollouts, shared_prompts=False)
    assert (moved - together).abs().max() > 0.1


def test_positions_of_shared_prompts(monkeypatch):
    # The same question to the forward pass with shared prompts, whose positions a rotary model hides: a rotation
    # table that depends on the absolute position must be read at the right places.
    from grpo.qwen3 import forward

    read = []

    class Table:
        def __init__(self, table):
            self.table = table

        def __getitem__(self, positions):
            read.append(positions.tolist())
            return self.table[positions]

    tables = forward.rotary_tables
    monkeypatch.setattr(forward, "rotary_tables", lambda *args: tuple(map(Table, tables(*args))))
    rollouts = rollouts_of([[3, 4], [5, 6, 7]], [[10, 11, 2], [12, 2], [9], [9, 8, 2]], group_size=2)
    completion_logprobs(qwen3(), rollouts)
    assert read == [[0, 1, 0, 1, 2, 2, 3, 2, 3, 4]] * 2


def test_logits_only_where_a_token_counts(monkeypatch):
    shapes = []

    def watching(hidden, weight, targets, temperature, **options):
        shapes.append(tuple(hidden.shape))
        return chunked_logprobs(hidden, weight, targets, temperature, **options)

    monkeypatch.setattr(logprobs, "chunked_logprobs", watching)
    rollouts = random_rollouts()
    for shared in (True, False):
        completion_logprobs(qwen3(), rollouts, shared_prompts=shared)
    assert shapes == [(rollouts.tokens, 24)] * 2


def test_each_prompt_runs_once_and_padding_not_at_all():
    model, rollouts = qwen3(), random_rollouts()
    shapes = []
    down = model.model.layers[0].mlp.down_proj
    handle = down.register_forward_hook(lambda module, args, output: shapes.append(output.shape[:-1]))
    completion_logprobs(model, rollouts)
    completion_logprobs(model, rollouts.rows([0, 1]))
    handle.remove()
    everything = sum(map(len, PROMPTS)) + rollouts.tokens - len(rollouts)
    two = len(PROMPTS[0]) + int(rollouts.lengths[:2].sum()) - 2
    assert shapes == [(everything,), (two,)]


@pytest.mark.parametrize("shared", [True, False])
def test_checkpointed_layers_keep_less_and_give_the_same(shared):
    model, rollouts = qwen3(num_hidden_layers=4), random_rollouts()
    results, kept = [], []
    for checkpointed in (False, True):
        model.zero_grad()
        sizes = []

        def note(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            logps, _ = completion_logprobs(model, rollouts, shared_prompts=shared, checkpoint_layers=checkpointed)
        logps.sum().backward()
        results.append([logps.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
        kept.append(sum(sizes))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)
    assert kept[1] < kept[0] / 2
    assert not any("forward" in vars(layer) for layer in model.model.layers)


def test_float64_and_one_token():
    model = qwen3(dtype=torch.float64)
    rollouts = rollouts_of([[5, 6]], [[7]])
    logps, entropy = completion_logprobs(model, rollouts)
    assert logps.dtype == entropy.dtype == torch.float64
    expected, _ = logprobs_alone(model, [5, 6], [7])
    torch.testing.assert_close(logps[0], expected, rtol=0, atol=1e-6)


def test_dropout_is_not_forgotten():
    # With attention dropout in training mode only the model's own forward is right.
    model, rollouts = qwen3(attention_dropout=0.5).train(), random_rollouts()
    with torch.random.fork_rng(devices=[]):
        one, two = (completion_logprobs(model, rollouts)[0] for _ in range(2))
    assert not torch.equal(one, two)


def test_errors_of_rollouts():
    model, rollouts = qwen3(), random_rollouts()
    with pytest.raises(ValueError, match="temperature is 0"):
        completion_logprobs(model, rollouts, temperature=0.0)
    rollouts.lengths[4] = 0
    with pytest.raises(ValueError, match="rollout 4 has length 0"):
        completion_logprobs(model, rollouts)
    with pytest.raises(ValueError, match="learned_positions"):
        completion_logprobs(LearnedPositions(), random_rollouts(20), shared_prompts=True)
