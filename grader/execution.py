"""Execute a whole notebook and believe only what can be seen: every cell ran, none failed, none is silent about it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from grader.report import CHECK_MIME

CELL_SECONDS = 300


class NotebookFailed(Exception):
    """A notebook did not run to its end without a fault; the message names the cell and the reason."""


def run_with_papermill(
    path: Path, parameters: Mapping[str, Any] | None = None, cell_seconds: int = CELL_SECONDS
) -> NotebookNode:
    """Execute a notebook as CI does and return it with its outputs; the file itself stays as it is.

    Args:
        path: the notebook; it runs in its own folder.
        parameters: put in place of those of the cell tagged `parameters`.
        cell_seconds: time limit for one cell.

    Raises:
        NotebookFailed: a cell raised, wrote an error message, ran out of time, did not run, or took the kernel down.
    """
    import papermill

    with tempfile.TemporaryDirectory() as folder, quiet_kernel():
        target = Path(folder) / path.name
        try:
            papermill.execute_notebook(
                str(path),
                str(target),
                parameters=dict(parameters or {}),
                kernel_name="python3",
                cwd=str(path.parent),
                execution_timeout=cell_seconds,
                progress_bar=False,
                log_output=False,
            )
        except (papermill.PapermillExecutionError, CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise NotebookFailed(f"{path.name}, {_place(path, target)}: {_reason(error)}") from None
        notebook = nbformat.read(target, as_version=4)
    verify(notebook, path.name)
    return notebook


def kernel_config() -> Config:
    """Return settings under which a kernel starts without a warning that others could read its traffic."""
    config = Config()
    if hasattr(KernelManager, "transport_encryption"):  # jupyter_client 8.10
        config.KernelManager.transport_encryption = "auto"
    return config


@contextmanager
def quiet_kernel() -> Iterator[None]:
    """Give kernels one thread and their own inline backend, whatever the caller's environment says."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MPLBACKEND")}
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def verify(notebook: NotebookNode, name: str) -> None:
    """Raise NotebookFailed unless every code cell has run and no output is an error or went to stderr.

    A failing line magic raises nothing and returns no error: it only writes to stderr, so that counts too.
    """
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        where = f"{name}, cell {index + 1}"
        for output in cell.outputs:
            if output.output_type == "error":
                raise NotebookFailed(f"{where}: {output.ename}: {output.evalue}")
            if output.output_type == "stream" and output.name == "stderr":
                raise NotebookFailed(f"{where} wrote to stderr: {output.text.strip()[:300]}")
        if cell.execution_count is None:
            raise NotebookFailed(f"{where} did not run")


def check_reports(notebook: NotebookNode) -> dict[str, dict]:
    """Return the reports of all checks in an executed notebook: {exercise: report as data}."""
    reports = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            report = output.get("data", {}).get(CHECK_MIME)
            if report:
                reports[report["exercise"]] = report
    return reports


def _place(path: Path, target: Path) -> str:
    """Say which cell papermill had started last, from the copy that it saves as it goes."""
    if not target.is_file():
        return "before the first cell"
    ids = [cell.get("id") for cell in nbformat.read(path, as_version=4).cells]
    started = [
        cell
        for cell in nbformat.read(target, as_version=4).cells
        if cell.cell_type == "code" and cell.metadata.get("papermill", {}).get("start_time") and cell.get("id") in ids
    ]
    if not started:
        return "before the first cell"
    said = "".join(o.text for o in started[-1].outputs if o.output_type == "stream" and o.name == "stderr").strip()
    return f"cell {ids.index(started[-1].id) + 1}" + (f" ({said[:300]})" if said else "")


def _reason(error: Exception) -> str:
    ename = getattr(error, "ename", None)
    if ename:
        return f"{ename}: {error.evalue}"
    lines = [line for line in str(error).strip().splitlines() if line.strip(" -")]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
