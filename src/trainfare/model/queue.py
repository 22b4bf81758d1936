"""A queue of jobs on rented nodes, as the scheduler sees it: what there is, how things stand, what to do now.

Seconds count from the start of the queue. A Slot is what a job can be given: so many GPUs of a node of one type, or
several whole nodes of it. `Job.seconds` stands in the order of `Fleet.slots`: a queue is a table of jobs × slots.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from trainfare.model.checks import require_not_negative, require_positive, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A machine that a node can be: so many GPUs of a kind at a price."""

    name: str
    gpu: str
    """Types of one GPU differ in how many of them they have; a job is as fast on `g` GPUs of either."""
    gpus: int
    usd_per_hour: float
    reclaims_per_hour: float = 0.0
    """How often the provider takes a node back: 0 on demand, more on spot."""
    most: int | None = None
    """How many may be had at once, fewer than the fleet has nodes; None: as many as the fleet has."""

    def __post_init__(self) -> None:
        require_text(name=self.name, gpu=self.gpu)
        require_positive(gpus=self.gpus, usd_per_hour=self.usd_per_hour)
        require_not_negative(reclaims_per_hour=self.reclaims_per_hour, most=self.most)

    @property
    def usd_per_second(self) -> float:
        return self.usd_per_hour / 3600


@dataclass(frozen=True, slots=True)
class Slot:
    """What a job can be given: `gpus` GPUs on each of `nodes` nodes of one type. A gang (nodes > 1) has them whole."""

    type: str
    gpus: int
    nodes: int = 1

    def __str__(self) -> str:
        return f"{f'{self.nodes} × ' if self.nodes > 1 else ''}{self.type} ({self.gpus} GPU{'s' * (self.gpus > 1)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What may be rented: at most `nodes` nodes at once, each of one of the types."""

    nodes: int
    types: tuple[NodeType, ...]
    slots: tuple[Slot, ...]
    quotas: tuple[tuple[str, int], ...] = ()
    """(user, GPUs): the jobs of that user have at most so many at once."""

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes)
        for name, things in (("type", [t.name for t in self.types]), ("slot", list(self.slots))):
            if not things:
                raise ValueError(f"a fleet needs at least one {name}")
            if len(set(things)) < len(things):
                raise ValueError(f"a {name} stands twice in the fleet")
        gpus = {each.name: each.gpus for each in self.types}
        for slot in self.slots:
            if not 1 <= slot.gpus <= gpus.get(slot.type, 0) or slot.nodes < 1:
                raise ValueError(f"no node of this fleet has the slot {slot}")
            if slot.nodes > 1 and slot.gpus < gpus[slot.type]:
                raise ValueError(f"a job on several nodes takes them whole, not {slot}")
        for user, most in self.quotas:
            require_text(user=user)
            require_not_negative(quota=most)

    def type_of(self, name: str) -> NodeType:
        return next(each for each in self.types if each.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training to be done: since when, until when, what lateness costs, how long it is believed to take where.

    Late by s seconds it costs `late_usd_per_second`·s. A deadline of infinity is none.
    """

    id: str
    submitted_seconds: float
    deadline_seconds: float
    late_usd_per_second: float
    seconds: tuple[float, ...]
    """From beginning to end on each slot of the fleet, as predicted; infinity where it cannot run."""
    log_error: float = 0.0
    """Standard deviation of log(true/predicted): how sure the prediction is."""
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
            raise ValueError(f"job {self.id} must take a positive time everywhere, got {self.seconds}")
        if not any(math.isfinite(seconds) for seconds in self.seconds):
            raise ValueError(f"job {self.id} fits on no slot of the fleet")

    @property
    def shortest_seconds(self) -> float:
        return min(self.seconds)

    def since(self, seconds: float) -> "Job":
        """The same job with second 0 so much later; what was submitted before that, at 0."""
        return replace(
            self,
            submitted_seconds=max(0.0, self.submitted_seconds - seconds),
            deadline_seconds=self.deadline_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """What moving costs in time; all zero is how the papers count."""

    boot_seconds: float = 0.0
    """From renting a node until jobs work there; it is paid from the beginning."""
    checkpoint_seconds: float = 0.0
    """To save a job that is stopped on purpose. It is charged, with the restart, where the job goes on."""
    restart_seconds: float = 0.0
    """To go on from what was saved."""
    checkpoint_every_seconds: float = math.inf
    """How often a running job saves itself, which costs nothing: a reclaimed node loses the time since."""

    def __post_init__(self) -> None:
        require_not_negative(
            boot_seconds=self.boot_seconds,
            checkpoint_seconds=self.checkpoint_seconds,
            restart_seconds=self.restart_seconds,
        )
        if not self.checkpoint_every_seconds > 0:
            raise ValueError(f"checkpoint_every_seconds must be positive, got {self.checkpoint_every_seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that is rented now."""

    id: int
    type: str
    rented_seconds: float
    ready_seconds: float
    """It works from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A job that is submitted and not finished, and how far it is."""

    job: Job
    done: float = 0.0
    """The part of its work that is done, as its own progress shows."""
    expected_done: float = 0.0
    """The part that would be done by now had it taken its predicted time wherever it worked."""
    seen: tuple[tuple[str, float, float], ...] = ()
    """(GPU, done, expected_done): the same, apart for each kind of GPU that it worked on."""
    saved: float = 0.0
    """The part of `done` that a reclaimed node would leave."""
    nodes: tuple[int, ...] = ()
    """Where it runs now, by the ids of nodes; empty while it waits."""
    gpus: int = 0
    """On each of these nodes."""
    works_from_seconds: float = 0.0
    """Where it runs, it gets on from then: boot, checkpoint and restart are over."""
    stopped: bool = False
    """It waits after having run, and was stopped on purpose, not by a reclaimed node."""

    def __post_init__(self) -> None:
        if not 0 <= self.saved <= self.done < 1:
            raise ValueError(f"of {self.job.id} {self.done} is done and {self.saved} saved, which cannot be")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What has been seen of jobs arriving: from it follows what to expect."""

    jobs: int
    last_seconds: float
    mean_shortest_seconds: float
    """Over the last 400 jobs, each on its fastest slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How things stand at one moment: all that a policy may know."""

    now_seconds: float
    fleet: Fleet
    jobs: tuple[Queued, ...]
    """In the order of their submission."""
    nodes: tuple[Node, ...] = ()
    arrivals: Arrivals
    delays: Delays = Delays()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node from now on: its type, and the GPUs that each job has on it. Empty, it is kept warm and paid."""

    type: str
    jobs: tuple[tuple[str, int], ...]
    """(job id, GPUs); a gang's job stands on each of its nodes."""
    node: int | None = None
    """The rented node that this is; None: a new one is rented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now. Nodes that are not named are given back, jobs that are not named wait."""

    nodes: tuple[NodePlan, ...]
    usd: float | None = None
    """What the policy expects, by its own reckoning."""
    bound_usd: float | None = None
    """By the same reckoning, no decision costs less: `usd / bound_usd - 1` is a certified gap."""


def every_slot(types: tuple[NodeType, ...]) -> tuple[Slot, ...]:
    """One job on any number of a node's GPUs, type by type."""
    return tuple(Slot(each.name, gpus) for each in types for gpus in range(1, each.gpus + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A queue to be scheduled: the types and slots there are, all jobs that come, and what they truly take."""

    types: tuple[NodeType, ...]
    slots: tuple[Slot, ...]
    jobs: tuple[Job, ...]
    """In the order of their submission."""
    true_seconds: tuple[tuple[float, ...], ...] = ()
    """As `Job.seconds`, job by job; empty where every prediction is right."""
    quotas: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        self.fleet(1)
        if any(a.submitted_seconds > b.submitted_seconds for a, b in pairwise(self.jobs)):
            raise ValueError("jobs stand in the order of their submission")
        if len({job.id for job in self.jobs}) < len(self.jobs):
            raise ValueError("two jobs have one id")
        for times in (*(job.seconds for job in self.jobs), *self.true_seconds):
            if len(times) != len(self.slots):
                raise ValueError(f"a job has a time for each of {len(self.slots)} slots, got {len(times)}")
        if self.true_seconds and len(self.true_seconds) != len(self.jobs):
            raise ValueError(f"true times of {len(self.true_seconds)} jobs, and {len(self.jobs)} jobs")

    def since(self, seconds: float) -> "Instance":
        """The same queue with second 0 so much later."""
        return replace(self, jobs=tuple(job.since(seconds) for job in self.jobs)) if seconds else self

    def fleet(self, nodes: int) -> Fleet:
        return Fleet(nodes=nodes, types=self.types, slots=self.slots, quotas=self.quotas)
