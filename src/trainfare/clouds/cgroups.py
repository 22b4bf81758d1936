"""Control groups: processes that the Linux kernel limits to a share of the CPUs and of memory.

A group is created below our own group, so that our limits apply to it too. Both versions of control groups are
supported: in version 1 each controller has a tree of its own, in version 2 there is one tree.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfare.errors import ExternalError

MOUNT_POINT = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 20_000
"""A group that has used up its share waits for the next period. A period shorter than the default of 100 ms disturbs
iterations of a few milliseconds less."""
_END_SECONDS = 5.0


class CannotLimitError(ExternalError):
    """This machine does not permit limiting processes."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group: its folders, one a tree. A process joins by writing its id into each of the process files."""

    folders: tuple[Path, ...]

    @property
    def process_files(self) -> tuple[Path, ...]:
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def processes(self) -> set[int]:
        return set(_processes(self.folders))

    def remove(self) -> None:
        """Kill every process in the group, then remove the group. Removing it again has no effect."""
        deadline = time.monotonic() + _END_SECONDS
        while (running := self.processes()) and time.monotonic() < deadline:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for folder in self.folders:
            _remove(folder, deadline)


def make_group(name: str, *, cpus: float | None = None, memory_bytes: int | None = None) -> ControlGroup:
    """A group with at most `cpus` CPUs and `memory_bytes`; an existing group of this name is used again."""
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
            f"this machine does not permit limiting the CPUs and memory of a program ({error.filename}: "
            f"{error.strerror}). That needs writable control groups, which root has; a slice of an integer number of "
            "vcpus without memory_gib does not need them."
        ) from error
    return ControlGroup(tuple(folders))


def find_group(name: str) -> ControlGroup:
    """The folders of a group that exist under this name, to remove them."""
    trees = {_tree(controller) for controller in ("cpu", "memory")}
    return ControlGroup(tuple(tree / name for tree in sorted(trees) if (tree / name).is_dir()))


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
    return (MOUNT_POINT / "cgroup.controllers").exists()


def _tree(controller: str) -> Path:
    """The folder of our own group."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if _is_unified() and not names:
            return MOUNT_POINT / path.lstrip("/")
        if controller in names.split(","):
            return MOUNT_POINT / controller / path.lstrip("/")
    return MOUNT_POINT / controller


def _processes(folders: tuple[Path, ...]) -> Iterator[int]:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            yield from map(int, (folder / "cgroup.procs").read_text().split())


def _remove(folder: Path, deadline: float) -> None:
    """Remove the folder, retrying because a process that was just killed counts a moment longer."""
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
