"""Which machine should this be trained on: every offer estimated, one chosen, with reasons."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from trainfare.app.ids import new_id
from trainfare.catalog.catalog import load_catalog
from trainfare.errors import AskedWrongly
from trainfare.estimator.estimate import estimate_all
from trainfare.model.estimate import Estimate
from trainfare.model.machine import Gpu
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Profile
from trainfare.recommender.candidates import candidates
from trainfare.recommender.choose import choosable, in_order, one_a_machine
from trainfare.recommender.crossovers import stretches
from trainfare.recommender.explain import Case, reasons
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
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


def recommend(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    spot: bool = False,
    settings: Settings | None = None,
) -> Recommendation:
    """The plan for the named profiles, or for the newest; it is kept in the store."""
    settings = settings or read_settings()
    goal = goal or Goal(kind=settings.goal)
    now = datetime.now(UTC)
    with open_history(settings.store) as history:
        profiles = _profiles(history, profile_ids)
        catalog = load_catalog(machines=Path(settings.machines), prices=Path(settings.prices))
        found = candidates(catalog.offers, profiles, today=now.date())
        estimate = partial(_estimate, _by_batch_size(profiles, iterations_per_epoch), catalog.gpu_called)
        epochs_stated = epochs or profiles[0].epochs
        estimates = in_order(estimate(found.candidates, epochs_stated or ASSUMED_EPOCHS), goal)
        ordered = one_a_machine(choosable(estimates, spot=spot))
        shortlist = [e.candidate for e in ordered]
        case = Case(
            goal=goal,
            profile=next(profile for profile in profiles if profile.id == ordered[0].profile_id),
            ordered=ordered,
            estimates=estimates,
            stretches=stretches(estimate(shortlist, 1), estimate(shortlist, 2), goal),
            foreign=found.foreign,
            epochs_stated=bool(epochs_stated),
            spot=spot,
            today=now.date(),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtOneBatchSize:
    profiles: tuple[Profile, ...]
    iterations_per_epoch: int


def _by_batch_size(profiles: Sequence[Profile], stated: int | None) -> dict[int | None, _AtOneBatchSize]:
    groups: dict[int | None, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(profile.batch_size, []).append(profile)
    if stated and len(groups) > 1:
        raise AskedWrongly("--iterations-per-epoch is of one batch size, and these profiles have several.")
    return {
        batch_size: _AtOneBatchSize(profiles=tuple(group), iterations_per_epoch=_iterations_per_epoch(group[0], stated))
        for batch_size, group in groups.items()
    }


def _estimate(
    groups: Mapping[int | None, _AtOneBatchSize],
    gpus: Callable[[str], Gpu | None],
    wanted: Sequence[Candidate],
    epochs: int,
) -> tuple[Estimate, ...]:
    """Each candidate by the profiles of its own batch size."""
    return tuple(
        estimate
        for batch_size, group in groups.items()
        for estimate in estimate_all(
            group.profiles,
            [candidate for candidate in wanted if candidate.batch_size == batch_size],
            gpus=gpus,
            iterations_per_epoch=group.iterations_per_epoch,
            epochs=epochs,
        )
    )


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    """The named ones; for one or none, also those of the same program and batch size on other machine types."""
    if len(profile_ids) > 1:
        return tuple(history.profile(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles()
    if not every:
        raise AskedWrongly("there is no profile yet. Make one first: trainfare profile -- python train.py")
    leading = history.profile(profile_ids[0]) if profile_ids else every[0]
    others: dict[str, Profile] = {}
    for profile in every:
        machine = profile.host.vm_type
        alike = (profile.program.command, profile.batch_size) == (leading.program.command, leading.batch_size)
        if machine is not None and machine != leading.host.vm_type and alike:
            others.setdefault(machine, profile)
    return leading, *others.values()


def _iterations_per_epoch(profile: Profile, stated: int | None) -> int:
    if stated or profile.iterations_per_epoch:
        return stated or profile.iterations_per_epoch or 1
    if profile.samples and profile.batch_size:
        return math.ceil(profile.samples / profile.batch_size)
    raise AskedWrongly(
        f"nobody knows how many iterations an epoch of {profile.program.name} has, because it uses no DataLoader "
        "that says so. Give --iterations-per-epoch."
    )
