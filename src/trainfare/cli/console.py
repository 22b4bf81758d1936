"""Where output goes: data to stdout, progress and errors to stderr."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@cache
def out() -> "Console":
    from rich.console import Console

    terminal = sys.stdout.isatty()
    # A pipe has no width: give tables room rather than cut them at 80.
    width = None if terminal or "COLUMNS" in os.environ else 160
    return Console(highlight=False, soft_wrap=not terminal, width=width)


@cache
def err() -> "Console":
    from rich.console import Console

    return Console(highlight=False, stderr=True)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_error(message: str) -> None:
    from rich.text import Text

    err().print(Text.assemble(("trainfare: ", "bold red"), message), soft_wrap=True)


def print_note(message: str) -> None:
    from rich.text import Text

    err().print(Text(message), soft_wrap=True)


def print_points(sentences: Iterable[str]) -> None:
    """One point each, broken at words with the next line under the first word."""
    width = min(out().width, 120)
    for sentence in sentences:
        lines = textwrap.wrap(sentence, width, initial_indent="  · ", subsequent_indent="    ", break_on_hyphens=False)
        out().print("\n".join(lines), markup=False)
