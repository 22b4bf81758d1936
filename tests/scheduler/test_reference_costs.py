"""First principles and Greedy come to the published costs; the random policies to no more than theirs."""

import pytest

from tests.scheduler.published import NAMES, NODES, published, published_costs
from trainfare.model.queue import Decision, State
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies import random_greedy as random_greedy_file
from trainfare.scheduler.policies.greedy import greedy_plans
from trainfare.scheduler.policies.path_relinking import path_relinking
from trainfare.scheduler.policies.random_greedy import LayoutBuilder, random_greedy
from trainfare.scheduler.policies.registry import policy
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import remaining_seconds

PUBLISHED_AS = {"fifo": "FIFO", "edf": "EDF", "priority": "Priority", "greedy": "Greedy"}


@pytest.mark.parametrize("instance", NAMES)
@pytest.mark.parametrize("name", PUBLISHED_AS)
def test_costs_are_the_published_ones_to_the_digits_printed(name: str, instance: str) -> None:
    got = evaluate(simulate(published(instance), policy(name), name=name, nodes=NODES))
    costs = (got.tardiness_seconds, got.tardiness_usd, got.rental_usd, got.total_usd)
    printed = published_costs()[instance, PUBLISHED_AS[name]]
    assert [float(f"{cost:.6g}") for cost in costs] == [float(cost) for cost in printed]


def test_random_greedy_costs_no_more_than_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_greedy_file, "RUNS", 30)  # enough here, and fast
    got = evaluate(simulate(published("10-100-1-low"), random_greedy, name="random_greedy", nodes=NODES))
    assert got.tardiness_seconds == 0
    assert got.total_usd < float(published_costs()["10-100-1-low", "RandomGreedy"][-1])


def _busy_states(instance: str, *, every: int) -> list[State]:
    """Some states of the queue as Greedy leaves them."""
    seen: list[State] = []

    def watched(state: State) -> Decision:
        seen.append(state)
        return policy("greedy")(state)

    simulate(published(instance), watched, name="greedy", nodes=NODES)
    return [state for state in seen[5::every] if state.jobs]


@pytest.mark.parametrize("instance", NAMES[:2])
def test_search_finds_more_worth_than_greedy_on_published_queues(instance: str) -> None:
    """Greedy with all idle GPUs given, random greedy, path relinking: each is worth no less than the one before."""
    gained = 0.0
    for state in _busy_states(instance, every=40):
        builder = LayoutBuilder(state)
        plans = (
            greedy_plans(state, remaining_seconds(state), gifts=None),
            random_greedy(state).nodes,
            path_relinking(state).nodes,
        )
        worths = [builder.worth_of(each) for each in plans]
        assert worths[0] <= worths[1] * (1 + 1e-9) <= worths[2] * (1 + 2e-9)
        gained += worths[2] / worths[0] - 1
    assert gained > 0
