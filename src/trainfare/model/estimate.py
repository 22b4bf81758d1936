"""A belief about a Candidate: how long, how much, how sure, and why we believe it."""

import math
from dataclasses import dataclass
from typing import Literal

from trainfare.model.bill import Bill
from trainfare.model.checks import require_positive, require_text
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate

Basis = Literal["measured", "scaled", "extrapolated"]
"""Measured on that machine; scaled from another machine; extrapolated from the operations alone."""

PhaseName = Literal[
    "boot",
    "setup",
    "initialisation",
    "first iteration",
    "steady iterations",
    "validation",
    "checkpoints",
    "spot rework",
    "storage",
]

Bottleneck = Literal["compute", "memory bandwidth", "launches", "data", "network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the time that is charged."""

    name: PhaseName
    seconds: Interval
    how: str | None = None
    """How it comes about, with its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Does it fit in the memory of one GPU (of the host, where there is none)?"""

    needed_gib: Interval
    available_gib: float

    def __post_init__(self) -> None:
        require_positive(available_gib=self.available_gib)

    @property
    def verdict(self) -> Literal["fits", "tight", "does not fit"]:
        """Tight is when the interval of what is needed holds what is available."""
        if self.needed_gib.high <= self.available_gib:
            return "fits"
        return "tight" if self.needed_gib.low <= self.available_gib else "does not fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds and dollars of training `epochs` epochs on a Candidate."""

    candidate: Candidate
    profile_id: str
    """The profile it leans on."""
    epochs: int
    basis: Basis
    iteration_seconds: Interval
    phases: tuple[Phase, ...]
    seconds: Interval
    usd: Interval
    limited_by: Bottleneck | None = None
    memory: MemoryFit | None = None
    bill: Bill | None = None
    """Line by line; plans of before there were bills have none."""
    interruptions: Interval | None = None
    """How many are expected; None where the market does not interrupt."""
    checkpoint_every_seconds: float | None = None
    """The work between two checkpoints that the interruptions are reckoned with."""
    epochs_interval: Interval | None = None
    """How many may be needed, where `epochs` are only expected: `seconds` and `usd` allow for it. None where they are
    stated, and in plans of before."""

    def __post_init__(self) -> None:
        if not self._is_told():  # thousands are made for one table: say what is wrong only where something is
            require_text(profile_id=self.profile_id)
            require_positive(
                epochs=self.epochs,
                seconds=self.seconds.value,
                usd=self.usd.value,
                checkpoint_every_seconds=self.checkpoint_every_seconds,
            )
        names, total = set(), 0.0
        for phase in self.phases:
            names.add(phase.name)
            total += phase.seconds.value
        if len(names) != len(self.phases):
            raise ValueError("a phase may occur only once")
        if not math.isclose(total, self.seconds.value, rel_tol=1e-6):
            raise ValueError(f"the phases add up to {total} s, not to {self.seconds.value} s")
        if self.epochs_interval is not None and self.epochs_interval.value != self.epochs:
            raise ValueError(f"the interval is of {self.epochs_interval.value:g} epochs, not of {self.epochs}")
        if self.bill is not None and self.bill.usd != self.usd:
            raise ValueError(f"the bill is {self.bill.usd.value} $, not {self.usd.value} $")

    def _is_told(self) -> bool:
        """It has a profile, and numbers above nothing; those of an Interval are finite."""
        every = self.checkpoint_every_seconds
        return (
            self.profile_id.isascii()
            and not self.profile_id.isspace()
            and self.profile_id != ""
            and 0 < self.epochs < math.inf
            and self.seconds.value > 0
            and self.usd.value > 0
            and (every is None or 0 < every < math.inf)
        )

    @property
    def fits(self) -> bool | None:
        """None where nobody knows how much memory is needed."""
        return None if self.memory is None else self.memory.verdict != "does not fit"
