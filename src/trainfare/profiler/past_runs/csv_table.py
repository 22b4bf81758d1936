"""Reads any CSV file with a column for the step or the epoch, and columns for time, loss and metrics.

The meaning of the time column is decided by the first of these that applies: `time_is`, if the user gives it; ISO 8601
dates are moments; the name (`timestamp`, `elapsed` … are moments, `step_time`, `duration` … are durations); numbers of
the size of Unix time are moments; numbers that decrease somewhere are durations; numbers that rise in at least the
first eight rows are moments. Otherwise the user has to give `time_is`.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Literal

from trainfare.errors import Remedy, UsageError
from trainfare.profiler.past_runs.csv_rows import Row, columns, number, rows
from trainfare.profiler.past_runs.files import datetime_or_modified, existing_path
from trainfare.profiler.past_runs.metric_names import enumerate_names, normalize_name
from trainfare.profiler.past_runs.run_log import Axis, RunLog
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, parse_step
from trainfare.units import plural

TimeIs = Literal["moment", "duration"]

_STEP_NAMES = ("step", "global_step", "iteration", "iter", "it", "train_step", "batch", "update")
_EPOCH_NAMES = ("epoch", "epochs", "epoch_number")
_MOMENT_NAMES = (
    *("timestamp", "timestamp_ms", "wall_time", "walltime", "datetime", "date", "runtime", "relative_time"),
    *("elapsed", "elapsed_s", "elapsed_ms", "elapsed_time", "elapsed_seconds", "time_elapsed", "total_time"),
)
_STEP_DURATION_NAMES = (
    *("step_time", "step_time_ms", "step_seconds", "step_ms", "time_per_step", "seconds_per_step"),
    *("iteration_time", "iteration_time_ms", "iteration_seconds", "iteration_ms", "time_per_iteration", "iter_time"),
    *("batch_time", "batch_time_ms"),
)
_ROW_DURATION_NAMES = (
    "duration",
    "duration_s",
    "duration_ms",
    "epoch_time",
    "epoch_seconds",
    "time_per_epoch",
    "epoch_duration",
)
_AMBIGUOUS_NAMES = ("time", "seconds", "secs", "time_s", "time_ms", "t")
_MIN_UNIX_SECONDS = 1e8
"""The year 1973 in Unix time. As a duration it would be three years."""
_MIN_RISING_ROWS = 8
"""Durations of a noisy clock rise in this many rows with a probability of 1 in 40 000 (8!)."""


def read(
    path: str | Path,
    *,
    step_column: str | None = None,
    epoch_column: str | None = None,
    time_column: str | None = None,
    time_is: TimeIs | None = None,
) -> RunLog:
    """Read the log; a column that is not given is found by its name."""
    source = existing_path(path)
    names = columns(source)
    step = _find_column(source, names, step_column, _STEP_NAMES, "step_column")
    epoch = _find_column(source, names, epoch_column, _EPOCH_NAMES, "epoch_column")
    time = _find_column(
        source,
        names,
        time_column,
        (*_MOMENT_NAMES, *_STEP_DURATION_NAMES, *_ROW_DURATION_NAMES, *_AMBIGUOUS_NAMES),
        "time_column",
    )
    if step is None and epoch is None:
        raise UsageError(
            f"{source} has no column with a known name for the step or the epoch. {_columns_sentence(names)}",
            field="path",
            remedies=[Remedy({"step_column": "NAME"}), Remedy({"epoch_column": "NAME"})],
        )
    axis: Axis = "iterations" if step is not None else "epochs"
    clock = _TimeColumn(source, time, time_is)
    found, skipped = Scalars(), 0
    for row in rows(source):
        at = parse_step(number(row.get(step or epoch or "")))
        if at is None:
            skipped += 1
            continue
        moment = clock.moment(row, at)
        for name in names:
            value = number(row.get(name)) if name not in (step, time) else None
            if value is not None:
                found.add("epoch" if name == epoch else name, at, value, moment)
    if not found:
        raise UsageError(f"{source} has no row with an integer {step or epoch} and a number.", field="path")
    return RunLog(
        origin="csv",
        source=source,
        by_step=found,
        axis=axis,
        began=0.0 if clock.is_duration else None,
        began_steps=1 if clock.is_per_step else None,
        ended_at=datetime_or_modified(clock.last if clock.is_absolute else None, source),
        notes=(f"skipped {plural(skipped, 'row')} without an integer {step or epoch}.",) if skipped else (),
    )


def _find_column(source: Path, names: list[str], chosen: str | None, known: Iterable[str], field: str) -> str | None:
    """The column that the user chose, else the first with a known name, else None. `field` names the argument."""
    if chosen is not None:
        if chosen not in names:
            raise UsageError(f"{source} has no column {chosen!r}. {_columns_sentence(names)}", field=field)
        return chosen
    found = [(order, name) for order, word in enumerate(known) for name in names if normalize_name(name) == word]
    return min(found)[1] if found else None


def _columns_sentence(names: list[str]) -> str:
    return f"Its columns are {enumerate_names(names, 10)}." if names else "It has no columns."


class _TimeColumn:
    """Turns the time of a row into a timestamp; durations are added up."""

    def __init__(self, source: Path, column: str | None, time_is: TimeIs | None) -> None:
        self._name = column
        self.is_per_step = column is not None and normalize_name(column) in _STEP_DURATION_NAMES
        self.is_duration = False
        self.is_absolute = False
        self.last = 0.0
        self._scale = 1.0
        self._step: int | None = None
        if column is not None:
            self._decide(source, column, time_is)

    def _decide(self, source: Path, column: str, time_is: TimeIs | None) -> None:
        head = [row.get(column, "") for row, _ in zip(rows(source), range(1000), strict=False)]
        dates = [word for word in head if _parse_date(word) is not None]
        numbers = [value for word in head if (value := number(word)) is not None]
        if dates and not numbers:
            if time_is == "duration":
                raise UsageError(f"the column {column} of {source} contains dates, not durations.", field="time_is")
            self.is_absolute = True
            return
        if not numbers:
            raise UsageError(
                f"the column {column} of {source} contains no times: "
                + (f"{head[0]!r} is neither a number nor an ISO 8601 date." if head else "it has no rows."),
                field="time_column",
                remedies=[Remedy({"time_column": "NAME"})],
            )
        self._scale = 1e-3 if normalize_name(column).endswith("_ms") or min(numbers) > 1000 * _MIN_UNIX_SECONDS else 1.0
        meaning = time_is or _meaning(column, [value * self._scale for value in numbers])
        if meaning is None:
            raise UsageError(
                f"the column {column} of {source} may be the moment at which a row was written or its duration.",
                field="time_is",
                remedies=[Remedy({"time_is": "moment"}), Remedy({"time_is": "duration"})],
            )
        self.is_duration = meaning == "duration"
        self.is_absolute = meaning == "moment" and min(numbers) * self._scale > _MIN_UNIX_SECONDS

    def moment(self, row: Row, step: int) -> float:
        if self._name is None:
            return UNKNOWN
        word = row.get(self._name)
        value = number(word)
        if value is None:
            date = _parse_date(word or "")
            seconds = UNKNOWN if date is None else date
        else:
            seconds = value * self._scale
        if not self.is_duration:
            self.last = self.last if math.isnan(seconds) else seconds
            return seconds
        steps = step - self._step if self.is_per_step and self._step is not None and step > self._step else 1
        self._step = step
        self.last += 0.0 if math.isnan(seconds) else max(0.0, seconds * steps)
        return self.last


def _meaning(column: str, seconds: list[float]) -> TimeIs | None:
    name = normalize_name(column)
    if name in _MOMENT_NAMES or min(seconds) > _MIN_UNIX_SECONDS:
        return "moment"
    if name in _STEP_DURATION_NAMES or name in _ROW_DURATION_NAMES:
        return "duration"
    if any(later < earlier for earlier, later in pairwise(seconds)):
        return "duration"
    rising = sum(1 for _ in takewhile(lambda pair: pair[1] > pair[0], pairwise(seconds))) + 1
    return "moment" if rising >= _MIN_RISING_ROWS else None


def _parse_date(word: str) -> float | None:
    """An ISO 8601 date in Unix time, in UTC if it has no zone: only differences and the day are used."""
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
