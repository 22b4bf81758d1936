"""A training in legs: the first epochs on one machine, the rest on another (what Sanghvi calls phases)."""

import math
from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval

Found = Literal["measured", "assumed", "stated", "nothing"]
"""How a part of a move is known: seen in the profile, an assumption, what the user says, or there is nothing to do."""

Quantity = Literal["usd", "seconds", "score"]
"""What a goal wants least of; the score is that of a weighted goal, which has no unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPart:
    """How long a part of a move takes, how that is known, and how it comes about with its numbers."""

    seconds: Interval
    found: Found
    how: str

    def __post_init__(self) -> None:
        require_text(how=self.how)
        if self.found == "nothing" and self.seconds.high:
            raise ValueError(f"{self.seconds.high} s are not nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What lies between two legs: the state of the training goes from one machine to the other.

    Boot, setup, initialisation and first iteration on the second machine are in the Estimate of its leg; so is, in that
    of the first, a checkpoint that the program writes by itself.
    """

    checkpoint: MigrationPart
    upload: MigrationPart
    download: MigrationPart
    restore: MigrationPart
    """To read the checkpoint into memory."""
    bytes: Interval | None
    """Of the checkpoint; None where nobody knows how large the model is."""
    machine_usd: Interval
    """For the time that both machines take for it."""
    transfer_usd: Interval
    """For what leaves the provider or the region."""

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
    """What a leg is foreseen to do to a metric."""

    metric: str
    before: float
    after: float

    def __post_init__(self) -> None:
        require_text(metric=self.metric)
        if not (math.isfinite(self.before) and math.isfinite(self.after)):
            raise ValueError(f"{self.metric} must be finite, got {self.before} and {self.after}")

    @property
    def gained(self) -> float:
        """Whichever way is better."""
        return abs(self.after - self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Epochs `first_epoch` to `last_epoch` on one machine; the Estimate is of these alone, boot and setup included."""

    first_epoch: int
    last_epoch: int
    estimate: Estimate
    delta: float | None = None
    """Sanghvi's Δ of an epoch here, against the machine with the cheapest epochs: speed-up / fold of cost."""
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
    def gained_per_usd(self) -> float | None:
        """Of the metric, for each dollar of this leg."""
        return None if self.progress is None else self.progress.gained / self.estimate.usd.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """A figure that is wanted before the training ends: `loss` of 0.5, after two hours at the latest.

    Without a time, as soon as the goal has it: the time that a goal weighs is then the time until there.
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
class Reached:
    """When the early figure is there."""

    early: Early
    epochs: Interval
    seconds: Interval
    """From the start of the first machine; its high end is for the most epochs."""

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """How much less than the best single machine, of what the goal wants least of; surely more than nothing."""

    quantity: Quantity
    amount: Interval
    share: float
    """Of what the single machine takes."""

    def __post_init__(self) -> None:
        require_positive(amount=self.amount.value)
        require_not_negative(share=self.share)
        if self.share > 1:
            raise ValueError(f"nobody saves {self.share:.0%}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The legs in order, the move between them, and all of it together."""

    legs: tuple[Segment, ...]
    move: Move
    seconds: Interval
    usd: Interval
    instead_of: Estimate | None = None
    """The best single machine; None where none keeps the limits."""
    saving: Saving | None = None
    reached: Reached | None = None
    """Where a figure is wanted early."""

    def __post_init__(self) -> None:
        if len(self.legs) != 2:
            raise ValueError(f"a training with one move has two legs, not {len(self.legs)}")
        first, second = self.legs
        if (first.first_epoch, second.first_epoch) != (1, first.last_epoch + 1):
            raise ValueError(f"leg 2 goes on after epoch {first.last_epoch}, not with {second.first_epoch}")
        if first.estimate.candidate == second.estimate.candidate:
            raise ValueError("two legs on one machine are one")
        if (self.instead_of is None) != (self.saving is None):
            raise ValueError("a saving is against a single machine")
        for name, total, move in (("seconds", self.seconds, self.move.seconds), ("usd", self.usd, self.move.usd)):
            added = sum(getattr(leg.estimate, name).value for leg in self.legs) + move.value
            if not math.isclose(total.value, added, rel_tol=1e-6):
                raise ValueError(f"legs and move add up to {added} {name}, not to {total.value}")

    @property
    def split_after(self) -> int:
        """The last epoch on the first machine."""
        return self.legs[0].last_epoch
