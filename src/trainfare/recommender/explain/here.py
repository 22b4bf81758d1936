"""Why to train on the machine at hand, or what renting saves and costs compared with it."""

from collections.abc import Iterator

from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import best_of
from trainfare.recommender.explain.codes import limit_values, reason
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.here import SOON_SECONDS, SOONER
from trainfare.recommender.options import Rankable
from trainfare.recommender.pareto import FASTEST
from trainfare.units import SECONDS_PER_HOUR


def why_here(context: ChoiceContext) -> Iterator[Reason]:
    """The rule by which the machine at hand is the answer, with the rental that comes nearest."""
    rental = nearest_rental(context)
    yield reason(
        "why",
        "train_here",
        rule=context.here_rule,
        goal=context.goal.kind,
        usd=context.chosen.usd.value,
        soon_seconds=SOON_SECONDS,
        idle_seconds=_decisive_idle_seconds(context),
        value_of_time_usd_per_hour=context.goal.value_of_time_usd_per_hour,
        rentals=len(context.eligible),
        rental=None if rental is None else _offered(context, rental),
        **limit_values(context.goal),
    )
    if rental is not None and context.here_rule != "no_sooner":
        yield from _trade(context, rental, context.chosen, chosen_is_here=True)


def _decisive_idle_seconds(context: ChoiceContext) -> float | None:
    """The time of here without its other work, if the rule holds only for that time; None if it holds as measured."""
    measured, factor = context.chosen.seconds.value, context.here_idle_factor
    if factor == 1 or context.here_rule not in ("soon", "no_sooner"):
        return None
    if context.here_rule == "soon":
        holds = measured <= SOON_SECONDS
    else:
        fastest = nearest_rental(context)
        holds = fastest is None or fastest.seconds.value > SOONER * measured
    return None if holds else measured * factor


def compared_with_here(context: ChoiceContext) -> Iterator[Reason]:
    """The time that renting the chosen machine saves compared with training here, and its cost."""
    if context.here is not None and context.here.fits is not False:
        yield from _trade(context, context.chosen_for_all_epochs, context.here, chosen_is_here=False)


def rent_anyway(context: ChoiceContext) -> Iterator[Reason]:
    """The machine to rent if the machine at hand is left out."""
    rental = context.ordered[0] if context.ordered and not context.ordered[0].candidate.offer.is_here else None
    if rental is not None:
        machine = context.describe(rental)
        totals = {"seconds": rental.seconds.value, "usd": rental.usd.value}
        yield reason("changes", "rent_anyway", {"exclude": "here"}, machine=machine, **totals)


def nearest_rental(context: ChoiceContext) -> Rankable | None:
    """The rental that would be chosen instead; if none ends sooner than here, the fastest one."""
    if context.here_rule == "no_sooner":
        return best_of(context.eligible, FASTEST)
    return next((e for e in context.ordered if not e.candidate.offer.is_here), None)


def _trade(context: ChoiceContext, rental: Rankable, here: Rankable, *, chosen_is_here: bool) -> Iterator[Reason]:
    """The hours that a rental saves, the dollars that it costs more, and the price of an hour saved."""
    saved, usd = here.seconds.value - rental.seconds.value, rental.usd.value - here.usd.value
    if saved <= 0 and chosen_is_here:
        return
    yield reason(
        "why",
        "renting_compared_with_here",
        machine=context.describe(rental),
        chosen_is_here=chosen_is_here,
        here_seconds=here.seconds.value,
        here_usd=here.usd.value,
        saved_seconds=saved,
        more_usd=usd,
        usd_per_hour_saved=usd * SECONDS_PER_HOUR / saved if saved > 0 and usd > 0 else None,
    )


def _offered(context: ChoiceContext, estimate: Rankable) -> dict[str, Scalar]:
    return context.describe(estimate) | {"seconds": estimate.seconds.value, "usd": estimate.usd.value}
