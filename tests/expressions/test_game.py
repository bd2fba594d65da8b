"""The game: evaluation, grammar, enumeration, tasks."""

import itertools

import numpy as np
import pytest

from grpo.expressions import Task, evaluate, explain_malformed, expression_task, game
from grpo.expressions import grammar_mask as mask_of
from grpo.expressions.game import response_tokens, state_of
from grpo.expressions.task import spell

# The tables are looked up in their module each time: the mutation run exchanges them there.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("2 + 3", 5),
        ("2 * 3", 6),
        ("2 + 3 * 5", 17),
        ("2 * 3 + 5", 11),
        ("5 + 3 * 2", 11),
        ("2 * 3 * 5", 30),
        ("2 + 3 + 5", 10),
    ],
)
def test_products_come_before_sums(text, value):
    assert evaluate(text.split()) == value


def test_evaluation_agrees_with_python_on_every_expression():
    for expression in game.EXPRESSIONS:
        assert evaluate(expression) == eval("".join(expression))


MALFORMED = [
    ("", "it is empty"),
    ("+ 2", "it starts with the operator '+', where a number belongs"),
    ("2 + * 3", "after '+' comes the operator '*', where a number belongs"),
    ("2 3", "after the number 2 comes the number 3, where an operator belongs"),
    ("2 + 2", "the number 2 is used twice"),
    ("2 +", "it stops after the operator '+'"),
    ("2 - 3", "token '-' at position 1 is neither one of the numbers nor an operator"),
    ("4", "token '4' at position 0 is neither one of the numbers nor an operator"),
    ("2 END", "token 'END' at position 1 is neither"),
]


@pytest.mark.parametrize(("text", "reason"), MALFORMED)
def test_malformed_expressions_are_named(text, reason):
    assert explain_malformed(text.split()).startswith(reason)
    with pytest.raises(ValueError, match="is no expression"):
        evaluate(text.split())


def test_other_numbers():
    assert evaluate(["7", "+", "9", "*", "1"], ("1", "7", "9")) == 16
    assert explain_malformed(["2"], ("1", "7", "9")) is not None


def test_the_enumeration_is_complete():
    wellformed = {
        tokens
        for length in range(1, 7)
        for tokens in itertools.product(game.TOKENS[:-1], repeat=length)
        if explain_malformed(tokens) is None
    }
    assert set(game.EXPRESSIONS) == wellformed and len(game.EXPRESSIONS) == 39
    beginnings = {expression[:n] for expression in wellformed for n in range(len(expression) + 1)}
    assert set(game.PREFIXES) == beginnings and len(game.PREFIXES) == 70
    assert np.bincount(game.LENGTHS).tolist() == [0, 0, 3, 0, 12, 0, 24]
    assert game.HAS_CHOICE.sum() == 22


def test_the_grammar_mask_allows_exactly_what_can_be_completed():
    for state, prefix in enumerate(game.PREFIXES):
        for token_id, token in enumerate(game.TOKENS[:-1]):
            allowed = (*prefix, token) in game.PREFIXES
            assert mask_of(prefix)[token_id] == allowed
            assert game.NEXT_STATE[state, token_id] == (game.PREFIXES.index((*prefix, token)) if allowed else -1)
        assert mask_of(prefix)[-1] == (prefix in game.EXPRESSIONS)
        assert game.EXPRESSION_OF_STATE[state] == (game.EXPRESSIONS.index(prefix) if prefix in game.EXPRESSIONS else -1)
        assert state_of(prefix) == state


def test_the_words_of_the_game():
    assert (game.NUMBERS, game.OPERATORS, game.END) == (("2", "3", "5"), ("+", "*"), "END")
    assert game.TOKENS == ("2", "3", "5", "+", "*", "END") and game.END_ID == 5
    assert game.TARGETS == (5, 6, 7, 8, 10, 11, 13, 15, 17, 30)


def test_the_tables_are_what_the_functions_say():
    tables = (game.LEGAL, game.NEXT_STATE, game.EXPRESSION_OF_STATE, game.LENGTHS, game.TOKEN_MASK, game.HAS_CHOICE)
    assert all(type(table) is np.ndarray for table in (*tables, game.PATH_STATES, game.PATH_TOKENS))
    assert game._enumerate() == (game.PREFIXES, game.EXPRESSIONS)
    assert all(type(table) is tuple for table in game._enumerate())
    assert game.PREFIXES[:5] == ((), ("2",), ("3",), ("5",), ("2", "+"))  # breadth first
    assert [len(prefix) for prefix in game.PREFIXES] == sorted(len(prefix) for prefix in game.PREFIXES)
    np.testing.assert_array_equal(game.LEGAL, [mask_of(prefix) for prefix in game.PREFIXES])
    np.testing.assert_array_equal(game.LENGTHS, [len(expression) + 1 for expression in game.EXPRESSIONS])
    assert game.MAX_TOKENS == 6 and game.TOKEN_MASK.shape == (39, 6)
    np.testing.assert_array_equal(game.TOKEN_MASK.sum(axis=1), game.LENGTHS)
    assert game.TOKEN_MASK[:, :2].all() and (np.diff(game.TOKEN_MASK.astype(int), axis=1) <= 0).all()
    np.testing.assert_array_equal(game.HAS_CHOICE, [sum(mask_of(prefix)) > 1 for prefix in game.PREFIXES])
    assert (game.NEXT_STATE[:, game.END_ID] == -1).all()
    assert game._ID == {token: place for place, token in enumerate(game.TOKENS)}
    assert game._STATE == {prefix: place for place, prefix in enumerate(game.PREFIXES)}


def test_paths_are_rebuilt_as_they_are():
    states, tokens = game._paths()
    np.testing.assert_array_equal(states, game.PATH_STATES)
    np.testing.assert_array_equal(tokens, game.PATH_TOKENS)
    assert (tokens[~game.TOKEN_MASK] == game.END_ID).all()


def test_masks_are_arrays_of_truth_values():
    assert mask_of([]).dtype == mask_of(["2"]).dtype == bool


def test_the_mask_with_other_numbers():
    np.testing.assert_array_equal(mask_of(["7", "+"], ("1", "7", "9")), [True, False, True, False, False, False])


@pytest.mark.parametrize("prefix", [["+"], ["2", "2"], ["2", "+", "2"], ["2", "+", "3", "*", "5", "+"], ["END"], ["9"]])
def test_no_mask_for_what_is_no_beginning(prefix):
    with pytest.raises(ValueError, match="is no beginning of an expression"):
        mask_of(prefix)
    with pytest.raises(ValueError, match="is no beginning of an expression"):
        state_of(prefix)


def test_paths_spell_their_expressions():
    for row, expression in enumerate(game.EXPRESSIONS):
        spelled = [game.TOKENS[token] for token in game.PATH_TOKENS[row][game.TOKEN_MASK[row]]]
        assert spelled == [*expression, "END"] == list(response_tokens(row))
        for position, state in enumerate(game.PATH_STATES[row][game.TOKEN_MASK[row]]):
            assert game.PREFIXES[state] == expression[:position]
            assert game.LEGAL[state, game.PATH_TOKENS[row, position]]
    assert not game.HAS_CHOICE[game.PATH_STATES[~game.TOKEN_MASK]].any()


def test_the_ten_prompts_are_all_reachable():
    task = expression_task()
    assert len(task) == 10 and tuple(task.targets) == game.TARGETS == (5, 6, 7, 8, 10, 11, 13, 15, 17, 30)
    assert task.correct.sum(axis=1).tolist() == [3, 2, 2, 2, 8, 4, 4, 2, 4, 6]
    assert task.values.shape == (10, 39)


def test_a_task_with_its_own_numbers():
    task = Task([16], [[1, 7, 9]])
    right = [game.EXPRESSIONS[row] for row in np.flatnonzero(task.correct[0])]
    assert {evaluate(spell(expression, (1, 7, 9)), ("1", "7", "9")) for expression in right} == {16}
    assert spell(("2", "+", "5", "END"), (1, 7, 9)) == ("1", "+", "9", "END")
    with pytest.raises(ValueError, match="zip"):
        spell(("2",), (1, 7))


@pytest.mark.parametrize(
    ("targets", "numbers", "message"),
    [
        ([], None, "targets has dtype"),
        ([[1]], None, "targets has shape"),
        (np.array([], dtype=int), None, r"targets has shape \(0,\)"),
        ([1.5], None, "targets has dtype"),
        ([5], [[2.5, 3, 5]], "^numbers has dtype"),
        ([5], [[2, 3]], "numbers has shape"),
        ([5, 6], [[2, 3, 5]], "numbers has shape"),
        ([5, 6], [[2, 3, 5], [2, 2, 3]], r"numbers\[1\] is \[2, 2, 3\]: the numbers of a prompt must differ"),
    ],
)
def test_bad_tasks(targets, numbers, message):
    with pytest.raises(ValueError, match=message):
        Task(targets, numbers)
