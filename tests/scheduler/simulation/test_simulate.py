"""The events and delays of a simulated queue, computed by hand, and invariants of every simulation."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.makers import AZURE, K80, make_job
from tests.scheduler.scripted import ONE, SPOT, TWO, keep_running, near, plan, random_policy, scripted_policy, timed_job
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
from trainfare.model.schedule import Allocation, Schedule
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.execution import restore_seconds
from trainfare.scheduler.legal import schedule_violations
from trainfare.scheduler.policies.registry import Policy
from trainfare.scheduler.simulation import simulate as simulate_module
from trainfare.scheduler.simulation.simulate import ProgressCallback, SimulationProgress, UnfinishedJobsError, simulate

TYPES = (ONE, TWO)
SLOTS = single_node_slots(TYPES)  # one (1), two (1), two (2)
A = timed_job("a", 1000, 1000, 500)


def queue(*jobs: Job, types: tuple[NodeType, ...] = TYPES, slots: tuple[Slot, ...] = ()) -> Instance:
    return Instance(types=types, slots=slots or single_node_slots(types), jobs=jobs)


class Conditions(TypedDict, total=False):
    delays: Delays
    tick_seconds: float | None
    seed: int
    clock: Callable[[], float]


def run(
    instance: Instance, policy: Policy, *, on_progress: ProgressCallback | None = None, **how: Unpack[Conditions]
) -> Schedule:
    schedule = simulate(instance, policy, name="scripted", nodes=2, on_progress=on_progress, **how)
    assert schedule_violations(schedule) == ()
    return schedule


def ends(schedule: Schedule) -> dict[str, float]:
    return dict(schedule.ended_seconds)


def spans(schedule: Schedule) -> list[tuple[str, float, float, float]]:
    return [(each.job, each.start_seconds, each.work_start_seconds, each.end_seconds) for each in schedule.allocations]


def moments(instance: Instance, policy: Policy, **how: Unpack[Conditions]) -> list[float]:
    found: list[float] = []
    run(instance, policy, on_progress=lambda progress: found.append(progress.now_seconds), **how)
    return found


# Events


def test_single_job_is_paid_from_its_submission_to_its_end() -> None:
    schedule = run(queue(replace(A, submitted_seconds=100)), scripted_policy({100: (plan("one", ("a", 1)),)}))
    assert ends(schedule) == {"a": 1100}
    assert evaluate(schedule).rental_usd == near(1.0)


def test_complete_node_is_paid_until_its_last_job_ends() -> None:
    jobs = (A, timed_job("b", 400, 400, 200))
    schedule = run(queue(*jobs), scripted_policy({0: (plan("two", ("a", 1), ("b", 1)),)}))
    assert ends(schedule) == {"b": 400, "a": 1000}
    assert evaluate(schedule).rental_usd == near(2.0)


def test_progress_follows_the_job_from_slot_to_slot() -> None:
    schedule = run(
        queue(A),
        scripted_policy({0: (plan("one", ("a", 1)),), 400: (plan("two", ("a", 2)),)}),
        tick_seconds=400,
    )
    assert ends(schedule) == {"a": near(400 + 0.6 * 500)}
    assert [each.done_before for each in schedule.allocations] == [0, near(0.4)]
    assert [each.type for each in schedule.rentals] == ["one", "two"]


def test_simultaneous_events_lead_to_one_decision() -> None:
    jobs = (A, timed_job("b", 1000, 1000, 500), timed_job("c", 10, 10, 5, submitted=1000))
    both = (plan("one", ("a", 1)), plan("one", ("b", 1)))
    assert moments(queue(*jobs), scripted_policy({0: both, 1000: (plan("one", ("c", 1)),)})) == [0, 1000]


def test_ends_that_differ_by_rounding_lead_to_one_decision() -> None:
    jobs = (A, timed_job("b", 900 + 1e-10, 1000, 500, submitted=100), timed_job("c", 1, 1, 1, submitted=2000))
    orders = {
        0: (plan("one", ("a", 1)),),
        100: (plan("one", ("a", 1), node=0), plan("one", ("b", 1))),
        2000: (plan("one", ("c", 1)),),
    }
    assert moments(queue(*jobs), scripted_policy(orders)) == [0, 100, 1000, 2000]


def test_tick_counts_from_the_last_decision() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=450))
    orders = {0: (plan("one", ("a", 1)),), 450: (plan("one", ("a", 1), node=0), plan("one", ("b", 1)))}
    assert moments(queue(*jobs), scripted_policy(orders), tick_seconds=200) == [0, 200, 400, 450, 650, 750, 950]


def test_no_ticks_while_no_job_is_queued_and_no_node_rented() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 100, 100, 50, submitted=10_000))
    orders = {0: (plan("one", ("a", 1)),), 10_000: (plan("one", ("b", 1)),)}
    assert moments(queue(*jobs), scripted_policy(orders), tick_seconds=60) == [0, 60, 100, 10_000, 10_060]


def test_empty_node_is_paid_and_keeps_ticks() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 100, 100, 50, submitted=300))
    orders = {
        0: (plan("one", ("a", 1)),),
        100: (plan("one", node=0),),
        200: (plan("one", node=0),),
        300: (plan("one", ("b", 1), node=0),),
    }
    schedule = run(queue(*jobs), scripted_policy(orders), tick_seconds=100)
    assert [(each.start_seconds, each.end_seconds) for each in schedule.rentals] == [(0, 400)]
    assert moments(queue(*jobs), scripted_policy(orders), tick_seconds=100) == [0, 100, 200, 300]


def test_policy_sees_submitted_jobs_and_no_future_ones() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=600))
    states: list[State] = []
    orders = {0: (plan("one", ("a", 1)),), 600: (plan("one", ("a", 1), node=0), plan("one", ("b", 1)))}
    run(queue(*jobs), scripted_policy(orders, states=states))
    assert [[queued.job.id for queued in state.jobs] for state in states] == [["a"], ["a", "b"], ["a"]]
    assert [state.arrivals.jobs for state in states] == [1, 2, 2]
    assert [state.arrivals.last_seconds for state in states] == [0, 600, 600]
    assert [state.arrivals.mean_shortest_seconds for state in states] == [500, 325, 325]


def test_policy_sees_slots_and_progress_of_jobs() -> None:
    states: list[State] = []
    run(queue(A), scripted_policy({0: (plan("two", ("a", 2)),)}, states=states), tick_seconds=200)
    later = states[1].jobs[0]
    assert (later.nodes, later.gpus, later.done, later.saved) == ((0,), 2, near(0.4), 0)
    assert [(node.id, node.type, node.rented_seconds) for node in states[1].nodes] == [(0, "two", 0)]


def test_true_times_determine_progress_and_predictions_the_expected_progress() -> None:
    states: list[State] = []
    instance = replace(queue(A), true_seconds=((2000.0, 2000.0, 1000.0),))
    schedule = run(instance, scripted_policy({0: (plan("one", ("a", 1)),)}, states=states), tick_seconds=800)
    assert ends(schedule) == {"a": 2000}
    assert (states[1].jobs[0].done, states[1].jobs[0].expected_done) == (near(0.4), near(0.8))
    assert states[0].jobs[0].job.seconds == A.seconds


# Delays


def test_boot_delays_the_job_and_is_paid() -> None:
    schedule = run(queue(A), scripted_policy({0: (plan("one", ("a", 1)),)}), delays=Delays(boot_seconds=120))
    assert spans(schedule) == [("a", 0, 120, 1120)]
    assert evaluate(schedule).rental_usd == near(1.12)


SLOW = Delays(boot_seconds=50, checkpoint_seconds=10, restart_seconds=20)


def test_migration_waits_for_the_boot_then_checkpoints_and_restarts() -> None:
    orders = {0: (plan("one", ("a", 1)),), 450: (plan("two", ("a", 2)),)}
    schedule = run(queue(A), scripted_policy(orders), delays=SLOW, tick_seconds=450)
    # 400 of 1000 s are done; the node boots until 500, the job is restored until 530; 0.6 of 500 s are left.
    assert spans(schedule) == [("a", 0, 50, 450), ("a", 450, 530, near(830))]


def test_more_gpus_on_the_same_node_are_a_migration_without_a_boot() -> None:
    orders = {0: (plan("two", ("a", 1)),), 450: (plan("two", ("a", 2), node=0),)}
    schedule = run(queue(A), scripted_policy(orders), delays=SLOW, tick_seconds=450)
    assert spans(schedule)[1] == ("a", 450, 480, near(780))


def test_preempted_job_pays_its_delays_where_it_continues() -> None:
    states: list[State] = []
    orders = {0: (plan("one", ("a", 1)),), 450: (), 900: (plan("one", ("a", 1)),)}
    schedule = run(queue(A), scripted_policy(orders, states=states), delays=SLOW, tick_seconds=450)
    waits = states[2].jobs[0]
    assert (waits.done, waits.saved, waits.preempted, waits.nodes) == (near(0.4), near(0.4), True, ())
    assert waits.expected_done == near(0.4)
    assert spans(schedule)[1] == ("a", 900, 900 + 50 + 10 + 20, near(1580))


def test_job_without_progress_migrates_without_delay() -> None:
    orders = {0: (plan("one", ("a", 1)),), 20: (plan("one", ("a", 1)),)}
    schedule = run(queue(A), scripted_policy(orders), delays=SLOW, tick_seconds=20)
    assert spans(schedule)[1] == ("a", 20, 70, 1070)


def test_job_that_stays_is_not_affected_by_new_jobs_on_its_node() -> None:
    jobs = (A, timed_job("b", 300, 300, 150, submitted=200))
    orders = {0: (plan("two", ("a", 1)),), 200: (plan("two", ("b", 1), ("a", 1), node=0),)}
    schedule = run(queue(*jobs), scripted_policy(orders), delays=SLOW)
    assert spans(schedule) == [("a", 0, 50, 1050), ("b", 200, 200, 500)]


def test_restore_time_depends_on_the_state_of_the_job() -> None:
    def cost(**how: object) -> float:
        return restore_seconds(QueuedJob(job=A, **how), SLOW)  # type: ignore[arg-type] # fields by name, of several types

    assert cost() == cost(nodes=(1,), gpus=1) == cost(preempted=True) == 0
    assert cost(done=0.5, nodes=(1,), gpus=1) == cost(done=0.5, preempted=True) == 30
    assert cost(done=0.5, saved=0.5) == 20


# Reclaimed nodes

SPOTS = (SPOT, ONE)
S = timed_job("a", 1000, 1000)
LIFETIME = 600 * float(np.random.default_rng((7, 0)).exponential())
"""The lifetime of the first node with the seed 7."""


def spot_then_on_demand(states: list[State] | None = None) -> Policy:
    """Rents spot first and, after a reclaim, on demand."""

    def policy(state: State) -> Decision:
        if states is not None:
            states.append(state)
        if state.nodes:
            return keep_running(state)
        return Decision(nodes=(plan("spot" if state.now_seconds == 0 else "one", ("a", 1)),))

    return policy


def test_reclaimed_job_falls_back_to_its_checkpoint() -> None:
    states: list[State] = []
    delays = replace(SLOW, checkpoint_every_seconds=30)
    schedule = run(queue(S, types=SPOTS), spot_then_on_demand(states), delays=delays, seed=7)
    saved = (LIFETIME - 50) // 30 * 30 / 1000
    assert 0 < saved < (LIFETIME - 50) / 1000
    assert schedule.rentals[0].reclaimed
    assert schedule.rentals[0].end_seconds == near(LIFETIME)
    waits = states[1].jobs[0]
    assert (waits.done, waits.saved, waits.preempted) == (near(saved), near(saved), False)
    assert waits.expected_done == near(saved)  # the prediction was right, and still is
    again = schedule.allocations[1]
    assert again.work_start_seconds == near(LIFETIME + 50 + 20)  # no checkpoint
    assert again.end_seconds == near(again.work_start_seconds + (1 - saved) * 1000)
    assert evaluate(schedule).reclaims == 1


def test_job_without_a_checkpoint_starts_over() -> None:
    schedule = run(queue(S, types=SPOTS), spot_then_on_demand(), delays=SLOW, seed=7)
    assert schedule.allocations[1].done_before == 0
    assert schedule.allocations[1].work_start_seconds == near(LIFETIME + 50)


def test_on_demand_nodes_are_not_reclaimed() -> None:
    schedule = run(queue(S, types=SPOTS), scripted_policy({0: (plan("one", ("a", 1)),)}))
    assert evaluate(schedule).reclaims == 0


def lifetime(seed: int, *kinds: str) -> float:
    """The lifetime of the second of two nodes of these types; a job that loses its node continues on demand."""
    jobs = tuple(timed_job(name, 1e5, 1e5) for name in "ab")

    def policy(state: State) -> Decision:
        types = kinds if state.now_seconds == 0 else ("one", "one")
        waiting = (queued.job.id for queued in state.jobs if not queued.nodes)
        new = tuple(plan(kind, (name, 1)) for name, kind in zip(waiting, types, strict=False))
        return Decision(nodes=keep_running(state).nodes + new)

    return run(queue(*jobs, types=SPOTS), policy, seed=seed).rentals[1].end_seconds


def test_reclaims_depend_only_on_the_seed_and_the_number_of_the_node() -> None:
    assert lifetime(1, "one", "spot") == lifetime(1, "spot", "spot") < 1e5
    assert lifetime(1, "one", "spot") != lifetime(2, "one", "spot")
    assert lifetime(1, "one", "one") == 1e5


def test_gang_stops_when_one_of_its_nodes_is_reclaimed() -> None:
    slots = (Slot("spot", 1), Slot("one", 1), Slot("spot", 1, 2))
    job = timed_job("a", 1000, 1000, 500)

    def policy(state: State) -> Decision:
        if state.now_seconds == 0:
            return Decision(nodes=(plan("spot", ("a", 1)), plan("spot", ("a", 1))))
        return keep_running(state) if state.jobs[0].nodes else Decision(nodes=(plan("one", ("a", 1)),))

    schedule = run(queue(job, types=SPOTS, slots=slots), policy, seed=7)
    gone = min(LIFETIME, 600 * float(np.random.default_rng((7, 1)).exponential()))
    assert gone < 500
    assert schedule.allocations[0].nodes == (0, 1)
    assert [each.end_seconds for each in schedule.rentals[:2]] == [near(gone)] * 2
    assert [each.reclaimed for each in schedule.rentals[:2]].count(True) == 1
    assert schedule.ended_seconds[0][1] == near(gone + 1000)


# Errors


def test_invalid_decision_raises_an_error_that_names_the_policy() -> None:
    with pytest.raises(ValueError, match=r"scripted at 0 s cannot be carried out: a one has fewer GPUs"):
        run(queue(A), scripted_policy({0: (plan("one", ("a", 2)),)}))


@pytest.mark.parametrize("tick_seconds", [None, 60.0], ids=["no tick", "tick"])
def test_job_that_is_never_placed_raises_an_error(tick_seconds: float | None) -> None:
    with pytest.raises(UnfinishedJobsError, match=r"scripted never finishes the jobs a: "):
        run(queue(A), scripted_policy({}), tick_seconds=tick_seconds)


def test_simulation_fails_if_nodes_are_always_reclaimed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_module, "MAX_IDLE_DECISIONS", 100)
    instance = queue(timed_job("a", 1e6), types=(SPOT,))
    with pytest.raises(UnfinishedJobsError, match="100 decisions"):
        run(instance, lambda _: Decision(nodes=(plan("spot", ("a", 1)),)))


def test_simulation_fails_if_jobs_migrate_faster_than_they_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_module, "MAX_IDLE_DECISIONS", 100)
    with pytest.raises(UnfinishedJobsError):
        run(queue(A), lambda _: Decision(nodes=(plan("one", ("a", 1)),)), delays=SLOW, tick_seconds=40)


def test_tick_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="tick_seconds"):
        run(queue(A), scripted_policy({}), tick_seconds=0)


# Empty queues, clocks and callbacks


def test_an_empty_queue_needs_no_decision() -> None:
    schedule = run(queue(), scripted_policy({}), clock=lambda: 0.0)
    assert (schedule.rentals, schedule.allocations, schedule.decision_seconds) == ((), (), ())


def test_given_clock_measures_decisions() -> None:
    ticks = iter([10.0, 10.5, 20.0, 20.25])
    policy = scripted_policy({0: (plan("one", ("a", 1)),)})
    assert run(queue(A), policy, clock=lambda: next(ticks), tick_seconds=600).decision_seconds == (0.5, 0.25)
    assert run(queue(A), policy).decision_seconds == ()


def test_gaps_are_recorded_for_decisions_with_a_bound() -> None:
    bounds = iter([(11.0, 10.0), (5.0, None), (1.0, 0.0)])

    def policy(state: State) -> Decision:
        usd, bound = next(bounds)
        plans = keep_running(state).nodes or (plan("one", ("a", 1)),)
        return Decision(nodes=plans, usd=usd, bound_usd=bound)

    assert run(queue(A), policy, tick_seconds=400).gaps == (near(0.1),)


def test_progress_callback_gets_counts_and_can_stop_the_simulation() -> None:
    jobs = (timed_job("a", 100, 100, 50), timed_job("b", 300, 300, 150))
    policy = scripted_policy({0: (plan("one", ("a", 1)),), 100: (plan("one", ("b", 1)),)})
    found: list[SimulationProgress] = []
    run(queue(*jobs), policy, on_progress=found.append)
    counts = [(each.now_seconds, each.waiting, each.running, each.ended) for each in found]
    assert counts == [(0, 1, 1, 0), (100, 0, 1, 1)]
    assert {(each.policy, each.jobs) for each in found} == {("scripted", 2)}

    def stop(_: SimulationProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(queue(*jobs), policy, on_progress=stop)


# Invariants of every simulation

MIXED = (*K80, NodeType(name="spot", gpu="K80", gpus=2, usd_per_hour=0.4, reclaims_per_hour=0.5, max_nodes=2))
GANGS = (Slot("NC12", 2, 2), Slot("NC6", 1, 3))
REAL = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60, checkpoint_every_seconds=600)


def mixed_instance(seed: int, *, jobs: int = 6) -> Instance:
    """A queue with gangs, spot, quotas, slots on which a job cannot run, and wrong predictions."""
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
        random_policy(seed, keep=0.85),
        name="random",
        nodes=4,
        delays=REAL if real else Delays(),
        tick_seconds=1800 if seed % 2 else None,
        seed=seed,
    )


seeds = given(st.integers(0, 2**32 - 1), st.booleans())


@seeds
@settings(max_examples=60, deadline=None)
def test_every_simulated_schedule_is_legal(seed: int, real: bool) -> None:
    assert schedule_violations(simulated(seed, real=real)) == ()


@seeds
@settings(max_examples=15, deadline=None)
def test_the_same_seed_gives_the_same_schedule(seed: int, real: bool) -> None:
    assert simulated(seed, real=real) == simulated(seed, real=real)


@seeds
@settings(max_examples=15, deadline=None)
def test_job_names_do_not_matter(seed: int, real: bool) -> None:
    instance = mixed_instance(seed)
    renamed = replace(instance, jobs=tuple(replace(job, id=f"other {job.id[::-1]}") for job in instance.jobs))
    one, other = (evaluate(simulated(seed, real=real, instance=each)) for each in (instance, renamed))
    assert one == other


@seeds
@settings(max_examples=15, deadline=None)
def test_node_ids_do_not_matter(seed: int, real: bool) -> None:
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
def test_rent_covers_the_share_of_every_used_gpu(seed: int, real: bool) -> None:
    schedule = simulated(seed, real=real)
    kinds = {each.node: schedule.fleet.type_of(each.type) for each in schedule.rentals}

    def share_usd(each: Allocation) -> float:
        kind = kinds[each.nodes[0]]
        return kind.usd_per_second * each.gpus / kind.gpus * len(each.nodes) * (each.end_seconds - each.start_seconds)

    assert evaluate(schedule).rental_usd >= sum(map(share_usd, schedule.allocations)) * (1 - 1e-9)


@seeds
@settings(max_examples=15, deadline=None)
def test_doubled_prices_double_the_rent_and_keep_the_lateness(seed: int, real: bool) -> None:
    instance = mixed_instance(seed)
    expensive = replace(instance, types=tuple(replace(kind, usd_per_hour=2 * kind.usd_per_hour) for kind in MIXED))
    one, other = (evaluate(simulated(seed, real=real, instance=each)) for each in (instance, expensive))
    assert other.rental_usd == near(2 * one.rental_usd)
    assert other.tardiness_usd == one.tardiness_usd


def test_progress_is_recorded_separately_for_each_kind_of_gpu() -> None:
    """Half an hour on a K80 at the predicted speed, then half an hour on an M60 at half of it."""
    job = make_job(types=AZURE, hours=2.0)
    truth = tuple(
        seconds * (2.0 if slot.type.startswith("NV") else 1.0)
        for seconds, slot in zip(job.seconds, single_node_slots(AZURE), strict=True)
    )
    instance = Instance(types=AZURE, slots=single_node_slots(AZURE), jobs=(job,), true_seconds=(truth,))
    states: list[State] = []

    def migrates_once(state: State) -> Decision:
        states.append(state)
        kind = "NC6" if state.now_seconds < 1800 else "NV6"
        node_id = next((node.id for node in state.nodes if node.type == kind), None)
        return Decision(nodes=(NodePlan(type=kind, jobs=(("j1", 1),), node=node_id),))

    simulate(instance, migrates_once, name="migrates once", nodes=1, tick_seconds=1800.0)
    assert states[2].jobs[0].progress_by_gpu == (("K80", 0.25, 0.25), ("M60", 0.125, 0.25))
