"""Acts that stand out are told with their place; honest work is not."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from grader.attacks import load_bank
from grader.exercises import EXERCISES
from grader.judge.flags import flags

bank = load_bank()
PLACES = bank.Places(secret="s", out="o", root="r", work="w", mate="m", port="1")
ANSWER = {"nbgrader": {"grade_id": "log_softmax_answer", "solution": True, "grade": False}}
CHECK = {"nbgrader": {"grade_id": "log_softmax", "solution": False, "grade": True, "points": 4}}


def notebook(answer="def log_softmax(logits):\n    return logits", *cells):
    return new_notebook(
        cells=[
            *(new_code_cell(cell) for cell in cells),
            new_code_cell(answer, metadata=ANSWER),
            new_code_cell("check(log_softmax)", metadata=CHECK),
        ]
    )


@pytest.mark.parametrize("one", bank.HONEST, ids=lambda one: one.name)
def test_honest_work_is_not_flagged(one):
    assert flags(one.notebook(PLACES)) == ()


@pytest.mark.parametrize("one", [one for one in bank.ATTACKS if one.flagged], ids=lambda one: one.name)
def test_what_no_check_can_see_is_flagged(one):
    assert flags(one.notebook(PLACES))


@pytest.mark.parametrize(
    "cell, words",
    [
        ("get_ipython().input_transformers_cleanup.append(f)", "changes how the kernel runs cells"),
        ("import sys\nsys.modules['grader'] = None", "changes how Python imports"),
        ("import socket", "tries the network"),
        ("open('../../solutions/x.ipynb')", "names files that are not its own"),
        ("import os\nos.fork()", "processes"),
        ("import signal\nsignal.signal(1, f)", "takes over signals"),
        ("import numpy as np\nnp.allclose = f", "replaces np.allclose"),
        ("import grader.plain", "names parts of the grader"),
        ("import sys\nsys._getframe(1)", "looks into what calls it"),
        ("from grpo import log_softmax as mine", "imports the finished log_softmax"),
        ("mine = grpo.log_softmax", "keeps the finished log_softmax under another name"),
        ("exec(text)", "builds code or names while it runs (exec)"),
    ],
)
def test_each_act_has_its_words_and_its_place(cell, words):
    (found,) = flags(notebook("x = 1", "y = 2", cell))
    assert found.startswith("cell 2 ") and words in found


@pytest.mark.parametrize(
    "cell",
    [
        "grpo.log_softmax([1.0, 2.0])",
        "%time log_softmax([1])\n!ls\nlog_softmax?",
        "import re\nre.compile('x')\nplt.title = 'x'",
        "from grpo import softmax\nimport math",
        "np.seterr(all='ignore')\nx.shape = (2, 3)",
        "def broken(:",
    ],
)
def test_what_students_do_anyway_is_not_flagged(cell):
    assert flags(notebook("x = 1", cell)) == ()


def test_an_answer_may_use_finished_functions_but_its_own():
    assert flags(notebook("def log_softmax(x):\n    return grpo.softmax(x)")) == ()
    (found,) = flags(notebook("import grpo as g\ndef log_softmax(x):\n    return g.log_softmax(x)"))
    assert found == "the answer log_softmax calls the finished log_softmax"


def test_released_cells_are_known():
    made = bank.HONEST[0].notebook(PLACES)
    assert EXERCISES and flags(made) == ()
    made.cells.insert(0, new_code_cell("import socket"))
    assert flags(made) == ("cell 1 tries the network",)


def test_what_was_said_before_comes_first_and_a_forged_answer_is_told():
    made = notebook()
    made.cells[-1].outputs = [new_output("error", ename="NoResult", evalue="x", traceback=[])]
    assert flags(made, ["the marks were changed"]) == (
        "the marks were changed",
        "log_softmax: the kernel sent something else than the results of its function",
    )


DEEP = "import numpy as np\nif 0:\n  np" + ".a" * 500 + ".x=1\n"


@pytest.mark.parametrize(
    "cell, words",
    [
        (DEEP, "replaces np.a.a"),
        ("x = y" + ".a" * 20_000, "could not be read for what it does"),
        ("x = " + "-" * 50_000 + "1", "could not be read for what it does"),
    ],
    ids=["deep target", "deep value", "deep signs"],
)
def test_a_cell_nested_too_deep_is_told_and_stops_nobody(cell, words):
    (found,) = flags(notebook("x = 1", cell))
    assert found.startswith("cell 1 ") and words in found and len(found) < 200


@pytest.mark.parametrize("run", ["\n", " ", "\t", "%", "!", "?", "=", "a", "1", ",", ".", "(", "\\", "/", "_", "#"])
def test_long_runs_of_one_character_are_read_like_any_cell(run):
    """The pattern of IPython's lines once took the square of their number: hours for a cell of this size."""
    flags(notebook("x = 1", f"{run * 50_000}\nx = 1"))
    flags(notebook("x = 1", f"x = 1\n{run * 50_000}x"))


BOUND = "binds log_softmax to something else"
MODULE = "uses the module grpo as a value"


@pytest.mark.parametrize(
    "answer, words",
    [
        ("log_softmax = vars(grpo)['log_softmax']", MODULE),
        ("import operator\nlog_softmax = operator.attrgetter('log_softmax')(grpo)", MODULE),
        ("log_softmax = getattr(grpo, 'log_' + 'softmax')", MODULE),
        ("match grpo:\n    case object(log_softmax=log_softmax):\n        pass", MODULE),
        ("log_softmax = grpo.__dict__['log_softmax']", MODULE),
        ("g = grpo\nlog_softmax = g.log_softmax", MODULE),
        (
            "import grpo as g\nmatch g:\n    case object(log_softmax=f):\n        log_softmax = f",
            "the module g as a value",
        ),
        ("def log_softmax(x):\n    return getattr(qwen3, 'log_softmax')(x)", "the module qwen3 as a value"),
        ("def log_softmax(x):\n    return grpo.softmax.__globals__['log_softmax'](x)", "insides of functions"),
        ("log_softmax = check.__globals__['check']", "insides of functions"),
        ("from grader.checking import check as c\ndef log_softmax(x): return 0", "names parts of the grader"),
        ("import grader\ndef log_softmax(x): return 0", "names parts of the grader"),
        ("from grpo import *", "imports everything of grpo"),
        ("import importlib\ndef log_softmax(x):\n    return importlib.import_module('grpo').log_softmax(x)", "builds"),
        ("from grpo import logprobs\ndef log_softmax(x):\n    return logprobs.log_softmax(x)", "calls the finished"),
        ("from scipy.special import log_softmax", BOUND),
        ("log_softmax = ready", BOUND),
        ("def log_softmax(x):\n    return x\n\nlog_softmax = ready", BOUND),
        ("for log_softmax in [ready]:\n    pass", BOUND),
        ("match ready:\n    case log_softmax:\n        pass", BOUND),
        ("[\nready, # or which?\n]\nlog_softmax = ready", BOUND),
        ("for i in range(1):\n    %time f()\n\nlog_softmax = ready", BOUND),
    ],
)
def test_finished_functions_are_seen_on_roundabout_ways(answer, words):
    found = flags(notebook(answer))
    assert any(words in one and one.startswith("the answer log_softmax ") for one in found), found


def test_parts_of_the_grader_reached_through_it_are_told_once():
    (found,) = flags(notebook("x = 1", "import grader\ngrader.checking.__dict__['EXERCISES']"))[:1]
    assert found == "cell 1 names parts of the grader that no exercise needs"
    assert len([one for one in flags(notebook("x = 1", "import grader.plain")) if "names parts" in one]) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "log_softmax = lambda logits: logits",
        "def mine(logits):\n    return logits\n\nlog_softmax = np.vectorize(mine)",
        "class Function:\n    def __call__(self, x): return x\n\nlog_softmax = Function()",
        "mine = lambda x: x\nlog_softmax: object = mine",
        "def log_softmax(logits):\n    log_softmax = logits - 1\n    return log_softmax",
        "import math\n\n@cache\ndef log_softmax(logits):\n    return logits",
        "if True:\n    def log_softmax(logits):\n        return logits",
        "def log_softmax(logits):\n    return getattr(logits, 'sum')()",
        "from grader import check\n\ndef log_softmax(logits):\n    return logits",
        "help(grpo)\nprint(grpo, grpo.__name__, dir(grpo))\n\ndef log_softmax(logits):\n    return logits",
        "import importlib\nstats = importlib.import_module('statistics')\n\ndef log_softmax(x):\n    return x",
    ],
)
def test_an_answer_of_its_own_is_not_flagged_however_it_is_written(answer):
    assert flags(notebook(answer)) == ()


def test_a_released_cell_with_a_change_in_it_is_no_roundabout_way():
    made = bank.HONEST[0].notebook(PLACES)
    setup = "try:\n    from grader import check\nexcept ImportError:\n    import sys\n    sys.path.insert(0, 'x')"
    made.cells.insert(0, new_code_cell(f"{setup}\nimport math\nimport grpo"))
    assert flags(made) == ()
