"""What would change the choice, in one sentence: another number of epochs, another limit, another price."""

import math
from collections.abc import Iterator

from trainfare.model.estimate import Estimate
from trainfare.recommender.choose import score, weight_of_time
from trainfare.recommender.explain.case import Case
from trainfare.recommender.explain.what_if import (
    looser_budget,
    looser_deadline,
    price_that_changes,
    tighter_budget,
    tighter_deadline,
)
from trainfare.recommender.limits import duration_option, upper_end, usd_option
from trainfare.recommender.words import machine_words, spent_words
from trainfare.units import format_count, format_duration, format_usd, parse_duration, plural

WORTH_ASKING = 0.98
"""Of what the goal wants least of: a looser limit that saves less is not worth a word."""
A_LIMIT_APART = 0.99
"""Of the chosen one's, below which a tighter limit is told: nearer, what is said of it would round to the same."""
A_PRICE_APART = 1.001
"""From which ratio on a change of price is worth a word; closer, the two cannot be told apart anyway."""


def changes(case: Case) -> Iterator[str]:
    said = [*_epochs(case), *_more_epochs(case), *_deadline(case), *_budget(case), *_price(case)]
    if said:
        yield "; ".join(said)


def _epochs(case: Case) -> Iterator[str]:
    """The neighbours of the chosen machine along the number of epochs, at its batch size: each other one has a number
    of epochs of its own. A weighted goal has no such line: its yardstick moves with the epochs. Neither has a training
    in legs; nor one with a limit, which others keep with fewer epochs, and it does not with more."""
    goal, chosen = case.goal, case.chosen
    limited = goal.deadline_seconds is not None or goal.budget_usd is not None
    if goal.kind == "weighted" or limited or not case.kept or len(case.ordered) < 2:
        return
    machine = chosen.candidate.offer.vm_type.key
    here = next((i for i, s in enumerate(case.winning_ranges) if s.first <= chosen.epochs <= (s.last or math.inf)), None)
    if here is None or case.winning_ranges[here].estimate.candidate.offer.vm_type.key != machine:
        return  # a minimum charge or rounding has decided
    several = len({e.candidate.batch_size for e in case.ordered}) > 1
    at = f", at batch {chosen.candidate.batch_size}," if several else ""
    if len(case.winning_ranges) == 1:
        yield f"it is{at} the {goal.kind} whatever the number of epochs"
    if here > 0:
        before = case.winning_ranges[here - 1]
        epochs = plural(before.last or 1, "epoch") + (" or fewer" if before.last != 1 else "")
        yield f"with {epochs}{at} {case.name(before.estimate)} would win"
    if here + 1 < len(case.winning_ranges):
        after = case.winning_ranges[here + 1]
        yield f"from {format_count(after.first)} epochs on{at} {case.name(after.estimate)} would win"


def _more_epochs(case: Case) -> Iterator[str]:
    """How many keep the deadline: at least N·deadline/u, since no part of the time grows faster than the epochs do. On
    spot what interruptions cost may, and where epochs are only expected the interval has them already."""
    chosen, deadline = case.chosen_in_full, case.goal.deadline_seconds
    if deadline is None or not case.kept or chosen.epochs_interval or chosen.candidate.offer.market == "spot":
        return
    epochs = math.floor(chosen.epochs * deadline / upper_end(chosen.seconds, case.goal.confidence))
    if epochs > chosen.epochs:
        yield f"up to {format_count(epochs)} epochs it keeps the deadline"


def _deadline(case: Case) -> Iterator[str]:
    asked = case.relied_on, case.chosen_in_full, case.goal, case.least
    if case.goal.deadline_seconds is not None and (found := looser_deadline(*asked)) and _gains(case, found.estimate):
        yield f"with --deadline {duration_option(found.least)}: {_told(case, found.estimate)}"
    if case.goal.kind != "fastest" and (found := tighter_deadline(*asked)) and found.below is not None:
        option = duration_option(found.least)
        if parse_duration(option) < A_LIMIT_APART * found.below:
            yield (
                f"with a deadline below {format_duration(found.below)}: {_told(case, found.estimate)}, which keeps "
                f"--deadline {option}"
            )


def _budget(case: Case) -> Iterator[str]:
    asked = case.relied_on, case.chosen_in_full, case.goal, case.least
    if case.goal.budget_usd is not None and (found := looser_budget(*asked)) and _gains(case, found.estimate):
        yield f"with --budget {usd_option(found.least)}: {_told(case, found.estimate)}"
    if case.goal.kind != "cheapest" and (found := tighter_budget(*asked)) and found.below is not None:
        option = usd_option(found.least)
        if float(option) < A_LIMIT_APART * found.below:
            yield (
                f"with a budget below {format_usd(found.below)}: {_told(case, found.estimate)}, which keeps "
                f"--budget {option}"
            )


def _gains(case: Case, estimate: Estimate) -> bool:
    """Whether it is enough of what the goal wants that somebody would ask for another limit."""
    w = weight_of_time(case.goal)
    return not case.kept or score(estimate, w, case.least) <= WORTH_ASKING * score(case.chosen, w, case.least)


def _told(case: Case, estimate: Estimate) -> str:
    sure = " unless interruptions make it late" if estimate.candidate.offer.market == "spot" else ""
    return f"{case.name(estimate)}, {spent_words(estimate)}{sure}"


def _price(case: Case) -> Iterator[str]:
    """Where cost decides, and somebody else sets the price."""
    offer = case.chosen.candidate.offer
    if case.goal.kind != "cheapest" or len(case.ordered) < 2 or offer.held or offer.market == "own":
        return
    second = case.ordered[1]
    price = price_that_changes(case.chosen, second)
    if price is not None and price > A_PRICE_APART * offer.usd_per_hour:
        yield (
            f"if {machine_words(offer)} rises above {price:.3g} $/h (now {offer.usd_per_hour:.3g}): {case.name(second)}"
        )
