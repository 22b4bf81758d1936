"""Copies a checkpoint of a program that goes on training, so that it can be fetched at leisure. One file, Python 3.8 or
newer, no packages.

    python3 snapshot.py NUMBER SAVED SECONDS PATH…

    snapshots/NUMBER/       the copies, by their paths within the program's folder
    snapshots/NUMBER.json   their sizes and SHA-256, or an error; printed once it is there
    snapshots/lock          locked while a copy is made

The copy is made in the background; the command returns within a second and is repeated until it prints something. A
program may overwrite its only checkpoint at any time: the copy counts if no file changed meanwhile, and either no file
was written to after SAVED (seconds since 1970), or none for longer than twice the SECONDS that a save takes. If the
program was killed, SECONDS is `killed`: then no file may have been written to after SAVED, as it may be incomplete.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List  # noqa: UP035 # Python 3.8 has no dict[…] outside of annotations

KILLED = "killed"
MARKER = "TRAINFARE_LAUNCH"
"""The variable of agent.py: whoever ends the launch ends the processes that have it."""
OUTSIDE = ".trainfare-checkpoint"
"""The folder of checkpoints that the program saves outside of its own folder."""
REPLY_SECONDS = 0.8
LONGEST_WAIT_SECONDS = 60.0
"""The longest wait for a moment at which the program does not write to the checkpoint."""
SHORTEST_QUIET_SECONDS = 0.25
CLOCK_SECONDS = 2.0
"""Times of files may be so inexact on a network disk."""
ROOM = 3
"""The disk must have room for so many copies; otherwise the files are only linked, and a program that overwrites them
in place makes the snapshot void."""
NOTE_BYTES = 64 << 10
"""Files as small as this that were written together with the checkpoint belong to it, such as the name of the last."""
NOTE_SECONDS = 10.0
NOTES = 20

Stamps = Dict[str, List[int]]  # noqa: UP006 # it is evaluated by Python 3.8


class SnapshotError(Exception):
    """No snapshot of this checkpoint can be made; the text is for the user."""


def files_of(path: Path) -> list[Path]:
    """The file, all files of a folder, or all files whose names begin like this."""
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return sorted(each for each in path.parent.glob(glob.escape(path.name) + "*") if each.is_file())


def files_before(work: Path) -> dict[str, list[int]]:
    """Size and time of each file before the program ran, as the agent wrote them down."""
    try:
        return dict(json.loads((work.parent / "before.json").read_text()))
    except (OSError, ValueError):
        return {}


def notes_of(path: Path, work: Path, saved: float) -> list[Path]:
    """Small files next to the checkpoint, or in the folder above, that were written at the same time."""
    folders = [folder for folder in (path.parent, path.parent.parent) if folder == work or work in folder.parents]
    before = files_before(work)
    found = []
    for folder in folders:
        for each in sorted(folder.iterdir()) if folder.is_dir() else []:
            if each.is_file() and not each.is_symlink():
                status = each.stat()
                is_new = before.get(str(each.relative_to(work))) != [status.st_size, status.st_mtime_ns]
                if is_new and status.st_size <= NOTE_BYTES and abs(status.st_mtime - saved) <= NOTE_SECONDS:
                    found.append(each)
    return found[:NOTES]


def name_of(file: Path, path: Path, work: Path) -> str:
    """The name of a file of the checkpoint `path` in a snapshot."""
    try:
        return str(file.relative_to(work))
    except ValueError:
        return str(Path(OUTSIDE) / file.relative_to(path.parent))


def collect(paths: list[Path], work: Path, saved: float) -> dict[str, Path]:
    """The files of the checkpoint, by their names in the snapshot."""
    found: dict[str, Path] = {}
    for path in paths:
        own = files_of(path)
        if not own:
            raise SnapshotError(f"{path} was removed")
        found.update((name_of(file, path, work), file) for file in own)
    for path in paths:
        if work in path.parents:
            found.update((name_of(file, path, work), file) for file in notes_of(path, work, saved))
    return found


def stamps_of(files: dict[str, Path]) -> Stamps:
    found = {}
    for name, file in files.items():
        status = file.stat()
        found[name] = [status.st_size, status.st_mtime_ns, status.st_ino]
    return found


def is_good_moment(stamps: Stamps, *, saved: float, quiet: float | None) -> bool:
    newest = max(stamp[1] for stamp in stamps.values()) / 1e9
    if newest <= saved + CLOCK_SECONDS:
        return True
    if quiet is None:
        raise SnapshotError("the program was killed after it had begun to overwrite it")
    return time.time() - newest >= quiet


def copy(files: dict[str, Path], target: Path) -> None:
    size = sum(file.stat().st_size for file in files.values())
    has_room = shutil.disk_usage(target.parent).free >= ROOM * size
    for name, file in files.items():
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if has_room:
            shutil.copy2(file, to)
        else:
            os.link(file, to)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 22), b""):
            digest.update(part)
    return digest.hexdigest()


def take(folder: Path, number: str, saved: float, seconds: str, paths: list[Path]) -> dict[str, Any]:
    """Copy the checkpoint at a moment at which it is complete; returns the files with their sizes and digests."""
    work, target = folder / "work", folder / "snapshots" / number
    quiet = None if seconds == KILLED else max(SHORTEST_QUIET_SECONDS, 2 * float(seconds))
    give_up = time.monotonic() + LONGEST_WAIT_SECONDS
    while time.monotonic() < give_up:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        files = collect(paths, work, saved)
        before = stamps_of(files)
        if is_good_moment(before, saved=saved, quiet=quiet):
            copy(files, target)
            if stamps_of(files) == before:
                return {name: {"bytes": before[name][0], "sha256": sha256(target / name)} for name in sorted(files)}
        time.sleep(min(quiet or 1.0, 1.0) / 4)
    raise SnapshotError("it was written to all the time")


def make(folder: Path, number: str, saved: float, seconds: str, paths: list[Path]) -> None:
    """Make the snapshot unless another process does, and write what became of it."""
    snapshots = folder / "snapshots"
    snapshots.mkdir(exist_ok=True)
    with (snapshots / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        for old in snapshots.iterdir():
            if old.name not in ("lock", number):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        try:
            answer: dict[str, Any] = {"files": take(folder, number, saved, seconds, paths)}
        except (SnapshotError, OSError) as error:
            shutil.rmtree(snapshots / number, ignore_errors=True)
            answer = {"error": str(error)}
        fresh = snapshots / (number + ".new")
        fresh.write_text(json.dumps(answer))
        fresh.replace(snapshots / (number + ".json"))


def ask(folder: Path, words: list[str]) -> None:
    """Print the answer if there is one; otherwise see to it that it is on its way."""
    answer = folder / "snapshots" / (words[0] + ".json")
    if not answer.exists():
        maker = subprocess.Popen(
            (sys.executable, "-I", __file__, "make", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, MARKER: str(folder)},
            start_new_session=True,
        )
        try:
            maker.wait(REPLY_SECONDS)
        except subprocess.TimeoutExpired:
            return
    if answer.exists():
        sys.stdout.write(answer.read_text())


def main(words: list[str]) -> None:
    folder = Path(__file__).resolve().parent
    is_maker = words[:1] == ["make"]
    words = words[1:] if is_maker else words
    if len(words) < 4:
        sys.exit(__doc__)
    if is_maker:
        os.nice(19)
        paths = [folder / "work" / path for path in words[3:]]
        make(folder, words[0], float(words[1]), words[2], paths)
    else:
        ask(folder, words)


if __name__ == "__main__":
    main(sys.argv[1:])
