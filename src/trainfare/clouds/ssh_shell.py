"""A machine that is reached by ssh, as a place with files and commands."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from trainfare.clouds.door import Completed
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.errors import ExternalError

_WRITE = """
umask 077
case $1 in */*) mkdir -p -- "${1%/*}" || exit 1;; esac
fresh=$1.new.$$
if cat > "$fresh" && [ "$(wc -c < "$fresh")" -eq "$2" ] && mv -f -- "$fresh" "$1"; then exit 0; fi
rm -f -- "$fresh"
exit 1
"""
_READ = '[ -f "$1" ] || exit 0; exec < "$1" || exit 1; tail -c "+$2" | head -c "$3"'


class SshShell:
    """A `Shell`. `folder` is relative to the home folder on the host, or absolute."""

    def __init__(self, connection: SshConnection, folder: str) -> None:
        self._connection = connection
        self._folder = folder if folder.startswith("/") else f"./{folder}"

    def run(self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        return self._connection.run(self._folder, command, given=given, timeout_seconds=timeout_seconds)

    def write(self, path: str, content: bytes) -> None:
        self._run_script(_WRITE, path, str(len(content)), given=content, what=f"{path} could not be written")

    def read(self, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return self._run_script(_READ, path, str(offset + 1), str(limit), what=f"{path} could not be read").output

    def send(self, folder: Path, path: str, *, files: Sequence[str]) -> int:
        if not files:
            return 0
        target = self._place(path)
        self._run_script('umask 077; mkdir -p -- "$1"', path, what=f"the folder {path} could not be made")
        return self._connection.copy([f"{folder}/"], target, files=files, options=("--copy-links",))

    def fetch(self, path: str, folder: Path, *, files: Mapping[str, str]) -> int:
        """Files arrive in a hidden folder below `folder` and get their name when they are verified. The hidden folder
        stays after an error: the next call continues with what has arrived."""
        require_inside(files, self._connection.destination)
        missing = {name: digest for name, digest in files.items() if _sha256(folder / name) != digest}
        if not missing:
            return 0
        place = self._place(path)
        arrivals = folder / f".trainfare-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        arrivals.mkdir(parents=True, exist_ok=True)
        try:
            self._connection.copy([place], f"{arrivals}/", files=missing, options=("--no-links",))
        except ExternalError:
            _accept(arrivals, folder, missing, ended=False)
            raise
        received, wrong = _accept(arrivals, folder, missing, ended=True)
        _remove_empty(arrivals)
        if wrong:
            raise ExternalError(
                f"{len(wrong)} of {len(files)} files from {self._connection.destination} are not what the machine"
                f" reported, and were left out: {', '.join(wrong[:5])}. They changed on the machine meanwhile, or were"
                " damaged on the way."
            )
        return received

    def _run_script(self, script: str, *arguments: str, given: bytes = b"", what: str) -> Completed:
        done = self.run(("sh", "-c", script, "sh", *arguments), given=given)
        if done.exit_code:
            reason = done.error.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {done.exit_code}"
            raise ExternalError(f"On {self._connection.destination}, {what}: {reason}.")
        return done

    def _place(self, path: str) -> str:
        """A folder of the host, as rsync names it."""
        absolute = path if path.startswith("/") else f"{self._folder}/{path}"
        return f"{self._connection.destination}:{absolute}/"


def require_inside(names: Iterable[str], host: str) -> None:
    """Refuse names that lead out of a folder: the machine states them, and it may be wrong or malicious."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise ExternalError(f"{host} reports a result with the name {name!r}, which leads out of its folder.")


def _accept(arrivals: Path, folder: Path, files: Mapping[str, str], *, ended: bool) -> tuple[int, list[str]]:
    """Move the files that are complete to their place; returns their size, and the names of the other files. After a
    transfer that ended, an incomplete file is removed."""
    received, wrong = 0, []
    for name, digest in files.items():
        arrived = arrivals / name
        if _sha256(arrived) != digest:
            wrong.append(name)
            if ended:
                arrived.unlink(missing_ok=True)
            continue
        received += arrived.stat().st_size
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        arrived.replace(target)
    return received, wrong


def _remove_empty(folder: Path) -> None:
    """Remove a folder whose files have been moved elsewhere."""
    for path, _, _ in os.walk(folder, topdown=False):
        Path(path).rmdir()


def _sha256(path: Path) -> str | None:
    """The digest of a plain file; None for anything else."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
