"""A second process that holds a folder, or says that it is kept out."""

import subprocess
import sys
from contextlib import contextmanager

from grpo.qwen3 import folder_lock

# Loaded from its file: the package around it would import torch.
OTHER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("folder_lock", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    with module.hold_folder(sys.argv[2]):
        print("held", flush=True)
        sys.stdin.readline()
except module.FolderInUse:
    print("kept out", flush=True)
"""


@contextmanager
def other_process(folder):
    """A process that tries to hold the folder. Yields: (process, what it says)."""
    command = [sys.executable, "-c", OTHER, folder_lock.__file__, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def says(folder):
    with other_process(folder) as (_, said):
        return said
