"""Scalars of a run: steps, timestamps and values."""

import math
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import mode
from typing import NamedTuple

MAX_POINTS = 200_000
"""Points of one scalar that are stored, 24 bytes each. Of the points after them only the last is remembered."""

_MAX_EXACT_INTEGER = 2**53
"""From here on a float cannot represent every integer."""

UNKNOWN = math.nan
"""A timestamp that was not logged; a value that is not a finite number."""


def parse_step(value: object) -> int | None:
    """The value as an integer step; None if it is not an integer, or too large for a step."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < _MAX_EXACT_INTEGER and value == int(value) else None


class TimedSteps(NamedTuple):
    """The steps from one logged point to a later one, without a gap in the clock or the steps."""

    steps: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class ScalarSeries:
    """One scalar in the order of its steps.

    A resumed run logs some steps again: the later points replace the earlier ones, and the time between the two parts,
    which is not the time of an iteration, is not in `timed_steps`.
    """

    __slots__ = ("_gaps", "_last", "_max_points", "restarts", "steps", "timestamps", "values")

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self.steps = array("q")
        self.timestamps = array("d")
        self.values = array("d")
        self.restarts = 0
        self._gaps: set[int] = set()
        self._last: tuple[int, float] | None = None
        self._max_points = max_points

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, value: float, timestamp: float = UNKNOWN) -> None:
        if self.steps and (step, value) == (self.steps[-1], self.values[-1]):
            return  # a repetition: Lightning and the Trainer log the epoch with every group of metrics
        self._last = (step, timestamp)
        if self.steps and step <= self.steps[-1]:
            self._drop_from(step)
            self.restarts += 1
            self._gaps.add(len(self.steps))
        if len(self.steps) < self._max_points:
            self.steps.append(step)
            self.timestamps.append(timestamp)
            self.values.append(value if math.isfinite(value) else UNKNOWN)

    def _drop_from(self, step: int) -> None:
        while self.steps and self.steps[-1] >= step:
            for column in (self.steps, self.timestamps, self.values):
                column.pop()
            self._gaps.discard(len(self.steps))

    @property
    def last_step(self) -> int | None:
        return self._last[0] if self._last else None

    @property
    def is_truncated(self) -> bool:
        """More points were logged than are stored."""
        return len(self.steps) == self._max_points and self.last_step != self.steps[-1]

    @property
    def points(self) -> Iterator[tuple[int, float]]:
        """Step and value of the points whose value is known."""
        return ((step, value) for step, value in zip(self.steps, self.values, strict=True) if not math.isnan(value))

    @property
    def step_interval(self) -> int | None:
        """The most frequent distance of two logged steps."""
        return mode(later - earlier for earlier, later in pairwise(self.steps)) if len(self.steps) > 1 else None

    @property
    def first_iteration(self) -> int:
        """The step of the first iteration, 0 or 1: 0 if step 0, or the last step of an interval from 0 on, was logged.

        Lightning logs steps 49, 99, … of a count from 0, others 50, 100, … of a count from 1.
        """
        if not self.steps or self.steps[0] == 0:
            return 0
        step_interval = self.step_interval or 1
        return 0 if step_interval > 1 and (self.steps[0] + 1) % step_interval == 0 else 1

    def timed_steps(self) -> tuple[list[TimedSteps], int]:
        """The steps between neighbouring points, and the number of pairs left out because the clock went backwards.

        Points with the same timestamp are joined with the next later one: the clock is coarser than the steps.
        """
        found: list[TimedSteps] = []
        backwards, steps, start = 0, 0, UNKNOWN
        for i, (step, timestamp) in enumerate(zip(self.steps, self.timestamps, strict=True)):
            if i in self._gaps or math.isnan(start) or math.isnan(timestamp):
                steps, start = 0, timestamp
                continue
            steps += step - self.steps[i - 1]
            if timestamp > start:
                found.append(TimedSteps(steps, start, timestamp))
            elif timestamp < start:
                backwards += 1
            else:
                continue
            steps, start = 0, timestamp
        return found, backwards


class Scalars(dict[str, ScalarSeries]):
    """Scalar series by the names that the program gave them."""

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        super().__init__()
        self._max_points = max_points

    def add(self, name: str, step: int, value: float, timestamp: float = UNKNOWN) -> None:
        if name not in self:
            self[name] = ScalarSeries(self._max_points)
        self[name].add(step, value, timestamp)

    def only(self, names: Iterable[str]) -> "Scalars":
        chosen = Scalars(self._max_points)
        chosen.update({name: self[name] for name in names if name in self})
        return chosen
