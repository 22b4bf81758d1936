"""A folder on this machine as a `Shell`."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.clouds.door import Completed, MachineUnreachableError
from trainfare.errors import ExternalError
from trainfare.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalShell:
    """A `Shell`. Every command, and so the agent with all that it starts, has `prefix` before it and `environment`
    added to ours: they confine it to a slice of this machine."""

    folder: Path
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        self.require_folder()
        # Where there is no Python on the path, there is at least our own.
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
        try:
            done = subprocess.run(
                (*self.prefix, *command),
                cwd=self.folder,
                env={**os.environ, "PATH": path, **self.environment},
                input=given,
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MachineUnreachableError(
                f"{command[0]} did not end within {format_duration(timeout_seconds)} in {self.folder}."
            ) from error
        except OSError as error:
            raise ExternalError(f"{command[0]} could not be started in {self.folder}: {error.strerror}.") from error
        return Completed(exit_code=done.returncode, output=done.stdout, error=done.stderr)

    def write(self, path: str, content: bytes) -> None:
        self.require_folder()
        target = self.folder / path
        fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(content)
            fresh.replace(target)
        except OSError as error:
            raise ExternalError(f"{target} could not be written: {error.strerror}.") from error

    def read(self, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        self.require_folder()
        try:
            with (self.folder / path).open("rb") as file:
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""

    def send(self, folder: Path, path: str, *, files: Sequence[str]) -> int:
        self.require_folder()
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        return sum(_copy_if_changed(folder / name, self.folder / path / name) for name in files)

    def fetch(self, path: str, folder: Path, *, files: Mapping[str, str]) -> int:
        self.require_folder()
        received, wrong = 0, []
        for name, sha256 in files.items():
            size = _copy_verified(self.folder / path / name, target_in(folder, name), sha256)
            if size is None:
                wrong.append(name)
            received += size or 0
        if wrong:
            raise ExternalError(f"{len(wrong)} files have changed or are missing in {self.folder / path}: {wrong[0]}.")
        return received

    def require_folder(self) -> None:
        """Called before everything that is done on the machine."""
        if not self.folder.is_dir():
            raise MachineUnreachableError(f"{self.folder} does not exist any more.")


def target_in(folder: Path, name: str) -> Path:
    """The path of a file below a folder. A machine names its files, so it might name one outside."""
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise ExternalError(f"the machine offers a file {name}, which is outside of {folder}: nothing is copied.")
    return target


def _copy_if_changed(source: Path, target: Path) -> int:
    status = source.stat()
    if target.exists():
        there = target.stat()
        if (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
            return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target)
    except OSError as error:
        raise ExternalError(f"{source} could not be copied to {target}: {error.strerror}.") from error
    return status.st_size


def _copy_verified(source: Path, target: Path, sha256: str) -> int | None:
    """Copy a file in one step; None if its content is not what it should be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.copy2(source, part)
        with part.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                return None
        part.replace(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExternalError(f"{source} could not be copied to {target}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size
