"""The options of a simulation, shared by Python, the command line and the server."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trainfare.errors import NotFoundError, Remedy, UsageError
from trainfare.model.queue import Delays
from trainfare.scheduler.limits import MAX_SECONDS, require_error, require_seed

Mode = Literal["paper", "real"]
"""`paper`: nodes boot and jobs migrate in no time, as the papers count. `real`: both take time."""

REAL_DELAYS = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60, checkpoint_every_seconds=600)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The conditions of a simulation in addition to the queue, the nodes and the policy."""

    mode: Mode = "paper"
    boot_seconds: float | None = None
    checkpoint_seconds: float | None = None
    restart_seconds: float | None = None
    checkpoint_every_seconds: float | None = None
    """These four apply to the mode `real` only; None is its default."""
    tick_seconds: float | None = None
    """The policy also decides after this long without an event; None: at events only."""
    seed: int = 0
    """The seed of reclaims of spot nodes, and of the error."""
    error: float | None = None
    """True times differ from predicted ones by a lognormal factor with this standard deviation of its logarithm; None:
    as the queue says."""

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise NotFoundError("mode", self.mode, get_args(Mode), field="mode")
        require_seed(self.seed)
        if self.error is not None:
            require_error(self.error)
        if self.tick_seconds is not None and not 0 < self.tick_seconds < math.inf:
            raise UsageError(
                f"a tick must be a positive time, got {self.tick_seconds:g} s. Give none to decide at events only.",
                field="tick_seconds",
            )
        self._require_delays()

    @property
    def stated_delays(self) -> dict[str, float]:
        """The delays that are given, by the names of their fields in `Delays`."""
        delays = {
            "boot_seconds": self.boot_seconds,
            "checkpoint_seconds": self.checkpoint_seconds,
            "restart_seconds": self.restart_seconds,
            "checkpoint_every_seconds": self.checkpoint_every_seconds,
        }
        return {name: seconds for name, seconds in delays.items() if seconds is not None}

    def delays(self, default: Delays = REAL_DELAYS) -> Delays:
        """No delays in the mode `paper`; else those that are given, and the rest from `default`."""
        return replace(default, **self.stated_delays) if self.mode == "real" else Delays()

    def _require_delays(self) -> None:
        stated = self.stated_delays
        if self.mode == "paper" and stated:
            raise UsageError(
                "this delay applies to the mode real only; in the mode paper boots and migrations take no time.",
                field=next(iter(stated)),
                remedies=[Remedy({"mode": "real"})],
            )
        for name, seconds in stated.items():
            longest = math.inf if name == "checkpoint_every_seconds" else MAX_SECONDS
            if not 0 <= seconds <= longest or (seconds == 0 and name == "checkpoint_every_seconds"):
                raise UsageError(f"{seconds:g} s is not a valid delay: give a time such as 120 s.", field=name)
