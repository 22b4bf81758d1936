"""Where output goes: data to stdout, progress and errors to stderr."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rich.console import Console
from rich.text import Text


@cache
def out() -> Console:
    terminal = sys.stdout.isatty()
    # A pipe has no width: give tables room rather than cut them at 80.
    width = None if terminal or "COLUMNS" in os.environ else 160
    return Console(highlight=False, soft_wrap=not terminal, width=width)


@cache
def err() -> Console:
    return Console(highlight=False, stderr=True)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_error(message: str) -> None:
    err().print(Text.assemble(("trainfare: ", "bold red"), message), soft_wrap=True)


def print_note(message: str) -> None:
    err().print(Text(message), soft_wrap=True)


def print_points(sentences: Iterable[str]) -> None:
    """One point each, broken at words with the next line under the first word."""
    width = min(out().width, 120)
    for sentence in sentences:
        lines = textwrap.wrap(sentence, width, initial_indent="  · ", subsequent_indent="    ", break_on_hyphens=False)
        out().print("\n".join(lines), markup=False)


TOPIC_WORDS = {"certainty": "certainty", "changes": "change"}
"""Topics that are too long for the margin."""


def print_topics(topics: Sequence[str], sentences: Sequence[str]) -> None:
    """One point each, with what it is about in the margin where that changes."""

    width = min(out().width, 120)
    margin = max(len(TOPIC_WORDS.get(topic, topic)) for topic in topics) + 4
    before = None
    for topic, sentence in zip(topics, sentences, strict=True):
        head = f"  {TOPIC_WORDS.get(topic, topic)}" if topic != before else ""
        before = topic
        lines = textwrap.wrap(sentence, width - margin - 2, break_on_hyphens=False)
        out().print(Text.assemble((head.ljust(margin), "bold"), f"· {lines[0]}"))
        for line in lines[1:]:
            out().print(" " * (margin + 2) + line, markup=False)
