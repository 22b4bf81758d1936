"""The best Estimate for a Goal, and the order of the others."""

from collections.abc import Callable, Iterable, Sequence

from trainfare.errors import Infeasible
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Market, Offer
from trainfare.model.plan import Goal

STEADY_MARKETS: frozenset[Market] = frozenset({"on_demand", "own", "reserved"})
"""Markets that do not take a machine away before the training ends."""


def in_order(estimates: Iterable[Estimate], goal: Goal) -> tuple[Estimate, ...]:
    """Best first; what the goal does not tell apart, the other quantity does, then the name."""
    keys: dict[str, Callable[[Estimate], tuple[float, float]]] = {
        "cheapest": lambda e: (e.usd.value, e.seconds.value),
        "fastest": lambda e: (e.seconds.value, e.usd.value),
    }
    key = keys[goal.kind]
    return tuple(sorted(estimates, key=lambda e: (*key(e), e.candidate.offer.key)))


def choosable(estimates: Sequence[Estimate], *, spot: bool, reserved: bool | None = None) -> tuple[Estimate, ...]:
    """Those that fit in memory, on the markets that the user allows; `Infeasible` when none is left.

    Of commitments, those that are held; with `reserved` also those to be bought, and none where it is False.
    """
    fitting = [e for e in estimates if e.fits is not False]
    if estimates and not fitting:
        roomiest = max((e.memory for e in estimates if e.memory), key=lambda m: m.available_gib)
        raise Infeasible(
            f"it fits in no machine: an iteration needs about {roomiest.needed_gib.value:.3g} GiB "
            f"(90 %: {roomiest.needed_gib.low:.3g} – {roomiest.needed_gib.high:.3g}), and the largest GPU has "
            f"{roomiest.available_gib:.3g} GiB. Profile it again with a smaller batch size."
        )
    allowed = tuple(e for e in fitting if _is_allowed(e.candidate.offer, spot=spot, reserved=reserved))
    if not allowed:
        raise Infeasible(
            "no machine is left to choose from: the profile has no operations, so it speaks only of the machine "
            "type that it was taken on. Take one that speaks of every GPU: trainfare profile without "
            "--no-operations, and with fewer --iterations than the program trains, since operations are traced "
            "in one more."
        )
    return allowed


def one_a_machine(ordered: Iterable[Estimate]) -> tuple[Estimate, ...]:
    """The first estimate of each machine type and market: the same machine in a dearer region is no alternative.

    What is held and what would have to be bought are two markets.
    """
    best: dict[tuple[str, Market, bool], Estimate] = {}
    for estimate in ordered:
        offer = estimate.candidate.offer
        best.setdefault((offer.vm_type.key, offer.market, offer.held), estimate)
    return tuple(best.values())


def _is_allowed(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if offer.market == "reserved":
        return offer.held if reserved is None else reserved
    return spot or offer.market in STEADY_MARKETS
