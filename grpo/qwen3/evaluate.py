"""How good a model is: accuracy on a list of problems, with its interval, and what its completions look like."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from grpo.qwen3.answers import answer_batches
from grpo.qwen3.rewards import boxed_reward


@dataclass(frozen=True)
class Evaluation:
    """The outcome on a list of problems. A rollout counts once, so several a problem narrow the interval too much.

    accuracy: share of rollouts with reward 1 (the mean reward).
    low, high: 95 % Wilson interval of it.
    rollouts: number of rollouts.
    mean_length: tokens a completion, the stop token and a forced prefix included.
    finished_share: share that ended with a stop token.
    think_share: share that starts with <think>.
    rewards: tuple of floats, problem after problem.
    """

    accuracy: float
    low: float
    high: float
    rollouts: int
    mean_length: float
    finished_share: float
    think_share: float
    rewards: tuple

    def summary(self):
        """All but the single rewards, as a dict for JSON."""
        fields = asdict(self)
        del fields["rewards"]
        return fields


def wilson_interval(successes, trials, z=1.96):
    """Wilson's score interval of a proportion: sensible at 0 and 1 too, where the usual one has no width.

    Args:
        successes: number of successes; a sum of rewards in [0, 1] will do.
        trials: number of independent trials.
        z: quantile of the normal distribution, 1.96 for 95 %.

    Returns: (low, high), within [0, 1].

    Raises: ValueError if there are no trials, or if successes is outside 0 .. trials.

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927) 209.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials: there must be trials, and no more successes")
    share = successes / trials
    centre = share + z**2 / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    scale = 1 + z**2 / trials
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def evaluate(
    model,
    tokenizer,
    problems,
    *,
    reward=boxed_reward,
    temperature=0.0,
    group_size=1,
    max_new_tokens=26,
    forced_prefix="",
    batch_size=250,
    generator=None,
    ends=None,
    style="plain",
):
    """Let a model answer problems and score the answers. The model does not change.

    Args:
        model: Qwen3ForCausalLM.
        tokenizer: its tokenizer.
        problems: list of objects with `prompt` and `truth`, not empty.
        reward: callable (completion, truth, finished) -> float in [0, 1].
        temperature: 0 takes the most probable token each time (and then one rollout says it all).
        group_size: rollouts a problem.
        max_new_tokens: limit of a completion, forced prefix included.
        forced_prefix: str put at the start of every completion, such as "<think>": what can the model do, if the
            decision to think is taken out of its hands? It is scored as if the model had written it.
        batch_size: problems decoded at a time.
        generator: torch.Generator, needed if temperature is above 0.
        ends: ids that end a completion, default `stop_ids(model, tokenizer)`.
        style: how a problem becomes a prompt (`grpo.qwen3.prompts`).

    Returns: Evaluation.

    Raises: ValueError if there are no problems, if sampling has no generator, or if a reward is outside [0, 1].
    """
    batches = answer_batches(
        model,
        tokenizer,
        problems,
        votes=group_size,
        reward=reward,
        temperature=temperature,
        generator_at=None if generator is None else lambda start: generator,
        max_new_tokens=max_new_tokens,
        forced_prefix=forced_prefix,
        batch_size=batch_size * group_size,
        style=style,
        ends=ends,
    )
    answers = [answer for grouped, _ in batches for several in grouped for answer in several]
    rewards = require_shares([answer.reward for answer in answers])
    total = len(answers)
    low, high = wilson_interval(sum(rewards), total)
    return Evaluation(
        accuracy=sum(rewards) / total,
        low=low,
        high=high,
        rollouts=total,
        mean_length=sum(answer.tokens for answer in answers) / total,
        finished_share=sum(answer.finished for answer in answers) / total,
        think_share=sum(answer.text.startswith("<think>") for answer in answers) / total,
        rewards=tuple(rewards),
    )


def require_shares(rewards):
    """The rewards as they are. Raises ValueError if one is outside [0, 1]: an accuracy is made of shares."""
    if not all(0 <= value <= 1 for value in rewards):
        raise ValueError(f"a reward of {min(rewards)} or {max(rewards)} is no share: evaluate needs rewards in [0, 1]")
    return rewards
