"""Environments and data that are kept on a host, through a `Shell` to it. `agent/supply.py` describes the files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trainfare.agent import supply
from trainfare.clouds.door import Shell
from trainfare.errors import ExternalError

_COMMAND = 'exec "$(command -v python3 || command -v python)" -I - "$@"'
_SECONDS = 600.0
"""Removing an environment of many files takes its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPlace:
    """An environment, or data, that later runs on the host use again."""

    kind: str
    """`environments` or `data`."""
    key: str
    name: str
    """The file that names the environment, or the data."""
    bytes: int
    unused_seconds: float
    """The time since a run used it last."""
    in_use: bool
    """A run on the host uses it now: it is not removed."""


def list_cached(shell: Shell) -> tuple[CachedPlace, ...]:
    """Everything that is kept on a host, the longest unused first."""
    return _run(shell, ["cache"])


def clean_cache(shell: Shell, *, unused_seconds: float, keep_bytes: float) -> tuple[CachedPlace, ...]:
    """Remove what no run uses: what was not used for so long, and the longest unused until at most so many bytes are
    left. Returns what was removed."""
    return _run(shell, ["clean", str(unused_seconds), str(keep_bytes)])


def _run(shell: Shell, words: Sequence[str]) -> tuple[CachedPlace, ...]:
    source = Path(supply.__file__).read_bytes()
    done = shell.run(["sh", "-c", _COMMAND, "sh", *words], given=source, timeout_seconds=_SECONDS)
    if done.exit_code:
        lines = done.error.decode(errors="replace").strip().splitlines()
        raise ExternalError(f"what is kept there cannot be cleaned: {lines[-1] if lines else 'no message'}.")
    try:
        return msgspec.convert(json.loads(done.output), tuple[CachedPlace, ...])
    except (ValueError, msgspec.ValidationError) as error:
        raise ExternalError(f"the list of what is kept there cannot be read: {error}.") from error
