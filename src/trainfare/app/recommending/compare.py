"""The machines that a program was measured on, side by side: Malta's two methods on one's own profiles.

By iterations (his second) each machine is simulated for a range of epochs, and the winner may change with it. By
epochs (his first) the epochs themselves are known, from a run at each batch size that was trained until it was stable;
that also finds the batch size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.workload import TrainingLength, Workload, build_workload, require_epochs
from trainfare.catalog.catalog import Catalog
from trainfare.errors import UsageError
from trainfare.estimator.cost.cost_benefit import CostBenefit, StableRun, cost_benefit
from trainfare.estimator.cost.delta import Spent, delta
from trainfare.estimator.cost.relative import by_best
from trainfare.estimator.epochs.two_epochs import (
    Configuration,
    MethodCost,
    complete_epochs,
    configurations,
    method_costs,
)
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, Stability, stability_of
from trainfare.recommender.crossovers import WinningRange, winning_ranges
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_history

EPOCHS = (5, 10, 20)
"""Those of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One machine at one batch size for one number of epochs, against the best of those compared."""

    estimate: Estimate
    relative_seconds: Interval
    relative_usd: Interval
    delta: float
    """Speed-up per fold of cost against the baseline (Sanghvi)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilStable:
    """Every machine at every batch size, trained until stable, and what it costs to find out."""

    configurations: tuple[Configuration, ...]
    method_costs: tuple[MethodCost, ...]
    cost_benefit: tuple[CostBenefit, ...]
    """Up to the stabilisation point (Malta 2019), against the machine that was trained until stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    profiles: tuple[Profile, ...]
    baseline: str
    """The machine with the lowest price an hour."""
    by_iterations: dict[int, tuple[Standing, ...]]
    """By the number of epochs; in the same order each time."""
    fastest: tuple[WinningRange, ...]
    cheapest: tuple[WinningRange, ...]
    """Which wins at how many epochs."""
    until_stable: UntilStable | None
    """None where no profile was trained until it was stable."""
    remarks: tuple[str, ...]


def compare(
    profile_ids: Sequence[str] = (),
    *,
    epochs: Sequence[int] = EPOCHS,
    patience: int = PATIENCE,
    iterations_per_epoch: int | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """The named profiles, or all of the newest profile's program that were taken on a machine with a price.

    A run counts as trained until stable when its metric was not better for `patience` epochs.
    """
    settings = settings or read_settings()
    if not epochs:
        raise UsageError("for how many epochs? Give at least one number: --epochs 5,10,20")
    for number in epochs:
        require_epochs(number)
    with open_history(settings.store) as history:
        profiles = _profiles(history, profile_ids)
    catalog = open_catalog(settings)
    priced, remarks = _with_prices(profiles, catalog, today=datetime.now(UTC).date())
    workload = build_workload(
        tuple(profile for profile, _ in priced),
        decide=lambda _profile, _iterations: TrainingLength(epochs=epochs[0]),
        iterations_per_epoch=iterations_per_epoch,
        overheads=None,
        settings=settings,
    )
    wanted = list(dict.fromkeys(Candidate(offer=o, nodes=1, batch_size=p.effective_batch_size) for p, o in priced))
    once, twice = (workload.unrounded(wanted, number) for number in (1, 2))
    baseline = min((offer for _, offer in priced), key=lambda o: o.usd_per_hour).vm_type.key
    return Comparison(
        profiles=profiles,
        baseline=baseline,
        by_iterations={number: _standings(workload, wanted, number, baseline) for number in epochs},
        fastest=winning_ranges(once, twice, Goal(kind="fastest")),
        cheapest=winning_ranges(once, twice, Goal(kind="cheapest")),
        until_stable=_until_stable(
            [p for p, _ in priced], {o.vm_type.key: o.usd_per_hour for _, o in priced}, patience
        ),
        remarks=tuple(remarks),
    )


def _standings(workload: Workload, wanted: Sequence[Candidate], epochs: int, baseline: str) -> tuple[Standing, ...]:
    found = workload.estimate(wanted, epochs)
    seconds = by_best({place: estimate.seconds for place, estimate in enumerate(found)})
    usd = by_best({place: estimate.usd for place, estimate in enumerate(found)})
    base = min((e for e in found if e.candidate.offer.vm_type.key == baseline), key=lambda e: e.usd.value)
    return tuple(
        Standing(
            estimate=estimate,
            relative_seconds=seconds[place],
            relative_usd=usd[place],
            delta=delta(_spent(estimate), _spent(base)),
        )
        for place, estimate in enumerate(found)
    )


def _spent(estimate: Estimate) -> Spent:
    return Spent(seconds=estimate.seconds.value, usd=estimate.usd.value)


def _until_stable(profiles: Sequence[Profile], usd_per_hour: dict[str, float], patience: int) -> UntilStable | None:
    """The runs that were trained until stable tell how many epochs are needed; two epochs how long they take."""
    points = {p.id: seen for p in profiles if (seen := stability_of(p, patience)) is not None and seen.patience_exhausted}
    stable = [p for p in profiles if p.id in points]
    sizes = {p.effective_batch_size for p in stable}
    short = [
        p for p in profiles if p not in stable and len(complete_epochs(p)) >= 2 and p.effective_batch_size in sizes
    ]
    if not stable:
        return None
    return UntilStable(
        configurations=configurations(stable, short, usd_per_hour),
        method_costs=method_costs(stable, short, usd_per_hour),
        cost_benefit=_cost_benefit(stable, short, points, usd_per_hour),
    )


def _cost_benefit(
    stable: Sequence[Profile], short: Sequence[Profile], points: Mapping[str, Stability], usd_per_hour: dict[str, float]
) -> tuple[CostBenefit, ...]:
    """Nothing where a batch size has no stabilisation point, or was trained until stable on several machines."""
    first = {p.effective_batch_size or 0: points[p.id] for p in stable}
    epochs = {size: point.stable_from_epoch for size, point in first.items() if point.stable_from_epoch}
    machines = {p.host.vm_type for p in stable}
    if len(epochs) < len(first) or len(machines) != 1:
        return ()
    runs = [
        StableRun(
            machine=each.machine,
            batch_size=each.batch_size,
            iterations=first[each.batch_size].stable_from_iteration or 0,
            seconds=each.seconds,
            usd_per_hour=usd_per_hour[each.machine],
        )
        for each in configurations(stable, short, usd_per_hour, epochs=epochs)
    ]
    return cost_benefit(runs, baseline=machines.pop() or "")


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    if profile_ids:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError("there is no profile yet. Make one first: trainfare profile -- python train.py")
    newest = every[0]
    here = (newest.program.name, newest.program.directory)
    return tuple(profile for profile in every if (profile.program.name, profile.program.directory) == here)


def _with_prices(
    profiles: Sequence[Profile], catalog: Catalog, *, today: date
) -> tuple[list[tuple[Profile, Offer]], list[str]]:
    """Each profile with the offer of its machine; and what is said of those that have none."""
    offers: dict[str, Offer] = {}
    for offer in sorted(catalog.offers, key=lambda o: (not o.rentable_on(today), o.usd_per_hour)):
        if offer.market != "spot":
            offers.setdefault(offer.vm_type.key, offer)
    priced = [(p, offers[p.host.vm_type]) for p in profiles if p.host.vm_type in offers and p.steady_iteration_seconds]
    left_out = [p.id for p in profiles if p.host.vm_type not in offers]
    if not priced:
        raise UsageError(
            f"none of {', '.join(left_out) or 'these profiles'} was taken on a machine whose price is known. Say which "
            "it was: trainfare profile --on MACHINE -- …, with your own machines in machines.toml."
        )
    remarks = []
    if left_out:
        remarks.append(f"left out, because the price of their machine is not known: {', '.join(left_out)}")
    return priced, remarks
