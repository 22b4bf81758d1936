"""From what waits in the store to a queue that can be scheduled: times on each slot, and what nodes cost.

    t_jk    the estimate of submission j on slot k = (machine, g of its GPUs), without the boot of the machine: that is
            a node's, and in `Delays`. Infinite where it does not fit in memory, may not have so many GPUs, or nobody
            knows.
    σ_j     log(high / low) / (2 · 1.645), the median over its slots: the 90 % interval of a normal is so wide.
    c_v     the price of the machine in its cheapest region. Disks and sending results home are not in it.

On spot the times are those of a machine that stays: what reclaims cost follows from the schedule.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from statistics import median

from trainfare.app.queue.limits import DEAREST_USD_PER_SECOND, SHORTEST_SECONDS, require_nodes
from trainfare.app.queue.machines import named_offers, on_gpus, usual_offers
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import (
    TrainingLength,
    Workload,
    build_workload,
    gc_paused,
    interruptions_on,
    select_profiles,
)
from trainfare.catalog.terms import terms_of
from trainfare.errors import TrainfareError, UsageError
from trainfare.estimator.cost.bill import SETUP_SECONDS
from trainfare.estimator.cost.checkpoints import checkpoints_of, daly_interval
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.model.profile import Profile
from trainfare.model.queue import Delays, Instance, Job, NodeType, Slot, single_node_slots
from trainfare.model.submission import Submission
from trainfare.recommender.candidates import uses_several_gpus
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_history
from trainfare.units import SECONDS_PER_HOUR, plural

Z_90 = 1.645
"""Between -z and z lies 90 % of a normal."""
NO_LIMIT = 10**6
"""GPUs of one machine: more than any has."""
LONGEST_SECONDS = 3653 * 86400.0
"""Ten years, as for deadlines: on a place where it takes longer nobody lets it run."""
ALIKE = 1e-9
"""Times that differ by less are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedJob:
    """What waits and cannot be planned, and why."""

    submission: Submission
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What waits, and all that an estimate of it needs."""

    submission: Submission
    workload: Workload

    @property
    def length(self) -> TrainingLength:
        return self.workload.leading.length

    @property
    def leading(self) -> Profile:
        return self.workload.leading.profiles[0]

    @property
    def most_gpus(self) -> int:
        """Of one machine."""
        if self.submission.most_gpus is not None:
            return self.submission.most_gpus
        return NO_LIMIT if uses_several_gpus(self.workload.predictor.profiles) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """A queue of the store as the scheduler sees it, and what it was made of."""

    instance: Instance | None
    """None where nothing is left to be planned."""
    now: datetime
    zero_at: datetime
    """The moment that second 0 is: the first submission, so that policies can tell how often jobs come."""
    trainings: tuple[Training, ...]
    """In the order of `instance.jobs`, whose ids are those of the submissions."""
    estimates: Mapping[tuple[str, Slot], Estimate]
    """What the times were taken from: (submission, slot), without the boot."""
    offers: Mapping[str, Offer]
    """By the name of a node type."""
    delays: Delays
    unplanned: tuple[UnplannedJob, ...]
    damaged: tuple[str, ...]
    remarks: tuple[str, ...]

    def from_now(self) -> Instance:
        """As a queue to be scheduled on its own: second 0 is now, and every job is there."""
        if self.instance is None:
            whys = "; ".join(f"{left.submission.id}: {left.why}" for left in self.unplanned)
            raise UsageError(
                f"nothing in the queue can be planned: {whys}"
                if whys
                else "nothing waits in the store's queue: name another with --instance DIR, or submit a training "
                "first: trainfare schedule submit PROFILE --deadline 6h"
            )
        return self.instance.relative_to((self.now - self.zero_at).total_seconds())


@gc_paused()
def queue_table(
    *,
    machines: Sequence[str] = (),
    nodes: int | None = None,
    spot: bool = False,
    quotas: Sequence[tuple[str, int]] = (),
    settings: Settings | None = None,
) -> QueueTable:
    """What waits in the store. To the scheduler every job comes now, whenever it was submitted: nothing runs before.

    On the named machines; else on a handful that suit the jobs, for which it matters whether there are fewer `nodes`
    than jobs. `quotas` are GPUs that a user may have at once.
    """
    settings = settings or read_settings()
    now = datetime.now(UTC)
    if nodes is not None:
        require_nodes(nodes)
    quotas = tuple(dict(quotas).items())
    if any(gpus < 0 for _, gpus in quotas):
        raise UsageError("a quota is 0 GPUs or more.")
    with open_history(settings.store) as history:
        trainings, unplanned = _trainings(history, settings)
        damaged = history.damaged
    offers = _offers(trainings, machines, nodes=nodes, spot=spot, today=now.date())
    table = _Times.of(trainings, offers, dict(quotas))
    left, types = table.possible()
    runs = {each.submission.id for each in left}
    unplanned += [
        UnplannedJob(submission=each.submission, why=table.why_not(each))
        for each in trainings
        if each.submission.id not in runs
    ]
    zero = min((training.submission.submitted_at for training in left), default=now)
    return QueueTable(
        instance=_instance(table, left, types, quotas, now=now, zero=zero) if left else None,
        now=now,
        zero_at=zero,
        trainings=tuple(left),
        estimates=table.estimates,
        offers={name: table.offers[name] for name in types},
        delays=_delays(left, [table.offers[name] for name in types], settings),
        unplanned=tuple(unplanned),
        damaged=damaged,
        remarks=tuple(_remarks(left, types, table, named=bool(machines))),
    )


def _trainings(history: History, settings: Settings) -> tuple[list[Training], list[UnplannedJob]]:
    """Jobs of the same profiles lean on the same beliefs."""
    fares: dict[tuple[object, ...], Workload] = {}
    trainings, unplanned = [], []
    for submission in history.submissions.all():
        key = (submission.profile_ids, submission.iterations_per_epoch)
        try:
            _require_weight(submission)
            if key not in fares:
                fares[key] = _fare(history, submission, settings)
            trainings.append(Training(submission=submission, workload=_as_long(fares[key], submission.epochs)))
        except TrainfareError as error:
            unplanned.append(UnplannedJob(submission=submission, why=str(error).rstrip(".")))
    return trainings, unplanned


def _require_weight(submission: Submission) -> None:
    if submission.late_usd_per_hour > DEAREST_USD_PER_SECOND * SECONDS_PER_HOUR:
        raise UsageError(
            f"an hour late costs {submission.late_usd_per_hour:g} $, more than can be reckoned with: withdraw it, and "
            "submit it with less, --late-usd-per-hour."
        )


def _fare(history: History, submission: Submission, settings: Settings) -> Workload:
    return build_workload(
        select_profiles(history, submission.profile_ids),
        decide=partial(decide_epochs, submission.epochs),
        iterations_per_epoch=submission.iterations_per_epoch,
        overheads=Overheads(boot_seconds=0.0),
        settings=settings,
    )


def _as_long(workload: Workload, epochs: int | None) -> Workload:
    groups = (
        replace(group, length=decide_epochs(epochs, group.profiles[0], group.iterations_per_epoch))
        for group in workload.groups
    )
    return replace(workload, groups=tuple(groups))


def _offers(
    trainings: Sequence[Training], machines: Sequence[str], *, nodes: int | None, spot: bool, today: date
) -> tuple[Offer, ...]:
    if not trainings:
        return ()
    if machines:
        return named_offers(trainings[0].workload.catalog, machines, spot=spot, today=today)
    # Of jobs that lean on the same profiles for as long, one stands for all.
    different = {(id(t.workload.predictor), t.length.epochs, t.most_gpus): t for t in trainings}
    return usual_offers(
        [(training.workload, training.most_gpus) for training in different.values()],
        crowded=nodes is not None and nodes < len(trainings),
        spot=spot,
        today=today,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """The estimate of every training on every slot of every machine, where there is one."""

    trainings: Sequence[Training]
    offers: Mapping[str, Offer]
    estimates: dict[tuple[str, Slot], Estimate]
    quotas: Mapping[str, int]
    too_large: set[str] = field(default_factory=set)
    """Submissions that do not fit in the memory of some machine."""
    too_long: set[str] = field(default_factory=set)
    """Submissions that would take more than ten years somewhere."""

    @classmethod
    def of(cls, trainings: Sequence[Training], offers: Iterable[Offer], quotas: Mapping[str, int]) -> "_Times":
        named = {_type_name(offer): offer for offer in offers}
        table = cls(trainings=trainings, offers=named, estimates={}, quotas=quotas)
        for training in trainings:
            table._estimate(training)
        return table

    def possible(self) -> tuple[list[Training], list[str]]:
        """Trainings that can run somewhere, and the names of the types that one of them can run on."""
        runs = {submission for submission, _ in self.estimates}
        used = {slot.type for _, slot in self.estimates}
        return [t for t in self.trainings if t.submission.id in runs], [name for name in self.offers if name in used]

    def seconds(self, training: Training, slot: Slot) -> float:
        found = self.estimates.get((training.submission.id, slot))
        return math.inf if found is None else max(found.seconds.value, SHORTEST_SECONDS)

    def why_not(self, training: Training) -> str:
        submission, names = training.submission, ", ".join(self.offers)
        if self.most_gpus(training) < 1:
            return f"{submission.user} may have no GPU: --quota {submission.user}=N with N of at least 1"
        if submission.id in self.too_long:
            epochs = "" if submission.epochs is None else f" for {submission.epochs:,} epochs".replace(",", " ")
            return (
                f"it would take more than ten years{epochs}: submit it with fewer, or name faster machines, --machine"
            )
        if submission.id in self.too_large:
            return f"it does not fit in the memory of {names}: name a machine with more, --machine"
        if not self.offers:
            return "no machine that can be rented suits it: name one, --machine"
        return (
            f"its profile {training.leading.id} says nothing of {names}: take one there, "
            f"trainfare profile --on {next(iter(self.offers)).removesuffix(SPOT)} -- …"
        )

    def most_gpus(self, training: Training) -> int:
        return min(training.most_gpus, self.quotas.get(training.submission.user, NO_LIMIT))

    def _estimate(self, training: Training) -> None:
        name, size = training.submission.id, training.leading.effective_batch_size
        wanted = {}
        for kind, offer in self.offers.items():
            most = min(self.most_gpus(training), max(1, offer.vm_type.gpus))
            steady = replace(offer, market="on_demand") if offer.market == "spot" else offer
            for candidate in on_gpus(steady, size, range(1, most + 1)):
                wanted[id(candidate)] = candidate, Slot(kind, max(1, candidate.working_gpus_per_node))
        for estimate in training.workload.totals([candidate for candidate, _ in wanted.values()]):
            if estimate.fits is False:
                self.too_large.add(name)
            elif not estimate.seconds.value <= LONGEST_SECONDS:
                self.too_long.add(name)
            else:
                self.estimates[name, wanted[id(estimate.candidate)][1]] = estimate


SPOT = " spot"


def _type_name(offer: Offer) -> str:
    return offer.vm_type.key + (SPOT if offer.market == "spot" else "")


def _instance(
    table: _Times,
    trainings: Sequence[Training],
    names: Sequence[str],
    quotas: Sequence[tuple[str, int]],
    *,
    now: datetime,
    zero: datetime,
) -> Instance:
    types = _node_types(table, trainings, names)
    used = {slot for _, slot in table.estimates}
    slots = tuple(slot for slot in single_node_slots(types) if slot in used)
    jobs = tuple(_job(table, training, slots, ready=(now - zero).total_seconds(), zero=zero) for training in trainings)
    return Instance(types=types, slots=slots, jobs=jobs, quotas=tuple(quotas))


def _node_types(table: _Times, trainings: Sequence[Training], names: Sequence[str]) -> tuple[NodeType, ...]:
    """Types of one GPU are called so only where every job is as fast on either: it is not where one of them was
    measured and another reckoned, or where a host of the user's own needs no setup."""
    groups: dict[str, list[tuple[str, list[tuple[float, ...]]]]] = {}
    types = []
    for name in names:
        offer = table.offers[name]
        vm_type = offer.vm_type
        gpus = max(1, vm_type.gpus)
        times = [tuple(table.seconds(t, Slot(name, g)) for g in range(1, gpus + 1)) for t in trainings]
        gpu = vm_type.gpu.name if vm_type.gpu else vm_type.key
        known = groups.setdefault(gpu, [])
        label = next((label for label, other in known if _alike(times, other)), None)
        if label is None:
            label = gpu if not known else f"{gpu} of {vm_type.key}"
            known.append((label, times))
        types.append(
            NodeType(
                name=name,
                gpu=label,
                gpus=gpus,
                usd_per_hour=offer.usd_per_hour,
                reclaims_per_hour=interruptions_on(offer).per_hour.value if offer.market == "spot" else 0.0,
                max_nodes=1 if offer.market == "own" else None,
            )
        )
    return tuple(types)


def _alike(some: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> bool:
    """As far as both have so many GPUs."""
    return all(
        a == b or math.isclose(a, b, rel_tol=ALIKE)
        for some_job, other_job in zip(some, others, strict=True)
        for a, b in zip(some_job, other_job, strict=False)
    )


def _job(table: _Times, training: Training, slots: Sequence[Slot], *, ready: float, zero: datetime) -> Job:
    submission = training.submission
    deadline = submission.deadline_at
    known = [table.estimates[submission.id, slot] for slot in slots if (submission.id, slot) in table.estimates]
    return Job(
        id=submission.id,
        submitted_seconds=ready,
        deadline_seconds=math.inf if deadline is None else (deadline - zero).total_seconds(),
        late_usd_per_second=submission.late_usd_per_hour / SECONDS_PER_HOUR,
        seconds=tuple(table.seconds(training, slot) for slot in slots),
        log_error=median(log_error(estimate.seconds) for estimate in known),
        user=submission.user,
    )


def log_error(seconds: Interval) -> float:
    """The standard deviation of the logarithm that has this 90 % interval; by its upper half where the lower reaches
    down to nothing."""
    if seconds.low > 0:
        return math.log(seconds.high / seconds.low) / (2 * Z_90)
    return math.log(seconds.high / seconds.value) / Z_90


def _delays(trainings: Sequence[Training], offers: Sequence[Offer], settings: Settings) -> Delays:
    """Of all nodes and jobs alike, so of the slowest: boot as the provider's terms have it, then setup and the
    program's own start; checkpoints as its profile shows them, on spot as often as loses least (Daly 2006)."""
    rented = [offer for offer in offers if offer.market != "own"]
    if not trainings:
        return Delays()
    boot, setup = settings.boot_seconds, settings.setup_seconds
    if boot is None:
        boot = max((terms_of(offer).boot_seconds.value for offer in rented), default=0.0)
    if setup is None:
        setup = SETUP_SECONDS.value
    writing = max(
        checkpoints_of(t.leading, iterations_per_epoch=t.workload.leading.iterations_per_epoch).seconds.value
        for t in trainings
    )
    reclaims = [interruptions_on(offer).per_hour.value for offer in rented if offer.market == "spot"]
    return Delays(
        boot_seconds=boot if rented else 0.0,
        checkpoint_seconds=writing,
        restart_seconds=(setup if rented else 0.0) + max(t.leading.init_seconds or 0.0 for t in trainings),
        checkpoint_every_seconds=daly_interval(writing, per_second=max(reclaims, default=0.0) / SECONDS_PER_HOUR),
    )


def _remarks(trainings: Sequence[Training], types: Sequence[str], table: _Times, *, named: bool) -> Iterator[str]:
    if not trainings:
        return
    if not named:
        yield (
            f"no machine was named: planned with {plural(len(types), 'type')} from the fronts of time and cost of the "
            "jobs. --machine names others"
        )
    unused = [name for name in table.offers if name not in types]
    if named and unused:
        yield f"no job can run on {', '.join(unused)}"
    alone = [t.submission.id for t in trainings if t.most_gpus == 1 and t.submission.most_gpus is None]
    if alone and any(table.offers[name].vm_type.gpus > 1 for name in types):
        yield f"one GPU each, never seen on several: {', '.join(alone)}. schedule submit --gpus N says otherwise"
    guessed: dict[str, list[str]] = {}
    for training in trainings:
        if training.length.guessed is not None:
            guessed.setdefault(training.length.guessed, []).append(training.submission.id)
    for why, names in guessed.items():
        yield f"{', '.join(names)}: {why}"
