"""The randomised greedy: never less work per dollar or more lateness than Greedy, the same for the same state."""

import math
from collections.abc import Callable

import pytest

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state, random_instance
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import Decision, Job, NodePlan, Slot, State
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.packing.layout import layout_from_plans
from trainfare.scheduler.policies.greedy import greedy_plans
from trainfare.scheduler.policies.random_greedy import MIN_RUNS, RUNS, LayoutBuilder, random_greedy, run_count
from trainfare.scheduler.pricing.objective import decision_usd
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import remaining_seconds

HOUR = 3600.0


def crowded(seed: int, *, jobs: int = 12, nodes: int = 3) -> State:
    """More jobs than slots, an hour after the first."""
    return make_state(
        random_instance(seed, jobs=jobs, types=AZURE, load=12).jobs, make_fleet(nodes, AZURE), now_seconds=HOUR
    )


def test_work_per_dollar_is_work_divided_by_cost_to_the_end() -> None:
    """Two jobs share a node by their GPUs; one is an hour late."""
    state = make_state(
        [
            make_job("a", hours=4, power=1.0),
            make_job("b", hours=2, power=1.0, deadline_seconds=HOUR, late_usd_per_second=0.001),
        ]
    )
    plans = [NodePlan(type="NC24", jobs=(("a", 2), ("b", 1)))]
    a = 4 * HOUR / (2.25 * 2 * 2 / 3)
    b = 2 * HOUR / (2.25 * 2 * 1 / 3 + 0.001 * HOUR)
    assert LayoutBuilder(state).work_per_usd_of(plans) == pytest.approx(a + b)


def test_gang_counts_once_and_pays_for_all_its_nodes() -> None:
    fleet = make_fleet(2, K80[:1], gangs=(Slot("NC6", 1, 2),))
    job = Job(id="g", submitted_seconds=0, deadline_seconds=math.inf, late_usd_per_second=0.0, seconds=(2 * HOUR, HOUR))
    plans = [NodePlan(type="NC6", jobs=(("g", 1),))] * 2
    assert LayoutBuilder(make_state([job], fleet)).work_per_usd_of(plans) == pytest.approx(2 * HOUR / (2 * 0.56))


def test_lateness_is_that_of_the_papers_cost() -> None:
    for seed in range(10):
        state = random_state(seed)
        builder, plans = LayoutBuilder(state), greedy_plans(state, remaining_seconds(state))
        layout = layout_from_plans(state, builder.context, plans)
        prices = {each.name: each.usd_per_second for each in state.fleet.types}
        seconds = {
            builder.context.ids[row]: builder.context.remaining[row][slot] for row, slot in layout.assigned.items()
        }
        rent = sum(prices[plan.type] * min(seconds[job] for job, _ in plan.jobs) for plan in plans)
        assert builder.lateness_usd(layout) + rent == pytest.approx(decision_usd(state, plans))


@pytest.mark.parametrize("seed", range(6))
def test_no_less_work_per_dollar_and_no_more_lateness_than_greedy(seed: int) -> None:
    state = crowded(seed)
    builder = LayoutBuilder(state)
    plain, found = greedy_plans(state, remaining_seconds(state), max_recipients=None), random_greedy(state).nodes
    assert builder.work_per_usd_of(found) >= builder.work_per_usd_of(plain) * (1 - 1e-9)
    lateness = [builder.lateness_usd(layout_from_plans(state, builder.context, each)) for each in (found, plain)]
    assert lateness[0] <= lateness[1] * (1 + 1e-9)


def test_random_runs_find_more_work_per_dollar_than_greedy() -> None:
    states = [crowded(seed) for seed in range(6)]
    gains = [
        LayoutBuilder(state).work_per_usd_of(random_greedy(state).nodes)
        > 1.001
        * LayoutBuilder(state).work_per_usd_of(greedy_plans(state, remaining_seconds(state), max_recipients=None))
        for state in states
    ]
    assert any(gains)


def test_same_state_gives_the_same_decision() -> None:
    assert random_greedy(crowded(1)) == random_greedy(crowded(1))


def test_expected_cost_is_the_papers_cost() -> None:
    decision = random_greedy(crowded(2))
    assert decision.usd == pytest.approx(decision_usd(crowded(2), decision.nodes))


def test_number_of_runs_falls_with_the_length_of_the_queue() -> None:
    assert [run_count(jobs) for jobs in (1, 60, 600, 100_000)] == [RUNS, RUNS, 20, MIN_RUNS]


def test_empty_queue_rents_nothing() -> None:
    assert random_greedy(make_state([])) == Decision(nodes=())


def test_job_that_is_late_everywhere_runs() -> None:
    (plan,) = random_greedy(make_state([make_job(deadline_seconds=1.0)])).nodes
    assert [job for job, _ in plan.jobs] == ["j1"]


@pytest.mark.parametrize("maker", [random_state, gang_state, quota_state], ids=["plain", "gangs", "quotas"])
def test_decisions_can_be_carried_out(maker: Callable[[int], State]) -> None:
    for seed in range(12):
        assert decision_violations(maker(seed), random_greedy(maker(seed))) == ()


def test_complete_queue_has_a_legal_schedule() -> None:
    instance = random_instance(2, jobs=8, types=AZURE, load=6)
    assert schedule_violations(simulate(instance, random_greedy, name="random_greedy", nodes=2)) == ()
