"""Where output goes: data to stdout, progress and errors to stderr."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 160
"""Columns of a pipe, which has no width of its own: enough that tables are not cut."""
TEXT_WIDTH = 120
"""Longer lines of text are hard to read."""


@cache
def out() -> Console:
    """The console of stdout."""
    terminal = sys.stdout.isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(highlight=False, soft_wrap=not terminal, width=width)


@cache
def err() -> Console:
    """The console of stderr."""
    return Console(highlight=False, stderr=True)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_error(message: str) -> None:
    err().print(Text.assemble(("trainfare: ", "bold red"), message), soft_wrap=True)


def print_note(message: str) -> None:
    err().print(Text(message), soft_wrap=True)


def print_points(sentences: Iterable[str]) -> None:
    """Print one bullet per sentence, broken at words, with further lines indented below the first word."""
    width = min(out().width, TEXT_WIDTH)
    for sentence in sentences:
        lines = textwrap.wrap(sentence, width, initial_indent="  · ", subsequent_indent="    ", break_on_hyphens=False)
        out().print("\n".join(lines), markup=False)


def print_topics(topics: Sequence[str], sentences: Sequence[str]) -> None:
    """Print one bullet per sentence, with its topic in the margin where the topic changes."""
    width = min(out().width, TEXT_WIDTH)
    margin = max(len(topic) for topic in topics) + 4
    before = None
    for topic, sentence in zip(topics, sentences, strict=True):
        head = f"  {topic}" if topic != before else ""
        before = topic
        lines = textwrap.wrap(sentence, width - margin - 2, break_on_hyphens=False)
        out().print(Text.assemble((head.ljust(margin), "bold"), f"· {lines[0]}"))
        for line in lines[1:]:
            out().print(" " * (margin + 2) + line, markup=False)


def new_table(*, gap: int = 2) -> Table:
    """An empty table without lines; `gap` is the number of columns between two cells."""
    return Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
