"""A schedule: which job had which GPUs at what time, which nodes were paid for, and what it cost."""

from dataclasses import dataclass, replace

from trainfare.model.queue import Delays, Fleet, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRental:
    """One node from being rented until it is released or reclaimed."""

    node: int
    type: str
    start_seconds: float
    ready_seconds: float
    end_seconds: float
    reclaimed: bool = False

    def __post_init__(self) -> None:
        if not self.start_seconds <= self.end_seconds or self.ready_seconds < self.start_seconds:
            raise ValueError(
                f"node {self.node} is rented from {self.start_seconds} to {self.end_seconds} and ready at "
                f"{self.ready_seconds}: a rental must not end or be ready before it starts"
            )

    def relative_to(self, seconds: float) -> "NodeRental":
        """The same rental with its times counted from `seconds`."""
        return replace(
            self,
            start_seconds=self.start_seconds - seconds,
            ready_seconds=self.ready_seconds - seconds,
            end_seconds=self.end_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The GPUs of one job over one span of time, until it ends, migrates, is preempted or loses its node."""

    job: str
    nodes: tuple[int, ...]
    gpus: int
    """GPUs on each of these nodes."""
    start_seconds: float
    work_start_seconds: float
    """The time from which the job makes progress; before that the node boots or the job is restored."""
    end_seconds: float
    done_before: float
    done_after: float
    """The fraction that is done afterwards; if the node was reclaimed, without the work that was lost."""

    def __post_init__(self) -> None:
        if not self.start_seconds <= self.end_seconds or self.work_start_seconds < self.start_seconds:
            raise ValueError(
                f"job {self.job} has GPUs from {self.start_seconds} to {self.end_seconds} and works from "
                f"{self.work_start_seconds}: an allocation must not end or work before it starts"
            )

    def relative_to(self, seconds: float) -> "Allocation":
        """The same allocation with its times counted from `seconds`."""
        return replace(
            self,
            start_seconds=self.start_seconds - seconds,
            work_start_seconds=self.work_start_seconds - seconds,
            end_seconds=self.end_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The record of which job ran where and when, in a simulation or in a queue of real runs."""

    policy: str
    fleet: Fleet
    jobs: tuple[Job, ...]
    true_seconds: tuple[tuple[float, ...], ...]
    """The true time of each job on each slot, in the order of `jobs` and of `fleet.slots`."""
    delays: Delays
    rentals: tuple[NodeRental, ...]
    allocations: tuple[Allocation, ...]
    """In the order of their start."""
    ended_seconds: tuple[tuple[str, float], ...]
    """(job, moment), in the order of the ends."""
    decision_seconds: tuple[float, ...] = ()
    """The computing time of each decision."""
    gaps: tuple[float, ...] = ()
    """The certified gap, usd / bound - 1, of each decision that has a bound."""

    def relative_to(self, seconds: float) -> "Schedule":
        """The same schedule with its times counted from `seconds`; a job submitted before that is submitted at 0."""
        if not seconds:
            return self
        return replace(
            self,
            jobs=tuple(job.relative_to(seconds) for job in self.jobs),
            rentals=tuple(rental.relative_to(seconds) for rental in self.rentals),
            allocations=tuple(allocation.relative_to(seconds) for allocation in self.allocations),
            ended_seconds=tuple((name, moment - seconds) for name, moment in self.ended_seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOutcome:
    """The cost and the measures of one schedule."""

    policy: str
    jobs: int
    total_usd: float
    rental_usd: float
    tardiness_usd: float
    tardiness_seconds: float
    late_jobs: int
    makespan_seconds: float
    """The time from the first submission to the last end."""
    mean_completion_seconds: float
    """The mean time from a job's submission to its end."""
    p99_completion_seconds: float
    node_hours: float
    gpu_use: float
    """The fraction of the paid GPU time in which a job had the GPU and made progress."""
    migrations: int
    """The number of times that a job with progress continued on other nodes, or with another number of GPUs."""
    preemptions: int
    """The number of times that a job was stopped and had to wait."""
    reclaims: int
    decisions: int
    decision_p50_seconds: float
    decision_p99_seconds: float
    worst_gap: float | None
