"""Use case: the result files of a run by number, as a page offers them for download.

The number is the place of a file in the sorted list of files that were fetched. No path comes from the request, and a
file that lies outside the folder of results, such as the target of a link, is not given.
"""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfare.app.running.results import result_files
from trainfare.app.running.status import run_folder, show_run
from trainfare.errors import ExternalError, NotFoundError
from trainfare.settings import Settings, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDownload:
    """A result file that can be downloaded."""

    number: int
    name: str
    """Its path within the folder of results."""
    bytes: int
    path: Path
    """The path at home, with every link followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A result file as a list shows it; it may have been moved away since."""

    number: int
    name: str
    bytes: int
    sha256: str
    is_here: bool


def list_downloads(run_id: str, *, settings: Settings | None = None) -> tuple[ListedFile, ...]:
    """The result files of a run with their numbers."""
    settings = settings or read_settings()
    folder = _folder(run_id, settings)
    return tuple(
        ListedFile(
            number=number,
            name=name,
            bytes=file.bytes,
            sha256=file.sha256,
            is_here=_inside(folder, name) is not None,
        )
        for number, (name, file) in enumerate(sorted(result_files(run_id, settings=settings).items()))
    )


def find_download(run_id: str, number: int, *, settings: Settings | None = None) -> ResultDownload:
    """A result file by its number. `NotFoundError` if there is none; `ExternalError` if it is not there any more."""
    settings = settings or read_settings()
    files = sorted(result_files(run_id, settings=settings).items())
    if not 0 <= number < len(files):
        raise NotFoundError("result file with the number", str(number), ())
    name, _ = files[number]
    path = _inside(_folder(run_id, settings), name)
    if path is None:
        raise ExternalError(f"{name} is not in the folder of results any more.")
    return ResultDownload(number=number, name=name, bytes=path.stat().st_size, path=path)


def zip_results(run_id: str, *, settings: Settings | None = None) -> Iterator[bytes]:
    """The parts of a zip archive of all result files and of what the program printed."""
    settings = settings or read_settings()
    folder = _folder(run_id, settings)
    members = [
        (name, path) for name in sorted(result_files(run_id, settings=settings)) if (path := _inside(folder, name))
    ]
    logs = [(f"output/{path.name}.txt", path) for path in sorted(run_folder(settings, run_id).glob("output-*"))]
    return _zip_parts([*members, *logs])


def _zip_parts(members: list[tuple[str, Path]]) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload] # it writes and tells, which is enough
        for name, path in members:
            with (
                path.open("rb") as source,
                archive.open(zipfile.ZipInfo.from_file(path, name), "w", force_zip64=True) as target,
            ):
                while chunk := source.read(1 << 20):
                    target.write(chunk)
                    yield sink.take()
            yield sink.take()
    yield sink.take()


class _Sink:
    """A file that is written from front to end; what was written is taken away in between."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _folder(run_id: str, settings: Settings) -> Path:
    return Path(show_run(run_id, settings=settings).run.results_directory).resolve()


def _inside(folder: Path, name: str) -> Path | None:
    """The path of a regular file within the folder, every link followed; None if it is none."""
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder) and path.is_file() else None
