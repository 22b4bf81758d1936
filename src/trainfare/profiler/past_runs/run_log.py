"""The log of a past run as every reader returns it, and what the user adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from trainfare.model.machine import Host
from trainfare.model.profile import Ending, Origin
from trainfare.profiler.past_runs.series import Scalars

Axis = Literal["iterations", "epochs"]
"""The unit of the steps of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """The log of a past run. None and empty mean that the log does not contain it."""

    origin: Origin
    source: Path
    """The file or folder of the run."""
    by_step: Scalars = field(default_factory=Scalars)
    """Scalars by step; if `axis` is None, steps may be iterations or epochs."""
    by_epoch: Scalars = field(default_factory=Scalars)
    """Scalars by epoch, from `first_epoch` on."""
    first_epoch: int | None = None
    axis: Axis | None = None
    """The unit of the steps in `by_step`, if the log tells."""
    counts_calls: bool = False
    """The steps count calls of the logger, which are iterations only if every iteration logs once."""
    began: float | None = None
    """The timestamp at which the steps before the first point began."""
    began_steps: int | None = None
    """The number of steps before the first point; None for as many as between later points."""
    started: float | None = None
    ended: float | None = None
    """Timestamps of the start and the end of the run."""
    ended_at: datetime
    ending: Ending = "enough"
    command: tuple[str, ...] = ()
    host: Host | None = None
    framework: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """The configuration of the program by its own names; well-known names are used."""
    batch_size: int | None = None
    epochs: int | None = None
    iterations_per_epoch: int | None = None
    run_seconds: float | None = None
    run_iterations: int | None = None
    validation_seconds: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverrides:
    """Facts about a run that the user gives; they take precedence over the log."""

    batch_size: int | None = None
    samples: int | None = None
    epochs: float | None = None
    iterations_per_epoch: int | None = None
    loss: str | None = None
    """The name of the training loss in the log."""
    steps_are: Axis | None = None
    command: tuple[str, ...] = ()
    on: str | None = None
    gpu: str | None = None
    """The GPU of the machine `on`; None if it has none, or several, of which the run may have used any number."""
    framework: str | None = None
