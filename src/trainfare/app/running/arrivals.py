"""Notes how far the results of a run have come on their way home.

<runs>/<run>/collecting.json    for whoever watches, and for the next process
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from trainfare.runner.collecting import Arrivals

_NAME = "collecting.json"


def read_arrivals(folder: Path, attempt: int) -> Arrivals | None:
    """The results of an attempt on their way home; None if this machine does not know."""
    with suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode((folder / _NAME).read_bytes(), type=Arrivals)
        return found if found.attempt == attempt else None
    return None


def write_arrivals(folder: Path, arrivals: Arrivals | None) -> None:
    """Note it, unless the disk is full, which is said of the results themselves."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{_NAME}.new"
        fresh.write_bytes(msgspec.json.encode(arrivals))
        fresh.replace(folder / _NAME)
