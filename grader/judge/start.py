"""Start a kernel that has imported already what every notebook of the course imports.

Called as `python -m grader.judge.start BACKEND MODULES <arguments of ipykernel>`: the kernel is ready before the
notebook is, and its first cell does not wait for matplotlib. Nothing of a student's has run by then.
"""

from __future__ import annotations

import importlib
import os
import sys

USUAL = ("numpy", "matplotlib.pyplot", "grpo", "grader.calling", "grader.exercises", "grader.judge.wire")


def main(argv: list[str]) -> None:
    """Import `argv[1]` (names with commas between them) under the plot backend `argv[0]` and become a kernel."""
    backend, modules, *rest = argv
    # As ipykernel's own launcher does: a module beside the notebook must not replace one of the kernel's.
    if sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    if backend:
        os.environ["MPLBACKEND"] = backend
    from ipykernel import kernelapp
    from jupyter_client.session import Session

    from grader.judge.bounded import bound_messages

    bound_messages(Session)
    for name in filter(None, modules.split(",")):
        importlib.import_module(name)
    kernelapp.launch_new_instance(argv=rest)


if __name__ == "__main__":
    main(sys.argv[1:])
