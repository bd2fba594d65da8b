"""The hand-written gradients of both policies: per-token loops, central differences, torch autograd; the gate."""

import numpy as np
import pytest

from grpo import finite_diff_gradient
from grpo.expressions import (
    TOKENS,
    MLPPolicy,
    TabularPolicy,
    count_features,
    group_advantages,
    one_hot_features,
    per_token_policy,
    token_loss,
    token_weights,
)
from grpo.expressions.game import PATH_STATES
from grpo.expressions.per_token import loss_and_gradient

N_PROMPTS, GROUP = 4, 6
SETTINGS = {"clip_eps": 0.2, "kl_coef": 0.3}


def make(kind, rngs, moved=False):
    if kind == "tabular":
        return TabularPolicy(N_PROMPTS, rngs, scale=0.7)
    return MLPPolicy(one_hot_features(N_PROMPTS), rngs, hidden=7)


def moved_batch(kind, average="mean", prompts=None, n_seeds=2):
    """A policy that has moved since its rollouts were sampled, so that ratios differ from 1 and the clip acts."""
    rngs = [np.random.default_rng(100 + seed) for seed in range(n_seeds)]
    policy, reference = make(kind, rngs), make(kind, rngs)
    rollouts = policy.sample(prompts, GROUP, rngs)
    noise = np.random.default_rng(5)
    for value in policy.parameters.values():
        value += {"tabular": 0.3, "mlp": 0.2}[kind] * noise.standard_normal(value.shape)
    policy.parameters_changed()
    advantages = group_advantages(noise.integers(0, 2, size=rollouts.expressions.shape) + 0.0)
    weights = token_weights(rollouts.mask, rollouts.lengths, average)
    return policy, reference, rollouts, advantages, weights


def loss_of(policy, reference, rollouts, advantages, weights):
    new, ref = policy.token_logprobs(rollouts), reference.token_logprobs(rollouts)
    return token_loss(new, rollouts.logps, ref, advantages, weights, **SETTINGS)


kinds = pytest.mark.parametrize("kind", ["tabular", "mlp"])
subsets = pytest.mark.parametrize("prompts", [None, np.array([[2, 0, 2], [1, 3, 0]])], ids=["all", "some"])


@kinds
def test_the_batch_is_a_real_test(kind):
    batch = moved_batch(kind)
    result, rollouts = loss_of(*batch), batch[2]
    clipped = (~result.open_gate & rollouts.mask).sum() / rollouts.mask.sum()
    assert 0.10 < clipped < 0.25
    ratios = np.exp(batch[0].token_logprobs(rollouts) - rollouts.logps)
    assert ratios.min() < 0.8 and ratios.max() > 1.2


@kinds
@subsets
@pytest.mark.parametrize("average", ["mean", "sum"])
def test_vectorised_equals_token_by_token(kind, prompts, average):
    policy, reference, rollouts, advantages, weights = moved_batch(kind, average, prompts)
    result = loss_of(policy, reference, rollouts, advantages, weights)
    gradient = policy.gradient(rollouts, result.coefficients)
    for seed in range(2):
        asked = range(N_PROMPTS) if prompts is None else prompts[seed]
        loss, slopes = 0.0, {name: 0.0 for name in gradient}
        for place, prompt in enumerate(asked):
            groups = [[] for _ in range(N_PROMPTS)]
            rows = [np.zeros(GROUP)] * N_PROMPTS
            for tokens, logps, length in zip(
                rollouts.tokens[seed, place], rollouts.logps[seed, place], rollouts.lengths[seed, place], strict=True
            ):
                groups[prompt].append(([TOKENS[token] for token in tokens[:length]], logps[:length]))
            rows[prompt] = advantages[seed, place]
            views = per_token_policy(policy, seed), per_token_policy(reference, seed)
            part, slope = loss_and_gradient(*views, groups, rows, token_average=average, **SETTINGS)
            loss += part / len(asked)
            slopes = {name: slopes[name] + slope[name] / len(asked) for name in slopes}
        assert result.loss[seed] == pytest.approx(loss, abs=1e-12)
        for name in gradient:
            np.testing.assert_allclose(gradient[name][seed], slopes[name], rtol=0, atol=1e-12)


@kinds
@subsets
def test_central_differences(kind, prompts):
    """Within 1e-9, relative to the norm of each parameter's gradient: ratios differ from 1, the clip acts, KL is on.

    (`test_the_batch_is_a_real_test` says how much of that there is.) The norm and not each entry, since entries near
    0 drown in the rounding of the loss: 1e-16 of it, divided by 2h.
    """
    policy, *rest = moved_batch(kind, prompts=prompts)
    gradient = policy.gradient(rest[1], loss_of(policy, *rest).coefficients)
    for name, value in policy.parameters.items():
        start = value.copy()

        def loss(x, value=value):
            value[...] = x
            policy.parameters_changed()
            return loss_of(policy, *rest).loss.sum()

        numeric = finite_diff_gradient(loss, start, h=1e-5)
        value[...] = start
        policy.parameters_changed()
        assert np.linalg.norm(gradient[name] - numeric) <= 1e-9 * np.linalg.norm(gradient[name])


def torch_gradient(kind, policy, reference, rollouts, advantages, weights):
    torch = pytest.importorskip("torch")
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in policy.parameters.items()}
    if kind == "tabular":
        logits = leaves["logits"].permute(0, 2, 3, 1)
    else:
        counts, prompts = torch.tensor(policy.prefix_rows), torch.tensor(policy.prompt_features)
        x = torch.cat(
            [
                counts[None].expand(len(prompts), -1, -1),
                prompts[:, None].expand(-1, len(counts), -1),
            ],
            dim=-1,
        )
        hidden = torch.tanh(torch.einsum("shd,pkd->spkh", leaves["w1"], x) + leaves["b1"][:, None, None])
        logits = torch.einsum("svh,spkh->spkv", leaves["w2"], hidden) + leaves["b2"][:, None, None]
    legal = torch.tensor(np.isfinite(policy.grammar[0, :, 0].T))
    logps = torch.log_softmax(logits.masked_fill(~legal, -torch.inf), dim=-1)
    seeds, prompts = np.ogrid[: policy.n_seeds, : policy.n_prompts]
    tokens = policy._path[0][rollouts.expressions]
    columns = policy.column[PATH_STATES][rollouts.expressions]
    new = logps[seeds[..., None, None], prompts[..., None, None], columns, tokens]
    old, ref = torch.tensor(rollouts.logps), torch.tensor(reference.token_logprobs(rollouts))
    ratio, spread = torch.exp(new - old), torch.tensor(advantages)[..., None]
    surrogate = torch.minimum(ratio * spread, torch.clamp(ratio, 0.8, 1.2) * spread)
    k3 = torch.exp(ref - new) - (ref - new) - 1
    loss = -(torch.tensor(weights) * (surrogate - SETTINGS["kl_coef"] * k3)).sum()
    loss.backward()
    return loss.item(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}


@kinds
def test_torch_autograd(kind):
    batch = moved_batch(kind)
    policy, rollouts = batch[0], batch[2]
    result = loss_of(*batch)
    loss, expected = torch_gradient(kind, *batch)
    assert result.loss.sum() == pytest.approx(loss, abs=1e-12)
    for name, slope in policy.gradient(rollouts, result.coefficients).items():
        np.testing.assert_allclose(slope, expected[name], rtol=0, atol=1e-12)


@kinds
def test_without_the_gate_the_gradient_is_wrong(kind):
    policy, reference, rollouts, advantages, weights = moved_batch(kind)
    result = loss_of(policy, reference, rollouts, advantages, weights)
    ratio = np.exp(policy.token_logprobs(rollouts) - rollouts.logps)
    shut = ~result.open_gate * weights * ratio * advantages[..., np.newaxis]
    right = policy.gradient(rollouts, result.coefficients)
    wrong = policy.gradient(rollouts, result.coefficients - shut)
    error = np.sqrt(sum(((wrong[name] - right[name]) ** 2).sum() for name in right))
    assert error > 0.3 * np.sqrt(sum((slope**2).sum() for slope in right.values()))


def test_at_the_reference_the_kl_gradient_is_zero():
    policy = make("mlp", [np.random.default_rng(0)])
    rollouts = policy.sample(None, GROUP, [np.random.default_rng(1)])
    weights = token_weights(rollouts.mask, rollouts.lengths)
    zero = np.zeros(rollouts.expressions.shape)
    result = token_loss(rollouts.logps, rollouts.logps, rollouts.logps, zero, weights, kl_coef=1.0)
    assert result.loss == 0.0
    assert not any(slope.any() for slope in policy.gradient(rollouts, result.coefficients).values())


def test_the_features_of_a_prefix_are_its_counts():
    from grpo.expressions import PREFIXES

    assert count_features()[PREFIXES.index(("2", "+", "5", "+", "3"))].tolist() == [1, 1, 1, 2, 0]
