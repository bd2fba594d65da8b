"""The training loop of GRPO. It knows a policy, a reward function and settings, and nothing of expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from grpo.checks import as_count, as_nonnegative, as_positive, require_choice
from grpo.expressions.advantages import ADVANTAGE_KINDS, make_advantage
from grpo.expressions.objective import KL_KINDS, TOKEN_AVERAGES, token_loss, token_weights
from grpo.expressions.optimizers import SGD


@dataclass(frozen=True)
class TrainSettings:
    """The settings of a run; the defaults are the course's.

    group_size: G, rollouts per prompt, at least 2.
    steps: iterations: one batch of fresh rollouts each.
    learning_rate: step of plain gradient descent.
    inner_updates: gradient steps per batch. With 1 every ratio is 1 and the clip never acts.
    clip_eps: clip range.
    kl_coef: beta, the weight of the KL penalty against the frozen start.
    kl_kind: "k1", "k2", "k3" or "k3_capped".
    token_average: "mean" divides a rollout's tokens by their number, "sum" does not.
    advantage: one of ADVANTAGE_KINDS.
    advantage_eps, advantage_ddof: as in `grpo.group_relative_advantage`.
    prompts_per_step: prompts drawn (without replacement) per iteration; None takes all.
    """

    group_size: int = 8
    steps: int = 300
    learning_rate: float = 0.3
    inner_updates: int = 1
    clip_eps: float = 0.2
    kl_coef: float = 0.04
    kl_kind: str = "k3"
    token_average: str = "mean"
    advantage: str = "group"
    advantage_eps: float = 1e-4
    advantage_ddof: int = 1
    prompts_per_step: int | None = None

    def __post_init__(self):
        as_count(self.group_size, "group_size", minimum=2)
        as_count(self.steps, "steps", minimum=1)
        as_positive(self.learning_rate, "learning_rate")
        as_count(self.inner_updates, "inner_updates", minimum=1)
        for name in ("clip_eps", "kl_coef", "advantage_eps"):
            as_nonnegative(getattr(self, name), name)
        for name, known in (("kl_kind", KL_KINDS), ("token_average", TOKEN_AVERAGES), ("advantage", ADVANTAGE_KINDS)):
            require_choice(getattr(self, name), name, known)
        if as_count(self.advantage_ddof, "advantage_ddof", minimum=0) > 1:
            raise ValueError(f"advantage_ddof is {self.advantage_ddof}: choose 0 or 1")
        if self.prompts_per_step is not None:
            as_count(self.prompts_per_step, "prompts_per_step", minimum=1)


@dataclass(frozen=True)
class StepSignals:
    """One iteration, each signal one number per seed, shape (S,).

    reward: mean reward of the sampled rollouts.
    zero_variance_share: share of groups with equal rewards; they teach nothing.
    clip_fraction: share of tokens whose gradient the clip switched off, over all inner updates.
    gradient_norm: Euclidean norm over all parameters, mean over the inner updates.
    loss: of the last inner update; no measure of progress.
    advantage_rms: root mean square of the advantages: how long a step the rewards ask for.
    length: mean tokens per rollout, the end token included.
    """

    reward: np.ndarray
    zero_variance_share: np.ndarray
    clip_fraction: np.ndarray
    gradient_norm: np.ndarray
    loss: np.ndarray
    advantage_rms: np.ndarray
    length: np.ndarray


def train(
    policy,
    reward_function,
    settings,
    rngs,
    *,
    prompts=None,
    reference=None,
    advantage_function=None,
    loss_function=token_loss,
    optimizer=None,
    signals=True,
) -> Iterator[StepSignals | None]:
    """Train a policy, one iteration per item: look at the policy between items, stop whenever you like.

    sample groups -> rewards -> advantages -> log-probs under the current, the sampling and the reference policy ->
    ratio, clip, KL -> gradient -> step.

    Args:
        policy: Policy (`grpo.expressions.policy`); changed in place.
        reward_function: callable, Rollouts -> (S, P, G) finite rewards.
        settings: TrainSettings.
        rngs: S numpy Generators, one per seed.
        prompts: (P',) int, the prompts to train on; None for all.
        reference: frozen Policy for the KL; default: a copy of the policy as it is handed in.
        advantage_function: callable, (S, P, G) rewards -> (S, P, G); default: what the settings name.
        loss_function: callable with the arguments of `token_loss`; returns a TokenLoss.
        optimizer: object with step(parameters, gradient); default: SGD at the settings' learning rate.
        signals: False yields None each time and saves their cost.

    Yields: StepSignals, `settings.steps` times, each after the update.

    Raises: ValueError if there is not one generator per seed, prompts_per_step exceeds the prompts, or a reward is
        missing, NaN or infinite.
    """
    if len(rngs) != policy.n_seeds:
        raise ValueError(f"{len(rngs)} generators for {policy.n_seeds} seeds: pass one numpy Generator per seed")
    draw = _prompt_source(policy, settings, prompts)
    optimizer = optimizer or SGD(settings.learning_rate)
    advantage_function = advantage_function or make_advantage(
        settings.advantage, settings.advantage_eps, settings.advantage_ddof
    )
    if not settings.kl_coef:
        reference = None
    elif reference is None:
        reference = policy.frozen_copy()

    for _ in range(settings.steps):
        rollouts = policy.sample(draw(rngs), settings.group_size, rngs)
        rewards = _checked(reward_function(rollouts), rollouts.lengths.shape)
        advantages = advantage_function(rewards)
        weights = token_weights(rollouts.mask, rollouts.lengths, settings.token_average)
        ref_logps = reference.token_logprobs(rollouts) if reference is not None else None

        updates = []
        for _ in range(settings.inner_updates):
            result = loss_function(
                policy.token_logprobs(rollouts),
                rollouts.logps,
                ref_logps,
                advantages,
                weights,
                settings.clip_eps,
                settings.kl_coef,
                settings.kl_kind,
            )
            gradient = policy.gradient(rollouts, result.coefficients)
            optimizer.step(policy.parameters, gradient)
            policy.parameters_changed()
            updates.append((result, gradient))
        yield _signals(rollouts, rewards, advantages, updates) if signals else None


class Curves:
    """Signals collected over a run: name -> (steps, S) array."""

    def __init__(self):
        self._rows = {}

    def add(self, *records):
        """Append one iteration: dataclasses whose fields are (S,) arrays."""
        for record in records:
            for field in fields(record):
                self._rows.setdefault(field.name, []).append(np.asarray(getattr(record, field.name)))

    def __getitem__(self, name):
        return np.array(self._rows[name])

    def names(self):
        """The names of the signals, in the order in which they were first added."""
        return list(self._rows)


def _prompt_source(policy, settings, prompts):
    """A callable, rngs -> (S, P) prompts of the next iteration, or None for all of them in order."""
    wanted = settings.prompts_per_step
    if prompts is None and wanted is None:
        return lambda rngs: None
    pool = np.arange(policy.n_prompts) if prompts is None else np.asarray(prompts)
    if wanted is None:
        fixed = np.repeat(pool[np.newaxis], policy.n_seeds, axis=0)
        return lambda rngs: fixed
    if wanted > len(pool):
        raise ValueError(f"prompts_per_step is {wanted}, but there are {len(pool)} prompts: lower it")
    return lambda rngs: np.stack([rng.choice(pool, size=wanted, replace=False) for rng in rngs])


def _checked(rewards, shape):
    rewards = np.asarray(rewards, dtype=float)
    if rewards.shape != shape:
        raise ValueError(f"the reward function returned shape {rewards.shape}: return one reward per rollout, {shape}")
    if not np.isfinite(rewards).all():
        place = tuple(np.argwhere(~np.isfinite(rewards))[0].tolist())
        raise ValueError(f"the reward of (seed, prompt, rollout) {place} is {rewards[place]}: return finite numbers")
    return rewards


def _signals(rollouts, rewards, advantages, updates):
    tokens = rollouts.lengths.sum(axis=(1, 2))
    n_updates = len(updates)
    shut = sum((~result.open_gate & rollouts.mask).sum(axis=(1, 2, 3)) for result, _ in updates)
    norm = sum(
        np.sqrt(sum((slope * slope).reshape(len(slope), -1).sum(axis=1) for slope in gradient.values()))
        for _, gradient in updates
    )
    return StepSignals(
        reward=rewards.mean(axis=(1, 2)),
        zero_variance_share=(rewards == rewards[..., :1]).all(axis=-1).mean(axis=1),
        clip_fraction=shut / (n_updates * tokens),
        gradient_norm=norm / n_updates,
        loss=updates[-1][0].loss,
        advantage_rms=np.sqrt((advantages * advantages).mean(axis=(1, 2))),
        length=rollouts.lengths.mean(axis=(1, 2)),
    )
