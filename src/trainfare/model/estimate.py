"""Estimates: the predicted time and cost of a Candidate, with their uncertainty and their basis."""

import math
from dataclasses import dataclass
from typing import Literal

from trainfare.model.bill import Bill
from trainfare.model.checks import require_positive, require_text
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate

Basis = Literal["measured", "scaled", "extrapolated"]
"""The evidence of an estimate: the program was measured on that machine; it is scaled from another machine; or it is
extrapolated from the operations alone."""

PhaseName = Literal[
    "boot",
    "setup",
    "initialisation",
    "first iteration",
    "steady iterations",
    "validation",
    "checkpoints",
    "spot rework",
    "collecting",
    "storage",
]

Bottleneck = Literal["compute", "memory bandwidth", "launches", "data", "network"]
"""The resource that limits the speed of an iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One part of the time that is charged."""

    name: PhaseName
    seconds: Interval
    how: str | None = None
    """An explanation with its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """The memory that a training needs on one GPU, or on the host if there is no GPU, and the memory that is there."""

    needed_gib: Interval
    available_gib: float

    def __post_init__(self) -> None:
        require_positive(available_gib=self.available_gib)

    def of_a_run(self) -> "MemoryFit":
        """The same for a program that ran there: it needs no more than there is."""
        low, value, high = (
            min(gib, self.available_gib) for gib in (self.needed_gib.low, self.needed_gib.value, self.needed_gib.high)
        )
        return MemoryFit(needed_gib=Interval(value=value, low=low, high=high), available_gib=self.available_gib)

    @property
    def verdict(self) -> Literal["fits", "tight", "does not fit"]:
        """A need above the available memory does not fit. Tight: it fits, but the high end of the need does not."""
        if self.needed_gib.high <= self.available_gib:
            return "fits"
        return "tight" if self.needed_gib.value <= self.available_gib else "does not fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The time and cost of training `epochs` epochs on a Candidate."""

    candidate: Candidate
    profile_id: str
    """The profile on which it is based."""
    epochs: int
    basis: Basis
    iteration_seconds: Interval
    phases: tuple[Phase, ...]
    seconds: Interval
    usd: Interval
    limited_by: Bottleneck | None = None
    memory: MemoryFit | None = None
    bill: Bill | None = None
    """The cost line by line; None in plans that were stored before bills existed."""
    interruptions: Interval | None = None
    """The expected number of interruptions; None if the market does not interrupt."""
    checkpoint_every_seconds: float | None = None
    """The work between two checkpoints that is assumed for interruptions."""
    epochs_interval: Interval | None = None
    """The uncertainty of the number of epochs, which `seconds` and `usd` include. None if the number was given, and in
    plans that were stored before this field existed."""
    iterations: int | None = None
    """Iterations in all; the last of the epochs may be incomplete. None in plans stored before this field existed."""
    tokens_per_sample: int | None = None
    """The length of the sequences of a language model."""

    def __post_init__(self) -> None:
        if not self._has_valid_fields():  # thousands are made for one table: messages are built only if needed
            require_text(profile_id=self.profile_id)
            require_positive(
                epochs=self.epochs,
                seconds=self.seconds.value,
                checkpoint_every_seconds=self.checkpoint_every_seconds,
            )
        names, total = set(), 0.0
        for phase in self.phases:
            names.add(phase.name)
            total += phase.seconds.value
        if len(names) != len(self.phases):
            raise ValueError("a phase must occur only once")
        if not math.isclose(total, self.seconds.value, rel_tol=1e-6):
            raise ValueError(f"the phases add up to {total} s, not to {self.seconds.value} s")
        if self.epochs_interval is not None and self.epochs_interval.value != self.epochs:
            raise ValueError(f"epochs_interval is of {self.epochs_interval.value:g} epochs, not of {self.epochs}")
        if self.bill is not None and self.bill.usd != self.usd:
            raise ValueError(f"the bill is {self.bill.usd.value} usd, not {self.usd.value} usd")

    def _has_valid_fields(self) -> bool:
        """True if it has a profile and positive numbers; those of an Interval are finite."""
        every = self.checkpoint_every_seconds
        return (
            self.profile_id.isascii()
            and not self.profile_id.isspace()
            and self.profile_id != ""
            and 0 < self.epochs < math.inf
            and self.seconds.value > 0
            and (every is None or 0 < every < math.inf)
        )

    @property
    def samples_per_second(self) -> float | None:
        """Samples of steady iterations by the time of one; None if the batch size is unknown."""
        size = self.candidate.batch_size
        return None if size is None else size / self.iteration_seconds.value

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of steady iterations by the time of one; None if it is no language model."""
        rate = self.samples_per_second
        return None if rate is None or self.tokens_per_sample is None else rate * self.tokens_per_sample

    @property
    def fits(self) -> bool | None:
        """True if the training fits in memory; None if the needed memory is unknown."""
        return None if self.memory is None else self.memory.verdict != "does not fit"
