"""Use case: the curves of a run for people who watch it: its loss by iteration, and the use of its machine by time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from trainfare.model.run import Observation
from trainfare.runner.seen import number_in
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history

MOST_POINTS = 240
"""Points of a curve: more than a page has pixels for are not sent."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The loss of an iteration, or the mean of several around it."""

    iteration: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """The use of the first machine at one moment; None where it was not measured."""

    at: datetime
    cpu_cores: float | None
    """The CPUs that were busy since the reading before."""
    memory_bytes: float | None
    gpu_percent: float | None
    gpu_memory_bytes: float | None
    read_bytes_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of the current attempt, thinned evenly."""

    loss: tuple[LossPoint, ...] = ()
    machine: tuple[MachineUse, ...] = ()


class CurveReader:
    """Reads the curves of one run as they grow: each look reads only entries that are new since the last one."""

    def __init__(self, history: History, run_id: str) -> None:
        self._history, self._run_id = history, run_id
        self._attempt = self._last = 0
        self._losses: list[LossPoint] = []
        self._meters: list[Observation] = []

    def read(self, attempt: int) -> Curves:
        if attempt != self._attempt:
            self._attempt, self._last, self._losses, self._meters = attempt, 0, [], []
        if not attempt:
            return Curves()
        new = self._history.observations.of(
            self._run_id, kinds=("losses", "meter"), attempt=attempt, node=0, after=self._last
        )
        for entry in new:
            self._last = max(self._last, entry.number)
            if entry.kind == "meter":
                self._meters.append(entry)
            else:
                self._losses += _points(entry)
        if len(self._losses) > 8 * MOST_POINTS:  # a run of weeks must not fill the memory of the server
            self._losses = _thin(self._losses, 4 * MOST_POINTS)
        if len(self._meters) > 8 * MOST_POINTS:
            self._meters = self._meters[:1] + self._meters[1::2]
        return Curves(loss=tuple(_thin(self._losses, MOST_POINTS)), machine=tuple(_uses(self._meters)))


def read_curves(run_id: str, attempt: int, *, settings: Settings | None = None) -> Curves:
    """The curves of an attempt of a run up to now."""
    with open_existing_history((settings or read_settings()).store) as history:
        return CurveReader(history, run_id).read(attempt)


def _points(entry: Observation) -> Iterable[LossPoint]:
    """The losses of an entry, which has means of groups of equal size but for the last."""
    values, count = entry.values.get("values"), number_in(entry, "count") or 0.0
    first = number_in(entry, "first") or 0.0
    if not isinstance(values, list) or not values:
        return
    size = max(1.0, count / len(values))
    for place, value in enumerate(values):
        if value is not None:
            yield LossPoint(int(first + place * size), value)


def _thin(points: Sequence[LossPoint], most: int) -> list[LossPoint]:
    """At most so many points: the mean of each group of neighbours, at the place of its last."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    groups = (points[place : place + size] for place in range(0, len(points), size))
    return [LossPoint(group[-1].iteration, sum(each.loss for each in group) / len(group)) for group in groups]


def _uses(meters: Sequence[Observation]) -> Iterable[MachineUse]:
    """The use between readings. Counters grow: what is shown is their growth by the time between."""
    step = max(1, len(meters) // MOST_POINTS)
    chosen = meters[::step]
    for before, after in pairwise(chosen):
        seconds = (after.at - before.at).total_seconds()
        yield MachineUse(
            at=after.at,
            cpu_cores=_rate(before, after, "cpu_seconds", seconds),
            memory_bytes=number_in(after, "memory_bytes"),
            gpu_percent=number_in(after, "gpu_percent"),
            gpu_memory_bytes=number_in(after, "gpu_memory_bytes"),
            read_bytes_per_second=_rate(before, after, "read_bytes", seconds),
        )


def _rate(before: Observation, after: Observation, name: str, seconds: float) -> float | None:
    first, last = number_in(before, name), number_in(after, name)
    return None if first is None or last is None or seconds <= 0 else max(0.0, last - first) / seconds
