"""Whether a training on spot ends in time, and what it costs to go over to on demand before it is too late.

Reckoned backwards in slots of h from the deadline D, by what each action is worth (`spot_grid.py`): dollars, seconds,
and the probability of having gone over to on demand, for one of two rules:

    greedy    spot while t + R + w + τ leaves room before D, then on demand to the end
    best      whatever has the least expected dollars, within the same limit; it may come back from on demand

and without on demand the probability that work is left at D; and beyond it, dollars and seconds to the end.

Limits: the loss at an interruption is its mean, half of what lies between two checkpoints; a start that is lost after
its first slot is lost but for what it had done; what is on demand can always be had; prices stand still. Slots make
every wait longer by half of one, so that their number is chosen by `steps_for`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from trainfare.estimator.estimate import STARTING
from trainfare.estimator.spot.grid import FALLBACK, SECONDS, STATES, USD, Grid, along
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

Rule = Literal["greedy", "best"]

FEWEST_STEPS, MOST_STEPS, SLOT_SECONDS = 200, 600, 600.0
"""Slots up to the deadline: of ten minutes, but neither fewer nor more than these."""
COARSE_STEPS = 150
"""Where a plan is made, of several machines in several zones: within 1 % of the cost and 0.02 of a probability of what
four times as many give."""
STEPS_OF_WORK = 25
"""At least so many are in the work, however far the deadline is."""
BEYOND = 3.0
"""How many deadlines long a training without on demand is followed, where it is not ten times as long as the work; what
is left then goes on at the mean pace."""
WORK_POINTS = 9
"""Into so many equally likely values the doubt about the work is cut."""
ACTIONS: tuple[Action, ...] = ("spot", "on demand", "wait")


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cheapest action, by slot, work left and state: what the rule `best` would do."""

    outcome: Outcome
    step_seconds: float
    on_nothing: "Bytes"
    on_spot: "Bytes"
    on_demand: "Bytes"

    def cheapest(self, state: SpotState) -> Action:
        """Read from the nearest point of the grid that has the same slack."""
        h = self.step_seconds
        i = min(len(self.on_nothing) - 1, max(0, int(state.seconds / h)))
        table = {"nothing": self.on_nothing, "spot": self.on_spot, "on demand": self.on_demand}[state.running]
        # Between two slots of the grid, time that has passed counts like work that is left: the slack is the same.
        left = state.left_seconds + state.starting_seconds + state.seconds - i * h
        k = min(table.shape[1] - 1, max(1, int(left / h + 0.5)))
        rung = age_bin(state.since_seconds)
        if state.running == "spot":
            return ACTIONS[int(table.item(i, k, rung))]
        return ACTIONS[int(table.item(i, k, rung if state.available else AGE_BINS + rung))]


def late_on_spot(
    training: SpotTraining,
    availabilities: Sequence[Availability],
    *,
    work: Interval | None = None,
    steps: int | None = None,
) -> float:
    """The probability of ending after the deadline on spot alone: the mean over the zones that may hold, by weight, and
    over the doubt about the work."""
    steps = steps_for(training, steps)
    return _weighted([(a.weight, _late(training, a, work, steps)) for a in availabilities])


def on_spot_only(
    training: SpotTraining, availability: Availability, *, work: Interval | None = None, steps: int | None = None
) -> Outcome:
    """Wait where there is none, take one where there is, to the end. The doubt about the work is in `late` alone."""
    steps = steps_for(training, steps)
    grid = Grid.of(training, availability, steps)
    # What is left at the horizon goes on at the mean pace: a machine is there for a share of the time.
    off = along(grid, training.spot_usd_per_hour / SECONDS_PER_HOUR, 1 / availability.share, 0.0, states=STATES)
    beyond = BEYOND if training.deadline_seconds < 10 * training.work_seconds else 1.0
    off, _ = _on_spot_for(grid, math.ceil(beyond * steps), off, off[..., :AGE_BINS].copy())
    found = grid.begin(off)
    return Outcome(usd=found[USD], seconds=found[SECONDS], late=_late(training, availability, work, steps))


def with_fallback(training: SpotTraining, availability: Availability, *, steps: int | None = None) -> Outcome:
    """By the rule `greedy`. It is never late, unless on demand alone would be."""
    return _solve(training, availability, "greedy", steps_for(training, steps)).outcome


def outlook(training: SpotTraining, availability: Availability, *, steps: int | None = None) -> Outlook:
    """By the rule `best`."""
    return _solve(training, availability, "best", steps_for(training, steps))


def steps_for(training: SpotTraining, wanted: int | None = None) -> int:
    """As many as are wanted, else slots of about ten minutes; more where the work would else be but a few."""
    if wanted is None:
        wanted = round(min(MOST_STEPS, max(FEWEST_STEPS, training.deadline_seconds / SLOT_SECONDS)))
    return max(wanted, min(3000, round(STEPS_OF_WORK * training.deadline_seconds / training.work_seconds)))


def spot_risk(estimate: Estimate, on_demand: Estimate, goal: Goal, market: SpotMarket) -> SpotRisk:
    """What the deadline of `goal` means for an Estimate on spot, `on_demand` being of the same machine.

    Without on demand, the doubt about the work is in the probability of being late. With it, the upper end of the work
    at the goal's confidence is kept in reserve: on demand begins early enough for that, and is late only where on
    demand from the beginning would be. Each figure is the mean over the zones by weight.
    """
    if goal.deadline_seconds is None:
        raise ValueError("a goal without a deadline has no risk of missing it")
    nodes, work = estimate.candidate.nodes, work_of(estimate)
    training = training_of(estimate, on_demand, deadline_seconds=goal.deadline_seconds)
    several = [a.for_nodes(nodes) for a in market.zones]
    reserved = work.at_confidence(goal.confidence).high - work.value
    kept = replace(training, deadline_seconds=max(1.0, goal.deadline_seconds - reserved))
    late = chance_above(on_demand.seconds, goal.deadline_seconds)
    straight = Outcome(usd=on_demand.usd.value, seconds=on_demand.seconds.value, late=late, fallback=1.0)
    backed = straight
    if kept.slack_seconds > 0:
        backed = _mean([(a.weight, outlook(kept, a, steps=COARSE_STEPS).outcome) for a in several])
    alone = _mean([(a.weight, on_spot_only(training, a, work=work, steps=COARSE_STEPS)) for a in several])
    return SpotRisk(
        deadline_seconds=goal.deadline_seconds,
        spot_only=alone,
        with_fallback=replace(backed, late=late),
        on_demand=straight,
        fallback_at_seconds=max(0.0, kept.slack_seconds),
        checkpoint_every_seconds=estimate.checkpoint_every_seconds,
        stay_seconds=SECONDS_PER_HOUR * _weighted([(a.weight, a.stay_hours) for a in several]),
        wait_seconds=SECONDS_PER_HOUR * _weighted([(a.weight, a.wait_hours) for a in several]),
        source=market.source,
    )


def training_of(estimate: Estimate, on_demand: Estimate, *, deadline_seconds: float) -> SpotTraining:
    """The Estimate on spot without its interruptions, which are reckoned anew."""
    work = work_of(estimate).value
    start = sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTING)
    return SpotTraining(
        work_seconds=work,
        start_seconds=start,
        checkpoint_every_seconds=min(work, estimate.checkpoint_every_seconds or work),
        deadline_seconds=deadline_seconds,
        spot_usd_per_hour=estimate.candidate.usd_per_hour,
        on_demand_usd_per_hour=on_demand.candidate.usd_per_hour,
    )


def work_of(estimate: Estimate) -> Interval:
    """What the program does between its start and its end: as its parts err, so does the whole."""
    parts = [phase.seconds for phase in estimate.phases if phase.name not in (*STARTING, "spot rework")]
    work = sum(parts[1:], start=parts[0]) if parts else Interval.exactly(1.0)
    return work if work.value > 0 else Interval.exactly(1.0)


def chance_above(belief: Interval, limit: float) -> float:
    """That the true value is above the limit, as if its logarithm erred normally on either side of the value."""
    if limit <= 0 or belief.value <= 0:
        return float(belief.value > limit)
    end = belief.high if limit > belief.value else belief.low
    if end == belief.value or end <= 0:
        return float(belief.value > limit)
    z = NormalDist().inv_cdf((1 + belief.confidence) / 2)
    return 1 - NormalDist().cdf(z * math.log(limit / belief.value) / abs(math.log(end / belief.value)))


def work_points(work: Interval) -> tuple[float, ...]:
    """Equally likely values, as if the logarithm erred normally on either side of the value."""
    z = NormalDist().inv_cdf((1 + work.confidence) / 2)
    shares = [(i + 0.5) / WORK_POINTS for i in range(WORK_POINTS)]
    points = []
    for share in shares:
        off = NormalDist().inv_cdf(share) / z
        end = work.high if off > 0 else max(work.low, work.value / 10)
        points.append(work.value * (end / work.value) ** abs(off))
    return tuple(points)


def _mean(found: Sequence[tuple[float, Outcome]]) -> Outcome:
    return Outcome(
        usd=_weighted([(weight, each.usd) for weight, each in found]),
        seconds=_weighted([(weight, each.seconds) for weight, each in found]),
        late=_weighted([(weight, each.late) for weight, each in found]),
        fallback=_weighted([(weight, each.fallback) for weight, each in found]),
    )


def _weighted(values: Sequence[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in values) / sum(weight for weight, _ in values)


def _late(training: SpotTraining, availability: Availability, work: Interval | None, steps: int) -> float:
    import numpy as np

    works = (training.work_seconds,) if work is None else work_points(work)
    reached = [each for each in works if each + training.start_seconds <= training.deadline_seconds]
    if not reached:
        return 1.0
    grid = Grid.of(training, availability, steps, most_work=max(reached))
    off, on = np.ones((1, len(grid.w), STATES)), np.ones((1, len(grid.w), AGE_BINS))
    off[:, 0] = on[:, 0] = 0.0
    off, _ = _on_spot_for(grid, steps, off, on)
    missed = [grid.begin(off, each)[0] for each in reached] + [1.0] * (len(works) - len(reached))
    return min(1.0, max(0.0, sum(missed) / len(works)))


def _on_spot_for(grid: Grid, steps: int, off: "Floats", on: "Floats") -> tuple["Floats", "Floats"]:
    """So many slots earlier, spot being taken whenever there is one."""
    for _ in range(steps):
        start, go = grid.spot_start(off, on), grid.spot_go(off, on)
        off, on = _joined(start, grid.wait(off)), go
        off[:, 0] = on[:, 0] = 0.0
    return off, on


def _solve(training: SpotTraining, availability: Availability, rule: Rule, steps: int) -> Outlook:
    import numpy as np

    grid = Grid.of(training, availability, steps)
    demand = along(grid, training.on_demand_usd_per_hour / SECONDS_PER_HOUR, 1.0, 1.0, states=STATES)
    off, on = demand.copy(), demand[..., :AGE_BINS].copy()
    tables = [np.ones((steps, len(grid.w), n), dtype=np.int8) for n in (STATES, AGE_BINS, STATES)]
    choose = _cheapest if rule == "best" else _greedy
    for i in reversed(range(steps)):
        room = training.deadline_seconds - i * grid.h - training.decide_every_seconds - training.start_seconds
        safe, safe_on = grid.w <= room, grid.w <= room - training.checkpoint_every_seconds
        start, go, wait = grid.spot_start(off, on), grid.spot_go(off, on), grid.wait(off)
        begun, kept = grid.demand_start(demand), grid.demand_go(demand)
        begun[FALLBACK] = 1.0
        off = choose(safe, start, begun, wait, tables[0][i])
        on = choose(safe_on, go, begun[..., :AGE_BINS], wait[..., :AGE_BINS], tables[1][i])
        demand = _cheapest(safe, start, kept, wait, tables[2][i]) if rule == "best" else kept
        for each in (off, on, demand):
            each[:, 0] = 0.0
    found = grid.begin(off)
    straight = training.start_seconds + training.work_seconds
    outcome = Outcome(
        usd=found[USD],
        seconds=found[SECONDS],
        late=float(straight > training.deadline_seconds),
        fallback=min(1.0, max(0.0, found[FALLBACK])),
    )
    return Outlook(outcome, grid.h, *tables)


def _greedy(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats", actions: "Bytes") -> "Floats":
    """Spot where there is one, else wait, while it is safe; `actions` is written to."""
    import numpy as np

    actions[safe, :AGE_BINS], actions[safe, AGE_BINS:] = 0, 2
    return np.where(safe[:, None], _joined(spot, wait), demand)


def _cheapest(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats", actions: "Bytes") -> "Floats":
    """`actions` is written to, and holds 1 before."""
    import numpy as np

    best = demand
    for number, other in ((2, wait), (0, _joined(spot, demand))):
        better = safe[:, None] & (other[USD] < best[USD] - 1e-12)
        best = np.where(better, other, best)
        actions[better] = number
    return best


def _joined(up: "Floats", whole: "Floats") -> "Floats":
    """Of states with a machine the first, of the others, where there are any, the second."""
    import numpy as np

    return np.concatenate((up, whole[..., AGE_BINS:]), axis=-1)
