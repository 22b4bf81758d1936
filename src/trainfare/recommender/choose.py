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

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from trainfare.model.checks import require_positive
from trainfare.model.offer import Candidate, Market, Offer
from trainfare.model.plan import Goal
from trainfare.recommender.options import E, Options, Rankable, T, as_options
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from trainfare.recommender.options import Floats, Mask, Rows

Number = TypeVar("Number", float, "Floats")

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


Rejections = Mapping[Rejection, Options[T]]
"""The options that were rejected, by the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdealPoint:
    """The least time and the least cost of any candidate: the units in which a weighted goal measures both."""

    seconds: float
    usd: float

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, usd=self.usd)


def ideal_point(estimates: Iterable[Rankable]) -> IdealPoint:
    """The least time and the least cost above zero, usually of two different candidates; a dollar if all are free."""
    given = as_options(estimates)
    return IdealPoint(seconds=float(given.seconds.min()), usd=min(given.usd[given.usd > 0].tolist(), default=1.0))


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
    return _weighted_sum(estimate.seconds.value, estimate.usd.value, weight_time, ideal)


def scores(options: Options[T], weight_time: float, ideal: IdealPoint) -> "Floats":
    """The score of each option."""
    return _weighted_sum(options.seconds, options.usd, weight_time, ideal)


def _weighted_sum(seconds: Number, usd: Number, w: float, ideal: IdealPoint) -> Number:
    return w * seconds / ideal.seconds + (1 - w) * usd / ideal.usd


def in_order(estimates: Iterable[T], goal: Goal, *, ideal: IdealPoint | None = None) -> Options[T]:
    """The estimates, best first; equal time and cost are ordered by offer, nodes and batch size.

    `ideal` is the ideal point of a weighted goal, if it belongs to more candidates than those given.
    """
    import numpy as np

    given = as_options(estimates)
    if not given:
        return given
    keys = _keys(given, goal, ideal)
    order = np.lexsort(keys[::-1])
    equal = np.all([key[order][1:] == key[order][:-1] for key in keys], axis=0)
    for first, last in _runs(equal):
        order[first : last + 1] = _by_name(given, order[first : last + 1])
    return given.take(order)


def _runs(equal: "Mask") -> Iterator[tuple[int, int]]:
    """The first and the last place of each run of equal neighbours, given which places equal the next one."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def best_of(estimates: Iterable[T], goal: Goal, *, ideal: IdealPoint | None = None) -> T | None:
    """The first in order; None if there are no estimates."""
    import numpy as np

    given = as_options(estimates)
    if not given:
        return None
    best = np.arange(len(given))
    for key in _keys(given, goal, ideal):
        best = best[key[best] == key[best].min()]
    return given[int(_by_name(given, best)[0])]


def _by_name(given: Options[T], places: "Rows") -> "Rows":
    """The places in the order of the names there. Names are built only for ties: there are thousands of options."""
    import numpy as np

    names = [_name(candidate) for candidate in given.take(places).candidates]
    return places[np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)]


def _name(candidate: Candidate) -> tuple[object, ...]:
    return *candidate.offer.key, candidate.nodes, candidate.batch_size or 0, candidate.gpus_used or 0


def _keys(given: Options[T], goal: Goal, ideal: IdealPoint | None) -> "tuple[Floats, ...]":
    """The columns that decide the order, the first one first."""
    w = weight_of_time(goal)
    if w == 0:
        return given.usd, given.seconds
    if w == 1:
        return given.seconds, given.usd
    # Both quotients never fall as their quantity grows, even rounded: a dominated candidate never comes first.
    return scores(given, w, ideal or ideal_point(given)), given.seconds, given.usd


def reject_ineligible(
    estimates: Iterable[E], *, spot: bool, reserved: bool | None = None
) -> tuple[Options[E], dict[Rejection, Options[E]]]:
    """The estimates that fit in memory and are on an allowed market, and the rejected others.

    Commitments that are held are allowed; with `reserved` also those that would have to be bought, and none if it is
    False.
    """
    given = as_options(estimates)
    fitting = given.where(given.fits)
    eligible = fitting.where_offer(lambda offer: _is_allowed(offer, spot=spot, reserved=reserved))
    return eligible, rejected(does_not_fit=given.without(fitting), market_not_allowed=fitting.without(eligible))


def rejected(**options: Options[T]) -> dict[Rejection, Options[T]]:
    """The rejections by their reasons, without reasons that apply to none."""
    return {reason: found for reason in get_args(Rejection) if (found := options.get(reason))}


def _is_allowed(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if offer.market == "reserved":
        return offer.held if reserved is None else reserved
    return spot or offer.market in UNINTERRUPTED_MARKETS


def best_per_machine(ordered: Iterable[T]) -> Options[T]:
    """The first estimate of each machine type and market, whatever its nodes and batch size: the same machine in a
    more expensive region or at a worse batch size is no alternative.

    A commitment that is held and one that would have to be bought count as two markets.
    """
    return first_of_each(as_options(ordered), lambda o: (o.vm_type.provider, o.vm_type.name, o.market, o.held))


def without_idle_copies(ordered: Options[T]) -> Options[T]:
    """The options without those that only add idle GPUs to a better one: `1 of 8 × T4` behind `1 × T4` of the same
    provider."""
    seen: set[Hashable] = set()
    places = []
    for place, candidate in enumerate(ordered.candidates):
        offer, working = candidate.offer, candidate.nodes * candidate.working_gpus_per_node
        gpu = offer.vm_type.gpu
        key = (offer.vm_type.provider, gpu and gpu.name, offer.market, offer.held, working, candidate.batch_size)
        if candidate.gpus == working or key not in seen:
            places.append(place)
        seen.add(key)
    return ordered.take(places)


def first_of_each(options: Options[T], key: Callable[[Offer], Hashable]) -> Options[T]:
    """The first option of each group of offers, in the order given."""
    if not options:
        return options
    numbers: dict[Hashable, int] = {}
    groups = options.of_offers(lambda offer: numbers.setdefault(key(offer), len(numbers)))
    first: dict[int, int] = {}
    for place, group in enumerate(groups.tolist()):
        first.setdefault(group, place)
    return options.take(list(first.values()))
