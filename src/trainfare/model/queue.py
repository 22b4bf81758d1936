"""The queue as the scheduler sees it: node types, slots, jobs, the state at one moment, and a decision.

Seconds count from the start of the queue. A slot is an allocation that a job can get: some GPUs of one node, or several
complete nodes of one type. `Job.seconds` is in the order of `Fleet.slots`, so a queue is a table of jobs × slots.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.reason import Reason
from trainfare.units import plural

CALENDAR_SECONDS = 1e5
"""A queue whose first job is submitted more than about a day after second 0 counts from another origin, such as Unix
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A machine type that nodes can have: a number of GPUs of one kind at a price."""

    name: str
    gpu: str
    """Types with the same `gpu` differ only in how many they have; a job is equally fast on `g` GPUs of either."""
    gpus: int
    usd_per_hour: float
    reclaims_per_hour: float = 0.0
    """The rate at which the provider reclaims a node: 0 on demand, more on spot."""
    max_nodes: int | None = None
    """The most nodes of this type at once; None: as many as the fleet allows."""

    def __post_init__(self) -> None:
        require_text(name=self.name, gpu=self.gpu)
        require_positive(gpus=self.gpus, usd_per_hour=self.usd_per_hour)
        require_not_negative(reclaims_per_hour=self.reclaims_per_hour, max_nodes=self.max_nodes)

    @property
    def usd_per_second(self) -> float:
        return self.usd_per_hour / 3600


@dataclass(frozen=True, slots=True)
class Slot:
    """An allocation that a job can get: `gpus` GPUs on each of `nodes` nodes of one type. A gang (nodes > 1) takes
    complete nodes."""

    type: str
    gpus: int
    nodes: int = 1

    def __str__(self) -> str:
        return f"{f'{self.nodes} × ' if self.nodes > 1 else ''}{self.type} ({plural(self.gpus, 'GPU')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The nodes that can be rented: at most `nodes` at once, each of one of the types."""

    nodes: int
    types: tuple[NodeType, ...]
    slots: tuple[Slot, ...]
    quotas: tuple[tuple[str, int], ...] = ()
    """(user, GPUs): the most GPUs that the jobs of that user have at once."""

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes)
        for name, things in (("type", [t.name for t in self.types]), ("slot", list(self.slots))):
            if not things:
                raise ValueError(f"a fleet needs at least one {name}")
            if len(set(things)) < len(things):
                raise ValueError(f"a {name} is listed twice in the fleet")
        gpus = {each.name: each.gpus for each in self.types}
        for slot in self.slots:
            if not 1 <= slot.gpus <= gpus.get(slot.type, 0) or slot.nodes < 1:
                raise ValueError(f"no node of this fleet has the slot {slot}")
            if slot.nodes > 1 and slot.gpus < gpus[slot.type]:
                raise ValueError(f"a job on several nodes takes complete nodes, not {slot}")
        for user, gpu_limit in self.quotas:
            require_text(user=user)
            require_not_negative(quota=gpu_limit)

    def type_of(self, name: str) -> NodeType:
        return next(each for each in self.types if each.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training to schedule: its submission, its deadline, the price of lateness and its predicted time on each slot.

    A job that ends s seconds late costs `late_usd_per_second`·s. A deadline of infinity means no deadline.
    """

    id: str
    submitted_seconds: float
    deadline_seconds: float
    late_usd_per_second: float
    seconds: tuple[float, ...]
    """The predicted time of the complete job on each slot of the fleet; infinity where it cannot run."""
    log_error: float = 0.0
    """The standard deviation of log(true/predicted): how uncertain the prediction is."""
    user: str = ""

    def __post_init__(self) -> None:
        require_text(id=self.id)
        require_not_negative(
            submitted_seconds=self.submitted_seconds,
            late_usd_per_second=self.late_usd_per_second,
            log_error=self.log_error,
        )
        if math.isnan(self.deadline_seconds) or self.deadline_seconds == -math.inf:
            raise ValueError(f"the deadline of job {self.id} must be a number, got {self.deadline_seconds}")
        if not all(seconds > 0 for seconds in self.seconds):  # NaN fails too
            raise ValueError(f"job {self.id} must take a positive time on every slot, got {self.seconds}")
        if not any(math.isfinite(seconds) for seconds in self.seconds):
            raise ValueError(f"job {self.id} fits on no slot of the fleet")

    @property
    def shortest_seconds(self) -> float:
        return min(self.seconds)

    def relative_to(self, seconds: float) -> "Job":
        """The same job with its times counted from `seconds`; a job submitted before that is submitted at 0."""
        return replace(
            self,
            submitted_seconds=max(0.0, self.submitted_seconds - seconds),
            deadline_seconds=self.deadline_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedJob:
    """A job that is left out of a schedule, and the reason."""

    job: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The time that boots and migrations take; all zero is the accounting of the papers."""

    boot_seconds: float = 0.0
    """The time from renting a node until jobs can run there; the node is paid from the beginning."""
    checkpoint_seconds: float = 0.0
    """To save a job that is preempted or migrated. It is charged, with the restart, where the job continues."""
    restart_seconds: float = 0.0
    """To continue from a checkpoint."""
    checkpoint_every_seconds: float = math.inf
    """The interval at which a running job saves itself, at no cost: a reclaim loses the work since the last
    checkpoint."""

    def __post_init__(self) -> None:
        require_not_negative(
            boot_seconds=self.boot_seconds,
            checkpoint_seconds=self.checkpoint_seconds,
            restart_seconds=self.restart_seconds,
        )
        if not self.checkpoint_every_seconds > 0:
            raise ValueError(f"checkpoint_every_seconds must be positive, got {self.checkpoint_every_seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedNode:
    """A node that is rented now."""

    id: int
    type: str
    rented_seconds: float
    ready_seconds: float
    """The time at which its boot ends; jobs can run from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that is submitted and not finished, with its progress and its nodes."""

    job: Job
    done: float = 0.0
    """The fraction of its work that is done, as observed."""
    expected_done: float = 0.0
    """The fraction that would be done by now if every prediction had been right."""
    progress_by_gpu: tuple[tuple[str, float, float], ...] = ()
    """(GPU, done, expected_done): the same two fractions for each kind of GPU that it has run on."""
    saved: float = 0.0
    """The part of `done` that would remain if its node were reclaimed now."""
    nodes: tuple[int, ...] = ()
    """The ids of the nodes where it runs now; empty while it waits."""
    gpus: int = 0
    """GPUs on each of these nodes."""
    work_start_seconds: float = 0.0
    """The time from which it makes progress where it runs: boot, checkpoint and restart are over."""
    preempted: bool = False
    """It waits after having run because the scheduler stopped it, not because a node was reclaimed."""

    def __post_init__(self) -> None:
        if not 0 <= self.saved <= self.done < 1:
            raise ValueError(
                f"job {self.job.id} needs 0 <= saved <= done < 1, got saved {self.saved} and done {self.done}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalStatistics:
    """The submissions so far, from which policies estimate future ones."""

    jobs: int
    last_seconds: float
    mean_shortest_seconds: float
    """The mean over the last 400 jobs of the time on each job's fastest slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The queue at one moment: everything that a policy can know."""

    now_seconds: float
    fleet: Fleet
    jobs: tuple[QueuedJob, ...]
    """In the order of their submission."""
    nodes: tuple[RentedNode, ...] = ()
    arrivals: ArrivalStatistics
    delays: Delays = Delays()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node from now on: its type, and the GPUs that each job has on it. A node without jobs stays rented."""

    type: str
    jobs: tuple[tuple[str, int], ...]
    """(job id, GPUs); the job of a gang is listed on each of its nodes."""
    node: int | None = None
    """The id of the rented node; None: a new node is rented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision of a policy. Nodes that are not listed are released, jobs that are not listed wait."""

    nodes: tuple[NodePlan, ...]
    usd: float | None = None
    """The cost that the policy itself expects."""
    bound_usd: float | None = None
    """In the policy's own cost model no decision costs less: `usd / bound_usd - 1` is a certified gap."""


def single_node_slots(types: Iterable[NodeType]) -> tuple[Slot, ...]:
    """A slot for every number of GPUs of one node, type by type."""
    return tuple(Slot(each.name, gpus) for each in types for gpus in range(1, each.gpus + 1))


def start_seconds(jobs: Iterable[Job]) -> float:
    """The start of a queue on its own clock: 0, or the first submission if the queue counts from another origin.

    Policies estimate the rate of arrivals from the time since the start.
    """
    first = min((job.submitted_seconds for job in jobs), default=0.0)
    return first if first > CALENDAR_SECONDS else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A queue to schedule: the node types and slots, all jobs that will be submitted, and their true times."""

    types: tuple[NodeType, ...]
    slots: tuple[Slot, ...]
    jobs: tuple[Job, ...]
    """In the order of their submission."""
    true_seconds: tuple[tuple[float, ...], ...] = ()
    """Like `Job.seconds`, job by job; empty where every prediction is right."""
    quotas: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        self.fleet(1)
        if any(a.submitted_seconds > b.submitted_seconds for a, b in pairwise(self.jobs)):
            raise ValueError("jobs must be in the order of their submission")
        if len({job.id for job in self.jobs}) < len(self.jobs):
            raise ValueError("two jobs have the same id")
        for times in (*(job.seconds for job in self.jobs), *self.true_seconds):
            if len(times) != len(self.slots):
                raise ValueError(f"a job needs a time for each of the {len(self.slots)} slots, got {len(times)}")
        if self.true_seconds and len(self.true_seconds) != len(self.jobs):
            raise ValueError(f"there are true times of {len(self.true_seconds)} jobs, but {len(self.jobs)} jobs")

    @property
    def actual_seconds(self) -> tuple[tuple[float, ...], ...]:
        """The true times of every job on every slot: `true_seconds`, or the predictions where these are right."""
        return self.true_seconds or tuple(job.seconds for job in self.jobs)

    def relative_to(self, seconds: float) -> "Instance":
        """The same queue with its times counted from `seconds`."""
        return replace(self, jobs=tuple(job.relative_to(seconds) for job in self.jobs)) if seconds else self

    def fleet(self, nodes: int) -> Fleet:
        return Fleet(nodes=nodes, types=self.types, slots=self.slots, quotas=self.quotas)
