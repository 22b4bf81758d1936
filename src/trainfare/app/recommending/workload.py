"""From kept profiles and the catalog to estimates: the one path that `recommend` and `estimate` share."""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from trainfare.app.catalog.calibrations import calibration_in_use
from trainfare.app.catalog.offers import open_catalog
from trainfare.catalog.catalog import Catalog
from trainfare.catalog.terms import find_interruptions, terms_of
from trainfare.errors import UsageError
from trainfare.estimator.cost.bill import INSTANT, Charges
from trainfare.estimator.epochs.by_batch import KnownEpochs, epochs_at_batches
from trainfare.estimator.estimate import estimate_all, estimate_totals
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Interruptions, Overheads, Terms
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.settings import Settings
from trainfare.store.history import History

REPEATED_WITHIN = timedelta(days=1)
"""Profiles of one program on one machine are repeats of one another when they were taken so close together; a later
one may be of other code under the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLength:
    """How long to train."""

    epochs: int
    guessed: str | None = None
    """Why so many, in a sentence, where neither the user nor the program says it."""
    epochs_interval: Interval | None = None
    """Between how many, where they are expected."""
    iterations: int | None = None
    """In all, where the program counts in iterations: the last epoch may be cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizeGroup:
    """Profiles of one batch size, the leading one first, and what they would train."""

    profiles: tuple[Profile, ...]
    iterations_per_epoch: int
    length: TrainingLength


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All that an estimate needs, gathered."""

    catalog: Catalog
    charges: Charges
    predictor: StepTimePredictor
    groups: tuple[BatchSizeGroup, ...]
    epochs_at: Mapping[int, EpochsAnswer] = field(default_factory=dict)
    """Of batch sizes that were not profiled, how many epochs are expected to reach as far; elsewhere as many as at the
    leading one."""

    @property
    def leading(self) -> BatchSizeGroup:
        return self.groups[0]

    def estimate(self, wanted: Sequence[Candidate], epochs: int | None = None) -> tuple[Estimate, ...]:
        """Each candidate by the profiles of its own batch size; `epochs` in place of those that are asked for."""
        return self._estimates(estimate_all, wanted, epochs, self.charges)

    def totals(self, wanted: Sequence[Candidate]) -> tuple[Estimate, ...]:
        """The same times and costs without the words: quick enough for thousands."""
        return self._estimates(estimate_totals, wanted, None, self.charges)

    def with_fixed_epochs(self, wanted: Sequence[Candidate]) -> tuple[Estimate, ...]:
        """Without the doubt how many epochs it takes: it is the same on every machine, so it does not count where one
        is held against another. How many another batch size takes than that of the first is in doubt as before."""
        groups = tuple(replace(g, length=replace(g.length, epochs_interval=None)) for g in self.groups)
        known = dict(self.epochs_at)
        size = wanted[0].batch_size if wanted else None
        if size is not None and size in known:
            known[size] = replace(known[size], low=known[size].value, high=known[size].value)
        return replace(self, groups=groups, epochs_at=known).totals(wanted)

    def unrounded(self, wanted: Sequence[Candidate], epochs: int) -> tuple[Estimate, ...]:
        """Without rounding and minimum charge: straight lines in the number of epochs, as crossovers want them."""

        def unrounded(offer: Offer) -> Terms:
            return replace(terms_of(offer), billing=INSTANT)

        return self._estimates(estimate_totals, wanted, epochs, replace(self.charges, terms=unrounded))

    def at(self, batch_size: int | None) -> BatchSizeGroup:
        """What would be trained at a batch size of all GPUs together; one that was not profiled is like the leading
        one, but for the number of its iterations."""
        found = next((g for g in self.groups if g.profiles[0].effective_batch_size == batch_size), None)
        if found is not None:
            return found
        known = self.leading.profiles[0].effective_batch_size
        if batch_size is None or known is None:
            return self.leading
        return _at_other_batch(self.leading, known, batch_size, self.epochs_at.get(batch_size))

    def knowing_epochs_at(self, batch_sizes: Iterable[int | None]) -> "Workload":
        """With what the law of epochs and batch sizes says of those that were not profiled."""
        known = [k for group in self.groups if (k := _known_epochs(group))]
        others = {size for size in batch_sizes if size is not None} - {k.batch_size for k in known}
        samples = self.leading.profiles[0].samples
        return replace(self, epochs_at=epochs_at_batches(known, others, samples=samples) if known else {})

    def _estimates(
        self,
        estimates_of: Callable[..., tuple[Estimate, ...]],
        wanted: Sequence[Candidate],
        epochs: int | None,
        charges: Charges,
    ) -> tuple[Estimate, ...]:
        by_size: dict[int | None, list[Candidate]] = {}
        for candidate in wanted:
            by_size.setdefault(candidate.batch_size, []).append(candidate)
        with gc_paused():
            return tuple(
                estimate
                for group, alike in ((self.at(size), alike) for size, alike in by_size.items())
                for estimate in estimates_of(
                    self.predictor,
                    alike,
                    iterations_per_epoch=group.iterations_per_epoch if epochs else _exact(group),
                    epochs=epochs or group.length.epochs,
                    epochs_interval=None if epochs else group.length.epochs_interval,
                    charges=charges,
                )
            )


@contextmanager
def gc_paused() -> Iterator[None]:
    """Python looks for circles among new objects again and again. Estimates refer to nothing in circles and all are
    kept, so among thousands of them it only takes time: a sixth of the whole. What is no longer referred to is given
    back all the same."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


def build_workload(
    profiles: Sequence[Profile],
    *,
    decide: Callable[[Profile, int], TrainingLength],
    iterations_per_epoch: int | None,
    overheads: Overheads | None,
    settings: Settings,
) -> Workload:
    """`decide` says how long a profile with so many iterations an epoch is to be trained."""
    groups: dict[int | None, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(profile.effective_batch_size, []).append(profile)
    if iterations_per_epoch is not None:
        _require_at_least_one("iterations an epoch", iterations_per_epoch)
        if len(groups) > 1:
            raise UsageError("--iterations-per-epoch is of one batch size, and these profiles have several.")
    stated = overheads or Overheads()
    catalog = open_catalog(settings)
    return Workload(
        catalog=catalog,
        predictor=StepTimePredictor(
            profiles,
            gpu_called=catalog.gpu_called,
            calibration=calibration_in_use(settings),
            cores_of=catalog.slice_cores,
            targets=[offer.vm_type.gpu for offer in catalog.offers if offer.vm_type.gpu],
        ),
        charges=Charges(
            terms=terms_of,
            interruptions=interruptions_on,
            overheads=replace(
                stated,
                boot_seconds=settings.boot_seconds if stated.boot_seconds is None else stated.boot_seconds,
                setup_seconds=settings.setup_seconds if stated.setup_seconds is None else stated.setup_seconds,
            ),
        ),
        groups=tuple(_group(group, decide, iterations_per_epoch) for group in groups.values()),
    )


def interruptions_on(offer: Offer) -> Interruptions:
    """Where it is offered, as far as that was traced."""
    return find_interruptions(offer.vm_type, offer.region)


def select_profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    """The named ones; for one or none, also its repeats, and those of the same program and batch size on other
    machine types."""
    if len(profile_ids) > 1:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError("there is no profile yet. Make one first: trainfare profile -- python train.py")
    leading = history.profiles.get(profile_ids[0]) if profile_ids else every[0]
    newest: dict[str, Profile] = {leading.host.vm_type: leading} if leading.host.vm_type else {}
    found = [leading]
    for profile in every:
        machine = profile.host.vm_type
        if machine is None or profile.id == leading.id or _what_ran(profile) != _what_ran(leading):
            continue
        first = newest.setdefault(machine, profile)
        if first is profile or _is_repeat(profile, first):
            found.append(profile)
    return tuple(found)


def require_epochs(epochs: int | None) -> None:
    """A number of epochs that somebody asks for."""
    if epochs is not None:
        _require_at_least_one("epochs", epochs)


def _require_at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise UsageError(f"{name} must be at least 1, got {number}: no training takes no time.")


def _what_ran(profile: Profile) -> tuple[object, ...]:
    return profile.program.command, profile.effective_batch_size


def _is_repeat(profile: Profile, first: Profile) -> bool:
    close = abs(profile.measured_at - first.measured_at) <= REPEATED_WITHIN
    return close and profile.parameters == first.parameters and profile.program == first.program


def _group(group: Sequence[Profile], decide: Callable[[Profile, int], TrainingLength], stated: int | None) -> BatchSizeGroup:
    iterations = stated or _iterations_per_epoch(group[0])
    return BatchSizeGroup(profiles=tuple(group), iterations_per_epoch=iterations, length=decide(group[0], iterations))


def _exact(group: BatchSizeGroup) -> float:
    """So that times the epochs it is what the program counts."""
    length = group.length
    return group.iterations_per_epoch if length.iterations is None else length.iterations / length.epochs


def _at_other_batch(group: BatchSizeGroup, known: int, batch_size: int, answer: EpochsAnswer | None) -> BatchSizeGroup:
    """As many samples in other portions, for as many epochs as these are expected to need. A smaller batch may do with
    fewer, but nobody asked for fewer: that is in the interval alone."""
    samples = group.profiles[0].samples or group.iterations_per_epoch * known
    length = group.length
    iterations: float | None = length.iterations
    if answer is not None and answer.rounded is not None:
        epochs = max(answer.rounded, length.epochs)
        more = epochs / length.epochs
        length = replace(length, epochs=epochs, epochs_interval=_whole_interval(answer, epochs))
        iterations = None if iterations is None else iterations * more
    if iterations is not None:  # what the program counts in iterations is an amount of samples to us
        length = replace(length, iterations=max(1, math.ceil(iterations * known / batch_size)))
    return replace(group, iterations_per_epoch=max(1, math.ceil(samples / batch_size)), length=length)


def _known_epochs(group: BatchSizeGroup) -> KnownEpochs | None:
    profile, length = group.profiles[0], group.length
    if profile.effective_batch_size is None:
        return None
    between = length.epochs_interval or Interval.exactly(length.epochs)
    told = EpochsAnswer(
        rule="you",
        why=length.guessed or f"{length.epochs} epochs",
        value=length.epochs,
        low=between.low,
        high=between.high,
    )
    return KnownEpochs.of(told, profile.effective_batch_size, profile.gradient_noise)


def _whole_interval(answer: EpochsAnswer, whole: int) -> Interval | None:
    low, high = min(whole, max(1, math.floor(answer.low or 1))), max(whole, math.ceil(answer.high or 1))
    return Interval(value=whole, low=low, high=high) if low < high else None


def _iterations_per_epoch(profile: Profile) -> int:
    if profile.iterations_per_epoch:
        return profile.iterations_per_epoch
    if profile.samples and (batch_size := profile.effective_batch_size):
        return math.ceil(profile.samples / batch_size)
    if profile.planned_iterations:
        # It never speaks of epochs: all of it is one.
        return profile.planned_iterations
    raise UsageError(
        f"nobody knows how many iterations an epoch of {profile.program.name} has, because it uses no DataLoader "
        "that says so. Give --iterations-per-epoch."
    )
