"""All reasons of a plan, in the order in which a person asks: why this one, how certain, what would change it, what is
charged, what is assumed."""

from trainfare.model.reason import Reason
from trainfare.recommender.explain.assumptions import assumptions
from trainfare.recommender.explain.certainty import certainty
from trainfare.recommender.explain.changes import changes
from trainfare.recommender.explain.charges import charges
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.explain.why import why


def reasons(context: ChoiceContext) -> tuple[Reason, ...]:
    return (
        *why(context),
        *certainty(context),
        *changes(context),
        *charges(context.chosen, context.profile, context.interruptions, context.today),
        *assumptions(context),
    )
