"""Acts that stand out are told with their place; honest work is not."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from grader.attacks import load_bank
from grader.exercises import EXERCISES
from grader.judge import flags as module
from grader.judge.flags import RAN_FINISHED, flags

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


@pytest.mark.parametrize(
    "one", [one for one in bank.ATTACKS if one.flagged and one.name[:4] != "ran-"], ids=lambda one: one.name
)
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
        ("import runpy\nrunpy.run_path('x')", "builds code or names while it runs (run_path)"),
        ("globals()['f'] = g", "builds code or names while it runs (globals)"),
        ("locals().update(f=g)", "builds code or names while it runs (locals)"),
        ("here = vars()", "builds code or names while it runs (vars)"),
        ("del globals()['f']", "builds code or names while it runs (globals)"),
        ("get_ipython().user_ns['f'] = g", "looks into the insides of functions or of Python"),
        ("import pickle\npickle.loads(x)", "makes functions or objects out of bytes"),
        ("import importlib\ncourse = importlib.reload(grpo)", "uses the module grpo as a value"),
        ("course = grpo", "uses the module grpo as a value"),
        ("open('mine.py', 'w').write(text)\nimport mine", "imports mine, a file that the notebook names itself"),
        ("%%writefile mine.py\nfrom mine.part import f", "imports mine, a file that the notebook names itself"),
    ],
)
def test_each_act_has_its_words_and_its_place(cell, words):
    (found,) = flags(notebook("x = 1", "y = 2", cell))
    assert found.startswith(f"the cell `{cell.splitlines()[0][:40]}") and words in found


@pytest.mark.parametrize(
    "cell",
    [
        "grpo.log_softmax([1.0, 2.0])",
        "%time log_softmax([1])\n!ls\nlog_softmax?",
        "import re\nre.compile('x')\nplt.title = 'x'",
        "from grpo import softmax\nimport math",
        "np.seterr(all='ignore')\nx.shape = (2, 3)",
        "n = globals().get('n', 0)\n'n' in locals(), globals()['n'], vars(n).update(a=1)",
        "with open('notes.pkl', 'wb') as f:\n    pickle.dump([1], f)",
        "open('mine.py', 'w').write('x = 1')\nimport math",
        "def broken(:",
    ],
)
def test_what_students_do_anyway_is_not_flagged(cell):
    assert flags(notebook("x = 1", cell)) == ()


OWN = "def log_softmax(x):\n    return x"


@pytest.mark.parametrize(
    "after",
    [
        "assert np.allclose(log_softmax(x), grpo.log_softmax(x))",
        "np.testing.assert_allclose(log_softmax(x), grpo.log_softmax(x))",
        "print(grpo.log_softmax(x) - log_softmax(x))",
        "1  # not os._exit, subprocess or grpo.log_softmax: see /proc/self and requests",
    ],
)
def test_to_compare_with_a_finished_function_and_to_speak_of_it_is_not_flagged(after):
    assert flags(notebook(f"{OWN}\n{after}")) == flags(notebook(OWN, after)) == ()


def test_of_functions_in_one_cell_each_is_looked_at_by_itself():
    def two(first):
        made = notebook(f"{first}\ndef softmax_of(x):\n    return grpo.log_softmax(x)")
        other = {"nbgrader": {"grade_id": "zero_variance_fraction", "solution": False, "grade": True, "points": 4}}
        made.cells[0].source += "\ndef zero_variance_fraction(x):\n    return softmax_of(x)"
        made.cells.append(new_code_cell("check(zero_variance_fraction)", metadata=other))
        return flags(made)

    assert two(OWN) == ()
    assert "calls the finished log_softmax" in "".join(two("def log_softmax(x):\n    return grpo.log_softmax(x)"))


def test_that_the_finished_function_ran_is_told_unless_it_was_told_already():
    ran = new_output("execute_result", metadata={RAN_FINISHED: True}, data={"text/plain": "x"})
    for answer, words in (
        (
            'def log_softmax(x):\n    return vars(tools)["log_softmax"](x)',
            "log_softmax: the finished log_softmax ran when",
        ),
        (
            "def log_softmax(x):\n    return grpo.log_softmax(x)",
            "the answer log_softmax calls the finished log_softmax",
        ),
    ):
        made = notebook(answer)
        made.cells[-1].outputs = [ran]
        (said,) = flags(made)
        assert said.startswith(words)


@pytest.mark.parametrize(
    "after, words",
    [
        ("assert (kept := grpo.log_softmax)", "calls the finished log_softmax"),
        ("assert (log_softmax := lambda x: grpo.log_softmax(x))", "calls the finished log_softmax"),
        ("kept.append(grpo.log_softmax)", "calls the finished log_softmax"),
        ('print("#", open("/proc/self/maps"))', "names files that are not its own"),
        ("(\n# a comment\nsocket, 'ä'  # ü\n)", "tries the network"),
    ],
)
def test_what_does_more_is(after, words):
    assert words in "".join(flags(notebook(f"{OWN}\n{after}")))


def test_an_answer_may_use_finished_functions_but_its_own():
    assert flags(notebook("def log_softmax(x):\n    return grpo.softmax(x)")) == ()
    (found,) = flags(notebook("import grpo as g\ndef log_softmax(x):\n    return g.log_softmax(x)"))
    assert found == "the answer log_softmax calls the finished log_softmax"


CALLS = "calls the finished log_softmax"


@pytest.mark.parametrize(
    "cell, answer, words",
    [
        ("import grpo as course", "def log_softmax(x): return course.log_softmax(x)", CALLS),
        ("import grpo as course", "def log_softmax(x): return getattr(course, name)(x)", "uses the module course as"),
        ("from grpo import logprobs as part", "log_softmax = part.log_softmax", CALLS),
        ("def f(x): return grpo.log_softmax(x)", "log_softmax = f", "reaches the finished log_softmax through f (the"),
        (
            "class C:\n    def f(self, x): return grpo.log_softmax(x)",
            "def log_softmax(x): return C().f(x)",
            "through C ",
        ),
    ],
)
def test_what_other_cells_call_the_finished_functions_is_known(cell, answer, words):
    found = flags(notebook(answer, "x = 1", cell))
    (mine,) = [one for one in found if one.startswith("the answer log_softmax ")]
    assert words in mine and len(found) == 1


def test_a_variable_called_like_a_module_elsewhere_is_none():
    answer = (
        "def log_softmax(x):\n    for course in x: print(course)\n    return [course for course in x] + list(course)"
    )
    assert flags(notebook(answer, "import grpo as course")) == ()
    assert flags(notebook("def log_softmax(course): return list(course)", "import grpo as course")) == ()
    assert flags(notebook("def log_softmax(x): return list(course)", "import grpo as course"))


def test_a_long_way_is_told_in_short():
    chain = "\n".join(f"def f{i}{'x' * 100}(x): return f{i + 1}{'x' * 100}(x)" for i in range(9))
    last = f"def f9{'x' * 100}(x): return grpo.log_softmax(x)"
    (found,) = flags(notebook(f"def log_softmax(x): return f0{'x' * 100}(x)", chain, last))
    assert "through f0x" in found and len(found) < 400 and found.count(", f") == 2
    assert found.endswith("… under the heading)") or found.endswith("…`)")


def test_where_another_cell_binds_the_exercise_anew_that_cell_is_named():
    made = notebook()
    made.cells.insert(1, new_code_cell("def log_softmax(x):\n    return grpo.log_softmax(x)"))
    assert flags(made) == ("the cell `def log_softmax(x):` calls the finished log_softmax",)
    made.cells[1], made.cells[2] = made.cells[2], made.cells[1]
    assert flags(made) == ()


def test_released_cells_are_known():
    made = bank.HONEST[0].notebook(PLACES)
    assert EXERCISES and flags(made) == ()
    made.cells.insert(0, new_code_cell("import socket"))
    assert flags(made) == ("the cell `import socket` tries the network",)


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
        ("x = 1\n" * 10_001, "could not be read for what it does (TooLong)"),
    ],
    ids=["deep target", "deep value", "deep signs", "long"],
)
def test_a_cell_nested_too_deep_is_told_and_stops_nobody(cell, words):
    (found,) = flags(notebook("x = 1", cell))
    assert found.startswith("the cell `") and words in found and len(found) < 200


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


@pytest.mark.parametrize(
    "answer, words",
    [
        ("from grpo import log_softmax", "imports the finished log_softmax"),
        ("def log_softmax(x):\n    return x\nother = grpo.log_softmax", "calls the finished log_softmax"),
    ],
)
def test_one_act_is_told_in_one_way(answer, words):
    assert flags(notebook(answer)) == (f"the answer log_softmax {words}",)


def test_where_the_release_is_not_at_hand_its_cells_are_like_others(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "NOTEBOOKS", tmp_path)
    module._released.cache_clear()
    try:
        assert flags(notebook()) == () and len(flags(notebook("import socket"))) == 1
    finally:
        module._released.cache_clear()


def test_parts_of_the_grader_reached_through_it_are_told_once():
    (found,) = flags(notebook("x = 1", "import grader\ngrader.checking.__dict__['EXERCISES']"))[:1]
    assert found == "the cell `import grader` names parts of the grader that no exercise needs"
    assert len([one for one in flags(notebook("x = 1", "import grader.plain")) if "names parts" in one]) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "log_softmax = lambda logits: logits",
        "def mine(logits):\n    return logits\n\nlog_softmax = np.vectorize(mine)",
        "class Function:\n    def __call__(self, x): return x\n\nlog_softmax = Function()",
        "mine = lambda x: x\nlog_softmax: object = mine",
        "log_softmax: object\ndef log_softmax(x):\n    return x",
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


CALLS = "def log_softmax(logits):\n    return grpo.log_softmax(logits)"
PASTED = ">>> def log_softmax(logits):\n...     return grpo.log_softmax(logits)\n"
NUMBERED = "In [1]: def log_softmax(logits):\n   ...:     return grpo.log_softmax(logits)\n"


@pytest.mark.parametrize(
    "answer",
    [
        f"?int\n{CALLS}",
        f";print a\n{CALLS}",
        f"/print 1\n{CALLS}",
        f"{CALLS}\nk.x = %pwd",
        f"{CALLS}\nif 0:\n    /str x",
        PASTED,
        NUMBERED,
        "    " + CALLS.replace("\n", "\n    "),
        f"%matplotlib inline\n{CALLS}  # right?",
        "%time helper = grpo.log_softmax\ndef log_softmax(x):\n    return helper(x)",
        "%%time\nhelper = grpo.log_softmax\ndef log_softmax(x):\n    return helper(x)",
        "from grpo import logprobs as m\ndef log_softmax(x):\n    return [m][0].log_softmax(x)",
        "import operator\nfrom grpo.expressions import tables as t\nlog_softmax = operator.attrgetter('f')(t)",
        "def dir(m):\n    return m\ng = dir(grpo)\ndef log_softmax(x):\n    return g.log_softmax(x)",
        "class T:\n    def print(self, m):\n        return m\nm = T().print(grpo)\nlog_softmax = m.f",
        "from importlib import import_module as im\ndef log_softmax(x):\n    return im('gr' + 'po').log_softmax(x)",
        "import pydoc\ndef log_softmax(x):\n    return pydoc.locate('gr' + 'po').log_softmax(x)",
        "def log_softmax(x):\n    return get_ipython().ev('gr' + 'po').log_softmax(x)",
    ],
)
def test_a_finished_function_is_seen_in_whatever_way_a_cell_is_written(answer):
    assert flags(notebook(answer))


@pytest.mark.parametrize(
    "cells",
    [
        ["def h(x):\n    return grpo.log_softmax(x)", "np.h = h", "def log_softmax(x):\n    return np.h(x)"],
        ["setattr(np, 'h', lambda x: grpo.log_softmax(x))", "def log_softmax(x):\n    return np.h(x)"],
        ["def display(m):\n    return m.log_softmax", "def log_softmax(x):\n    return display(grpo)(x)"],
    ],
)
def test_what_is_hung_on_a_module_leads_to_the_finished_function(cells):
    *others, answer = cells
    assert any("log_softmax" in one for one in flags(notebook(answer, "import numpy as np", *others)))


def test_a_cell_that_ran_and_could_not_be_read_is_told():
    made = notebook("def log_softmax(x):\n    return x", "this is $ no Python")
    assert flags(made) == ()  # it was not executed
    made.cells[0].execution_count = 1
    assert "could not be read" in flags(made)[0]
    made.cells[0].outputs = [new_output("error", ename="SyntaxError", evalue="", traceback=[])]
    assert flags(made) == ()  # Python could not read it either
    made.cells[0].source, made.cells[0].outputs = "%%bash\nls $HOME", []
    assert flags(made) == ()


@pytest.mark.parametrize(
    "cell", ["help(grpo.log_softmax)", "grpo.log_softmax?", "from grpo import token_loss\ntoken_loss(1)"]
)
def test_to_look_at_a_finished_function_is_no_way_to_it(cell):
    assert flags(notebook("def log_softmax(x):\n    return x", cell)) == ()
