"""Completions with what an evaluation wants to know of them: the answer in the box, the reward, the length."""

from __future__ import annotations

import time
from dataclasses import dataclass

from grpo.qwen3.model import stop_ids
from grpo.qwen3.prompts import encode_prompts
from grpo.qwen3.rewards import boxed_reward
from grpo.qwen3.sampler import sample
from grpo.qwen3.tokenizer import completion_text, encode_text
from grpo.rewards import extract_boxed_strict, strip_reasoning


@dataclass(frozen=True)
class Answer:
    """One completion.

    text: str, forced prefix included, stop token left off.
    answer: str, what its last box holds (`boxed_answer`), or None.
    reward: float.
    tokens: int, forced prefix and stop token included.
    finished: bool, false if it was cut off at the token limit.
    """

    text: str
    answer: str | None
    reward: float
    tokens: int
    finished: bool


def boxed_answer(completion):
    r"""What a completion answers: the content of its last \boxed{...} outside the thinking, without outer white space.

    Returns: str, not blank, or None: no box, a broken one, a blank one, or a thought that never ends.
    """
    answer = (extract_boxed_strict(strip_reasoning(completion)) or "").strip()
    return answer or None


def score(reward, texts, truths, finished):
    """The rewards of completions: `reward.batch` if there is such a method (one budget for all), else one by one.

    Args:
        reward: callable (completion, truth, finished) -> float, as the trainer's.
        texts, truths, finished: lists of equal length.

    Returns: list of floats.
    """
    if hasattr(reward, "batch"):
        return [float(value) for value in reward.batch(texts, truths, finished)]
    return [float(reward(*one)) for one in zip(texts, truths, finished, strict=True)]


def answer_prompts(
    model,
    tokenizer,
    prompts,
    truths,
    *,
    ends,
    reward=boxed_reward,
    temperature=0.0,
    group_size=1,
    max_new_tokens=26,
    forced_prefix="",
    generator=None,
    rollout_dtype=None,
):
    """Let a model answer a few prompts at the same time.

    Args:
        prompts: list of lists of token ids (`grpo.qwen3.prompts.encode_prompts`).
        truths: list of str, one per prompt.
        ends: ids that end a completion.
        rollout_dtype: torch.dtype of the matrix products, default the model's.
        The others: as in `grpo.qwen3.evaluate`.

    Returns: list of Answer, prompt after prompt, `group_size` of each.

    Raises: ValueError if forced_prefix leaves nothing to sample, and as `sample`.
    """
    forced = encode_text(tokenizer, forced_prefix)
    if len(forced) >= max_new_tokens:
        raise ValueError(f"forced_prefix takes {len(forced)} of {max_new_tokens} tokens: nothing is left to sample")
    rollouts = sample(
        model,
        [prompt + forced for prompt in prompts],
        group_size,
        max_new_tokens=max_new_tokens - len(forced),
        temperature=temperature,
        stop_ids=ends,
        pad_id=tokenizer.pad_token_id,
        generator=generator,
        rollout_dtype=rollout_dtype,
    )
    lengths, finished = rollouts.lengths.tolist(), rollouts.finished.tolist()
    texts = [
        forced_prefix + completion_text(tokenizer, ids[:length], ends if done else ())
        for ids, length, done in zip(rollouts.completion_ids.tolist(), lengths, finished, strict=True)
    ]
    rewards = score(reward, texts, [truth for truth in truths for _ in range(group_size)], finished)
    return [
        Answer(text, boxed_answer(text), value, len(forced) + length, done)
        for text, value, length, done in zip(texts, rewards, lengths, finished, strict=True)
    ]


def answer_batches(
    model,
    tokenizer,
    problems,
    *,
    votes=1,
    reward=boxed_reward,
    temperature=0.0,
    generator_at=None,
    max_new_tokens=26,
    forced_prefix="",
    batch_size=256,
    style="plain",
    ends=None,
    rollout_dtype=None,
    done=0,
):
    """`answer_prompts` for a list of problems, batch after batch, so that what is finished can be kept.

    Args:
        problems: list of objects with `prompt` and `truth`, not empty.
        votes: completions a problem.
        generator_at: callable (index of a batch's first problem) -> torch.Generator; needed if temperature is above 0.
        batch_size: completions at a time; a problem's stay together, so there are at least `votes`.
        style: how a problem becomes a prompt (`grpo.qwen3.prompts`).
        ends: default `stop_ids(model, tokenizer)`.
        done: problems at the start of the list that are left out: a whole number of batches.
        The others: as in `answer_prompts`.

    Yields: (list of lists of Answer, one list per problem; seconds it took).

    Raises: ValueError for no problems, no votes, no batch, or a temperature without generators.
    """
    if not problems:
        raise ValueError("problems is empty: an accuracy needs at least one problem")
    for name, value in {"votes": votes, "batch_size": batch_size}.items():
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")
    if temperature > 0 and generator_at is None:
        raise ValueError(f"temperature is {temperature} without a generator: pass a torch.Generator with a seed")
    ends = stop_ids(model, tokenizer) if ends is None else ends
    prompts = encode_prompts(tokenizer, [one.prompt for one in problems], style)
    size = problems_per_batch(batch_size, votes)
    for start in range(done, len(problems), size):
        began = time.perf_counter()
        answers = answer_prompts(
            model,
            tokenizer,
            prompts[start : start + size],
            [one.truth for one in problems[start : start + size]],
            ends=ends,
            reward=reward,
            temperature=temperature,
            group_size=votes,
            max_new_tokens=max_new_tokens,
            forced_prefix=forced_prefix,
            generator=generator_at(start) if temperature > 0 else None,
            rollout_dtype=rollout_dtype,
        )
        grouped = [answers[row : row + votes] for row in range(0, len(answers), votes)]
        yield grouped, time.perf_counter() - began


def problems_per_batch(batch_size, votes):
    """How many problems are answered at the same time."""
    return max(1, batch_size // votes)
