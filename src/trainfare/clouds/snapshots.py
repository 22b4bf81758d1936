"""Snapshots of checkpoints on a machine, through its `Shell`. `agent/snapshot.py` describes the files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trainfare.agent import snapshot
from trainfare.clouds.door import Shell
from trainfare.clouds.driver import ResultFile, Results
from trainfare.errors import ExternalError

_SOURCE = Path(snapshot.__file__)
_COMMAND = 'exec "$(command -v python3 || command -v python)" -I snapshot.py "$@"'
_REMOVE = 'rm -rf -- "snapshots/$1" "snapshots/$1.json"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of a checkpoint on the machine, which does not change any more."""

    number: int
    files: Mapping[str, ResultFile]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


class NoSnapshotError(ExternalError):
    """This checkpoint cannot be had any more: the program has removed it, or writes to it all the time."""


def take_snapshot(
    shell: Shell, number: int, *, paths: Sequence[str], saved: float, save_seconds: float | None
) -> Snapshot | None:
    """The snapshot of some files or folders, which were complete at `saved`; None while it is being made. The call is
    to be repeated; a second one makes no second copy. `save_seconds` is the time that the program takes to save them;
    None if it was killed."""
    shell.write(_SOURCE.name, _SOURCE.read_bytes())
    words = (str(number), str(saved), snapshot.KILLED if save_seconds is None else str(save_seconds), *paths)
    done = shell.run(["sh", "-c", _COMMAND, "sh", *words])
    if done.exit_code:
        raise ExternalError(f"the checkpoint could not be copied: {done.error.decode(errors='replace')[-500:]}")
    if not done.output:
        return None
    try:
        answer = json.loads(done.output)
        if "error" in answer:
            raise NoSnapshotError(f"there is no copy of the checkpoint: {answer['error']}.")
        files = msgspec.convert(answer["files"], dict[str, ResultFile])
        Results(files=files)  # which refuses names that lead out of the folder
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise ExternalError(f"the list of files of a checkpoint cannot be read: {error}") from error
    return Snapshot(number=number, files=files)


def read_snapshot(shell: Shell, number: int, name: str, *, offset: int, limit: int) -> bytes:
    """The next part of a file of a snapshot."""
    return shell.read(f"snapshots/{number}/{name}", offset=offset, limit=limit)


def remove_snapshot(shell: Shell, number: int) -> None:
    shell.run(["sh", "-c", _REMOVE, "sh", str(number)])
