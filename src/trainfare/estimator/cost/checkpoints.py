"""The size of a checkpoint, the time to write one, and the interval between two.

    τ = √(2·δ·M)                 Young (1974), Daly (2006)

with δ the time to write one and M the mean time between interruptions: the τ that loses least time to writing and to
repeated work. It holds while δ is much smaller than M.
"""

import math
from dataclasses import dataclass
from statistics import median

from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

DISK_BYTES_PER_SECOND = 125e6
"""Write rate of the disk of a rented machine without extra charge: the base rate of EBS gp3 is 125 MiB/s."""
DISK_FACTOR = 3.0
MIN_SECONDS = 1.0
"""Time to gather, open, write and rename, however small the file is: an assumption."""
UNKNOWN_SECONDS = 10.0
"""Time where the size of the model is not known: about a GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpoints of a program."""

    seconds: Interval
    """Time to write one."""
    per_epoch: float
    """Number of checkpoints that the program writes; 0 if none was seen."""


def checkpoint_bytes(profile: Profile) -> float | None:
    """The size of weights and optimiser state; None where the size of the model is not known."""
    weights = profile.gradient_bytes or (4 * profile.parameters if profile.parameters else None)
    return None if weights is None else float(weights + (profile.optimizer_bytes or 0))


def checkpoints_of(profile: Profile, *, iterations_per_epoch: int) -> Checkpoints:
    """The checkpoints seen while profiling; without any, the time that writing one would take, and none per epoch."""
    if not profile.checkpoint_seconds:
        size = checkpoint_bytes(profile)
        seconds = UNKNOWN_SECONDS if size is None else max(MIN_SECONDS, size / DISK_BYTES_PER_SECOND)
        return Checkpoints(seconds=Interval.within_factor(seconds, DISK_FACTOR), per_epoch=0.0)
    seen = len(profile.checkpoint_seconds)
    iterations = max(1, profile.run_iterations or len(profile.iteration_seconds))
    epochs = iterations // iterations_per_epoch
    return Checkpoints(
        seconds=Interval.within_factor(median(profile.checkpoint_seconds), DISK_FACTOR),
        per_epoch=seen / epochs if epochs else seen / iterations * iterations_per_epoch,
    )


def daly_interval(checkpoint_seconds: float, *, per_second: float) -> float:
    """Seconds of work between two checkpoints; infinite without interruptions."""
    return math.sqrt(2 * checkpoint_seconds / per_second) if per_second > 0 else math.inf
