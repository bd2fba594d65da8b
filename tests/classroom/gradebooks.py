"""Compare what two gradings left behind, whatever ids the database made up."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

GRADES = """
select student.id, assignment.name, base_cell.name, grade.auto_score, grade.manual_score, grade.needs_manual_grade,
       submitted_notebook.late_submission_penalty, submitted_assignment.timestamp
from grade join base_cell on grade.cell_id = base_cell.id
     join submitted_notebook on grade.notebook_id = submitted_notebook.id
     join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
     join assignment on submitted_assignment.assignment_id = assignment.id
     join student on submitted_assignment.student_id = student.id
order by 1, 2, 3
"""
COMMENTS = """
select student.id, base_cell.name, comment.auto_comment, comment.manual_comment
from comment join base_cell on comment.cell_id = base_cell.id
     join submitted_notebook on comment.notebook_id = submitted_notebook.id
     join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
     join student on submitted_assignment.student_id = student.id
order by 1, 2
"""
CELLS = "select base_cell.name, base_cell.type from base_cell order by 1, 2"
COURSES = "select id from course order by 1"


def gradebook_in(work: Path) -> dict[str, list[tuple]]:
    """Return all that a grading wrote into its gradebook, as plain rows."""
    with sqlite3.connect(work / "gradebook.db") as database:
        queries = {"grades": GRADES, "comments": COMMENTS, "cells": CELLS, "courses": COURSES}
        rows = {name: database.execute(query).fetchall() for name, query in queries.items()}
        version = database.execute("select version_num from alembic_version").fetchall()
        problems = database.execute("pragma integrity_check").fetchall()
    assert problems == [("ok",)] and len(version) == 1
    return rows


def report_in(out: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a report. How long things took is not compared."""
    found = {}
    for name in ("scores.csv", "submissions.csv"):
        with (out / name).open(newline="", encoding="utf-8") as file:
            found[name] = [{k: v for k, v in row.items() if "seconds" not in k} for row in csv.DictReader(file)]
    return found
