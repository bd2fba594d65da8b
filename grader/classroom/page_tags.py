"""The tags that the Markdown of a student's may put onto a page, each with its attributes and what these may say."""

from __future__ import annotations

import re
from html import unescape

ANYTHING = re.compile(r".*", re.DOTALL)
NOTHING = re.compile(r"")
# An address that leads somewhere and runs nothing: one of these kinds, or of the kind of the page that it stands on.
ADDRESS = re.compile(
    r"(?:https?|mailto|tel|ftps?|ircs?):.*|data:image/(?:gif|png|jpeg|webp);.*|[^:]*|[^:/?#]*[/?#].*", re.IGNORECASE
)

FORMULA_ELEMENTS = frozenset(
    "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts "
    "mtable mtr mtd mstyle mpadded mphantom menclose".split()
)
_TRUTH = re.compile(r"true|false")
_LENGTH = re.compile(r"[+-]*[\w.]+(?: [+-]*[\w.]+)*")
_WORDS = re.compile(r"[a-z-]+(?: [a-z-]+)*")
_COLOUR = re.compile(r"#?\w{1,30}")
FORMULA_ATTRIBUTES: dict[str, re.Pattern] = {
    "display": re.compile(r"block|inline"),
    **dict.fromkeys(("displaystyle", "accent", "stretchy", "fence", "separator", "movablelimits"), _TRUTH),
    **dict.fromkeys(("width", "height", "depth", "voffset", "lspace", "rspace", "minsize", "maxsize"), _LENGTH),
    **dict.fromkeys(("linethickness", "mathsize", "rowspacing", "columnspacing", "scriptlevel"), _LENGTH),
    **dict.fromkeys(("form", "notation", "linebreak", "mathvariant"), _WORDS),
    **dict.fromkeys(("columnalign", "rowlines", "columnlines"), _WORDS),
    **dict.fromkeys(("mathcolor", "mathbackground"), _COLOUR),
}

_PLAIN = "p h1 h2 h3 h4 h5 h6 em strong del br hr pre blockquote ul dl dt dd small details summary table thead tbody tr"
_ALIGNED = {"style": re.compile(r"text-align:(?:left|center|right)")}
TAGS: dict[str, dict[str, re.Pattern]] = {
    **{name: {} for name in _PLAIN.split()},
    **{name: FORMULA_ATTRIBUTES for name in FORMULA_ELEMENTS},
    "th": _ALIGNED,
    "td": _ALIGNED,
    "ol": {"start": re.compile(r"\d+")},
    "li": {"class": re.compile(r"task-list-item")},
    "input": {
        "class": re.compile(r"task-list-item-checkbox"),
        "type": re.compile(r"checkbox"),
        "disabled": NOTHING,
        "checked": NOTHING,
    },
    "a": {"href": ADDRESS, "title": ANYTHING},
    "img": {"src": ADDRESS, "alt": ANYTHING, "title": ANYTHING},
    "code": {"class": re.compile(r"language-.*", re.DOTALL)},
    "div": {"class": re.compile(r"highlight")},
    "span": {"class": re.compile(r"[a-z][a-z0-9]{0,3}")},  # as Pygments calls its kinds of words
}
# So strictly written that no two readers of HTML could take it for two things.
TAG = re.compile(r'<(/?)([a-z][a-z0-9]*)((?: [a-z]+(?:="[^"<>]*")?)*)(?: ?/)?>')
ATTRIBUTE = re.compile(r' ([a-z]+)(?:="([^"<>]*)")?')


def only_known_tags(html: str) -> bool:
    """Tell whether every "<" of a page's part begins a tag of `TAGS` with attributes and values that it may have."""
    return "<" not in TAG.sub("", html) and all(_known(*found) for found in set(TAG.findall(html)))


def _known(closing: str, name: str, attributes: str) -> bool:
    allowed = TAGS.get(name)
    if allowed is None or (closing and attributes):
        return False
    found = ATTRIBUTE.findall(attributes)
    return all(key in allowed and allowed[key].fullmatch(unescape(value)) for key, value in found)
