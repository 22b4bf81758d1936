"""The cost and the measures of a schedule, computed by hand."""

import math
from dataclasses import replace

from tests.scheduler.scripted import ONE, TWO, near, timed_job
from trainfare.model.queue import Delays, Fleet, single_node_slots
from trainfare.model.schedule import Allocation, NodeRental, Schedule, ScheduleOutcome
from trainfare.scheduler.evaluate import evaluate

FLEET = Fleet(nodes=2, types=(ONE, TWO), slots=single_node_slots((ONE, TWO)))
A = timed_job("a", 1000, 1000, 500, submitted=100, deadline=900)
B = timed_job("b", 400, 400, 200, submitted=200, deadline=5000)


def allocation(job: str, node: int, gpus: int, start: float, end: float, before: float, after: float) -> Allocation:
    return Allocation(
        job=job,
        nodes=(node,),
        gpus=gpus,
        start_seconds=start,
        work_start_seconds=start,
        end_seconds=end,
        done_before=before,
        done_after=after,
    )


def rental(node: int, kind: str, start: float, end: float) -> NodeRental:
    return NodeRental(node=node, type=kind, start_seconds=start, ready_seconds=start, end_seconds=end)


EXAMPLE = Schedule(
    policy="hand",
    fleet=FLEET,
    jobs=(A, B),
    true_seconds=(A.seconds, B.seconds),
    delays=Delays(),
    rentals=(rental(0, "two", 100, 1200), rental(1, "one", 600, 700)),
    allocations=(
        allocation("a", 0, 1, 100, 600, 0.0, 0.5),
        allocation("b", 0, 1, 200, 500, 0.0, 0.75),
        allocation("a", 0, 2, 600, 700, 0.5, 0.7),
        allocation("b", 1, 1, 600, 700, 0.75, 1.0),
        allocation("a", 0, 1, 900, 1200, 0.7, 1.0),
    ),
    ended_seconds=(("b", 700), ("a", 1200)),
    decision_seconds=(0.1, 0.2, 0.3),
    gaps=(0.01, 0.04, 0.0),
)
EMPTY = Schedule(
    policy="idle", fleet=FLEET, jobs=(), true_seconds=(), delays=Delays(), rentals=(), allocations=(), ended_seconds=()
)


def test_every_measure_agrees_with_a_calculation_by_hand() -> None:
    outcome = evaluate(EXAMPLE)
    assert outcome == ScheduleOutcome(
        policy="hand",
        jobs=2,
        total_usd=near(2.3 + 3.0),
        rental_usd=near(1100 * 0.002 + 100 * 0.001),
        tardiness_usd=near(300 * 0.01),
        tardiness_seconds=300,
        late_jobs=1,
        makespan_seconds=1100,
        mean_completion_seconds=(1100 + 500) / 2,
        p99_completion_seconds=near(500 + 0.99 * 600),
        node_hours=near(1200 / 3600),
        gpu_use=near((500 + 300 + 200 + 100 + 300) / (2 * 1100 + 100)),
        migrations=3,
        preemptions=2,
        reclaims=0,
        decisions=3,
        decision_p50_seconds=near(0.2),
        decision_p99_seconds=near(0.298),
        worst_gap=0.04,
    )


def test_measures_of_an_empty_schedule_are_zero() -> None:
    outcome = evaluate(EMPTY)
    assert outcome.worst_gap is None
    assert {getattr(outcome, name) for name in outcome.__slots__ if name not in ("policy", "worst_gap")} == {0}


def test_boot_and_restart_are_paid_and_not_used() -> None:
    slow = replace(EXAMPLE, allocations=tuple(replace(each, work_start_seconds=1200) for each in EXAMPLE.allocations))
    assert evaluate(slow).gpu_use == 0
    assert evaluate(slow).rental_usd == evaluate(EXAMPLE).rental_usd


def test_gang_uses_the_gpus_of_all_its_nodes() -> None:
    both = (replace(allocation("a", 0, 1, 100, 200, 0.0, 1.0), nodes=(0, 1)),)
    rentals = (rental(0, "one", 100, 200), rental(1, "one", 100, 200))
    assert evaluate(replace(EXAMPLE, allocations=both, rentals=rentals)).gpu_use == near(1)


def test_job_without_a_deadline_is_never_late() -> None:
    free = replace(EXAMPLE, jobs=(replace(A, deadline_seconds=math.inf), B))
    assert (evaluate(free).tardiness_usd, evaluate(free).late_jobs) == (0, 0)


def test_job_that_ends_at_its_deadline_is_not_late_by_rounding() -> None:
    close = replace(EXAMPLE, jobs=(replace(A, deadline_seconds=1200 - 1e-10), B))
    assert evaluate(close).late_jobs == 0


def test_job_that_still_runs_enters_no_mean() -> None:
    running = replace(EXAMPLE, ended_seconds=(("b", 700),))
    assert evaluate(running).mean_completion_seconds == 500
    assert evaluate(running).tardiness_usd == 0


def test_continuing_on_the_same_slot_after_a_wait_is_a_preemption_and_no_migration() -> None:
    parts = (allocation("a", 0, 1, 100, 600, 0.0, 0.5), allocation("a", 0, 1, 700, 1200, 0.5, 1.0))
    outcome = evaluate(replace(EXAMPLE, allocations=parts))
    assert (outcome.migrations, outcome.preemptions) == (0, 1)


def test_job_without_progress_does_not_migrate() -> None:
    parts = (allocation("a", 0, 1, 100, 100, 0.0, 0.0), allocation("a", 1, 1, 100, 1100, 0.0, 1.0))
    assert evaluate(replace(EXAMPLE, allocations=parts)).migrations == 0


def test_reclaimed_nodes_are_counted_and_paid_until_the_reclaim() -> None:
    gone = replace(EXAMPLE, rentals=(EXAMPLE.rentals[0], replace(EXAMPLE.rentals[1], reclaimed=True)))
    assert evaluate(gone).reclaims == 1
    assert evaluate(gone).rental_usd == evaluate(EXAMPLE).rental_usd
