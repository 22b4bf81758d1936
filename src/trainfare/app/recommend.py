"""Which machine should this be trained on: every offer estimated, one chosen, with reasons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from trainfare.app.epochs import expected_epochs
from trainfare.app.fare import Length, gather, profiles_asked, require_epochs
from trainfare.app.ids import new_id
from trainfare.catalog.terms import interruptions_of
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Profile
from trainfare.recommender.candidates import candidates
from trainfare.recommender.choose import choosable, in_order, one_a_machine
from trainfare.recommender.crossovers import stretches
from trainfare.recommender.explain import Case, reasons
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

ASSUMED_EPOCHS = 10
RUNNERS_UP = 20
"""How many are kept with a plan: those that a person would look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The plan that is kept, and every estimate that it was chosen from."""

    plan: Plan
    profiles: tuple[Profile, ...]
    """Those it leans on, the leading one first."""
    estimates: tuple[Estimate, ...]
    """Best first, those that may not be chosen included."""


def decide_epochs(stated: int | None, profile: Profile, iterations_per_epoch: int) -> Length:
    """How long to train: what the user says, what the program says, when it would stop by itself, how many its learning
    rates and its curve want; else an assumption. Decided only here."""
    if stated is not None:
        return Length(epochs=stated)
    if profile.planned_iterations and profile.early_stopping is None:  # its epochs are the same, rounded up
        epochs = math.ceil(profile.planned_iterations / iterations_per_epoch)
        return Length(epochs=epochs, iterations=profile.planned_iterations)
    expected = expected_epochs(profile)
    if expected.whole is None:
        return Length(
            epochs=ASSUMED_EPOCHS,
            guessed=f"{ASSUMED_EPOCHS} epochs are assumed, because the program does not say how many: give --epochs",
        )
    if expected.rule == "program":
        return Length(epochs=expected.whole)
    low, high = max(1, math.floor(expected.low or 1)), math.ceil(expected.high or 1)
    return Length(
        epochs=expected.whole,
        epochs_interval=Interval(value=expected.whole, low=low, high=high) if low < high else None,
        guessed=f"{expected.whole} epochs are expected: {expected.why}. {low} – {high} epochs (90 %) are in the "
        "intervals of time and cost; --epochs says otherwise",
    )


def recommend(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    spot: bool = False,
    reserved: bool | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
) -> Recommendation:
    """The plan for the named profiles, or for the newest; it is kept in the store.

    `reserved` True lets commitments be chosen that are still to be bought, None those that are held, False neither.
    """
    settings = settings or read_settings()
    goal = goal or Goal(kind=settings.goal)
    now = datetime.now(UTC)
    require_epochs(epochs)
    with open_history(settings.store) as history:
        profiles = profiles_asked(history, profile_ids)
        fare = gather(
            profiles,
            decide=partial(decide_epochs, epochs),
            iterations_per_epoch=iterations_per_epoch,
            overheads=overheads,
            settings=settings,
        )
        found = candidates((*fare.catalog.offers, *fare.catalog.commitments), profiles, today=now.date())
        estimates = in_order(fare.estimate(found.candidates), goal)
        ordered = one_a_machine(choosable(estimates, spot=spot, reserved=reserved))
        shortlist = [e.candidate for e in ordered]
        leading = fare.leading
        case = Case(
            goal=goal,
            profile=next(profile for profile in profiles if profile.id == ordered[0].profile_id),
            ordered=in_order(fare.equally_long(shortlist), goal),
            estimates=estimates,
            stretches=stretches(fare.on_a_line(shortlist, 1), fare.on_a_line(shortlist, 2), goal),
            foreign=found.foreign,
            guessed_epochs=leading.length.guessed,
            spot=spot,
            reserved=reserved,
            today=now.date(),
            iterations_per_epoch=leading.iterations_per_epoch,
            planned_iterations=leading.length.iterations,
            interruptions=interruptions_of(ordered[0].candidate.offer.vm_type),
        )
        plan = Plan(
            id=new_id("n"),
            made_at=now,
            goal=goal,
            chosen=ordered[0],
            runners_up=ordered[1 : 1 + RUNNERS_UP],
            considered=len(estimates),
            reasons=reasons(case),
        )
        history.add_plan(plan)
    return Recommendation(plan=plan, profiles=profiles, estimates=estimates)
