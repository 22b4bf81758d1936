"""What can be said of a command before it runs."""

import re
from collections.abc import Sequence
from pathlib import PurePath

_PYTHON = re.compile(r"(python|pypy)[0-9.]*")


def flag_that_keeps_us_out(command: Sequence[str]) -> str | None:
    """The option with which Python ignores PYTHONPATH or `sitecustomize`, and with it the probe; None if there is none.

    Only what stands on the command line is seen: a script may still start `python -I` itself.
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
