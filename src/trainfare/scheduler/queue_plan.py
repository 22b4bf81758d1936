"""The plan for a queue: which job runs where now, which jobs wait and why, and the projected schedule.

The policy decides once, for the present state; then the rest of the queue is simulated as if every prediction were
right and no further job were submitted. This projection gives the end of each job and the total cost.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import NormalDist

from trainfare.model.estimate import Estimate
from trainfare.model.queue import ArrivalStatistics, Decision, Instance, QueuedJob, Slot, State
from trainfare.model.reason import Reason, Value
from trainfare.model.schedule import Allocation, Schedule, ScheduleOutcome
from trainfare.model.submission import Submission
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.job_table import QueueTable, SubmittedTraining, UnplannedJob
from trainfare.scheduler.policies.registry import Policy
from trainfare.scheduler.simulation.simulate import ask_policy, simulate
from trainfare.units import SECONDS_PER_HOUR

TICK_SECONDS = 900.0
"""The policy decides at least this often; H of the papers."""
TICKS = 40
"""In a long queue the tick is longer, so that there are about this many."""
LAST_DATE = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of the queue: its slot now, or why it waits, and its projected end."""

    submission: Submission
    epochs: int
    slot: Slot
    """The slot that it has now, or will have first."""
    node: int | None
    """The index of the plan's node on which it runs now; None while it waits."""
    waits_because: Reason | None
    begins_at: datetime
    ends_at: datetime
    late_seconds: float
    """0 if the deadline is met, or if there is none."""
    late_usd: float
    on_time_probability: float | None
    """The probability that it meets its deadline, given the uncertainty of its prediction. None without a deadline."""
    migrations: int
    """The expected number of changes of its nodes or its number of GPUs."""
    estimate: Estimate
    """The estimate of the complete job in that slot, without the boot of the node."""

    @property
    def in_time(self) -> bool | None:
        """The probability; None if there is no deadline."""
        return None if self.submission.deadline_at is None else self.late_seconds == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """The decision for a queue now, and the projected schedule."""

    made_at: datetime
    policy: str
    nodes: int
    """The number of nodes that can be rented at once."""
    table: QueueTable
    decision: Decision
    jobs: tuple[PlannedJob, ...]
    """In the order of their submission."""
    schedule: Schedule | None
    """The projection; its second 0 is `table.origin_at`. None if nothing can be planned, as the next two."""
    outcome: ScheduleOutcome | None
    bound_usd: float | None
    """No schedule of these jobs on that many of these machines costs less, if the predictions are right."""

    @property
    def unplanned(self) -> tuple[UnplannedJob, ...]:
        return self.table.unplanned

    @property
    def gap(self) -> float | None:
        """total / bound - 1."""
        return self.outcome.total_usd / self.bound_usd - 1 if self.outcome and self.bound_usd else None


def plan_table(table: QueueTable, policy: Policy, *, name: str, nodes: int) -> QueuePlan:
    """The plan of a queue on at most `nodes` nodes; `name` is the name of the policy."""
    if table.instance is None:
        return QueuePlan(
            made_at=table.now,
            policy=name,
            nodes=nodes,
            table=table,
            decision=Decision(nodes=()),
            jobs=(),
            schedule=None,
            outcome=None,
            bound_usd=None,
        )
    state = initial_state(table, table.instance, nodes=nodes)
    decision = ask_policy(policy, state, name)
    schedule = simulate(
        table.instance,
        _starting_with(decision, policy, state),
        name=name,
        nodes=nodes,
        delays=table.delays,
        tick_seconds=_tick_seconds(table.instance, nodes),
    )
    return QueuePlan(
        made_at=table.now,
        policy=name,
        nodes=nodes,
        table=table,
        decision=decision,
        jobs=tuple(_planned_jobs(table, state, decision, schedule)),
        schedule=schedule,
        outcome=evaluate(schedule),
        bound_usd=lower_bound(table.instance, nodes).usd,
    )


def initial_state(table: QueueTable, instance: Instance, *, nodes: int) -> State:
    """The state of the queue while no job of it runs yet."""
    submitted = [(t.submission.submitted_at - table.origin_at).total_seconds() for t in table.trainings]
    shortest = [job.shortest_seconds for job in instance.jobs]
    return State(
        now_seconds=(table.now - table.origin_at).total_seconds(),
        fleet=instance.fleet(nodes),
        jobs=tuple(QueuedJob(job=job) for job in instance.jobs),
        arrivals=ArrivalStatistics(
            jobs=len(submitted),
            last_seconds=max(submitted),
            mean_shortest_seconds=math.fsum(shortest) / len(shortest),
        ),
        delays=table.delays,
    )


def _starting_with(decision: Decision, policy: Policy, start: State) -> Policy:
    """The policy with this first decision and the true arrivals: in the simulation all jobs are submitted at once."""

    def decide(state: State) -> Decision:
        if state.now_seconds == start.now_seconds and not state.nodes:
            return decision
        return policy(replace(state, arrivals=start.arrivals))

    return decide


def _tick_seconds(instance: Instance, nodes: int) -> float:
    total = math.fsum(job.shortest_seconds for job in instance.jobs) / min(nodes, len(instance.jobs))
    return max(TICK_SECONDS, total / TICKS)


def _planned_jobs(table: QueueTable, state: State, decision: Decision, schedule: Schedule) -> Iterator[PlannedJob]:
    allocations: dict[str, list[Allocation]] = {job.id: [] for job in schedule.jobs}
    for allocation in schedule.allocations:
        allocations[allocation.job].append(allocation)
    types = {rental.node: rental.type for rental in schedule.rentals}
    nodes = {name: number for number, plan in enumerate(decision.nodes) for name, _ in plan.jobs}
    ended = dict(schedule.ended_seconds)
    for training, job in zip(table.trainings, schedule.jobs, strict=True):
        first = allocations[job.id][0]
        planned = _planned_job(
            training,
            table,
            slot=Slot(types[first.nodes[0]], first.gpus, len(first.nodes)),
            node=nodes.get(job.id),
            begins_at=moment_at(table.origin_at, first.start_seconds),
            ends_at=moment_at(table.origin_at, ended[job.id]),
            migrations=sum((a.nodes, a.gpus) != (b.nodes, b.gpus) for a, b in pairwise(allocations[job.id])),
            log_error=job.log_error,
        )
        waits = None if planned.node is not None else _why_waiting(planned, state, decision)
        yield replace(planned, waits_because=waits)


def moment_at(origin_at: datetime, seconds: float) -> datetime:
    """The moment that many seconds after the origin; one beyond the calendar is at its end."""
    try:
        return min(origin_at + timedelta(seconds=seconds), LAST_DATE)
    except OverflowError:
        return LAST_DATE


def _planned_job(
    training: SubmittedTraining,
    table: QueueTable,
    *,
    slot: Slot,
    node: int | None,
    begins_at: datetime,
    ends_at: datetime,
    migrations: int,
    log_error: float,
) -> PlannedJob:
    submission = training.submission
    deadline = submission.deadline_at
    late = 0.0 if deadline is None else max(0.0, (ends_at - deadline).total_seconds())
    probability = None if deadline is None else _on_time_probability(begins_at, ends_at, deadline, log_error)
    return PlannedJob(
        submission=submission,
        epochs=training.epochs,
        slot=slot,
        node=node,
        waits_because=None,
        begins_at=begins_at,
        ends_at=ends_at,
        late_seconds=late,
        late_usd=late * submission.late_usd_per_hour / SECONDS_PER_HOUR,
        on_time_probability=probability,
        migrations=migrations,
        estimate=table.estimates[submission.id, slot],
    )


def _on_time_probability(begins_at: datetime, ends_at: datetime, deadline_at: datetime, error: float) -> float:
    """The probability Φ(log((deadline - begin) / (end - begin)) / σ) that the job ends by its deadline.

    It assumes that the job begins as planned and stays on its slot: a policy that observes slow progress can still
    migrate it, and other jobs that take longer can delay it.
    """
    allowed, needed = (deadline_at - begins_at).total_seconds(), (ends_at - begins_at).total_seconds()
    if allowed <= 0:
        return 0.0
    if error <= 0 or needed <= 0:
        return float(needed <= allowed)
    return NormalDist().cdf(math.log(allowed / needed) / error)


def _why_waiting(planned: PlannedJob, state: State, decision: Decision) -> Reason:
    """The limit that makes the job wait now; if there is none, the policy holds it back."""
    user = planned.submission.user
    fleet = state.fleet
    quota = dict(fleet.quotas).get(user)
    users = {queued.job.id: queued.job.user for queued in state.jobs}
    used = sum(gpus for plan in decision.nodes for name, gpus in plan.jobs if users[name] == user)
    if quota is not None and used >= quota:
        return _wait("quota_used", {"user": user, "gpus": quota})
    if len(decision.nodes) >= fleet.nodes:
        return _wait("all_nodes_used", {"nodes": fleet.nodes})
    rented = Counter(plan.type for plan in decision.nodes)
    if all(each.max_nodes is not None and rented[each.name] >= each.max_nodes for each in fleet.types):
        return _wait("all_machines_used", {})
    if planned.late_seconds:
        return _wait("held_back_late", {})
    return _wait("held_back" if planned.in_time is not None else "held_back_without_deadline", {})


def _wait(code: str, values: dict[str, Value]) -> Reason:
    return Reason(topic="why", code=code, values=values)
