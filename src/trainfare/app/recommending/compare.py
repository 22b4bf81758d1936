"""Use case: compare the machines that a program was measured on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.this_machine import taken_here
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import Workload, build_workload
from trainfare.app.stated import StatedLength
from trainfare.catalog.catalog import Catalog
from trainfare.errors import Remedy, UsageError
from trainfare.estimator.cpu.busy import queue_share
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.stability import PATIENCE
from trainfare.recommender.comparison import (
    Comparison,
    LengthUnit,
    compare_estimates,
    compare_until_stable,
)
from trainfare.recommender.crossovers import winning_ranges
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history

EPOCHS = (5, 10, 20)
"""The numbers of epochs that Malta simulates."""


def compare(
    profile_ids: Sequence[str] = (),
    *,
    epochs: Sequence[float] | None = None,
    steps: Sequence[int] | None = None,
    tokens: Sequence[float] | None = None,
    samples: int | None = None,
    profiled_batch_size: int | None = None,
    iterations_per_epoch: int | None = None,
    patience: int = PATIENCE,
    settings: Settings | None = None,
) -> Comparison:
    """The named profiles, or all profiles of the newest program that were taken on this machine or on one with a known
    price, at each of these lengths: `epochs`, `steps` or `tokens`.

    By default at 5, 10 and 20 epochs, or at the number of steps of a program that counts in steps alone. Steps and
    tokens are counted at the batch size of the newest profile; at another, as many samples are trained. A run counts as
    trained until stable if its metric has not improved for `patience` epochs.
    """
    settings = settings or read_settings()
    facts = StatedLength(
        samples=samples, profiled_batch_size=profiled_batch_size, iterations_per_epoch=iterations_per_epoch
    )
    stated = {"epochs": epochs, "steps": steps, "tokens": tokens}
    _require_valid(stated)
    with open_existing_history(settings.store) as history:
        profiles = facts.apply(_profiles(history, profile_ids))
    measured, remarks = _with_offers(profiles, open_catalog(settings), today=datetime.now(UTC).date())
    if tokens:  # the log of a past run does not say them
        measured = sorted(measured, key=lambda each: each.profile.tokens_per_iteration is None)
    leading = measured[0].profile
    lengths = _lengths(stated, leading)
    workload = build_workload(
        StatedLength(steps=lengths.most_steps).apply([each.profile for each in measured]),
        decide=partial(decide_epochs, next(iter(lengths.stated.values())), leading=leading),
        iterations_per_epoch=iterations_per_epoch,
        overheads=None,
        settings=settings,
    )
    candidates = list(dict.fromkeys(each.candidate for each in measured))
    baseline = min((each.offer for each in measured), key=lambda o: o.usd_per_hour or math.inf).vm_type.key
    once, twice = (workload.unrounded(candidates, number) for number in (1, 2))
    per_epoch = lengths.units_per_epoch(workload)
    return Comparison(
        profiles=profiles,
        baseline=baseline,
        unit=lengths.unit,
        by_iterations={
            number: compare_estimates(
                workload.with_length(partial(decide_epochs, length, leading=leading)).estimate(candidates), baseline
            )
            for number, length in lengths.stated.items()
        },
        fastest=winning_ranges(once, twice, Goal(kind="fastest"), units_per_epoch=per_epoch),
        cheapest=winning_ranges(once, twice, Goal(kind="cheapest"), units_per_epoch=per_epoch),
        until_stable=compare_until_stable(
            [each.named for each in measured],
            {each.offer.vm_type.key: each.offer.usd_per_hour for each in measured},
            patience,
        ),
        remarks=(*remarks, *_batch_size_remark(lengths.unit, candidates), *_busy_remark(measured)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A profile and the offer of the machine that it was taken on."""

    profile: Profile
    offer: Offer

    @property
    def candidate(self) -> Candidate:
        return Candidate(offer=self.offer, nodes=1, batch_size=self.profile.effective_batch_size)

    @property
    def named(self) -> Profile:
        """The profile with the name of its machine in the catalog: `local/here` for one that has no name."""
        return replace(self.profile, host=replace(self.profile.host, vm_type=self.offer.vm_type.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """The lengths at which machines are compared, by their number of the unit, each in epochs or in steps."""

    unit: LengthUnit
    stated: Mapping[float, StatedLength]
    units_per_step: int = 1

    @property
    def most_steps(self) -> int | None:
        """The steps of the longest; None if they are in epochs. A program that does not count in epochs has these
        in one."""
        steps = [length.steps for length in self.stated.values() if length.steps is not None]
        return max(steps, default=None)

    def units_per_epoch(self, workload: Workload) -> float:
        """The epochs, steps or tokens in one epoch at the leading batch size."""
        if self.unit == "epochs":
            return 1.0
        return float(workload.leading.iterations_per_epoch * self.units_per_step)


def _require_valid(stated: Mapping[str, Sequence[float] | None]) -> None:
    """Raises UsageError if no number is given, if one is impossible, or if there are two units."""
    for unit, numbers in stated.items():
        if numbers is not None and not numbers:
            raise UsageError(f"at least one number of {unit} is needed.", field=unit, remedies=[Remedy({unit: 5})])
    given = {unit: numbers for unit, numbers in stated.items() if numbers is not None}
    StatedLength(**{unit: numbers[0] for unit, numbers in given.items()})  # type: ignore[arg-type] # the values of steps are integers
    for unit, numbers in given.items():
        for number in numbers:
            StatedLength(**{unit: number})  # type: ignore[arg-type] # the values of steps are integers


def _lengths(stated: Mapping[str, Sequence[float] | None], leading: Profile) -> _Lengths:
    """The stated lengths, or those that the program suggests."""
    if tokens := stated["tokens"]:
        in_steps = {n: StatedLength(steps=StatedLength(tokens=n).steps_of(leading, leading)) for n in tokens}
        return _Lengths(unit="tokens", stated=in_steps, units_per_step=leading.tokens_per_iteration or 1)
    if steps := stated["steps"]:
        return _Lengths(unit="steps", stated={n: StatedLength(steps=int(n)) for n in steps})
    planned = leading.planned_iterations
    if not stated["epochs"] and planned and not leading.iterations_per_epoch and not leading.samples:
        return _Lengths(unit="steps", stated={planned: StatedLength(steps=planned)})
    return _Lengths(unit="epochs", stated={n: StatedLength(epochs=n) for n in stated["epochs"] or EPOCHS})


def _batch_size_remark(unit: LengthUnit, candidates: Sequence[Candidate]) -> tuple[Reason, ...]:
    """Steps are counted at one batch size; this says at which, if there are several."""
    sizes = {candidate.batch_size for candidate in candidates}
    if unit != "steps" or len(sizes) == 1:
        return ()
    values = {"batch_size": candidates[0].batch_size}
    return (Reason(topic="assumptions", code="steps_at_batch_size", values=values),)


def _busy_remark(measured: Sequence[_Measured]) -> tuple[Reason, ...]:
    """The profiles that were taken while the machine did other work."""
    busy = tuple(each.profile.id for each in measured if queue_share(each.profile))
    return (Reason(topic="certainty", code="busy_profiles", values={"profiles": busy}),) if busy else ()


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    if profile_ids:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError(
            "there is no profile yet. Profile the program first.",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    return tuple(profile for profile in every if _is_same_program(profile, every[0]))


def _is_same_program(profile: Profile, newest: Profile) -> bool:
    """True if it has the same name in the same folder, at whatever batch size; on another machine, where the folder is
    another one, if it has the same command."""
    one, other = profile.program, newest.program
    if profile.host.name == newest.host.name:
        return (one.name, one.directory) == (other.name, other.directory)
    return one.command == other.command


def _with_offers(
    profiles: Sequence[Profile], catalog: Catalog, *, today: date
) -> tuple[list[_Measured], tuple[Reason, ...]]:
    """Each profile with the offer of its machine, and a remark on profiles that cannot be compared: those of another
    machine whose price is not known, and those without the time of an iteration."""
    offers: dict[str | None, Offer] = {}
    every = (*catalog.at_hand, *catalog.hosts, *catalog.offers)
    for offer in sorted(every, key=lambda o: (not o.rentable_on(today), o.usd_per_hour)):
        if offer.market != "spot":
            offers.setdefault(offer.vm_type.key, offer)
    here = taken_here(profiles)
    found = {p.id: offers.get(p.host.vm_type) or (catalog.here if p.id in here else None) for p in profiles}
    unpriced = tuple(p.id for p in profiles if found[p.id] is None)
    untimed = tuple(p.id for p in profiles if found[p.id] is not None and not p.steady_iteration_seconds)
    measured = [
        _Measured(profile=p, offer=own)
        for p in profiles
        if (own := found[p.id]) is not None and p.steady_iteration_seconds
    ]
    if not measured:
        raise _nothing_to_compare(unpriced, untimed)
    left_out = (("profiles_without_price", unpriced), ("profiles_without_times", untimed))
    return measured, tuple(
        Reason(topic="assumptions", code=code, values={"profiles": ids}) for code, ids in left_out if ids
    )


def _nothing_to_compare(unpriced: Sequence[str], untimed: Sequence[str]) -> UsageError:
    if not unpriced:
        return UsageError(
            f"the time of an iteration is not known in {', '.join(untimed)}. Profile the program.",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    return UsageError(
        f"no machine with a known price was profiled in {', '.join(unpriced)}. Profile with "
        "the name of the machine type; prices of your own machines belong in machines.toml.",
        remedies=[Remedy({"on": "MACHINE"}, command="profile", program="python train.py")],
    )
