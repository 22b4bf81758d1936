"""Policies that need no thought: one does as it is told, one decides anyhow, but never what cannot be."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from trainfare.model.queue import Decision, Job, NodePlan, NodeType, QueuedJob, Slot, State
from trainfare.scheduler.policies.registry import Policy

ONE = NodeType(name="one", gpu="K80", gpus=1, usd_per_hour=3.6)
TWO = NodeType(name="two", gpu="K80", gpus=2, usd_per_hour=7.2)
SPOT = NodeType(name="spot", gpu="K80", gpus=1, usd_per_hour=1.8, reclaims_per_hour=6)
"""A thousandth, two thousandths and half a thousandth of a dollar a second; a spot node stays ten minutes."""


def near(value: float) -> Any:
    """Equal to what differs by no more than rounding; inside tuples too, where types would say that it cannot be."""
    return pytest.approx(value)


def plan(kind: str, *jobs: tuple[str, int], node: int | None = None) -> NodePlan:
    return NodePlan(type=kind, jobs=jobs, node=node)


def timed_job(name: str, *seconds: float, submitted: float = 0.0, deadline: float = 1e6, user: str = "") -> Job:
    return Job(
        id=name,
        submitted_seconds=submitted,
        deadline_seconds=deadline,
        late_usd_per_second=0.01,
        seconds=seconds,
        user=user,
    )


def as_it_is(state: State) -> Decision:
    """Everybody stays; nodes on which nobody is left are given back."""
    here: dict[int, list[tuple[str, int]]] = {node.id: [] for node in state.nodes}
    for queued in state.jobs:
        for node in queued.nodes:
            here[node].append((queued.job.id, queued.gpus))
    kinds = {node.id: node.type for node in state.nodes}
    return Decision(nodes=tuple(plan(kinds[node], *jobs, node=node) for node, jobs in here.items() if jobs))


def told(orders: Mapping[int, tuple[NodePlan, ...]], *, seen: list[State] | None = None) -> Policy:
    """At these moments these plans, at others everything as it is."""

    def policy(state: State) -> Decision:
        if seen is not None:
            seen.append(state)
        found = (plans for moment, plans in orders.items() if moment == state.now_seconds)
        return Decision(nodes=next(found, as_it_is(state).nodes))

    return policy


def anyhow(seed: int, *, keep: float = 0.6) -> Policy:
    """Running jobs stay with the chance `keep`; the others, shuffled, have any slot that can be had, or now and then
    wait. While nothing runs, a job never waits that has a slot. Names and prices make no difference."""

    def policy(state: State) -> Decision:
        rng = np.random.default_rng((seed, round(1000 * state.now_seconds), len(state.jobs)))
        board = _Board(state)
        kept = {queued.job.id for queued in state.jobs if queued.nodes and rng.random() < keep}
        for queued in state.jobs:
            if queued.job.id in kept:
                board.keep(queued)
        for number in rng.permutation(len(state.jobs)):
            queued = state.jobs[number]
            if queued.job.id in kept or (board.placed and rng.random() < 0.2):
                continue
            for k in rng.permutation(len(state.fleet.slots)):
                if np.isfinite(queued.job.seconds[k]) and board.put(queued, state.fleet.slots[k], rng.random):
                    break
        return board.decision()

    return policy


class _Board:
    """Nodes as they are being filled: (type, id or None, shares)."""

    def __init__(self, state: State) -> None:
        self._fleet = state.fleet
        self._kinds = {node.id: node.type for node in state.nodes}
        self._unused = dict(self._kinds)
        self._nodes: list[tuple[str, int | None, dict[str, int]]] = []
        self._users: Counter[str] = Counter()
        self.placed = 0

    def decision(self) -> Decision:
        return Decision(nodes=tuple(plan(kind, *jobs.items(), node=node) for kind, node, jobs in self._nodes))

    def keep(self, queued: QueuedJob) -> None:
        for node in queued.nodes:
            if node in self._unused:
                self._nodes.append((self._unused.pop(node), node, {}))
            next(jobs for _, number, jobs in self._nodes if number == node)[queued.job.id] = queued.gpus
        self._count(queued, queued.gpus * len(queued.nodes))

    def put(self, queued: QueuedJob, slot: Slot, chance: Callable[[], float]) -> bool:
        quota = dict(self._fleet.quotas).get(queued.job.user)
        if quota is not None and self._users[queued.job.user] + slot.gpus * slot.nodes > quota:
            return False
        gpus = self._fleet.type_of(slot.type).gpus
        open_nodes = [
            each for each in self._nodes if each[0] == slot.type and sum(each[2].values()) + slot.gpus <= gpus
        ]
        chosen = open_nodes[:1] if slot.nodes == 1 and chance() < 0.8 else []
        if not chosen:
            if not self._room(slot.type, slot.nodes):
                return False
            chosen = [self._opened(slot.type, reuse=chance() < 0.7) for _ in range(slot.nodes)]
        for _, _, jobs in chosen:
            jobs[queued.job.id] = slot.gpus
        self._count(queued, slot.gpus * slot.nodes)
        return True

    def _room(self, kind: str, nodes: int) -> bool:
        most = self._fleet.type_of(kind).max_nodes
        of_kind = sum(each[0] == kind for each in self._nodes)
        return len(self._nodes) + nodes <= self._fleet.nodes and (most is None or of_kind + nodes <= most)

    def _opened(self, kind: str, *, reuse: bool) -> tuple[str, int | None, dict[str, int]]:
        node = next((node for node, its in self._unused.items() if its == kind), None) if reuse else None
        if node is not None:
            del self._unused[node]
        self._nodes.append((kind, node, {}))
        return self._nodes[-1]

    def _count(self, queued: QueuedJob, gpus: int) -> None:
        self._users[queued.job.user] += gpus
        self.placed += 1
