"""Reads MLflow: a run of the file store, `mlruns/EXPERIMENT/RUN`, or of a SQLite store, `mlflow.db`.

Both are read without MLflow: the file store is text, and the columns of the SQLite store are the same in all versions.
"""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from trainfare.errors import UsageError
from trainfare.model.profile import Ending
from trainfare.profiler.past_runs.files import (
    datetime_or_modified,
    existing_path,
    files_under,
    no_run_found,
    other_runs_note,
    translate_read_errors,
)
from trainfare.profiler.past_runs.metric_names import enumerate_names
from trainfare.profiler.past_runs.run_log import RunLog
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, parse_step
from trainfare.units import plural

_STATUS: Mapping[str, Ending] = {
    "3": "finished",
    "FINISHED": "finished",
    "4": "failed",
    "FAILED": "failed",
    "5": "interrupted",
    "KILLED": "interrupted",
}
"""The file store writes numbers, the SQLite store words; any other status is a running one."""
_ADVICE = "Give the path of a run (mlruns/EXPERIMENT/RUN), of mlruns, or of a SQLite store (mlflow.db)."
_MAX_SETTING_LENGTH = 8000
"""Characters; the limit of MLflow itself."""


def read(path: str | Path, *, run: str | None = None) -> RunLog:
    """Read the log; `run` is the id of one of several runs in a store."""
    location = str(path)
    if "://" in location and not location.startswith(("sqlite:", "file:")):
        scheme = location.partition(":")[0]
        message = (
            f"a store at {scheme}:// cannot be read. Export the run, or give the path of mlruns or of a SQLite file."
        )
        raise UsageError(message, field="path")
    source = existing_path(location.removeprefix("sqlite:///").removeprefix("file://"))
    if source.is_file():
        return _read_sqlite(source, run)
    return _read_folder(source, run)


# The file store.


def _read_folder(folder: Path, run: str | None) -> RunLog:
    runs = {file.parent for file in files_under(folder, lambda name: name == "meta.yaml") if _is_run(file.parent)}
    if run is not None:
        runs = {run_folder for run_folder in runs if run_folder.name == run}
    if not runs:
        expected = f"the run {run}" if run else "a folder with meta.yaml and metrics/"
        raise no_run_found(folder, expected, _ADVICE)
    metadata = {run_folder: _read_flat_yaml(run_folder / "meta.yaml") for run_folder in runs}
    runs = {run_folder for run_folder in runs if metadata[run_folder].get("lifecycle_stage") != "deleted"} or runs
    newest = max(
        runs,
        key=lambda run_folder: (_seconds_since_1970(metadata[run_folder].get("start_time")) or 0.0, run_folder.name),
    )
    others = other_runs_note(str(newest), sorted(str(run_folder) for run_folder in runs if run_folder != newest))
    notes = [others] if others else []
    scalars, damaged = Scalars(), 0
    for name, file in _named_files(newest / "metrics"):
        damaged += _read_metric(scalars, name, file)
    if damaged:
        notes.append(f"skipped {plural(damaged, 'line')} of its metrics that are not `timestamp value step`.")
    tags = {name: _read_setting(file) for name, file in _named_files(newest / "tags")}
    return _run_log(
        newest,
        scalars,
        params={name: _read_setting(file) for name, file in _named_files(newest / "params")},
        script=tags.get("mlflow.source.name"),
        start=_seconds_since_1970(metadata[newest].get("start_time")),
        end=_seconds_since_1970(metadata[newest].get("end_time")),
        status=metadata[newest].get("status", ""),
        dated_by=newest / "meta.yaml",
        notes=notes,
    )


def _is_run(folder: Path) -> bool:
    """True for the folder of a run; that of an experiment has a meta.yaml too."""
    return (folder / "metrics").is_dir() or (folder / "params").is_dir()


def _named_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder by their relative path, which is the name of a metric, parameter or tag."""
    if folder.is_dir():
        for file in files_under(folder, lambda _: True):
            yield file.relative_to(folder).as_posix(), file


def _read_metric(scalars: Scalars, name: str, file: Path) -> int:
    """Add the points of a metric, one per line: `timestamp_ms value step`. Returns the number of other lines."""
    damaged = 0
    with translate_read_errors(file), file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            try:
                step = int(words[2]) if len(words) > 2 else 0
                scalars.add(name, step, float(words[1]), int(words[0]) / 1000)
            except (ValueError, IndexError, OverflowError):
                damaged += bool(words)
    return damaged


def _read_flat_yaml(file: Path) -> dict[str, str]:
    """The `key: value` lines of a file, which are all that MLflow writes there."""
    with translate_read_errors(file):
        text = file.read_text(encoding="utf-8", errors="replace")[: 1 << 20]
    pairs = (line.partition(": ") for line in text.splitlines() if not line.startswith((" ", "-", "#")))
    return {key: value.strip().strip("'\"") for key, _, value in pairs}


def _read_setting(file: Path) -> str:
    with translate_read_errors(file), file.open(encoding="utf-8", errors="replace") as text:
        return text.read(_MAX_SETTING_LENGTH).strip()


# The SQLite store.


def _read_sqlite(file: Path, run: str | None) -> RunLog:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as store:
            return _read_store(store, file, run)
    except sqlite3.Error as error:
        raise UsageError(f"{file} cannot be read as a store of MLflow: {error}. {_ADVICE}", field="path") from error


def _read_store(store: sqlite3.Connection, file: Path, run: str | None) -> RunLog:
    rows = store.execute(
        "SELECT run_uuid, start_time, end_time, status FROM runs WHERE lifecycle_stage != 'deleted' "
        "ORDER BY start_time DESC, run_uuid"
    ).fetchall()
    selected = [row for row in rows if run is None or row[0] == run]
    if not selected:
        if run is None or not rows:
            raise UsageError(f"{file} has no run.", field="path")
        known = enumerate_names((str(row[0]) for row in rows), 3)
        raise UsageError(f"{file} has no run {run}. Its runs are {known}.", field="run")
    name, start, end, status = selected[0]
    others = other_runs_note(str(name), [str(row[0]) for row in selected[1:]])
    scalars = Scalars()
    points = store.execute(
        "SELECT key, step, value, is_nan, timestamp FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step", (name,)
    )
    for key, step, value, is_nan, timestamp in points:
        at = parse_step(step)
        if at is not None and isinstance(value, int | float) and isinstance(timestamp, int):
            scalars.add(str(key), at, UNKNOWN if is_nan else float(value), timestamp / 1000)
    tags = dict(store.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (name,)))
    return _run_log(
        file,
        scalars,
        params=dict(store.execute("SELECT key, value FROM params WHERE run_uuid = ?", (name,))),
        script=tags.get("mlflow.source.name"),
        start=_seconds_since_1970(start),
        end=_seconds_since_1970(end),
        status=str(status),
        dated_by=file,
        notes=[others] if others else [],
    )


# Both stores.


def _run_log(
    source: Path,
    scalars: Scalars,
    *,
    params: Mapping[str, str],
    script: str | None,
    start: float | None,
    end: float | None,
    status: str,
    dated_by: Path,
    notes: Iterable[str],
) -> RunLog:
    ended = end or max((timestamp for series in scalars.values() for timestamp in series.timestamps), default=None)
    return RunLog(
        origin="mlflow",
        source=source,
        by_step=scalars,
        started=start,
        ended=ended,
        ended_at=datetime_or_modified(ended, dated_by),
        ending=_STATUS.get(status, "enough"),
        command=(script,) if script and script.strip() else (),
        settings=params,
        notes=tuple(notes),
    )


def _seconds_since_1970(milliseconds: object) -> float | None:
    """Milliseconds as seconds; None for null, which stands for a run that has not ended."""
    try:
        seconds = float(str(milliseconds)) / 1000
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
