"""The events and delays of a simulated queue, worked out by hand, and what holds of every simulation."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.makers import AZURE, K80, make_job
from tests.scheduler.scripted import ONE, SPOT, TWO, anyhow, as_it_is, near, plan, timed_job, told
from trainfare.model.queue import (
    Decision,
    Delays,
    Instance,
    Job,
    NodePlan,
    NodeType,
    QueuedJob,
    Slot,
    State,
    single_node_slots,
)
from trainfare.model.schedule import Schedule, Allocation
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.legal import schedule_violations
from trainfare.scheduler.policies.registry import Policy
from trainfare.scheduler.execution import restore_seconds
from trainfare.scheduler.simulation import simulate as simulate_file
from trainfare.scheduler.simulation.simulate import UnfinishedJobsError, Watch, simulate

TYPES = (ONE, TWO)
SLOTS = single_node_slots(TYPES)  # one (1), two (1), two (2)
A = timed_job("a", 1000, 1000, 500)


def queue(*jobs: Job, types: tuple[NodeType, ...] = TYPES, slots: tuple[Slot, ...] = ()) -> Instance:
    return Instance(types=types, slots=slots or single_node_slots(types), jobs=jobs)


class How(TypedDict, total=False):
    delays: Delays
    tick_seconds: float | None
    seed: int
    clock: Callable[[], float]


def run(instance: Instance, policy: Policy, *, watch: Watch | None = None, **how: Unpack[How]) -> Schedule:
    schedule = simulate(instance, policy, name="told", nodes=2, watch=watch, **how)
    assert schedule_violations(schedule) == ()
    return schedule


def ends(schedule: Schedule) -> dict[str, float]:
    return dict(schedule.ended_seconds)


def spans(schedule: Schedule) -> list[tuple[str, float, float, float]]:
    return [(each.job, each.start_seconds, each.work_start_seconds, each.end_seconds) for each in schedule.allocations]


def moments(schedule_of: Instance, policy: Policy, **how: Unpack[How]) -> list[float]:
    seen: list[float] = []
    run(schedule_of, policy, watch=lambda now, *_: seen.append(now), **how)
    return seen


# Events


def test_a_job_alone_is_paid_from_its_submission_to_its_end() -> None:
    schedule = run(queue(replace(A, submitted_seconds=100)), told({100: (plan("one", ("a", 1)),)}))
    assert ends(schedule) == {"a": 1100}
    assert evaluate(schedule).rental_usd == near(1.0)


def test_a_node_is_paid_whole_until_its_last_job_ends() -> None:
    jobs = (A, timed_job("b", 400, 400, 200))
    schedule = run(queue(*jobs), told({0: (plan("two", ("a", 1), ("b", 1)),)}))
    assert ends(schedule) == {"b": 400, "a": 1000}
    assert evaluate(schedule).rental_usd == near(2.0)


def test_progress_goes_with_the_job_from_slot_to_slot() -> None:
    schedule = run(
        queue(A),
        told({0: (plan("one", ("a", 1)),), 400: (plan("two", ("a", 2)),)}),
        tick_seconds=400,
    )
    assert ends(schedule) == {"a": near(400 + 0.6 * 500)}
    assert [each.done_before for each in schedule.allocations] == [0, near(0.4)]
    assert [each.type for each in schedule.rentals] == ["one", "two"]


def test_what_happens_at_one_moment_is_one_decision() -> None:
    jobs = (A, timed_job("b", 1000, 1000, 500), timed_job("c", 10, 10, 5, submitted=1000))
    both = (plan("one", ("a", 1)), plan("one", ("b", 1)))
    assert moments(queue(*jobs), told({0: both, 1000: (plan("one", ("c", 1)),)})) == [0, 1000]


def test_ends_that_differ_by_rounding_are_one_decision() -> None:
    jobs = (A, timed_job("b", 900 + 1e-10, 1000, 500, submitted=100), timed_job("c", 1, 1, 1, submitted=2000))
    orders = {
        0: (plan("one", ("a", 1)),),
        100: (plan("one", ("a", 1), node=0), plan("one", ("b", 1))),
        2000: (plan("one", ("c", 1)),),
    }
    assert moments(queue(*jobs), told(orders)) == [0, 100, 1000, 2000]


def test_the_tick_counts_from_the_last_decision() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=450))
    orders = {0: (plan("one", ("a", 1)),), 450: (plan("one", ("a", 1), node=0), plan("one", ("b", 1)))}
    assert moments(queue(*jobs), told(orders), tick_seconds=200) == [0, 200, 400, 450, 650, 750, 950]


def test_nothing_ticks_while_nothing_is_queued_or_rented() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 100, 100, 50, submitted=10_000))
    orders = {0: (plan("one", ("a", 1)),), 10_000: (plan("one", ("b", 1)),)}
    assert moments(queue(*jobs), told(orders), tick_seconds=60) == [0, 60, 100, 10_000, 10_060]


def test_a_node_kept_warm_is_paid_and_ticks() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 100, 100, 50, submitted=300))
    orders = {
        0: (plan("one", ("a", 1)),),
        100: (plan("one", node=0),),
        200: (plan("one", node=0),),
        300: (plan("one", ("b", 1), node=0),),
    }
    schedule = run(queue(*jobs), told(orders), tick_seconds=100)
    assert [(each.start_seconds, each.end_seconds) for each in schedule.rentals] == [(0, 400)]
    assert moments(queue(*jobs), told(orders), tick_seconds=100) == [0, 100, 200, 300]


def test_a_policy_sees_what_was_submitted_and_nothing_to_come() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=600))
    seen: list[State] = []
    orders = {0: (plan("one", ("a", 1)),), 600: (plan("one", ("a", 1), node=0), plan("one", ("b", 1)))}
    run(queue(*jobs), told(orders, seen=seen))
    assert [[queued.job.id for queued in state.jobs] for state in seen] == [["a"], ["a", "b"], ["a"]]
    assert [state.arrivals.jobs for state in seen] == [1, 2, 2]
    assert [state.arrivals.last_seconds for state in seen] == [0, 600, 600]
    assert [state.arrivals.mean_shortest_seconds for state in seen] == [500, 325, 325]


def test_a_policy_sees_where_jobs_are_and_how_far() -> None:
    seen: list[State] = []
    run(queue(A), told({0: (plan("two", ("a", 2)),)}, seen=seen), tick_seconds=200)
    later = seen[1].jobs[0]
    assert (later.nodes, later.gpus, later.done, later.saved) == ((0,), 2, near(0.4), 0)
    assert [(node.id, node.type, node.rented_seconds) for node in seen[1].nodes] == [(0, "two", 0)]


def test_true_times_rule_and_predictions_are_what_is_expected() -> None:
    seen: list[State] = []
    instance = replace(queue(A), true_seconds=((2000.0, 2000.0, 1000.0),))
    schedule = run(instance, told({0: (plan("one", ("a", 1)),)}, seen=seen), tick_seconds=800)
    assert ends(schedule) == {"a": 2000}
    assert (seen[1].jobs[0].done, seen[1].jobs[0].expected_done) == (near(0.4), near(0.8))
    assert seen[0].jobs[0].job.seconds == A.seconds


# Delays


def test_a_boot_is_waited_for_and_paid() -> None:
    schedule = run(queue(A), told({0: (plan("one", ("a", 1)),)}), delays=Delays(boot_seconds=120))
    assert spans(schedule) == [("a", 0, 120, 1120)]
    assert evaluate(schedule).rental_usd == near(1.12)


SLOW = Delays(boot_seconds=50, checkpoint_seconds=10, restart_seconds=20)


def test_a_move_waits_for_the_boot_then_saves_and_restores() -> None:
    orders = {0: (plan("one", ("a", 1)),), 450: (plan("two", ("a", 2)),)}
    schedule = run(queue(A), told(orders), delays=SLOW, tick_seconds=450)
    # 400 of 1000 s are done; it boots until 500 and is restored until 530; 0.6 of 500 s are left.
    assert spans(schedule) == [("a", 0, 50, 450), ("a", 450, 530, near(830))]


def test_other_gpus_on_the_same_node_are_a_move_without_a_boot() -> None:
    orders = {0: (plan("two", ("a", 1)),), 450: (plan("two", ("a", 2), node=0),)}
    schedule = run(queue(A), told(orders), delays=SLOW, tick_seconds=450)
    assert spans(schedule)[1] == ("a", 450, 480, near(780))


def test_a_stopped_job_is_charged_where_it_goes_on() -> None:
    seen: list[State] = []
    orders = {0: (plan("one", ("a", 1)),), 450: (), 900: (plan("one", ("a", 1)),)}
    schedule = run(queue(A), told(orders, seen=seen), delays=SLOW, tick_seconds=450)
    waits = seen[2].jobs[0]
    assert (waits.done, waits.saved, waits.stopped, waits.nodes) == (near(0.4), near(0.4), True, ())
    assert waits.expected_done == near(0.4)
    assert spans(schedule)[1] == ("a", 900, 900 + 50 + 10 + 20, near(1580))


def test_a_job_that_has_done_nothing_moves_for_nothing() -> None:
    orders = {0: (plan("one", ("a", 1)),), 20: (plan("one", ("a", 1)),)}
    schedule = run(queue(A), told(orders), delays=SLOW, tick_seconds=20)
    assert spans(schedule)[1] == ("a", 20, 70, 1070)


def test_a_job_that_stays_is_not_touched_by_what_comes_beside_it() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=200))
    orders = {0: (plan("two", ("a", 1)),), 200: (plan("two", ("b", 1), ("a", 1), node=0),)}
    schedule = run(queue(*jobs), told(orders), delays=SLOW)
    assert spans(schedule) == [("a", 0, 50, 1050), ("b", 200, 200, 500)]


def test_what_a_move_costs_follows_from_how_the_job_stands() -> None:
    def cost(**how: object) -> float:
        return restore_seconds(QueuedJob(job=A, **how), SLOW)  # type: ignore[arg-type] # fields by name

    assert cost() == cost(nodes=(1,), gpus=1) == cost(stopped=True) == 0
    assert cost(done=0.5, nodes=(1,), gpus=1) == cost(done=0.5, stopped=True) == 30
    assert cost(done=0.5, saved=0.5) == 20


# Reclaimed nodes

SPOTS = (SPOT, ONE)
S = timed_job("a", 1000, 1000)
LIFE = 600 * float(np.random.default_rng((7, 0)).exponential())
"""Of the first node with the seed 7."""


def spot_then_sure(seen: list[State] | None = None) -> Policy:
    """Spot at first; after a reclaim, on demand."""

    def policy(state: State) -> Decision:
        if seen is not None:
            seen.append(state)
        if state.nodes:
            return as_it_is(state)
        return Decision(nodes=(plan("spot" if state.now_seconds == 0 else "one", ("a", 1)),))

    return policy


def test_a_reclaimed_job_falls_back_to_what_it_saved() -> None:
    seen: list[State] = []
    delays = replace(SLOW, checkpoint_every_seconds=30)
    schedule = run(queue(S, types=SPOTS), spot_then_sure(seen), delays=delays, seed=7)
    saved = (LIFE - 50) // 30 * 30 / 1000
    assert 0 < saved < (LIFE - 50) / 1000
    assert schedule.rentals[0].reclaimed
    assert schedule.rentals[0].end_seconds == near(LIFE)
    waits = seen[1].jobs[0]
    assert (waits.done, waits.saved, waits.stopped) == (near(saved), near(saved), False)
    assert waits.expected_done == near(saved)  # the prediction was right, and still is
    again = schedule.allocations[1]
    assert again.work_start_seconds == near(LIFE + 50 + 20)  # no checkpoint
    assert again.end_seconds == near(again.work_start_seconds + (1 - saved) * 1000)
    assert evaluate(schedule).reclaims == 1


def test_a_job_that_saved_nothing_begins_again() -> None:
    schedule = run(queue(S, types=SPOTS), spot_then_sure(), delays=SLOW, seed=7)
    assert schedule.allocations[1].done_before == 0
    assert schedule.allocations[1].work_start_seconds == near(LIFE + 50)


def test_on_demand_nodes_stay() -> None:
    schedule = run(queue(S, types=SPOTS), told({0: (plan("one", ("a", 1)),)}))
    assert evaluate(schedule).reclaims == 0


def life(seed: int, *kinds: str) -> float:
    """Of the second of two nodes of these types; who loses a node goes on demand."""
    jobs = tuple(timed_job(name, 1e5, 1e5) for name in "ab")

    def policy(state: State) -> Decision:
        sought = kinds if state.now_seconds == 0 else ("one", "one")
        waiting = (queued.job.id for queued in state.jobs if not queued.nodes)
        fresh = tuple(plan(kind, (name, 1)) for name, kind in zip(waiting, sought, strict=False))
        return Decision(nodes=as_it_is(state).nodes + fresh)

    return run(queue(*jobs, types=SPOTS), policy, seed=seed).rentals[1].end_seconds


def test_luck_follows_the_seed_and_the_number_of_the_node_alone() -> None:
    assert life(1, "one", "spot") == life(1, "spot", "spot") < 1e5
    assert life(1, "one", "spot") != life(2, "one", "spot")
    assert life(1, "one", "one") == 1e5


def test_a_gang_stops_when_one_of_its_nodes_goes() -> None:
    slots = (Slot("spot", 1), Slot("one", 1), Slot("spot", 1, 2))
    job = timed_job("a", 1000, 1000, 500)

    def policy(state: State) -> Decision:
        if state.now_seconds == 0:
            return Decision(nodes=(plan("spot", ("a", 1)), plan("spot", ("a", 1))))
        return as_it_is(state) if state.jobs[0].nodes else Decision(nodes=(plan("one", ("a", 1)),))

    schedule = run(queue(job, types=SPOTS, slots=slots), policy, seed=7)
    gone = min(LIFE, 600 * float(np.random.default_rng((7, 1)).exponential()))
    assert gone < 500
    assert schedule.allocations[0].nodes == (0, 1)
    assert [each.end_seconds for each in schedule.rentals[:2]] == [near(gone)] * 2
    assert [each.reclaimed for each in schedule.rentals[:2]].count(True) == 1
    assert schedule.ended_seconds[0][1] == near(gone + 1000)


# What goes wrong


def test_an_unfit_decision_is_the_fault_of_a_policy_by_name() -> None:
    with pytest.raises(ValueError, match=r"told decided at 0 s what cannot be done: a one has fewer GPUs"):
        run(queue(A), told({0: (plan("one", ("a", 2)),)}))


@pytest.mark.parametrize("tick_seconds", [None, 60.0], ids=["no tick", "tick"])
def test_a_job_that_is_never_placed_is_an_error_and_no_endless_wait(tick_seconds: float | None) -> None:
    with pytest.raises(UnfinishedJobsError, match=r"told leaves jobs unfinished for ever: a; "):
        run(queue(A), told({}), tick_seconds=tick_seconds)


def test_nodes_that_never_stay_long_enough_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_file, "IN_VAIN", 100)
    instance = queue(timed_job("a", 1e6), types=(SPOT,))
    with pytest.raises(UnfinishedJobsError, match="100 decisions"):
        run(instance, lambda _: Decision(nodes=(plan("spot", ("a", 1)),)))


def test_moving_faster_than_restoring_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_file, "IN_VAIN", 100)
    with pytest.raises(UnfinishedJobsError):
        run(queue(A), lambda _: Decision(nodes=(plan("one", ("a", 1)),)), delays=SLOW, tick_seconds=40)


def test_a_tick_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="tick_seconds"):
        run(queue(A), told({}), tick_seconds=0)


# Around it


def test_an_empty_queue_needs_no_decision() -> None:
    schedule = run(queue(), told({}), clock=lambda: 0.0)
    assert (schedule.rentals, schedule.allocations, schedule.decision_seconds) == ((), (), ())


def test_decisions_are_timed_by_the_clock_that_is_given() -> None:
    ticks = iter([10.0, 10.5, 20.0, 20.25])
    policy = told({0: (plan("one", ("a", 1)),)})
    assert run(queue(A), policy, clock=lambda: next(ticks), tick_seconds=600).decision_seconds == (0.5, 0.25)
    assert run(queue(A), policy).decision_seconds == ()


def test_gaps_are_kept_of_decisions_that_have_a_bound() -> None:
    bounds = iter([(11.0, 10.0), (5.0, None), (1.0, 0.0)])

    def policy(state: State) -> Decision:
        usd, bound = next(bounds)
        plans = as_it_is(state).nodes or (plan("one", ("a", 1)),)
        return Decision(nodes=plans, usd=usd, bound_usd=bound)

    assert run(queue(A), policy, tick_seconds=400).gaps == (near(0.1),)


def test_who_watches_sees_counts_and_may_stop_it() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 300, 300, 150))
    policy = told({0: (plan("one", ("a", 1)),), 100: (plan("one", ("b", 1)),)})
    seen: list[tuple[float, int, int, int]] = []
    run(queue(*jobs), policy, watch=lambda *counts: seen.append(counts))
    assert seen == [(0, 1, 1, 0), (100, 0, 1, 1)]

    def stop(*_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(queue(*jobs), policy, watch=stop)


# What holds of every simulation

MIXED = (*K80, NodeType(name="spot", gpu="K80", gpus=2, usd_per_hour=0.4, reclaims_per_hour=0.5, max_nodes=2))
GANGS = (Slot("NC12", 2, 2), Slot("NC6", 1, 3))
REAL = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60, checkpoint_every_seconds=600)


def mixed_instance(seed: int, *, jobs: int = 6) -> Instance:
    """Gangs, spot, users with quotas, slots on which a job cannot run, and predictions that are wrong."""
    rng = np.random.default_rng(seed)
    slots = single_node_slots(MIXED) + GANGS
    moments = np.sort(rng.uniform(0, 7200, jobs)) * rng.integers(0, 2, jobs).cumsum().clip(0, 1)
    made = []
    for number in range(jobs):
        hours, power = rng.uniform(0.2, 2), rng.uniform(0.3, 1)
        seconds = [3600 * hours / (slot.gpus * slot.nodes) ** power for slot in slots]
        seconds[int(rng.integers(1, len(slots)))] = np.inf
        made.append(
            timed_job(
                f"j{number}",
                *map(float, seconds),
                submitted=float(moments[number]),
                deadline=float(moments[number] + rng.uniform(1, 3) * 3600 * hours),
                user=("x", "y", "")[number % 3],
            )
        )
    factors = np.exp(0.3 * rng.standard_normal(jobs))
    true = tuple(tuple(float(f) * s for s in job.seconds) for job, f in zip(made, factors, strict=True))
    return Instance(types=MIXED, slots=slots, jobs=tuple(made), true_seconds=true, quotas=(("x", 3), ("y", 6)))


def simulated(seed: int, *, real: bool, instance: Instance | None = None) -> Schedule:
    return simulate(
        instance or mixed_instance(seed),
        anyhow(seed, keep=0.85),
        name="anyhow",
        nodes=4,
        delays=REAL if real else Delays(),
        tick_seconds=1800 if seed % 2 else None,
        seed=seed,
    )


seeds = given(st.integers(0, 2**32 - 1), st.booleans())


@seeds
@settings(max_examples=60, deadline=None)
def test_whatever_a_policy_decides_the_schedule_could_have_happened(seed: int, real: bool) -> None:
    assert schedule_violations(simulated(seed, real=real)) == ()


@seeds
@settings(max_examples=15, deadline=None)
def test_the_same_seed_gives_the_same_schedule(seed: int, real: bool) -> None:
    assert simulated(seed, real=real) == simulated(seed, real=real)


@seeds
@settings(max_examples=15, deadline=None)
def test_names_of_jobs_make_no_difference(seed: int, real: bool) -> None:
    instance = mixed_instance(seed)
    renamed = replace(instance, jobs=tuple(replace(job, id=f"other {job.id[::-1]}") for job in instance.jobs))
    one, other = (evaluate(simulated(seed, real=real, instance=each)) for each in (instance, renamed))
    assert one == other


@seeds
@settings(max_examples=15, deadline=None)
def test_names_of_nodes_make_no_difference(seed: int, real: bool) -> None:
    schedule = simulated(seed, real=real)
    renamed = replace(
        schedule,
        rentals=tuple(replace(each, node=1000 - each.node) for each in schedule.rentals),
        allocations=tuple(replace(each, nodes=tuple(1000 - n for n in each.nodes)) for each in schedule.allocations),
    )
    assert schedule_violations(renamed) == ()
    assert evaluate(renamed) == evaluate(schedule)


@seeds
@settings(max_examples=15, deadline=None)
def test_rent_covers_the_share_of_every_gpu_that_was_used(seed: int, real: bool) -> None:
    schedule = simulated(seed, real=real)
    kinds = {each.node: schedule.fleet.type_of(each.type) for each in schedule.rentals}

    def share_usd(each: Allocation) -> float:
        kind = kinds[each.nodes[0]]
        return kind.usd_per_second * each.gpus / kind.gpus * len(each.nodes) * (each.end_seconds - each.start_seconds)

    assert evaluate(schedule).rental_usd >= sum(map(share_usd, schedule.allocations)) * (1 - 1e-9)


@seeds
@settings(max_examples=15, deadline=None)
def test_twice_the_prices_are_twice_the_rent_and_the_same_lateness(seed: int, real: bool) -> None:
    instance = mixed_instance(seed)
    dear = replace(instance, types=tuple(replace(kind, usd_per_hour=2 * kind.usd_per_hour) for kind in MIXED))
    one, other = (evaluate(simulated(seed, real=real, instance=each)) for each in (instance, dear))
    assert other.rental_usd == near(2 * one.rental_usd)
    assert other.tardiness_usd == one.tardiness_usd


def test_what_a_job_has_done_is_seen_apart_for_each_kind_of_gpu() -> None:
    """Half an hour on a K80 that is as predicted, then half an hour on an M60 that takes twice as long."""
    job = make_job(types=AZURE, hours=2.0)
    truth = tuple(
        seconds * (2.0 if slot.type.startswith("NV") else 1.0)
        for seconds, slot in zip(job.seconds, single_node_slots(AZURE), strict=True)
    )
    instance = Instance(types=AZURE, slots=single_node_slots(AZURE), jobs=(job,), true_seconds=(truth,))
    states: list[State] = []

    def moves_once(state: State) -> Decision:
        states.append(state)
        kind = "NC6" if state.now_seconds < 1800 else "NV6"
        here = next((node.id for node in state.nodes if node.type == kind), None)
        return Decision(nodes=(NodePlan(type=kind, jobs=(("j1", 1),), node=here),))

    simulate(instance, moves_once, name="moves once", nodes=1, tick_seconds=1800.0)
    assert states[2].jobs[0].seen == (("K80", 0.25, 0.25), ("M60", 0.125, 0.25))
