"""A workload: stored profiles and the catalog, from which `recommend`, `estimate` and others make estimates."""

import gc
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from trainfare.app.catalog.calibrations import calibration_in_use
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.starts import NO_STARTS, ObservedStarts, program_key, terms_with_starts
from trainfare.app.catalog.this_machine import taken_here
from trainfare.catalog.catalog import Catalog
from trainfare.catalog.cpu_facts import cpu_for
from trainfare.catalog.terms import find_interruptions, find_terms
from trainfare.clouds.slices import is_slice
from trainfare.errors import Remedy, UsageError
from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.epochs.by_batch import MEASURED_RULES, KnownEpochs, epochs_at_batches
from trainfare.estimator.estimate import CandidateEstimator, Totals, TrainingWork
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Interruptions, Overheads
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import HERE, Gpu
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.profiler.host import this_host_name
from trainfare.recommender.candidates import is_compatible
from trainfare.recommender.options import Options
from trainfare.settings import Settings
from trainfare.store.history import History

REPEATED_WITHIN = timedelta(days=1)
"""Profiles of one program on one machine are repeats of one another if they were taken this close together; a later
one may be of changed code under the same name. A run of the program that was made later counts always."""


MAX_RUNS_PER_MACHINE = 5
"""The newest profiles of runs on a machine that count; further ones would hardly narrow an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLength:
    """The number of epochs to train, and why."""

    epochs: int
    reason: Reason | None = None
    """Why this number; None if the user or the program states it."""
    epochs_interval: Interval | None = None
    """The 90% interval, if the number is uncertain."""
    iterations: int | None = None
    """The total number of iterations, if the program counts in iterations: the last epoch may be incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizeGroup:
    """The profiles of one batch size, the leading one first, and the length of a training at that batch size."""

    profiles: tuple[Profile, ...]
    iterations_per_epoch: int
    length: TrainingLength

    def work(self) -> TrainingWork:
        """The length as the estimator needs it: its product of iterations and epochs is what the program counts."""
        length = self.length
        exact = self.iterations_per_epoch if length.iterations is None else length.iterations / length.epochs
        return TrainingWork(iterations_per_epoch=exact, epochs=length.epochs, epochs_interval=length.epochs_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that estimates of one program are made from."""

    catalog: Catalog
    charges: Charges
    predictor: StepTimePredictor
    estimator: CandidateEstimator
    groups: tuple[BatchSizeGroup, ...]
    epochs_at: Mapping[int, EpochsAnswer] = field(default_factory=dict)
    """The expected number of epochs at batch sizes that were not profiled."""

    @property
    def leading(self) -> BatchSizeGroup:
        return self.groups[0]

    def estimate(self, candidates: Iterable[Candidate], epochs: int | None = None) -> tuple[Estimate, ...]:
        """Estimates with bills, each by the profiles of its batch size; for `epochs` epochs instead of the planned
        number."""
        return self.estimator.details(candidates, self._work_at if epochs is None else self._work_for(epochs))

    def unbilled(self, candidates: Iterable[Candidate]) -> tuple[Estimate, ...]:
        """The same estimates without bills and without the calculations of the phases."""
        return self.estimator.unbilled(candidates, self._work_at)

    def totals(self, candidates: Iterable[Candidate]) -> Options[Totals]:
        """Only their time and cost, fast enough for thousands."""
        return Options.all_of(self.estimator.table(candidates, self._work_at))

    def with_fixed_epochs(self, candidates: Sequence[Candidate]) -> tuple[Estimate, ...]:
        """Estimates without the uncertainty of the number of epochs, which is the same on every machine and does not
        count if two are compared. It remains for batch sizes other than that of the first candidate, relative to it."""
        groups = tuple(replace(g, length=replace(g.length, epochs_interval=None)) for g in self.groups)
        known = dict(self.epochs_at)
        size = candidates[0].batch_size if candidates else None
        if size is not None and size in known:
            known[size] = replace(known[size], low=known[size].value, high=known[size].value)
        return replace(self, groups=groups, epochs_at=known).unbilled(candidates)

    def unrounded(self, candidates: Iterable[Candidate], epochs: int) -> Options[Totals]:
        """Times and costs for another number of epochs, without rounding and minimum charge: straight lines in the
        number of epochs, from which crossovers are computed."""
        return Options.all_of(self.estimator.table(candidates, self._work_for(epochs), unrounded=True))

    def at(self, batch_size: int | None) -> BatchSizeGroup:
        """The training at an effective batch size. If that was not profiled, it is the leading one with another number
        of iterations, and with the expected number of epochs."""
        found = next((g for g in self.groups if g.profiles[0].effective_batch_size == batch_size), None)
        if found is not None:
            return found
        known = self.leading.profiles[0].effective_batch_size
        if batch_size is None or known is None:
            return self.leading
        return _at_other_batch_size(self.leading, known, batch_size, self.epochs_at.get(batch_size))

    def with_length(self, decide: Callable[[Profile, int], TrainingLength]) -> "Workload":
        """The workload with another length of the training; `decide` is that of `build_workload`."""
        groups = (replace(g, length=decide(g.profiles[0], g.iterations_per_epoch)) for g in self.groups)
        return replace(self, groups=tuple(groups))

    def with_epochs_at(self, batch_sizes: Iterable[int | None]) -> "Workload":
        """The workload with the expected number of epochs at batch sizes that were not profiled."""
        known = [k for group in self.groups if (k := _known_epochs(group))]
        others = {size for size in batch_sizes if size is not None} - {k.batch_size for k in known}
        samples = self.leading.profiles[0].samples
        return replace(self, epochs_at=epochs_at_batches(known, others, samples=samples) if known else {})

    def has_guessed_epochs(self, batch_size: int | None) -> bool:
        """True if the number of epochs at this batch size is a guess: it was neither profiled nor stated there, and
        neither several batch sizes nor the gradient noise show how it changes (`EpochsAnswer.is_guess`)."""
        answer = None if batch_size is None else self.epochs_at.get(batch_size)
        return answer is not None and answer.is_guess

    def _work_at(self, batch_size: int | None) -> TrainingWork:
        return self.at(batch_size).work()

    def _work_for(self, epochs: int) -> Callable[[int | None], TrainingWork]:
        """The work at each batch size for a given number of epochs."""
        return lambda size: TrainingWork(iterations_per_epoch=self.at(size).iterations_per_epoch, epochs=epochs)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the search for reference cycles, which takes a sixth of the time of thousands of estimates: they have no
    cycles and all are in use. Objects without references are still freed.

    At the end everything counts as old, so that the next search does not go through all new objects at once; the next
    full search still does. Freezing moves all objects out of the young generations, and unfreezing into the oldest one.
    A program that has frozen objects of its own keeps them so.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def build_workload(
    profiles: Sequence[Profile],
    *,
    decide: Callable[[Profile, int], TrainingLength],
    iterations_per_epoch: int | None,
    overheads: Overheads | None,
    settings: Settings,
    starts: ObservedStarts = NO_STARTS,
) -> Workload:
    """The workload of these profiles. `decide` returns the length of the training of a profile, given its iterations
    per epoch. `starts` are start-up times of the user's runs."""
    groups: dict[int | None, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(profile.effective_batch_size, []).append(profile)
    if iterations_per_epoch is not None:
        _require_at_least_one("iterations_per_epoch", iterations_per_epoch)
        if len(groups) > 1:
            raise UsageError(
                "The number depends on the batch size, and these profiles have several. Name profiles of one batch "
                "size.",
                field="iterations_per_epoch",
            )
    stated = overheads or Overheads()
    catalog = open_catalog(settings)
    charges = Charges(
        terms=terms_with_starts(find_terms, starts, program_key(profiles[0].program)),
        interruptions=interruptions_on,
        overheads=replace(
            stated,
            boot_seconds=settings.boot_seconds if stated.boot_seconds is None else stated.boot_seconds,
            setup_seconds=settings.setup_seconds if stated.setup_seconds is None else stated.setup_seconds,
        ),
    )
    predictor = build_predictor(profiles, catalog, settings)
    return Workload(
        catalog=catalog,
        charges=charges,
        predictor=predictor,
        estimator=CandidateEstimator(predictor, charges),
        groups=tuple(_group(group, decide, iterations_per_epoch) for group in groups.values()),
    )


def build_predictor(
    profiles: Sequence[Profile], catalog: Catalog, settings: Settings, *, targets: Sequence[Gpu] | None = None
) -> StepTimePredictor:
    """A predictor with the GPUs and slices of the catalog and the calibration in use; `targets` are the GPUs that will
    be asked about, by default those of the catalog that the program starts on."""
    devices = {profile.host.gpu for profile in profiles if profile.host.gpu}
    processors = {profile.host.cpu for profile in profiles if profile.host.cpu}
    if targets is None:
        machines = (offer.vm_type for offer in (*catalog.at_hand, *catalog.hosts, *catalog.offers))
        targets = [m.gpu for m in machines if m.gpu is not None and is_compatible(profiles[0].framework, m)]
    return StepTimePredictor(
        profiles,
        gpus={name: gpu for name in devices if (gpu := catalog.find_gpu(name)) is not None},
        slice_cores=_slice_cores(profiles, catalog),
        taken_here=taken_here(profiles),
        cpus={name: cpu for name in processors if (cpu := cpu_for(name)) is not None},
        calibration=calibration_in_use(settings),
        targets=targets,
    )


def _slice_cores(profiles: Sequence[Profile], catalog: Catalog) -> dict[str, float]:
    """The cores of the slices of this machine, by the key of the slice. The whole machine, and slices that are in no
    file, are among them only if a profile was taken on this machine: those of another say nothing about its slices."""
    at_hand = catalog.at_hand if any(profile.host.name == this_host_name() for profile in profiles) else ()
    described = (*at_hand, *(offer for offer in catalog.offers if is_slice(offer.vm_type)))
    return {offer.vm_type.key: offer.vm_type.vcpus for offer in described if offer.vm_type.vcpus}


def interruptions_on(offer: Offer) -> Interruptions:
    """The interruption rate of a spot machine in the region of the offer, as far as there are traces of it."""
    return find_interruptions(offer.vm_type, offer.region)


def select_profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    """The named profiles. If one or none is named, also its repeats, and those of the same program and batch size on
    other machine types; without a name, of the newest that is not of a run, which knows less."""
    if len(profile_ids) > 1:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError(
            "There is no profile yet. Profile the program first.",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    profiled = (profile for profile in every if profile.origin != "run")
    leading = history.profiles.get(profile_ids[0]) if profile_ids else next(profiled, every[0])
    here = taken_here(every)
    newest: dict[str, Profile] = {machine: leading} if (machine := _machine(leading, here)) else {}
    found, runs = [leading], Counter[str]()
    for profile in every:
        machine = _machine(profile, here)
        if machine is None or profile.id == leading.id or _command_and_size(profile) != _command_and_size(leading):
            continue
        if profile.origin == "run" and runs[machine] >= MAX_RUNS_PER_MACHINE:
            continue
        first = newest.setdefault(machine, profile)
        if first is profile or _is_repeat(profile, first):
            found.append(profile)
            runs[machine] += profile.origin == "run"
    return tuple(found)


def _machine(profile: Profile, here: Collection[str]) -> str | None:
    """The machine type that a profile was taken on; None if it is unknown and not the machine at hand."""
    return HERE if profile.id in here else profile.host.vm_type


def _require_at_least_one(field: str, number: int) -> None:
    if number < 1:
        raise UsageError(f"The number must be at least 1, got {number}.", field=field)


def _command_and_size(profile: Profile) -> tuple[object, ...]:
    return profile.program.command, profile.effective_batch_size


def _is_repeat(profile: Profile, first: Profile) -> bool:
    later_run = profile.origin == "run" and profile.measured_at >= first.measured_at
    close = later_run or abs(profile.measured_at - first.measured_at) <= REPEATED_WITHIN
    return close and profile.parameters == first.parameters and profile.program == first.program


def _group(
    group: Sequence[Profile], decide: Callable[[Profile, int], TrainingLength], stated: int | None
) -> BatchSizeGroup:
    iterations = stated or _iterations_per_epoch(group[0])
    return BatchSizeGroup(profiles=tuple(group), iterations_per_epoch=iterations, length=decide(group[0], iterations))


def _at_other_batch_size(
    group: BatchSizeGroup, known: int, batch_size: int, answer: EpochsAnswer | None
) -> BatchSizeGroup:
    """The same number of samples in batches of another size, for the expected number of epochs, but no fewer than
    planned: that a smaller batch may need fewer is only in the interval."""
    samples = group.profiles[0].samples or group.iterations_per_epoch * known
    length = group.length
    iterations: float | None = length.iterations
    if answer is not None and answer.rounded is not None:
        epochs = max(answer.rounded, length.epochs)
        more = epochs / length.epochs
        length = replace(length, epochs=epochs, epochs_interval=_rounded_interval(answer, epochs))
        iterations = None if iterations is None else iterations * more
    if iterations is not None:  # a number of iterations stands for a number of samples
        length = replace(length, iterations=max(1, math.ceil(iterations * known / batch_size)))
    return replace(group, iterations_per_epoch=max(1, math.ceil(samples / batch_size)), length=length)


def _known_epochs(group: BatchSizeGroup) -> KnownEpochs | None:
    profile, length = group.profiles[0], group.length
    if profile.effective_batch_size is None:
        return None
    interval = length.epochs_interval or Interval.exactly(length.epochs)
    expected = length.reason.values.get("rule") if length.reason else None
    answer = EpochsAnswer(
        rule=next((rule for rule in MEASURED_RULES if rule == expected), "you"),
        why=f"{length.epochs} epochs",
        value=length.epochs,
        low=interval.low,
        high=interval.high,
    )
    return KnownEpochs.from_answer(answer, profile.effective_batch_size, profile.gradient_noise)


def _rounded_interval(answer: EpochsAnswer, epochs: int) -> Interval | None:
    low, high = min(epochs, max(1, math.floor(answer.low or 1))), max(epochs, math.ceil(answer.high or 1))
    return Interval(value=epochs, low=low, high=high) if low < high else None


def _iterations_per_epoch(profile: Profile) -> int:
    if profile.iterations_per_epoch:
        return profile.iterations_per_epoch
    if profile.samples and (batch_size := profile.effective_batch_size):
        return math.ceil(profile.samples / batch_size)
    if profile.planned_iterations:
        # The program does not count in epochs: the whole training is one.
        return profile.planned_iterations
    raise UsageError(
        f"The number of iterations in an epoch of {profile.program.name} is not known, because it uses no DataLoader "
        "that has a length. Pass it.",
        field="iterations_per_epoch",
    )
