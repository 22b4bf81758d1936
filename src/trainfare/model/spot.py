"""Spot machines: their availability, a training that may run on them, and the outcome of a deadline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text

Action = Literal["spot", "on demand", "wait"]
Running = Literal["spot", "on demand", "nothing"]

AGE_HOURS = (0.5, 2.0, 8.0)
"""The ends of the age bins, of which the last is open. The rates of an Availability depend on the age of the machine,
because a machine that has survived longer is lost less often: in public traces the rate of loss falls from 1 – 2 an
hour in the first half hour to 0.05 after eight hours."""
AGE_BINS = len(AGE_HOURS) + 1
PRIOR_EVENTS = 2.0
"""The number of events in an age bin of a zone at which they weigh as much as the prior; not tuned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The rates at which spot machines of a zone are lost and become available again, by age bin."""

    zone: str
    """`us-west-2a`, or a description of the zones that were pooled."""
    lost_per_hour: tuple[float, ...]
    """The rate at which an available machine is lost, by the time for which it has been available."""
    return_per_hour: tuple[float, ...]
    """The rate at which a machine becomes available again, by the time for which none has been."""
    weight: float = 1.0
    """The weight among several zones: the number of observed hours."""

    def __post_init__(self) -> None:
        require_text(zone=self.zone)
        require_positive(weight=self.weight)
        if len(self.lost_per_hour) != AGE_BINS or len(self.return_per_hour) != AGE_BINS:
            raise ValueError(f"an availability has {AGE_BINS} rates of loss and as many of return")
        for rate in self.lost_per_hour:
            require_not_negative(lost_per_hour=rate)
        for rate in self.return_per_hour:
            require_positive(return_per_hour=rate)

    def for_nodes(self, nodes: int) -> "Availability":
        """The availability of several machines together, all of which are lost when one is."""
        return replace(self, lost_per_hour=tuple(nodes * rate for rate in self.lost_per_hour))

    @property
    def stay_hours(self) -> float:
        """The mean time for which a machine stays available; infinite if none is ever lost."""
        return _mean_hours(self.lost_per_hour)

    @property
    def wait_hours(self) -> float:
        """The mean time from a loss until a machine is available again."""
        return _mean_hours(self.return_per_hour)

    @property
    def share(self) -> float:
        """The share of time in which a machine is available."""
        return 1.0 if math.isinf(self.stay_hours) else self.stay_hours / (self.stay_hours + self.wait_hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneHistory:
    """Events and hours that were counted in one zone, or in several, by age bin."""

    zone: str
    losses: tuple[int, ...]
    """The number of times that an available machine was lost."""
    up_hours: tuple[float, ...]
    """The hours in which a machine was available."""
    returns: tuple[int, ...]
    """The number of times that a machine became available again."""
    down_hours: tuple[float, ...]
    """The hours in which no machine was available."""

    def __post_init__(self) -> None:
        require_text(zone=self.zone)
        if any(len(counts) != AGE_BINS for counts in (self.losses, self.up_hours, self.returns, self.down_hours)):
            raise ValueError(f"a history has {AGE_BINS} age bins")
        require_positive(hours=self.hours)

    @property
    def hours(self) -> float:
        """All hours that were observed."""
        return sum(self.up_hours) + sum(self.down_hours)

    @property
    def lost_per_hour(self) -> float:
        """The rate of loss over all ages; a zone that never had a machine counts as one hour of availability."""
        return sum(self.losses) / max(1.0, sum(self.up_hours))

    def availability(self, prior: Availability | None = None) -> Availability:
        """The rates, events / hours, shrunk towards the prior as if `PRIOR_EVENTS` more events had been counted in each
        age bin at its rate. Without a prior, hardly shrunk."""
        prior_events = PRIOR_EVENTS if prior else 0.01
        rates = prior or Availability(
            zone="nowhere", lost_per_hour=(0.01,) * AGE_BINS, return_per_hour=(0.01,) * AGE_BINS
        )
        return Availability(
            zone=self.zone,
            lost_per_hour=_shrink(self.losses, self.up_hours, rates.lost_per_hour, prior_events),
            return_per_hour=_shrink(self.returns, self.down_hours, rates.return_per_hour, prior_events),
            weight=self.hours,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMarket:
    """The availability of a machine on spot in one or several zones, each of which applies with its weight."""

    zones: tuple[Availability, ...]
    pooled: Availability
    """The availability of all zones together, for methods that need a single one."""
    source: str
    """The origin of the rates, in words that a plan can print."""

    def __post_init__(self) -> None:
        require_text(source=self.source)
        if not self.zones:
            raise ValueError("a market has at least one zone")


def pool_histories(histories: Sequence[ZoneHistory], zone: str) -> ZoneHistory:
    """The sums of all counts, under the given name."""
    return ZoneHistory(
        zone=zone,
        losses=tuple(sum(counts) for counts in zip(*(h.losses for h in histories), strict=True)),
        up_hours=tuple(sum(counts) for counts in zip(*(h.up_hours for h in histories), strict=True)),
        returns=tuple(sum(counts) for counts in zip(*(h.returns for h in histories), strict=True)),
        down_hours=tuple(sum(counts) for counts in zip(*(h.down_hours for h in histories), strict=True)),
    )


def age_bin(seconds: float) -> int:
    """The age bin of a state that has lasted for `seconds`."""
    return sum(seconds >= 3600 * hours for hours in AGE_HOURS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTraining:
    """A training with a deadline that may run on a spot machine, or on the same machine on demand."""

    work_seconds: float
    """The time on the machine after its start, checkpoints included."""
    start_seconds: float
    """Boot, setup, initialisation and first iteration: repeated after every loss and every change of market."""
    checkpoint_every_seconds: float
    """The work between two checkpoints; an interruption loses the work since the last one. All work if there are no
    checkpoints."""
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
        """The time left before the deadline if it runs on demand from the beginning; negative if that is too late."""
        return self.deadline_seconds - self.start_seconds - self.work_seconds


@dataclass(frozen=True, slots=True)
class SpotState:
    """A SpotTraining at the moment of a decision. The fields are positional, because a replay makes millions."""

    seconds: float
    """The time since the training began."""
    left_seconds: float
    """Work that remains."""
    unsaved_seconds: float
    """Work that was done since the last checkpoint."""
    available: bool
    """True if a spot machine is available, or still runs if the training is on one."""
    since_seconds: float
    """The time since `available` last changed."""
    running: Running
    starting_seconds: float = 0.0
    """The rest of the start of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The expected outcome of one way to run a SpotTraining."""

    usd: float
    seconds: float
    """The time until it ends, waiting included."""
    late: float
    """The probability of ending after the deadline."""
    fallback: float = 0.0
    """The probability of changing to on demand."""

    def __post_init__(self) -> None:
        require_not_negative(usd=self.usd, seconds=self.seconds)
        for name, probability in (("late", self.late), ("fallback", self.fallback)):
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} is a probability, got {probability}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRisk:
    """The risk of a deadline for an Estimate on spot, and the cost of changing to on demand in time."""

    deadline_seconds: float
    spot_only: Outcome
    with_fallback: Outcome
    """Running on spot while the slack allows, then on demand; late only if on demand alone would be late."""
    on_demand: Outcome
    """Running on demand on the same machine from the beginning."""
    fallback_at_seconds: float
    """The last moment to begin on demand if no work was saved until then; saved work postpones it by its length. 0 if
    the training must begin on demand at once."""
    checkpoint_every_seconds: float | None
    stay_seconds: float
    """The mean time for which a spot machine stays."""
    wait_seconds: float
    """The mean time until the next one is available."""
    source: str
    """The history on which this is based."""

    def __post_init__(self) -> None:
        require_positive(deadline_seconds=self.deadline_seconds, checkpoint_every_seconds=self.checkpoint_every_seconds)
        require_not_negative(
            fallback_at_seconds=self.fallback_at_seconds, stay_seconds=self.stay_seconds, wait_seconds=self.wait_seconds
        )
        require_text(source=self.source)


def _mean_hours(rates: tuple[float, ...]) -> float:
    """The mean of a lifetime with a constant rate λᵢ in each age bin of wᵢ hours, Σ e^{−Λᵢ}·(1 − e^{−λᵢ·wᵢ})/λᵢ."""
    if rates[-1] <= 0:
        return math.inf
    mean, alive, begin = 0.0, 1.0, 0.0
    for rate, end in zip(rates, (*AGE_HOURS, math.inf), strict=True):
        width = end - begin
        ended = -math.expm1(-rate * width) if rate else 0.0
        mean += alive * (ended / rate if rate else width)
        alive, begin = alive * (1 - ended), end
    return mean


def _shrink(
    events: tuple[int, ...], hours: tuple[float, ...], prior_rates: tuple[float, ...], prior_events: float
) -> tuple[float, ...]:
    return tuple(
        (n + prior_events) / (h + prior_events / max(rate, 1e-3))
        for n, h, rate in zip(events, hours, prior_rates, strict=True)
    )
