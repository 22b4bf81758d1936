"""Groups of processes that the kernel keeps within a share of the CPUs and of memory.

A group is made below the one that we are in ourselves, so that whatever limits us limits it too. Both versions of
Linux' control groups are spoken: with version 1 each controller has a tree of its own, with version 2 there is one.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfare.errors import ExternalError

MOUNTED = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 20_000
"""A group that has used up its share waits for the next period: a short one (Linux' default is 100 ms) shows less in
iterations of a few milliseconds."""
_END_SECONDS = 5.0


class CannotLimitError(ExternalError):
    """This machine does not let us limit processes."""


@dataclass(frozen=True, slots=True)
class Group:
    """Its folders, one a tree. A process joins by writing its id into `cgroup.procs` of each."""

    folders: tuple[Path, ...]

    @property
    def doors(self) -> tuple[Path, ...]:
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def processes(self) -> set[int]:
        return set(_processes(self.folders))

    def remove(self) -> None:
        """End every process in it, then the group. Once it is gone, twice does no harm."""
        until = time.monotonic() + _END_SECONDS
        while (running := self.processes()) and time.monotonic() < until:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for folder in self.folders:
            _remove(folder, until)


def make_group(name: str, *, cpus: float | None = None, memory_bytes: int | None = None) -> Group:
    """A group that gets at most `cpus` CPUs and `memory_bytes`; what is already there under this name is used again."""
    folders: list[Path] = []
    try:
        for controller, limits in _limits(cpus, memory_bytes).items():
            folder = _tree(controller) / name
            if folder not in folders:
                folder.mkdir(exist_ok=True)
                folders.append(folder)
            for file, value in limits.items():
                (folder / file).write_text(value)
    except OSError as error:
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise CannotLimitError(
            f"this machine does not let us limit a program's CPUs and memory ({error.filename}: {error.strerror}). "
            "It takes control groups that may be written, as root has them; whole CPUs and no memory_gib need none."
        ) from error
    return Group(tuple(folders))


def find_group(name: str) -> Group:
    """What there is under this name, to remove it."""
    trees = {_tree(controller) for controller in ("cpu", "memory")}
    return Group(tuple(tree / name for tree in sorted(trees) if (tree / name).is_dir()))


def _limits(cpus: float | None, memory_bytes: int | None) -> dict[str, dict[str, str]]:
    limits: dict[str, dict[str, str]] = {}
    if cpus is not None:
        quota = str(max(1000, round(cpus * PERIOD_MICROSECONDS)))
        period = str(PERIOD_MICROSECONDS)
        limits["cpu"] = (
            {"cpu.max": f"{quota} {period}"}
            if _is_unified()
            else {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
        )
    if memory_bytes is not None:
        limits["memory"] = {"memory.max" if _is_unified() else "memory.limit_in_bytes": str(memory_bytes)}
    return limits


def _is_unified() -> bool:
    return (MOUNTED / "cgroup.controllers").exists()


def _tree(controller: str) -> Path:
    """The folder of the group that we are in."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if _is_unified() and not names:
            return MOUNTED / path.lstrip("/")
        if controller in names.split(","):
            return MOUNTED / controller / path.lstrip("/")
    return MOUNTED / controller


def _processes(folders: tuple[Path, ...]) -> Iterator[int]:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            yield from map(int, (folder / "cgroup.procs").read_text().split())


def _remove(folder: Path, until: float) -> None:
    """A process that was just ended may count a moment longer."""
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
