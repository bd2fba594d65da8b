"""The exercise `verify_expression`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import (
    CHAPTER,
    END,
    NUMBERS,
    OPERATORS,
    UnreadableError,
    draw,
    judged_after,
)
from grader.plain import NotPlain
from grader.show import show_value
from grpo.expressions import tables
from grpo.expressions.game import evaluate, explain_malformed


def _left_to_right(tokens, numbers):
    total = int(tokens[0])
    for operator, number in zip(tokens[1::2], tokens[2::2], strict=False):
        total = total + int(number) if operator == "+" else total * int(number)
    return total


def _right_to_left(tokens, numbers):
    total = int(tokens[-1])
    for operator, number in zip(tokens[-2::-2], tokens[-3::-2], strict=False):
        total = int(number) + total if operator == "+" else int(number) * total
    return total


def _sums_before_products(tokens, numbers):
    return math.prod(sum(int(n) for n in part.split("+")) for part in "".join(tokens).split("*"))


def _verdict(tokens, target, numbers, value_of=evaluate, pay=None, explain=None):
    """A right verifier with one piece exchanged: the value, the pay, or the question whether it is well formed."""
    right = tables.verify_expression(tokens, target, numbers)
    reason = right[2] if explain is None else explain(list(tokens), numbers)
    if reason:
        return (None, 0.0, reason) if pay is None else (None, pay(None, target, reason), reason)
    value = value_of(tokens[: list(tokens).index(END)] if END in tokens else list(tokens), numbers)
    return value, (0.1 + 1.0 * (value == target) if pay is None else pay(value, target, "")), ""


def _with(**piece):
    def wrong(tokens, target, numbers=NUMBERS):
        return _verdict(tokens, target, numbers, **piece)

    return wrong


def _verify_eval(tokens, target, numbers=NUMBERS):
    """What Python can compute counts as well formed."""
    if not tokens or tokens[-1] != END:
        return None, 0.0, "no end token"
    try:
        value = eval("".join(tokens[:-1]), {"__builtins__": {}})
    except Exception:
        return None, 0.0, "not an expression"
    return value, 0.1 + (1.0 if value == target else 0.0), ""


def _changed(change):
    """The right verdict, spoilt afterwards: change(value, reward, reason)."""

    def wrong(tokens, target, numbers=NUMBERS):
        return change(*tables.verify_expression(tokens, target, numbers))

    return wrong


def _verify_fixed_numbers(tokens, target, numbers=NUMBERS):
    return tables.verify_expression(tokens, target)


def _verify_end_filtered_out(tokens, target, numbers=NUMBERS):
    return tables.verify_expression([*(token for token in tokens if token != END), END], target, numbers)


def _verify_value_of_everything(tokens, target, numbers=NUMBERS):
    value, reward, reason = tables.verify_expression(tokens, target, numbers)
    body = [token for token in tokens if token != END]
    try:
        return _twice_is_no_fault(body, numbers) if reason else value, reward, reason
    except (ValueError, IndexError):
        return value, reward, reason


def _last_product_left_out(tokens, numbers):
    operators = [i for i, token in enumerate(tokens) if token == "+"]
    return evaluate(tokens[: operators[-1]], numbers) if operators else 0


def _operator_at_the_end_accepted(tokens, numbers):
    reason = tables.verify_expression(tokens, 0, numbers)[2]
    return None if reason.startswith("it stops after") else reason


def _previous_number_only(tokens, numbers):
    """Only a number that comes twice in a row counts as used twice."""
    reason = tables.verify_expression(tokens, 0, numbers)[2]
    used = tokens[:-1:2]
    return None if "twice" in reason and all(a != b for a, b in pairwise(used)) else reason


def _verify_eval_unguarded(tokens, target, numbers=NUMBERS):
    value = eval("".join(token for token in tokens if token != END), {"__builtins__": {}})
    return value, 0.1 + (1.0 if value == target else 0.0), ""


def _verify_right_pays_without_format(tokens, target, numbers=NUMBERS):
    value, reward, reason = tables.verify_expression(tokens, target, numbers)
    if not reason:
        return value, reward, reason
    digits = [token for token in tokens if token in numbers or token in OPERATORS]
    try:
        would_be = eval("".join(digits), {"__builtins__": {}})
    except Exception:
        would_be = None
    return None, 1.0 if would_be == target else 0.0, reason


def _verify_raises(tokens, target, numbers=NUMBERS):
    value, reward, reason = tables.verify_expression(tokens, target, numbers)
    if reason:
        raise ValueError(reason)
    return value, reward, reason


def _verify_no_reason(tokens, target, numbers=NUMBERS):
    return (*tables.verify_expression(tokens, target, numbers)[:2], "")


def _verify_always_a_reason(tokens, target, numbers=NUMBERS):
    value, reward, reason = tables.verify_expression(tokens, target, numbers)
    return value, reward, reason or "well formed"


def _end_not_required(tokens, numbers):
    body = tokens[: tokens.index(END)] if END in tokens else tokens
    return explain_malformed(body, numbers) or ("it goes on" if END in tokens and tokens[-1] != END else None)


def _rest_after_end_ignored(tokens, numbers):
    if END not in tokens:
        return "no end token"
    return explain_malformed(tokens[: tokens.index(END)], numbers)


def _number_twice_accepted(tokens, numbers):
    reason = tables.verify_expression(tokens, 0, numbers)[2]
    return None if "twice" in reason else reason


def _twice_is_no_fault(tokens, numbers):
    """The value of an expression in which a number may repeat."""
    total, product = 0, int(tokens[0])
    for operator, number in zip(tokens[1::2], tokens[2::2], strict=False):
        if operator == "*":
            product *= int(number)
        else:
            total, product = total + product, int(number)
    return total + product


def _foreign_number_accepted(tokens, numbers):
    reason = tables.verify_expression(tokens, 0, (*numbers, *(token for token in tokens if token.isdigit())))[2]
    return reason or None


def _operator_within_a_text(tokens, numbers):
    """What comes of asking whether a token is in "+*": so is the empty text, and so are both signs together."""
    reason = tables.verify_expression(tokens, 0, numbers)[2]
    repaired = ["+" if token in ("", "+*") else token for token in tokens]
    return reason if reason and tables.verify_expression(repaired, 0, numbers)[2] else None


def _value_with_any_operator(tokens, numbers):
    return evaluate(["*" if token == "+*" else token or "+" for token in tokens], numbers)


def _accepts_parts_of_a_text(values, calls):
    """All is right, but a token that is no operator was taken for one."""
    accepted = False
    for value, one in zip(values, calls, strict=True):
        if one.note in _NO_OPERATORS:
            accepted = accepted or _number(value[1]) > 0
        elif not _alike(value, tables.verify_expression(*one.args)):
            return False
    return accepted


def _single_number_rejected(tokens, numbers):
    return tables.verify_expression(tokens, 0, numbers)[2] or ("no operator" if len(tokens) == 2 else None)


def _verify_by_splitting(tokens, target, numbers=NUMBERS):
    text = " ".join(tokens)
    number = "(" + "|".join(map(re.escape, numbers)) + ")"
    used = [token for token in tokens if token in numbers]
    if not re.fullmatch(rf"{number}( [+*] {number})* END", text) or len(set(used)) < len(used):
        return None, 0, f"'{text}' breaks the rules"
    value = sum(math.prod(map(int, part.split("*"))) for part in text.removesuffix(END).split("+"))
    return float(value), np.float32(1.1 if value == target else 0.1), ""


def _verify_with_eval_after_the_check(tokens, target, numbers=NUMBERS):
    if not tokens or tokens[-1] != END:
        return [None, 0.0, "no end token at the end"]
    body, used = tokens[:-1], set()
    for place, token in enumerate(body):
        allowed = OPERATORS if place % 2 else numbers
        if token not in allowed or token in used:
            return [None, 0.0, f"{token} cannot stand at place {place}"]
        used |= {token} - set(OPERATORS)
    if len(body) % 2 == 0:
        return [None, 0.0, "no number at the end"]
    value = eval("".join(body), {"__builtins__": {}})
    return [value, 0.1 + float(value == target), ""]


def _alike(one, other):
    """The same verdict, whatever the words of the reason."""
    values = one[0], other[0]
    same_value = values[0] is values[1] if None in values else _number(values[0]) == _number(values[1])
    return same_value and abs(_number(one[1]) - _number(other[1])) < 1e-4 and bool(one[2]) == bool(other[2])


def _like(code):
    """Whether all answers are those of `code`."""

    def symptom(values, calls):
        return all(_alike(value, code(*one.args)) for value, one in zip(values, calls, strict=True))

    return symptom


def _known(name, code, says):
    """A mistake that is recognised by its verdicts: everybody words the reasons in their own way."""
    return Mistake(name, code, says, symptom=_like(code))


def _shown_by(test):
    """A symptom that every answer has: test(answer, right verdict)."""

    def symptom(values, calls):
        return all(test(value, tables.verify_expression(*one.args)) for value, one in zip(values, calls, strict=True))

    return symptom


def _values_where_none_is_due(values, calls):
    """All is right but for values of malformed responses."""
    somewhere = False
    for (value, reward, reason), one in zip(values, calls, strict=True):
        right = tables.verify_expression(*one.args)
        somewhere = somewhere or (bool(right[2]) and value is not None)
        if not _alike((None if right[2] else value, reward, reason), right):
            return False
    return somewhere


def _computes_to(tokens):
    """What Python makes of a response: of all of it without the end token, and of what stands before its end."""
    first_end = tokens.index(END) if END in tokens else len(tokens)
    found = set()
    for some in (tokens, tokens[:first_end]):
        try:
            found.add(eval("".join(token for token in some if token != END), {"__builtins__": {}}))
        except Exception:  # Python finds no value either
            continue
    return found


def _pays_what_computes(values, calls):
    """Whatever is wrongly accepted is what Python can compute, and has Python's value; some of it only Python reads."""
    only_python = False
    for (value, reward, _), one in zip(values, calls, strict=True):
        tokens, target, *numbers = one.args
        right = tables.verify_expression(tokens, target, *numbers)
        if not right[2] and not (_number(value) == right[0] and abs(_number(reward) - right[1]) < 1e-4):
            return False
        if right[2] and _number(reward) != 0:
            paid = 1.1 if value == target else 0.1
            if _number(value) not in _computes_to(tokens) or abs(_number(reward) - paid) > 1e-4:
                return False
            only_python = only_python or one.note in _READ_BY_PYTHON
    return only_python


_NO_OPERATORS = ("`+*` is not one of the tokens", "the empty text is not one of the tokens")
_READ_BY_PYTHON = ("starts with an operator", "two numbers in a row", "two operators in a row")


def _is_triple(value):
    return isinstance(value, (tuple, list)) and len(value) == 3


def _read(value, one):
    if not isinstance(value, (tuple, list)):
        raise UnreadableError(f"a triple (value, reward, reason) is due, and {_kind(value)} came back")
    if len(value) != 3:
        raise UnreadableError(f"a triple (value, reward, reason) is due, and {len(value)} things came back")


def _kind(value):
    if isinstance(value, NotPlain):
        return f"something of type {value.type_name}"
    return "a dict" if isinstance(value, dict) else show_value(value)


def _words(text):
    return [*text.split(), END]


def _spelled(tokens):
    return " ".join(tokens)


def _values(rng):
    a, b, c = draw(rng, NUMBERS, 3)
    return [
        call(_words("2 + 3 * 5"), 17),
        call(_words("2 * 3 + 5"), 11),
        call(_words(f"{a} + {b} * {c}"), 4),
        call(_words(f"{b} * {c} + {a}"), 4),
        call(_words(f"{b} + {c} + {a}"), 4),
        call(_words(f"{a} * {b} * {c}"), 4),
    ]


@judged_after(_read)
def _value_is_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        shown, due = _spelled(one.args[0][:-1]), evaluate(one.args[0][:-1])
        got = None if value[0] is None else _number(value[0])
        if got is None and value[0] is not None:
            return i, f"the value of `{shown}` is the number {due}; yours is {value[0]!r}, which is no number"
        if got != due:
            return i, f"the value of `{shown}` is {due}; yours is {_show(value[0])}"
    return None


def _number(value):
    """A returned number as a float; truth values and texts are none."""
    number = np.asarray(value)
    return float(number) if number.shape == () and number.dtype.kind in "iuf" else None


def _show(value):
    number = _number(value) if value is not None else None
    return f"{number:g}" if number is not None else repr(value)


def _rewards(rng):
    a, b = str(draw(rng, [4, 6, 7, 8, 9])), str(draw(rng, [11, 12, 14]))
    numbers = (a, "1", b)
    return [
        call(["5", END], 5, note="a single number is an expression"),
        call(_words("2 + 3"), 5),
        call(_words("2 * 3"), 5),
        call(_words(f"{a} + {b}"), int(a) + int(b), numbers, note="with other numbers"),
        call(_words(f"{a} + {b}"), int(a) + int(b) + 1, numbers, note="with other numbers"),
        call([b, END], int(b), numbers, note="with other numbers"),
    ]


@judged_after(_read)
def _rewards_are_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        due, got = tables.verify_expression(*one.args)[1], _number(value[1])
        if got is None or abs(got - due) > 1e-4:
            told = "right" if due > 1 else "not the target"
            shown = _spelled(one.args[0][:-1])
            return i, f"`{shown}` is well formed and its value is {told}: reward {due:g}; yours is {_show(value[1])}"
    return None


def _malformed(rng):
    """Malformed responses; the target is what a careless reader would compute."""
    a, b = draw(rng, NUMBERS, 2)
    return [
        call([a, "+", END], int(a), note="an operator at the end"),
        call([a, "+", b], int(a) + int(b), note="no end token: it was cut off"),
        call([a, "+", a, END], 2 * int(a), note="a number twice"),
        call([a, "+", b, "+", a, END], 2 * int(a) + int(b), note="a number twice, another one between"),
        call(["+", a, END], int(a), note="starts with an operator"),
        call([a, b, END], int(a + b), note="two numbers in a row"),
        call([a, "*", "*", b, END], int(a) ** int(b), note="two operators in a row"),
        call([a, END, "+", b, END], int(a), note="goes on after the end token"),
        call([a, "+", b, END, END], int(a) + int(b), note="two end tokens"),
        call(["7", END], 7, note="7 is not one of the numbers"),
        call(["5", "-", "2", END], 3, note="a minus is not one of the operators"),
        call([a, "+*", b, END], int(a) * int(b), note=_NO_OPERATORS[0]),
        call([a, "", b, END], int(a) + int(b), note=_NO_OPERATORS[1]),
        call([END], 0, note="empty"),
        call([], 0, note="nothing at all"),
    ]


@judged_after(_read)
def _malformed_earns_nothing(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        reward = _number(value[1])
        shown = f"`{_spelled(one.args[0])}`" if one.args[0] else "the empty list"
        shown = f"{shown} is malformed ({one.note.partition(':')[0]})"
        if reward is None or abs(reward) > 1e-6:
            return i, f"{shown}: reward 0; yours is {_show(value[1])}"
        if value[0] is not None:
            return i, f"{shown} and has no value (None); yours is {_show(value[0])}"
    return None


def _reason_calls(rng):
    a, b = draw(rng, NUMBERS, 2)
    return [
        call([a, "*", END], int(a), note="malformed"),
        call([a, "*", b, END], int(a) * int(b), note="well formed and right"),
        call([a, "+", b, END], 1, note="well formed and wrong"),
        call([b, b, END], 1, note="malformed"),
        call([a, "+", a, END], 1, note="malformed"),
    ]


@judged_after(_read)
def _reason_where_due(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        due, got = bool(tables.verify_expression(*one.args)[2]), value[2]
        if not isinstance(got, str):
            return i, f"the reason is a text, also where there is none (then it is empty); yours is {got!r}"
        if bool(got.strip()) != due:
            told = "malformed: say why" if due else "well formed: the reason is the empty text"
            return i, f"`{_spelled(one.args[0])}` is {told}; yours is {got!r}"
    return None


VERIFY_EXPRESSION = Exercise(
    name="verify_expression",
    chapter=CHAPTER,
    difficulty=2,
    minutes=25,
    reference=tables.verify_expression,
    parts=(
        Part(
            says="the value: products before sums",
            points=2,
            calls=_values,
            holds=_value_is_right,
            hint="Products come first. Collect a running product; a plus sign closes it, and so does the end. Or cut "
            "the expression at its plus signs first.",
        ),
        Part(
            says="well formed: .1, and 1 more for the right value",
            points=1,
            calls=_rewards,
            holds=_rewards_are_right,
            hint="The two terms are added. Which numbers may be used, `numbers` says.",
        ),
        Part(
            says="malformed: no value and no reward, however good it looks",
            points=2,
            calls=_malformed,
            holds=_malformed_earns_nothing,
            hint="Decide first whether the response is well formed, and compute a value only then. What has to stand "
            "at even places, what at odd ones, what at the end?",
        ),
        Part(
            says="a reason where a response is rejected, and only there",
            points=1,
            calls=_reason_calls,
            holds=_reason_where_due,
            hint="Any words will do, as long as a person who reads the log learns what is wrong.",
        ),
    ),
    mistakes=(
        _known(
            "sums before products",
            _with(value_of=_sums_before_products),
            "Sums were computed before products. It is the other way round.",
        ),
        _known(
            "left to right",
            _with(value_of=_left_to_right),
            "The operators were applied from left to right: 2 + 3 * 5 became 25. The usual precedence has products "
            "first: 17. The policy would learn the arithmetic of the verifier, whatever it is.",
        ),
        _known(
            "right to left",
            _with(value_of=_right_to_left),
            "The operators were applied from right to left: 2 * 3 + 5 became 16. Products come first: 11.",
        ),
        _known(
            "last product left out",
            _with(value_of=_last_product_left_out),
            "What comes after the last plus sign is missing: at the end there is a product that no plus sign closes.",
        ),
        Mistake(
            "value as a text",
            _changed(lambda value, reward, reason: (None if value is None else str(value), reward, reason)),
            "The value came back as a text. It is a number: '17' and 17 are not equal.",
            symptom=_shown_by(lambda mine, right: isinstance(mine[0], str) or (mine[0] is None and right[0] is None)),
        ),
        Mistake(
            "value and reward exchanged",
            _changed(lambda value, reward, reason: (reward, value, reason)),
            "Value and reward are exchanged. The order is value, reward, reason.",
            symptom=_shown_by(lambda mine, right: _alike((mine[1], mine[0], mine[2]), right)),
        ),
        _known(
            "no value if it is not the target",
            _changed(lambda value, reward, reason: (value if reward > 1 else None, reward, reason)),
            "A well-formed expression with another value than the target came without its value. It has one, and a log "
            "in which it stands tells how far away it was.",
        ),
        _known(
            "numbers ignored",
            _verify_fixed_numbers,
            "`numbers` plays no part: an expression with other numbers than 2, 3 and 5 was rejected although they were "
            "offered.",
        ),
        Mistake(
            "no triple",
            _changed(lambda value, reward, reason: reward),
            "Three things are due in every case, in one tuple: value, reward, reason. Also where there is nothing to "
            "pay.",
            symptom=lambda values, calls: not all(map(_is_triple, values)),
        ),
        Mistake(
            "eval decides what is well formed",
            _verify_eval,
            "What can be computed was accepted, unless a check of yours came first. Python computes `2**3` (8), `+2`, "
            "and reads the two tokens 2 and 3 as the number 23; none of them is in the grammar. Ask the grammar first. "
            "(And never give text of a model to `eval`.)",
            symptom=_pays_what_computes,
        ),
        Mistake(
            "eval without a check",
            _verify_eval_unguarded,
            "The response went to `eval` as it is. A malformed one ends the whole training run with an error, and "
            "others get a value that they should not have. Ask the grammar first.",
        ),
        _known(
            "accuracy without format",
            _verify_right_pays_without_format,
            "A malformed response was paid for a right value. Accuracy counts only for what is well formed; else the "
            "policy learns that form does not matter.",
        ),
        _known(
            "format always paid",
            _with(pay=lambda value, target, reason: 0.1 + (0.0 if value is None else 1.0 * (value == target))),
            "Malformed responses got the format reward. It is there to tell the two apart.",
        ),
        _known(
            "no format reward",
            _with(pay=lambda value, target, reason: 0.0 if reason else 1.0 * (value == target)),
            "The format term is missing: a well-formed answer with a wrong value still earns it.",
        ),
        _known(
            "accuracy instead of format",
            _with(pay=lambda value, target, reason: 0.0 if reason else (1.0 if value == target else 0.1)),
            "A right answer got 1.0: the format reward was replaced instead of added to.",
        ),
        _known(
            "target compared as text",
            _with(pay=lambda value, target, reason: 0.0 if reason else 0.1 + 1.0 * (str(value) == target)),
            "No answer is ever right. The target is a number; a text is never equal to it.",
        ),
        _known(
            "cut-off response accepted",
            _with(explain=_end_not_required),
            "A response without the end token was accepted. It was cut off: nobody knows whether the policy had "
            "finished. It would also learn that stopping is not its business.",
        ),
        _known(
            "end token filtered out",
            _verify_end_filtered_out,
            "The end token was thrown away before the check, wherever it stood. So a response that was cut off passes, "
            "and one that goes on after its end. It comes exactly once, as the last token.",
        ),
        Mistake(
            "value of a malformed response",
            _verify_value_of_everything,
            "Malformed responses have a value. What breaks the rules has none (None), so that nobody counts it.",
            symptom=_values_where_none_is_due,
        ),
        Mistake(
            "penalty for malformed responses",
            _changed(lambda value, reward, reason: (value, -0.1 if reason else reward, reason)),
            "A malformed response got a reward below 0. It gets nothing: 0.",
            symptom=_shown_by(lambda mine, right: _number(mine[1]) < 0 if right[2] else _alike(mine, right)),
        ),
        _known(
            "operator at the end accepted",
            _with(explain=_operator_at_the_end_accepted, value_of=_twice_is_no_fault),
            "A response that stops after an operator was accepted. The last token before the end token is a number.",
        ),
        _known(
            "only the previous number compared",
            _with(explain=_previous_number_only, value_of=_twice_is_no_fault),
            "A number was used twice and accepted, with another one between. Compare with all numbers before it.",
        ),
        _known(
            "rest after the end ignored",
            _with(explain=_rest_after_end_ignored),
            "What comes after the first end token was ignored. The end token is the last one, or the response is "
            "malformed.",
        ),
        _known(
            "number twice accepted",
            _with(explain=_number_twice_accepted, value_of=_twice_is_no_fault),
            "A number was used twice and accepted. Each number may be used once.",
        ),
        _known(
            "foreign number accepted",
            _with(explain=_foreign_number_accepted, value_of=_twice_is_no_fault),
            "A number that the prompt does not offer was accepted. With it every target is easy: the policy writes the "
            "target down.",
        ),
        Mistake(
            "operators looked for in a text",
            _with(explain=_operator_within_a_text, value_of=_value_with_any_operator),
            "A token that is no operator was taken for one. Python finds the empty text, and `+*` too, in the text "
            "`+*`: `in` asks a text for any piece of it. Ask a tuple or a list for one of its items.",
            symptom=_accepts_parts_of_a_text,
        ),
        _known(
            "single number rejected",
            _with(explain=_single_number_rejected),
            "A single number was rejected. It is an expression, and for the target 5 the shortest answer.",
        ),
        Mistake(
            "an error instead of a verdict",
            _verify_raises,
            "A malformed response raised an error. A verifier gives a verdict on everything: one bad rollout must not "
            "end the run.",
        ),
        _known(
            "no reason given",
            _verify_no_reason,
            "Rejected responses come without a reason. When half of a batch is rejected at night, the reason is all "
            "that you will have in the morning.",
        ),
        Mistake(
            "None for no reason",
            _changed(lambda value, reward, reason: (value, reward, reason or None)),
            "A well-formed response has the reason None. Asked for is the empty text, so that the reason is always a "
            "text.",
            symptom=_shown_by(
                lambda mine, right: _alike(mine, right) and (bool(mine[2]) if right[2] else mine[2] is None)
            ),
        ),
        _known(
            "a reason for a wrong value",
            _changed(lambda value, reward, reason: (value, reward, reason or ("" if reward > 1 else "wrong value"))),
            "A well-formed response with a wrong value carries a reason. The reason is about the form: it says why a "
            "response was rejected. A wrong value shows in the reward.",
        ),
        _known(
            "a reason for everything",
            _verify_always_a_reason,
            "Well-formed responses carry a reason too. An empty text says that there is nothing to complain about.",
        ),
    ),
    alternatives=(
        Alternative("a pattern, then splitting at +", _verify_by_splitting),
        Alternative("eval after a full check, a list", _verify_with_eval_after_the_check),
    ),
    hint="First the end token, then the grammar, then the value.",
)
