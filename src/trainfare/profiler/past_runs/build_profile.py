"""From what a run logged to a Profile: nothing is in it that the log or the user did not say.

Time of an iteration
    Two points of the training loss k steps and s seconds apart say that an iteration took s / k. Each such pair gives
    one entry of `iteration_seconds`: with k = 1 an entry is an iteration, with k > 1 it is the mean of k of them. Where
    only epochs were logged, k is their length. The first logged step only starts the clock. A pair with a validation
    between its points gives no entry; what it took beyond k median iterations goes into `validation_seconds`, with
    whatever else the program did there.
Loss and learning rate
    One entry an iteration, None for those that were not logged.
Curve
    Where the log tells, or the user says, to which epoch a step belongs: the mean of the losses of the epoch and the
    last value of each validation metric.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Profile
from trainfare.model.program import Program
from trainfare.profiler.past_runs import metric_names as names
from trainfare.profiler.past_runs.run_log import Logged, Stated
from trainfare.profiler.past_runs.series import Scalars, Series, Stretch

MOST_ITERATIONS = 100_000
"""Of which losses are kept: a profile is a document, and twenty epochs of ImageNet are in it."""

_MOST_EPOCHS = 2**31
"""More is not an epoch that someone counted."""

EpochOf = Callable[[int], int | None]
"""The number of the epoch, from 1 on, to which a step belongs."""


@dataclass(frozen=True, slots=True)
class Times:
    iteration_seconds: tuple[float, ...] = ()
    validation_seconds: tuple[float, ...] = ()


def profile_of(logged: Logged, stated: Stated, *, id: str) -> tuple[Profile, tuple[str, ...]]:  # noqa: A002 its name
    """The Profile, and sentences on what was decided or left out on the way.

    ValueError where nothing of training is in the log, or not the loss that was named.
    """
    notes = list(logged.notes)
    logged = _with_its_axis(logged, stated, notes)
    _note_restarts(logged, notes)
    settings = logged.settings
    profile = Profile(
        id=id,
        program=_program(logged, stated),
        host=_host(logged, stated),
        measured_at=logged.ended_at,
        origin=logged.origin,
        ending=logged.ending,
        framework=stated.framework or logged.framework or "unknown",
        micro_batch_size=stated.batch_size or logged.batch_size or names.batch_size(settings),
        samples=stated.samples or names.samples(settings),
        epochs=stated.epochs or logged.epochs or names.epochs(settings),
        **_training(logged, stated, notes),
    )
    if not (profile.curve or profile.loss or profile.iteration_seconds or profile.run_seconds):
        raise ValueError("no time, no loss and no metric of training is in it")
    return profile, tuple(notes)


def _training(logged: Logged, stated: Stated, notes: list[str]) -> dict[str, Any]:
    """The fields that are read from scalars."""
    by_step, by_epoch = logged.by_step, logged.by_epoch
    loss = _loss_name(logged, stated, notes)
    clock = _clock(by_step, loss)
    length = stated.iterations_per_epoch or logged.iterations_per_epoch or _found_iterations_per_epoch(by_step)
    run_iterations = logged.run_iterations or _iterations_in(by_step, clock)
    if run_iterations is None and by_epoch and length:
        run_iterations = max(map(len, by_epoch.values())) * length
    times = _times(logged, clock, length, notes)
    return {
        "iterations_per_epoch": length,
        "iteration_seconds": times.iteration_seconds[:MOST_ITERATIONS],
        "validation_seconds": logged.validation_seconds or times.validation_seconds,
        "loss": _by_iteration(by_step.get(loss or "")),
        "learning_rate": _by_iteration(by_step.get(names.learning_rate(by_step) or "")),
        "curve": _curve(logged, loss, length),
        "run_iterations": run_iterations,
        "run_seconds": _run_seconds(logged),
    }


def _program(logged: Logged, stated: Stated) -> Program:
    """Where nobody says what was started, it is named after the log; `.` has a name once it is resolved."""
    source = logged.source.resolve()
    folder = source if source.is_dir() else source.parent
    return Program(command=stated.command or logged.command or (source.name or str(source),), directory=str(folder))


def _host(logged: Logged, stated: Stated) -> Host:
    host = logged.host or Host(name=stated.on or "unknown")
    return replace(host, vm_type=stated.on) if stated.on else host


# What do steps count?


def _with_its_axis(logged: Logged, stated: Stated, notes: list[str]) -> Logged:
    """Steps that are epochs move to where epochs are."""
    if not logged.by_step:
        return logged
    axis = stated.steps_are or logged.axis or _evident_axis(logged.by_step)
    if axis == "epochs":
        moved = {name: series for name, series in logged.by_step.items() if not names.is_epoch(name)}
        by_epoch = Scalars()
        by_epoch.update({**moved, **logged.by_epoch})
        return replace(logged, by_step=Scalars(), by_epoch=by_epoch)
    if stated.steps_are is None and logged.counts_calls:
        notes.append("each log() with a loss is taken to be one iteration; if it was an epoch, say --steps-are epochs.")
    elif axis is None and any(series.every == 1 for series in logged.by_step.values()):
        notes.append("each step is taken to be one iteration; if it was an epoch, say --steps-are epochs.")
    return logged


def _evident_axis(by_step: Scalars) -> str | None:
    """Epochs, where the epoch is logged and moves with the step, or where every single step was validated."""
    numbers = next((series for name, series in by_step.items() if names.is_epoch(name)), None)
    if numbers is not None and len(numbers) > 1:
        apart = {epoch - step for step, epoch in numbers.points}
        return "epochs" if apart <= {0.0} or apart <= {1.0} or apart <= {-1.0} else "iterations"
    trained = by_step.get(names.training_loss(by_step) or "")
    if trained is None or len(trained) < 2:
        return None
    if trained.every != 1:
        return "iterations"
    validated = {step for name, series in by_step.items() if names.is_validation(name) for step in series.steps}
    return "epochs" if validated.issuperset(trained.steps) else None


def _loss_name(logged: Logged, stated: Stated, notes: list[str]) -> str | None:
    known = {**logged.by_epoch, **logged.by_step}
    if stated.loss is not None:
        if stated.loss not in known:
            raise ValueError(f"it has no {stated.loss!r}; it has {_listed(known)}. Name one with --loss")
        return stated.loss
    found = names.training_loss(logged.by_step) or names.training_loss(logged.by_epoch)
    if found is None and (possible := names.possible_losses(known)):
        notes.append(f"which is the training loss? Say it with --loss: {_listed(possible)}.")
    return found


def _listed(found: object, most: int = 8) -> str:
    every = [str(name) for name in found] if isinstance(found, Mapping | list) else []
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


# Times


def _clock(by_step: Scalars, loss: str | None) -> Series | None:
    """The training loss, else what was logged most often; a validation is no iteration."""
    if loss is not None and loss in by_step:
        return by_step[loss]
    own = [
        series
        for name, series in by_step.items()
        if not names.is_validation(name) and not names.is_epoch(name) and not names.is_of_the_machine(name)
    ]
    return max(own, key=len, default=None)


def _times(logged: Logged, clock: Series | None, iterations_per_epoch: int | None, notes: list[str]) -> Times:
    """From the clock of the steps; else from that of the epochs, where it is known how many iterations those have."""
    per_step = 1
    if clock is None and logged.by_epoch and iterations_per_epoch:
        clock, per_step = _epoch_clock(logged.by_epoch), iterations_per_epoch
    if clock is None:
        return Times()
    stretches, backwards = clock.stretches()
    if backwards:
        notes.append(f"the clock went backwards {_often(backwards)}; the time there is left out.")
    if logged.began is not None and len(clock) and clock.moments[0] > logged.began:
        stretches.insert(0, Stretch(logged.began_steps or clock.every or 1, logged.began, clock.moments[0]))
    plain, mixed = _without_and_with_validation(stretches, logged)
    iterations = tuple(stretch.seconds / (stretch.steps * per_step) for stretch in plain)
    if not iterations:
        return Times()
    if (together := (clock.every or 1) * per_step) > 1:
        notes.append(f"a time was logged every {together} iterations: each of the times is their mean.")
    usual = median(iterations)
    beyond = (stretch.seconds - stretch.steps * per_step * usual for stretch in mixed)
    return Times(iterations, tuple(max(0.0, seconds) for seconds in beyond))


def _without_and_with_validation(stretches: list[Stretch], logged: Logged) -> tuple[list[Stretch], list[Stretch]]:
    validations = sorted(
        moment
        for scalars in (logged.by_step, logged.by_epoch)
        for name, series in scalars.items()
        if names.is_validation(name)
        for moment in series.moments
        if not math.isnan(moment)
    )
    plain: list[Stretch] = []
    mixed: list[Stretch] = []
    for stretch in stretches:
        at = bisect_right(validations, stretch.start)
        (mixed if at < len(validations) and validations[at] <= stretch.end else plain).append(stretch)
    return plain, mixed


def _epoch_clock(by_epoch: Scalars) -> Series:
    return by_epoch.get(names.training_loss(by_epoch) or "") or max(by_epoch.values(), key=len)


def _iterations_in(by_step: Scalars, clock: Series | None) -> int | None:
    """From the first logged step to the last of all, with those that the first one stands for."""
    if clock is None or not len(clock):
        return None
    before = min(clock.every or 1, clock.steps[0] - clock.first_iteration + 1)
    last = max(series.last_step or 0 for name, series in by_step.items() if not names.is_of_the_machine(name))
    return max(1, last - clock.steps[0] + before)


def _run_seconds(logged: Logged) -> float | None:
    """Not of a run that was resumed: nobody noted how long it rested."""
    if logged.run_seconds:
        return logged.run_seconds
    resumed = any(series.restarts for scalars in (logged.by_step, logged.by_epoch) for series in scalars.values())
    if logged.started is None or logged.ended is None or resumed or logged.ended <= logged.started:
        return None
    return logged.ended - logged.started


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _note_restarts(logged: Logged, notes: list[str]) -> None:
    every = [*logged.by_step.values(), *logged.by_epoch.values()]
    if times := max((series.restarts for series in every), default=0):
        notes.append(f"steps were logged again {_often(times)}, as after a resume; the later ones are kept.")
    if any(series.is_cut for series in every):
        notes.append("the log is longer than what is kept of it: the first part of its iterations was taken.")


# Losses and epochs


def _by_iteration(series: Series | None) -> tuple[float | None, ...]:
    if series is None:
        return ()
    first = series.first_iteration
    known = {step - first: value for step, value in series.points if 0 <= step - first < MOST_ITERATIONS}
    return tuple(known.get(i) for i in range(max(known) + 1)) if known else ()


def _found_iterations_per_epoch(by_step: Scalars) -> int | None:
    """From the epoch that is logged beside the step.

    Where it is a fraction, steps / epoch. Where it is whole, the distance from the last step of one epoch to that of
    the next: the same at least twice, or seen step by step.
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
    if numbers.every == 1 and len(epochs) > 1:
        return distances[0] if distances else None
    complete = distances[:-1] if len(distances) > 2 and distances[-1] != distances[0] else distances
    return complete[0] if len(complete) >= 2 and len(set(complete)) == 1 else None


def _epoch_of(by_step: Scalars, clock: Series | None, iterations_per_epoch: int | None) -> EpochOf | None:
    numbers = next((series for name, series in by_step.items() if names.is_epoch(name)), None)
    if numbers is not None and (points := list(numbers.points)):
        return _by_logged_epoch(points)
    if iterations_per_epoch is None or clock is None:
        return None
    first, length = clock.first_iteration, iterations_per_epoch
    return lambda step: (step - first) // length + 1 if step >= first else None


def _by_logged_epoch(points: list[tuple[int, float]]) -> EpochOf:
    """A fraction says how far the run is, so 0.5 and 1.0 are of the first epoch; whole numbers count from 0 or 1."""
    steps = [step for step, _ in points]
    in_part = any(not epoch.is_integer() for _, epoch in points)
    shift = 0 if in_part or min(epoch for _, epoch in points) >= 1 else 1

    def number(step: int) -> int | None:
        if in_part:
            return max(1, math.ceil(points[min(bisect_left(steps, step), len(steps) - 1)][1]))
        return int(points[max(0, bisect_right(steps, step) - 1)][1]) + shift

    return number


def _curve(logged: Logged, loss: str | None, iterations_per_epoch: int | None) -> tuple[Epoch, ...]:
    by_epoch = _curve_by_epoch(logged, loss)
    if by_epoch:
        return by_epoch
    clock = _clock(logged.by_step, loss)
    epoch_of = _epoch_of(logged.by_step, clock, iterations_per_epoch)
    if epoch_of is None:
        return ()
    is_logged = any(names.is_epoch(name) for name in logged.by_step)
    return _curve_by_step(logged.by_step, loss, epoch_of, None if is_logged else iterations_per_epoch)


def _curve_by_epoch(logged: Logged, loss: str | None) -> tuple[Epoch, ...]:
    scalars = logged.by_epoch
    if not any(len(series) for series in scalars.values()):
        return ()
    lowest = min(series.steps[0] for series in scalars.values() if len(series))
    first = logged.first_epoch if logged.first_epoch is not None else min(1, lowest)
    own_loss = loss if loss in scalars else names.training_loss(scalars)
    seconds = _epoch_seconds(scalars, own_loss, logged.began)
    table: dict[int, dict[str, float]] = {}
    for name, series in scalars.items():
        for step in series.steps:
            table.setdefault(step, {})
        if not names.is_of_the_machine(name) and not names.is_epoch(name):
            for step, value in series.points:
                table[step][_text(name)] = value
    return tuple(
        Epoch(
            number=step - first + 1,
            seconds=seconds.get(step),
            loss=table[step].pop(_text(own_loss), None) if own_loss else None,
            metrics=table[step],
        )
        for step in sorted(table)
        if step >= first
    )


def _epoch_seconds(scalars: Scalars, loss: str | None, began: float | None) -> dict[int, float]:
    """By step: the time since the epoch before was logged."""
    series = scalars.get(loss or "") or _epoch_clock(scalars)
    stretches, _ = series.stretches()
    if began is not None and len(series) and series.moments[0] > began:
        stretches.insert(0, Stretch(1, began, series.moments[0]))
    ends = {moment: step for step, moment in zip(series.steps, series.moments, strict=True)}
    return {ends[stretch.end]: stretch.seconds for stretch in stretches if stretch.steps == 1}


def _curve_by_step(by_step: Scalars, loss: str | None, epoch_of: EpochOf, length: int | None) -> tuple[Epoch, ...]:
    """`length` is that of an epoch where nothing but it tells the epoch of a step."""
    losses: dict[int, list[float]] = {}
    metrics: dict[int, dict[str, float]] = {}
    ends: dict[int, float] = {}
    if loss is not None and loss in by_step:
        for number, value in _by_number(by_step[loss], epoch_of):
            losses.setdefault(number, []).append(value)
        if by_step[loss].every == 1:
            _note_ends(ends, by_step[loss], epoch_of)
    for name, series in by_step.items():
        if names.is_validation(name) and not names.is_of_the_machine(name):
            number_of = _epoch_ended_by(series, length) or epoch_of
            for number, value in _by_number(series, number_of):
                metrics.setdefault(number, {})[_text(name)] = value
            _note_ends(ends, series, number_of)
    seconds = {} if any(series.restarts for series in by_step.values()) else _distances(ends)
    return tuple(
        Epoch(
            number=number,
            seconds=seconds.get(number),
            loss=fmean(losses[number]) if number in losses else None,
            metrics=metrics.get(number, {}),
        )
        for number in sorted(losses.keys() | metrics.keys())
    )


def _text(name: str) -> str:
    """A name of a file may hold bytes that no document can."""
    return name.encode(errors="replace").decode()


def _by_number(series: Series, epoch_of: EpochOf) -> Iterator[tuple[int, float]]:
    numbered = ((epoch_of(step), value) for step, value in series.points)
    return ((number, value) for number, value in numbered if number is not None and 0 < number < _MOST_EPOCHS)


def _note_ends(ends: dict[int, float], series: Series, epoch_of: EpochOf) -> None:
    """The last moment of each epoch: of a validation, or of a loss that every iteration logged."""
    for step, moment in zip(series.steps, series.moments, strict=True):
        if (number := epoch_of(step)) and not math.isnan(moment):
            ends[number] = max(moment, ends.get(number, moment))


def _distances(ends: Mapping[int, float]) -> dict[int, float]:
    """The time of each epoch whose predecessor's end is known as well."""
    return {n: ends[n] - ends[n - 1] for n in ends if n - 1 in ends and ends[n] > ends[n - 1]}


def _epoch_ended_by(validation: Series, length: int | None) -> EpochOf | None:
    """A validation after each epoch is logged at a whole number of epochs where steps count what is done."""
    if not length or any(step % length for step in validation.steps):
        return None
    return lambda step: step // length or None
