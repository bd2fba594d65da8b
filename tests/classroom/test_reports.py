"""What an instructor takes away: the CSV files, the tables in the terminal and the class page."""

import csv
import io
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import a_class
import pytest
from rich.console import Console

from grader.classroom.class_page import class_page
from grader.classroom.class_plots import duration_plot, points_plot
from grader.classroom.class_tables import summary_line
from grader.classroom.export import read_report
from grader.classroom.intake import Submission
from grader.classroom.reports import class_tables, exercise_table, write_report
from grader.classroom.states import Graded, Score
from grader.classroom.statistics import duration, hardly_handed_in, is_late, outcome, points_of, summaries, to_look_at
from grader.exercises import EXERCISES

CHAPTER = "02_advantages_and_logprobs"
CLASS = a_class.graded_class()
EVIL = "<script>alert('x')</script>\"'"


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def one(
    name="ana", points=3.0, state="graded", result="right", mistake="", chapter=CHAPTER, exercise="log_softmax", **more
):
    most = EXERCISES[exercise].points
    score = Score(name, chapter, exercise, points, most, result, mistake)
    submission = more.pop("submission", Submission(name, name, chapter, "found"))
    return Graded(submission, state, more.pop("reason", ""), (score,), **more)


# Files


def test_reports_are_safe_in_a_spreadsheet_and_tell_no_result_from_zero(tmp_path):
    submission = Submission("=cmd()", "_cmd__", CHAPTER, "failed", "+why")
    scores = (Score("=cmd()", CHAPTER, "e", None, 3, "failed: x"), Score("=cmd()", CHAPTER, "f", 0.0, 3, "wrong"))
    write_report([Graded(submission, "failed", "+why", scores)], tmp_path)
    rows = list(csv.reader((tmp_path / "scores.csv").open(newline="")))
    assert [row[0] for row in rows[1:]] == ["'=cmd()"] * 2 and [row[3] for row in rows[1:]] == ["", "0"]
    assert list(csv.reader((tmp_path / "submissions.csv").open(newline="")))[1][3] == "'+why"


def test_submissions_say_where_the_feedback_lies_and_what_was_late(tmp_path):
    page = tmp_path / "made.html"
    page.write_text("mine")
    late = replace(one(feedback=page, late=7200.4, penalty=0.5, seconds=3.21, flags=("a", "b")))
    marked = one("ben", submission=Submission("ben", "ben", CHAPTER, "found", late=True, number="7"))
    write_report([late, marked], tmp_path / "out")
    ana, ben = read(tmp_path / "out" / "submissions.csv")
    assert (ana["points"], ana["penalty"], ana["seconds"], ana["flags"]) == ("2.5", "0.5", "3.2", "a; b")
    assert (ana["late"], ana["late_seconds"]) == ("yes", "7200") and ana["intake"] == "found"
    assert (tmp_path / "out" / ana["feedback"]).read_text() == "mine"
    assert (ben["late"], ben["late_seconds"], ben["number"], ben["feedback"]) == ("yes", "", "7", "")
    write_report([one()], tmp_path / "other")
    (on_time,) = read(tmp_path / "other" / "submissions.csv")
    assert on_time["late"] == on_time["late_seconds"] == on_time["penalty"] == ""
    write_report([replace(late, feedback=None)], tmp_path / "out")
    assert not (tmp_path / "out" / ana["feedback"]).exists(), "an old page outlived its submission"


def test_extra_credit_goes_beyond_the_maximum_everywhere(tmp_path):
    more = one(points=5.0, result="right, 1 point of extra credit")
    write_report([more], tmp_path)
    (row,), (whole,) = read(tmp_path / "scores.csv"), read(tmp_path / "submissions.csv")
    assert (row["points"], row["max_points"], row["result"]) == ("5", "4", "right, 1 point of extra credit")
    assert (whole["points"], whole["max_points"]) == ("5", "4") and outcome(more.scores[0]) == "right"
    assert "5<small>/4</small>" in class_page([more], {}) and "5/4" in shown(*class_tables([more]))


def test_every_exercise_of_every_submission_has_a_row(tmp_path):
    write_report(CLASS, tmp_path)
    assert len(read(tmp_path / "scores.csv")) == sum(len(g.scores) for g in CLASS)
    assert len(read(tmp_path / "submissions.csv")) == len(CLASS)


# Numbers


@pytest.mark.parametrize(
    "points, result, kind",
    [
        (None, "x", "no result"),
        (4.0, "right", "right"),
        (1.0, "x", "partly right"),
        (0.0, "x", "wrong"),
        (0.0, "not attempted", "not attempted"),
    ],
)
def test_outcomes(points, result, kind):
    assert outcome(one(points=points, result=result).scores[0]) == kind


def test_summaries_count_everybody_but_the_missing_in_course_order():
    found = summaries(CLASS)
    assert [s.name for s in found] == [e.name for e in EXERCISES.values() if e.chapter in a_class.CHAPTERS]
    handed_in = sum(g.state != "missing" and g.submission.chapter == CHAPTER for g in CLASS)
    assert all(sum(s.counts.values()) == handed_in for s in found if s.chapter == CHAPTER)
    nobody = next(s for s in found if s.name == a_class.ALL_FAIL)
    assert nobody.nobody and nobody.counts["right"] == 0 and nobody.tried == nobody.results > 20
    assert len(nobody.common) == 3 and nobody.common[0].count >= nobody.common[1].count and nobody.common[0].says


def test_an_exercise_without_any_result_stays_in_the_list():
    lost = [one(points=None, result="failed: no result", state="needs review")]
    found = {s.name: s for s in summaries(lost)}
    assert set(found) == {e.name for e in EXERCISES.values() if e.chapter == CHAPTER}
    assert found["log_softmax"].counts["no result"] == 1 and found["log_softmax"].mean is None
    assert found["log_softmax"].results == found["log_softmax"].tried == 0
    assert "There is no result of anybody" in class_page(lost, {})


def test_points_are_less_the_penalty_and_never_below_nothing():
    assert points_of(one(points=3.0, penalty=0.5)) == (2.5, 4) and points_of(one(points=1.0, penalty=2)) == (0.0, 4)
    assert points_of(one(points=None)) == (None, 4)


def test_what_to_look_at_comes_worst_first():
    graded = [
        one("a", flags=("f",)),
        one("b", state="needs review"),
        one("c", state="failed"),
        one("d"),
        one("e", state="missing", flags=("f",)),
    ]
    assert [g.submission.student for g in to_look_at(graded)] == ["c", "b", "a"]


@pytest.mark.parametrize(
    "seconds, words", [(59, "59 s"), (60, "1 min"), (3600, "1 h 0 min"), (86400, "1 day 0 h"), (190_000, "2 days 4 h")]
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_late_is_what_the_date_or_the_platform_says():
    marked = Submission("a", "a", CHAPTER, "found", late=True)
    assert is_late(one(late=1.0)) and is_late(one(submission=marked)) and not is_late(one())


# The terminal


def shown(*tables):
    console = Console(width=150, file=io.StringIO(), record=True)
    console.print(*tables)
    return console.export_text()


def test_the_tables_fold_the_missing_and_show_chapters_in_course_order():
    text = shown(*class_tables(list(reversed(CLASS))))
    assert [text.index(chapter) for chapter in a_class.CHAPTERS] == sorted(text.index(c) for c in a_class.CHAPTERS)
    assert text.count("missing: 5 of 34 (") == 3 and "│ missing" not in text
    assert "late by 1 day 6 h, 3 points off" in text and "Kofi Berg" in text
    many = [one(f"s{n}", state="missing") for n in range(40)] + [one()]
    text = " ".join(shown(*class_tables(many)).split())
    assert "missing: 40 of 41 (s0; " in text and "and 28 more)" in text and "accident" not in text


def test_a_chapter_that_hardly_anybody_handed_in_is_said_and_how_to_leave_it_out():
    other = "03_the_grpo_loss"
    few = [one("s0"), *(one(f"s{n}", state="missing") for n in range(1, 30))]
    many = [one(f"s{n}", chapter=other, exercise="kl_k3") for n in range(30)]
    text = " ".join(shown(*class_tables(few + many)).split())
    assert f"hardly anybody handed this in; was it by accident? Then grade with --chapter {other}" in text
    assert text.count("hardly anybody") == 1
    assert not hardly_handed_in(few[:9]) and not hardly_handed_in([one(f"s{n}", state="missing") for n in range(20)])
    assert not hardly_handed_in(few[:28] + many[:3]) and hardly_handed_in(few[:28])


def test_a_line_says_what_became_of_all():
    graded = [
        one("a"), one("b", state="needs review"), one("c", fresh=False), one("d", state="needs review", fresh=False),
        one("e", state="failed"), one("f", state="missing"), one("g", state="missing"), 
        one("h", state="not graded yet"),
    ]  # fmt: skip
    assert summary_line(graded) == (
        "8 submissions: 2 graded now, 2 taken over (nothing has changed), 1 failed, 2 missing, 1 not graded yet; "
        "2 of the graded need review."
    )
    assert summary_line(graded[:1]) == "1 submission: 1 graded now."


def test_a_large_class_shows_who_needs_a_look_and_counts_the_rest():
    graded = [one(f"quiet{n:03}") for n in range(80)] + [one("loud", state="failed", reason="[red]broken")]
    text = shown(*class_tables(graded))
    assert "loud" in text and "[red]broken" in text and "quiet" not in text and "80 more were graded" in text


def test_the_exercises_have_headings_and_those_that_nobody_solved_say_so():
    text = shown(exercise_table(CLASS))
    row = next(line for line in text.splitlines() if a_class.ALL_FAIL in line)
    assert "nobody has it right; " in row and text.index("02_adv") < text.index("log_softmax") < text.index(
        "03_the"
    ) < text.index(row)


# The page


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("table", "div", "section", "details", "figure", "ul", "main", "body"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("table", "div", "section", "details", "figure", "ul", "main", "body"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_needs_nothing_but_itself():
    html = class_page(CLASS, {})
    page = Page(html)
    assert not page.open and not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert "default-src 'none'" in next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    links = [
        v for _, a in page.tags for k, v in a.items() if k in ("href", "src", "xlink:href") and not v.startswith("#")
    ]
    assert links == [], "links only to feedback pages, and there are none"
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)), "two pictures share a name"
    assert class_page(CLASS, {}) == html


def test_the_page_shows_what_was_asked_for():
    links = {(g.submission.student, g.submission.chapter): f"feedback/{g.submission.student_id}/x.html" for g in CLASS}
    html = class_page(CLASS, links)
    text = Page(html).text
    for exercise in (e for e in EXERCISES.values() if e.chapter in a_class.CHAPTERS):
        assert exercise.name in text
    assert "Nobody has it right" in text and "To look at (24)" in text and "Late (6)" in text
    assert "34 students, 3 chapters" in text and "5 handed in nothing" in text
    common = next(s for s in summaries(CLASS) if s.name == a_class.ALL_FAIL).common[0]
    assert f"{common.name} ({common.count})" in text and common.says.replace("`", "") in text
    assert html.count("<svg ") == 6 and "median" in html
    assert 'href="feedback/Ana_Lee-' in html


def test_the_missing_are_folded_under_their_chapter_by_name():
    few = [one("s0"), *(one(f"s{n}<", state="missing") for n in range(1, 30))]
    html = class_page(few, {})
    found = re.search(r"<summary>29 missing \(hardly anybody handed this in[^<]*</summary><p>([^<]*)</p>", html)
    assert found and found[1].split(", ") == [f"s{n}&lt;" for n in range(1, 30)]
    assert "Nothing failed, nothing needs a review" in html


def test_what_is_wrong_with_all_that_somebody_handed_in_is_said_once():
    other = "03_the_grpo_loss"
    twice = [
        one("ana", state="failed", reason="no JSON"),
        one("ana", state="failed", reason="no JSON", chapter=other, exercise="kl_k3"),
        one("ben", state="failed", reason="no JSON"),
    ]
    html = class_page(twice, {("ana", other): "feedback/ana/3.html"})
    assert "To look at (3)" in html and html.count("no JSON") == 2
    assert f'{CHAPTER}<br><a href="feedback/ana/3.html">{other}</a></td>' in html


def test_names_and_reasons_are_escaped():
    evil = one(
        EVIL,
        state="failed",
        reason=EVIL,
        flags=(EVIL + "2",),
        late=5.0,
        submission=Submission(EVIL, "e", CHAPTER, "found"),
    )
    html = class_page(
        [evil, replace(evil, state="missing", submission=Submission(EVIL + "3", "f", CHAPTER, "missing"))],
        {(EVIL, CHAPTER): EVIL},
    )
    assert "<script" not in html and "alert(&#x27;x&#x27;)" in html
    Page(html)


def test_a_class_of_nothing_has_a_page():
    missing = one("ana", points=None, state="missing")
    assert "Nobody handed it in" in class_page([missing], {}) and "1 handed in nothing" in class_page([missing], {})
    assert "0 students" in class_page([], {})


def test_pictures_leave_out_what_is_not_there():
    assert points_plot([(None, 22)], "x") == "" and duration_plot([0.0], "x") == ""
    assert points_plot([(30.0, 22)], "x") != points_plot([(22.0, 22)], "x"), "what is beyond the maximum is drawn, too"
    assert "median 10 of 22" in points_plot([(10.0, 22), (None, 22)], "x") and "median 4.0" in duration_plot(
        [4.0, 0.0], "y"
    )


@pytest.mark.skipif(not (shutil.which("chromium") or Path("/usr/bin/chromium").exists()), reason="no browser here")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_into_a_window(tmp_path, width):
    api = pytest.importorskip("playwright.sync_api")
    write_report(CLASS, tmp_path)
    with api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or "/usr/bin/chromium", args=arguments
        )
        page = browser.new_page(viewport={"width": width, "height": 800})
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.goto((tmp_path / "class.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width and said == []
        rows = page.evaluate(
            "[...document.querySelectorAll('table.plain td:last-child')].map(cell => cell.clientWidth)"
        )
        assert min(rows) > 80, "a column of single letters"
        browser.close()
    assert not re.search(r"\.part$", " ".join(p.name for p in tmp_path.iterdir()), re.MULTILINE)


def test_whatever_an_error_holds_the_report_can_be_read_again(tmp_path):
    odd = 'error: ValueError: x\ry\x1b[31m\x00 \u2028 ; "a", b'
    graded = [one(points=1.0, result=odd), one("ben", points=2.0)]
    graded[0] = replace(graded[0], reason="one\rtwo\nthree")
    write_report(graded, tmp_path)
    first, second = read_report(tmp_path)
    assert first.lines[0].result == odd.replace("\r", "\\x0d").replace("\x1b", "\\x1b").replace("\x00", "\\x00")
    assert first.reason == "one\\x0dtwo\nthree" and second.lines[0].points == 2.0
    assert not re.search(rb"[\r\x00\x1b]", (tmp_path / "scores.csv").read_bytes())
