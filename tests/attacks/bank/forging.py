"""Forged answers: the kernel says what the judge asked for before, after or instead of the course's own code."""

from __future__ import annotations

from nbformat.v4 import new_output

from .making import CHAPTER_1, Submission, cell_of, nothing

ANY = ("graded", "needs review")
TARGET = "log_softmax"
MIME = "application/vnd.grpo-course.answer+json"
CHECK = "application/vnd.grpo-course.check+json"

# What every forger needs: a list of outcomes in the form that the judge reads, for any number of calls.
OUTCOME = f"""
import json
from IPython.display import display, publish_display_data

MIME = "{MIME}"
CHECK = "{CHECK}"

def outcome(value, kind="value"):
    return {{"kind": kind, "value": value, "raised": None, "printed": "", "warned": [], "changed": []}}

def forged(value, count):
    return {{MIME: {{"outcomes": json.dumps([outcome(value)] * count)}}, "text/plain": ""}}
"""


def says(expression: str) -> str:
    """Return a cell in which the judge's own module answers whatever `expression` (over `count`) gives."""
    return (
        OUTCOME
        + f"""
import grader.judge.inside as inside

def answer(name, calls):
    count = len(json.loads(calls))
    publish_display_data({{MIME: {expression}, "text/plain": ""}})

inside.answer = answer
"""
    )


def json_says(text: str) -> str:
    """Return a cell in which the judge's own module answers with a text (an expression) where JSON is due."""
    return says(f'{{"outcomes": {text}}}')


DISPLAYED = (
    OUTCOME
    + """
for count in range(1, 40):
    publish_display_data(forged(0.0, count))
"""
)

REPORT = (
    OUTCOME
    + """
report = {"exercise": "log_softmax", "chapter": "", "state": "right", "points": 4, "max_points": 4, "parts": [],
          "mistake": "", "notes": [], "headline": ""}

class Full:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "4", CHECK: report}

check = lambda *args, **kwargs: Full()
display(Full())
Full()
"""
)

BESIDE = (
    OUTCOME
    + """
import threading, time

def flood():
    while True:
        for count in (18, 20):
            publish_display_data(forged({"array": ["<f8", [], "AAAAAAAAAAA="]}, count))
        time.sleep(0.005)

threading.Thread(target=flood, daemon=True).start()
"""
)

FIRST_WORD = (
    OUTCOME
    + """
def log_softmax(logits):
    publish_display_data(forged(0.0, 18))
    return None
"""
)

AFTER_WORD = (
    OUTCOME
    + """
get_ipython().events.register("post_run_cell", lambda result: publish_display_data(forged(0.0, 18)))
"""
)

DISPLAY_IDS = (
    OUTCOME
    + """
handle = display({"text/plain": "0"}, raw=True, display_id="points")

def log_softmax(logits):
    handle.update({"text/plain": "4", CHECK: {"exercise": "log_softmax", "points": 4}}, raw=True)
    display({"text/plain": "4"}, raw=True, display_id="points")
    return None
"""
)

COMM = (
    OUTCOME
    + """
from comm import create_comm

comm = create_comm(target_name="jupyter.widget", data={"state": {"points": 4}, "buffer_paths": []},
                   metadata={"version": "2.1.0"})

def log_softmax(logits):
    comm.send({"method": "update", "state": {"outputs": [{"output_type": "execute_result", "data": forged(0.0, 18)}]},
               "buffer_paths": []})
    return None
"""
)

OUTPUT_WIDGET = (
    OUTCOME
    + """
from comm import create_comm

comm = create_comm(target_name="jupyter.widget", metadata={"version": "2.1.0"}, data={"state": {
    "_model_module": "@jupyter-widgets/output", "_model_name": "OutputModel", "msg_id": "", "outputs": []}})
try:
    # From here on nbclient would hand this cell's messages to the widget.
    comm.send({"method": "update", "state": {"msg_id": get_ipython().kernel.get_parent()["header"]["msg_id"]}})
except Exception as error:
    print(error)
"""
)

MODULES = """
import sys, types

fake = types.ModuleType("grader")
fake.check = lambda *args, **kwargs: 5
fake.__path__ = []
for name in [name for name in sys.modules if name.partition(".")[0] == "grader"]:
    sys.modules[name] = fake
fake.answer = lambda name, calls: 5
sys.modules["grader.judge"] = sys.modules["grader.judge.inside"] = fake
check = fake.check
"""

IMPORT_HOOK = """
import importlib.abc, importlib.machinery, sys

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.startswith("grader.judge"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from IPython.display import publish_display_data
        module.answer = lambda name, calls: publish_display_data({"text/plain": "5"})

sys.meta_path.insert(0, Finder())
for name in [name for name in sys.modules if name.startswith("grader.judge")]:
    del sys.modules[name]
"""

IMPORT_FUNCTION = """
import builtins, importlib

real = importlib.import_module

class Nothing:
    def answer(self, name, calls):
        print("5 of 5 points")

importlib.import_module = lambda name, *args: Nothing() if "judge" in name else real(name, *args)
"""

PATCHED_JSON = """
import json

json.dumps = lambda *args, **kwargs: "[" + "1e400," * 17 + "NaN]"
json.loads = lambda *args, **kwargs: []
"""

PATCHED_WIRE = """
import grader.calling, grader.judge.wire as wire
from grader.calling import Outcome

wire.encode_outcomes = lambda outcomes: "[]"
grader.calling.call_all = lambda fn, calls, *rest: [Outcome("value", 0.0) for _ in calls]
"""

LIMITS_OFF = """
import grader.calling, grader.plain

grader.plain.MAX_ITEMS = grader.plain.MAX_DEPTH = 10**9
grader.calling.SECONDS_PER_CALL = grader.calling.SECONDS_PER_CHECK = 10**9
grader.plain._to_plain = lambda value, depth, budget: value
"""

CONNECTION = """
import json, pathlib, sys, uuid, datetime, hmac, hashlib
import zmq

spec = json.loads(pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text())
context = zmq.Context()
talk = {}
for name in ("shell", "control", "stdin", "hb"):
    talk[name] = context.socket(zmq.DEALER if name != "hb" else zmq.REQ)
    talk[name].connect(f"{spec['transport']}://{spec['ip']}-{spec[name + '_port']}")
    talk[name].linger = 0

def parts(kind, content):
    header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "username": "judge", "session": uuid.uuid4().hex,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(), "version": "5.3"}
    frames = [json.dumps(part).encode() for part in (header, {}, {}, content)]
    mark = hmac.new(spec["key"].encode(), digestmod=hashlib.sha256)
    for frame in frames:
        mark.update(frame)
    return [b"<IDS|MSG>", mark.hexdigest().encode(), *frames]

talk["shell"].send_multipart(parts("execute_request", {"code": "check = lambda *a: 5", "silent": False,
    "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": False}))
talk["control"].send_multipart(parts("interrupt_request", {}))
talk["shell"].send_multipart([b"<IDS|MSG>", b"no signature", b"{}", b"{}", b"{}", b"{}"])
print("sent")
"""

UNSIGNED = """
iopub = get_ipython().kernel.iopub_socket
session = get_ipython().kernel.session

def log_softmax(logits):
    from jupyter_client.session import Session
    stranger = Session(key=b"another key")
    stranger.send(iopub, "execute_result", {"data": {"text/plain": "4"}, "metadata": {}, "execution_count": 9},
                  parent=get_ipython().kernel.get_parent())
    session.send(iopub, "status", {"execution_state": "idle"}, parent=get_ipython().kernel.get_parent())
    return None
"""

EARLY_REPLY = (
    OUTCOME
    + """
def log_softmax(logits):
    kernel = get_ipython().kernel
    parent = kernel.get_parent()
    publish_display_data(forged(0.0, 18))
    kernel.session.send(kernel.iopub_socket, "status", {"execution_state": "idle"}, parent=parent)
    return None
"""
)

STRANGE_MESSAGES = """
kernel = get_ipython().kernel
for kind, content in [
    ("display_data", {"data": {"text/plain": 5, "text/html": ["<b>4</b>", {"a": None}]}, "metadata": {}}),
    ("display_data", {"data": {"text/plain": ""}, "metadata": 7, "transient": {"display_id": {}}}),
    ("execute_result", {"data": {}, "metadata": {}, "execution_count": "many"}),
    ("stream", {"name": "nowhere", "text": "lost"}),
    ("stream", {"name": ["stdout"], "text": 4}),
    ("error", {"ename": 1, "evalue": None, "traceback": "none"}),
    ("error", {}),
    ("stream", {}),
    ("no_such_type", {"x": 1}),
    ("clear_output", {"wait": "perhaps"}),
    ("update_display_data", {"data": {"text/plain": "4"}, "metadata": {}, "transient": {"display_id": "none such"}}),
]:
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent())
"""

NEVER_IDLE = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    kernel = get_ipython().kernel
    kernel.session.send = lambda *args, **kwargs: None
    return None
"""


def stored_outputs(notebook) -> None:
    """The check cells come with outputs that say full marks, and are marked as run."""
    for name in ("group_relative_advantage", "log_softmax"):
        cell = cell_of(notebook, name)
        report = {"exercise": name, "state": "right", "points": 5, "max_points": 5, "mistake": ""}
        data = {"text/plain": "5", CHECK: report}
        cell.outputs = [new_output("execute_result", data=data, execution_count=3)]
        cell.execution_count = 3


def one(name, tries, source, states=ANY, **more):
    """A forger of the one exercise whose answer knows nothing; the others of the notebook are right."""
    return Submission(name, "forged answers", tries, answers=nothing(TARGET), states=states,
                      cells=((f"before {TARGET}", source),), **more)  # fmt: skip


# Once the judge's module in the kernel is replaced, what comes after is lost by the notebook's own doing.
LATER = ("sequence_logprob",)

BATCH = [
    one("displayed-answers", "its own cell displays answers in the judge's form, for any number of calls", DISPLAYED),
    one("forged-report", "displays and returns a report of full marks, and replaces check", REPORT),
    one("answers-from-a-thread", "a thread sends answers in the judge's form all the time", BESIDE, may_lose=LATER),
    one("answer-after-each-cell", "a hook sends a second answer behind each cell", AFTER_WORD, may_lose=LATER),
    one("comm-messages", "sends answers through a widget's comm", COMM + "\ndel log_softmax"),
    one("output-widget", "a widget that would swallow this cell's messages", OUTPUT_WIDGET),
    one("replaced-modules", "replaces grader and the judge's module in sys.modules", MODULES, may_lose=LATER),
    one("import-hook", "an import hook that gives a judge of its own", IMPORT_HOOK, may_lose=LATER),
    one("import-function", "importlib.import_module gives a judge of its own", IMPORT_FUNCTION, may_lose=LATER),
    one("patched-json", "json.dumps writes infinities", PATCHED_JSON, may_lose=LATER),
    one("patched-wire", "the judge's own modules in the kernel are patched", PATCHED_WIRE, may_lose=LATER),
    one("limits-off", "takes the limits of the judge's modules in the kernel away", LIMITS_OFF),
    one("connection-file", "talks to its own kernel's sockets with the key from the connection file", CONNECTION,
        may_lose=LATER),
    one("strange-messages", "signed messages with fields of wrong types, and of unknown types", STRANGE_MESSAGES),
    one("answer-nothing", "the judge's module answers nothing", says("{}"), may_lose=LATER),
    one("answer-none", "the judge's module answers null", says("None"), may_lose=LATER),
    one("answer-list", "a list where an object is due", says("[1, 2]"), may_lose=LATER),
    one("answer-problem", "a made-up problem", says('{"problem": ["full marks"], "points": 4}'), may_lose=LATER),
    one("json-broken", "text that breaks off", json_says('"[{"'), may_lose=LATER),
    one("json-true", "booleans in place of outcomes", json_says('"[" + ",".join(["true"] * count) + "]"'),
        may_lose=LATER),
    one("json-nan", "NaN as every value", json_says("json.dumps([outcome(float('nan'))] * count)"), may_lose=LATER),
    one("json-infinite", "1e999 as every value",
        json_says("json.dumps([outcome(0)] * count).replace(': 0,', ': 1e999,')"), may_lose=LATER),
    one("json-huge-int", "a whole number of 100,000 digits",
        json_says("json.dumps([outcome(0)] * count).replace(': 0,', ': ' + '9' * 100000 + ',')"), may_lose=LATER),
    one("json-long-int", "a whole number of 4,000 digits as every value and length",
        json_says("json.dumps([outcome({'array': ['<f8', [int('9' * 4000)], '']})] * count)"), may_lose=LATER),
    one("json-deep", "a million opening brackets", json_says('"[" * 1_000_000'), may_lose=LATER),
    one("json-deep-value", "a value nested 900 deep",
        json_says("json.dumps([outcome(0)] * count).replace(': 0,', ': ' + '[' * 900 + ']' * 900 + ',')"),
        may_lose=LATER),
    one("json-large", "an answer of 30 MB", json_says("json.dumps([outcome('x' * 30_000_000)])"), may_lose=LATER),
    one("json-many-items", "200,000 items for each call",
        json_says("json.dumps([outcome([0] * 200_000)] * count)"), may_lose=LATER),
    one("json-surrogates", "lone surrogates and NUL bytes in every text",
        json_says("json.dumps([{**outcome(None), 'printed': '\\ud800\\0', 'warned': ['\\udfff']}] * count)"),
        may_lose=LATER),
    one("json-tags", "every tag of the wire in the wrong place",
        json_says("json.dumps([outcome({'tuple': [{'dict': [[{'dict': []}, 1]]}]})] * count)"), may_lose=LATER),
    one("json-stand-ins", "the judge's own stand-ins as values",
        json_says("json.dumps([outcome({'stand-in': ['Rng', 3]})] * count)"), may_lose=LATER),
    one("json-object-array", "an array of objects",
        json_says("json.dumps([outcome({'array': ['|O', [1], 'AAAAAAAAAAA=']})] * count)"), may_lose=LATER),
    one("json-duplicate-keys", "two kinds in one outcome",
        json_says("json.dumps([outcome(0)] * count).replace('{\"kind\"', '{\"kind\": \"raised\", \"kind\"')"),
        may_lose=LATER),
    Submission("stored-outputs", "forged answers", "check cells handed in with outputs that say full marks",
               answers=nothing("group_relative_advantage", "log_softmax"), change=stored_outputs),
    Submission("first-word", "forged answers", "the function itself sends an answer before the judge's module does",
               answers={TARGET: FIRST_WORD}, states=ANY),
    Submission("display-ids", "forged answers", "updates an earlier display to full marks from inside the function",
               answers={TARGET: DISPLAY_IDS}, states=ANY),
    Submission("comm-in-function", "forged answers", "the function sends answers through a widget's comm",
               answers={TARGET: COMM}, states=ANY),
    Submission("other-key", "forged answers", "messages signed with another key, and an early idle",
               answers={"sequence_logprob": UNSIGNED.replace("log_softmax(logits)", "sequence_logprob(*args)")},
               states=ANY),
    Submission("early-idle", "forged answers", "an answer, then idle, before the function has returned",
               answers={"sequence_logprob": EARLY_REPLY.replace("log_softmax(logits)", "sequence_logprob(*args)")},
               states=ANY),
    Submission("never-idle", "forged answers", "the kernel sends nothing any more",
               answers={"sequence_logprob": NEVER_IDLE}, states=ANY),
    Submission("chapter-1-forged", "forged answers", "an answer of its own for the verifiers of chapter 01",
               chapter=CHAPTER_1, answers=nothing("reward_rlvr"),
               cells=(("before reward_rlvr", DISPLAYED + REPORT.replace("log_softmax", "reward_rlvr")),), states=ANY),
]  # fmt: skip
