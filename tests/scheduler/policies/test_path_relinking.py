"""Path relinking: never less work per dollar than the randomised greedy, and sometimes more."""

from collections.abc import Callable

import pytest

from tests.scheduler.makers import AZURE, make_job, make_state, random_instance
from tests.scheduler.policies.test_random_greedy import crowded
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import Decision, State
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.packing.layout import layout_from_plans
from trainfare.scheduler.policies import path_relinking as search_module
from trainfare.scheduler.policies.path_relinking import path_relinking
from trainfare.scheduler.policies.random_greedy import LayoutBuilder, random_greedy
from trainfare.scheduler.pricing.objective import decision_usd
from trainfare.scheduler.simulation.simulate import simulate


@pytest.mark.parametrize("seed", range(4))
def test_no_less_work_per_dollar_and_no_more_lateness_than_random_greedy(seed: int) -> None:
    state = crowded(seed)
    builder = LayoutBuilder(state)
    before, found = random_greedy(state).nodes, path_relinking(state).nodes
    assert builder.work_per_usd_of(found) >= builder.work_per_usd_of(before) * (1 - 1e-9)
    lateness = [builder.lateness_usd(layout_from_plans(state, builder.context, each)) for each in (found, before)]
    assert lateness[0] <= lateness[1] * (1 + 1e-9)


def test_search_finds_more_work_per_dollar_than_random_greedy() -> None:
    gains = [
        LayoutBuilder(state).work_per_usd_of(path_relinking(state).nodes)
        > 1.001 * LayoutBuilder(state).work_per_usd_of(random_greedy(state).nodes)
        for state in map(crowded, range(4))
    ]
    assert any(gains)


def test_path_changes_one_job_after_the_other() -> None:
    """With n jobs that differ it builds n first steps, then n - 1, down to one."""
    search = search_module._PathSearch(crowded(1))
    search._builds_left = 10_000
    start, goal, *_ = search._elite()
    differ = sum(start.layout.assigned.get(row) != goal.layout.assigned.get(row) for row in range(12))
    assert differ > 0
    assert len(list(search._path_between(start, goal))) == differ * (differ + 1) // 2


def test_elite_has_no_duplicates() -> None:
    elite = search_module._PathSearch(crowded(1))._elite()
    assert 1 < len(elite) <= search_module.ELITE + 1
    assert len({tuple(sorted(each.layout.assigned.items())) for each in elite}) == len(elite)


def test_search_ends_when_its_budget_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "PLACED_JOBS", 0)
    assert path_relinking(crowded(1)).nodes == random_greedy(crowded(1)).nodes


def test_same_state_gives_the_same_decision() -> None:
    assert path_relinking(crowded(1)) == path_relinking(crowded(1))


def test_expected_cost_is_the_papers_cost() -> None:
    decision = path_relinking(crowded(2))
    assert decision.usd == pytest.approx(decision_usd(crowded(2), decision.nodes))


def test_empty_queue_rents_nothing() -> None:
    assert path_relinking(make_state([])) == Decision(nodes=())


def test_job_that_is_late_everywhere_runs() -> None:
    (plan,) = path_relinking(make_state([make_job(deadline_seconds=1.0)])).nodes
    assert [job for job, _ in plan.jobs] == ["j1"]


@pytest.mark.parametrize("maker", [random_state, gang_state, quota_state], ids=["plain", "gangs", "quotas"])
def test_decisions_can_be_carried_out(maker: Callable[[int], State]) -> None:
    for seed in range(8):
        assert decision_violations(maker(seed), path_relinking(maker(seed))) == ()


def test_complete_queue_has_a_legal_schedule() -> None:
    instance = random_instance(2, jobs=6, types=AZURE, load=6)
    assert schedule_violations(simulate(instance, path_relinking, name="path_relinking", nodes=2)) == ()
