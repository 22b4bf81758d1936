"""Checks that a decision can be carried out, and that a schedule could have happened."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from trainfare.model.queue import Decision, Delays, Fleet, Job, NodePlan, Slot, State
from trainfare.model.schedule import Allocation, NodeRental, Schedule


def decision_violations(state: State, decision: Decision) -> tuple[str, ...]:
    """The rules that a decision breaks; empty if it can be carried out."""
    jobs = {queued.job.id: queued.job for queued in state.jobs}
    return (
        *_node_violations(state, decision.nodes),
        *_gpu_violations(state.fleet, decision.nodes),
        *_slot_violations(state.fleet, jobs, decision.nodes),
    )


def _node_violations(state: State, plans: tuple[NodePlan, ...]) -> list[str]:
    """There are at most N nodes, and `max_nodes` of a type; a named node is rented, of that type, and named once."""
    fleet = state.fleet
    found = []
    if len(plans) > fleet.nodes:
        found.append(f"{len(plans)} nodes are planned, and the fleet has at most {fleet.nodes}")
    types = Counter(plan.type for plan in plans)
    known = {each.name: each.max_nodes for each in fleet.types}
    for name, count in types.items():
        if name not in known:
            found.append(f"the fleet has no type {name}")
        elif (limit := known[name]) is not None and count > limit:
            found.append(f"{count} nodes of {name} are planned, and at most {limit} are available")
    rented = {node.id: node.type for node in state.nodes}
    named = Counter(plan.node for plan in plans if plan.node is not None)
    found.extend(f"node {node} is named {count} times" for node, count in named.items() if count > 1)
    found.extend(
        f"node {plan.node} is {rented.get(plan.node, 'not rented')}, not {plan.type}"
        for plan in plans
        if plan.node is not None and rented.get(plan.node) != plan.type
    )
    return found


def _gpu_violations(fleet: Fleet, plans: tuple[NodePlan, ...]) -> list[str]:
    """On each node a job is listed once and has at least one GPU, and the jobs together have no more than exist."""
    gpus = {each.name: each.gpus for each in fleet.types}
    found = []
    for plan in plans:
        if sum(share for _, share in plan.jobs) > gpus.get(plan.type, 0):
            found.append(f"a {plan.type} has fewer GPUs than {dict(plan.jobs)} take")
        if len(plan.jobs) > 1 and len({name for name, _ in plan.jobs}) < len(plan.jobs):
            found.append(f"a job is listed twice on one {plan.type}: {plan.jobs}")
    return found


def _slot_violations(fleet: Fleet, jobs: dict[str, Job], plans: tuple[NodePlan, ...]) -> list[str]:
    """Each job is in the queue and has one slot of the fleet on which it can run; users stay within their quotas."""
    slots = {(slot.type, slot.gpus, slot.nodes): number for number, slot in enumerate(fleet.slots)}
    assigned: dict[str, tuple[str, int, int]] = {}
    mixed = set()
    for plan in plans:
        for name, gpus in plan.jobs:
            node_type, share, nodes = assigned.get(name, (plan.type, gpus, 0))
            if (node_type, share) != (plan.type, gpus):
                mixed.add(name)
            assigned[name] = (node_type, share, nodes + 1)
    found = [f"{name} has GPUs of several types, or several numbers of them" for name in sorted(mixed)]
    users: Counter[str] = Counter()
    for name, allocation in assigned.items():
        job = jobs.get(name)
        if job is None:
            found.append(f"there is no job {name} in the queue")
            continue
        slot = slots.get(allocation)
        if slot is None:
            found.append(f"{name} has {Slot(*allocation)}, which is no slot of the fleet")
        elif job.seconds[slot] == math.inf:
            found.append(f"{name} cannot run on {fleet.slots[slot]}")
        users[job.user] += allocation[1] * allocation[2]
    found.extend(
        f"{user} has {users[user]} GPUs, and the quota is {quota}"
        for user, quota in fleet.quotas
        if users[user] > quota
    )
    return found


def schedule_violations(schedule: Schedule) -> tuple[str, ...]:
    """The rules that a schedule breaks; empty if it could have happened.

    Nodes: at most N at once, and `max_nodes` of a type; a node is ready no sooner than a boot after being rented.
    Allocations: every allocation has one slot of the fleet on nodes that are rented the entire time; no node gives more
    GPUs than it has, no user has more than the quota, no job has two allocations at once.
    Work: none before the submission, none while a node boots or a job is restored; an allocation continues where the
    last one ended, and does (end - work_start) / t of the job; only a reclaim loses work, and no more than was not
    saved; every job ends once, when all of it is done.

    Moments are equal within 1e-7 of the time since the start of the queue.
    """
    rentals = {rental.node: rental for rental in schedule.rentals}
    jobs = {job.id for job in schedule.jobs}
    known: list[Allocation] = []
    unknown: list[Allocation] = []
    for each in schedule.allocations:
        (known if each.job in jobs and all(node in rentals for node in each.nodes) else unknown).append(each)
    return (
        *(
            f"{each.job} at {each.start_seconds:g} s: there is no such job, or no node of {each.nodes}"
            for each in unknown
        ),
        *_rental_violations(schedule),
        *_limit_violations(schedule, rentals, known),
        *_allocation_violations(schedule, rentals, known),
        *_work_violations(schedule, rentals, known),
        *_end_violations(schedule, known),
    )


def _tolerance(moment: float) -> float:
    return 1e-7 * max(1.0, abs(moment)) if math.isfinite(moment) else 0.0


_Usage = tuple[float, float, int]
"""(start, end, amount)"""


def _peak(usage: Iterable[_Usage]) -> tuple[int, float]:
    """The largest amount in use at one moment, and that moment. Usage that ends as another begins does not overlap."""
    changes = []
    for start, end, amount in usage:
        if end - start > _tolerance(end):
            changes += [(start, amount), (end - _tolerance(end), -amount)]
    peak, when, level = 0, 0.0, 0
    for moment, change in sorted(changes):
        level += change
        if level > peak:
            peak, when = level, moment
    return peak, when


def _rental_violations(schedule: Schedule) -> Iterator[str]:
    types = {each.name: each for each in schedule.fleet.types}
    for node, count in Counter(rental.node for rental in schedule.rentals).items():
        if count > 1:
            yield f"node {node} is rented {count} times"
    for rental in schedule.rentals:
        if rental.type not in types:
            yield f"node {rental.node} is of no type of the fleet: {rental.type}"
        ready = rental.start_seconds + schedule.delays.boot_seconds
        if rental.ready_seconds < ready - _tolerance(ready):
            yield f"node {rental.node} is ready at {rental.ready_seconds:g} s, before it has booted"


def _limit_violations(
    schedule: Schedule, rentals: dict[int, NodeRental], allocations: list[Allocation]
) -> Iterator[str]:
    """Checks the nodes of the fleet and of each type, the GPUs of each node and user, the allocations of each job."""
    fleet = schedule.fleet
    gpus = {each.name: each.gpus for each in fleet.types}
    users = {job.id: job.user for job in schedule.jobs}
    usage: defaultdict[tuple[str, object], list[_Usage]] = defaultdict(list)
    for rental in schedule.rentals:
        usage["nodes", ""].append((rental.start_seconds, rental.end_seconds, 1))
        usage["nodes of", rental.type].append((rental.start_seconds, rental.end_seconds, 1))
    for each in allocations:
        span = (each.start_seconds, each.end_seconds)
        usage["allocations of", each.job].append((*span, 1))
        usage["GPUs of user", users[each.job]].append((*span, each.gpus * len(each.nodes)))
        for node in each.nodes:
            usage["GPUs of node", node].append((*span, each.gpus))
    limits: dict[tuple[str, object], float] = {("nodes", ""): fleet.nodes}
    limits |= {("nodes of", each.name): each.max_nodes for each in fleet.types if each.max_nodes is not None}
    limits |= {("GPUs of user", user): quota for user, quota in fleet.quotas}
    limits |= {("GPUs of node", node): gpus.get(rental.type, 0) for node, rental in rentals.items()}
    limits |= {("allocations of", job): 1 for job in users}
    for (what, whose), spans in usage.items():
        peak, when = _peak(spans)
        if peak > limits.get((what, whose), math.inf):
            yield f"{peak} {f'{what} {whose}'.strip()} at {when:g} s, and the limit is {limits[what, whose]:g}"


def _slot_index(fleet: Fleet, rentals: dict[int, NodeRental], allocation: Allocation) -> int | None:
    """The index in `Fleet.slots` of an allocation; None if it is no slot: nodes of two types, or no such division."""
    types = {rentals[node].type for node in allocation.nodes}
    if len(types) != 1 or len(set(allocation.nodes)) < len(allocation.nodes):
        return None
    slot = Slot(types.pop(), allocation.gpus, len(allocation.nodes))
    return fleet.slots.index(slot) if slot in fleet.slots else None


def _allocation_violations(
    schedule: Schedule, rentals: dict[int, NodeRental], allocations: list[Allocation]
) -> Iterator[str]:
    for allocation in allocations:
        what = f"{allocation.job} at {allocation.start_seconds:g} s"
        if _slot_index(schedule.fleet, rentals, allocation) is None:
            yield f"{what} has no slot of the fleet but {allocation.gpus} GPUs on nodes {allocation.nodes}"
        for node in allocation.nodes:
            rental = rentals[node]
            early = allocation.start_seconds < rental.start_seconds - _tolerance(rental.start_seconds)
            if early or allocation.end_seconds > rental.end_seconds + _tolerance(rental.end_seconds):
                yield f"{what} has node {node} while it is not rented"
            if allocation.work_start_seconds < rental.ready_seconds - _tolerance(rental.ready_seconds):
                yield f"{what} works before node {node} is ready"


def _ended_by_reclaim(rentals: dict[int, NodeRental], allocation: Allocation) -> bool:
    end = allocation.end_seconds
    return any(
        rentals[node].reclaimed and abs(rentals[node].end_seconds - end) <= _tolerance(end) for node in allocation.nodes
    )


def _work_violations(
    schedule: Schedule, rentals: dict[int, NodeRental], allocations: list[Allocation]
) -> Iterator[str]:
    times = {job.id: seconds for job, seconds in zip(schedule.jobs, schedule.true_seconds, strict=True)}
    submitted = {job.id: job.submitted_seconds for job in schedule.jobs}
    last: dict[str, Allocation] = {}
    for allocation in sorted(allocations, key=lambda each: (each.start_seconds, each.end_seconds)):
        what = f"{allocation.job} at {allocation.start_seconds:g} s"
        before = last.get(allocation.job)
        last[allocation.job] = allocation
        if allocation.start_seconds < submitted[allocation.job] - _tolerance(submitted[allocation.job]):
            yield f"{what} runs before it is submitted"
        if abs(allocation.done_before - (before.done_after if before else 0.0)) > 1e-9:
            yield f"{what} continues from {allocation.done_before}, which is not its progress before"
        if before is not None and not _is_restored(schedule.delays, rentals, before, allocation):
            yield f"{what} works before it is restored"
        slot = _slot_index(schedule.fleet, rentals, allocation)
        if slot is not None:
            reclaimed = _ended_by_reclaim(rentals, allocation)
            yield from _progress_violations(allocation, times[allocation.job][slot], schedule, reclaimed=reclaimed)


def _is_restored(delays: Delays, rentals: dict[int, NodeRental], before: Allocation, allocation: Allocation) -> bool:
    """True if work_start ≥ max(start, ready) + checkpoint + restart; after a reclaim without the checkpoint.

    No time is needed while nothing is done, nor to continue without a break in the same slot.
    """
    without_break = allocation.start_seconds - before.end_seconds <= _tolerance(before.end_seconds)
    same_slot = (before.nodes, before.gpus) == (allocation.nodes, allocation.gpus)
    if allocation.done_before == 0 or (without_break and same_slot):
        return True
    delay = delays.restart_seconds + (0.0 if _ended_by_reclaim(rentals, before) else delays.checkpoint_seconds)
    ready = max(allocation.start_seconds, *(rentals[node].ready_seconds for node in allocation.nodes))
    return allocation.work_start_seconds >= ready + delay - _tolerance(allocation.work_start_seconds)


def _progress_violations(
    allocation: Allocation, seconds: float, schedule: Schedule, *, reclaimed: bool
) -> Iterator[str]:
    """done_after = done_before + (end - work_start)⁺ / t; a reclaim leaves no less than the last checkpoint."""
    worked = max(0.0, allocation.end_seconds - allocation.work_start_seconds)
    near = 2 * _tolerance(allocation.end_seconds) / seconds + 1e-9
    reached = allocation.done_before + worked / seconds
    saved = max(allocation.done_before, reached - schedule.delays.checkpoint_every_seconds / seconds)
    least = saved if reclaimed else reached
    if not least - near <= allocation.done_after <= reached + near or allocation.done_after > 1 + 1e-9:
        yield (
            f"{allocation.job} at {allocation.start_seconds:g} s works {worked:g} s of {seconds:g} s "
            f"and goes from {allocation.done_before:g} to {allocation.done_after:g}"
        )


def _end_violations(schedule: Schedule, allocations: list[Allocation]) -> Iterator[str]:
    ends = Counter(name for name, _ in schedule.ended_seconds)
    for job in schedule.jobs:
        if ends[job.id] != 1:
            yield f"{job.id} ends {ends[job.id]} times"
    last = {each.job: each for each in sorted(allocations, key=lambda each: (each.start_seconds, each.end_seconds))}
    for name, end in schedule.ended_seconds:
        allocation = last.get(name)
        if (
            allocation is None
            or allocation.done_after < 1 - 1e-9
            or abs(allocation.end_seconds - end) > _tolerance(end)
        ):
            yield f"{name} ends at {end:g} s, which is not when it is done"
    yield from (
        f"{each.job} runs on after it is done"
        for each in allocations
        if each.done_after >= 1 - 1e-9 and last[each.job] is not each
    )
