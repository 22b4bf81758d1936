"""A queue written into a folder: never over one that is there, unless told so."""

from pathlib import Path

from trainfare.errors import UsageError
from trainfare.measurements.instances import JOBS, QUOTAS, TIMES, write_instance
from trainfare.model.queue import Instance


def require_free(folder: Path, *, force: bool) -> None:
    """It holds no queue, or may be written over."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder for the queue with --into.")
    there = [name for name in (JOBS, TIMES, QUOTAS) if (folder / name).exists()]
    if there and not force:
        raise UsageError(f"{folder} holds {there[0]} already: name another folder, or say --force to replace it.")


def write_queue(folder: Path, instance: Instance) -> None:
    try:
        write_instance(folder, instance)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}.") from error
