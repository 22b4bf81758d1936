"""What cannot be: in a decision before it is carried out, and in a schedule after it was."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from trainfare.model.queue import Decision, Delays, Fleet, Job, NodePlan, Slot, State
from trainfare.model.schedule import Rental, Schedule, Stretch


def unfit(state: State, decision: Decision) -> tuple[str, ...]:
    """What is wrong with a decision; nothing where it can be carried out."""
    jobs = {queued.job.id: queued.job for queued in state.jobs}
    return (
        *_unfit_nodes(state, decision.nodes),
        *_unfit_shares(state.fleet, decision.nodes),
        *_unfit_places(state.fleet, jobs, decision.nodes),
    )


def _unfit_nodes(state: State, plans: tuple[NodePlan, ...]) -> list[str]:
    """At most N nodes, at most `most` of a type; a node that is named is rented, of that type, and named once."""
    fleet = state.fleet
    found = []
    if len(plans) > fleet.nodes:
        found.append(f"{len(plans)} nodes where {fleet.nodes} may be rented")
    types = Counter(plan.type for plan in plans)
    known = {each.name: each.most for each in fleet.types}
    for kind, count in types.items():
        if kind not in known:
            found.append(f"no type {kind} in the fleet")
        elif (most := known[kind]) is not None and count > most:
            found.append(f"{count} nodes of {kind} where {most} may be had")
    rented = {node.id: node.type for node in state.nodes}
    named = Counter(plan.node for plan in plans if plan.node is not None)
    found.extend(f"node {node} is named {count} times" for node, count in named.items() if count > 1)
    found.extend(
        f"node {plan.node} is {rented.get(plan.node, 'not rented')}, not {plan.type}"
        for plan in plans
        if plan.node is not None and rented.get(plan.node) != plan.type
    )
    return found


def _unfit_shares(fleet: Fleet, plans: tuple[NodePlan, ...]) -> list[str]:
    """On each node a job stands once, has at least one GPU, and all together have no more than there are."""
    gpus = {each.name: each.gpus for each in fleet.types}
    found = []
    for plan in plans:
        if sum(share for _, share in plan.jobs) > gpus.get(plan.type, 0):
            found.append(f"a {plan.type} has fewer GPUs than {dict(plan.jobs)} take")
        if len(plan.jobs) > 1 and len({name for name, _ in plan.jobs}) < len(plan.jobs):
            found.append(f"a job stands twice on one {plan.type}: {plan.jobs}")
    return found


def _unfit_places(fleet: Fleet, jobs: dict[str, Job], plans: tuple[NodePlan, ...]) -> list[str]:
    """Each job is in the queue and has one slot of the fleet on which it can run; users keep to their quotas."""
    slots = {(slot.type, slot.gpus, slot.nodes): number for number, slot in enumerate(fleet.slots)}
    places: dict[str, tuple[str, int, int]] = {}
    torn = set()
    for plan in plans:
        for name, gpus in plan.jobs:
            kind, share, nodes = places.get(name, (plan.type, gpus, 0))
            if (kind, share) != (plan.type, gpus):
                torn.add(name)
            places[name] = (kind, share, nodes + 1)
    found = [f"{name} has GPUs of several types, or several numbers of them" for name in sorted(torn)]
    users: Counter[str] = Counter()
    for name, place in places.items():
        job = jobs.get(name)
        if job is None:
            found.append(f"no job {name} in the queue")
            continue
        slot = slots.get(place)
        if slot is None:
            found.append(f"{name} has {Slot(*place)}, which is no slot of the fleet")
        elif job.seconds[slot] == math.inf:
            found.append(f"{name} cannot run on {fleet.slots[slot]}")
        users[job.user] += place[1] * place[2]
    found.extend(
        f"{user} has {users[user]} GPUs and may have {most}" for user, most in fleet.quotas if users[user] > most
    )
    return found


def violations(schedule: Schedule) -> tuple[str, ...]:
    """What is wrong with a schedule; nothing where it could have happened so.

    Nodes: at most N at once, and `most` of a type; ready no sooner than a boot after being rented.
    Places: every stretch has one slot of the fleet on nodes that are paid for all the while; no node gives more GPUs
    than it has, no user has more than the quota, no job is in two places.
    Work: none before the submission, none while a node boots or a job is restored; a stretch goes on from where the
    last one ended, and does (end - works_from) / t of the job; only a reclaimed node loses some, and no more than was
    not saved; every job ends once, when all of it is done.

    Moments are equal within 1e-7 of the time since the start of the queue.
    """
    rentals = {rental.node: rental for rental in schedule.rentals}
    jobs = {job.id for job in schedule.jobs}
    known: list[Stretch] = []
    unknown: list[Stretch] = []
    for each in schedule.stretches:
        (known if each.job in jobs and all(node in rentals for node in each.nodes) else unknown).append(each)
    return (
        *(f"{each.job} at {each.start_seconds:g} s: no such job, or no node of {each.nodes}" for each in unknown),
        *_wrong_rentals(schedule),
        *_too_much_at_once(schedule, rentals, known),
        *_wrong_places(schedule, rentals, known),
        *_wrong_work(schedule, rentals, known),
        *_wrong_ends(schedule, known),
    )


def _slack(moment: float) -> float:
    return 1e-7 * max(1.0, abs(moment)) if math.isfinite(moment) else 0.0


_Used = tuple[float, float, int]
"""(from, until, how much)"""


def _peak(used: Iterable[_Used]) -> tuple[int, float]:
    """The most that is used at one moment, and when. What ends as another begins is no overlap."""
    changes = []
    for start, end, amount in used:
        if end - start > _slack(end):
            changes += [(start, amount), (end - _slack(end), -amount)]
    most, when, level = 0, 0.0, 0
    for moment, change in sorted(changes):
        level += change
        if level > most:
            most, when = level, moment
    return most, when


def _wrong_rentals(schedule: Schedule) -> Iterator[str]:
    types = {each.name: each for each in schedule.fleet.types}
    for node, count in Counter(rental.node for rental in schedule.rentals).items():
        if count > 1:
            yield f"node {node} is rented {count} times"
    for rental in schedule.rentals:
        if rental.type not in types:
            yield f"node {rental.node} is of no type of the fleet: {rental.type}"
        ready = rental.start_seconds + schedule.delays.boot_seconds
        if rental.ready_seconds < ready - _slack(ready):
            yield f"node {rental.node} is ready at {rental.ready_seconds:g} s, before it has booted"


def _too_much_at_once(schedule: Schedule, rentals: dict[int, Rental], stretches: list[Stretch]) -> Iterator[str]:
    """Nodes of the fleet and of each type, GPUs of each node and of each user, places of each job."""
    fleet = schedule.fleet
    gpus = {each.name: each.gpus for each in fleet.types}
    users = {job.id: job.user for job in schedule.jobs}
    used: defaultdict[tuple[str, object], list[_Used]] = defaultdict(list)
    for rental in schedule.rentals:
        used["nodes", ""].append((rental.start_seconds, rental.end_seconds, 1))
        used["nodes of", rental.type].append((rental.start_seconds, rental.end_seconds, 1))
    for each in stretches:
        span = (each.start_seconds, each.end_seconds)
        used["places of", each.job].append((*span, 1))
        used["GPUs of user", users[each.job]].append((*span, each.gpus * len(each.nodes)))
        for node in each.nodes:
            used["GPUs of node", node].append((*span, each.gpus))
    most: dict[tuple[str, object], float] = {("nodes", ""): fleet.nodes}
    most |= {("nodes of", each.name): each.most for each in fleet.types if each.most is not None}
    most |= {("GPUs of user", user): quota for user, quota in fleet.quotas}
    most |= {("GPUs of node", node): gpus.get(rental.type, 0) for node, rental in rentals.items()}
    most |= {("places of", job): 1 for job in users}
    for (what, whose), spans in used.items():
        peak, when = _peak(spans)
        if peak > most.get((what, whose), math.inf):
            yield f"{peak} {f'{what} {whose}'.strip()} at {when:g} s, and there may be {most[what, whose]:g}"


def _slot_of(fleet: Fleet, rentals: dict[int, Rental], stretch: Stretch) -> int | None:
    """The place in `Fleet.slots` of what a stretch has; None where it is no slot: of two types, or no such division."""
    kinds = {rentals[node].type for node in stretch.nodes}
    if len(kinds) != 1 or len(set(stretch.nodes)) < len(stretch.nodes):
        return None
    had = Slot(kinds.pop(), stretch.gpus, len(stretch.nodes))
    return fleet.slots.index(had) if had in fleet.slots else None


def _wrong_places(schedule: Schedule, rentals: dict[int, Rental], stretches: list[Stretch]) -> Iterator[str]:
    for stretch in stretches:
        what = f"{stretch.job} at {stretch.start_seconds:g} s"
        if _slot_of(schedule.fleet, rentals, stretch) is None:
            yield f"{what} has no slot of the fleet but {stretch.gpus} GPUs on nodes {stretch.nodes}"
        for node in stretch.nodes:
            rental = rentals[node]
            early = stretch.start_seconds < rental.start_seconds - _slack(rental.start_seconds)
            if early or stretch.end_seconds > rental.end_seconds + _slack(rental.end_seconds):
                yield f"{what} has node {node} while it is not rented"
            if stretch.works_from_seconds < rental.ready_seconds - _slack(rental.ready_seconds):
                yield f"{what} gets on before node {node} is ready"


def _reclaimed(rentals: dict[int, Rental], stretch: Stretch) -> bool:
    end = stretch.end_seconds
    return any(
        rentals[node].reclaimed and abs(rentals[node].end_seconds - end) <= _slack(end) for node in stretch.nodes
    )


def _wrong_work(schedule: Schedule, rentals: dict[int, Rental], stretches: list[Stretch]) -> Iterator[str]:
    times = {job.id: seconds for job, seconds in zip(schedule.jobs, schedule.true_seconds, strict=True)}
    submitted = {job.id: job.submitted_seconds for job in schedule.jobs}
    last: dict[str, Stretch] = {}
    for stretch in sorted(stretches, key=lambda each: (each.start_seconds, each.end_seconds)):
        what = f"{stretch.job} at {stretch.start_seconds:g} s"
        before = last.get(stretch.job)
        last[stretch.job] = stretch
        if stretch.start_seconds < submitted[stretch.job] - _slack(submitted[stretch.job]):
            yield f"{what} runs before it is submitted"
        if abs(stretch.done_before - (before.done_after if before else 0.0)) > 1e-9:
            yield f"{what} goes on from {stretch.done_before}, not from where it was"
        if before is not None and not _restored(schedule.delays, rentals, before, stretch):
            yield f"{what} gets on before it is restored"
        slot = _slot_of(schedule.fleet, rentals, stretch)
        if slot is not None:
            lossy = _reclaimed(rentals, stretch)
            yield from _wrong_progress(stretch, times[stretch.job][slot], schedule, lossy=lossy)


def _restored(delays: Delays, rentals: dict[int, Rental], before: Stretch, stretch: Stretch) -> bool:
    """works_from ≥ max(start, ready) + checkpoint + restart; after a reclaimed node without the checkpoint.

    Nothing is owed while nothing is done, nor for going on without a break in the same place.
    """
    goes_on = stretch.start_seconds - before.end_seconds <= _slack(before.end_seconds)
    if stretch.done_before == 0 or (goes_on and (before.nodes, before.gpus) == (stretch.nodes, stretch.gpus)):
        return True
    owed = delays.restart_seconds + (0.0 if _reclaimed(rentals, before) else delays.checkpoint_seconds)
    there = max(stretch.start_seconds, *(rentals[node].ready_seconds for node in stretch.nodes))
    return stretch.works_from_seconds >= there + owed - _slack(stretch.works_from_seconds)


def _wrong_progress(stretch: Stretch, seconds: float, schedule: Schedule, *, lossy: bool) -> Iterator[str]:
    """done_after = done_before + (end - works_from)⁺ / t; a reclaimed node leaves no less than what was saved of it."""
    worked = max(0.0, stretch.end_seconds - stretch.works_from_seconds)
    near = 2 * _slack(stretch.end_seconds) / seconds + 1e-9
    reached = stretch.done_before + worked / seconds
    saved = max(stretch.done_before, reached - schedule.delays.checkpoint_every_seconds / seconds)
    least = saved if lossy else reached
    if not least - near <= stretch.done_after <= reached + near or stretch.done_after > 1 + 1e-9:
        yield (
            f"{stretch.job} at {stretch.start_seconds:g} s works {worked:g} s of {seconds:g} s "
            f"and goes from {stretch.done_before:g} to {stretch.done_after:g}"
        )


def _wrong_ends(schedule: Schedule, stretches: list[Stretch]) -> Iterator[str]:
    ends = Counter(name for name, _ in schedule.ended_seconds)
    for job in schedule.jobs:
        if ends[job.id] != 1:
            yield f"{job.id} ends {ends[job.id]} times"
    last = {each.job: each for each in sorted(stretches, key=lambda each: (each.start_seconds, each.end_seconds))}
    for name, end in schedule.ended_seconds:
        stretch = last.get(name)
        if stretch is None or stretch.done_after < 1 - 1e-9 or abs(stretch.end_seconds - end) > _slack(end):
            yield f"{name} ends at {end:g} s, which is not when it is done"
    yield from (
        f"{each.job} runs on after it is done"
        for each in stretches
        if each.done_after >= 1 - 1e-9 and last[each.job] is not each
    )
