"""The table of jobs × slots that is planned: predicted times from estimates, and node types from offers.

    t_jk    the estimate of submission j on slot k = (machine, g of its GPUs), without the boot of the machine, which
            belongs to the node (`Delays`). Infinite where the training does not fit in memory, cannot use that many
            GPUs, or has no estimate.
    σ_j     log(high / low) / (2 · 1.645), the median over its slots: the width of the 90 % interval of a normal.
    c_v     the price of the machine in its cheapest region, without disks and the transfer of results.

On spot the times are those of a machine that is not reclaimed: the cost of reclaims follows from the schedule.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.queue import Delays, Instance, Job, NodeType, Slot, single_node_slots
from trainfare.model.reason import Reason, Value
from trainfare.model.submission import Submission
from trainfare.scheduler.limits import MIN_SECONDS
from trainfare.units import SECONDS_PER_HOUR

Z_90 = 1.645
"""90 % of a normal distribution lie between -z and z."""
LONGEST_TRAINING_SECONDS = 3653 * 86400.0
"""Ten years, as for deadlines: slots on which a training takes longer are not used."""
FREE_USD_PER_HOUR = 1e-4
"""The price of a machine that costs nothing: policies compare costs as ratios, and its hours are worth saving too."""
SAME_TIME_TOLERANCE = 1e-9
"""Times whose relative difference is smaller are equal."""
SPOT = " spot"
"""The end of the name of a node type on the spot market."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedJob:
    """A submission that cannot be planned, and the reason."""

    submission: Submission
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTraining:
    """A submission with what its leading profile says about it."""

    submission: Submission
    profile_id: str
    batch_size: int | None
    epochs: int
    max_gpus: int | None
    """The most GPUs of one machine that it can use; None: all."""
    epochs_remark: Reason | None = None
    """The origin of the number of epochs, if neither the user nor the program states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOption:
    """An offer that nodes of the queue can be rented from."""

    offer: Offer
    reclaims_per_hour: float

    @property
    def name(self) -> str:
        return self.offer.vm_type.key + (SPOT if self.offer.market == "spot" else "")

    @property
    def gpus(self) -> int:
        """The number of GPUs; a machine without one counts as a machine with one."""
        return max(1, self.offer.vm_type.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRemark:
    """An assumption behind a plan, and the jobs that it applies to; no jobs: all of them."""

    reason: Reason
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """The stored queue as the scheduler sees it, and the data that it was made from."""

    instance: Instance | None
    """The table; None if there is nothing to plan."""
    now: datetime
    origin_at: datetime
    """The moment of second 0: the first submission, so that policies can estimate the rate of arrivals."""
    trainings: tuple[SubmittedTraining, ...]
    """In the order of `instance.jobs`, whose ids are those of the submissions."""
    estimates: Mapping[tuple[str, Slot], Estimate]
    """The estimates behind the times: (submission, slot) → estimate without the boot."""
    offers: Mapping[str, Offer]
    """The offer of each node type, by its name."""
    delays: Delays
    unplanned: tuple[UnplannedJob, ...]
    damaged: tuple[str, ...]
    """A sentence for each damaged submission of the store."""
    remarks: tuple[QueueRemark, ...]


def gpu_candidates(offer: Offer, batch_size: int | None, gpus: Iterable[int]) -> Iterator[Candidate]:
    """The candidates of one machine that use these numbers of its GPUs, at most one GPU per sample of the batch."""
    for used in gpus:
        if batch_size is None or used <= batch_size:
            yield Candidate(offer=offer, nodes=1, batch_size=batch_size, gpus_used=used if offer.vm_type.gpus else None)


EstimateCandidates = Callable[[SubmittedTraining, Sequence[Candidate]], Iterable[Estimate]]


class EstimateTable:
    """The estimate of every training on every slot of every machine, where there is one."""

    def __init__(
        self,
        trainings: Sequence[SubmittedTraining],
        machines: Iterable[MachineOption],
        quotas: Mapping[str, int],
        estimate: EstimateCandidates,
    ) -> None:
        self.trainings = tuple(trainings)
        self.machines = {machine.name: machine for machine in machines}
        self.estimates: dict[tuple[str, Slot], Estimate] = {}
        self._quotas = quotas
        self._out_of_memory: set[str] = set()
        self._too_long: set[str] = set()
        for training in trainings:
            self._add(training, estimate)

    def plannable(self) -> list[SubmittedTraining]:
        """The trainings that can run on some slot."""
        ids = {submission for submission, _ in self.estimates}
        return [training for training in self.trainings if training.submission.id in ids]

    def unplanned(self) -> list[UnplannedJob]:
        """The trainings that can run on no slot, with the reasons."""
        ids = {submission for submission, _ in self.estimates}
        return [
            UnplannedJob(submission=training.submission, reason=self._why_unplanned(training))
            for training in self.trainings
            if training.submission.id not in ids
        ]

    def used_types(self) -> list[str]:
        """The names of the machines on which at least one training can run."""
        used = {slot.type for _, slot in self.estimates}
        return [name for name in self.machines if name in used]

    def seconds(self, training: SubmittedTraining, slot: Slot) -> float:
        found = self.estimates.get((training.submission.id, slot))
        return math.inf if found is None else max(found.seconds.value, MIN_SECONDS)

    def _add(self, training: SubmittedTraining, estimate: EstimateCandidates) -> None:
        name = training.submission.id
        slots: dict[int, Slot] = {}
        candidates: list[Candidate] = []
        for machine in self.machines.values():
            offer = machine.offer
            on_demand = replace(offer, market="on_demand") if offer.market == "spot" else offer
            max_gpus = min(self._max_gpus(training), machine.gpus)
            for candidate in gpu_candidates(on_demand, training.batch_size, range(1, max_gpus + 1)):
                candidates.append(candidate)
                slots[id(candidate)] = Slot(machine.name, max(1, candidate.working_gpus_per_node))
        for found in estimate(training, candidates):
            if found.fits is False:
                self._out_of_memory.add(name)
            elif not found.seconds.value <= LONGEST_TRAINING_SECONDS:
                self._too_long.add(name)
            else:
                self.estimates[name, slots[id(found.candidate)]] = found

    def _max_gpus(self, training: SubmittedTraining) -> int:
        limits = (training.max_gpus, self._quotas.get(training.submission.user))
        largest = max((machine.gpus for machine in self.machines.values()), default=1)
        return min(limit for limit in (*limits, largest) if limit is not None)

    def _why_unplanned(self, training: SubmittedTraining) -> Reason:
        submission, machines = training.submission, tuple(self.machines)
        if self._quotas.get(submission.user, 1) < 1:
            return Reason(topic="why", code="quota_of_zero", values={"user": submission.user})
        if submission.id in self._too_long:
            return Reason(topic="why", code="takes_too_long", values={"epochs": submission.epochs})
        if submission.id in self._out_of_memory:
            return Reason(topic="why", code="out_of_memory", values={"machines": machines})
        if not machines:
            return Reason(topic="why", code="no_suitable_machine")
        return Reason(topic="why", code="no_estimate", values={"profile": training.profile_id, "machines": machines})


def queue_instance(
    table: EstimateTable, quotas: Sequence[tuple[str, int]], *, now: datetime, origin_at: datetime
) -> Instance:
    """The queue of all plannable trainings. To the scheduler every job is submitted now: nothing runs before."""
    trainings = table.plannable()
    types = _node_types(table, trainings)
    used = {slot for _, slot in table.estimates}
    slots = tuple(slot for slot in single_node_slots(types) if slot in used)
    jobs = tuple(_job(table, training, slots, now=now, origin_at=origin_at) for training in trainings)
    return Instance(types=types, slots=slots, jobs=jobs, quotas=tuple(quotas))


def _node_types(table: EstimateTable, trainings: Sequence[SubmittedTraining]) -> tuple[NodeType, ...]:
    """The node types of the machines.

    Types share a GPU label only where every job is equally fast on both: it is not where one of them was measured and
    the other computed, or where a machine that the user owns needs no setup.
    """
    labels: dict[str, list[tuple[str, list[tuple[float, ...]]]]] = {}
    types = []
    for name in table.used_types():
        machine = table.machines[name]
        offer, vm_type = machine.offer, machine.offer.vm_type
        times = [tuple(table.seconds(t, Slot(name, g)) for g in range(1, machine.gpus + 1)) for t in trainings]
        gpu = vm_type.gpu.name if vm_type.gpu else vm_type.key
        known = labels.setdefault(gpu, [])
        label = next((label for label, other in known if _equal_times(times, other)), None)
        if label is None:
            label = gpu if not known else f"{gpu} of {vm_type.key}"
            known.append((label, times))
        types.append(
            NodeType(
                name=name,
                gpu=label,
                gpus=machine.gpus,
                usd_per_hour=offer.usd_per_hour or FREE_USD_PER_HOUR,
                reclaims_per_hour=machine.reclaims_per_hour if offer.market == "spot" else 0.0,
                max_nodes=1 if offer.market == "own" else None,
            )
        )
    return tuple(types)


def _equal_times(some: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> bool:
    """True if the times are equal for every number of GPUs that both machines have."""
    return all(
        a == b or math.isclose(a, b, rel_tol=SAME_TIME_TOLERANCE)
        for some_job, other_job in zip(some, others, strict=True)
        for a, b in zip(some_job, other_job, strict=False)
    )


def _job(
    table: EstimateTable, training: SubmittedTraining, slots: Sequence[Slot], *, now: datetime, origin_at: datetime
) -> Job:
    submission = training.submission
    deadline = submission.deadline_at
    known = [table.estimates[submission.id, slot] for slot in slots if (submission.id, slot) in table.estimates]
    return Job(
        id=submission.id,
        submitted_seconds=(now - origin_at).total_seconds(),
        deadline_seconds=math.inf if deadline is None else (deadline - origin_at).total_seconds(),
        late_usd_per_second=submission.late_usd_per_hour / SECONDS_PER_HOUR,
        seconds=tuple(table.seconds(training, slot) for slot in slots),
        log_error=median(log_error(estimate.seconds) for estimate in known),
        user=submission.user,
    )


def log_error(seconds: Interval) -> float:
    """The standard deviation of the logarithm with this 90 % interval; from its upper half if the lower end is 0."""
    if seconds.low > 0:
        return math.log(seconds.high / seconds.low) / (2 * Z_90)
    return math.log(seconds.high / seconds.value) / Z_90


def table_remarks(table: EstimateTable, *, machines_named: bool) -> Iterator[QueueRemark]:
    """The assumptions behind the table: the choice of machines, single GPUs, and numbers of epochs."""
    trainings, types = table.plannable(), table.used_types()
    if not trainings:
        return
    unused = tuple(name for name in table.machines if name not in types)
    if not machines_named:
        yield _remark("machines_chosen", {"types": len(types)})
    elif unused:
        yield _remark("machines_unused", {"machines": unused})
    single = tuple(t.submission.id for t in trainings if t.max_gpus == 1 and t.submission.most_gpus is None)
    if single and any(table.machines[name].offer.vm_type.gpus > 1 for name in types):
        yield _remark("single_gpu_jobs", {"jobs": single})
    by_remark: list[tuple[Reason, list[str]]] = []
    for training in trainings:
        if training.epochs_remark is not None:
            jobs = next((jobs for remark, jobs in by_remark if remark == training.epochs_remark), None)
            if jobs is None:
                by_remark.append((training.epochs_remark, jobs := []))
            jobs.append(training.submission.id)
    for remark, jobs in by_remark:
        yield QueueRemark(reason=remark, jobs=tuple(jobs))


def _remark(code: str, values: Mapping[str, Value]) -> QueueRemark:
    return QueueRemark(reason=Reason(topic="assumptions", code=code, values=values))
