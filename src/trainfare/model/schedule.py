"""What was done with a queue: which job had which GPUs when, which nodes were paid for how long."""

from dataclasses import dataclass, replace

from trainfare.model.queue import Delays, Fleet, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """One node from being rented to being given back, or taken back."""

    node: int
    type: str
    start_seconds: float
    ready_seconds: float
    end_seconds: float
    reclaimed: bool = False

    def __post_init__(self) -> None:
        if not self.start_seconds <= self.end_seconds or self.ready_seconds < self.start_seconds:
            raise ValueError(f"node {self.node} is rented from {self.start_seconds} to {self.end_seconds}")

    def since(self, seconds: float) -> "Rental":
        return replace(
            self,
            start_seconds=self.start_seconds - seconds,
            ready_seconds=self.ready_seconds - seconds,
            end_seconds=self.end_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One job at one place: from being put there to ending, being moved, being stopped or losing its node."""

    job: str
    nodes: tuple[int, ...]
    gpus: int
    """On each of these nodes."""
    start_seconds: float
    works_from_seconds: float
    """Before it, the node boots, and the job is restored."""
    end_seconds: float
    done_before: float
    done_after: float
    """Less than what it had reached, where a reclaimed node lost the rest."""

    def __post_init__(self) -> None:
        if not self.start_seconds <= self.end_seconds or self.works_from_seconds < self.start_seconds:
            raise ValueError(f"{self.job} runs from {self.start_seconds} to {self.end_seconds}")

    def since(self, seconds: float) -> "Stretch":
        return replace(
            self,
            start_seconds=self.start_seconds - seconds,
            works_from_seconds=self.works_from_seconds - seconds,
            end_seconds=self.end_seconds - seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which job ran where and when, as a simulation or a queue of real runs left it."""

    policy: str
    fleet: Fleet
    jobs: tuple[Job, ...]
    true_seconds: tuple[tuple[float, ...], ...]
    """What each job truly takes on each slot, in the order of `jobs` and of `fleet.slots`."""
    delays: Delays
    rentals: tuple[Rental, ...]
    stretches: tuple[Stretch, ...]
    """In the order of their start."""
    ended_seconds: tuple[tuple[str, float], ...]
    """(job, moment), in the order of their ends."""
    decision_seconds: tuple[float, ...] = ()
    """How long each decision took to make."""
    gaps: tuple[float, ...] = ()
    """What was certified of each decision that has a bound: usd / bound - 1."""

    def since(self, seconds: float) -> "Schedule":
        """The same schedule with second 0 so much later; what was submitted before that, at 0."""
        if not seconds:
            return self
        return replace(
            self,
            jobs=tuple(job.since(seconds) for job in self.jobs),
            rentals=tuple(rental.since(seconds) for rental in self.rentals),
            stretches=tuple(stretch.since(seconds) for stretch in self.stretches),
            ended_seconds=tuple((name, moment - seconds) for name, moment in self.ended_seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a schedule came to."""

    policy: str
    jobs: int
    total_usd: float
    rental_usd: float
    tardiness_usd: float
    tardiness_seconds: float
    late_jobs: int
    makespan_seconds: float
    """From the first submission to the last end."""
    mean_completion_seconds: float
    """From submission to end."""
    p99_completion_seconds: float
    node_hours: float
    gpu_use: float
    """The part of the GPU time paid for in which a job had the GPU and got on."""
    moves: int
    """How often a job that had begun went on elsewhere, or with another number of GPUs."""
    preemptions: int
    """How often a job was stopped and had to wait."""
    reclaims: int
    decisions: int
    decision_p50_seconds: float
    decision_p99_seconds: float
    worst_gap: float | None
