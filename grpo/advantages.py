"""Group-relative advantages: how much better a rollout is than its siblings for the same prompt."""

import numpy as np

from grpo.checks import as_count, as_finite_vector, as_floats, as_nonnegative, require_same_length
from grpo.rollouts import group_rollouts


def group_relative_advantage(rewards, group_size, eps=1e-4, ddof=1):
    """A_i = (r_i - mean) / (std + eps), with the mean and std of the rollout's own group.

    Args:
        rewards: (P * G,) flat, group after group: ints, bools or floats.
        group_size: G, at least 2. A group of one has nothing to be compared with.
        eps: added to the std, outside the root, in units of the reward. It is large enough that rewards which
            differ by float32 rounding only get advantages near 0.
        ddof: the std divides by G - ddof. 1 is torch's default and TRL's; numpy's own default is 0.

    Returns: (P, G) float64, in units of group standard deviations. A group of equal rewards gets exactly 0.

    Raises: ValueError if rewards is not 1-D, is empty, holds NaN or infinity (the row is named), or cannot be
        cut into whole groups; if group_size < 2, eps < 0, or ddof is not in 0 .. G-1.

    Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2. The paper leaves ddof and eps open.
    """
    groups = _as_groups(rewards, group_size)
    eps = as_nonnegative(eps, "eps")
    ddof = as_count(ddof, "ddof", minimum=0)
    if ddof >= groups.shape[1]:
        raise ValueError(f"ddof is {ddof} in groups of {groups.shape[1]}: the std would divide by 0; use 1")

    centred = groups - groups.mean(axis=1, keepdims=True)
    scale = groups.std(axis=1, ddof=ddof, keepdims=True) + eps
    # Equal rewards are found by comparison: their computed std can be 1e-17, and eps 0 would make that +-1.
    varied = ~_all_equal(groups)
    advantages = np.zeros(groups.shape)
    advantages[varied] = centred[varied] / scale[varied]
    return advantages


def rollout_advantages(prompt_ids, rewards, group_size, eps=1e-4, ddof=1):
    """`group_relative_advantage` for rollouts in any order: groups are found by prompt id.

    Args:
        prompt_ids: N hashable ids, one per rollout; they may interleave (a, b, a, b).
        rewards: (N,) flat, in the same order.
        group_size, eps, ddof: as in `group_relative_advantage`.

    Returns: (N,) float64, in the order of the input.

    Raises: ValueError as in `group_relative_advantage` and `group_rollouts`.
    """
    rewards = as_finite_vector(rewards, "rewards")
    require_same_length(prompt_ids=prompt_ids, rewards=rewards)
    rows_of_prompt = group_rollouts(prompt_ids, range(len(rewards)), group_size)
    order = np.concatenate(list(rows_of_prompt.values()))

    advantages = np.empty(len(rewards))
    advantages[order] = group_relative_advantage(rewards[order], group_size, eps, ddof).ravel()
    return advantages


def zero_variance_fraction(rewards, group_size):
    """Share of groups whose rewards are all equal: these prompts give no learning signal.

    Args:
        rewards: (P * G,) flat, group after group.
        group_size: G, at least 2.

    Returns: float in [0, 1].

    Raises: ValueError as in `group_relative_advantage`.

    Source: DAPO (arXiv 2503.14476), section 3.2, filters such groups out ("dynamic sampling").
    """
    return float(_all_equal(_as_groups(rewards, group_size)).mean())


def no_signal_probability(pass_rate, group_size):
    """Chance that a group of 0/1 rewards is all right or all wrong: p^G + (1-p)^G.

    Args:
        pass_rate: p in [0, 1], the chance that one rollout is right; a number or an array.
        group_size: G, at least 1 (a group of one never has a signal: probability 1).

    Returns: float64 of the shape of pass_rate.

    Raises: ValueError if a pass rate is outside [0, 1] or NaN, or if group_size < 1.
    """
    pass_rate = as_floats(pass_rate, "pass_rate")
    group_size = as_count(group_size, "group_size", minimum=1)
    if not np.all((pass_rate >= 0.0) & (pass_rate <= 1.0)):
        raise ValueError(f"pass_rate is {pass_rate}: pass a share between 0 and 1, not a percentage")
    return pass_rate**group_size + (1.0 - pass_rate) ** group_size


def _as_groups(rewards, group_size):
    rewards = as_finite_vector(rewards, "rewards")
    group_size = as_count(group_size, "group_size", minimum=2)
    if len(rewards) % group_size:
        raise ValueError(
            f"{len(rewards)} rewards cannot be cut into groups of {group_size}: "
            "pass whole groups, one after the other, or use rollout_advantages with prompt ids"
        )
    return rewards.reshape(len(rewards) // group_size, group_size)


def _all_equal(groups):
    return groups.max(axis=1) == groups.min(axis=1)
