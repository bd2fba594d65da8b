"""How good a model is: accuracy on a list of problems, with its interval, and what its completions look like."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from grpo.qwen3.model import stop_ids
from grpo.qwen3.prompts import encode_prompts
from grpo.qwen3.rewards import boxed_reward
from grpo.qwen3.sampler import sample
from grpo.qwen3.tokenizer import completion_text, encode_text


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
    if not problems:
        raise ValueError("problems is empty: an accuracy needs at least one problem")
    if temperature > 0 and generator is None:
        raise ValueError(f"temperature is {temperature} without a generator: pass a torch.Generator with a seed")
    ends = stop_ids(model, tokenizer) if ends is None else ends
    forced = encode_text(tokenizer, forced_prefix)
    if len(forced) >= max_new_tokens:
        raise ValueError(f"forced_prefix takes {len(forced)} of {max_new_tokens} tokens: nothing is left to sample")
    prompts = [prompt + forced for prompt in encode_prompts(tokenizer, [one.prompt for one in problems], style)]
    rewards, lengths, finished, thinks = [], 0, 0, 0
    for start in range(0, len(problems), batch_size):
        batch = problems[start : start + batch_size]
        rollouts = sample(
            model,
            prompts[start : start + batch_size],
            group_size,
            max_new_tokens=max_new_tokens - len(forced),
            temperature=temperature,
            stop_ids=ends,
            pad_id=tokenizer.pad_token_id,
            generator=generator,
        )
        rows = (rollouts.completion_ids.tolist(), rollouts.lengths.tolist(), rollouts.finished.tolist())
        for row, (ids, length, done) in enumerate(zip(*rows, strict=True)):
            text = forced_prefix + completion_text(tokenizer, ids[:length], ends if done else ())
            rewards.append(float(reward(text, batch[row // group_size].truth, done)))
            lengths += len(forced) + length
            finished += done
            thinks += text.startswith("<think>")
    total = len(rewards)
    if not all(0 <= value <= 1 for value in rewards):
        raise ValueError(f"a reward of {min(rewards)} or {max(rewards)} is no share: evaluate needs rewards in [0, 1]")
    low, high = wilson_interval(sum(rewards), total)
    return Evaluation(
        sum(rewards) / total, low, high, total, lengths / total, finished / total, thinks / total, tuple(rewards)
    )
