"""When is it worth training the first epochs on one machine and the rest on another?

On machine i, n epochs take aᵢ + bᵢ·n seconds and cost pᵢ + qᵢ·n dollars: straight lines. k of N epochs on i, then a
move of m, then the rest on j:

    T(k) = aᵢ + bᵢ·k + m + aⱼ + bⱼ·(N − k),   C(k) likewise,   J = u·T + v·C

**Without a limit it never pays.** J(k) is a straight line in k, so on 0 ≤ k ≤ N it is least at an end; and there
J(0) = Jⱼ(N) + (what i takes to start, and m) ≥ Jⱼ(N), J(N) = Jᵢ(N) + (m, and what j takes to start) ≥ Jᵢ(N): the
better of the two alone is at least as good. That holds for cheapest (u = 0), fastest (v = 0) and every weight, since
what a weighted goal divides by does not depend on k. So two legs can win only

(a) within a deadline or a budget. The best single machine that keeps it leaves some of it unused; a mix uses it up.
    With a = m = 0 a mix is a point on the chord between two points (T, C), and the best is on the lower convex hull of
    all. Within both limits there may be a mix where no single machine keeps them.
(b) where a figure is wanted early: Sanghvi's fast GPU while the loss falls steeply, and a cheap one after. Let it be
    there after K epochs. The time until then, aᵢ + bᵢ·K for k ≥ K, does not change with k while the cost still does. A
    time for it is a limit as in (a); without one the goal weighs the time until K in place of the whole.
(c) where the speeds of two machines compare differently along the training (a batch or an image that grows): not here.

Limits are linear in k too (an early one left and right of K), so the best k is an end of the k that keep them all: two
to six are tried of each ordered pair, and none is missed. Splits are at whole epochs, as often as the program writes
a checkpoint. The machines of a pair train at the same batch size: with another, the rest is another training.

Not here: rounding by the minute or the hour, which whoever estimates the legs adds; more than two legs. A mix within
one limit needs no third machine, since a linear programme has a solution with no more of them than one and its limits;
within two limits a third could gain a little before its own move is paid.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.split import Early, Quantity, Saving
from trainfare.recommender.choose import IdealPoint
from trainfare.recommender.limits import upper_end

SHORTLIST = 40
"""Machines that are paired with one another: 1560 pairs."""

ALIKE = 0.01
"""Within so much of the score, the faster machine goes first: it tells sooner what becomes of the training."""

STARTING = ("boot", "setup", "initialisation", "first iteration")
"""Phases that do not grow with the number of epochs."""

ROUNDED = 1e-9
"""What adding up floats leaves behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """start + per_epoch · n."""

    start: float
    per_epoch: float

    def at(self, epochs: float) -> float:
        return self.start + self.per_epoch * epochs

    @classmethod
    def through(cls, one: float, many: float, epochs: int) -> "Line":
        """With `one` at one epoch and `many` at so many."""
        per_epoch = (many - one) / (epochs - 1)
        return cls(start=one - per_epoch, per_epoch=per_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What n epochs take on one machine, as expected and at the most.

    The most is the upper end at the confidence of the goal. It bends upwards in n, so that the line through one epoch
    and all of them lies above it in between.
    """

    candidate: Candidate
    seconds: Line
    usd: Line
    most_seconds: Line
    most_usd: Line
    last_seconds: Line
    """The most, of a leg that also has to do with it that nobody knows how many epochs there are. Likewise dollars."""
    last_usd: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationCost:
    """What a move adds, as expected and at the most."""

    seconds: float = 0.0
    usd: float = 0.0
    most_seconds: float = 0.0
    most_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A goal in numbers: J = per_second · T + per_usd · C, and what it is least within.

    `early` is the number of epochs after which the figure that is wanted early is there, as expected and at the most.
    """

    epochs: int
    every: int = 1
    """Epochs between two checkpoints: there may be a move only after a multiple of it."""
    per_second: float = 0.0
    per_usd: float = 1.0
    quantity: Quantity = "usd"
    deadline_seconds: float = math.inf
    budget_usd: float = math.inf
    early: tuple[int, int] | None = None
    early_deadline_seconds: float = math.inf
    """For the early figure at the most."""
    early_cap_seconds: float = math.inf
    """For the early figure as expected."""
    weighs_early: bool = False
    """T is the time until the early figure is there."""

    @property
    def can_pay(self) -> bool:
        """Whether two legs can win at all: (a) or (b)."""
        bounded = min(self.deadline_seconds, self.budget_usd) < math.inf
        return self.epochs > self.every and (bounded or self.early is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """`after` epochs on the first machine, the rest on the second: places in the list of courses."""

    first: int
    second: int
    after: int
    score: float
    seconds: float
    usd: float


def wanted_of(
    goal: Goal,
    courses: Sequence[Course],
    *,
    epochs: int,
    every: int = 1,
    least: IdealPoint,
    early: Early | None = None,
    early_epochs: Interval | None = None,
) -> Wanted:
    """The goal over these machines. `early_epochs` is when the early figure is there, where one is wanted.

    `least` is the yardstick of a weighted goal; of the time until an early figure it is the least of these machines.
    """
    reached = None
    if early is not None and early_epochs is not None:
        reached = (min(epochs, max(1, round(early_epochs.value))), min(epochs, max(1, math.ceil(early_epochs.high))))
    deadline, budget = goal.deadline_seconds or math.inf, goal.budget_usd or math.inf
    untimed = reached is not None and early is not None and early.seconds is None
    quantity: Quantity = "usd"
    per_second, per_usd, cap = 0.0, 1.0, math.inf
    if goal.kind == "fastest" and reached is not None and untimed:
        # As soon as any single machine could have it, and then as cheaply as possible.
        kept = [course for course in courses if _is_within(course, epochs, deadline, budget)]
        cap = min((course.seconds.at(reached[0]) for course in kept), default=math.inf)
        if cap == math.inf:
            quantity, per_second, per_usd = "seconds", 1.0, 0.0
    elif goal.kind == "fastest":
        quantity, per_second, per_usd = "seconds", 1.0, 0.0
    elif goal.kind == "weighted" and goal.weight_time is not None:
        quantity, soonest = "score", least.seconds
        if reached is not None and untimed:
            soonest = min(course.seconds.at(reached[0]) for course in courses)
        per_second, per_usd = goal.weight_time / soonest, (1 - goal.weight_time) / least.usd
    return Wanted(
        epochs=epochs,
        every=every,
        per_second=per_second,
        per_usd=per_usd,
        quantity=quantity,
        deadline_seconds=deadline,
        budget_usd=budget,
        early=reached,
        early_deadline_seconds=(early.seconds if early and early.seconds else math.inf),
        early_cap_seconds=cap,
        weighs_early=untimed,
    )


def _is_within(course: Course, epochs: int, deadline: float, budget: float) -> bool:
    return course.last_seconds.at(epochs) <= deadline and course.last_usd.at(epochs) <= budget


def best_alone(courses: Sequence[Course], wanted: Wanted) -> int | None:
    """The single machine with the least J of those that keep the limits; None where none does."""
    n = wanted.epochs
    kept = []
    for place, course in enumerate(courses):
        seconds, usd = course.seconds.at(n), course.usd.at(n)
        until = seconds
        if wanted.early is not None:
            until, most = course.seconds.at(wanted.early[0]), course.most_seconds.at(wanted.early[1])
            if most > wanted.early_deadline_seconds or until > wanted.early_cap_seconds * (1 + ROUNDED):
                continue
        if _is_within(course, n, wanted.deadline_seconds, wanted.budget_usd):
            weighed = until if wanted.weighs_early else seconds
            kept.append((wanted.per_second * weighed + wanted.per_usd * usd, seconds, usd, place))
    return min(kept)[-1] if kept else None


def splits(courses: Sequence[Course], tolls: Callable[[int, int], MigrationCost], wanted: Wanted) -> tuple[Split, ...]:
    """The best k of every ordered pair that keeps the limits with some k, best first.

    None where two legs cannot win (`Wanted.can_pay`). Whether they do is for `saving` to say.
    """
    if not wanted.can_pay:
        return ()
    found = []
    for i, first in enumerate(courses):
        for j, second in enumerate(courses):
            if i == j or first.candidate.batch_size != second.candidate.batch_size:
                continue
            pair = Pair(first=first, second=second, toll=tolls(i, j), wanted=wanted)
            best = min(((pair.score(k), k) for k in pair.tried()), default=None)
            if best is not None:
                score, k = best
                found.append(Split(first=i, second=j, after=k, score=score, seconds=pair.seconds(k), usd=pair.usd(k)))
    return tuple(sorted(found, key=lambda s: (s.score, s.seconds, s.usd)))


def fast_first(found: Sequence[Split], courses: Sequence[Course]) -> Split:
    """The best, or the same two machines the other way round where that is hardly worse and starts on the faster."""
    best = found[0]
    for other in found[1:]:
        if other.score > best.score * (1 + ALIKE):
            break
        turned = (other.first, other.second) == (best.second, best.first)
        if turned and courses[other.first].seconds.per_epoch < courses[best.first].seconds.per_epoch:
            return other
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """T, C and J of one ordered pair in the letters of the docstring above."""

    first: Course
    second: Course
    toll: MigrationCost
    wanted: Wanted

    def seconds(self, k: int) -> float:
        return self.first.seconds.at(k) + self.toll.seconds + self.second.seconds.at(self.wanted.epochs - k)

    def usd(self, k: int) -> float:
        return self.first.usd.at(k) + self.toll.usd + self.second.usd.at(self.wanted.epochs - k)

    def most_seconds(self, k: int) -> float:
        return self.first.most_seconds.at(k) + self.toll.most_seconds + self.second.last_seconds.at(self._rest(k))

    def most_usd(self, k: int) -> float:
        return self.first.most_usd.at(k) + self.toll.most_usd + self.second.last_usd.at(self._rest(k))

    def early_seconds(self, k: int) -> float:
        reached = self.wanted.early[0] if self.wanted.early else 0
        if k >= reached:
            return self.first.seconds.at(reached)
        return self.first.seconds.at(k) + self.toll.seconds + self.second.seconds.at(reached - k)

    def most_early_seconds(self, k: int) -> float:
        reached = self.wanted.early[1] if self.wanted.early else 0
        if k >= reached:
            return self.first.most_seconds.at(reached)
        return self.first.most_seconds.at(k) + self.toll.most_seconds + self.second.most_seconds.at(reached - k)

    def score(self, k: int) -> float:
        weighed = self.early_seconds(k) if self.wanted.weighs_early else self.seconds(k)
        return self.wanted.per_second * weighed + self.wanted.per_usd * self.usd(k)

    def tried(self) -> Iterator[int]:
        """The ends of the k that keep all limits, in each stretch in which all is linear."""
        limits = [
            (bound, limit)
            for bound, limit in (
                (self.most_seconds, self.wanted.deadline_seconds),
                (self.most_usd, self.wanted.budget_usd),
                (self.most_early_seconds, self.wanted.early_deadline_seconds),
                (self.early_seconds, self.wanted.early_cap_seconds * (1 + ROUNDED)),
            )
            if limit < math.inf
        ]
        every = self.wanted.every
        for low, high in _stretches(self.wanted):
            ends = low, high
            for bound, limit in limits:
                ends = _within(*ends, bound, limit, every)
                if ends[0] > ends[1]:
                    break
            else:
                yield from dict.fromkeys(end * every for end in ends)

    def _rest(self, k: int) -> int:
        return self.wanted.epochs - k


def _stretches(wanted: Wanted) -> Iterator[tuple[int, int]]:
    """Of k in units of `every`: all of it, cut where the early figure is there."""
    low, high = 1, (wanted.epochs - 1) // wanted.every
    cuts = sorted({math.ceil(reached / wanted.every) for reached in wanted.early or ()})
    for cut in cuts:
        if low < cut <= high:
            yield low, cut - 1
            low = cut
    if low <= high:
        yield low, high


def _within(low: int, high: int, bound: Callable[[int], float], limit: float, every: int) -> tuple[int, int]:
    """The part of low … high in which a straight line is at most the limit; crossed ends where there is none."""
    at_low, at_high = bound(low * every), bound(high * every)
    if at_low <= limit and at_high <= limit:
        return low, high
    if at_low > limit and at_high > limit:
        return high + 1, low
    meets = low + (limit - at_low) / (at_high - at_low) * (high - low)
    if at_low <= limit:
        last = math.floor(meets + ROUNDED)
        return low, last if bound(last * every) <= limit else last - 1
    first = math.ceil(meets - ROUNDED)
    return first if bound(first * every) <= limit else first + 1, high


def shortlist(estimates: Sequence[Estimate], *, early_epochs: int | None = None) -> tuple[Estimate, ...]:
    """Those worth pairing: at some number of epochs nothing else at that batch size is both faster and cheaper.

    Fronts at all epochs, half, a quarter and at the early figure's, and that of what an epoch adds; the first 40.
    """
    kept: dict[int, None] = {}
    by_batch: dict[int | None, list[tuple[int, Line, Line]]] = {}
    for place, estimate in enumerate(estimates):
        by_batch.setdefault(estimate.candidate.batch_size, []).append((place, *_lines_of(estimate)))
    for alike in by_batch.values():
        n = estimates[alike[0][0]].epochs
        for epochs in dict.fromkeys((n, n / 2, n / 4, early_epochs or n)):
            kept.update(dict.fromkeys(_front([(p, s.at(epochs), u.at(epochs)) for p, s, u in alike])))
        kept.update(dict.fromkeys(_front([(p, s.per_epoch, u.per_epoch) for p, s, u in alike])))
    return tuple(estimates[place] for place in list(kept)[:SHORTLIST])


def _lines_of(estimate: Estimate) -> tuple[Line, Line]:
    """By its phases; dollars as the time, which leaves out that a disk and egress are not."""
    start = sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTING)
    seconds = Line(start=start, per_epoch=(estimate.seconds.value - start) / estimate.epochs)
    price = estimate.usd.value / estimate.seconds.value
    return seconds, Line(start=seconds.start * price, per_epoch=seconds.per_epoch * price)


def _front(points: Sequence[tuple[int, float, float]]) -> list[int]:
    """Places of those that nothing beats in both, the fastest first."""
    found, cheapest = [], math.inf
    for place, _, usd in sorted(points, key=lambda point: (point[1], point[2])):
        if usd < cheapest:
            found.append(place)
            cheapest = usd
    return found


def keeps_limits(seconds: Interval, usd: Interval, goal: Goal) -> bool:
    """At the upper ends that have the confidence of the goal."""
    late = goal.deadline_seconds is not None and upper_end(seconds, goal.confidence) > goal.deadline_seconds
    dear = goal.budget_usd is not None and upper_end(usd, goal.confidence) > goal.budget_usd
    return not late and not dear


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of what is compared, in what the goal wants least of; `alike` names what it errs with."""

    alike: object
    amount: Interval


def saving(alone: Share, parts: Sequence[Share], quantity: Quantity, *, drift: Sequence[float] = ()) -> Saving | None:
    """S = J(alone) − Σ J(part), where it is more than its doubt; else None.

    Parts that err alike (the same GPU predicted in the same way) move together, others independently: of each group
    the change of S when all of it is at its low or at its high end, the worse of the two, squared and added up.
    `drift` are changes of S for fewer and for more epochs, the worst of which is one more such error.
    """
    value = alone.amount.value - sum(part.amount.value for part in parts)
    if value <= 0:
        return None
    signed: dict[object, list[tuple[int, Interval]]] = {}
    for sign, share in ((1, alone), *((-1, part) for part in parts)):
        signed.setdefault(share.alike, []).append((sign, share.amount))
    changes = [
        (
            sum(sign * (amount.low - amount.value) for sign, amount in group),
            sum(sign * (amount.high - amount.value) for sign, amount in group),
        )
        for group in signed.values()
    ]
    changes.append((min((0.0, *drift)), max((0.0, *drift))))
    doubt = math.hypot(*(min(0.0, *change) for change in changes))
    hope = math.hypot(*(max(0.0, *change) for change in changes))
    if doubt >= value:
        return None
    return Saving(
        quantity=quantity,
        amount=Interval(value=value, low=value - doubt, high=value + hope, confidence=alone.amount.confidence),
        share=min(1.0, value / alone.amount.value),
    )


def errs_alike(estimate: Estimate) -> tuple[object, ...]:
    """What an estimate errs with: all whose iterations take one and the same time."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    gpu = None if estimate.basis == "measured" else vm_type.gpu
    gpus = candidate.nodes * candidate.gpus_working
    return estimate.basis, estimate.profile_id, gpu.name if gpu else vm_type.key, gpus, candidate.batch_size


def drift_of(
    courses: Sequence[Course], alone: int, split: Split, toll: MigrationCost, wanted: Wanted, epochs: Interval
) -> tuple[float, float]:
    """How S changes where there are the fewest and the most epochs; a training that ends early is never moved."""
    first, second = courses[split.first], courses[split.second]

    def weighed(seconds: float, usd: float) -> float:
        return wanted.per_usd * usd + (0.0 if wanted.weighs_early else wanted.per_second * seconds)

    def saved(n: float) -> float:
        single = weighed(courses[alone].seconds.at(n), courses[alone].usd.at(n))
        if n <= split.after:
            return single - weighed(first.seconds.at(n), first.usd.at(n))
        moved = weighed(first.seconds.at(split.after) + toll.seconds, first.usd.at(split.after) + toll.usd)
        return single - moved - weighed(second.seconds.at(n - split.after), second.usd.at(n - split.after))

    usual = saved(epochs.value)
    return saved(epochs.low) - usual, saved(epochs.high) - usual
