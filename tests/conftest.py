"""What all tests share: one thread, and no inputs drawn from the clock."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    pass
