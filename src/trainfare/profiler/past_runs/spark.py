"""Reads the event log of Spark: each job of a program that trains with MLlib counts as one iteration.

MLlib evaluates the loss and its gradient over all data once in each iteration, which is a job. Jobs before training,
such as reading the data, count too: the first ones are mostly longer.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import (
    datetime_or_modified,
    existing_path,
    files_under,
    modified_at,
    no_run_found,
    other_runs_note,
    translate_read_errors,
)
from trainfare.profiler.past_runs.run_log import RunLog
from trainfare.profiler.past_runs.series import Scalars, parse_step

_COMPRESSED = (".zstd", ".lz4", ".snappy", ".lzf")
_STARTS = ("events_", "app-", "local-", "spark-")
_ADVICE = "Spark writes one with `spark.eventLog.enabled=true`."


def read(path: str | Path) -> RunLog:
    source = existing_path(path)
    files, note = _newest(source) if source.is_dir() else ([source], None)
    if compressed := [file for file in files if file.suffix in _COMPRESSED]:
        raise UsageError(
            f"{compressed[0]} is compressed. Set `spark.eventLog.compress=false` for the program, or unpack the file.",
            field="path",
        )
    begun: dict[int, float] = {}
    jobs, started, ended = Scalars(), None, None
    for event in (event for file in files for event in _events(file)):
        number, kind = parse_step(event.get("Job ID")), event.get("Event")
        if kind == "SparkListenerApplicationStart":
            started = _seconds(event.get("Timestamp"))
        elif kind == "SparkListenerApplicationEnd":
            ended = _seconds(event.get("Timestamp"))
        elif number is None:
            continue
        elif kind == "SparkListenerJobStart" and (moment := _seconds(event.get("Submission Time"))) is not None:
            begun[number] = moment
        elif kind == "SparkListenerJobEnd" and (moment := _seconds(event.get("Completion Time"))) is not None:
            jobs.add("job", number + 1, float(number), moment)
    if not jobs:
        raise UsageError(f"{source} is not an event log of Spark with a job that has ended. {_ADVICE}", field="path")
    return RunLog(
        origin="spark",
        source=source,
        by_step=jobs,
        axis="iterations",
        began=min(begun.values(), default=None),
        began_steps=1,
        started=started,
        ended=ended,
        ended_at=datetime_or_modified(ended, files[-1]),
        ending="finished" if ended is not None else "enough",
        framework="spark",
        notes=("each job of Spark is taken to be one iteration.", *((note,) if note else ())),
    )


def _newest(folder: Path) -> tuple[list[Path], str | None]:
    """The files of the last application in a folder; a long one writes several, one after the other."""
    found = files_under(folder, lambda name: name.startswith(_STARTS))
    if not found:
        raise no_run_found(folder, "an event log of Spark", _ADVICE)
    applications: dict[Path, list[Path]] = {}
    for file in found:
        applications.setdefault(file.parent if file.name.startswith("events_") else file, []).append(file)
    newest = max(applications, key=lambda name: max(map(modified_at, applications[name])))
    others = sorted(str(name) for name in applications if name != newest)
    return sorted(applications[newest], key=_part), other_runs_note(str(newest), others)


def _part(file: Path) -> int:
    """The number of a file among those of one application: `events_2_app-…`."""
    number = file.name.split("_")[1] if file.name.startswith("events_") else "0"
    return int(number) if number.isdigit() else 0


def _events(file: Path) -> Iterator[dict[str, Any]]:
    with translate_read_errors(file), file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # the last line of a program that was killed
                continue
            if isinstance(event, dict):
                yield event


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return milliseconds / 1000
