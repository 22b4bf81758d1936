"""The common style of all figures: colours, fonts and the Vega-Lite configuration.

The chosen element has the one colour and the strong mark; everything else is grey. Colour is never the only difference.
The font is Arial or Liberation Sans, which has the same widths and comes with the renderer; so the width of a label is
known before it is drawn.
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
"""The width of a figure in pixels, on a page and on a phone."""

EDGE = 8
"""Empty pixels around a figure."""

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
"""The average width of bold letters relative to normal ones; the widest common letter reaches 1.1."""


def text_width(text: str, size: float = LABEL_SIZE, *, bold: bool = False) -> float:
    """The width of one line in pixels; a letter that is not in the table counts as a wide one."""
    return sum(_WIDTH_OF.get(letter, 0.85) for letter in text) * size * (_BOLD if bold else 1.0)


def wrap_text(text: str, width: float, size: float = LABEL_SIZE, *, bold: bool = False) -> list[str]:
    """Lines of at most `width` pixels, broken between words; a longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def title_spec(title: str, subtitle: str, width: float) -> Spec:
    """The title and the subtitle of a figure, both broken to its width; the subtitle is broken between its parts."""
    width -= 2 * EDGE + 6
    title = re.sub(r"(?<=\d) (?=\S)", UNBROKEN, title)  # keep a number and its unit on one line
    parts = (part if text_width(part) > width else part.replace(" ", UNBROKEN) for part in subtitle.split(" · "))
    second = {"subtitle": [line.removesuffix(" ·") for line in wrap_text(" · ".join(parts), width)]} if subtitle else {}
    return {
        "text": wrap_text(title, width, TITLE_SIZE, bold=True),
        **second,
        "anchor": "start",
        "frame": "bounds",
        "offset": 10,
    }


def page(views: Sequence[Spec], *, description: str, width: float) -> Spec:
    """A complete specification: one view, or several stacked views."""
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
