"""Spot machines and deadlines: whether one can be had, a training that may run on one, and what comes of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text

Action = Literal["spot", "on demand", "wait"]
Running = Literal["spot", "on demand", "nothing"]

AGE_HOURS = (0.5, 2.0, 8.0)
"""Where the rungs of an Availability end, the last being open: what has lasted goes on lasting. In public traces the
rate of loss falls from 1 – 2 an hour in the first half hour to 0.05 after eight."""
RUNGS = len(AGE_HOURS) + 1
PRIOR_EVENTS = 2.0
"""How many events of its own a rung of a zone needs until they count as much as what is usual; not tuned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """How long spot machines stay, and how long one waits for the next, as rates by how long it has been so."""

    where: str
    """`us-west-2a`, or in words what was pooled."""
    lost_per_hour: tuple[float, ...]
    """While a machine can be had: the rate at which that ends, by rung."""
    back_per_hour: tuple[float, ...]
    """While none can be had."""
    weight: float = 1.0
    """Among several that may hold: of how many hours it is known."""

    def __post_init__(self) -> None:
        require_text(where=self.where)
        require_positive(weight=self.weight)
        if len(self.lost_per_hour) != RUNGS or len(self.back_per_hour) != RUNGS:
            raise ValueError(f"an availability has {RUNGS} rates of loss and as many of return")
        for rate in self.lost_per_hour:
            require_not_negative(lost_per_hour=rate)
        for rate in self.back_per_hour:
            require_positive(back_per_hour=rate)

    def of_nodes(self, nodes: int) -> "Availability":
        """Of so many machines together: losing one is losing all."""
        return replace(self, lost_per_hour=tuple(nodes * rate for rate in self.lost_per_hour))

    @property
    def stay_hours(self) -> float:
        """On the mean, from when one can be had until none can; infinite where none is ever lost."""
        return _mean_hours(self.lost_per_hour)

    @property
    def wait_hours(self) -> float:
        """On the mean, from a loss until one can be had again."""
        return _mean_hours(self.back_per_hour)

    @property
    def share(self) -> float:
        """Of the time in which one can be had."""
        return 1.0 if math.isinf(self.stay_hours) else self.stay_hours / (self.stay_hours + self.wait_hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneHistory:
    """What was counted in a zone (or in several), by rung."""

    where: str
    lost: tuple[int, ...]
    """How often a machine that could be had could not be had any more."""
    up_hours: tuple[float, ...]
    """In which one could be had."""
    back: tuple[int, ...]
    down_hours: tuple[float, ...]

    def __post_init__(self) -> None:
        require_text(where=self.where)
        if any(len(each) != RUNGS for each in (self.lost, self.up_hours, self.back, self.down_hours)):
            raise ValueError(f"a history has {RUNGS} rungs")
        require_positive(hours=self.hours)

    @property
    def hours(self) -> float:
        return sum(self.up_hours) + sum(self.down_hours)

    @property
    def lost_per_hour(self) -> float:
        """Whatever its age; of a zone that never had one, as if one had been had for an hour."""
        return sum(self.lost) / max(1.0, sum(self.up_hours))

    def availability(self, usual: Availability | None = None) -> Availability:
        """Events over hours, as if `PRIOR_EVENTS` more had been seen on each rung at the usual rate: what was hardly
        ever seen here is taken to be as elsewhere. Without a usual one, hardly any."""
        prior = usual or Availability(where="nowhere", lost_per_hour=(0.01,) * RUNGS, back_per_hour=(0.01,) * RUNGS)
        events = PRIOR_EVENTS if usual else 0.01
        return Availability(
            where=self.where,
            lost_per_hour=_shrunk(self.lost, self.up_hours, prior.lost_per_hour, events),
            back_per_hour=_shrunk(self.back, self.down_hours, prior.back_per_hour, events),
            weight=self.hours,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMarket:
    """What is known of a machine on spot: how it was in one or several zones, any of which may hold, by weight."""

    zones: tuple[Availability, ...]
    pooled: Availability
    """Of all of them together: where one must be taken for all."""
    source: str
    """In words that a plan can print."""

    def __post_init__(self) -> None:
        require_text(source=self.source)
        if not self.zones:
            raise ValueError("a market has at least one zone")


def pooled_history(histories: Sequence[ZoneHistory], where: str) -> ZoneHistory:
    return ZoneHistory(
        where=where,
        lost=tuple(sum(each) for each in zip(*(h.lost for h in histories), strict=True)),
        up_hours=tuple(sum(each) for each in zip(*(h.up_hours for h in histories), strict=True)),
        back=tuple(sum(each) for each in zip(*(h.back for h in histories), strict=True)),
        down_hours=tuple(sum(each) for each in zip(*(h.down_hours for h in histories), strict=True)),
    )


def rung_of(seconds: float) -> int:
    """Of something that has lasted so long."""
    return sum(seconds >= 3600 * hours for hours in AGE_HOURS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTraining:
    """A training with a deadline that may run on a spot machine, or on the same machine on demand."""

    work_seconds: float
    """On the machine once it has started, checkpoints included."""
    start_seconds: float
    """Boot, setup, initialisation and first iteration: again after every loss and every change of market."""
    checkpoint_every_seconds: float
    """Of work; an interruption throws away what was done since. The whole work where there are none."""
    deadline_seconds: float
    spot_usd_per_hour: float
    on_demand_usd_per_hour: float
    decide_every_seconds: float = 60.0

    def __post_init__(self) -> None:
        require_positive(
            work_seconds=self.work_seconds,
            checkpoint_every_seconds=self.checkpoint_every_seconds,
            deadline_seconds=self.deadline_seconds,
            spot_usd_per_hour=self.spot_usd_per_hour,
            on_demand_usd_per_hour=self.on_demand_usd_per_hour,
            decide_every_seconds=self.decide_every_seconds,
        )
        require_not_negative(start_seconds=self.start_seconds)

    @property
    def slack_seconds(self) -> float:
        """What is left of the deadline if it ran on demand from the beginning; negative where that is too late."""
        return self.deadline_seconds - self.start_seconds - self.work_seconds


@dataclass(frozen=True, slots=True)
class SpotState:
    """A SpotTraining at one moment at which somebody decides. Positional: a replay makes millions."""

    seconds: float
    """Since it began."""
    left_seconds: float
    """Work that is not done."""
    unsaved_seconds: float
    """Work that is done, but since the last checkpoint."""
    available: bool
    """A spot machine can be had; of one that runs: it still runs."""
    since_seconds: float
    """For how long that has been so."""
    running: Running
    starting_seconds: float = 0.0
    """What is still to come of its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is expected of one way to run a SpotTraining."""

    usd: float
    seconds: float
    """Until it ends, waiting included."""
    late: float
    """The probability of ending after the deadline."""
    fallback: float = 0.0
    """The probability that it goes over to on demand."""

    def __post_init__(self) -> None:
        require_not_negative(usd=self.usd, seconds=self.seconds)
        for name, share in (("late", self.late), ("fallback", self.fallback)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is a probability, got {share}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRisk:
    """What a deadline means for an Estimate on spot, and what going over to on demand in time would cost."""

    deadline_seconds: float
    spot_only: Outcome
    with_fallback: Outcome
    """On spot while the slack allows, then on demand; late only where on demand alone would be."""
    on_demand: Outcome
    """The same machine on demand from the beginning."""
    fallback_at_seconds: float
    """With nothing done by then, the last moment to begin on demand; later by all that was done and saved. 0 where it
    must begin on demand at once."""
    checkpoint_every_seconds: float | None
    stay_seconds: float
    """How long a machine stays, and how long the next one takes, on the mean."""
    wait_seconds: float
    source: str
    """Of the history that this rests on."""

    def __post_init__(self) -> None:
        require_positive(deadline_seconds=self.deadline_seconds, checkpoint_every_seconds=self.checkpoint_every_seconds)
        require_not_negative(fallback_at_seconds=self.fallback_at_seconds, wait_seconds=self.wait_seconds)
        require_text(source=self.source)


def _mean_hours(rates: tuple[float, ...]) -> float:
    """Of a life with a constant rate λᵢ on each rung of w hours, Σ e^{−Λᵢ}·(1 − e^{−λᵢ·wᵢ})/λᵢ."""
    if rates[-1] <= 0:
        return math.inf
    mean, alive, begin = 0.0, 1.0, 0.0
    for rate, end in zip(rates, (*AGE_HOURS, math.inf), strict=True):
        width = end - begin
        passed = -math.expm1(-rate * width) if rate else 0.0
        mean += alive * (passed / rate if rate else width)
        alive, begin = alive * (1 - passed), end
    return mean


def _shrunk(
    events: tuple[int, ...], hours: tuple[float, ...], usual: tuple[float, ...], prior: float
) -> tuple[float, ...]:
    return tuple((n + prior) / (h + prior / max(rate, 1e-3)) for n, h, rate in zip(events, hours, usual, strict=True))
