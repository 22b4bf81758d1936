"""Any CSV file with a column for the step or the epoch, and columns for time, loss and metrics.

What the time column means is decided in this order: `time_is`, where the user says it; ISO 8601 dates are moments; the
name (`timestamp`, `elapsed` … are moments, `step_time`, `duration` … are durations); numbers since 1970 are moments;
numbers that fall somewhere are durations; those that rise all the way through at least eight rows are moments. What is
then still open is refused.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Literal

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import date_of, existing
from trainfare.profiler.past_runs.run_log import Axis, Logged
from trainfare.profiler.past_runs.metric_names import plain
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, whole_step
from trainfare.profiler.past_runs.csv_rows import Row, columns, number, rows

TimeIs = Literal["moment", "duration"]

_STEPS = ("step", "global_step", "iteration", "iter", "it", "train_step", "batch", "update")
_EPOCHS = ("epoch", "epochs", "epoch_number")
_MOMENTS = (
    *("timestamp", "timestamp_ms", "wall_time", "walltime", "datetime", "date", "runtime", "relative_time"),
    *("elapsed", "elapsed_s", "elapsed_ms", "elapsed_time", "elapsed_seconds", "time_elapsed", "total_time"),
)
_OF_A_STEP = (
    *("step_time", "step_time_ms", "step_seconds", "step_ms", "time_per_step", "seconds_per_step"),
    *("iteration_time", "iteration_time_ms", "iteration_seconds", "iteration_ms", "time_per_iteration", "iter_time"),
    *("batch_time", "batch_time_ms"),
)
_OF_A_ROW = ("duration", "duration_s", "duration_ms", "epoch_time", "epoch_seconds", "time_per_epoch", "epoch_duration")
_OPEN = ("time", "seconds", "secs", "time_s", "time_ms", "t")
_SINCE_1970 = 1e8
"""Seconds: 1973. As a duration it would be three years."""
_ENOUGH_ROWS = 8
"""That durations of a noisy clock rise all the way through so many has a chance of 1 in 40 000 (8!)."""


def read(
    path: str | Path,
    *,
    step_column: str | None = None,
    epoch_column: str | None = None,
    time_column: str | None = None,
    time_is: TimeIs | None = None,
) -> Logged:
    """A column that is not named is found by its name."""
    source = existing(path)
    names = columns(source)
    step = _column(source, names, step_column, _STEPS, "--step-column")
    epoch = _column(source, names, epoch_column, _EPOCHS, "--epoch-column")
    time = _column(source, names, time_column, (*_MOMENTS, *_OF_A_STEP, *_OF_A_ROW, *_OPEN), "--time-column")
    if step is None and epoch is None:
        raise UsageError(
            f"{source} has no column that is plainly a step or an epoch; it has {_listed(names)}. "
            "Say which one is: --step-column or --epoch-column."
        )
    axis: Axis = "iterations" if step is not None else "epochs"
    clock = _Clock(source, time, time_is)
    found, skipped = Scalars(), 0
    for row in rows(source):
        at = whole_step(number(row.get(step or epoch or "")))
        if at is None:
            skipped += 1
            continue
        moment = clock.moment(row, at)
        for name in names:
            value = number(row.get(name)) if name not in (step, time) else None
            if value is not None:
                found.add("epoch" if name == epoch else name, at, value, moment)
    if not found:
        raise UsageError(f"{source} has no row with a whole {step or epoch} and a number.")
    return Logged(
        origin="csv",
        source=source,
        by_step=found,
        axis=axis,
        began=0.0 if clock.counts_durations else None,
        began_steps=1 if clock.counts_steps else None,
        ended_at=date_of(clock.last if clock.is_of_the_world else None, source),
        notes=(f"{skipped} rows have no whole {step or epoch}; they were left out.",) if skipped else (),
    )


def _column(source: Path, names: list[str], chosen: str | None, known: Iterable[str], flag: str) -> str | None:
    if chosen is not None:
        if chosen not in names:
            raise UsageError(f"{source} has no column {chosen!r} ({flag}); it has {_listed(names)}.")
        return chosen
    found = [(order, name) for order, word in enumerate(known) for name in names if plain(name) == word]
    return min(found)[1] if found else None


def _listed(names: list[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "no columns"


class _Clock:
    """Turns the time of a row into a moment; durations are added up."""

    def __init__(self, source: Path, column: str | None, time_is: TimeIs | None) -> None:
        self._column = column
        self.counts_steps = column is not None and plain(column) in _OF_A_STEP
        self.counts_durations = False
        self.is_of_the_world = False
        self.last = 0.0
        self._scale = 1.0
        self._step: int | None = None
        if column is not None:
            self._decide(source, column, time_is)

    def _decide(self, source: Path, column: str, time_is: TimeIs | None) -> None:
        head = [row.get(column, "") for row, _ in zip(rows(source), range(1000), strict=False)]
        dates = [word for word in head if _date(word) is not None]
        numbers = [value for word in head if (value := number(word)) is not None]
        if dates and not numbers:
            if time_is == "duration":
                raise UsageError(f"{source}: {column} holds dates, which are no durations.")
            self.is_of_the_world = True
            return
        if not numbers:
            raise UsageError(
                f"{source}: {column} holds no time, neither seconds nor ISO 8601 ({head[0] if head else 'no rows'}). "
                "Name the right one with --time-column."
            )
        self._scale = 1e-3 if plain(column).endswith("_ms") or min(numbers) > 1000 * _SINCE_1970 else 1.0
        meaning = time_is or _meaning(column, [value * self._scale for value in numbers])
        if meaning is None:
            raise UsageError(
                f"{source}: does {column} say when a row was written, or how long it took? "
                "Say --time-is moment, or --time-is duration."
            )
        self.counts_durations = meaning == "duration"
        self.is_of_the_world = meaning == "moment" and min(numbers) * self._scale > _SINCE_1970

    def moment(self, row: Row, step: int) -> float:
        if self._column is None:
            return UNKNOWN
        word = row.get(self._column)
        value = number(word)
        if value is None:
            date = _date(word or "")
            seconds = UNKNOWN if date is None else date
        else:
            seconds = value * self._scale
        if not self.counts_durations:
            self.last = self.last if math.isnan(seconds) else seconds
            return seconds
        steps = step - self._step if self.counts_steps and self._step is not None and step > self._step else 1
        self._step = step
        self.last += 0.0 if math.isnan(seconds) else max(0.0, seconds * steps)
        return self.last


def _meaning(column: str, seconds: list[float]) -> TimeIs | None:
    name = plain(column)
    if name in _MOMENTS or min(seconds) > _SINCE_1970:
        return "moment"
    if name in _OF_A_STEP or name in _OF_A_ROW:
        return "duration"
    if any(later < earlier for earlier, later in pairwise(seconds)):
        return "duration"
    rising = sum(1 for _ in takewhile(lambda pair: pair[1] > pair[0], pairwise(seconds))) + 1
    return "moment" if rising >= _ENOUGH_ROWS else None


def _date(word: str) -> float | None:
    """ISO 8601, in UTC where it names no zone; only differences are used, and the day."""
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
