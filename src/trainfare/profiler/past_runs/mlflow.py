"""MLflow: a run of the file store, `mlruns/EXPERIMENT/RUN`, or of a SQLite store, `mlflow.db`.

Both are read as they lie: the file store is text, and the SQLite store keeps the columns of its tables from one
version to the next.
"""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from trainfare.errors import UsageError
from trainfare.model.profile import Ending
from trainfare.profiler.past_runs.files import date_of, existing, files_under, nothing_there, others_note, reading
from trainfare.profiler.past_runs.run_log import Logged
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, whole_step

_STATUS: Mapping[str, Ending] = {
    "3": "finished",
    "FINISHED": "finished",
    "4": "failed",
    "FAILED": "failed",
    "5": "interrupted",
    "KILLED": "interrupted",
}
"""The file store writes numbers, the SQLite store words; others are still running."""
_ADVICE = "Name a run (mlruns/EXPERIMENT/RUN), the folder mlruns, or an SQLite store (mlflow.db)."
_LONGEST_SETTING = 8000
"""Characters, as in MLflow itself."""


def read(path: str | Path, *, run: str | None = None) -> Logged:
    """`run` names one of several in a store."""
    location = str(path)
    if "://" in location and not location.startswith(("sqlite:", "file:")):
        scheme = location.partition(":")[0]
        raise UsageError(f"a store behind {scheme}:// is not read; export the run, or name mlruns or an SQLite file.")
    source = existing(location.removeprefix("sqlite:///").removeprefix("file://"))
    if source.is_file():
        return _read_sqlite(source, run)
    return _read_folder(source, run)


# The file store


def _read_folder(folder: Path, run: str | None) -> Logged:
    runs = {file.parent for file in files_under(folder, lambda name: name == "meta.yaml") if _is_run(file.parent)}
    if run is not None:
        runs = {own for own in runs if own.name == run}
    if not runs:
        wanted = f"the run {run}" if run else "a folder with meta.yaml and metrics/"
        raise nothing_there(folder, wanted, _ADVICE)
    about = {own: _flat_yaml(own / "meta.yaml") for own in runs}
    runs = {own for own in runs if about[own].get("lifecycle_stage") != "deleted"} or runs
    newest = max(runs, key=lambda own: (_seconds(about[own].get("start_time")) or 0.0, own.name))
    others = others_note(str(newest), sorted(str(own) for own in runs if own != newest))
    notes = [others] if others else []
    scalars, damaged = Scalars(), 0
    for name, file in _named_files(newest / "metrics"):
        damaged += _read_metric(scalars, name, file)
    if damaged:
        notes.append(f"{damaged} lines of its metrics are not `timestamp value step`; they were left out.")
    tags = {name: _setting(file) for name, file in _named_files(newest / "tags")}
    return _logged(
        newest,
        scalars,
        params={name: _setting(file) for name, file in _named_files(newest / "params")},
        script=tags.get("mlflow.source.name"),
        start=_seconds(about[newest].get("start_time")),
        end=_seconds(about[newest].get("end_time")),
        status=about[newest].get("status", ""),
        described_by=newest / "meta.yaml",
        notes=notes,
    )


def _is_run(folder: Path) -> bool:
    """A folder of an experiment has a meta.yaml too."""
    return (folder / "metrics").is_dir() or (folder / "params").is_dir()


def _named_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """A name with a slash is a folder and a file."""
    if folder.is_dir():
        for file in files_under(folder, lambda _: True):
            yield file.relative_to(folder).as_posix(), file


def _read_metric(scalars: Scalars, name: str, file: Path) -> int:
    """One line a point: `timestamp_ms value step`; how many lines are not."""
    damaged = 0
    with reading(file), file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            try:
                step = int(words[2]) if len(words) > 2 else 0
                scalars.add(name, step, float(words[1]), int(words[0]) / 1000)
            except (ValueError, IndexError, OverflowError):
                damaged += bool(words)
    return damaged


def _flat_yaml(file: Path) -> dict[str, str]:
    """`key: value` lines: all that MLflow writes there, and all that we need of it."""
    with reading(file):
        text = file.read_text(encoding="utf-8", errors="replace")[: 1 << 20]
    pairs = (line.partition(": ") for line in text.splitlines() if not line.startswith((" ", "-", "#")))
    return {key: value.strip().strip("'\"") for key, _, value in pairs}


def _setting(file: Path) -> str:
    with reading(file), file.open(encoding="utf-8", errors="replace") as text:
        return text.read(_LONGEST_SETTING).strip()


# The SQLite store


def _read_sqlite(file: Path, run: str | None) -> Logged:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as store:
            return _read_store(store, file, run)
    except sqlite3.Error as error:
        raise UsageError(f"{file} cannot be read as a store of MLflow: {error}. {_ADVICE}") from error


def _read_store(store: sqlite3.Connection, file: Path, run: str | None) -> Logged:
    rows = store.execute(
        "SELECT run_uuid, start_time, end_time, status FROM runs WHERE lifecycle_stage != 'deleted' "
        "ORDER BY start_time DESC, run_uuid"
    ).fetchall()
    chosen = [row for row in rows if run is None or row[0] == run]
    if not chosen:
        known = ", ".join(str(row[0]) for row in rows[:3]) or "none"
        raise UsageError(f"{file} has no run{f' {run}' if run else ''}; it has {known}.")
    name, start, end, status = chosen[0]
    others = others_note(str(name), [str(row[0]) for row in chosen[1:]])
    scalars = Scalars()
    points = store.execute(
        "SELECT key, step, value, is_nan, timestamp FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step", (name,)
    )
    for key, step, value, is_nan, moment in points:
        at = whole_step(step)
        if at is not None and isinstance(value, int | float) and isinstance(moment, int):
            scalars.add(str(key), at, UNKNOWN if is_nan else float(value), moment / 1000)
    tags = dict(store.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (name,)))
    return _logged(
        file,
        scalars,
        params=dict(store.execute("SELECT key, value FROM params WHERE run_uuid = ?", (name,))),
        script=tags.get("mlflow.source.name"),
        start=_seconds(start),
        end=_seconds(end),
        status=str(status),
        described_by=file,
        notes=[others] if others else [],
    )


# Both


def _logged(
    source: Path,
    scalars: Scalars,
    *,
    params: Mapping[str, str],
    script: str | None,
    start: float | None,
    end: float | None,
    status: str,
    described_by: Path,
    notes: Iterable[str],
) -> Logged:
    ended = end or max((moment for series in scalars.values() for moment in series.moments), default=None)
    return Logged(
        origin="mlflow",
        source=source,
        by_step=scalars,
        started=start,
        ended=ended,
        ended_at=date_of(ended, described_by),
        ending=_STATUS.get(status, "enough"),
        command=(script,) if script and script.strip() else (),
        settings=params,
        notes=tuple(notes),
    )


def _seconds(milliseconds: object) -> float | None:
    """None for a run that has not ended, which is written as null."""
    try:
        seconds = float(str(milliseconds)) / 1000
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
