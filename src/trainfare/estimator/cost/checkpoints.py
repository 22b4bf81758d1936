"""What a checkpoint holds, how long it takes to write, and how often to write one.

    τ = √(2·δ·M)                 Young (1974), Daly (2006)

with δ the time to write one and M the mean time between interruptions: the τ that loses least to writing and to work
done twice. It holds while δ is much smaller than M.
"""

import math
from dataclasses import dataclass
from statistics import median

from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

DISK_BYTES_PER_SECOND = 125e6
"""What the disk of a rented machine writes where nobody pays for more: the base rate of EBS gp3 is 125 MiB/s."""
DISK_FACTOR = 3.0
LEAST_SECONDS = 1.0
"""To gather, open, write and rename, however small: an assumption."""
UNKNOWN_SECONDS = 10.0
"""Where nobody knows how large the model is: about a GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """What is known of a program's checkpoints."""

    seconds: Interval
    """To write one."""
    per_epoch: float
    """How many the program writes; 0 where none was seen."""


def checkpoint_bytes(profile: Profile) -> float | None:
    """Weights and optimiser state; None where nobody knows how large the model is."""
    weights = profile.gradient_bytes or (4 * profile.parameters if profile.parameters else None)
    return None if weights is None else float(weights + (profile.optimizer_bytes or 0))


def checkpoints_of(profile: Profile, *, iterations_per_epoch: int) -> Checkpoints:
    """As seen while profiling. Where none was seen: what writing one would take, and that the program writes none."""
    if not profile.checkpoint_seconds:
        size = checkpoint_bytes(profile)
        seconds = UNKNOWN_SECONDS if size is None else max(LEAST_SECONDS, size / DISK_BYTES_PER_SECOND)
        return Checkpoints(seconds=Interval.within_factor(seconds, DISK_FACTOR), per_epoch=0.0)
    seen, iterations = len(profile.checkpoint_seconds), max(1, len(profile.iteration_seconds))
    epochs = iterations // iterations_per_epoch
    return Checkpoints(
        seconds=Interval.within_factor(median(profile.checkpoint_seconds), DISK_FACTOR),
        per_epoch=seen / epochs if epochs else seen / iterations * iterations_per_epoch,
    )


def daly_interval(checkpoint_seconds: float, *, per_second: float) -> float:
    """Seconds of work between two checkpoints; infinite where nothing interrupts."""
    return math.sqrt(2 * checkpoint_seconds / per_second) if per_second > 0 else math.inf
