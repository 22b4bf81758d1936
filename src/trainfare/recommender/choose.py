"""The best Estimate for a Goal, and the order of the others.

    cheapest   cost, of equal ones the fastest
    fastest    time, of equal ones the cheapest
    weighted   w·time/least time + (1 − w)·cost/least cost (the normalised equation that Malta 2021, section 5.6,
               leaves to the future); of equal ones the fastest, then the cheapest

With w = 1 that is the fastest and with w = 0 the cheapest, to the last digit. The least time and the least cost are of
all that may be chosen, whichever machines they are of; limits cut candidates away and leave the yardstick as it is, so
that what an hour is worth in dollars does not depend on the deadline.

What a larger choice does to the best, `least` being that of the larger one: its score never rises. By its own yardstick
the best of the smaller choice may look better, since the yardstick moves with the choice; and a machine that nobody
takes, cheaper or faster than all others, can turn the order of two others. Cheapest and fastest know neither.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trainfare.errors import InfeasibleError
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Market, Offer
from trainfare.model.plan import Goal
from trainfare.units import format_number

STEADY_MARKETS: frozenset[Market] = frozenset({"on_demand", "own", "reserved"})
"""Markets that do not take a machine away before the training ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdealPoint:
    """The yardstick of a weighted goal."""

    seconds: float
    usd: float

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, usd=self.usd)


def ideal_point(estimates: Sequence[Estimate]) -> IdealPoint:
    """The least time of any and the least cost of any."""
    return IdealPoint(seconds=min(e.seconds.value for e in estimates), usd=min(e.usd.value for e in estimates))


def weight_of_time(goal: Goal) -> float:
    """w; the cheapest and the fastest are its ends."""
    return {"cheapest": 0.0, "fastest": 1.0}.get(goal.kind, goal.weight_time or 0.0)


def score(estimate: Estimate, weight_time: float, least: IdealPoint) -> float:
    """w·time/least time + (1 − w)·cost/least cost: 1 is a machine that is both the fastest and the cheapest."""
    w = weight_time
    return w * estimate.seconds.value / least.seconds + (1 - w) * estimate.usd.value / least.usd


def in_order(estimates: Iterable[Estimate], goal: Goal, *, least: IdealPoint | None = None) -> tuple[Estimate, ...]:
    """Best first; what neither time nor cost tell apart, the name of the offer does, then nodes and batch size.

    `least` is the yardstick of a weighted goal, where it is of more than those given.
    """
    given = list(estimates)
    return tuple(sorted(given, key=_whole_key(given, goal, least))) if given else ()


def best_of(estimates: Iterable[Estimate], goal: Goal, *, least: IdealPoint | None = None) -> Estimate | None:
    """The first in order; None of none."""
    given = list(estimates)
    if not given:
        return None
    keys = list(map(_key(given, goal, least), given))
    best = min(keys)
    ties = [e for e, key in zip(given, keys, strict=True) if key == best]
    return in_order(ties, goal, least=least)[0]  # names are asked for only where they decide


def _whole_key(
    given: Sequence[Estimate], goal: Goal, least: IdealPoint | None
) -> Callable[[Estimate], tuple[object, ...]]:
    key = _key(given, goal, least)
    names: dict[int, tuple[str, str, Market]] = {}  # an offer occurs at many numbers of nodes and batch sizes

    def whole(e: Estimate) -> tuple[object, ...]:
        candidate = e.candidate
        offer = candidate.offer
        name = names.get(id(offer))
        if name is None:
            name = names[id(offer)] = offer.key
        return *key(e), name, candidate.nodes, candidate.batch_size or 0, candidate.gpus_used or 0

    return whole


def _key(given: Sequence[Estimate], goal: Goal, least: IdealPoint | None) -> Callable[[Estimate], tuple[float, ...]]:
    w = weight_of_time(goal)
    if w == 0:
        return lambda e: (e.usd.value, e.seconds.value)
    if w == 1:
        return lambda e: (e.seconds.value, e.usd.value)
    yardstick = least or ideal_point(given)
    # Both quotients never fall as their quantity grows, rounded or not: what is dominated never comes first.
    return lambda e: (score(e, w, yardstick), e.seconds.value, e.usd.value)


def choosable(estimates: Sequence[Estimate], *, spot: bool, reserved: bool | None = None) -> tuple[Estimate, ...]:
    """Those that fit in memory, on the markets that the user allows; `InfeasibleError` when none is left.

    Of commitments, those that are held; with `reserved` also those to be bought, and none where it is False.
    """
    fitting = [e for e in estimates if e.fits is not False]
    if estimates and not fitting:
        roomiest = max((e.memory for e in estimates if e.memory), key=lambda m: m.available_gib)
        needed = roomiest.needed_gib
        raise InfeasibleError(
            f"it fits in no machine: an iteration needs about {format_number(needed.value)} GiB "
            f"(90 %: {format_number(needed.low)} – {format_number(needed.high)}), and the largest GPU has "
            f"{format_number(roomiest.available_gib)} GiB. Profile it again with a smaller batch size."
        )
    allowed = tuple(e for e in fitting if _is_allowed(e.candidate.offer, spot=spot, reserved=reserved))
    if not allowed:
        raise InfeasibleError(
            "no machine is left to choose from: the profile has no operations, so it speaks only of the machine "
            "type that it was taken on. Take one that speaks of every GPU: trainfare profile without "
            "--no-operations, and with fewer --iterations than the program trains, since operations are traced "
            "in one more."
        )
    return allowed


def best_per_machine(ordered: Iterable[Estimate]) -> tuple[Estimate, ...]:
    """The first estimate of each machine type and market, whatever its nodes and batch size: the same machine in a
    dearer region or at a worse batch size is no alternative.

    What is held and what would have to be bought are two markets.
    """
    best: dict[tuple[str, str, Market, bool], Estimate] = {}
    for estimate in ordered:
        offer = estimate.candidate.offer
        vm_type = offer.vm_type
        best.setdefault((vm_type.provider, vm_type.name, offer.market, offer.held), estimate)
    return tuple(best.values())


def _is_allowed(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if offer.market == "reserved":
        return offer.held if reserved is None else reserved
    return spot or offer.market in STEADY_MARKETS
