"""Grade the same submissions with the same seed again and again: every time the same points, whatever the order.

    python -m tests.classroom.repeat_gradings --times 20

The class of test_grading.py (right, wrong, noisy, endless, crashing, broken work) is judged anew each time, by one,
two or three workers, and its submissions come in another order. Nobody is renamed: inputs depend on the student.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

import students

from grader.classroom import grading
from grader.classroom.grading import grade_class
from grader.judge.sandbox import why_not


@contextmanager
def shuffled(rng: random.Random) -> Iterator[None]:
    """Let submissions be graded in another order than that of their students' names."""
    take_in = grading.take_in

    def in_another_order(*args, **kwargs):
        found = take_in(*args, **kwargs)
        return rng.sample(found, len(found))

    with patch.object(grading, "take_in", in_another_order):
        yield


def main() -> int:
    """Run the measure; exit status 1 if any score or state differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    seen: dict[tuple, set] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        students.hand_in(folder / "submitted")
        for time in range(options.times):
            with shuffled(random.Random(time)):
                graded = grade_class(
                    folder / "submitted", folder / f"grading{time}", seed=options.seed, sandbox=not why_not(),
                    workers=1 + time % 3, cell_seconds=20,
                )  # fmt: skip
            for one in graded:
                student = one.submission.student
                seen.setdefault((student, "state"), set()).add(one.state)
                for score in one.scores:
                    seen.setdefault((student, score.exercise), set()).add((score.points, score.result, score.mistake))
            print(f"grading {time + 1} of {options.times} done", flush=True)
    different = {" ".join(what): sorted(map(str, said)) for what, said in seen.items() if len(said) > 1}
    print(json.dumps({"times": options.times, "scores and states": len(seen), "different": different}))
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
