"""Reads and edits the words of a command before it runs."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

EXAMPLE_OPTION = "--batch-size {}"
"""An option of a user's program, as messages show it. It is none of ours."""

_PYTHON = re.compile(r"(python|pypy)[0-9.]*")


def probe_blocking_flag(command: Sequence[str]) -> str | None:
    """The option that makes Python ignore PYTHONPATH or `sitecustomize` and so the probe; None if there is none.

    Only the command line is checked: a script may still start `python -I` itself.
    """
    words = list(command)
    python = next((i for i, word in enumerate(words) if _PYTHON.fullmatch(PurePath(word).name)), None)
    if python is None:
        return None
    rest = iter(words[python + 1 :])
    for word in rest:
        if not word.startswith("-") or word.startswith("--"):
            return None
        for at, letter in enumerate(word[1:], start=1):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm":
                return None
            if letter in "WX":
                if at == len(word) - 1:
                    next(rest, None)
                break
    return None


def option_words(template: str) -> tuple[str, ...]:
    """The words of an option of the user's program, written with {} for its value, such as `--batch-size {}`, `-b{}` or
    `data.batch={}`."""
    try:
        words = tuple(shlex.split(template))
    except ValueError as error:
        raise ValueError(f"{template!r} cannot be split into words: {error}") from None
    if not 1 <= len(words) <= 2 or template.count("{}") != 1 or "{}" not in words[-1] or words[0] == "{}":
        raise ValueError(f"{template!r} must be an option with one {{}} for its value, such as {EXAMPLE_OPTION!r}")
    return words


def with_option(command: Sequence[str], template: str, value: int) -> tuple[str, ...]:
    """The user's command with its option set: the present value replaced, or the option added at the end.

    `--batch-size 64` and `--batch-size=64` are the same option of the user's program.
    """
    words = option_words(template)
    before, _, after = words[-1].partition("{}")
    name = words[0] if len(words) == 2 else before.removesuffix("=")
    joined = re.compile(rf"({re.escape(name)}=|{re.escape(before)})\d+{re.escape(after)}")
    result, found = list(command), False
    for place, word in enumerate(command[1:], start=1):
        if word == name and name.startswith("-") and place + 1 < len(command):
            result[place + 1] = f"{before if len(words) == 2 else ''}{value}{after}"
            found = True
        elif (match := joined.fullmatch(word)) and match[1]:
            result[place] = f"{match[1]}{value}{after}"
            found = True
    return tuple(result) if found else (*command, *(word.replace("{}", str(value)) for word in words))
