"""Search for the best split of a training: the first epochs on one machine, the other epochs on another.

On machine i, n epochs take aᵢ + bᵢ·n seconds and cost pᵢ + qᵢ·n dollars: both are lines in n. With k of N epochs on i,
a migration of m seconds, and the other epochs on j:

    T(k) = aᵢ + bᵢ·k + m + aⱼ + bⱼ·(N − k),   C(k) is the same sum in dollars,   J = u·T + v·C

**Without a limit a split never wins.** J(k) is linear in k, so its minimum on 0 ≤ k ≤ N is at an end, and there
J(0) = Jⱼ(N) + (start of i, and m) ≥ Jⱼ(N), J(N) = Jᵢ(N) + (m, and start of j) ≥ Jᵢ(N): the better of the two machines
alone is at least as good. This holds for cheapest (u = 0), fastest (v = 0) and every weight, because the divisors of a
weighted goal do not depend on k. So a split can win only

(a) within a deadline or a budget. The best single machine within the limit leaves a part of it unused; a mix of two
    machines uses all of it. With a = m = 0 a mix is a point on the chord between two points (T, C), and the best is on
    the lower convex hull of all points. Within both limits there may be a mix although no single machine is in them.
(b) if a metric must reach a value early: Sanghvi's fast GPU while the loss falls steeply, and a cheap one afterwards.
    Let the value be reached after K epochs. The time until then, aᵢ + bᵢ·K for k ≥ K, does not change with k, but the
    cost still does. A time limit for the value is a limit as in (a); without one the goal weighs the time until epoch K
    instead of the total time.
(c) if the ratio of the speeds of two machines changes during the training (a growing batch or image): not covered here.

A limit applies to the bound value·(high/value)^e of `Interval.upper_bound`, whose value and high end are lines in k too
(an early one on either side of K). For e = 1 it is a line as well. For e < 1, a confidence below 95%, it is concave: if
one end of a range of k is within the limit, so is one range of k from there on. So the best k is an end of the range of
k that is within all limits. Two to six values are tried for each ordered pair of machines, and no better one exists; an
exception are two limits of which one lets both ends of a range pass and not its middle, or e > 1. A split is possible
only where the program writes a checkpoint, at the end of an epoch. Both machines of a pair train at the same batch
size: with another batch size the rest would be another training.

Not covered: rounding to billed minutes or hours, which the estimates of the segments add; more than two segments. A mix
within one limit needs no third machine, because a linear program has an optimal solution with at most one more machine
than limits; within two limits a third machine could gain a little before its own migration is paid.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.split import EarlyTarget, Quantity
from trainfare.recommender.choose import IdealPoint

SCORE_TOLERANCE = 0.01
"""If the reverse order of two machines is at most this much worse, the faster machine goes first: it shows earlier how
the training goes."""

FLOAT_TOLERANCE = 1e-9
"""Relative rounding error of sums of floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """start + per_epoch · n, for n epochs."""

    start: float
    per_epoch: float

    def at(self, epochs: float) -> float:
        return self.start + self.per_epoch * epochs

    @classmethod
    def through(cls, one: float, many: float, epochs: int) -> "EpochLine":
        """The line with the value `one` at one epoch and `many` at `epochs`."""
        per_epoch = (many - one) / (epochs - 1)
        return cls(start=one - per_epoch, per_epoch=per_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCost:
    """Time and cost of n epochs on one machine: expected, and the high ends of their intervals.

    The exact high end is convex in n, so the line through its values at one epoch and at all epochs lies above it.
    """

    candidate: Candidate
    seconds: EpochLine
    usd: EpochLine
    high_seconds: EpochLine
    high_usd: EpochLine
    last_high_seconds: EpochLine
    """High end for the last segment: it includes the uncertainty of the number of epochs."""
    last_high_usd: EpochLine


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationCost:
    """Time and cost of a migration: expected, and the high ends of their intervals."""

    seconds: float = 0.0
    usd: float = 0.0
    high_seconds: float = 0.0
    high_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearGoal:
    """A goal in numbers: minimise J = per_second · T + per_usd · C within the limits.

    `early_epochs` is the number of epochs after which the early target is reached, expected and at most.
    """

    epochs: int
    checkpoint_every: int = 1
    """Epochs between two checkpoints; the migration comes after a multiple of it."""
    per_second: float = 0.0
    per_usd: float = 1.0
    quantity: Quantity = "usd"
    deadline_seconds: float = math.inf
    budget_usd: float = math.inf
    early_epochs: tuple[int, int] | None = None
    early_deadline_seconds: float = math.inf
    """Limit for the bound of the time until the early target."""
    early_cap_seconds: float = math.inf
    """Limit for the expected time until the early target."""
    weighs_early_time: bool = False
    """T is the time until the early target is reached, instead of the total time."""
    exponent: float = 1.0
    """e of the bounds that the limits apply to: `bound_exponent` at the confidence of the goal."""

    @property
    def split_can_win(self) -> bool:
        """True in the cases (a) and (b) of the module's docstring."""
        limited = min(self.deadline_seconds, self.budget_usd) < math.inf
        return self.epochs > self.checkpoint_every and (limited or self.early_epochs is not None)

    def upper_bound(self, value: float, high: float) -> float:
        """`Interval.upper_bound` at the confidence of the goal, from the value and the high end."""
        return high if self.exponent == 1 or not value else value * math.pow(high / value, self.exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """`after` epochs on the first machine, the rest on the second; `first` and `second` are indices of machines."""

    first: int
    second: int
    after: int
    score: float
    seconds: float
    usd: float


def linear_goal(
    goal: Goal,
    machines: Sequence[MachineCost],
    *,
    epochs: int,
    checkpoint_every: int = 1,
    ideal: IdealPoint,
    early: EarlyTarget | None = None,
    early_epochs: Interval | None = None,
    exponent: float = 1.0,
) -> LinearGoal:
    """The goal over these machines. `early_epochs` is the number of epochs until the early target, if there is one, and
    `exponent` that of the bounds.

    `ideal` is the reference of a weighted goal. If the goal weighs the time until an early target, its reference time
    is the shortest such time on these machines instead.
    """
    reached = None
    if early is not None and early_epochs is not None:
        reached = (min(epochs, max(1, round(early_epochs.value))), min(epochs, max(1, math.ceil(early_epochs.high))))
    limits = LinearGoal(
        epochs=epochs,
        checkpoint_every=checkpoint_every,
        deadline_seconds=goal.deadline_seconds or math.inf,
        budget_usd=goal.budget_usd or math.inf,
        early_epochs=reached,
        early_deadline_seconds=(early.seconds if early and early.seconds else math.inf),
        exponent=exponent,
    )
    untimed = reached is not None and early is not None and early.seconds is None
    quantity: Quantity = "usd"
    per_second, per_usd, cap = 0.0, 1.0, math.inf
    if goal.kind == "fastest" and reached is not None and untimed:
        # As early as on the fastest single machine, and then as cheap as possible.
        eligible = [machine for machine in machines if _is_within(machine, limits)]
        cap = min((machine.seconds.at(reached[0]) for machine in eligible), default=math.inf)
        if cap == math.inf:
            quantity, per_second, per_usd = "seconds", 1.0, 0.0
    elif goal.kind == "fastest":
        quantity, per_second, per_usd = "seconds", 1.0, 0.0
    elif goal.kind == "weighted" and goal.weight_time is not None:
        quantity, least_seconds = "score", ideal.seconds
        if reached is not None and untimed:
            least_seconds = min(machine.seconds.at(reached[0]) for machine in machines)
        per_second, per_usd = goal.weight_time / least_seconds, (1 - goal.weight_time) / ideal.usd
    return replace(
        limits,
        per_second=per_second,
        per_usd=per_usd,
        quantity=quantity,
        early_cap_seconds=cap,
        weighs_early_time=untimed,
    )


def _is_within(machine: MachineCost, goal: LinearGoal) -> bool:
    """True if all epochs on this machine are within the deadline and the budget."""
    n = goal.epochs
    seconds = goal.upper_bound(machine.seconds.at(n), machine.last_high_seconds.at(n))
    usd = goal.upper_bound(machine.usd.at(n), machine.last_high_usd.at(n))
    return seconds <= goal.deadline_seconds and usd <= goal.budget_usd


def best_single_machine(machines: Sequence[MachineCost], goal: LinearGoal) -> int | None:
    """The index of the machine with the least J among those within the limits; None if there is none."""
    n = goal.epochs
    eligible = []
    for index, machine in enumerate(machines):
        seconds, usd = machine.seconds.at(n), machine.usd.at(n)
        early_seconds = seconds
        if goal.early_epochs is not None:
            expected, most = goal.early_epochs
            early_seconds = machine.seconds.at(expected)
            early_upper = goal.upper_bound(early_seconds, machine.high_seconds.at(most))
            too_late = early_seconds > goal.early_cap_seconds * (1 + FLOAT_TOLERANCE)
            if too_late or early_upper > goal.early_deadline_seconds:
                continue
        if _is_within(machine, goal):
            weighed = early_seconds if goal.weighs_early_time else seconds
            eligible.append((goal.per_second * weighed + goal.per_usd * usd, seconds, usd, index))
    return min(eligible)[-1] if eligible else None


def find_splits(
    machines: Sequence[MachineCost], migration_cost: Callable[[int, int], MigrationCost], goal: LinearGoal
) -> tuple[Split, ...]:
    """The best split of every ordered pair of machines that has one within the limits, best first.

    Empty if no split can win (`LinearGoal.split_can_win`). `estimate_saving` decides whether a split does win.
    """
    if not goal.split_can_win:
        return ()
    found = []
    for i, first in enumerate(machines):
        for j, second in enumerate(machines):
            if i == j or first.candidate.batch_size != second.candidate.batch_size:
                continue
            pair = MachinePair(first=first, second=second, migration=migration_cost(i, j), goal=goal)
            best = min(((pair.score(k), k) for k in pair.extreme_splits()), default=None)
            if best is not None:
                score, k = best
                found.append(Split(first=i, second=j, after=k, score=score, seconds=pair.seconds(k), usd=pair.usd(k)))
    return tuple(sorted(found, key=lambda s: (s.score, s.seconds, s.usd)))


def prefer_faster_first(splits: Sequence[Split], machines: Sequence[MachineCost]) -> Split:
    """The best split, or its reverse order if that starts on the faster machine and is at most slightly worse."""
    best = splits[0]
    for other in splits[1:]:
        if other.score > best.score * (1 + SCORE_TOLERANCE):
            break
        is_reverse = (other.first, other.second) == (best.second, best.first)
        if is_reverse and machines[other.first].seconds.per_epoch < machines[best.first].seconds.per_epoch:
            return other
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePair:
    """T, C and J of one ordered pair of machines, in the letters of the module's docstring."""

    first: MachineCost
    second: MachineCost
    migration: MigrationCost
    goal: LinearGoal

    def seconds(self, k: int) -> float:
        return self.first.seconds.at(k) + self.migration.seconds + self.second.seconds.at(self.goal.epochs - k)

    def usd(self, k: int) -> float:
        return self.first.usd.at(k) + self.migration.usd + self.second.usd.at(self.goal.epochs - k)

    def upper_seconds(self, k: int) -> float:
        rest = self.second.last_high_seconds.at(self.goal.epochs - k)
        high = self.first.high_seconds.at(k) + self.migration.high_seconds + rest
        return self.goal.upper_bound(self.seconds(k), high)

    def upper_usd(self, k: int) -> float:
        rest = self.second.last_high_usd.at(self.goal.epochs - k)
        return self.goal.upper_bound(self.usd(k), self.first.high_usd.at(k) + self.migration.high_usd + rest)

    def early_seconds(self, k: int) -> float:
        """The expected time until the early target."""
        reached = self.goal.early_epochs[0] if self.goal.early_epochs else 0
        if k >= reached:
            return self.first.seconds.at(reached)
        return self.first.seconds.at(k) + self.migration.seconds + self.second.seconds.at(reached - k)

    def upper_early_seconds(self, k: int) -> float:
        """The bound of the time until the early target."""
        return self.goal.upper_bound(self.early_seconds(k), self.high_early_seconds(k))

    def high_early_seconds(self, k: int) -> float:
        """The high end of the time until the early target: for the largest number of epochs."""
        reached = self.goal.early_epochs[1] if self.goal.early_epochs else 0
        if k >= reached:
            return self.first.high_seconds.at(reached)
        rest = self.second.high_seconds.at(reached - k)
        return self.first.high_seconds.at(k) + self.migration.high_seconds + rest

    def score(self, k: int) -> float:
        weighed = self.early_seconds(k) if self.goal.weighs_early_time else self.seconds(k)
        return self.goal.per_second * weighed + self.goal.per_usd * self.usd(k)

    def extreme_splits(self) -> Iterator[int]:
        """The ends of the ranges of k within all limits, for each range in which everything is linear."""
        goal = self.goal
        limits = [
            (bound, limit)
            for bound, limit in (
                (self.upper_seconds, goal.deadline_seconds),
                (self.upper_usd, goal.budget_usd),
                (self.upper_early_seconds, goal.early_deadline_seconds),
                (self.early_seconds, goal.early_cap_seconds * (1 + FLOAT_TOLERANCE)),
            )
            if limit < math.inf
        ]
        every = goal.checkpoint_every
        for low, high in _linear_ranges(goal):
            ends = low, high
            for bound, limit in limits:
                ends = _range_within(*ends, bound, limit, every)
                if ends[0] > ends[1]:
                    break
            else:
                yield from dict.fromkeys(end * every for end in ends)


def _linear_ranges(goal: LinearGoal) -> Iterator[tuple[int, int]]:
    """Ranges of k, in units of `checkpoint_every`, in which all times are linear: cut at the early target."""
    low, high = 1, (goal.epochs - 1) // goal.checkpoint_every
    cuts = sorted({math.ceil(reached / goal.checkpoint_every) for reached in goal.early_epochs or ()})
    for cut in cuts:
        if low < cut <= high:
            yield low, cut - 1
            low = cut
    if low <= high:
        yield low, high


def _range_within(low: int, high: int, bound: Callable[[int], float], limit: float, every: int) -> tuple[int, int]:
    """The part of low … high in which the bound is at most the limit, by bisection; the ends are swapped if there is
    none."""
    within_low, within_high = bound(low * every) <= limit, bound(high * every) <= limit
    if within_low == within_high:
        return (low, high) if within_low else (high + 1, low)
    last, first = low, high
    while first - last > 1:
        middle = (last + first) // 2
        if (bound(middle * every) <= limit) == within_low:
            last = middle
        else:
            first = middle
    return (low, last) if within_low else (first, high)
