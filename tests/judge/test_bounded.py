"""A kernel's messages stay below the size at which the judge would hang up, and say so."""

from jupyter_client.session import Session

from grader.judge.bounded import KEPT, bound_messages, shortened


def session(most):
    kind = type("Bounded", (Session,), {})
    bound_messages(kind, most)
    return kind(key=b"key")


def sent(one, kind, content):
    parts = one.serialize(one.msg(kind, content))
    _, frames = one.feed_identities(parts)
    return sum(map(len, parts)), one.deserialize(frames)["content"]


def test_small_messages_are_left_alone():
    one = session(10_000)
    for kind, content in (("stream", {"name": "stdout", "text": "hello"}), ("display_data", {"data": {"a/b": "x"}})):
        assert sent(one, kind, content)[1] == content


def test_the_bound_itself_is_allowed():
    kind, content = type("Measured", (Session,), {}), {"name": "stdout", "text": "x" * 300_000}
    one = kind(key=b"key")
    message = one.msg("stream", content)
    size = sum(map(len, one.serialize(message)))
    bound_messages(kind, size)
    assert one.deserialize(one.feed_identities(one.serialize(message))[1])["content"] == content
    content["text"] += "x"
    assert len(one.deserialize(one.feed_identities(one.serialize(message))[1])["content"]["text"]) < 200_000


def test_a_large_one_is_cut_and_says_so():
    one = session(300_000)
    size, content = sent(one, "stream", {"name": "stdout", "text": "x" * 3_000_000})
    assert size < 300_000 and content["text"].startswith("x" * KEPT)
    assert content["name"] == "stdout" and content["text"].endswith("… an output of 3 MB was cut here\n")
    size, content = sent(one, "display_data", {"data": {"text/html": "x" * 2_000_000}, "metadata": {}})
    assert size < 10_000 and content == {"data": {"text/plain": "… an output of 2 MB was cut here"}, "metadata": {}}
    size, content = sent(one, "error", {"ename": "E", "evalue": "y" * 900_000, "traceback": ["z" * 900_000]})
    assert size < 300_000 and content["ename"] == "E" and len(content["evalue"]) == KEPT


def test_what_has_no_text_loses_everything():
    assert shortened({"comm_id": "x" * 100}, 10**8) == {}
