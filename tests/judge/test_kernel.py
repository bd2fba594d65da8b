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
    (shown,), (picture,), (stopped,) = run(listing, figure, "open('/etc/shadow')")
    assert shown == "True ['student']\n"
    assert "image/png" in picture
    assert "shadow" in stopped
    assert glob.glob(f"/tmp/{mine}*") == []


def test_a_loop_can_be_interrupted_and_the_kernel_goes_on():
    with pytest.raises(CellTimeoutError):
        run("while True: pass", timeout=2, interrupt_on_timeout=False)
    first, second = run("while True: pass", "print('still here')", timeout=2, interrupt_on_timeout=True,
                        error_on_timeout={"ename": "Late", "evalue": "late", "traceback": []})  # fmt: skip
    assert "still here" in second[0] and first != second
