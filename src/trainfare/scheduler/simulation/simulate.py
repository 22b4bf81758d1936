"""The simulation of a queue under a policy, event by event.

The policy decides when jobs are submitted, jobs end, a node is reclaimed, and when H = `tick_seconds` have passed since
its last decision; simultaneous events lead to one decision. A node that becomes ready needs none: the time from which a
job works there is known when it is placed. Without delays and H this is the accounting of the papers.

Reclaims: the n-th rented node lasts for an exponential time with its type's `reclaims_per_hour`, drawn from the seed
and n alone, so two policies that rent the same nodes get the same reclaims.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainfare.model.checks import require_positive
from trainfare.model.queue import Decision, Delays, Instance, RentedNode, State
from trainfare.model.schedule import Schedule
from trainfare.scheduler.execution import Execution, time_tolerance_seconds
from trainfare.scheduler.legal import decision_violations
from trainfare.scheduler.policies.registry import Policy
from trainfare.units import format_count

MAX_IDLE_DECISIONS = 1000
"""The simulation fails after this many consecutive decisions in which no job arrived, ended, or exceeded its largest
progress: nodes are reclaimed before anything is saved, or the policy migrates jobs faster than they are restored."""
SHOWN_JOBS = 5


class UnfinishedJobsError(ValueError):
    """The policy never finishes the queue."""

    def __init__(self, policy: str, cause: str, execution: Execution) -> None:
        names = execution.unfinished()
        more = f" and {format_count(len(names) - SHOWN_JOBS)} more" if len(names) > SHOWN_JOBS else ""
        super().__init__(f"{policy} never finishes the jobs {', '.join(names[:SHOWN_JOBS])}{more}: {cause}")


class PolicyError(ValueError):
    """The policy fails, or its decision cannot be carried out: an error of the policy itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationProgress:
    """The progress of a simulation after a decision."""

    policy: str
    now_seconds: float
    waiting: int
    running: int
    ended: int
    jobs: int


ProgressCallback = Callable[[SimulationProgress], None]


def simulate(
    instance: Instance,
    policy: Policy,
    *,
    name: str,
    nodes: int,
    delays: Delays = Delays(),  # noqa: B008 # it is frozen, so sharing it is safe
    tick_seconds: float | None = None,
    seed: int = 0,
    clock: Callable[[], float] | None = None,
    on_progress: ProgressCallback | None = None,
) -> Schedule:
    """The schedule of the queue when `policy` decides, on at most `nodes` nodes.

    `clock` measures the decisions; without it they are not measured. A policy that fails, or whose decision cannot be
    carried out, raises PolicyError. Jobs that would never end raise UnfinishedJobsError.
    """
    require_positive(tick_seconds=tick_seconds)
    fleet = instance.fleet(nodes)
    true_seconds = instance.actual_seconds
    execution = Execution(fleet, delays, {job.id: t for job, t in zip(instance.jobs, true_seconds, strict=True)})
    events = _EventQueue(instance, execution, tick_seconds=tick_seconds, seed=seed)
    decision_seconds: list[float] = []
    gaps: list[float] = []
    while (now := events.next_seconds()) is not None:
        events.advance(now)
        if events.is_over:
            break
        state = execution.state(now)
        start = clock() if clock else 0.0
        decision = ask_policy(policy, state, name)
        if clock:
            decision_seconds.append(clock() - start)
        if violations := decision_violations(state, decision):
            raise PolicyError(f"the decision of {name} at {now:g} s cannot be carried out: {'; '.join(violations)}")
        events.record_decision(now, execution.carry_out(decision, now))
        if events.idle_decisions > MAX_IDLE_DECISIONS:
            raise UnfinishedJobsError(
                name,
                f"{format_count(MAX_IDLE_DECISIONS)} decisions in a row up to {now:g} s brought no progress",
                execution,
            )
        gaps.extend(_certified_gap(decision))
        if on_progress:
            on_progress(_progress(name, now, execution, jobs=len(instance.jobs)))
    if not events.is_over:
        raise UnfinishedJobsError(name, f"no event follows after {events.now:g} s", execution)
    execution.release_all(events.now)
    return Schedule(
        policy=name,
        fleet=fleet,
        jobs=instance.jobs,
        true_seconds=true_seconds,
        delays=delays,
        rentals=tuple(sorted(execution.rentals, key=lambda rental: rental.node)),
        allocations=tuple(sorted(execution.allocations, key=lambda allocation: allocation.start_seconds)),
        ended_seconds=tuple(execution.ended),
        decision_seconds=tuple(decision_seconds),
        gaps=tuple(gaps),
    )


def ask_policy(policy: Policy, state: State, name: str) -> Decision:
    """The policy's decision; a failure of the policy, such as a model without a solution, raises PolicyError."""
    try:
        return policy(state)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise PolicyError(f"{name} cannot decide at {state.now_seconds:g} s: {error}") from error


def _certified_gap(decision: Decision) -> tuple[float, ...]:
    """usd / bound - 1, if there is a positive bound."""
    if decision.usd is None or decision.bound_usd is None or decision.bound_usd <= 0:
        return ()
    return (decision.usd / decision.bound_usd - 1,)


def _progress(name: str, now: float, execution: Execution, *, jobs: int) -> SimulationProgress:
    running = len(execution.running)
    return SimulationProgress(
        policy=name,
        now_seconds=now,
        waiting=len(execution.unfinished()) - running,
        running=running,
        ended=len(execution.ended),
        jobs=jobs,
    )


class _EventQueue:
    """The next event, and its effect on the execution."""

    def __init__(self, instance: Instance, execution: Execution, *, tick_seconds: float | None, seed: int) -> None:
        self.now = 0.0
        self._execution = execution
        self._jobs = instance.jobs
        self._submitted = 0
        self._tick_seconds = math.inf if tick_seconds is None else tick_seconds
        self._last_decision = -math.inf
        self._seed = seed
        self.idle_decisions = 0
        """The number of decisions since the last arrival or progress."""
        self._last_progress = (0, 0.0)
        self._reclaims: dict[int, float] = {}
        self._rates = {each.name: each.reclaims_per_hour / 3600 for each in instance.types}

    @property
    def is_over(self) -> bool:
        return not self._execution.unfinished() and self._submitted == len(self._jobs)

    def next_seconds(self) -> float | None:
        """The moment of the next event; None if there will be none."""
        execution = self._execution
        moments = [running.end_seconds for running in execution.running.values()]
        if self._submitted < len(self._jobs):
            moments.append(self._jobs[self._submitted].submitted_seconds)
        moments.extend(self._reclaims.values())
        if execution.unfinished() or execution.nodes:
            moments.append(self._last_decision + self._tick_seconds)
        soonest = min(moments, default=math.inf)
        return max(soonest, self.now) if math.isfinite(soonest) else None

    def advance(self, now: float) -> None:
        """Applies the events at `now`, ends before reclaims: a job that ends as its node is reclaimed has ended."""
        self.now = now
        self._execution.end_jobs(now)
        latest = now + time_tolerance_seconds(now)
        for node in [node for node, moment in self._reclaims.items() if moment <= latest]:
            del self._reclaims[node]
            self._execution.reclaim(node, now)
        first = self._submitted
        while self._submitted < len(self._jobs) and self._jobs[self._submitted].submitted_seconds <= now:
            self._submitted += 1
        self._execution.submit(self._jobs[first : self._submitted])

    def record_decision(self, now: float, new_nodes: tuple[RentedNode, ...]) -> None:
        self._last_decision = now
        progress = (self._submitted, self._execution.total_progress)
        self.idle_decisions = self.idle_decisions + 1 if progress == self._last_progress else 0
        self._last_progress = progress
        self._reclaims = {node: moment for node, moment in self._reclaims.items() if node in self._execution.nodes}
        for node in new_nodes:
            if rate := self._rates[node.type]:
                lifetime = float(np.random.default_rng((self._seed, node.id)).exponential())
                self._reclaims[node.id] = now + lifetime / rate
