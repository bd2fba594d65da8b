"""Grade the same submissions with the same seed again and again: every time the same points, whatever the order.

    python -m tests.classroom.repeat_gradings --times 20

The class of test_grading.py (right, wrong, noisy, endless, crashing, broken work) is judged anew each time, by one,
two or three workers, and its submissions come in another order.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import students

from grader.classroom.grading import grade_class
from grader.judge.sandbox import why_not


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
        everybody = sorted(path.name for path in (folder / "submitted").iterdir())
        for time in range(options.times):
            order = random.Random(time).sample(everybody, len(everybody))
            # Submissions are graded in the order of their students' names.
            renamed = {f"{place:02}-{student}": student for place, student in enumerate(order)}
            for new, student in renamed.items():
                (folder / "submitted" / student).rename(folder / "submitted" / new)
            graded = grade_class(
                folder / "submitted", folder / f"grading{time}", seed=options.seed, sandbox=not why_not(),
                workers=1 + time % 3, cell_seconds=20,
            )  # fmt: skip
            for new, student in renamed.items():
                (folder / "submitted" / new).rename(folder / "submitted" / student)
            for one in graded:
                student = renamed[one.submission.student]
                seen.setdefault((student, "state"), set()).add(one.state)
                for score in one.scores:
                    seen.setdefault((student, score.exercise), set()).add((score.points, score.result, score.mistake))
            print(f"grading {time + 1} of {options.times} done", flush=True)
    different = {" ".join(what): sorted(map(str, said)) for what, said in seen.items() if len(said) > 1}
    print(json.dumps({"times": options.times, "scores and states": len(seen), "different": different}))
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
