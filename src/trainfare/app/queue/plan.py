"""What to do with the queue now: which job runs where, which waits and why, and what comes of it.

The policy decides once, from how things stand; then it is followed through the rest of the queue as if every prediction
were right and nobody submitted anything more. That projection says when each job ends and what all of it costs. Nothing
is rented, and nothing is kept.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

from trainfare.app.queue.limits import policies_may_fail
from trainfare.app.queue.times import QueueTable, Training, UnplannedJob, queue_table
from trainfare.errors import UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.queue import ArrivalStatistics, Decision, Instance, QueuedJob, Slot, State
from trainfare.model.schedule import Allocation, Schedule, ScheduleOutcome
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies.registry import DEFAULT_POLICY, Policy
from trainfare.scheduler.policies.registry import policy as policy_of
from trainfare.scheduler.simulation.simulate import decided, simulate
from trainfare.settings import Settings, read_settings
from trainfare.units import SECONDS_PER_HOUR, format_duration, plural

if TYPE_CHECKING:
    from trainfare.app.figures import Figure

TICK_SECONDS = 900.0
"""The policy is asked again at least so often; H of the papers."""
FARTHEST = datetime(9999, 1, 1, tzinfo=UTC)
TICKS = 40
"""Of a long queue more seldom, so that about so many of them are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of the queue: what becomes of it now, and what is expected of it."""

    training: Training
    slot: Slot
    """What it is given now, or will be given first."""
    node: int | None
    """Which of the plan's nodes it runs on now; None while it waits."""
    waits_because: str | None
    begins_at: datetime
    ends_at: datetime
    late_seconds: float
    """0 where the deadline is kept, and where there is none."""
    late_usd: float
    chance: float | None
    """That it keeps its deadline, by how sure its prediction is. None where there is no deadline."""
    moves: int
    """How often it is expected to go on elsewhere, or with another number of GPUs."""
    estimate: Estimate
    """Of the whole job in that slot, without the boot of the node."""

    @property
    def in_time(self) -> bool | None:
        """None where there is no deadline."""
        return None if self.training.submission.deadline_at is None else self.late_seconds == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """What to do with a queue now, and what is expected to come of it."""

    made_at: datetime
    policy: str
    nodes: int
    """How many may be rented at once."""
    table: QueueTable
    decision: Decision
    jobs: tuple[PlannedJob, ...]
    """In the order of their submission."""
    schedule: Schedule | None
    """The projection; its second 0 is `table.zero_at`. None where nothing can be planned, as of the two that follow."""
    outcome: ScheduleOutcome | None
    bound_usd: float | None
    """No schedule of these jobs on so many of these machines costs less, if the predictions are right."""

    @property
    def unplanned(self) -> tuple[UnplannedJob, ...]:
        return self.table.unplanned

    @property
    def gap(self) -> float | None:
        """total / bound - 1."""
        return self.outcome.total_usd / self.bound_usd - 1 if self.outcome and self.bound_usd else None

    def figure(self) -> "Figure":
        """The projection from now on: a lane a node, a bar a job."""
        from trainfare.app.figures import Figure
        from trainfare.figures.gantt import gantt_figure
        from trainfare.figures.look import NARROW, WIDE
        from trainfare.figures.schedule_look import NOW

        if self.schedule is None or self.outcome is None:
            raise UsageError("nothing is planned, so there is nothing to draw.")
        drawn = self.schedule.relative_to((self.made_at - self.table.zero_at).total_seconds())
        wide, narrow = (
            gantt_figure(drawn, self.outcome, bound_usd=self.bound_usd, width=width, since=NOW)
            for width in (WIDE, NARROW)
        )
        return Figure(spec=wide, narrow=narrow)


def plan_queue(
    *,
    machines: Sequence[str] = (),
    nodes: int | None = None,
    policy: str = DEFAULT_POLICY,
    spot: bool = False,
    quotas: Sequence[tuple[str, int]] = (),
    settings: Settings | None = None,
) -> QueuePlan:
    """What to do now with what waits in the store, on at most `nodes` nodes, or as many as there are jobs.

    On the named machines, else on a handful that suit the jobs; `spot` has them on the spot market too. `quotas` are
    (user, GPUs) that a user may have at once.
    """
    settings = settings or read_settings()
    decide = policy_of(policy)
    table = queue_table(machines=machines, nodes=nodes, spot=spot, quotas=quotas, settings=settings)
    count = nodes or max(1, len(table.trainings))
    if table.instance is None:
        return QueuePlan(
            made_at=table.now,
            policy=policy,
            nodes=count,
            table=table,
            decision=Decision(nodes=()),
            jobs=(),
            schedule=None,
            outcome=None,
            bound_usd=None,
        )
    state = state_now(table, table.instance, nodes=count)
    with policies_may_fail():
        decision = decided(decide, state, policy)
        schedule = simulate(
            table.instance,
            _as_decided(decide, state, decision),
            name=policy,
            nodes=count,
            delays=table.delays,
            tick_seconds=_tick_seconds(table.instance, count),
        )
    return QueuePlan(
        made_at=table.now,
        policy=policy,
        nodes=count,
        table=table,
        decision=decision,
        jobs=tuple(_planned_jobs(table, state, decision, schedule)),
        schedule=schedule,
        outcome=evaluate(schedule),
        bound_usd=lower_bound(table.instance, count).usd,
    )


def state_now(table: QueueTable, instance: Instance, *, nodes: int) -> State:
    """How things stand while nothing of the queue runs yet."""
    submitted = [(t.submission.submitted_at - table.zero_at).total_seconds() for t in table.trainings]
    shortest = [job.shortest_seconds for job in instance.jobs]
    return State(
        now_seconds=(table.now - table.zero_at).total_seconds(),
        fleet=instance.fleet(nodes),
        jobs=tuple(QueuedJob(job=job) for job in instance.jobs),
        arrivals=ArrivalStatistics(
            jobs=len(submitted),
            last_seconds=max(submitted),
            mean_shortest_seconds=math.fsum(shortest) / len(shortest),
        ),
        delays=table.delays,
    )


def _as_decided(decide: Policy, begun: State, decision: Decision) -> Policy:
    """The policy, with what is known of arrivals: to the simulation all jobs come at once, now."""

    def decided(state: State) -> Decision:
        if state.now_seconds == begun.now_seconds and not state.nodes:
            return decision
        return decide(replace(state, arrivals=begun.arrivals))

    return decided


def _tick_seconds(instance: Instance, nodes: int) -> float:
    whole = math.fsum(job.shortest_seconds for job in instance.jobs) / min(nodes, len(instance.jobs))
    return max(TICK_SECONDS, whole / TICKS)


def _planned_jobs(table: QueueTable, state: State, decision: Decision, schedule: Schedule) -> Iterator[PlannedJob]:
    allocations: dict[str, list[Allocation]] = {job.id: [] for job in schedule.jobs}
    for allocation in schedule.allocations:
        allocations[allocation.job].append(allocation)
    kinds = {rental.node: rental.type for rental in schedule.rentals}
    nodes = {name: number for number, plan in enumerate(decision.nodes) for name, _ in plan.jobs}
    ended = dict(schedule.ended_seconds)
    for training, job in zip(table.trainings, schedule.jobs, strict=True):
        first = allocations[job.id][0]
        planned = _planned(
            training,
            slot=Slot(kinds[first.nodes[0]], first.gpus, len(first.nodes)),
            node=nodes.get(job.id),
            begins_at=_moment(table.zero_at, first.start_seconds),
            ends_at=_moment(table.zero_at, ended[job.id]),
            moves=sum((a.nodes, a.gpus) != (b.nodes, b.gpus) for a, b in pairwise(allocations[job.id])),
            table=table,
            log_error=job.log_error,
        )
        why = None if planned.node is not None else _why_waiting(planned, state, decision)
        yield replace(planned, waits_because=why)


def _moment(zero_at: datetime, seconds: float) -> datetime:
    """So long after; what is farther off than calendars go is at their end."""
    try:
        return min(zero_at + timedelta(seconds=seconds), FARTHEST)
    except OverflowError:
        return FARTHEST


def _planned(
    training: Training,
    *,
    slot: Slot,
    node: int | None,
    begins_at: datetime,
    ends_at: datetime,
    moves: int,
    table: QueueTable,
    log_error: float,
) -> PlannedJob:
    submission = training.submission
    deadline = submission.deadline_at
    late = 0.0 if deadline is None else max(0.0, (ends_at - deadline).total_seconds())
    return PlannedJob(
        training=training,
        slot=slot,
        node=node,
        waits_because=None,
        begins_at=begins_at,
        ends_at=ends_at,
        late_seconds=late,
        late_usd=late * submission.late_usd_per_hour / SECONDS_PER_HOUR,
        chance=None if deadline is None else _chance(begins_at, ends_at, deadline, log_error),
        moves=moves,
        estimate=table.estimates[submission.id, slot],
    )


def _chance(begins_at: datetime, ends_at: datetime, deadline_at: datetime, error: float) -> float:
    """P = Φ(log((deadline - begin) / (end - begin)) / σ): that what is believed to take so long does not take longer.

    As if it began when it is planned to, and stayed where it is planned to be: a policy that sees it fall behind can
    still move it, and others that take longer can hold it up.
    """
    allowed, needed = (deadline_at - begins_at).total_seconds(), (ends_at - begins_at).total_seconds()
    if allowed <= 0:
        return 0.0
    if error <= 0 or needed <= 0:
        return float(needed <= allowed)
    return NormalDist().cdf(math.log(allowed / needed) / error)


def _why_waiting(planned: PlannedJob, state: State, decision: Decision) -> str:
    """What stands in its way now; where nothing does, that the policy has its reasons."""
    user = planned.training.submission.user
    fleet = state.fleet
    quota = dict(fleet.quotas).get(user)
    users = {queued.job.id: queued.job.user for queued in state.jobs}
    used = sum(gpus for plan in decision.nodes for name, gpus in plan.jobs if users[name] == user)
    if quota is not None and used >= quota:
        return f"{user} has all of the {plural(quota, 'GPU')} that {user} may have"
    if len(decision.nodes) >= fleet.nodes:
        return "the only node is taken" if fleet.nodes == 1 else f"all {fleet.nodes} nodes are taken"
    rented = Counter(plan.type for plan in decision.nodes)
    if all(each.max_nodes is not None and rented[each.name] >= each.max_nodes for each in fleet.types):
        return "every machine is taken"
    if planned.late_seconds:
        return "the policy holds it back, though it will be late"
    return f"the policy holds it back: it has {'no deadline' if planned.in_time is None else 'time'}"


def time_left(planned: PlannedJob) -> str | None:
    """`2 h 10 min early`, `3 h 00 min late`; None without a deadline."""
    deadline = planned.training.submission.deadline_at
    if deadline is None:
        return None
    if planned.late_seconds:
        return f"{format_duration(planned.late_seconds)} late"
    return f"{format_duration(max(1.0, (deadline - planned.ends_at).total_seconds()))} early"
