"""How every figure of the project looks: colours, letters and the settings that all share.

What is chosen has the one colour and the strong mark; the rest is grey. Nothing is told by colour alone. Letters are
those of Arial or of Liberation Sans, which has the same widths and comes with the renderer; so that a label's place
can be computed here, before anybody draws it.
"""

import re
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

ACCENT = "#0b6e4f"
TEXT = "#222222"
STRONG = "#555555"
QUIET = "#a0a0a0"
FAINT = "#e4e4e4"
SHADE = "#efefef"
PAPER = "#ffffff"

FONT = "Arial, Liberation Sans, Helvetica, sans-serif"
LABEL_SIZE = 12
TITLE_SIZE = 15
LINE_HEIGHT = 15.0
"""Pixels from one line of a label to the next."""

UNBROKEN = "\N{NO-BREAK SPACE}"

WIDE = 600
NARROW = 360
"""Pixels of a whole figure, on a page and on a phone."""

EDGE = 8
"""Pixels that are left empty around a figure."""

_WIDTHS = {
    "ijl'`": 0.222,
    "!,./:;I[\\]ft ·\N{NO-BREAK SPACE}": 0.278,
    "(){}r-": 0.334,
    '"*': 0.389,
    "ckJsvxyz": 0.5,
    "#$?_0123456789abdeghnopqu–µ": 0.556,
    "+<=>~×≤≥^−": 0.584,
    "FTZL": 0.611,
    "&ABEKPSVXY": 0.667,
    "CDHNRUw": 0.722,
    "GOQ": 0.778,
    "mM": 0.833,
    "%W—…": 0.944,
}
_WIDTH_OF = {letter: width for letters, width in _WIDTHS.items() for letter in letters}
_BOLD = 1.08
"""Bold letters are so much wider, on average; the widest, of those that words are made of, by a tenth."""


def text_width(words: str, size: float = LABEL_SIZE, *, bold: bool = False) -> float:
    """Pixels of one line; a letter that is not in the table counts as a wide one."""
    return sum(_WIDTH_OF.get(letter, 0.85) for letter in words) * size * (_BOLD if bold else 1.0)


def wrapped(words: str, width: float, size: float = LABEL_SIZE, *, bold: bool = False) -> list[str]:
    """Lines of at most so many pixels, broken between words; a word that is longer has its own."""
    lines: list[str] = []
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def titled(title: str, subtitle: str, width: float) -> Spec:
    """The answer as the title, how to read the figure under it; both broken to the width of the figure, the second
    between its parts."""
    width -= 2 * EDGE + 6
    title = re.sub(r"(?<=\d) (?=\S)", UNBROKEN, title)  # a number keeps its unit
    parts = (part if text_width(part) > width else part.replace(" ", UNBROKEN) for part in subtitle.split(" · "))
    told = {"subtitle": [line.removesuffix(" ·") for line in wrapped(" · ".join(parts), width)]} if subtitle else {}
    return {
        "text": wrapped(title, width, TITLE_SIZE, bold=True),
        **told,
        "anchor": "start",
        "frame": "bounds",
        "offset": 10,
    }


def page(views: Sequence[Spec], *, description: str, width: float) -> Spec:
    """A whole specification: one view, or several below each other."""
    body: Spec = dict(views[0]) if len(views) == 1 else {"vconcat": list(views), "spacing": 26}
    return {
        "$schema": SCHEMA,
        "description": description,
        "background": PAPER,
        "padding": EDGE,
        "usermeta": {"width": width},
        **body,
        "config": CONFIG,
    }


CONFIG: Spec = {
    "font": FONT,
    "view": {"stroke": None},
    "title": {
        "fontSize": TITLE_SIZE,
        "fontWeight": "bold",
        "color": TEXT,
        "subtitleFontSize": LABEL_SIZE,
        "subtitleColor": STRONG,
        "subtitleLineHeight": LINE_HEIGHT,
        "lineHeight": 18,
    },
    "axis": {
        "labelFontSize": LABEL_SIZE,
        "labelColor": STRONG,
        "titleFontSize": LABEL_SIZE,
        "titleFontWeight": "normal",
        "titleColor": TEXT,
        "gridColor": FAINT,
        "domainColor": QUIET,
        "tickColor": QUIET,
        "tickSize": 4,
        "labelPadding": 4,
    },
    "text": {"fontSize": LABEL_SIZE, "lineHeight": LINE_HEIGHT},
}
