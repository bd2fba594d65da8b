r"""Several answers to one problem, and the one that most of them give (self-consistency).

Source: X. Wang et al., Self-Consistency Improves Chain of Thought Reasoning in Language Models, arXiv 2203.11171.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo.qwen3.answers import answer_batches, score
from grpo.qwen3.evaluate import require_shares, wilson_interval
from grpo.qwen3.rewards import boxed_reward


@dataclass(frozen=True)
class VoteEvaluation:
    """What a majority vote makes of a list of problems.

    accuracy: share of problems whose winning answer is right. low, high: 95 % Wilson interval over the problems.
    problems, votes: their number, and completions for each.
    single: mean reward of the single completions: what one of them alone is worth.
    any_right: share of problems with a right answer among the votes: the best that any choice could do.
    agreement: mean share of the votes that the winner got.
    undecided: share of problems without a single answer.
    mean_length: tokens a completion; a problem costs `votes` times as many.
    finished_share: share of completions that ended with a stop token.
    winners: tuple of str, or None where nobody answered.
    rewards: tuple of floats, one per problem.
    """

    accuracy: float
    low: float
    high: float
    problems: int
    votes: int
    single: float
    any_right: float
    agreement: float
    undecided: float
    mean_length: float
    finished_share: float
    winners: tuple
    rewards: tuple


def majority_vote(answers, same=None):
    """The answer that most votes give.

    Args:
        answers: sequence of str, or None for no answer. Outer white space does not count. None and blank answers
            never win, however many they are.
        same: callable (answer, earlier answer) -> bool: do two that are written differently say the same? Default: no.
            An answer joins the first earlier one that it is the same as; a group is known by its first answer.

    Returns: str, stripped; of several with equally many votes the one that appeared first. None if nobody answered.
    """
    counts = {}
    for answer in answers:
        answer = (answer or "").strip()
        if not answer:
            continue
        if same is not None and answer not in counts:
            answer = next((earlier for earlier in counts if same(answer, earlier)), answer)
        counts[answer] = counts.get(answer, 0) + 1
    return max(counts, key=counts.get, default=None)


class SameValue:
    r"""Are two answers mathematically equal, as the math reward judges it? For `majority_vote`.

    Without it 1/2 and \frac{1}{2} would be two parties. Every pair of different texts costs one comparison (some 10 ms)
    in the reward's pool of processes, under its budget; what is not judged in time counts as different.

    Args:
        verifier: grpo.qwen3.math_rewards.MathVerifier.
    """

    def __init__(self, verifier):
        self.verifier, self._judged = verifier, {}

    def learn(self, ballots):
        """Judge all pairs of answers to one problem, for several problems at once.

        Args:
            ballots: list of lists of str or None.
        """
        new = {}
        for answers in ballots:
            texts = list(dict.fromkeys(answer for answer in answers if answer is not None))
            pairs = ((later, earlier) for row, later in enumerate(texts) for earlier in texts[:row])
            new |= {pair: None for pair in pairs if pair not in self._judged}
        later, earlier = [rf"\boxed{{{pair[0]}}}" for pair in new], [pair[1] for pair in new]
        for pair, judged in zip(new, self.verifier.scores(later, earlier) if new else [], strict=True):
            self._judged[pair] = judged.score == 1.0

    def __call__(self, answer, earlier):
        return self._judged.get((answer, earlier), False)


def same_value(reward):
    """What `count_votes` needs as `same` for a reward: SameValue for the math reward, None (equal texts) for others."""
    verifier = getattr(reward, "verifier", None)
    return None if verifier is None else SameValue(verifier)


def ballot(answers, reward):
    """The votes of a problem's completions: list of str or None.

    A completion that was cut off has no vote, unless the reward scores it as it stands (the math reward does).
    """
    as_it_stands = getattr(reward, "verifier", None) is not None
    return [answer.answer if answer.finished or as_it_stands else None for answer in answers]


def count_votes(answers, truths, reward=boxed_reward, same=None):
    """The outcome of a vote.

    Args:
        answers: list of lists of Answer, one list per problem, all of one length.
        truths: list of str, one per problem.
        reward: callable (completion, truth, finished) -> float in [0, 1]; it judges the winner in a box by itself.
        same: as in `majority_vote`; a SameValue first learns what it needs.

    Returns: VoteEvaluation.

    Raises: ValueError if there are no problems, if lists differ in length, or if a reward is outside [0, 1].
    """
    sizes = {len(several) for several in answers}
    if len(sizes) != 1 or 0 in sizes or len(truths) != len(answers):
        raise ValueError(f"{len(answers)} problems with {sorted(sizes)} answers each, {len(truths)} truths: none fits")
    ballots = [ballot(several, reward) for several in answers]
    if isinstance(same, SameValue):
        same.learn(ballots)
    winners = [majority_vote(votes, same) for votes in ballots]
    decided = [row for row, winner in enumerate(winners) if winner is not None]
    if sizes == {1}:
        rewards = [several[0].reward for several in answers]  # nothing to choose from: the reward of the completion
    else:
        rewards = [0.0] * len(answers)
        boxes = [rf"\boxed{{{winners[row]}}}" for row in decided]
        paid = score(reward, boxes, [truths[row] for row in decided], [True] * len(decided)) if decided else []
        for row, value in zip(decided, paid, strict=True):
            rewards[row] = value
    single = require_shares([answer.reward for several in answers for answer in several])
    total, votes = len(answers), sizes.pop()
    low, high = wilson_interval(sum(require_shares(rewards)), total)
    everything = [answer for several in answers for answer in several]
    return VoteEvaluation(
        accuracy=sum(rewards) / total,
        low=low,
        high=high,
        problems=total,
        votes=votes,
        single=sum(single) / len(single),
        any_right=sum(max(answer.reward for answer in several) for several in answers) / total,
        agreement=sum(map(_agreement, ballots, winners, [same] * total)) / total,
        undecided=1 - len(decided) / total,
        mean_length=sum(answer.tokens for answer in everything) / len(everything),
        finished_share=sum(answer.finished for answer in everything) / len(everything),
        winners=tuple(winners),
        rewards=tuple(rewards),
    )


def evaluate_votes(
    model,
    tokenizer,
    problems,
    votes=8,
    *,
    reward=boxed_reward,
    temperature=0.7,
    generator=None,
    max_new_tokens=26,
    forced_prefix="",
    batch_size=256,
    style="plain",
    ends=None,
    rollout_dtype=None,
):
    """Let a model answer every problem several times, and score the answer that most completions give.

    Args:
        votes: completions a problem, at least 1.
        temperature: of the sampling, above 0; the votes of a greedy model are one vote.
        generator: torch.Generator, needed.
        batch_size: completions decoded at a time (at least one problem's).
        The others: as in `grpo.qwen3.evaluate`.

    Returns: VoteEvaluation.

    Raises: ValueError for no problems, fewer than 1 vote, a temperature of 0, no generator, or a reward outside [0, 1].
    """
    if temperature <= 0 or generator is None:
        raise ValueError(f"temperature is {temperature}, generator {generator}: votes are sampled, so both are needed")
    answers = []
    batches = answer_batches(
        model,
        tokenizer,
        problems,
        votes=votes,
        reward=reward,
        temperature=temperature,
        generator_at=lambda start: generator,
        max_new_tokens=max_new_tokens,
        forced_prefix=forced_prefix,
        batch_size=batch_size,
        style=style,
        ends=ends,
        rollout_dtype=rollout_dtype,
    )
    for several, _ in batches:
        answers += several
    return count_votes(answers, [problem.truth for problem in problems], reward, same_value(reward))


def _agreement(votes, winner, same):
    def for_it(vote):
        vote = (vote or "").strip()
        return vote == winner or (same is not None and bool(vote) and same(vote, winner))

    return sum(map(for_it, votes)) / len(votes) if winner is not None else 0.0
