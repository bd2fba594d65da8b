"""A score with its controls: what the same model does with the plain prompt, when told to go step by step, by a vote.

A trained model is worth what it is better by than these; none of them needs any training.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field

import torch

from grpo.checks import as_count, as_nonnegative
from grpo.qwen3.answers import answer_batches
from grpo.qwen3.prompts import encode_prompt
from grpo.qwen3.rewards import boxed_reward
from grpo.qwen3.voting import count_votes, same_value

VOTES, TEMPERATURE = 5, 0.7
THINK = "<think>"


@dataclass(frozen=True)
class Control:
    """One way of asking.

    name: str. style: of the prompt (`grpo.qwen3.prompts`). forced_prefix: str put at the start of each completion.
    votes: completions a problem; the majority's answer counts. temperature: 0 for the most probable tokens.

    Raises: ValueError for fewer than 1 vote, a negative temperature, or several votes at temperature 0.
    """

    name: str
    style: str = "plain"
    forced_prefix: str = ""
    votes: int = 1
    temperature: float = 0.0

    def __post_init__(self):
        as_count(self.votes, "votes", minimum=1)
        as_nonnegative(self.temperature, "temperature")
        if self.votes > 1 and self.temperature == 0:
            raise ValueError(f"{self.votes} votes at temperature 0 are one vote, repeated: set a temperature above 0")


@dataclass(frozen=True)
class ControlRow:
    """What came of one way of asking.

    control: Control. problems: their number.
    accuracy: share of problems answered right (by the majority, if there are votes). low, high: 95 % Wilson interval.
    mean_length: tokens per answer, that is per completion. tokens_per_problem: `votes` times as many.
    finished_share: share of completions that ended with a stop token.
    seconds: time of sampling and scoring. tokens_per_second: tokens sampled in that time.
    rewards: tuple of floats, one per problem. vote_rewards: tuple of tuples, one float per completion.
    vote: dict with single, any_right, agreement and undecided of VoteEvaluation, empty without a vote.
    """

    control: Control
    problems: int
    accuracy: float
    low: float
    high: float
    mean_length: float
    tokens_per_problem: float
    finished_share: float
    seconds: float
    tokens_per_second: float
    rewards: tuple
    vote_rewards: tuple
    vote: dict = field(default_factory=dict)

    @property
    def name(self):
        """The control's."""
        return self.control.name

    def summary(self):
        """Everything as a dict for JSON: the answers' rewards too, but no text of problems or answers."""
        return {"name": self.name, **asdict(self)}


def asked(style="plain", votes=1, temperature=TEMPERATURE):
    """The one way of asking that is no control: greedy, or a majority of `votes` at a temperature.

    Returns: Control.
    """
    if votes == 1:
        return Control(f"{style} prompt", style)
    return Control(f"{style} prompt, majority of {votes}", style, votes=votes, temperature=temperature)


def default_controls(tokenizer, style="plain", votes=VOTES, temperature=TEMPERATURE):
    """The plain prompt, step by step, and a majority vote on top of the latter.

    A chat model goes step by step with its thinking on. A tokenizer that cannot even read the request (the tiny model's
    knows no letters) gets <think> put at the start of its answers instead.

    Args:
        style: of the prompt; "step_by_step" and "chat_thinking" have "base" and "chat_direct" as their plain ones.
        votes: of the last control, at least 2.
        temperature: of the last control, above 0.

    Returns: tuple of 3 Controls.

    Raises: ValueError for fewer than 2 votes, or as Control.
    """
    if votes < 2:
        raise ValueError(f"votes is {votes}: a majority vote as a control needs at least 2")
    if style.startswith("chat_"):
        plain, steps = Control("thinking off", "chat_direct"), Control("thinking on", "chat_thinking")
    else:
        plain = Control("plain prompt", "base" if style == "step_by_step" else style)
        steps = Control("step-by-step prompt", "step_by_step")
        if not can_read(tokenizer, steps.style):
            steps = Control(f"{THINK} forced", plain.style, THINK)
    vote = Control(f"{steps.name}, majority of {votes}", steps.style, steps.forced_prefix, votes, temperature)
    return plain, steps, vote


def generator_for(seed, control, start):
    """torch.Generator of one batch: the same batch is sampled the same, whatever was done before it.

    Args:
        seed: int. control: Control. start: int, index of the batch's first problem.
    """
    digest = hashlib.sha256(f"{seed}|{control.name}|{start}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def control_batches(model, tokenizer, problems, control, *, seed=0, **options):
    """`answer_batches` as a control asks for it. Args and what it yields: as there."""
    return answer_batches(
        model,
        tokenizer,
        problems,
        votes=control.votes,
        temperature=control.temperature,
        forced_prefix=control.forced_prefix,
        style=control.style,
        generator_at=lambda start: generator_for(seed, control, start),
        **options,
    )


def control_row(control, answers, truths, seconds, reward=boxed_reward, same=None):
    """The row of a control from its answers.

    Args:
        answers: list of lists of Answer, one list per problem.
        truths: list of str, one per problem.
        seconds: float, what the answers took.
        reward, same: as in `grpo.qwen3.voting.count_votes`; used only if there are votes.

    Returns: ControlRow.

    Raises: ValueError as `count_votes`.
    """
    counted = count_votes(answers, truths, reward, same)
    tokens = sum(answer.tokens for several in answers for answer in several)
    vote_rewards = tuple(tuple(answer.reward for answer in several) for several in answers)
    accuracy, low, high, rewards = counted.accuracy, counted.low, counted.high, counted.rewards
    vote = {name: getattr(counted, name) for name in ("single", "any_right", "agreement", "undecided")}
    return ControlRow(
        control=control,
        problems=len(answers),
        accuracy=accuracy,
        low=low,
        high=high,
        mean_length=counted.mean_length,
        tokens_per_problem=tokens / len(answers),
        finished_share=counted.finished_share,
        seconds=seconds,
        tokens_per_second=tokens / seconds if seconds > 0 else float("nan"),
        rewards=rewards,
        vote_rewards=vote_rewards,
        vote=vote if control.votes > 1 else {},
    )


def run_controls(
    model,
    tokenizer,
    problems,
    *,
    votes=VOTES,
    temperature=TEMPERATURE,
    style="plain",
    reward=boxed_reward,
    max_new_tokens=26,
    batch_size=256,
    seed=0,
    controls=None,
    rollout_dtype=None,
    progress=None,
):
    """Ask a model in several ways. It does not change.

    Args:
        votes, temperature: of the majority vote.
        style: how a problem becomes a prompt, see `default_controls`.
        batch_size: completions decoded at a time.
        seed: int, of the sampling.
        controls: Controls to run instead of `default_controls`.
        progress: callable (control, problems done), or None.
        The others: as in `grpo.qwen3.evaluate`.

    Returns: list of ControlRow.

    Raises: ValueError as `answer_batches` and `default_controls`.
    """
    controls = default_controls(tokenizer, style, votes, temperature) if controls is None else controls
    truths, same, rows = [problem.truth for problem in problems], same_value(reward), []
    for control in controls:
        answers, seconds = [], 0.0
        batches = control_batches(
            model,
            tokenizer,
            problems,
            control,
            seed=seed,
            reward=reward,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            rollout_dtype=rollout_dtype,
        )
        for several, took in batches:
            answers, seconds = answers + several, seconds + took
            if progress is not None:
                progress(control, len(answers))
        rows.append(control_row(control, answers, truths, seconds, reward, same))
    return rows


def can_read(tokenizer, style):
    """Whether the tokenizer has tokens for the text that a prompt style adds."""
    try:
        encode_prompt(tokenizer, "1", style)
    except ValueError:
        return False
    return True
