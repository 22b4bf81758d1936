"""Whether a training on spot ends in time, and what it costs to go over to on demand before it is too late.

Availability is a chain of eight states: a machine can be had, or none can, each on four rungs of age. A rung of w
hours with rate λ is left upwards at the rate λ/(e^{λw} − 1): so the chance to outlast it, e^{−λw}, and the mean time on
it are those of a rate that is constant up to exactly w. In a slot of h seconds

    P = e^{Qh}        from state to state
    S = e^{Q_uu·h}    the same among states with a machine, never having lost it

The value of having w seconds of work left at time t, in state s, with nothing running (o), a spot machine (m) or one on
demand (d), is reckoned backwards from the deadline on a grid of h, R being a start and τ the work between checkpoints:

    on demand   p_d·h + P·d(t+h, w−h)                                          from o or m with w + R for w
    wait        P·o(t+h, w)
    spot        p_s·h + S·m(t+h, w−h) + (P − S)·o(t+h, w − h/2 + τ/2)          from o or d with w + R for w, and in its
                                                                               first slot a loss leaves w as it was

between grid points by a line. The same recursion carries dollars, seconds, and the probability of having gone over to
on demand, for one of two rules:

    greedy    spot while t + R + w + τ leaves room before the deadline, then on demand to the end
    best      whatever has the least expected dollars, within the same limit; it may come back from on demand

and without on demand the probability that work is left at the deadline, and beyond it, dollars and seconds to the end.

Limits: the loss at an interruption is its mean, half of what lies between two checkpoints; a start that is lost after
its first slot is lost but for what it had done; what is on demand can always be had; prices stand still.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from trainfare.estimator.estimate import STARTING
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.spot import (
    AGE_HOURS,
    RUNGS,
    Action,
    Availability,
    Outcome,
    SpotMarket,
    SpotRisk,
    SpotState,
    SpotTraining,
    rung_of,
)
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import bool_, float64, int8
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Bools = NDArray[bool_]
    Bytes = NDArray[int8]

Rule = Literal["greedy", "best"]

STATES = 2 * RUNGS
FEWEST_STEPS, MOST_STEPS, SLOT_SECONDS = 200, 600, 600.0
"""Slots up to the deadline: of ten minutes, but neither fewer nor more than these."""
BEYOND = 3.0
"""How many deadlines long a training without on demand is followed; what is left then goes on at the mean pace."""
WORK_POINTS = 9
"""Into so many equally likely values the doubt about the work is cut."""
ACTIONS: tuple[Action, ...] = ("spot", "on demand", "wait")
USD, SECONDS, FALLBACK = 0, 1, 2


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
        rung = rung_of(state.since_seconds)
        if state.running == "spot":
            return ACTIONS[int(table.item(i, k, rung))]
        return ACTIONS[int(table.item(i, k, rung if state.available else RUNGS + rung))]


def late_on_spot(
    training: SpotTraining,
    availabilities: Sequence[Availability],
    *,
    work: Interval | None = None,
    steps: int | None = None,
) -> float:
    """The probability of ending after the deadline on spot alone: the mean over the zones that may hold, by weight, and
    over the doubt about the work."""
    steps = steps or steps_for(training)
    return _weighted([(a.weight, _late(training, a, work, steps)) for a in availabilities])


def on_spot_only(training: SpotTraining, availability: Availability, *, steps: int | None = None) -> Outcome:
    """Wait where there is none, take one where there is, to the end."""
    steps = steps or steps_for(training)
    grid = _Grid.of(training, availability, steps)
    horizon = math.ceil(BEYOND * training.deadline_seconds / grid.h)
    # What is left at the horizon goes on at the mean pace: a machine is there for a share of the time.
    off = _along(grid.w, _pair(training.spot_usd_per_hour / SECONDS_PER_HOUR, 1 / availability.share), STATES)
    on = off[:, :RUNGS].copy()
    for _ in range(horizon):
        start, go = grid.spot_start(off, on), grid.spot_go(off, on)
        off = _joined(start, grid.wait(off)[:, RUNGS:])
        on = go
        off[0] = on[0] = 0.0
    found = grid.begin(off)
    return Outcome(usd=found[USD], seconds=found[SECONDS], late=_late(training, availability, None, steps))


def with_fallback(training: SpotTraining, availability: Availability, *, steps: int | None = None) -> Outcome:
    """By the rule `greedy`. It is never late, unless on demand alone would be."""
    return _solve(training, availability, "greedy", steps or steps_for(training)).outcome


def outlook(training: SpotTraining, availability: Availability, *, steps: int | None = None) -> Outlook:
    """By the rule `best`."""
    return _solve(training, availability, "best", steps or steps_for(training))


def steps_for(training: SpotTraining) -> int:
    return round(min(MOST_STEPS, max(FEWEST_STEPS, training.deadline_seconds / SLOT_SECONDS)))


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
    several = [a.of_nodes(nodes) for a in market.zones]
    reserved = work.at(goal.confidence).high - work.value
    kept = replace(training, deadline_seconds=max(1.0, goal.deadline_seconds - reserved))
    late = chance_above(on_demand.seconds, goal.deadline_seconds)
    straight = Outcome(usd=on_demand.usd.value, seconds=on_demand.seconds.value, late=late, fallback=1.0)
    backed = straight if kept.slack_seconds <= 0 else _mean([(a.weight, with_fallback(kept, a)) for a in several])
    alone = _mean([(a.weight, on_spot_only(training, a)) for a in several])
    return SpotRisk(
        deadline_seconds=goal.deadline_seconds,
        spot_only=replace(alone, late=late_on_spot(training, several, work=work)),
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
    grid = _Grid.of(training, availability, steps, most_work=max(reached))
    off = np.ones((grid.size, STATES, 1))
    on = np.ones((grid.size, RUNGS, 1))
    off[0] = on[0] = 0.0
    for _ in range(steps):
        start, go = grid.spot_start(off, on), grid.spot_go(off, on)
        off, on = _joined(start, grid.wait(off)[:, RUNGS:]), go
        off[0] = on[0] = 0.0
    missed = [grid.begin(off, each)[0] for each in reached] + [1.0] * (len(works) - len(reached))
    return min(1.0, max(0.0, sum(missed) / len(works)))


def _solve(training: SpotTraining, availability: Availability, rule: Rule, steps: int) -> Outlook:
    import numpy as np

    grid = _Grid.of(training, availability, steps)
    per_second = training.on_demand_usd_per_hour / SECONDS_PER_HOUR
    demand = _along(grid.w, (per_second, 1.0, 1.0), STATES)
    demand[..., FALLBACK] = 1.0
    off, on = demand.copy(), demand[:, :RUNGS].copy()
    shape = (steps, grid.size)
    tables = [np.empty((*shape, n), dtype=np.int8) for n in (STATES, RUNGS, STATES)]
    for i in reversed(range(steps)):
        room = training.deadline_seconds - i * grid.h - training.decide_every_seconds - training.start_seconds
        safe, safe_on = grid.w <= room, grid.w <= room - training.checkpoint_every_seconds
        start, go, wait = grid.spot_start(off, on), grid.spot_go(off, on), grid.wait(off)
        begun, kept = grid.demand_start(demand), grid.demand_go(demand)
        begun[..., FALLBACK] = 1.0
        choose = _cheapest if rule == "best" else _greedy
        off, tables[0][i] = choose(safe, start, begun, wait)
        on, tables[1][i] = choose(safe_on, go, begun[:, :RUNGS], wait[:, :RUNGS])
        if rule == "best":
            demand, tables[2][i] = _cheapest(safe, start, kept, wait)
        else:
            demand, tables[2][i] = kept, np.int8(1)
        for each in (off, on, demand):
            each[0] = 0.0
    found = grid.begin(off)
    straight = training.start_seconds + training.work_seconds
    outcome = Outcome(
        usd=found[USD],
        seconds=found[SECONDS],
        late=float(straight > training.deadline_seconds),
        fallback=min(1.0, max(0.0, found[FALLBACK])),
    )
    return Outlook(outcome, grid.h, *tables)


def _greedy(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats") -> tuple["Floats", "Bytes"]:
    """Spot where there is one, else wait, while it is safe."""
    import numpy as np

    kept = _joined(spot, wait[:, RUNGS:])
    actions = np.where(np.arange(demand.shape[1]) < RUNGS, 0, 2).astype(np.int8)
    return np.where(safe[:, None, None], kept, demand), np.where(safe[:, None], actions, 1).astype(np.int8)


def _cheapest(safe: "Bools", spot: "Floats", demand: "Floats", wait: "Floats") -> tuple["Floats", "Bytes"]:
    import numpy as np

    best, action = demand.copy(), np.ones(demand.shape[:2], dtype=np.int8)
    for number, other in ((2, wait), (0, spot)):
        n = other.shape[1]
        better = safe[:, None] & (other[..., USD] < best[:, :n, USD] - 1e-12)
        best[:, :n][better] = other[better]
        action[:, :n][better] = number
    return best, action


@dataclass(frozen=True, slots=True)
class _Grid:
    """Work left in steps of h, and how values a slot later become values now. The last axis of a value is what is
    counted: dollars, seconds, fallback; or the probability of being late alone."""

    training: SpotTraining
    h: float
    w: "Floats"
    move: "Floats"
    """P."""
    stay: "Floats"
    """S."""
    stationary: "Floats"

    @classmethod
    def of(cls, training: SpotTraining, availability: Availability, steps: int, most_work: float = 0.0) -> "_Grid":
        import numpy as np

        h = training.deadline_seconds / steps
        most = max(training.work_seconds, most_work) + training.start_seconds
        most += min(training.checkpoint_every_seconds, training.work_seconds)
        w = h * np.arange(math.ceil(most / h) + 3, dtype=np.float64)
        q = _generator(availability)
        up = q[:RUNGS, :RUNGS]
        move, stay = (_exponential(each * h / SECONDS_PER_HOUR) for each in (q, up))
        lasting = _exponential(q * 1e4)
        return cls(training, h, w, move, stay, lasting[0])

    @property
    def size(self) -> int:
        return len(self.w)

    def begin(self, off: "Floats", work: float | None = None) -> list[float]:
        """With nothing running and all work left, the market being as it mostly is."""
        at = (self.training.work_seconds if work is None else work) / self.h
        k = min(self.size - 2, int(at))
        value = off[k] + (at - k) * (off[k + 1] - off[k])
        return [float(each) for each in self.stationary @ value]

    def wait(self, off: "Floats") -> "Floats":
        after = self._expected(self.move, off)
        if after.shape[-1] > 1:
            after[..., SECONDS] += self.h
        return after

    def demand_go(self, demand: "Floats") -> "Floats":
        after = self._expected(self.move, self._at(demand, -self.h))
        return self._paid(after, self.w, self.training.on_demand_usd_per_hour)

    def demand_start(self, demand: "Floats") -> "Floats":
        start = self.training.start_seconds
        after = self._expected(self.move, self._at(demand, start - self.h))
        return self._paid(after, self.w + start, self.training.on_demand_usd_per_hour)

    def spot_go(self, off: "Floats", on: "Floats") -> "Floats":
        lost = min(self.training.checkpoint_every_seconds, self.training.work_seconds) / 2
        return self._spot(self._at(on, -self.h), self._at(off, lost - self.h / 2), self.w)

    def spot_start(self, off: "Floats", on: "Floats") -> "Floats":
        start = self.training.start_seconds
        return self._spot(self._at(on, start - self.h), off, self.w + start)

    def _spot(self, on: "Floats", off: "Floats", left: "Floats") -> "Floats":
        import numpy as np

        lost = self.move[:RUNGS] - np.pad(self.stay, ((0, 0), (0, RUNGS)))
        # What ends within the slot is lost only if the machine goes before that.
        share = np.minimum(left / self.h, 1.0)[:, None, None]
        gone = lost.sum(axis=1)[None, :, None] * share
        after = self._expected(self.stay, on) + share * self._expected(lost, off)
        if after.shape[-1] == 1:
            return after
        # A loss comes in the middle of the slot; the rest of it is waited.
        paid = np.minimum(left, self.h)[:, None] * (1 - gone[..., 0] / 2)
        after[..., USD] += self.training.spot_usd_per_hour / SECONDS_PER_HOUR * paid
        after[..., SECONDS] += np.minimum(left, self.h)[:, None]
        return after

    def _paid(self, after: "Floats", left: "Floats", usd_per_hour: float) -> "Floats":
        import numpy as np

        seconds = np.minimum(left, self.h)[:, None]
        after[..., USD] += usd_per_hour / SECONDS_PER_HOUR * seconds
        after[..., SECONDS] += seconds
        return after

    def _at(self, values: "Floats", more: float) -> "Floats":
        """At w + more for every w: nothing below zero, beyond the grid as at its end."""
        import numpy as np

        at = np.clip(np.arange(self.size) + more / self.h, 0.0, self.size - 1.000001)
        k = at.astype(np.int64)
        part = (at - k)[:, None, None]
        return np.asarray((1 - part) * values[k] + part * values[k + 1])

    @staticmethod
    def _expected(chances: "Floats", values: "Floats") -> "Floats":
        import numpy as np

        return np.asarray(np.matmul(chances, values))


def _generator(availability: Availability) -> "Floats":
    """Q, per hour: up and down, each up its ladder, and from every rung to the foot of the other."""
    import numpy as np

    q = np.zeros((STATES, STATES))
    for base, other, rates in ((0, RUNGS, availability.lost_per_hour), (RUNGS, 0, availability.back_per_hour)):
        for rung, (rate, width) in enumerate(zip(rates, _widths(), strict=True)):
            q[base + rung, other] += rate
            if rung + 1 < RUNGS:
                climb = rate / math.expm1(rate * width) if rate > 1e-9 else 1 / width
                q[base + rung, base + rung + 1] += climb
    q[np.diag_indices(STATES)] = -q.sum(axis=1)
    return q


def _widths() -> Iterator[float]:
    begin = 0.0
    for end in AGE_HOURS:
        yield end - begin
        begin = end
    yield math.inf


def _exponential(matrix: "Floats") -> "Floats":
    """By halving until small, a few terms of the series, and squaring back."""
    import numpy as np

    halvings = max(0, math.ceil(math.log2(max(1e-9, float(np.abs(matrix).max())))) + 6)
    small = matrix / 2**halvings
    result = term = np.eye(len(matrix))
    for n in range(1, 7):
        term = term @ small / n
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return np.asarray(result)


def _joined(up: "Floats", down: "Floats") -> "Floats":
    """Values on a spot machine are only of states in which there is one: `down` may be empty."""
    import numpy as np

    return np.concatenate((up, down), axis=1) if down.shape[1] else up.copy()


def _pair(usd: float, seconds: float) -> tuple[float, float, float]:
    return usd, seconds, 0.0


def _along(w: "Floats", per_second: tuple[float, float, float], states: int) -> "Floats":
    import numpy as np

    return np.repeat((w[:, None] * np.array(per_second))[:, None, :], states, axis=1)
