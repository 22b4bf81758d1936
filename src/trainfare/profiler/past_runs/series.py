"""Scalars as a run logged them: step, moment, value."""

import math
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import mode
from typing import NamedTuple

MOST_POINTS = 200_000
"""Of one scalar that are held; 24 bytes each. Of the others only the last is remembered."""

_FARTHEST = 2**53
"""Beyond it a float does not count by ones."""

UNKNOWN = math.nan
"""As a moment: nobody noted it. As a value: it was not a number, or not finite."""


def whole_step(value: object) -> int | None:
    """A number that counts something; None for a fraction, and for what no run ever reaches."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < _FARTHEST and value == int(value) else None


class Stretch(NamedTuple):
    """From one logged step to a later one, without a gap in the clock or the steps between them."""

    steps: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Series:
    """One scalar in the order of its steps.

    A run that was resumed logs steps again: the later ones are kept, and the time between the two parts, which is
    no time of an iteration, belongs to no stretch.
    """

    __slots__ = ("_cuts", "_last", "_most", "moments", "restarts", "steps", "values")

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self.steps = array("q")
        self.moments = array("d")
        self.values = array("d")
        self.restarts = 0
        self._cuts: set[int] = set()
        self._last: tuple[int, float] | None = None
        self._most = most_points

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, value: float, moment: float = UNKNOWN) -> None:
        if self.steps and (step, value) == (self.steps[-1], self.values[-1]):
            return  # said twice, as Lightning and the Trainer say the epoch beside every group of metrics
        self._last = (step, moment)
        if self.steps and step <= self.steps[-1]:
            self._forget_from(step)
            self.restarts += 1
            self._cuts.add(len(self.steps))
        if len(self.steps) < self._most:
            self.steps.append(step)
            self.moments.append(moment)
            self.values.append(value if math.isfinite(value) else UNKNOWN)

    def _forget_from(self, step: int) -> None:
        while self.steps and self.steps[-1] >= step:
            for column in (self.steps, self.moments, self.values):
                column.pop()
            self._cuts.discard(len(self.steps))

    @property
    def last_step(self) -> int | None:
        return self._last[0] if self._last else None

    @property
    def is_cut(self) -> bool:
        """More was logged than is held."""
        return len(self.steps) == self._most and self.last_step != self.steps[-1]

    @property
    def points(self) -> Iterator[tuple[int, float]]:
        """Step and value of those that have one."""
        return ((step, value) for step, value in zip(self.steps, self.values, strict=True) if not math.isnan(value))

    @property
    def every(self) -> int | None:
        """The usual distance of two logged steps."""
        return mode(later - earlier for earlier, later in pairwise(self.steps)) if len(self.steps) > 1 else None

    @property
    def first_iteration(self) -> int:
        """The step of the first iteration, 0 or 1: 0 where step 0, or the end of a round that began at 0, was logged.

        Lightning logs steps 49, 99, … of a count from 0, others 50, 100, … of a count from 1.
        """
        if not self.steps or self.steps[0] == 0:
            return 0
        every = self.every or 1
        return 0 if every > 1 and (self.steps[0] + 1) % every == 0 else 1

    def stretches(self) -> tuple[list[Stretch], int]:
        """Between neighbouring points, and how many were left out because the clock went backwards.

        Points at the same moment are joined to the next later one: the clock is coarser than the steps.
        """
        found: list[Stretch] = []
        backwards, steps, start = 0, 0, UNKNOWN
        for i, (step, moment) in enumerate(zip(self.steps, self.moments, strict=True)):
            if i in self._cuts or math.isnan(start) or math.isnan(moment):
                steps, start = 0, moment
                continue
            steps += step - self.steps[i - 1]
            if moment > start:
                found.append(Stretch(steps, start, moment))
            elif moment < start:
                backwards += 1
            else:
                continue
            steps, start = 0, moment
        return found, backwards


class Scalars(dict[str, Series]):
    """By the names that the program gave them."""

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        super().__init__()
        self._most = most_points

    def add(self, name: str, step: int, value: float, moment: float = UNKNOWN) -> None:
        if name not in self:
            self[name] = Series(self._most)
        self[name].add(step, value, moment)

    def only(self, names: Iterable[str]) -> "Scalars":
        chosen = Scalars(self._most)
        chosen.update({name: self[name] for name in names if name in self})
        return chosen
