"""The notebook runner itself: faults that other runners let pass (cases G2 and G10)."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.execution import NotebookFailed, run_with_papermill, verify


def notebook(tmp_path, *sources, parameters=False):
    cells = [new_markdown_cell("# A notebook"), *(new_code_cell(source) for source in sources)]
    if parameters:
        cells[1].metadata.tags = ["parameters"]
    nb = new_notebook(cells=cells)
    nb.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "some.ipynb"
    nbformat.write(nb, path)
    return path


def test_a_sound_notebook_runs_with_its_parameters(tmp_path):
    path = notebook(tmp_path, "steps = 300", "print(steps)", parameters=True)
    before = path.read_bytes()
    done = run_with_papermill(path, {"steps": 2})
    assert done.cells[-1].outputs[0].text == "2\n" and path.read_bytes() == before


@pytest.mark.parametrize(
    "source, words",
    [
        ("%nosuchmagic", "`%nosuchmagic` not found"),
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("import warnings; warnings.warn('careful')", "stderr"),
        ("import time; time.sleep(60)", "Timeout"),
        ("import os; os._exit(1)", "DeadKernelError"),
    ],
)
def test_every_fault_is_reported_with_its_cell(tmp_path, source, words):
    path = notebook(tmp_path, "x = 1", source, "y = 2")
    with pytest.raises(NotebookFailed, match="cell 3") as caught:
        run_with_papermill(path, cell_seconds=5)
    assert words in str(caught.value)


def test_a_cell_that_did_not_run_is_a_fault():
    cell = new_code_cell("x = 1", execution_count=None)
    with pytest.raises(NotebookFailed, match="cell 1 did not run"):
        verify(new_notebook(cells=[cell]), "some")
