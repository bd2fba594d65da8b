"""Votes: who wins, what a winner is worth, and that every number of the outcome is what it says."""

import pytest
import torch

from grpo.qwen3 import answers as module
from grpo.qwen3 import voting
from grpo.qwen3.answers import Answer, boxed_answer
from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.evaluate import evaluate, wilson_interval
from grpo.qwen3.math_rewards import Judged
from grpo.qwen3.model import tiny_model
from grpo.qwen3.tokenizer import tiny_tokenizer
from grpo.qwen3.voting import SameValue, ballot, count_votes, evaluate_votes, majority_vote, same_value

PROBLEMS = load_arithmetic("validation")[100:106]


def answer(text, reward=0.0, tokens=5, finished=True):
    return Answer(text, boxed_answer(text), reward, tokens, finished)


def boxes(*contents):
    return [answer(rf"\boxed{{{content}}}") for content in contents]


@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        (["5", "7", "7"], "7"),
        (["5"], "5"),
        (["7", "5", "5", "7"], "7"),  # a tie: the first to appear, whoever gets there first
        (["5", "7", "7", "5", "9"], "5"),
        ([None, None, None, "5"], "5"),
        (["", "  ", "", "5"], "5"),
        ([" 12 ", "12", "7", "7", "12"], "12"),
        (["12 ", "7"], "12"),
        ([None, ""], None),
        ([], None),
    ],
)
def test_majority_vote(answers, winner):
    assert majority_vote(answers) == winner


def test_answers_that_say_the_same_vote_together():
    halves = {("0.5", "1/2"), ("2/4", "1/2")}
    votes = ["3", "1/2", "3", "0.5", "2/4"]
    assert majority_vote(votes) == "3"
    assert majority_vote(votes, same=lambda later, earlier: (later, earlier) in halves) == "1/2"
    # It joins the first group that it is the same as, and is asked about groups only, not about their members.
    asked = []
    majority_vote(["1/2", "0.5", "7", "2/4"], same=lambda *pair: asked.append(pair) or pair in halves)
    assert asked == [("0.5", "1/2"), ("7", "1/2"), ("2/4", "1/2")]


def test_what_a_completion_answers():
    assert boxed_answer(r"<think>\boxed{1}</think>\boxed{ 2 }") == "2"
    for text in ("2", r"\boxed{ }", r"\boxed{", r"<think>\boxed{2}"):
        assert boxed_answer(text) is None


def test_a_completion_that_was_cut_off_votes_only_where_the_reward_scores_it_as_it_stands():
    cut = [answer(r"\boxed{5} and", finished=False), answer(r"\boxed{7}")]

    class AsItStands:
        verifier = object()

    assert ballot(cut, lambda *rollout: 0.0) == [None, "7"]
    assert ballot(cut, AsItStands()) == ["5", "7"]


def test_every_number_of_the_outcome():
    first = [
        answer(r"\boxed{5}", 0.0, tokens=4),
        answer(r"\boxed{7}", 1.0, tokens=6),
        answer(r"\boxed{7}", 1.0, tokens=8),
        answer("no box", 0.0, tokens=10, finished=False),
    ]
    second = [answer("nothing", 0.0, tokens=3) for _ in range(4)]
    third = [answer(r"\boxed{1}", 0.0, tokens=1) for _ in range(3)] + [answer(r"\boxed{2}", 1.0, tokens=2)]
    result = count_votes([first, second, third], ["7", "3", "2"])
    assert result.winners == ("7", None, "1")
    assert result.rewards == (1.0, 0.0, 0.0) and result.accuracy == pytest.approx(1 / 3)
    assert (result.low, result.high) == wilson_interval(1, 3)
    assert (result.problems, result.votes) == (3, 4)
    assert result.single == pytest.approx(3 / 12) and result.any_right == pytest.approx(2 / 3)
    assert result.agreement == pytest.approx((2 / 4 + 0 + 3 / 4) / 3) and result.undecided == pytest.approx(1 / 3)
    assert result.mean_length == pytest.approx((28 + 12 + 5) / 12) and result.finished_share == pytest.approx(11 / 12)


def test_the_winner_is_judged_alone_and_only_once_for_all_problems():
    calls = []

    class Batch:
        def batch(self, completions, truths, finished):
            calls.append((completions, truths, finished))
            return [1.0] * len(completions)

    reward = Batch()
    result = count_votes([boxes("1", "2", "2"), boxes("3", "3", "4")], ["a", "b"], reward)
    assert calls == [([r"\boxed{2}", r"\boxed{3}"], ["a", "b"], [True, True])]
    assert result.accuracy == 1.0


def test_one_vote_is_worth_what_its_completion_is():
    # A reward that looks at more than the box cannot be asked about a box alone.
    result = count_votes([[answer(r"\boxed{5}", 0.5)], [answer("no box", 1.0)]], ["5", "5"])
    assert result.rewards == (0.5, 1.0)


def test_slips_of_the_caller():
    for answers, truths in (
        ([], []),
        ([boxes("1"), boxes("1", "2")], ["1", "1"]),
        ([boxes("1")], ["1", "2"]),
        ([[]], ["1"]),
    ):
        with pytest.raises(ValueError, match="answers each"):
            count_votes(answers, truths)
    with pytest.raises(ValueError, match="rewards in"):
        count_votes([[answer("x", 2.0)]], ["1"])


class Verifier:
    """Numbers are equal if float() says so."""

    def __init__(self):
        self.asked = []

    def scores(self, completions, truths):
        self.asked += zip(completions, truths, strict=True)
        values = [float(text.removeprefix(r"\boxed{").removesuffix("}")) for text in completions]
        return [Judged(float(value == float(truth)), "") for value, truth in zip(values, truths, strict=True)]


def test_same_value_asks_about_each_pair_once():
    verifier = Verifier()
    same = SameValue(verifier)
    result = count_votes([boxes("5", "7", "7.0"), boxes("7", "7", "7.0")], ["7", "7"], same=same)
    assert result.winners == ("7", "7") and result.agreement == pytest.approx((2 / 3 + 1) / 2)
    expected = [(r"\boxed{7}", "5"), (r"\boxed{7.0}", "5"), (r"\boxed{7.0}", "7")]
    assert verifier.asked == expected
    same.learn([["5", "7", "7.0", None]])
    assert verifier.asked == expected
    assert not same("7", "8")  # never asked: not the same


def test_the_math_reward_brings_its_verifier():
    reward = type("Reward", (), {"verifier": Verifier()})()
    assert same_value(reward).verifier is reward.verifier
    assert same_value(lambda *rollout: 0.0) is None


def test_with_math_verify():
    pytest.importorskip("math_verify")
    from grpo.qwen3.math_rewards import MathReward

    reward = MathReward(seconds_per_answer=30.0, seconds_per_batch=300.0)
    try:
        votes = boxes("3", r"\frac{1}{2}", "3", "0.5", r"\frac{2}{4}", "9^{9^{9}}")
        result = count_votes([votes], [r"\dfrac12"], reward, same_value(reward))
    finally:
        reward.close()
    assert result.winners == (r"\frac{1}{2}",) and result.rewards == (1.0,)
    assert result.agreement == pytest.approx(3 / 6)


@pytest.fixture(scope="module")
def tiny():
    return tiny_model(0), tiny_tokenizer()


def test_evaluate_votes_samples_like_evaluate(tiny):
    def length(text, truth, finished):
        return len(text) / 1000

    options = {"reward": length, "temperature": 1.0}
    votes = evaluate_votes(*tiny, PROBLEMS, 3, generator=torch.Generator().manual_seed(1), **options)
    rollouts = evaluate(*tiny, PROBLEMS, group_size=3, generator=torch.Generator().manual_seed(1), **options)
    assert votes.single == pytest.approx(rollouts.accuracy) and votes.mean_length == rollouts.mean_length
    assert (votes.problems, votes.votes) == (6, 3)


def test_evaluate_votes_keeps_the_votes_of_a_problem_together(tiny, monkeypatch):
    sizes = []
    sample = module.sample
    monkeypatch.setattr(
        module,
        "sample",
        lambda model, prompts, size, **rest: sizes.append((len(prompts), size)) or sample(model, prompts, size, **rest),
    )
    evaluate_votes(*tiny, PROBLEMS, 3, generator=torch.Generator(), batch_size=7, max_new_tokens=2)
    evaluate_votes(*tiny, PROBLEMS[:2], 3, generator=torch.Generator(), batch_size=1, max_new_tokens=2)
    assert sizes == [(2, 3)] * 3 + [(1, 3)] * 2


def test_votes_need_randomness(tiny):
    for options in ({"temperature": 0.0, "generator": torch.Generator()}, {"temperature": 0.7}):
        with pytest.raises(ValueError, match="votes are sampled"):
            evaluate_votes(*tiny, PROBLEMS, 3, **options)
    for options, message in (({"votes": 0}, "votes is 0"), ({"votes": 2, "batch_size": 0}, "batch_size is 0")):
        with pytest.raises(ValueError, match=message):
            evaluate_votes(*tiny, PROBLEMS, generator=torch.Generator(), **options)


def test_every_option_reaches_the_answers_and_the_count(monkeypatch):
    options = {
        "max_new_tokens": 9,
        "forced_prefix": "<think>",
        "batch_size": 7,
        "style": "base",
        "ends": frozenset({3}),
        "rollout_dtype": torch.bfloat16,
        "temperature": 0.3,
    }
    asked = []

    def batches(model, tokenizer, problems, **given):
        asked.append(given)
        yield [boxes("0.5", "7", "1/2")], 1.0

    class Equal:
        """A reward that knows that 0.5 and 1/2 are one number."""

        class verifier:
            @staticmethod
            def scores(later, earlier):
                return [
                    Judged(float({one, two} == {r"\boxed{1/2}", "0.5"}), "")
                    for one, two in zip(later, earlier, strict=True)
                ]

        def __call__(self, completion, truth, finished):
            return float("0.5" in completion)

    generator, reward = torch.Generator(), Equal()
    monkeypatch.setattr(voting, "answer_batches", batches)
    found = evaluate_votes(None, None, PROBLEMS[:1], 3, reward=reward, generator=generator, **options)
    (given,) = asked
    assert given.pop("generator_at")(5) is generator
    assert given == {**options, "votes": 3, "reward": reward}
    assert found.winners == ("0.5",) and found.accuracy == 1.0 and found.agreement == pytest.approx(2 / 3)


def test_what_a_winner_is_worth_is_a_share_too():
    with pytest.raises(ValueError, match=r"a reward of 2\.0 or 2\.0 is no share"):
        count_votes([boxes("5", "5")], ["5"], reward=lambda *rollout: 2.0)


def test_every_batch_has_its_generator_its_ends_and_its_time(monkeypatch):
    clock, asked = iter([10.0, 10.5, 20.0, 22.0]), []

    def prompts(model, tokenizer, some, truths, **options):
        asked.append((truths, options["generator"], options["ends"]))
        return [answer(r"\boxed{5}") for _ in some]

    monkeypatch.setattr(module, "answer_prompts", prompts)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    batches = module.answer_batches(
        None,
        tiny_tokenizer(),
        PROBLEMS[:3],
        temperature=1.0,
        generator_at=lambda start: f"generator {start}",
        batch_size=2,
        ends={7},
    )
    assert [seconds for _, seconds in batches] == [0.5, 2.0]
    truths = [problem.truth for problem in PROBLEMS[:3]]
    assert asked == [(truths[:2], "generator 0", {7}), (truths[2:], "generator 2", {7})]
