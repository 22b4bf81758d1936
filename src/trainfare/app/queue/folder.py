"""Writing a queue into a folder, without overwriting one that is there unless requested."""

from pathlib import Path

from trainfare.errors import Remedy, UsageError
from trainfare.measurements.instances import JOBS, QUOTAS, TIMES, write_instance
from trainfare.model.queue import Instance


def require_free_folder(folder: Path, *, force: bool) -> None:
    """The folder holds no queue, or `force` allows to overwrite it."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder for the queue.", field="into")
    existing = [name for name in (JOBS, TIMES, QUOTAS) if (folder / name).exists()]
    if existing and not force:
        raise UsageError(
            f"{folder} already contains {existing[0]}: name another folder, or allow to replace the queue.",
            field="into",
            remedies=[Remedy({"force": True})],
        )


def write_queue(folder: Path, instance: Instance) -> None:
    try:
        write_instance(folder, instance)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}.", field="into") from error
