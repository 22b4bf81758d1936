"""First principles and Greedy reproduce the published costs; the random policies cost no more."""

import pytest

from tests.scheduler.published import NAMES, NODES, published, published_costs
from trainfare.model.queue import Decision, State
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies import random_greedy as random_greedy_module
from trainfare.scheduler.policies.greedy import greedy_plans
from trainfare.scheduler.policies.path_relinking import path_relinking
from trainfare.scheduler.policies.random_greedy import LayoutBuilder, random_greedy
from trainfare.scheduler.policies.registry import load_policy
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import remaining_seconds

PUBLISHED_AS = {"fifo": "FIFO", "edf": "EDF", "priority": "Priority", "greedy": "Greedy"}


@pytest.mark.parametrize("instance", NAMES)
@pytest.mark.parametrize("name", PUBLISHED_AS)
def test_costs_equal_the_published_ones_to_the_printed_digits(name: str, instance: str) -> None:
    got = evaluate(simulate(published(instance), load_policy(name), name=name, nodes=NODES))
    costs = (got.tardiness_seconds, got.tardiness_usd, got.rental_usd, got.total_usd)
    printed = published_costs()[instance, PUBLISHED_AS[name]]
    assert [float(f"{cost:.6g}") for cost in costs] == [float(cost) for cost in printed]


def test_random_greedy_costs_no_more_than_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_greedy_module, "RUNS", 30)  # enough for this test, and fast
    got = evaluate(simulate(published("10-100-1-low"), random_greedy, name="random_greedy", nodes=NODES))
    assert got.tardiness_seconds == 0
    assert got.total_usd < float(published_costs()["10-100-1-low", "RandomGreedy"][-1])


def _busy_states(instance: str, *, every: int) -> list[State]:
    """Every `every`-th state of the queue under Greedy."""
    states: list[State] = []

    def recording_greedy(state: State) -> Decision:
        states.append(state)
        return load_policy("greedy")(state)

    simulate(published(instance), recording_greedy, name="greedy", nodes=NODES)
    return [state for state in states[5::every] if state.jobs]


@pytest.mark.parametrize("instance", NAMES[:2])
def test_search_finds_more_work_per_dollar_than_greedy_on_published_queues(instance: str) -> None:
    """Greedy with all idle GPUs given, random greedy, path relinking: each has no less work per dollar."""
    gain = 0.0
    for state in _busy_states(instance, every=40):
        builder = LayoutBuilder(state)
        plans = (
            greedy_plans(state, remaining_seconds(state), max_recipients=None),
            random_greedy(state).nodes,
            path_relinking(state).nodes,
        )
        work = [builder.work_per_usd_of(each) for each in plans]
        assert work[0] <= work[1] * (1 + 1e-9) <= work[2] * (1 + 2e-9)
        gain += work[2] / work[0] - 1
    assert gain > 0
