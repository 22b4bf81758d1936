"""The ranking of estimates for a goal, which of them are eligible, and why others were rejected.

    cheapest   by cost, ties by time
    fastest    by time, ties by cost
    weighted   by w·time/least time + (1 − w)·cost/least cost (the normalised equation that Malta 2021, section 5.6,
               leaves as future work), ties by time, then by cost

With w = 1 the weighted goal is exactly the fastest and with w = 0 exactly the cheapest. The ideal point, the least time
and the least cost, is taken over all eligible candidates, whichever machines they belong to. Limits remove candidates
and leave the ideal point unchanged, so the price that the weights put on an hour does not depend on the deadline.

If candidates are added and both choices are scored with the ideal point of the larger set, the score of the best never
rises. Scored with its own ideal point, the best of the smaller set may look better, because the ideal point moves; and
an added candidate that is not chosen itself can reverse the order of two others. The cheapest and the fastest have
neither property.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, Protocol, TypeVar

from trainfare.model.checks import require_positive
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Market, Offer
from trainfare.model.plan import Goal
from trainfare.units import SECONDS_PER_HOUR

UNINTERRUPTED_MARKETS: frozenset[Market] = frozenset({"on_demand", "own", "reserved"})
"""Markets that do not take a machine away before the training ends."""

Rejection = Literal[
    "does_not_fit",
    "market_not_allowed",
    "beyond_deadline",
    "beyond_budget",
    "spot_too_risky",
    "spot_not_checked",
    "too_late_for_early_target",
    "slower_than_here",
    "epochs_guessed",
]
"""Why a candidate was not considered any further. Spot candidates under a deadline are `spot_not_checked` if better
ones were checked first, or if the same machine has no price on demand to fall back to. `epochs_guessed` candidates have
a batch size that was not asked for and whose number of epochs nothing supports."""


class Rankable(Protocol):
    """A candidate with its time and cost."""

    @property
    def candidate(self) -> Candidate: ...
    @property
    def seconds(self) -> Interval: ...
    @property
    def usd(self) -> Interval: ...


class RankableWithFit(Rankable, Protocol):
    """A candidate with its time and cost, and whether it fits in memory."""

    @property
    def fits(self) -> bool | None: ...


T = TypeVar("T", bound=Rankable)
E = TypeVar("E", bound=RankableWithFit)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdealPoint:
    """The least time and the least cost of any candidate: the units in which a weighted goal measures both."""

    seconds: float
    usd: float

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, usd=self.usd)


def ideal_point(estimates: Sequence[Rankable]) -> IdealPoint:
    """The least time and the least cost above zero, usually of two different candidates; a dollar if all are free."""
    return IdealPoint(
        seconds=min(e.seconds.value for e in estimates),
        usd=min((e.usd.value for e in estimates if e.usd.value > 0), default=1.0),
    )


def with_value_of_time(goal: Goal, ideal: IdealPoint) -> Goal:
    """The goal with the weights that order candidates by cost + v·time, if it has a value of time v:

        w/(1 − w) = v · least time / least cost

    Any other goal is returned as it is.
    """
    v = goal.value_of_time_usd_per_hour
    if v is None or goal.kind != "cheapest":
        return goal
    odds = v / SECONDS_PER_HOUR * ideal.seconds / ideal.usd
    return replace(goal, kind="weighted", weight_time=odds / (1 + odds))


def weight_of_time(goal: Goal) -> float:
    """w: 0 for the cheapest, 1 for the fastest."""
    return {"cheapest": 0.0, "fastest": 1.0}.get(goal.kind, goal.weight_time or 0.0)


def score(estimate: Rankable, weight_time: float, ideal: IdealPoint) -> float:
    """w·time/least time + (1 − w)·cost/least cost: 1 for a machine that is both the fastest and the cheapest."""
    w = weight_time
    return w * estimate.seconds.value / ideal.seconds + (1 - w) * estimate.usd.value / ideal.usd


def in_order(estimates: Iterable[T], goal: Goal, *, ideal: IdealPoint | None = None) -> tuple[T, ...]:
    """The estimates, best first; equal time and cost are ordered by offer, nodes and batch size.

    `ideal` is the ideal point of a weighted goal, if it belongs to more candidates than those given.
    """
    given = list(estimates)
    if not given:
        return ()
    key = _key(given, goal, ideal)
    ordered: list[T] = []
    for _, group in groupby(sorted(((key(e), e) for e in given), key=itemgetter(0)), key=itemgetter(0)):
        equals = [estimate for _, estimate in group]
        # Names are built only for ties: there are thousands of estimates.
        ordered += equals if len(equals) == 1 else sorted(equals, key=lambda e: _name(e.candidate))
    return tuple(ordered)


def best_of(estimates: Iterable[T], goal: Goal, *, ideal: IdealPoint | None = None) -> T | None:
    """The first in order; None if there are no estimates."""
    given = list(estimates)
    if not given:
        return None
    keys = list(map(_key(given, goal, ideal), given))
    best = min(keys)
    ties = [e for e, key in zip(given, keys, strict=True) if key == best]
    return min(ties, key=lambda e: _name(e.candidate))


def _name(candidate: Candidate) -> tuple[object, ...]:
    return *candidate.offer.key, candidate.nodes, candidate.batch_size or 0, candidate.gpus_used or 0


def _key(given: Sequence[T], goal: Goal, ideal: IdealPoint | None) -> Callable[[T], tuple[float, ...]]:
    w = weight_of_time(goal)
    if w == 0:
        return lambda e: (e.usd.value, e.seconds.value)
    if w == 1:
        return lambda e: (e.seconds.value, e.usd.value)
    unit = ideal or ideal_point(given)
    # Both quotients never fall as their quantity grows, even rounded: a dominated candidate never comes first.
    return lambda e: (score(e, w, unit), e.seconds.value, e.usd.value)


def reject_ineligible(
    estimates: Iterable[E], *, spot: bool, reserved: bool | None = None
) -> tuple[tuple[E, ...], dict[Candidate, Rejection]]:
    """The estimates that fit in memory and are on an allowed market, and the rejections of the others.

    Commitments that are held are allowed; with `reserved` also those that would have to be bought, and none if it is
    False.
    """
    eligible: list[E] = []
    rejections: dict[Candidate, Rejection] = {}
    for estimate in estimates:
        if estimate.fits is False:
            rejections[estimate.candidate] = "does_not_fit"
        elif not _is_allowed(estimate.candidate.offer, spot=spot, reserved=reserved):
            rejections[estimate.candidate] = "market_not_allowed"
        else:
            eligible.append(estimate)
    return tuple(eligible), rejections


def _is_allowed(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if offer.market == "reserved":
        return offer.held if reserved is None else reserved
    return spot or offer.market in UNINTERRUPTED_MARKETS


def not_rejected(estimates: Iterable[T], rejections: Mapping[Candidate, Rejection]) -> tuple[T, ...]:
    """The estimates without a rejection, in the order given."""
    return tuple(e for e in estimates if e.candidate not in rejections)


def best_per_machine(ordered: Iterable[T]) -> tuple[T, ...]:
    """The first estimate of each machine type and market, whatever its nodes and batch size: the same machine in a
    more expensive region or at a worse batch size is no alternative.

    A commitment that is held and one that would have to be bought count as two markets.
    """
    best: dict[tuple[str, str, Market, bool], T] = {}
    for estimate in ordered:
        offer = estimate.candidate.offer
        vm_type = offer.vm_type
        best.setdefault((vm_type.provider, vm_type.name, offer.market, offer.held), estimate)
    return tuple(best.values())
