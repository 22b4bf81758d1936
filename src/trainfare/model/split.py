"""A split plan: the first epochs on one machine, then a migration, then the other epochs on another machine.

Sanghvi calls the two segments of such a training its phases.
"""

import math
from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval

MigrationBasis = Literal["measured", "assumed", "stated", "nothing"]
"""The basis of the time of one part of a migration: measured in the profile, assumed, stated by the user, or zero
because there is nothing to do."""

Quantity = Literal["usd", "seconds", "score"]
"""The quantity that a goal minimises; `score` is the weighted sum of a weighted goal and has no unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPart:
    """The time of one part of a migration, how it is known, and the calculation in words."""

    seconds: Interval
    basis: MigrationBasis
    how: str

    def __post_init__(self) -> None:
        require_text(how=self.how)
        if self.basis == "nothing" and self.seconds.high:
            raise ValueError(f"a part with nothing to do takes 0 s, not {self.seconds.high} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The transfer of a training's state from one machine to another, between two segments.

    Boot, setup, initialisation and first iteration on the second machine are in the Estimate of the second segment. A
    checkpoint that the program writes by itself is in the Estimate of the first segment.
    """

    checkpoint: MigrationPart
    upload: MigrationPart
    download: MigrationPart
    restore: MigrationPart
    """Reading the checkpoint into memory."""
    bytes: Interval | None
    """The size of the checkpoint; None if the size of the model is unknown."""
    machine_usd: Interval
    """The rent of both machines during the migration."""
    transfer_usd: Interval
    """The price of the bytes that leave the provider or the region."""

    @property
    def parts(self) -> dict[str, MigrationPart]:
        return {
            "checkpoint": self.checkpoint,
            "upload": self.upload,
            "download": self.download,
            "restore": self.restore,
        }

    @property
    def seconds(self) -> Interval:
        return self.checkpoint.seconds + self.upload.seconds + self.download.seconds + self.restore.seconds

    @property
    def usd(self) -> Interval:
        return self.machine_usd + self.transfer_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The value of a metric before a segment, and its expected value after it."""

    metric: str
    before: float
    after: float

    def __post_init__(self) -> None:
        require_text(metric=self.metric)
        if not (math.isfinite(self.before) and math.isfinite(self.after)):
            raise ValueError(f"{self.metric} must be finite, got {self.before} and {self.after}")

    @property
    def change(self) -> float:
        """The size of the change, without its sign."""
        return abs(self.after - self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Epochs `first_epoch` to `last_epoch` on one machine.

    The Estimate covers only these epochs; it includes the boot and the setup of the machine.
    """

    first_epoch: int
    last_epoch: int
    estimate: Estimate
    delta: float | None = None
    """Sanghvi's Δ of one epoch on this machine, relative to the machine with the cheapest epochs: speed-up / cost
    ratio.
    """
    progress: Progress | None = None

    def __post_init__(self) -> None:
        require_positive(first_epoch=self.first_epoch, delta=self.delta)
        if self.epochs != self.estimate.epochs:
            raise ValueError(
                f"epochs {self.first_epoch} to {self.last_epoch} are {self.epochs}, not {self.estimate.epochs}"
            )

    @property
    def epochs(self) -> int:
        return self.last_epoch - self.first_epoch + 1

    @property
    def change_per_usd(self) -> float | None:
        """The change of the metric per dollar spent on this segment."""
        return None if self.progress is None else self.progress.change / self.estimate.usd.value


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTarget:
    """A value of a metric that is needed before the training ends: a `loss` of 0.5, after two hours at the latest.

    Without a time limit it is needed as soon as possible: the goal then weighs the time until the target is reached
    instead of the total time.
    """

    metric: str
    value: float
    seconds: float | None = None

    def __post_init__(self) -> None:
        require_text(metric=self.metric)
        require_positive(seconds=self.seconds)
        if not math.isfinite(self.value):
            raise ValueError(f"{self.metric} must be finite, got {self.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTargetEstimate:
    """The epochs and the time until an early target is expected to be reached."""

    target: EarlyTarget
    epochs: Interval
    seconds: Interval
    """Since the start of the first machine; the high end is for the largest number of epochs."""

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The quantity that the goal minimises, on the best single machine minus in the split plan."""

    quantity: Quantity
    amount: Interval
    share: float
    """The saving as a share of the quantity on the single machine."""

    def __post_init__(self) -> None:
        require_positive(amount=self.amount.value)
        require_not_negative(share=self.share)
        if self.share > 1:
            raise ValueError(f"a saving cannot exceed 100%, got {self.share:.0%}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """Two segments in order, the migration between them, and the total time and cost."""

    segments: tuple[Segment, ...]
    migration: Migration
    seconds: Interval
    usd: Interval
    single_machine: Estimate | None = None
    """The best single machine; None if none is within the limits."""
    saving: Saving | None = None
    early_target: EarlyTargetEstimate | None = None

    def __post_init__(self) -> None:
        if len(self.segments) != 2:
            raise ValueError(f"a split plan has two segments, not {len(self.segments)}")
        first, second = self.segments
        if (first.first_epoch, second.first_epoch) != (1, first.last_epoch + 1):
            raise ValueError(
                f"the segments must follow each other from epoch 1: the first is epochs {first.first_epoch} to "
                f"{first.last_epoch}, the second starts with epoch {second.first_epoch}"
            )
        if first.estimate.candidate == second.estimate.candidate:
            raise ValueError("the two segments must be on different machines")
        if (self.single_machine is None) != (self.saving is None):
            raise ValueError("a saving and the single machine it refers to must be given together")
        migration = self.migration
        for name, total, part in (("seconds", self.seconds, migration.seconds), ("usd", self.usd, migration.usd)):
            added = sum(getattr(segment.estimate, name).value for segment in self.segments) + part.value
            if not math.isclose(total.value, added, rel_tol=1e-6):
                raise ValueError(f"segments and migration add up to {added} {name}, not to {total.value}")

    @property
    def split_after(self) -> int:
        """The last epoch on the first machine."""
        return self.segments[0].last_epoch
