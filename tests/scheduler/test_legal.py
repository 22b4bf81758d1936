"""Violations are found: one change for each rule, to a decision or a schedule that was legal before."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scheduler.makers import make_state
from tests.scheduler.scripted import ONE, SPOT, TWO, plan, timed_job
from trainfare.model.queue import Decision, Delays, Fleet, NodePlan, NodeType, QueuedJob, RentedNode, Slot, State
from trainfare.model.schedule import Allocation, NodeRental, Schedule
from trainfare.scheduler.legal import decision_violations, schedule_violations

# Decisions

RARE = NodeType(name="rare", gpu="K80", gpus=1, usd_per_hour=1, max_nodes=1)
SLOTS = (Slot("one", 1), Slot("two", 1), Slot("two", 2), Slot("rare", 1), Slot("one", 1, 2), Slot("two", 2, 2))
FLEET = Fleet(nodes=3, types=(ONE, TWO, RARE), slots=SLOTS, quotas=(("ann", 2),))
STATE = make_state(
    [
        QueuedJob(job=timed_job("a", 100, 100, 60, 100, 60, 40), nodes=(5,), gpus=1),
        timed_job("b", 100, 100, math.inf, 100, 60, 40),
        timed_job("ann1", 100, 100, 60, 100, 60, 40, user="ann"),
        timed_job("ann2", 100, 100, 60, 100, 60, 40, user="ann"),
    ],
    FLEET,
    nodes=(RentedNode(id=5, type="two", rented_seconds=0, ready_seconds=0),),
)

LEGAL: dict[str, tuple[NodePlan, ...]] = {
    "nothing": (),
    "an empty node": (plan("two", node=5),),
    "shared": (plan("two", ("a", 1), ("b", 1), node=5),),
    "a gang": (plan("two", ("a", 1), node=5), plan("one", ("b", 1)), plan("one", ("b", 1))),
    "the complete quota": (plan("two", ("ann1", 1), ("ann2", 1)),),
    "the only rare one": (plan("rare", ("a", 1)),),
}
ILLEGAL: dict[str, tuple[tuple[NodePlan, ...], str]] = {
    "too many nodes": (tuple(plan("one") for _ in range(4)), "4 nodes are planned, and the fleet has at most 3"),
    "too many of a type": ((plan("rare"), plan("rare")), "2 nodes of rare are planned, and at most 1"),
    "an unknown type": ((plan("huge"),), "no type huge"),
    "a node that is not rented": ((plan("two", node=6),), "node 6 is not rented"),
    "a node that changes its type": ((plan("one", node=5),), "node 5 is two, not one"),
    "a node named twice": ((plan("two", node=5), plan("two", node=5)), "node 5 is named 2 times"),
    "too many GPUs": ((plan("two", ("a", 2), ("b", 1)),), "fewer GPUs"),
    "a job twice on a node": ((plan("two", ("a", 1), ("a", 1)),), "listed twice"),
    "a job that is not queued": ((plan("one", ("z", 1)),), "no job z"),
    "no GPUs": ((plan("one", ("a", 0)),), "no slot"),
    "no such gang": ((plan("rare", ("a", 1)), plan("one", ("a", 1))), "several types"),
    "a gang of uneven shares": ((plan("two", ("a", 1)), plan("two", ("a", 2))), "several numbers"),
    "a gang of parts of nodes": ((plan("two", ("a", 1)), plan("two", ("a", 1))), "no slot"),
    "a slot on which it cannot run": ((plan("two", ("b", 2)),), "b cannot run on two"),
    "over the quota": ((plan("two", ("ann1", 2)), plan("one", ("ann2", 1))), "ann has 3 GPUs, and the quota is 2"),
}


@pytest.mark.parametrize("plans", LEGAL.values(), ids=LEGAL.keys())
def test_legal_decision_has_no_violations(plans: tuple[NodePlan, ...]) -> None:
    assert decision_violations(STATE, Decision(nodes=plans)) == ()


@pytest.mark.parametrize(("plans", "message"), ILLEGAL.values(), ids=ILLEGAL.keys())
def test_illegal_decision_has_a_violation(plans: tuple[NodePlan, ...], message: str) -> None:
    assert any(message in each for each in decision_violations(STATE, Decision(nodes=plans)))


def test_empty_decision_is_legal_for_an_empty_queue() -> None:
    empty: State = make_state([], FLEET)
    assert decision_violations(empty, Decision(nodes=())) == ()


# Schedules

DELAYS = Delays(boot_seconds=50, checkpoint_seconds=10, restart_seconds=20, checkpoint_every_seconds=100)
A = timed_job("a", 1000, 1000, 500, 1000, 600, 1000, user="ann")
B = timed_job("b", 1000, 1000, 500, 1000, 600, 1000, submitted=100)
G = timed_job("g", 1000, 1000, 500, 1000, 600, 1000)
TYPES = (ONE, TWO, RARE, SPOT)


def rental(node: int, kind: str, start: float, end: float, *, reclaimed: bool = False) -> NodeRental:
    return NodeRental(
        node=node, type=kind, start_seconds=start, ready_seconds=start + 50, end_seconds=end, reclaimed=reclaimed
    )


def allocation(
    job: str, nodes: tuple[int, ...], gpus: int, times: tuple[float, float, float], done: tuple[float, float]
) -> Allocation:
    start, work_start, end = times
    return Allocation(
        job=job,
        nodes=nodes,
        gpus=gpus,
        start_seconds=start,
        work_start_seconds=work_start,
        end_seconds=end,
        done_before=done[0],
        done_after=done[1],
    )


LEGAL_SCHEDULE = Schedule(
    policy="hand",
    fleet=Fleet(
        nodes=4,
        types=TYPES,
        slots=(*SLOTS[:5], Slot("spot", 1)),
        quotas=(("ann", 2),),
    ),
    jobs=(A, G, B),
    true_seconds=(A.seconds, G.seconds, B.seconds),
    delays=DELAYS,
    rentals=(
        rental(0, "two", 0, 780),
        rental(1, "spot", 100, 505, reclaimed=True),
        rental(2, "one", 0, 650),
        rental(3, "one", 0, 650),
        rental(4, "rare", 505, 1275),
    ),
    allocations=(
        allocation("a", (0,), 1, (0, 50, 450), (0, 0.4)),
        allocation("g", (2, 3), 1, (0, 50, 650), (0, 1.0)),
        allocation("b", (1,), 1, (100, 150, 505), (0, 0.3)),  # 355 s, of which 300 are saved
        allocation("a", (0,), 2, (450, 480, 780), (0.4, 1.0)),
        allocation("b", (4,), 1, (505, 575, 1275), (0.3, 1.0)),
    ),
    ended_seconds=(("g", 650), ("a", 780), ("b", 1275)),
)


def with_rental(number: int, **changes: object) -> Callable[[Schedule], Schedule]:
    def change(schedule: Schedule) -> Schedule:
        each = schedule.rentals[number]
        changed = replace(each, **changes)  # type: ignore[arg-type] # fields by name, of several types
        return replace(schedule, rentals=(*schedule.rentals[:number], changed, *schedule.rentals[number + 1 :]))

    return change


def with_allocation(number: int, **changes: object) -> Callable[[Schedule], Schedule]:
    def change(schedule: Schedule) -> Schedule:
        each = schedule.allocations[number]
        changed = replace(each, **changes)  # type: ignore[arg-type] # fields by name, of several types
        return replace(
            schedule, allocations=(*schedule.allocations[:number], changed, *schedule.allocations[number + 1 :])
        )

    return change


def with_fleet(**changes: object) -> Callable[[Schedule], Schedule]:
    return lambda schedule: replace(schedule, fleet=replace(schedule.fleet, **changes))  # type: ignore[arg-type] # fields by name, of several types


def with_delays(**changes: float) -> Callable[[Schedule], Schedule]:
    return lambda schedule: replace(schedule, delays=replace(schedule.delays, **changes))


def with_more(*allocations: Allocation) -> Callable[[Schedule], Schedule]:
    return lambda schedule: replace(schedule, allocations=schedule.allocations + allocations)


def with_ends(*ends: tuple[str, float]) -> Callable[[Schedule], Schedule]:
    return lambda schedule: replace(schedule, ended_seconds=ends)


NONE_RARE = tuple(replace(kind, max_nodes=0) if kind.name == "rare" else kind for kind in TYPES)
ALL_ENDS = LEGAL_SCHEDULE.ended_seconds

CHANGED: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "too many nodes": (with_fleet(nodes=3), "4 nodes at 100 s, and the limit is 3"),
    "too many of a type": (with_fleet(types=NONE_RARE), "1 nodes of rare at 505 s"),
    "over the quota": (with_fleet(quotas=(("ann", 1),)), "2 GPUs of user ann at 450 s"),
    "more GPUs than a node has": (with_more(allocation("b", (0,), 1, (480, 580, 505), (0.3, 0.3))), "3 GPUs of node 0"),
    "a job with two allocations": (
        with_more(allocation("a", (0,), 1, (100, 130, 200), (0.4, 0.47))),
        "2 allocations of a",
    ),
    "a node rented twice": (with_rental(3, node=2), "node 2 is rented 2 times"),
    "an unknown type": (with_rental(0, type="huge"), "no type of the fleet: huge"),
    "a node ready before it booted": (with_rental(2, ready_seconds=40), "before it has booted"),
    "an unknown node": (with_allocation(0, nodes=(9,)), "no node of (9,)"),
    "an unknown job": (with_allocation(0, job="z"), "z at 0 s: there is no such job"),
    "no slot": (with_fleet(slots=(*SLOTS[:3], SLOTS[3], Slot("spot", 1))), "g at 0 s has no slot"),
    "a gang of two types": (with_rental(3, type="rare"), "g at 0 s has no slot"),
    "a gang of one node twice": (with_allocation(1, nodes=(2, 2)), "g at 0 s has no slot"),
    "before the node is rented": (with_rental(1, start_seconds=101), "has node 1 while it is not rented"),
    "after the node is released": (with_rental(0, end_seconds=779), "has node 0 while it is not rented"),
    "a moment after the node is released": (with_rental(0, end_seconds=779.99), "has node 0 while it is not rented"),
    "before the node is ready": (with_rental(0, ready_seconds=60), "before node 0 is ready"),
    "before the submission": (
        lambda schedule: replace(schedule, jobs=(A, G, replace(B, submitted_seconds=101))),
        "b at 100 s runs before it is submitted",
    ),
    "work added between allocations": (with_allocation(3, done_before=0.5), "not its progress before"),
    "work added at first": (with_allocation(1, done_before=0.1), "not its progress before"),
    "work added in an allocation": (with_allocation(0, done_after=0.41), "goes from 0 to 0.41"),
    "a little work added": (with_allocation(0, done_after=0.4001), "goes from 0 to 0.4001"),
    "work lost in an allocation": (with_allocation(0, done_after=0.39), "goes from 0 to 0.39"),
    "more than everything done": (with_allocation(1, done_after=1.01), "goes from 0 to 1.01"),
    "more lost than was not saved": (with_allocation(2, done_after=0.2), "goes from 0 to 0.2"),
    "lost without a reclaim": (with_rental(1, reclaimed=False), "b at 100 s works 355 s"),
    "no restart": (with_delays(restart_seconds=21), "b at 505 s works before it is restored"),
    "no checkpoint": (with_delays(checkpoint_seconds=11), "a at 450 s works before it is restored"),
    "a true time that is another": (
        lambda schedule: replace(schedule, true_seconds=(A.seconds, (900.0,) * 6, B.seconds)),
        "g at 0 s works 600 s of 900 s",
    ),
    "an end that is missing": (with_ends(*ALL_ENDS[:2]), "b ends 0 times"),
    "an end too many": (with_ends(*ALL_ENDS, ALL_ENDS[0]), "g ends 2 times"),
    "an end at another moment": (with_ends(("g", 651), *ALL_ENDS[1:]), "g ends at 651 s, which is not when"),
    "an end before all is done": (
        lambda schedule: replace(schedule, allocations=schedule.allocations[:4]),
        "b ends at 1275 s, which is not when",
    ),
    "continuing after the end": (with_more(allocation("g", (4,), 1, (700, 730, 800), (1.0, 1.0))), "g runs on after"),
}


def test_legal_schedule_has_no_violations() -> None:
    assert schedule_violations(LEGAL_SCHEDULE) == ()


@pytest.mark.parametrize(("change", "message"), CHANGED.values(), ids=CHANGED.keys())
def test_illegal_schedule_has_a_violation(change: Callable[[Schedule], Schedule], message: str) -> None:
    found = schedule_violations(change(LEGAL_SCHEDULE))
    assert any(message in each for each in found), found


def test_rounding_is_no_violation() -> None:
    late = 780 * (1 + 1e-10)
    rounded = with_allocation(3, end_seconds=late, done_before=0.4 + 1e-12)(LEGAL_SCHEDULE)
    assert schedule_violations(rounded) == ()


def test_reclaimed_job_can_keep_more_than_its_checkpoint_interval_says() -> None:
    """A real job can save itself more often than it says."""
    more_saved = with_allocation(2, done_after=0.35)(LEGAL_SCHEDULE)
    assert not any("works 355 s" in each for each in schedule_violations(more_saved))


def test_allocation_split_in_two_needs_no_restart() -> None:
    first, *others = LEGAL_SCHEDULE.allocations
    halves = (
        replace(first, end_seconds=250, done_after=0.2),
        replace(first, start_seconds=250, work_start_seconds=250, done_before=0.2),
    )
    assert schedule_violations(replace(LEGAL_SCHEDULE, allocations=(*halves, *others))) == ()
