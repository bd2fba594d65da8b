"""The feedback page: what it says of the grades, and that no output of a cell can say anything else."""

import re
from html.parser import HTMLParser

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from grader.bootstrap import find_chromium
from grader.checking import run_check
from grader.classroom.engine.feedback import with_name, without_scripts
from grader.classroom.feedback_page import BY_HAND, feedback_page, summary, title_of
from grader.exercises import EXERCISES
from grader.report import CHECK_MIME

CHAPTER = "02_advantages_and_logprobs"
RIGHT, WRONG, BROKEN = "zero_variance_fraction", "group_relative_advantage", "log_softmax"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORGED = (
    "<style>header, .total { display: none } .n { visibility: hidden }</style>"
    '<div id="check-log_softmax" class="total" style="position:fixed;top:0;left:0">FORGED 5 of 5 points</div>'
    "</section></main><script>document.title = 'forged'</script>"
)


def answer(name, source="...", outputs=(), comment=""):
    meta = {"grade_id": f"{name}_answer", "solution": True, "grade": False, "comment": comment}
    return new_code_cell(source, metadata={"nbgrader": meta}, outputs=list(outputs))


def check(name, score, outputs):
    meta = {"grade_id": name, "solution": False, "grade": True, "points": EXERCISES[name].points, "score": score}
    return new_code_cell(f"check({name})", metadata={"nbgrader": meta}, outputs=list(outputs))


def judged(name, function):
    """A check cell with the report of `function`, and the points of that report."""
    report = run_check(EXERCISES[name], function, 3)
    return check(name, report.points, [new_output("execute_result", data=report._repr_mimebundle_())]), report


def out(**data):
    return new_output("display_data", data={key.replace("_", "/", 1): value for key, value in data.items()})


def cells_with(*outputs, source="draw()"):
    return NotebookNode(new_code_cell(source), outputs=list(outputs))


def failed(ename, text):
    return new_output("error", ename=ename, evalue=text, traceback=[f"\x1b[31m{ename}: {text} <b>\x1b[0m"])


@pytest.fixture(scope="module")
def graded():
    """A notebook with a right exercise, a wrong one, one without a result, and outputs that would repaint the page."""
    right, _ = judged(RIGHT, EXERCISES[RIGHT].reference)
    wrong, report = judged(WRONG, EXERCISES[WRONG].mistakes[0].code)
    assert report.mistake == EXERCISES[WRONG].mistakes[0].name
    cells = [
        new_markdown_cell("# A chapter\n\n$\\frac{a}{b}$ <style>body { display: none }</style>"),
        answer(WRONG, "def f(x):\n    return x < 1", comment="See me **soon** <script>x</script>"),
        wrong,
        answer(RIGHT),
        right,
        answer(BROKEN),
        check(BROKEN, 0, [failed("NoResult", "the kernel sent nothing")]),
        cells_with(
            out(text_html=FORGED, text_plain="<IPython.core.display.HTML object>"), out(image_png=PIXEL),
            new_output("stream", name="stdout", text="\n".join(f"line {n} <i>" for n in range(2000))),
        ),
    ]  # fmt: skip
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def page(graded):
    return feedback_page(graded, CHAPTER, "ana", 1.5)


def header(page):
    return page[page.index("<header>") : page.index("</header>")]


def test_the_top_says_whose_it_is_and_what_each_exercise_earned(graded, page):
    top = header(page)
    assert "<h1>Chapter 02: advantages and logprobs</h1>" in top and "<bdi>ana</bdi>" in top
    mistake, most = EXERCISES[WRONG].mistakes[0].name, EXERCISES[RIGHT].points
    lines = re.findall(r"<code>(\w+)</code></a></td><td class=\"n\">([^<]+)</td><td>([^<]*)</td>", top)
    points = summary(graded)[0].points
    assert lines == [
        (WRONG, f"{points:g} of {EXERCISES[WRONG].points}", mistake),
        (RIGHT, f"{most} of {most}", ""),
        (BROKEN, "no result", "no result, which is not your doing: ask your instructor"),
    ]
    assert "No total: 1 exercise has no result yet" in top and "1.5 points taken off" in top
    assert "Test cell" not in page and f'href="#check-{WRONG}"' in top and f'id="check-{WRONG}"' in page


def test_the_total_takes_lateness_off_and_is_never_below_zero(graded):
    whole = new_notebook(cells=graded.cells[:5])
    points = sum(row.points for row in summary(whole))
    most = EXERCISES[RIGHT].points + EXERCISES[WRONG].points
    assert f'<p class="total">{points:g} of {most} points</p>\n<table>' in feedback_page(whole, CHAPTER, "ana")
    assert f">{points - 1.5:g} of {most} points<" in feedback_page(whole, CHAPTER, "ana", 1.5)
    assert f">0 of {most} points<" in feedback_page(whole, CHAPTER, "ana", 100.0)
    assert "1 point taken off because it came in late<" in feedback_page(whole, CHAPTER, "ana", 1.0)
    late = feedback_page(whole, CHAPTER, "ana", 2.0, 7500.0)
    assert "2 points taken off because it came in late (2 h 5 min after it was due)<" in late


def test_points_by_hand_are_said_to_be_by_hand(graded):
    by_hand = check(WRONG, 1.25, graded.cells[2].outputs)
    repaired = check(BROKEN, 2.0, graded.cells[6].outputs)
    extra = check(RIGHT, EXERCISES[RIGHT].points + 1, graded.cells[4].outputs)
    rows = summary(new_notebook(cells=[by_hand, repaired, answer(BROKEN), extra]))
    given = "points given by your instructor"
    assert [(row.points, row.remark) for row in rows] == [
        (1.25, f"{EXERCISES[WRONG].mistakes[0].name}; {given}"),
        (2.0, given),
        (EXERCISES[RIGHT].points + 1, given),
    ]


@pytest.mark.parametrize(
    "score, by_hand, extra, remark, above",
    [
        (4.0, None, 0.0, "", ""),
        (5.0, None, 1.0, "1 point of extra credit", "1 point of extra credit"),
        (4.0, 4.0, 0.0, BY_HAND, f"4 {BY_HAND} (the check below gave 4)"),
        (
            3.5, 3.0, 0.5, "points given by your instructor; 0.5 points of extra credit",
            "3 points given by your instructor (the check below gave 4), and 0.5 points of extra credit",
        ),
        (1.0, None, 0.0, BY_HAND, "1 point given by your instructor (the check below gave 4)"),
    ],
)  # fmt: skip
def test_what_an_instructor_gave_is_told_apart_from_what_the_check_gave(score, by_hand, extra, remark, above):
    name = "log_softmax"
    cell, report = judged(name, EXERCISES[name].reference)
    assert report.points == 4
    cell.metadata.nbgrader.update(score=score, by_hand=by_hand, extra=extra)
    (row,) = summary(new_notebook(cells=[cell]))
    assert (row.points, row.remark) == (score, remark)
    page = feedback_page(new_notebook(cells=[cell]), CHAPTER, "ana")
    assert f'<p class="by-hand">{above}</p>' in page if above else "by-hand" not in page.partition("</style>")[2]


def test_what_stopped_a_check_is_said_where_there_is_no_report():
    slow = check(RIGHT, 0, [failed("CellTimeoutError", "x")])
    missing = check(BROKEN, 0, [failed("NameError", f"name '{BROKEN}' is not defined")])
    why = answer(BROKEN, outputs=[failed("SyntaxError", "<oops>")])
    rows = summary(new_notebook(cells=[slow, why, missing]))
    assert [(row.points, row.remark) for row in rows] == [
        (0, "the cell ran out of time"),
        (0, "error: SyntaxError: <oops>"),
    ]
    assert "error: SyntaxError: &lt;oops&gt;" in header(feedback_page(new_notebook(cells=[why, missing]), CHAPTER, "a"))


def test_reports_of_checks_pictures_formulas_and_comments_are_there(graded, page):
    for index in (2, 4):
        assert graded.cells[index].outputs[0].data["text/html"] in page
    assert f'src="data:image/png;base64,{PIXEL}"' in page and "<mfrac>" in page
    assert "<strong>soon</strong>" in page and "&lt;script&gt;x" in page and "line 1999 &lt;i&gt;" in page
    assert '<span class="ansi-red-fg">NoResult' in page or "ansi-red" in page


class Marks(HTMLParser):
    """Every (element, attribute, value) of a page, but for the pictures' own data, as a browser would read them."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found |= {(tag, key, (value or "").partition(",")[0]) for key, value in [*attrs, ("", "")]}


def test_no_markup_of_an_output_gets_onto_the_page(graded, page):
    quiet = new_notebook(cells=[*graded.cells[:7], cells_with(out(text_plain="1"), out(image_png=PIXEL))])
    more = Marks(page).found - Marks(feedback_page(quiet, CHAPTER, "ana", 1.5)).found
    assert more == set()
    assert page.count("<style") == 1 and page.index("</style>") < page.index("<body>")
    assert "&lt;IPython.core.display.HTML object&gt;" in page and "FORGED" not in page and "<script" not in page


@pytest.mark.parametrize(
    "kind, value, shown",
    [
        ("text/html", FORGED, "an output that is not shown here (text/html)"),
        ("text/markdown", FORGED, "not shown here"),
        ("text/latex", "$x$", "not shown here"),
        ("text/plain", FORGED, "&lt;style&gt;"),
        ("image/svg+xml", f"<svg>{FORGED}</svg>", "not shown here"),
        ("image/png", f'x"> {FORGED}', "data:image/png;base64,x&quot;&gt;"),
        ("image/jpeg", f'x"> {FORGED}', "data:image/jpeg;base64,x&quot;&gt;"),
        ("application/javascript", FORGED, "an output that is not shown here (application/javascript)"),
        ("application/vnd.jupyter.widget-view+json", {"model_id": FORGED}, "not shown here"),
        (f"text/{FORGED}", "x", "an output that is not shown here (text/&lt;style&gt;"),
        ("text/plain", 5, "not shown here"),
        ("image/png", 5, "not shown here"),
        (CHECK_MIME, {"state": "right", "points": 5, "html": FORGED}, "not shown here"),
    ],
)
def test_each_kind_of_output_is_shown_or_said_and_paints_nothing(kind, value, shown):
    sizes = {"width": "1 style=position:fixed", "height": "1 class=total"}
    output = NotebookNode(output_type="display_data", data={kind: value}, metadata={"image/png": sizes, **sizes})
    made = feedback_page(NotebookNode(cells=[cells_with(output)], metadata={}), CHAPTER, "ana")
    assert shown in made
    found = Marks(made.partition("</header>")[2]).found
    tags, names = {tag for tag, _, _ in found}, {key for _, key, _ in found}
    assert tags <= {"section", "div", "pre", "span", "img", "small"} and names <= {"", "class", "alt", "src"}
    assert made.count("<style") == 1
    classes = {value for _, key, value in found if key == "class"}
    assert {one for one in classes if len(one) > 2} <= {
        "cell",
        "cell answer",
        "code",
        "output",
    }  # two: of a highlighter


def test_a_report_that_a_cell_made_itself_is_an_output_like_any_other():
    report = run_check(EXERCISES[RIGHT], EXERCISES[RIGHT].reference, 3)._repr_mimebundle_()
    forged = {**report, "text/html": FORGED}
    as_result = new_output("execute_result", data=forged)
    made = feedback_page(new_notebook(cells=[cells_with(as_result), answer(RIGHT, outputs=[as_result])]), CHAPTER, "a")
    assert "<script" not in made and header(made).count("<tr>") == 1, "no check cell, no row"
    shown = feedback_page(
        new_notebook(cells=[check(RIGHT, 0, [new_output("display_data", data=forged)])]), CHAPTER, "a"
    )
    assert "<script" not in shown, "the judge's report is the result of the check, nothing that it displayed"


def test_tables_of_pandas_keep_their_text():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"reward": [0.5, 1.0], "<b>": ["x", "y"]})
    data = {"text/html": frame.to_html(), "text/plain": repr(frame)}
    made = feedback_page(new_notebook(cells=[cells_with(new_output("execute_result", data=data))]), CHAPTER, "ana")
    assert "   reward &lt;b&gt;\n0     0.5   x\n1     1.0   y" in made


def test_markdown_keeps_folds_and_nothing_else_of_html():
    text = '<details>\n<summary>Hint</summary>\n\nDo `x<y`.\n\n</details>\n\n<div id="a">b</div> <b onclick="x">c</b>'
    text += "\n\n## Head\n\n```mermaid\n<script>m</script>\n```\n[l](javascript:x)\n`<details>`"
    made = feedback_page(new_notebook(cells=[new_markdown_cell(text)]), CHAPTER, "ana").partition("</header>")[2]
    assert "<details>\n<summary>Hint</summary>" in made and "<code>x&lt;y</code>" in made and "</details>" in made
    assert "<div" not in made and "<b " not in made and "<script" not in made and "&lt;div id=" in made
    assert "<h2>Head</h2>" in made and "javascript:" not in made and "<code>&lt;details&gt;</code>" in made


def test_raw_cells_are_text_and_empty_cells_nothing():
    made = feedback_page(new_notebook(cells=[new_raw_cell(FORGED), new_code_cell(" ")]), CHAPTER, "ana")
    assert made.count("<section") == 1 and "&lt;script&gt;" in made and "<script" not in made


def test_names_are_text_and_take_the_place_of_their_folders_name(page):
    named = with_name(page, "ana", 'Ana "<b>" Lee\u202e')
    assert '<p class="student"><bdi>Ana &quot;&lt;b&gt;&quot; Lee\u202e</bdi></p>' in named
    left = with_name(page, "ana", "Ana", ["the cell 3 needs <x>.py"])
    assert '<bdi>Ana</bdi></p>\n<p class="note">The cell 3 needs &lt;x&gt;.py. Only the notebook is' in left
    assert "<bdi>ana</bdi>" not in named and with_name(named, "nobody", "x") == named
    assert title_of("02_the_loss") == "Chapter 02: the loss" and title_of("x_y") == "x_y" and title_of("02") == "02"


CHROMIUM = find_chromium()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (apt-get install chromium)")
def test_in_a_browser_the_grades_stand_where_they_should(graded, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    zalgo = new_output("stream", name="stdout", text="x" + "\u0301" * 3000)
    raised = new_markdown_cell("$\\raise{900px}{\\text{FORGED}}$ ![x](data:image/png;base64," + PIXEL + ")")
    cells = [cells_with(zalgo), raised, *graded.cells]
    path = tmp_path / "page.html"
    made = feedback_page(new_notebook(cells=cells), CHAPTER, "ana", 1.5)
    path.write_text(without_scripts(with_name(made, "ana", "Ana <b>Lee</b>")), encoding="utf-8")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            shown = browser.new_page(viewport={"width": 1100, "height": 900})
            shown.goto(path.as_uri())
            assert shown.title() == "Chapter 02: advantages and logprobs"
            assert shown.locator(".student").inner_text() == "Ana <b>Lee</b>"
            for row in shown.locator("header tr td:nth-child(2)").all():
                assert row.is_visible()
                box = row.bounding_box()
                at = "([x, y]) => document.elementFromPoint(x, y).closest('header') !== null"
                assert shown.evaluate(at, [box["x"] + 3, box["y"] + box["height"] / 2]), "something lies over it"
            long = shown.locator(".output > pre").last
            assert long.bounding_box()["height"] < 600 < long.evaluate("e => e.scrollHeight")
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
        finally:
            browser.close()


@pytest.mark.parametrize(
    "source",
    ["x" + " " * 300 + "y", "x\n" + "\t\n" * 200, "a.b" * 2_000 + "?x", "word " * 30_000],
    ids=["blanks", "lines", "one line", "long"],
)
def test_a_text_that_takes_long_to_set_is_shown_as_it_is(monkeypatch, source):
    """What highlighting and Markdown need for these grows with the square of some length."""
    for name in ("highlight", "markdown_to_html"):
        monkeypatch.setattr(f"grader.classroom.feedback_page.{name}", lambda *a: pytest.fail("it was set"))
    made = feedback_page(new_notebook(cells=[new_code_cell(source), new_markdown_cell(source)]), CHAPTER, "ana")
    assert made.count(f"<pre>{source}</pre>") == 2


def test_no_cell_costs_the_page(monkeypatch):
    monkeypatch.setattr("grader.classroom.feedback_page.markdown_to_html", lambda text: 1 / 0)
    made = feedback_page(new_notebook(cells=[new_markdown_cell("<b>one"), new_code_cell("two = 2")]), CHAPTER, "ana")
    assert "<pre>&lt;b&gt;one</pre>" in made and "two" in made


def test_a_pasted_picture_and_an_unusual_colour_are_no_trouble():
    pasted = new_markdown_cell("see ![my <b>plot</b>](attachment:image.png)\n\n![](attachment:two.png) *here*")
    coloured = new_code_cell("1", outputs=[new_output("stream", text="\x1b[38m <i>red</i>")])
    made = feedback_page(new_notebook(cells=[pasted, coloured]), CHAPTER, "ana")
    assert "(a picture: my" in made and "<em>here</em>" in made and "attachment" not in made
    assert "&lt;i&gt;red&lt;/i&gt;" in made and "<b>plot" not in made
