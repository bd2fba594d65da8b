"""Start a kernel that has imported already what every notebook of the course imports.

Called as `python -m grader.judge.start BACKEND MODULES <arguments of ipykernel>`: the kernel is ready before the
notebook is, and its first cell does not wait for matplotlib. Nothing of a student's has run by then.

What a notebook sets up for its own editor may be missing here, and costs no cell what stands below it: plots are drawn
as they would be without `%matplotlib`, and a magic that is not there is said and left out.
"""

from __future__ import annotations

import importlib
import os
import sys

USUAL = ("numpy", "matplotlib.pyplot", "grpo", "grader.calling", "grader.exercises", "grader.judge.wire")

# Magics that set something up and run no code of the cell's: whatever they raise is no error of the cell.
SETTINGS = ("config", "load_ext", "reload_ext", "matplotlib", "pylab", "pip", "uv", "conda", "mamba", "micromamba")


def main(argv: list[str]) -> None:
    """Import `argv[1]` (names with commas between them) under the plot backend `argv[0]` and become a kernel."""
    backend, modules, *rest = argv
    # As ipykernel's own launcher does: a module beside the notebook must not replace one of the kernel's.
    if sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    if backend:
        os.environ["MPLBACKEND"] = backend
    os.environ["PIP_RETRIES"] = "0"  # there is no network: a second try would only take time
    from ipykernel import kernelapp
    from jupyter_client.session import Session

    from grader.judge.bounded import bound_messages

    bound_messages(Session)
    for name in filter(None, modules.split(",")):
        importlib.import_module(name)
    if "grader.exercises" in sys.modules:
        from grader.exercises import EXERCISES
        from grader.judge.finished import note_calls

        note_calls(EXERCISES)

    class Application(kernelapp.IPKernelApp):
        def init_shell(self):
            super().init_shell()
            go_on(self.shell)

    Application.launch_instance(argv=rest)


def go_on(shell) -> None:
    """Let a line magic that fails to set something up cost no cell, and let none change how plots are drawn."""
    from IPython.core.error import UsageError

    run = shell.run_line_magic

    def run_line_magic(name: str, line: str, _stack_depth: int = 1):
        try:
            return run(name, line, _stack_depth + 1)  # it looks that far up for the variables of a cell
        except Exception as error:
            if name not in SETTINGS and not isinstance(error, UsageError):
                raise
            print(f"{error} (left out: the cell goes on without it)", file=sys.stderr)

    def enable_matplotlib(gui: str | None = None) -> tuple[str | None, str]:
        return None, "the one of the grading"

    shell.run_line_magic, shell.enable_matplotlib = run_line_magic, enable_matplotlib


if __name__ == "__main__":
    main(sys.argv[1:])
