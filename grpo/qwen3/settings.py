"""Every knob of a GRPO run on a Qwen3 model, checked when it is set."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

from grpo.checks import as_count, as_nonnegative, as_positive, require_choice
from grpo.qwen3.prompts import PROMPT_STYLES
from grpo.token_loss import AGGREGATES, KL_KINDS, LEVELS

KL_IN_REWARD = "k1_in_reward"
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class GRPOSettings:
    """The settings of a run. The defaults are the course's recipe for the tiny model.

    The batch:
        steps: iterations: one batch of fresh rollouts each.
        prompts_per_step: prompts per iteration, each drawn once per epoch.
        group_size: G, rollouts per prompt, at least 2.
        max_new_tokens: budget of a rollout; what is longer is cut off and scored as it stands.
        temperature: T > 0. Log-probs everywhere (old, new, reference) are those of logits / T.
        prompt_style: how a problem becomes a prompt (`grpo.qwen3.prompts`); "plain" takes the text as it is.
        rollout_dtype: "float32", or "bfloat16" or "float16" for faster sampling from a rounded copy of the policy. The
            difference between the two is then corrected by truncated importance weights.
        importance_cap: largest such weight.

    The loss:
        level: what one ratio stands for: "token", "rollout" (exp of the sum) or "gspo" (exp of the mean).
        aggregate: how tokens become a loss: "rollout_mean", "rollout_sum", "token_mean" or "constant".
        constant_length: the divisor of "constant", in tokens; None takes max_new_tokens.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high].
        kl_coef: beta, the weight of the KL penalty against the frozen start; 0 needs no reference at all.
        kl: "k3", "k2", "k1" as a term of the loss (k1 is no penalty: its expected gradient is 0), or "k1_in_reward".
        scale_by_std: divide advantages by the group's std (False: Dr. GRPO).
        advantage_eps: added to that std.

    The step:
        learning_rate: of AdamW, after the warm-up.
        betas, weight_decay: of AdamW.
        max_grad_norm: the gradient is scaled down to this Euclidean norm; None leaves it as it is.
        warmup_steps: iterations over which the learning rate rises linearly from learning_rate / warmup_steps.
        inner_updates: gradient steps per batch. With 1 every ratio is 1 and the clip never acts.

    The arithmetic:
        precision: of the products in the training pass: "float32", or, under autocast, "bfloat16" or "float16" (for a
            GPU without bfloat16). Weights, gradients, AdamW's averages and the sums that run through the layers stay
            float32. What differs from the sampler's arithmetic is corrected as for rollout_dtype. With "float16" the
            loss is scaled up before the backward pass, and an update whose gradient overflows is skipped.

    Memory and speed, without any influence on the gradient:
        rollout_wave: rollouts decoded at the same time, rounded down to whole prompts, or below group_size to a part of
            one prompt's group; None takes all at once. The draws are those of one batch.
        micro_batch_size: rollouts per forward and backward pass; None takes all at once.
        checkpoint_layers: keep only the input of each layer for the backward pass and compute the rest again.
        chunk_size: tokens whose logits exist at the same time; None takes as many as fit in 32 MiB.
        skip_zero_advantages: leave out rollouts that cannot change the gradient (those of groups with equal rewards,
            when there is no KL penalty).

    The run:
        checkpoint_every: iterations between checkpoints (0: only at the start and the end).
        keep_checkpoints: how many of the newest stay on disk.
        seed: of the order of the prompts and of the sampling.
    """

    steps: int = 150
    prompts_per_step: int = 16
    group_size: int = 8
    max_new_tokens: int = 26
    temperature: float = 1.0
    prompt_style: str = "plain"
    rollout_dtype: str = "float32"
    importance_cap: float = 2.0
    precision: str = "float32"

    level: str = "token"
    aggregate: str = "rollout_mean"
    constant_length: int | None = None
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coef: float = 0.02
    kl: str = "k3"
    scale_by_std: bool = True
    advantage_eps: float = 1e-4

    learning_rate: float = 2e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0
    warmup_steps: int = 0
    inner_updates: int = 1

    rollout_wave: int | None = None
    micro_batch_size: int | None = None
    checkpoint_layers: bool = False
    chunk_size: int | None = None
    skip_zero_advantages: bool = True

    checkpoint_every: int = 25
    keep_checkpoints: int = 2
    seed: int = 0

    def __post_init__(self):
        minimum = {"steps": 1, "prompts_per_step": 1, "group_size": 2, "max_new_tokens": 1, "inner_updates": 1}
        minimum |= {"warmup_steps": 0, "checkpoint_every": 0, "keep_checkpoints": 1, "seed": 0}
        for name, least in minimum.items():
            as_count(getattr(self, name), name, minimum=least)
        for name in ("constant_length", "rollout_wave", "micro_batch_size", "chunk_size"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name, minimum=1)
        for name in ("temperature", "learning_rate", "importance_cap"):
            as_positive(getattr(self, name), name)
        for name in ("clip_low", "clip_high", "kl_coef", "advantage_eps", "weight_decay"):
            as_nonnegative(getattr(self, name), name)
        if self.max_grad_norm is not None:
            as_positive(self.max_grad_norm, "max_grad_norm")
        for name in ("scale_by_std", "checkpoint_layers", "skip_zero_advantages"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}: pass True or False")
        choices = {
            "level": LEVELS,
            "aggregate": AGGREGATES,
            "kl": (*KL_KINDS, KL_IN_REWARD),
            "rollout_dtype": PRECISIONS,
            "precision": PRECISIONS,
            "prompt_style": tuple(PROMPT_STYLES),
        }
        for name, known in choices.items():
            require_choice(getattr(self, name), name, known)
        # JSON knows lists only; equality after a round trip needs the tuple back.
        object.__setattr__(self, "betas", _as_betas(self.betas))

    def to_json(self):
        """One JSON object as text; `from_json` gives equal settings back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text):
        """Settings from `to_json`'s text. Raises ValueError for unknown names, missing quotes, or bad values."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"the settings are not valid JSON: {error}") from error
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values):
        """Settings from a dict. Raises ValueError for a name that is no setting, or a bad value."""
        if not isinstance(values, dict):
            raise ValueError(f"the settings are {type(values).__name__}: pass an object of names and values")
        _require_known(values)
        return cls(**values)

    def changed(self, **changes):
        """A copy with some values replaced. Raises ValueError as the constructor does, and for unknown names."""
        _require_known(changes)
        return replace(self, **changes)

    @property
    def loss_kl_coef(self):
        """The weight of the KL term of the loss: 0 where the penalty is taken off the rewards instead."""
        return 0.0 if self.kl == KL_IN_REWARD else self.kl_coef

    @property
    def same_arithmetic(self):
        """Whether rollouts and training pass use the same numbers, so that captured log-probs are the trainer's."""
        return self.rollout_dtype == self.precision == "float32"

    @property
    def rollouts_per_step(self):
        """N = prompts_per_step * group_size."""
        return self.prompts_per_step * self.group_size

    @property
    def needs_reference(self):
        """Whether a frozen copy of the start takes part."""
        return self.kl_coef > 0

    def learning_rate_at(self, step):
        """The learning rate of iteration `step`, counted from 0: a linear warm-up, then constant."""
        if step >= self.warmup_steps:
            return self.learning_rate
        return self.learning_rate * (step + 1) / self.warmup_steps


def _require_known(names):
    known = {field.name for field in fields(GRPOSettings)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(f"unknown settings {', '.join(unknown)}: choose from {', '.join(sorted(known))}")


def _as_betas(betas):
    try:
        first, second = (float(beta) for beta in betas)
    except (TypeError, ValueError):
        first = second = -1.0
    if not (0.0 <= first < 1.0 and 0.0 <= second < 1.0):
        raise ValueError(f"betas is {betas!r}: pass two numbers, each at least 0 and below 1")
    return first, second
