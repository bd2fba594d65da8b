"""What all tests share: one thread, no inputs drawn from the clock, and who may run beside whom."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # browsing.py

# Started in the background by a shell, a process ignores Ctrl-C, and so do all that it starts; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    pass

# Their tests know nothing of each other and are long: `make test` spreads them over its processes. The tests of any
# other file, and the cells of a notebook, stay together: they share what was costly to make.
SPREAD = ("test_self_test.py", "test_chapters.py", "test_browser.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return nodeid if file.endswith(SPREAD) else file

    return ByFile(config, log)
