"""GRPO from scratch: the functions that the course builds, finished, in numpy float64.

The chain of one training step, in the order of the modules:

    rollouts    completions, grouped by prompt
    rewards     1.0 for the right box, else 0.0
    advantages  reward against the rollout's own group
    logprobs    log-probability of the sampled tokens, and masks
    objective   ratio, clip, KL estimate, loss
    gradients   the same loss on a toy policy, with every gradient in closed form
    signals     what to watch while it runs
"""

from grpo.advantages import (
    group_relative_advantage,
    no_signal_probability,
    rollout_advantages,
    zero_variance_fraction,
)
from grpo.gradients import (
    categorical_kl,
    finite_diff_gradient,
    full_objective,
    full_objective_gradient,
    k_loss_expected_gradient,
    policy_gradient_analytic,
    policy_gradient_objective,
    reverse_kl_gradient,
    sample_group,
    softmax,
    toy_grpo_step,
    toy_loss,
    toy_loss_gradient,
)
from grpo.logprobs import (
    completion_mask,
    entropy,
    log_softmax,
    masked_sum,
    nucleus_logprobs,
    sequence_logprob,
    token_logprobs,
)
from grpo.objective import (
    aggregate_token_losses,
    clip_fraction,
    clip_gate,
    clipped_surrogate,
    grpo_loss,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_slope,
    rollout_ratio,
    sequence_mean_ratio,
    token_ratios,
)
from grpo.rewards import (
    checkpoint_accuracy,
    extract_boxed_strict,
    reward_lenient,
    reward_reasoning,
    reward_rlvr,
    score_completions,
    strip_reasoning,
)
from grpo.rollouts import group_rollouts
from grpo.signals import HealthSignals, health_signals

__all__ = [
    "HealthSignals",
    "aggregate_token_losses",
    "categorical_kl",
    "checkpoint_accuracy",
    "clip_fraction",
    "clip_gate",
    "clipped_surrogate",
    "completion_mask",
    "entropy",
    "extract_boxed_strict",
    "finite_diff_gradient",
    "full_objective",
    "full_objective_gradient",
    "group_relative_advantage",
    "group_rollouts",
    "grpo_loss",
    "health_signals",
    "k_loss_expected_gradient",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "kl_k3_slope",
    "log_softmax",
    "masked_sum",
    "no_signal_probability",
    "nucleus_logprobs",
    "policy_gradient_analytic",
    "policy_gradient_objective",
    "reverse_kl_gradient",
    "reward_lenient",
    "reward_reasoning",
    "reward_rlvr",
    "rollout_advantages",
    "rollout_ratio",
    "sample_group",
    "score_completions",
    "sequence_logprob",
    "sequence_mean_ratio",
    "softmax",
    "strip_reasoning",
    "token_logprobs",
    "token_ratios",
    "toy_grpo_step",
    "toy_loss",
    "toy_loss_gradient",
    "zero_variance_fraction",
]
