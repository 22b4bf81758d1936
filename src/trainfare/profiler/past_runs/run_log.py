"""What a reader hands over, whatever it read, and what the user adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from trainfare.model.machine import Host
from trainfare.model.profile import Ending, Origin
from trainfare.profiler.past_runs.series import Scalars

Axis = Literal["iterations", "epochs"]
"""What the steps of a log count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A past run as it logged itself. None and empty: it does not say."""

    origin: Origin
    source: Path
    """The file or folder of the run."""
    by_step: Scalars = field(default_factory=Scalars)
    """Steps count iterations, or perhaps epochs where the log does not tell."""
    by_epoch: Scalars = field(default_factory=Scalars)
    """Steps are epochs, from `first_epoch` on."""
    first_epoch: int | None = None
    axis: Axis | None = None
    """What `by_step` counts, where the log tells."""
    counts_calls: bool = False
    """Its steps count calls of the logger: iterations only if every iteration logged once."""
    began: float | None = None
    """On the clock of the moments: when what led to the first point began."""
    began_steps: int | None = None
    """How many steps that was; None is as many as between later points."""
    started: float | None = None
    ended: float | None = None
    """On the same clock: the run as a whole."""
    ended_at: datetime
    ending: Ending = "enough"
    command: tuple[str, ...] = ()
    host: Host | None = None
    framework: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """Configuration by the names that the program gave; what is plainly named is used."""
    batch_size: int | None = None
    epochs: int | None = None
    iterations_per_epoch: int | None = None
    run_seconds: float | None = None
    run_iterations: int | None = None
    validation_seconds: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says of a run; it counts more than what the log says."""

    batch_size: int | None = None
    samples: int | None = None
    epochs: int | None = None
    iterations_per_epoch: int | None = None
    loss: str | None = None
    """The name of the training loss in the log."""
    steps_are: Axis | None = None
    command: tuple[str, ...] = ()
    on: str | None = None
    framework: str | None = None
