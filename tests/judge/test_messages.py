"""Of what a kernel sends, a notebook gets what it can hold, and nothing of it can break the judge."""

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, output_from_msg

from grader.judge.inside import ANSWER_MIME
from grader.judge.messages import believable

KINDS = ["status", "execute_input", "stream", "display_data", "execute_result", "error", "clear_output"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=6) | st.just("stdout"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text/plain", "a+json", "x"]), inner),
    max_leaves=6,
)


def said(kind, **content):
    return {"msg_type": kind, "content": content, "parent_header": {"msg_id": "x"}, "header": {"msg_type": kind}}


def content(kind, **fields):
    got = believable(said(kind, **fields))
    return got and got["content"]


MIME = st.dictionaries(
    st.sampled_from(["text/plain", "text/html", "application/b+json", "application/json", "a/b+json", "x"]),
    JSON | st.text(),
    max_size=3,
)
CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["stdout", "stderr", "other", 5]), "text": st.text() | JSON, "data": MIME | JSON,
        "metadata": JSON, "transient": JSON, "execution_count": st.integers(-2, 9) | JSON, "ename": st.text() | JSON,
        "evalue": st.text() | JSON, "traceback": st.lists(st.text() | JSON, max_size=3) | JSON, "wait": JSON,
        "execution_state": st.text() | JSON,
    },
)  # fmt: skip


@given(st.sampled_from(KINDS), CONTENT)
@settings(max_examples=300, deadline=None)
def test_whatever_is_let_through_makes_a_valid_notebook(kind, fields):
    got = believable(said(kind, **fields))
    if got is None or kind in ("status", "clear_output", "execute_input"):
        return
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[output_from_msg(got)])])
    nbformat.validate(notebook)
    nbformat.writes(notebook).encode("utf-8")


BROKEN = [
    {**said("stream"), "content": []},
    {**said("stream"), "parent_header": "x"},
    {**said("stream"), "msg_type": 5},
]


@pytest.mark.parametrize("message", [None, [], "text", {}, {"msg_type": "stream"}, *BROKEN])
def test_what_is_no_message_is_dropped(message):
    assert believable(message) is None


def test_ordinary_messages_come_through():
    assert content("stream", name="stdout", text="hello") == {"name": "stdout", "text": "hello"}
    assert content("status", execution_state="idle") == {"execution_state": "idle"}
    assert content("execute_input", code="1", execution_count=4) == {"execution_count": 4}
    assert content("execute_result", data={"text/plain": "4"}, metadata={}, execution_count=3) == {
        "data": {"text/plain": "4"}, "metadata": {}, "execution_count": 3,
    }  # fmt: skip
    error = {"ename": "E", "evalue": "v", "traceback": ["line"]}
    assert content("error", **error, more=5) == error
    assert content("clear_output", wait=True) == {"wait": True} and content("clear_output", wait="x") == {"wait": False}


def test_displays_do_not_change_what_was_shown_and_widgets_do_not_exist():
    data = {"text/plain": "4"}
    got = content("display_data", data=data, metadata={"a": 1}, transient={"display_id": "points"})
    assert got == {"data": data, "metadata": {}}
    for kind in ("update_display_data", "comm_open", "comm_msg", "comm_close", "no_such_type"):
        assert content(kind, data=data, transient={"display_id": "points"}, comm_id="x") is None


def test_fields_of_other_types_cost_the_field_or_the_message():
    assert content("stream", name="elsewhere", text="x") is None and content("stream", name="stdout", text=5) is None
    assert content("error", ename=1, evalue="", traceback=[]) is None
    assert content("error", ename="E", evalue="", traceback=["a", 5])["traceback"] == ["a"]
    assert content("execute_result", data={"text/plain": "4"}, execution_count="many")["execution_count"] is None
    assert content("display_data", data={"text/plain": 5, "text/html": ["<b>", "x"], "image/png": {}}) == {
        "data": {"text/html": "<b>x"}, "metadata": {},
    }  # fmt: skip
    assert content("display_data", data={"text/plain": 5}) is None and content("display_data", data=[]) is None
    assert content("stream", name="stdout", text="\ud800") == {"name": "stdout", "text": "?"}
    assert content("display_data", data={f"a/{i}": "x" for i in range(100)}) is None


@pytest.mark.parametrize("count", [None, "4", 4.0, True, -1, 10**9, [4]])
def test_a_count_is_a_whole_number(count):
    assert content("execute_input", code="1", execution_count=count) is None
    assert content("execute_result", data={"text/plain": "4"}, execution_count=count)["execution_count"] is None


def test_a_state_is_a_word():
    assert content("status", execution_state=5) is None and content("status") is None
    assert content("execute_input", execution_count=0) == {"execution_count": 0}
    assert content("execute_input", execution_count=10**9 - 1) == {"execution_count": 10**9 - 1}


def test_json_is_kept_where_the_type_says_so_and_the_answer_goes_on_as_it_is():
    assert content("display_data", data={"application/x+json": {"a": [1]}})["data"] == {
        "application/x+json": {"a": [1]}
    }
    assert content("display_data", data={"application/x+json": float("nan")}) is None
    assert content("display_data", data={ANSWER_MIME: {"outcomes": 5}})["data"] == {ANSWER_MIME: {"outcomes": 5}}
