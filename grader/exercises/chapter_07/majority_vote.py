"""The exercise `majority_vote`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common import CHAPTER


def _stripped(answers):
    return [answer.strip() for answer in answers if answer is not None and answer.strip()]


def majority_vote(answers):
    """The reference."""
    return _winner(_stripped(answers))


def _winner(votes):
    return max(votes, key=votes.count) if votes else None


def _tied(votes):
    """All answers with the most votes, in the order in which they appeared."""
    most = max(map(votes.count, votes), default=0)
    return [answer for answer in dict.fromkeys(votes) if votes.count(answer) == most]


def _tie_by(choose):
    """The right vote, with another answer chosen among those that are tied."""

    def vote(answers):
        votes = _stripped(answers)
        return choose(_tied(votes), votes) if votes else None

    return vote


def _first_to_reach(tied, votes):
    most, seen = votes.count(tied[0]), Counter()
    for answer in votes:
        seen[answer] += 1
        if seen[answer] == most:
            return answer
    return tied[0]


def _none_on_a_tie(tied, votes):
    return tied[0] if len(tied) == 1 else None


def _as_number(answer):
    return (float(answer), answer) if answer.isdigit() else (float("inf"), answer)


def _by_hash(tied, votes):
    """Stands for the order of a set, which is another one in each session."""
    return min(tied, key=lambda answer: zlib.crc32(answer.encode()))


def _some_tied_answer(values, calls):
    """A symptom: wherever there is a tie one of its answers won, and not always the first; all else is right."""
    first = True
    for value, one in zip(values, calls, strict=True):
        tied = _tied(_stripped(one.args[0]))
        if value not in (tied or [None]):
            return False
        first = first and value == (tied[0] if tied else None)
    return not first


def _none_counts(answers):
    return _winner(
        [answer if answer is None else answer.strip() for answer in answers if answer is None or answer.strip()]
    )


def _none_as_text(answers):
    return _winner([str(answer).strip() for answer in answers if str(answer).strip()])


def _blank_counts(answers):
    return _winner([answer.strip() for answer in answers if answer is not None])


def _white_space_counts(answers):
    return _winner([answer.strip() for answer in answers if answer])


def _everything_counts(answers):
    return _winner(["" if answer is None else answer.strip() for answer in answers])


def _compared_as_written(answers):
    return _winner([answer for answer in answers if answer is not None and answer.strip()])


def _stripped_at_the_end(answers):
    winner = _compared_as_written(answers)
    return winner if winner is None else winner.strip()


def _returned_as_written(answers):
    winner = majority_vote(answers)
    return next((answer for answer in answers if answer is not None and answer.strip() == winner), None)


def _all_white_space_out(answers):
    return _winner(["".join(answer.split()) for answer in answers if answer is not None and answer.strip()])


def _lower_case(answers):
    return _winner([answer.lower() for answer in _stripped(answers)])


def _lower_case_compared(answers):
    """Counts without regard to capitals, and returns the winner as it was first written."""
    winner = _lower_case(answers)
    return next((answer for answer in _stripped(answers) if answer.lower() == winner), None)


def _naive_counter(answers):
    return Counter(answers).most_common(1)[0][0]


def _naive_but_for_an_empty_list(answers):
    return Counter(answers).most_common(1)[0][0] if answers else None


def _only_none_dropped(answers):
    return _winner([answer for answer in answers if answer is not None])


def _max_of_nothing(answers):
    votes = _stripped(answers)
    return max(votes, key=votes.count)


def _first_of_nothing(answers):
    return Counter(_stripped(answers)).most_common(1)[0][0]


def _absolute_majority(answers):
    votes = _stripped(answers)
    winner = _winner(votes)
    return winner if votes and 2 * votes.count(winner) > len(votes) else None


def _majority_of_all(answers):
    votes = _stripped(answers)
    winner = _winner(votes)
    return winner if votes and 2 * votes.count(winner) > len(answers) else None


def _count(answers):
    votes = _stripped(answers)
    return votes.count(_winner(votes)) if votes else None


def _pair(answers):
    votes = _stripped(answers)
    return Counter(votes).most_common(1)[0] if votes else None


def _list_of_winners(answers):
    votes = _stripped(answers)
    return _tied(votes)[:1] if votes else None


def _empty_text(answers):
    return majority_vote(answers) or ""


def _numbers(answers):
    votes = []
    for answer in _stripped(answers):
        try:
            votes.append(int(answer))
        except ValueError:
            continue
    return str(_winner(votes)) if votes else None


def _whole_numbers(answers):
    votes = [int(answer) for answer in _stripped(answers)]
    return _winner(votes)


def _neighbours(answers):
    """Counts runs of equal answers, as itertools.groupby does on a list that is not sorted."""
    votes, best = _stripped(answers), (0, None)
    start = 0
    for i in range(1, len(votes) + 1):
        if i == len(votes) or votes[i] != votes[start]:
            if i - start > best[0]:
                best = (i - start, votes[start])
            start = i
    return best[1]


def _with_counter(answers):
    votes = Counter(text for answer in answers if answer and (text := answer.strip()))
    return next((answer for answer, _ in votes.most_common(1)), None)


def _with_a_loop(answers):
    counts = defaultdict(int)
    for answer in answers:
        if isinstance(answer, str):
            counts[answer.strip()] += 1
    counts.pop("", None)
    winner, most = None, 0
    for answer, count in counts.items():
        if count > most:
            winner, most = answer, count
    return winner


def _with_numpy(answers):
    import numpy as np

    votes = np.array([answer.strip() for answer in answers if answer and not answer.isspace()], dtype=str)
    if not votes.size:
        return None
    texts, first, counts = np.unique(votes, return_index=True, return_counts=True)
    return str(texts[np.lexsort((first, -counts))[0]])


def _different(rng, count):
    """Whole numbers of one or two digits as texts, all different, in random order."""
    return [str(number) for number in rng.permutation(99)[:count] + 1]


def _shuffled(rng, *votes):
    return [votes[i] for i in rng.permutation(len(votes))]


def _majority_calls(rng):
    a, b, c, d = _different(rng, 4)
    return [
        call(["12", "7", "12"]),
        call(["7", "12", "5", "12", "9", "30"], note="two of six are the most"),
        call([a, b, c, b, a, b, d]),
        call([c, d, a, c, b, c, a]),
        call([r"\frac{1}{2}", "2", r"\frac{1}{2}", "0.5"], note="other texts are other answers"),
        call(["07", "7", "8", "8", "7", "8", "07"], note="other texts are other answers"),
        call(["B", "a", "b", "a", "B", "b", "a"], note="other texts are other answers"),
        call(["C", "D", "C"], note="an answer comes back as it was written"),
        call([a, a, b, c, b, d, b]),
    ]


def _no_answer_calls(rng):
    a, b, c = _different(rng, 3)
    return [
        call([None, None, "5"]),
        call([None, "8", None, "30", "8", None, None]),
        call([a, None, None, b, b, None], note="two of six"),
        call([None, None, None], note="nobody gave an answer"),
        call([], note="nobody gave an answer"),
        call(["", "", c, ""], note="empty boxes"),
        call([a, "  ", " ", None, "  ", " "], note="boxes with a blank"),
        call(["", " "], note="nobody gave an answer"),
    ]


def _tie_calls(rng):
    a, b, c = sorted(_different(rng, 3), key=int)
    return [
        call(["7", "12", "12", "7"]),
        call(["12", "7", "7", "12"]),
        call(["30", "5", "5", "30", "9", "9"]),
        call([b, a, a, c, c, b]),
        call([c, a, b, b, c, a]),
        call([a, c, b, b, c, a]),
        call([b, c, a]),
        call([c, b, a, c, a, b], note="two votes each"),
    ]


def _white_space_calls(rng):
    a, b, c = _different(rng, 3)
    return [
        call([" 12", "7", "12 ", "7", "12"]),
        call([f"{a} ", b, f" {a}", b, a, c]),
        call([f"\n{c}", a, c, f"{c}  ", a]),
        call(["(1, 2)", "(1,2)", "(1, 2)", "(1,2)", "(1,2)", " (1, 2)", "(1, 2) "], note="white space inside stays"),
        call([f"{b} ", a, b], note="the answer comes back without it"),
    ]


MAJORITY_VOTE = Exercise(
    name="majority_vote",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=majority_vote,
    parts=(
        Part(
            says="the answer with the most votes",
            points=1,
            calls=_majority_calls,
            hint="Count how often each text occurs. The answer is the text, not its count.",
        ),
        Part(
            says="no answer never wins: None, empty and blank",
            points=1,
            calls=_no_answer_calls,
            hint="First drop what is no answer, then count. What if nothing is left?",
        ),
        Part(
            says="on a tie, the answer that appeared first",
            points=1,
            calls=_tie_calls,
            hint="A set forgets the order, sorting changes it. A dict and a Counter keep it.",
        ),
        Part(
            says="white space at the ends makes no other answer",
            points=1,
            calls=_white_space_calls,
            hint="Strip each answer before it is counted, so that the winner comes back stripped too.",
        ),
    ),
    mistakes=(
        Mistake(
            "None counts as a vote",
            _none_counts,
            "None won. Rollouts without an answer often agree in just that; a weak model would then answer nothing "
            "although some of its rollouts know.",
        ),
        Mistake(
            "None becomes the text 'None'",
            _none_as_text,
            "The text 'None' won: `str` made an answer of a missing one.",
        ),
        Mistake(
            "empty box counts as a vote",
            _blank_counts,
            "An empty box won. It is no answer, as None is none.",
        ),
        Mistake(
            "blank box counts as a vote",
            _white_space_counts,
            "A box with nothing but white space won. It is true for Python, and still no answer.",
        ),
        Mistake(
            "no answer becomes an empty one",
            _everything_counts,
            "A missing answer was turned into an empty text, and that won. Drop what is no answer before you count.",
        ),
        Mistake(
            "all votes as they are",
            _naive_counter,
            "All votes were counted as they are: None and empty boxes can win, white space at the ends makes two "
            "answers of one, and a list without votes has no first entry.",
        ),
        Mistake(
            "all votes as they are, but for an empty list",
            _naive_but_for_an_empty_list,
            "All votes were counted as they are: None and empty boxes can win, and white space at the ends makes two "
            "answers of one.",
        ),
        Mistake(
            "only None dropped",
            _only_none_dropped,
            "None was dropped, and the texts counted as they are: an empty box can win, and white space at the ends "
            "makes two answers of one.",
        ),
        Mistake(
            "most votes of an empty list",
            _max_of_nothing,
            "Where nobody gave an answer the most frequent one was looked for all the same. None is due there.",
        ),
        Mistake(
            "first of an empty list",
            _first_of_nothing,
            "Where nobody gave an answer there is no first entry to take. None is due there.",
        ),
        Mistake(
            "empty text for None",
            _empty_text,
            "Where nobody gave an answer an empty text came back. None is due: an empty text looks like an answer.",
        ),
        Mistake(
            "tie: the last one",
            _tie_by(lambda tied, votes: tied[-1]),
            "On a tie the answer won that appeared last. Is there a >= where > is meant?",
        ),
        Mistake(
            "tie: alphabetical",
            _tie_by(lambda tied, votes: min(tied)),
            "On a tie the first one in the alphabet won. Sorting (np.unique does it too) forgets who came first.",
        ),
        Mistake(
            "tie: alphabetical, the last one",
            _tie_by(lambda tied, votes: max(tied)),
            "On a tie the last one in the alphabet won, as it happens when pairs of count and answer are compared.",
        ),
        Mistake(
            "tie: the smallest number",
            _tie_by(lambda tied, votes: min(tied, key=_as_number)),
            "On a tie the smallest number won. The order in which the answers appeared decides.",
        ),
        Mistake(
            "tie: the largest number",
            _tie_by(lambda tied, votes: max(tied, key=_as_number)),
            "On a tie the largest number won. The order in which the answers appeared decides.",
        ),
        Mistake(
            "tie: first to the count",
            _tie_by(_first_to_reach),
            "On a tie the answer won that had its last vote first. The one that appeared first is asked for.",
        ),
        Mistake(
            "tie: the last vote",
            _tie_by(lambda tied, votes: next(answer for answer in reversed(votes) if answer in tied)),
            "On a tie the answer of the last rollout among the tied won: were the votes turned round?",
        ),
        Mistake(
            "tie: no winner",
            _tie_by(_none_on_a_tie),
            "A tie has no winner in your vote. The answer that appeared first is as likely to be right as the others, "
            "and better than none.",
        ),
        Mistake(
            "tie: any of them",
            _tie_by(_by_hash),
            "On a tie now this and now that answer won, as it happens with a set: it has no order. The same rollouts "
            "must give the same answer again.",
            symptom=_some_tied_answer,
        ),
        Mistake(
            "compared as written",
            _compared_as_written,
            "White space at the ends made two answers of one, and its votes were split.",
        ),
        Mistake(
            "stripped after the count",
            _stripped_at_the_end,
            "The winner was stripped, but the votes were counted before: white space at the ends split them.",
        ),
        Mistake(
            "returned as written",
            _returned_as_written,
            "The count is right. The answer came back with its white space; it is asked for without.",
        ),
        Mistake(
            "all white space removed",
            _all_white_space_out,
            "White space was removed everywhere, inside too. Only that at the ends makes no difference.",
        ),
        Mistake(
            "lower case",
            _lower_case,
            "Answers were turned into lower case: capitals no longer make a difference, and the answer comes back in "
            "another form than it was written. Only white space at the ends does not matter.",
        ),
        Mistake(
            "capitals make no difference",
            _lower_case_compared,
            "Answers that differ in capitals were counted as one. Only white space at the ends does not matter.",
        ),
        Mistake(
            "absolute majority",
            _absolute_majority,
            "An answer won only with more than half of the votes. The most votes are enough, and with hard problems "
            "there are seldom more.",
        ),
        Mistake(
            "majority of all rollouts",
            _majority_of_all,
            "An answer won only with more than half of all rollouts, those without an answer among them. The most "
            "votes are enough.",
        ),
        Mistake(
            "the count",
            _count,
            "The number of votes came back. The answer itself is asked for.",
        ),
        Mistake(
            "answer and count",
            _pair,
            "A pair came back: the answer and its votes. The answer alone is asked for.",
        ),
        Mistake(
            "a list",
            _list_of_winners,
            "The answer came back in a list. Take it out.",
        ),
        Mistake(
            "first answer",
            lambda answers: (_stripped(answers) or [None])[0],
            "The first answer came back, whatever the others say.",
        ),
        Mistake(
            "last answer",
            lambda answers: (_stripped(answers) or [None])[-1],
            "The last answer came back, whatever the others say.",
        ),
        Mistake(
            "votes side by side only",
            _neighbours,
            "Only equal answers side by side were counted together, as `itertools.groupby` does it.",
        ),
        Mistake(
            "only numbers vote",
            _numbers,
            "Answers were read as whole numbers, and what is none was dropped. Answers are texts: fractions, "
            "intervals, sets.",
        ),
        Mistake(
            "answers as numbers",
            _whole_numbers,
            "Answers were turned into whole numbers. They are texts, and some are no numbers.",
        ),
    ),
    alternatives=(
        Alternative("Counter", _with_counter),
        Alternative("a loop over counts", _with_a_loop),
        Alternative("numpy, by first place", _with_numpy),
    ),
    shortcuts=("evaluate_votes",),
    hint="Strip, drop what is no answer, count, and let the first one win a tie.",
)
