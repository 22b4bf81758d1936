"""Lets the Trainers of Hugging Face and Lightning go on from the checkpoint of an earlier attempt of a run.

A program that says itself where it goes on from is left alone. Only the first training of the process goes on.
"""

from __future__ import annotations

import functools
import os
from typing import Any

RESUME_FROM = "TRAINFARE_RESUME_FROM"
"""The path of the checkpoint, within the folder in which the program was started."""
LAUNCH = "TRAINFARE_LAUNCH"
"""The folder of the launch, whose `work` is that folder; the agent sets it."""


def checkpoint_path() -> str | None:
    """The checkpoint to go on from; None if there is none."""
    path, launch = os.environ.get(RESUME_FROM), os.environ.get(LAUNCH)
    if not path or not launch:
        return None
    found = os.path.join(launch, "work", path)
    return found if os.path.exists(found) else None


def resume_by_argument(train: Any, name: str, position: int) -> Any:
    """The function that trains, with the checkpoint as its argument `name` unless the program gives one. The argument
    may also stand at a position, `self` being 0."""
    pending = [checkpoint_path()]

    @functools.wraps(train)
    def resumed(*args: Any, **options: Any) -> Any:
        path = pending.pop() if pending else None
        given = args[position] if len(args) > position else options.get(name)
        if path is not None and not given:
            if len(args) > position:
                args = (*args[:position], path, *args[position + 1 :])
            else:
                options[name] = path
        return train(*args, **options)

    return resumed
