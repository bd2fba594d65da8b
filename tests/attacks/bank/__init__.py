"""The bank: hostile and faulty submissions, and honest ones written in many ways.

Each is a `Submission` (see `making`): data that says how it differs from the released notebook and what it deserves.
"""

from . import exhausting, files, forging, honest, kernel, objects, stealing
from .making import Places, Submission

ATTACKS: tuple[Submission, ...] = tuple(
    one for module in (kernel, forging, objects, stealing, exhausting, files) for one in module.BATCH
)
HONEST: tuple[Submission, ...] = tuple(honest.BATCH)

__all__ = ["ATTACKS", "HONEST", "Places", "Submission"]
