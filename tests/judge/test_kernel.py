"""nbclient runs a notebook in the box without noticing."""

import glob
import os

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError
from nbformat.v4 import new_code_cell, new_notebook

from grader.judge import sandbox
from grader.judge.kernel import SandboxedKernelManager

pytestmark = pytest.mark.skipif(bool(sandbox.why_not()), reason=f"no sandbox here: {sandbox.why_not()}")


def run(*sources, **options):
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    options = {"timeout": 60, "allow_errors": True, **options}
    NotebookClient(notebook, kernel_manager_class=SandboxedKernelManager, **options).execute()
    return [["".join(o.get("text", "") or o.get("evalue", "") or str(list(o.get("data", {})))
                     for o in cell.outputs)] for cell in notebook.cells]  # fmt: skip


def test_cells_run_plots_draw_and_nothing_is_left_behind(monkeypatch):
    mine = f"judge-test{os.getpid()}-"  # others may be grading on this machine
    monkeypatch.setattr("grader.judge.kernel.PREFIX", mine)
    figure = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    listing = "import os; print(os.getuid() != 0, os.listdir('/home'))"
    plots = "%matplotlib widget\n%matplotlib agg\nprint(1)"
    others = "%load_ext not_there\n%not_there\n%config NotThere\nimport os\nprint(2, os.environ['PIP_RETRIES'])"
    local = "def f(mine):\n    %time print(mine)\nf(3)\n%time 1 / 0\nprint(4)"
    (shown,), (plain,), (said,), (timed,), (picture,), (stopped,) = run(
        listing, plots, others, local, figure, "open('/etc/shadow')"
    )
    assert shown == "True ['student']\n"
    assert plain == "1\n"
    assert "2 0\n" in said and said.count("the cell goes on without it") == 3 and "'not_there'" in said
    assert "3\n" in timed and "division by zero" in timed and "4\n" not in timed
    assert "image/png" in picture
    assert "shadow" in stopped
    assert glob.glob(f"/tmp/{mine}*") == []


def test_a_loop_can_be_interrupted_and_the_kernel_goes_on():
    with pytest.raises(CellTimeoutError):
        run("while True: pass", timeout=2, interrupt_on_timeout=False)
    first, second = run("while True: pass", "print('still here')", timeout=2, interrupt_on_timeout=True,
                        error_on_timeout={"ename": "Late", "evalue": "late", "traceback": []})  # fmt: skip
    assert "still here" in second[0] and first != second
