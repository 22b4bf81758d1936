"""The deadline risk of a training on spot, and the cost of changing to on demand before it is too late.

Backward induction in slots of h from the deadline D over the values of each action (`grid.py`): dollars, seconds, and
the probability of having changed to on demand, for one of two rules:

    greedy    spot while t + R + w + τ leaves time before D, then on demand to the end
    best      the action with the least expected dollars, within the same limit; it may return from on demand to spot

and, without on demand, the probability that work is left at D, and the dollars and seconds until its end.

Limits: an interruption loses its mean, half of the work between two checkpoints; a start that is lost after its first
slot keeps the work of that slot; on-demand machines are always available; prices are constant. Slots lengthen every
wait by half a slot, so their number is chosen by `slot_count`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from trainfare.estimator.cost.timing import STARTUP_PHASES
from trainfare.estimator.spot.grid import FALLBACK, STATES, USD, SpotGrid, proportional_values
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.spot import (
    AGE_BINS,
    Action,
    Availability,
    Outcome,
    SpotMarket,
    SpotRisk,
    SpotState,
    SpotTraining,
    age_bin,
)
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import bool_, float64, int8
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Bools = NDArray[bool_]
    Bytes = NDArray[int8]

FallbackRule = Literal["greedy", "best"]

MIN_SLOTS, MAX_SLOTS, SLOT_SECONDS = 200, 600, 600.0
"""Slots up to the deadline: of ten minutes, but neither fewer nor more than these."""
PLAN_SLOTS = 150
"""Slots for a plan, which compares several machines in several zones: within 1% of the cost and 0.02 of a probability
of the result with four times as many."""
MIN_WORK_SLOTS = 25
"""Slots of work at least, however far away the deadline is."""
HORIZON_DEADLINES = 3.0
"""Length of the simulated time without on demand, in deadlines, unless the deadline is ten times the work; the rest
continues at the mean pace."""
WORK_QUANTILES = 9
"""Number of equally likely values that represent the uncertainty of the work."""
ACTIONS: tuple[Action, ...] = ("spot", "on demand", "wait")


@dataclass(frozen=True, slots=True)
class ActionTable:
    """The cheapest action by slot, remaining work and state, under the rule `best`."""

    outcome: Outcome
    slot_seconds: float
    on_nothing: "Bytes"
    on_spot: "Bytes"
    on_demand: "Bytes"

    def cheapest(self, state: SpotState) -> Action:
        """The action at the nearest grid point with the same slack."""
        h = self.slot_seconds
        i = min(len(self.on_nothing) - 1, max(0, int(state.seconds / h)))
        table = {"nothing": self.on_nothing, "spot": self.on_spot, "on demand": self.on_demand}[state.running]
        # Between two slots of the grid, elapsed time counts as remaining work: the slack is the same.
        left = state.left_seconds + state.starting_seconds + state.seconds - i * h
        k = min(table.shape[1] - 1, max(1, int(left / h + 0.5)))
        age = age_bin(state.since_seconds)
        if state.running == "spot":
            return ACTIONS[int(table.item(i, k, age))]
        return ACTIONS[int(table.item(i, k, age if state.available else AGE_BINS + age))]


def late_probability(
    training: SpotTraining,
    availabilities: Sequence[Availability],
    *,
    work: Interval | None = None,
    slots: int | None = None,
) -> float:
    """The probability of ending after the deadline on spot alone.

    It is the mean over the possible zones, by weight, and over the uncertainty of the work.
    """
    late = _late(training, availabilities, work, slot_count(training, slots))
    return _weighted([(a.weight, each) for a, each in zip(availabilities, late, strict=True)])


def spot_only_outcome(
    training: SpotTraining, availability: Availability, *, work: Interval | None = None, slots: int | None = None
) -> Outcome:
    """The outcome on spot alone, waiting whenever no machine is available.

    The uncertainty of the work is only in `late`.
    """
    return _spot_only(training, [availability], work, slot_count(training, slots))[0]


def fallback_outcome(training: SpotTraining, availability: Availability, *, slots: int | None = None) -> Outcome:
    """The outcome of the rule `greedy`. It is never late, unless on demand alone would be."""
    return _solve(training, [availability], "greedy", slot_count(training, slots)).outcomes[0]


def cheapest_actions(training: SpotTraining, availability: Availability, *, slots: int | None = None) -> ActionTable:
    """The actions and the outcome of the rule `best`."""
    slots = slot_count(training, slots)
    found = _solve(training, [availability], "best", slots)
    return ActionTable(found.outcomes[0], training.deadline_seconds / slots, *(table[:, 0] for table in found.actions))


def slot_count(training: SpotTraining, requested: int | None = None) -> int:
    """The requested number of slots, else slots of about ten minutes; more where the work would have too few."""
    if requested is None:
        requested = round(min(MAX_SLOTS, max(MIN_SLOTS, training.deadline_seconds / SLOT_SECONDS)))
    return max(requested, min(3000, round(MIN_WORK_SLOTS * training.deadline_seconds / training.work_seconds)))


def spot_risk(estimate: Estimate, on_demand: Estimate, goal: Goal, market: SpotMarket) -> SpotRisk:
    """The risk of the goal's deadline for an Estimate on spot; `on_demand` is that of the same machine.

    Without on demand, the uncertainty of the work is in the probability of being late. With on demand, the work that is
    not exceeded with the goal's confidence is reserved: on demand begins early enough for that, and is late only where
    on demand from the beginning would be. The rule is `greedy`, because a run follows it (`switching.py`): while it is
    on demand it does not see whether spot is available again. Each figure is the mean over the zones by weight.
    """
    if goal.deadline_seconds is None:
        raise ValueError("a goal without a deadline has no risk of missing it")
    nodes, work = estimate.candidate.nodes, work_interval(estimate)
    training = spot_training(estimate, on_demand, deadline_seconds=goal.deadline_seconds)
    zones = [a.for_nodes(nodes) for a in market.zones]
    reserve = work.upper_bound(goal.confidence) - work.value
    with_reserve = replace(training, deadline_seconds=max(1.0, goal.deadline_seconds - reserve))
    late = probability_above(on_demand.seconds, goal.deadline_seconds)
    on_demand_outcome = Outcome(usd=on_demand.usd.value, seconds=on_demand.seconds.value, late=late, fallback=1.0)
    with_fallback = on_demand_outcome
    if with_reserve.slack_seconds > 0:
        slots = slot_count(with_reserve, PLAN_SLOTS)
        with_fallback = _mean(zones, _solve(with_reserve, zones, "greedy", slots).outcomes)
    spot_only = _mean(zones, _spot_only(training, zones, work, slot_count(training, PLAN_SLOTS)))
    return SpotRisk(
        deadline_seconds=goal.deadline_seconds,
        spot_only=spot_only,
        with_fallback=replace(with_fallback, late=late),
        on_demand=on_demand_outcome,
        fallback_at_seconds=max(0.0, with_reserve.slack_seconds),
        checkpoint_every_seconds=estimate.checkpoint_every_seconds,
        stay_seconds=SECONDS_PER_HOUR * _weighted([(a.weight, a.stay_hours) for a in zones]),
        wait_seconds=SECONDS_PER_HOUR * _weighted([(a.weight, a.wait_hours) for a in zones]),
        source=market.source,
    )


def spot_training(estimate: Estimate, on_demand: Estimate, *, deadline_seconds: float) -> SpotTraining:
    """The training of an Estimate on spot, without its interruptions, which are modelled here."""
    work = work_interval(estimate).value
    start = sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTUP_PHASES)
    return SpotTraining(
        work_seconds=work,
        start_seconds=start,
        checkpoint_every_seconds=min(work, estimate.checkpoint_every_seconds or work),
        deadline_seconds=deadline_seconds,
        spot_usd_per_hour=estimate.candidate.usd_per_hour,
        on_demand_usd_per_hour=on_demand.candidate.usd_per_hour,
    )


def work_interval(estimate: Estimate) -> Interval:
    """The time of the program after its start and without rework; its parts err together."""
    parts = [phase.seconds for phase in estimate.phases if phase.name not in (*STARTUP_PHASES, "spot rework")]
    work = sum(parts[1:], start=parts[0]) if parts else Interval.exactly(1.0)
    return work if work.value > 0 else Interval.exactly(1.0)


def probability_above(interval: Interval, limit: float) -> float:
    """The probability that the true value is above the limit, if its logarithm is normal on either side."""
    if limit <= 0 or interval.value <= 0:
        return float(interval.value > limit)
    end = interval.high if limit > interval.value else interval.low
    if end == interval.value or end <= 0:
        return float(interval.value > limit)
    z = NormalDist().inv_cdf((1 + interval.confidence) / 2)
    return 1 - NormalDist().cdf(z * math.log(limit / interval.value) / abs(math.log(end / interval.value)))


def work_quantiles(work: Interval) -> tuple[float, ...]:
    """Equally likely values of the work, if its logarithm is normal on either side."""
    z = NormalDist().inv_cdf((1 + work.confidence) / 2)
    shares = [(i + 0.5) / WORK_QUANTILES for i in range(WORK_QUANTILES)]
    points = []
    for share in shares:
        deviations = NormalDist().inv_cdf(share) / z
        end = work.high if deviations > 0 else max(work.low, work.value / 10)
        points.append(work.value * (end / work.value) ** abs(deviations))
    return tuple(points)


def _mean(zones: Sequence[Availability], outcomes: Sequence[Outcome]) -> Outcome:
    def mean(values: Iterable[float]) -> float:
        return _weighted([(zone.weight, value) for zone, value in zip(zones, values, strict=True)])

    return Outcome(
        usd=mean(each.usd for each in outcomes),
        seconds=mean(each.seconds for each in outcomes),
        late=mean(each.late for each in outcomes),
        fallback=mean(each.fallback for each in outcomes),
    )


def _weighted(values: Sequence[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in values) / sum(weight for weight, _ in values)


def _spot_only(
    training: SpotTraining, zones: Sequence[Availability], work: Interval | None, slots: int
) -> list[Outcome]:
    """`spot_only_outcome` in each zone."""
    grid = SpotGrid.of(training, zones, slots)
    # Work that is left at the horizon continues at the mean pace: a machine is available for a share of the time.
    usd_per_second = training.spot_usd_per_hour / SECONDS_PER_HOUR
    off = proportional_values(grid, usd_per_second, [1 / zone.share for zone in zones], 0.0, states=STATES)
    horizon = HORIZON_DEADLINES if training.deadline_seconds < 10 * training.work_seconds else 1.0
    off = _slots_on_spot(grid, math.ceil(horizon * slots), off, off[..., :AGE_BINS].copy())
    usd, seconds, _ = grid.initial_values(off).tolist()
    late = _late(training, zones, work, slots)
    return [Outcome(usd=u, seconds=s, late=p) for u, s, p in zip(usd, seconds, late, strict=True)]


def _late(training: SpotTraining, zones: Sequence[Availability], work: Interval | None, slots: int) -> list[float]:
    """The probability of ending after the deadline in each zone."""
    import numpy as np

    works = (training.work_seconds,) if work is None else work_quantiles(work)
    possible = [each for each in works if each + training.start_seconds <= training.deadline_seconds]
    if not possible:
        return [1.0] * len(zones)
    grid = SpotGrid.of(training, zones, slots, most_work=max(possible))
    off, on = (np.ones((1, len(zones), len(grid.w), states)) for states in (STATES, AGE_BINS))
    off[..., 0, :] = on[..., 0, :] = 0.0
    off = _slots_on_spot(grid, slots, off, on)
    late = sum(grid.initial_values(off, each)[0] for each in possible) + (len(works) - len(possible))
    return [min(1.0, max(0.0, each / len(works))) for each in late.tolist()]


def _slots_on_spot(grid: SpotGrid, slots: int, off: "Floats", on: "Floats") -> "Floats":
    """The values with nothing running a number of slots earlier, on spot whenever a machine is available."""
    for _ in range(slots):
        (start, on), wait = grid.on_spot(off, on), grid.wait(off)
        off = _by_availability(start, wait)
        off[..., 0, :] = on[..., 0, :] = 0.0
    return off


@dataclass(frozen=True, slots=True)
class _ZoneOutcomes:
    """The outcome in each zone, and the actions by slot, zone, remaining work and state: on nothing, on spot and on
    demand."""

    outcomes: list[Outcome]
    actions: tuple["Bytes", "Bytes", "Bytes"]


def _solve(training: SpotTraining, zones: Sequence[Availability], rule: FallbackRule, slots: int) -> _ZoneOutcomes:
    import numpy as np

    grid = SpotGrid.of(training, zones, slots)
    usd_per_second = training.on_demand_usd_per_hour / SECONDS_PER_HOUR
    demand = proportional_values(grid, usd_per_second, [1.0] * len(zones), 1.0, states=STATES)
    off, on = demand.copy(), demand[..., :AGE_BINS].copy()
    on_nothing, on_spot, on_demand = (
        np.ones((slots, len(zones), len(grid.w), n), dtype=np.int8) for n in (STATES, AGE_BINS, STATES)
    )
    choose = _cheapest if rule == "best" else _greedy
    for i in reversed(range(slots)):
        room = training.deadline_seconds - i * grid.h - training.decide_every_seconds - training.start_seconds
        safe, safe_on = grid.w <= room, grid.w <= room - training.checkpoint_every_seconds
        (start, run), wait = grid.on_spot(off, on), grid.wait(off)
        changed, stayed = grid.on_demand(demand)
        changed[FALLBACK] = 1.0
        off = choose(safe, start, changed, wait, on_nothing[i])
        on = choose(safe_on, run, changed[..., :AGE_BINS], wait[..., :AGE_BINS], on_spot[i])
        demand = _cheapest(safe, start, stayed, wait, on_demand[i]) if rule == "best" else stayed
        for each in (off, on, demand):
            each[..., 0, :] = 0.0
    late = float(training.slack_seconds < 0)
    outcomes = [
        Outcome(usd=usd, seconds=seconds, late=late, fallback=min(1.0, max(0.0, fallback)))
        for usd, seconds, fallback in grid.initial_values(off).T.tolist()
    ]
    return _ZoneOutcomes(outcomes, (on_nothing, on_spot, on_demand))


def _greedy(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats", actions: "Bytes") -> "Floats":
    """The values of spot if available, else of waiting, while it is safe, else of on demand; writes `actions`."""
    import numpy as np

    actions[:, safe, :AGE_BINS], actions[:, safe, AGE_BINS:] = 0, 2
    return np.where(safe[:, None], _by_availability(spot, wait), demand)


def _cheapest(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats", actions: "Bytes") -> "Floats":
    """The values of the cheapest action; writes `actions`, which contains 1, on demand, before."""
    import numpy as np

    best = demand
    for number, other in ((2, wait), (0, _by_availability(spot, demand))):
        better = safe[:, None] & (other[USD] < best[USD] - 1e-12)
        best = np.where(better, other, best)
        actions[better] = number
    return best


def _by_availability(available: "Floats", others: "Floats") -> "Floats":
    """The first values in states with a machine, the second ones in the other states, if there are any."""
    import numpy as np

    return np.concatenate((available, others[..., AGE_BINS:]), axis=-1)
