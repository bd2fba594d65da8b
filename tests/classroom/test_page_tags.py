"""What a student's Markdown may put onto a page: known tags with known attributes, whatever was typed."""

import re
from html.parser import HTMLParser

import nbformat
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nbconvert.filters.markdown_mistune import MarkdownWithMath

from grader.classroom.mathml import Renderer, markdown_to_html
from grader.classroom.page_tags import TAGS, only_known_tags
from grader.paths import NOTEBOOKS, chapters, notebook_path

PROSE = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "del", "br", "hr", "pre", "code", "blockquote", "ul",
         "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "a", "img", "input", "div", "span",
         "details", "summary", "small"}  # fmt: skip
MATHS = re.compile(r"m(?:ath|row|[inos]|text|space|frac|sqrt|root|su[bp]|subsup|under|over|underover|multiscripts|"
                   r"table|t[rd]|style|padded|phantom|enclose)")  # fmt: skip
ATTRIBUTES = {"href", "src", "alt", "title", "start", "type", "disabled", "checked"}
PARTS = [
    "<", ">", "/", '"', "'", "=", " ", "\n", "\n\n", "&", ";", "&lt;", "&#60;", "&quot;", "\\", "`", "```",
    "```python\n", '```x"y\n', "$", "$$", "{", "}", "[", "]", "(", ")", "!", "|", "|---|\n", "# ", "- [ ] ", "- ",
    "1. ", ": ", "*", "~~", "^", "_", "\\text{", "\\href{", "\\style{", "\\class{", "\\color{", "\\begin{",
    "\\end{", "\\\\(", "\\\\[", '<mtext/style="position:fixed">', "</math>", "<script>", "</section>",
    "<b onclick=x>", "<!--", "-->", "<?", "<![CDATA[", "style=", "onload=", "class=", "id=", "javascript:",
    "java\tscript:", "data:text/html,", "data:image/png;base64,", "attachment:", "http://x", "<details>",
    "<summary>", "</details>", "<details open ontoggle=x>", "<http://a>", "mermaid", "a", "[a]: ", "[^1]", "\x00",
    "\x0b", "\u2028", "matrix", "array", "x",
]  # fmt: skip
TEXTS = st.one_of(st.lists(st.sampled_from(PARTS), max_size=14).map("".join), st.text(max_size=40))


class Tags(HTMLParser):
    """Every element and attribute that a reader of HTML finds."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.pairs, self.others = set(), [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.pairs += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        self.elements.add(tag)

    def handle_decl(self, data):
        self.others.append(data)

    handle_comment = handle_pi = unknown_decl = handle_decl


def assert_harmless(html):
    found = Tags(html)
    assert found.others == []
    assert [tag for tag in found.elements - PROSE if not MATHS.fullmatch(tag)] == []
    for tag, name, value in found.pairs:
        address = "".join(letter for letter in value.lower() if letter > " ")
        if name in ("href", "src"):
            assert not re.match(r"(?!https?:|mailto:|tel:|ftps?:|ircs?:|data:image/(?!svg))[^/?#]*:", address)
        elif name == "class":
            assert re.fullmatch(r"task-list-item(-checkbox)?|language-.*|highlight|[a-z][a-z0-9]{0,3}", value, re.S)
        elif name == "style":
            assert tag in ("th", "td") and re.fullmatch("text-align:(left|right|center)", value)
        else:
            assert name in ATTRIBUTES if tag in PROSE else re.fullmatch(r"[\w#.+ -]*", value) and name[:2] != "on"


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example('$\\text{<mtext/style="position:fixed;top:0">22 of 22</mtext>}$')
@example('$\\text{<marquee>x}$ $$\\text{</math><menu/style="color:red"><main>}$$')
@example('![a"onerror="x](http://x"onerror=alert(1) "t\\"onload=\\"x")')
@example("| a |\n|:-:|\n| $\\text{<b>}$ |\n\n- [x] done\n\n3. three\n\n```python\nx < 1\n```")
def test_nothing_but_known_tags_and_attributes_comes_out(text):
    assert_harmless(markdown_to_html(text))


@pytest.mark.parametrize("chapter", chapters())
def test_the_course_itself_needs_no_other_tag(chapter):
    for cell in nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4).cells:
        if cell.cell_type == "markdown":
            assert only_known_tags(MarkdownWithMath(renderer=Renderer()).render(cell.source)), cell.source[:80]


@pytest.mark.parametrize(
    "html",
    [
        "<p>a &lt; b &amp; c</p>\n<hr />\n<br/>",
        '<a href="https://x.org/a:b" title="t &quot;x&quot;">x</a>',
        '<a href="HTTPS://x"><a href="b.html"><a href="#x">y</a><a href="a/b:c">y</a>',
        '<img src="data:image/png;base64,AA" alt="" />',
        '<ol start="3">\n<li class="task-list-item"></li>',
        '<input class="task-list-item-checkbox" type="checkbox" disabled checked/>',
        '<td style="text-align:left">x</td><span class="mi">1</span>',
        '<math display="inline"><mo stretchy="false">(</mo></math>',
    ],
)  # fmt: skip
def test_what_markdown_makes_is_known(html):
    assert only_known_tags(html)


@pytest.mark.parametrize(
    "html",
    [
        "<script>", "<P>", '<p id="x">', "<p\tid=x>", '<p/style="x">', "<p", "a < b", "<!-- -->", "<![CDATA[",
        "<?x?>", "</p id>", '</td style="text-align:left">', '<mtext/style="x">', '<mi href="x">', "<annotation-xml>",
        "<semantics>", '<img onerror="x">', '<p class="total">', '<span class="total">', '<div class="comment">',
        '<td style="position:fixed">', '<td style="text-align:left;x">', '<a href="javascript:x">',
        '<a href="java&#9;script:x">', '<a href="JAVA&#x0A;SCRIPT&colon;x">', '<a href=" data:text/html,x">',
        '<a href="vbscript:x/">', '<img src="data:image/svg+xml;x">', "<details open>", '<input type="text">',
        '<ol start="x">', '<math mathcolor="red;x">', '<mspace width="calc(1px)">',
    ],
)  # fmt: skip
def test_anything_else_is_not(html):
    assert not only_known_tags(html)


def test_a_text_that_became_more_than_known_tags_is_shown_as_it_was_typed(monkeypatch):
    monkeypatch.setattr(Renderer, "emphasis", lambda self, text: f"<blink>{text}</blink>")
    assert markdown_to_html("*a* <b>") == "<pre>*a* &lt;b&gt;</pre>" and markdown_to_html("a") == "<p>a</p>\n"


def test_every_known_attribute_is_one_that_paints_nothing_elsewhere():
    names = {name for attributes in TAGS.values() for name in attributes}
    assert not names & {"id", "name", "background", "action", "formaction", "srcset", "target", "ping"}
    assert not [name for name in names if name.startswith("on")]
