"""Builds a Profile from the log of a past run. It contains only what the log or the user says.

Time of an iteration
    Two points of the training loss k steps and s seconds apart mean that an iteration took s / k. Each such pair gives
    one entry of `iteration_seconds`: for k = 1 the time of an iteration, for k > 1 the mean of k iterations. If only
    epochs were logged, k is the length of an epoch. The first logged step only starts the clock. A pair with a
    validation between its points gives no entry; its time beyond k median iterations goes into `validation_seconds`,
    together with anything else that the program did there. If every pair has one, as in a log with one line per epoch,
    its time is part of the iterations, unless the log tells how long it took.
Loss and learning rate
    One entry per iteration, None for those that were not logged.
Curve
    If the log or the user tells to which epoch a step belongs: the mean loss of each epoch and the last value of each
    validation metric.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Profile
from trainfare.model.program import Program
from trainfare.profiler.past_runs import metric_names as names
from trainfare.profiler.past_runs.metric_names import enumerate_names
from trainfare.profiler.past_runs.run_log import RunLog, RunOverrides
from trainfare.profiler.past_runs.series import Scalars, ScalarSeries, TimedSteps

MAX_ITERATIONS = 100_000
"""Iterations whose losses are stored: twenty epochs of ImageNet."""

_MAX_EPOCHS = 2**31
"""A larger number is not the number of an epoch."""

EpochOfStep = Callable[[int], int | None]
"""Maps a step to the number of its epoch, from 1 on."""


@dataclass(frozen=True, slots=True)
class _MeasuredTimes:
    iteration_seconds: tuple[float, ...] = ()
    validation_seconds: tuple[float, ...] = ()


def profile_from_log(log: RunLog, overrides: RunOverrides, *, id: str) -> tuple[Profile, tuple[str, ...]]:  # noqa: A002 # the field of the noun
    """The Profile, and sentences that say what was assumed or left out.

    ValueError if the log contains nothing about training; UsageError if it does not contain the given loss.
    """
    notes = list(log.notes)
    log = _with_axis(log, overrides, notes)
    _note_restarts(log, notes)
    settings = log.settings
    host = _host(log, overrides)
    profile = Profile(
        id=id,
        program=_program(log, overrides),
        host=host,
        # A run on a machine with one GPU used it; of several GPUs the log does not tell how many.
        device="cuda" if host.gpu and host.gpus == 1 else None,
        measured_at=log.ended_at,
        origin=log.origin,
        ending=log.ending,
        framework=overrides.framework or log.framework or "unknown",
        micro_batch_size=overrides.batch_size or log.batch_size or names.batch_size(settings),
        samples=overrides.samples or names.samples(settings),
        epochs=overrides.epochs or log.epochs or names.epochs(settings),
        **_training(log, overrides, notes),
    )
    if not (profile.curve or profile.loss or profile.iteration_seconds or profile.run_seconds):
        raise ValueError("it contains no time, no loss and no metric of training")
    return profile, tuple(notes)


def _training(log: RunLog, overrides: RunOverrides, notes: list[str]) -> dict[str, Any]:
    """The fields of the Profile that are computed from scalars."""
    by_step, by_epoch = log.by_step, log.by_epoch
    loss = _loss_name(log, overrides, notes)
    timing = _timing_series(by_step, loss)
    length = overrides.iterations_per_epoch or log.iterations_per_epoch or _infer_iterations_per_epoch(by_step)
    run_iterations = log.run_iterations or _run_iterations(by_step, timing)
    if run_iterations is None and by_epoch and length:
        run_iterations = max(map(len, by_epoch.values())) * length
    times = _times(log, timing, length, notes)
    return {
        "iterations_per_epoch": length,
        "iteration_seconds": times.iteration_seconds[:MAX_ITERATIONS],
        "validation_seconds": log.validation_seconds or times.validation_seconds,
        "loss": _by_iteration(by_step.get(loss or "")),
        "learning_rate": _by_iteration(by_step.get(names.learning_rate(by_step) or "")),
        "curve": _curve(log, loss, length),
        "run_iterations": run_iterations,
        "run_seconds": _run_seconds(log),
    }


def _program(log: RunLog, overrides: RunOverrides) -> Program:
    """The program; if its command is unknown, it is named after the log, whose path is resolved to have a name."""
    source = log.source.resolve()
    folder = source if source.is_dir() else source.parent
    return Program(command=overrides.command or log.command or (source.name or str(source),), directory=str(folder))


def _host(log: RunLog, overrides: RunOverrides) -> Host:
    host = log.host or Host(name=overrides.on or "unknown")
    if overrides.on is None:
        return host
    gpus = 1 if overrides.gpu else host.gpus
    return replace(host, vm_type=overrides.on, gpu=overrides.gpu or host.gpu, gpus=gpus)


# The unit of the steps.


def _with_axis(log: RunLog, overrides: RunOverrides, notes: list[str]) -> RunLog:
    """The log with steps that count epochs moved to `by_epoch`."""
    if not log.by_step:
        return log
    axis = overrides.steps_are or log.axis or _infer_axis(log.by_step)
    if axis == "epochs":
        moved = {name: series for name, series in log.by_step.items() if not names.is_epoch(name)}
        by_epoch = Scalars()
        by_epoch.update({**moved, **log.by_epoch})
        return replace(log, by_step=Scalars(), by_epoch=by_epoch)
    if overrides.steps_are is None and log.counts_calls:
        notes.append(
            "each log() with a loss is taken to be one iteration; if it was an epoch, set steps_are to epochs."
        )
    elif axis is None and any(series.step_interval == 1 for series in log.by_step.values()):
        notes.append("each step is taken to be one iteration; if it was an epoch, set steps_are to epochs.")
    return log


def _infer_axis(by_step: Scalars) -> str | None:
    """Epochs if the logged epoch increases with the step or if every step has a validation, iterations if the steps are
    not consecutive or the logged epoch does not follow them; None if it cannot be decided."""
    numbers = next((series for name, series in by_step.items() if names.is_epoch(name)), None)
    if numbers is not None and len(numbers) > 1:
        offsets = {epoch - step for step, epoch in numbers.points}
        return "epochs" if offsets <= {0.0} or offsets <= {1.0} or offsets <= {-1.0} else "iterations"
    training_loss = by_step.get(names.training_loss(by_step) or "")
    if training_loss is None or len(training_loss) < 2:
        return None
    if training_loss.step_interval != 1:
        return "iterations"
    validated = {step for name, series in by_step.items() if names.is_validation(name) for step in series.steps}
    return "epochs" if validated.issuperset(training_loss.steps) else None


def _loss_name(log: RunLog, overrides: RunOverrides, notes: list[str]) -> str | None:
    known = {**log.by_epoch, **log.by_step}
    if overrides.loss is not None:
        if overrides.loss not in known:
            message = f"{log.source} has no {overrides.loss!r}; it has {enumerate_names(known)}."
            raise UsageError(message, field="loss")
        return overrides.loss
    found = names.training_loss(log.by_step) or names.training_loss(log.by_epoch)
    if found is None and (possible := names.possible_losses(known)):
        notes.append(f"the training loss is ambiguous; set loss to one of {enumerate_names(possible)}.")
    return found


# Times.


def _timing_series(by_step: Scalars, loss: str | None) -> ScalarSeries | None:
    """The series that times the iterations: the training loss, else the most frequent one not of a validation."""
    if loss is not None and loss in by_step:
        return by_step[loss]
    candidates = [
        series
        for name, series in by_step.items()
        if not names.is_validation(name) and not names.is_epoch(name) and not names.is_system_metric(name)
    ]
    return max(candidates, key=len, default=None)


def _times(
    log: RunLog, timing: ScalarSeries | None, iterations_per_epoch: int | None, notes: list[str]
) -> _MeasuredTimes:
    """Times by the timestamps of the steps, else by those of the epochs, if the iterations per epoch are known."""
    per_step = 1
    if timing is None and log.by_epoch and iterations_per_epoch:
        timing, per_step = _epoch_timing_series(log.by_epoch), iterations_per_epoch
    if timing is None:
        return _MeasuredTimes()
    timed, backwards = timing.timed_steps()
    if backwards:
        notes.append(f"the clock went backwards {_times_word(backwards)}; these times are left out.")
    if log.began is not None and len(timing) and timing.timestamps[0] > log.began:
        timed.insert(0, TimedSteps(log.began_steps or timing.step_interval or 1, log.began, timing.timestamps[0]))
    without_validation, with_validation = _split_by_validation(timed, log)
    if not without_validation:
        without_validation, with_validation = _less_validation(with_validation, log, notes), []
    iterations = tuple(pair.seconds / (pair.steps * per_step) for pair in without_validation)
    if not iterations:
        return _MeasuredTimes()
    if (iterations_per_time := (timing.step_interval or 1) * per_step) > 1:
        notes.append(
            f"a time was logged every {iterations_per_time} iterations: each time is the mean of as many iterations."
        )
    typical = median(iterations)
    extra = (pair.seconds - pair.steps * per_step * typical for pair in with_validation)
    return _MeasuredTimes(iterations, tuple(max(0.0, seconds) for seconds in extra))


def _split_by_validation(timed: list[TimedSteps], log: RunLog) -> tuple[list[TimedSteps], list[TimedSteps]]:
    """The pairs without and those with a validation between their points."""
    validations = sorted(
        timestamp
        for scalars in (log.by_step, log.by_epoch)
        for name, series in scalars.items()
        if names.is_validation(name)
        for timestamp in series.timestamps
        if not math.isnan(timestamp)
    )
    without_validation: list[TimedSteps] = []
    with_validation: list[TimedSteps] = []
    for pair in timed:
        at = bisect_right(validations, pair.start)
        is_validated = at < len(validations) and validations[at] <= pair.end
        (with_validation if is_validated else without_validation).append(pair)
    return without_validation, with_validation


def _less_validation(validated: list[TimedSteps], log: RunLog, notes: list[str]) -> list[TimedSteps]:
    """Pairs that all have a validation, without its time if the log tells it."""
    spent = fmean(log.validation_seconds) if log.validation_seconds else 0.0
    if spent and all(pair.seconds > spent for pair in validated):
        return [pair._replace(end=pair.end - spent) for pair in validated]
    if validated:
        notes.append("every logged time contains a validation, which is counted as part of the iterations.")
    return validated


def _epoch_timing_series(by_epoch: Scalars) -> ScalarSeries:
    return by_epoch.get(names.training_loss(by_epoch) or "") or max(by_epoch.values(), key=len)


def _run_iterations(by_step: Scalars, timing: ScalarSeries | None) -> int | None:
    """The iterations from the first logged step, including those before it that it stands for, to the last one."""
    if timing is None or not len(timing):
        return None
    before = min(timing.step_interval or 1, timing.steps[0] - timing.first_iteration + 1)
    last = max(series.last_step or 0 for name, series in by_step.items() if not names.is_system_metric(name))
    return max(1, last - timing.steps[0] + before)


def _run_seconds(log: RunLog) -> float | None:
    """The seconds of the run; None for a resumed run, because the time of its interruption is unknown."""
    if log.run_seconds:
        return log.run_seconds
    resumed = any(series.restarts for scalars in (log.by_step, log.by_epoch) for series in scalars.values())
    if log.started is None or log.ended is None or resumed or log.ended <= log.started:
        return None
    return log.ended - log.started


def _times_word(times: int) -> str:
    """`once`, `3 times`."""
    return "once" if times == 1 else f"{times} times"


def _note_restarts(log: RunLog, notes: list[str]) -> None:
    all_series = [*log.by_step.values(), *log.by_epoch.values()]
    if times := max((series.restarts for series in all_series), default=0):
        notes.append(f"steps were logged again {_times_word(times)}, as after a resume; the later values are used.")
    if any(series.is_truncated for series in all_series):
        notes.append("the log is longer than what is stored: the first part of its iterations is used.")


# Losses and epochs.


def _by_iteration(series: ScalarSeries | None) -> tuple[float | None, ...]:
    if series is None:
        return ()
    first = series.first_iteration
    known = {step - first: value for step, value in series.points if 0 <= step - first < MAX_ITERATIONS}
    return tuple(known.get(i) for i in range(max(known) + 1)) if known else ()


def _infer_iterations_per_epoch(by_step: Scalars) -> int | None:
    """Iterations per epoch by the epoch that is logged with the step; None if unknown.

    For a fractional epoch, steps / epoch. For an integer epoch, the distance from the last step of one epoch to that of
    the next, if it is the same at least twice or every step is logged.
    """
    numbers = next((series for name, series in by_step.items() if names.is_epoch(name)), None)
    if numbers is None or len(numbers) < 2:
        return None
    if any(not epoch.is_integer() for _, epoch in numbers.points):
        ratios = [step / epoch for step, epoch in numbers.points if epoch > 0 and step > 0]
        return round(ratios[-1]) if ratios and max(ratios) - min(ratios) <= 0.02 * ratios[-1] else None
    last_steps: dict[float, int] = {epoch: step for step, epoch in numbers.points}
    epochs = sorted(last_steps)
    distances = [last_steps[b] - last_steps[a] for a, b in pairwise(epochs) if b - a == 1]
    if numbers.step_interval == 1 and len(epochs) > 1:
        return distances[0] if distances else None
    complete = distances[:-1] if len(distances) > 2 and distances[-1] != distances[0] else distances
    return complete[0] if len(complete) >= 2 and len(set(complete)) == 1 else None


def _epoch_of_step(
    by_step: Scalars, timing: ScalarSeries | None, iterations_per_epoch: int | None
) -> EpochOfStep | None:
    numbers = next((series for name, series in by_step.items() if names.is_epoch(name)), None)
    if numbers is not None and (points := list(numbers.points)):
        return _epoch_by_logged_number(points)
    if iterations_per_epoch is None or timing is None:
        return None
    first, length = timing.first_iteration, iterations_per_epoch
    return lambda step: (step - first) // length + 1 if step >= first else None


def _epoch_by_logged_number(points: list[tuple[int, float]]) -> EpochOfStep:
    """The epoch by the logged epoch. A fraction is the progress of the run, so 0.5 and 1.0 are in the first epoch;
    integers count from 0 or 1."""
    steps = [step for step, _ in points]
    fractional = any(not epoch.is_integer() for _, epoch in points)
    shift = 0 if fractional or min(epoch for _, epoch in points) >= 1 else 1

    def number(step: int) -> int | None:
        if fractional:
            return max(1, math.ceil(points[min(bisect_left(steps, step), len(steps) - 1)][1]))
        return int(points[max(0, bisect_right(steps, step) - 1)][1]) + shift

    return number


def _curve(log: RunLog, loss: str | None, iterations_per_epoch: int | None) -> tuple[Epoch, ...]:
    by_epoch = _curve_by_epoch(log, loss)
    if by_epoch:
        return by_epoch
    timing = _timing_series(log.by_step, loss)
    epoch_of = _epoch_of_step(log.by_step, timing, iterations_per_epoch)
    if epoch_of is None:
        return ()
    is_logged = any(names.is_epoch(name) for name in log.by_step)
    return _curve_by_step(log.by_step, loss, epoch_of, None if is_logged else iterations_per_epoch)


def _curve_by_epoch(log: RunLog, loss: str | None) -> tuple[Epoch, ...]:
    scalars = log.by_epoch
    if not any(len(series) for series in scalars.values()):
        return ()
    lowest = min(series.steps[0] for series in scalars.values() if len(series))
    first = log.first_epoch if log.first_epoch is not None else min(1, lowest)
    own_loss = loss if loss in scalars else names.training_loss(scalars)
    seconds = _epoch_seconds(scalars, own_loss, log.began)
    table: dict[int, dict[str, float]] = {}
    for name, series in scalars.items():
        for step in series.steps:
            table.setdefault(step, {})
        if not names.is_system_metric(name) and not names.is_epoch(name):
            for step, value in series.points:
                table[step][_valid_text(name)] = value
    return tuple(
        Epoch(
            number=step - first + 1,
            seconds=seconds.get(step),
            loss=table[step].pop(_valid_text(own_loss), None) if own_loss else None,
            metrics=table[step],
        )
        for step in sorted(table)
        if step >= first
    )


def _epoch_seconds(scalars: Scalars, loss: str | None, began: float | None) -> dict[int, float]:
    """The seconds of each epoch by its step: the time since the previous epoch was logged."""
    series = scalars.get(loss or "") or _epoch_timing_series(scalars)
    timed, _ = series.timed_steps()
    if began is not None and len(series) and series.timestamps[0] > began:
        timed.insert(0, TimedSteps(1, began, series.timestamps[0]))
    ends = {timestamp: step for step, timestamp in zip(series.steps, series.timestamps, strict=True)}
    return {ends[pair.end]: pair.seconds for pair in timed if pair.steps == 1}


def _curve_by_step(by_step: Scalars, loss: str | None, epoch_of: EpochOfStep, length: int | None) -> tuple[Epoch, ...]:
    """The curve of a log by step; `length` is the length of an epoch, if the log has no epochs of its own."""
    losses: dict[int, list[float]] = {}
    metrics: dict[int, dict[str, float]] = {}
    ends: dict[int, float] = {}
    if loss is not None and loss in by_step:
        for number, value in _values_by_epoch(by_step[loss], epoch_of):
            losses.setdefault(number, []).append(value)
        if by_step[loss].step_interval == 1:
            _update_epoch_ends(ends, by_step[loss], epoch_of)
    for name, series in by_step.items():
        if names.is_validation(name) and not names.is_system_metric(name):
            epoch_of_validation = _epoch_before_validation(series, length) or epoch_of
            for number, value in _values_by_epoch(series, epoch_of_validation):
                metrics.setdefault(number, {})[_valid_text(name)] = value
            _update_epoch_ends(ends, series, epoch_of_validation)
    seconds = {} if any(series.restarts for series in by_step.values()) else _epoch_durations(ends)
    return tuple(
        Epoch(
            number=number,
            seconds=seconds.get(number),
            loss=fmean(losses[number]) if number in losses else None,
            metrics=metrics.get(number, {}),
        )
        for number in sorted(losses.keys() | metrics.keys())
    )


def _valid_text(name: str) -> str:
    """The name without bytes that are not valid Unicode, which a file name may contain."""
    return name.encode(errors="replace").decode()


def _values_by_epoch(series: ScalarSeries, epoch_of: EpochOfStep) -> Iterator[tuple[int, float]]:
    numbered = ((epoch_of(step), value) for step, value in series.points)
    return ((number, value) for number, value in numbered if number is not None and 0 < number < _MAX_EPOCHS)


def _update_epoch_ends(ends: dict[int, float], series: ScalarSeries, epoch_of: EpochOfStep) -> None:
    """Move the end of each epoch to its last timestamp: of a validation, or of a loss logged at every iteration."""
    for step, timestamp in zip(series.steps, series.timestamps, strict=True):
        if (number := epoch_of(step)) and not math.isnan(timestamp):
            ends[number] = max(timestamp, ends.get(number, timestamp))


def _epoch_durations(ends: Mapping[int, float]) -> dict[int, float]:
    """The seconds of each epoch for which the end of the previous one is known."""
    return {n: ends[n] - ends[n - 1] for n in ends if n - 1 in ends and ends[n] > ends[n - 1]}


def _epoch_before_validation(validation: ScalarSeries, length: int | None) -> EpochOfStep | None:
    """The epoch before a validation, if all validations are at multiples of the length of an epoch; else None."""
    if not length or any(step % length for step in validation.steps):
        return None
    return lambda step: step // length or None
