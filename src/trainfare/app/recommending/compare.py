"""Use case: compare the machines that a program was measured on."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.workload import TrainingLength, build_workload, require_epochs
from trainfare.catalog.catalog import Catalog
from trainfare.errors import Remedy, UsageError
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.stability import PATIENCE
from trainfare.recommender.comparison import Comparison, compare_estimates, compare_until_stable
from trainfare.recommender.crossovers import winning_ranges
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_history

EPOCHS = (5, 10, 20)
"""The numbers of epochs that Malta simulates."""


def compare(
    profile_ids: Sequence[str] = (),
    *,
    epochs: Sequence[int] = EPOCHS,
    patience: int = PATIENCE,
    iterations_per_epoch: int | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """The named profiles, or all profiles of the newest program that were taken on a machine with a known price.

    A run counts as trained until stable if its metric has not improved for `patience` epochs.
    """
    settings = settings or read_settings()
    if not epochs:
        raise UsageError("at least one number of epochs is needed.", field="epochs", remedies=[Remedy({"epochs": 5})])
    for number in epochs:
        require_epochs(number)
    with open_history(settings.store) as history:
        profiles = _profiles(history, profile_ids)
    priced, remarks = _with_prices(profiles, open_catalog(settings), today=datetime.now(UTC).date())
    workload = build_workload(
        tuple(profile for profile, _ in priced),
        decide=lambda _profile, _iterations: TrainingLength(epochs=epochs[0]),
        iterations_per_epoch=iterations_per_epoch,
        overheads=None,
        settings=settings,
    )
    candidates = list(dict.fromkeys(Candidate(offer=o, nodes=1, batch_size=p.effective_batch_size) for p, o in priced))
    once, twice = (workload.unrounded(candidates, number) for number in (1, 2))
    baseline = min((offer for _, offer in priced), key=lambda o: o.usd_per_hour or math.inf).vm_type.key
    return Comparison(
        profiles=profiles,
        baseline=baseline,
        by_iterations={n: compare_estimates(workload.estimate(candidates, n), baseline) for n in epochs},
        fastest=winning_ranges(once, twice, Goal(kind="fastest")),
        cheapest=winning_ranges(once, twice, Goal(kind="cheapest")),
        until_stable=compare_until_stable(
            [profile for profile, _ in priced], {o.vm_type.key: o.usd_per_hour for _, o in priced}, patience
        ),
        remarks=remarks,
    )


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    if profile_ids:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError(
            "there is no profile yet. Profile the program first.",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    newest = every[0].program
    return tuple(p for p in every if (p.program.name, p.program.directory) == (newest.name, newest.directory))


def _with_prices(
    profiles: Sequence[Profile], catalog: Catalog, *, today: date
) -> tuple[list[tuple[Profile, Offer]], tuple[Reason, ...]]:
    """Each profile with the offer of its machine, and a remark on profiles whose machine has no known price."""
    offers: dict[str, Offer] = {}
    for offer in sorted((*catalog.slices, *catalog.offers), key=lambda o: (not o.rentable_on(today), o.usd_per_hour)):
        if offer.market != "spot":
            offers.setdefault(offer.vm_type.key, offer)
    priced = [(p, offers[p.host.vm_type]) for p in profiles if p.host.vm_type in offers and p.steady_iteration_seconds]
    left_out = tuple(p.id for p in profiles if p.host.vm_type not in offers)
    if not priced:
        raise UsageError(
            f"no machine with a known price was profiled in {', '.join(left_out) or 'these profiles'}. Profile with "
            "the name of the machine type; prices of your own machines belong in machines.toml.",
            remedies=[Remedy({"on": "MACHINE"}, command="profile", program="python train.py")],
        )
    if not left_out:
        return priced, ()
    return priced, (Reason(topic="assumptions", code="profiles_without_price", values={"profiles": left_out}),)
