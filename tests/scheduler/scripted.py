"""Policies for tests: one follows a script, one decides at random, but always validly."""

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
"""They cost $0.001, $0.002 and $0.0005 a second; a spot node lasts ten minutes on average."""


def near(value: float) -> Any:
    """Equal up to rounding, also inside tuples; typed as Any so that mypy accepts the comparison."""
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


def keep_running(state: State) -> Decision:
    """Every running job stays; nodes without jobs are released."""
    jobs_on: dict[int, list[tuple[str, int]]] = {node.id: [] for node in state.nodes}
    for queued in state.jobs:
        for node in queued.nodes:
            jobs_on[node].append((queued.job.id, queued.gpus))
    kinds = {node.id: node.type for node in state.nodes}
    return Decision(nodes=tuple(plan(kinds[node], *jobs, node=node) for node, jobs in jobs_on.items() if jobs))


def scripted_policy(orders: Mapping[int, tuple[NodePlan, ...]], *, states: list[State] | None = None) -> Policy:
    """The policy that has these plans at these moments, and keeps everything running at others."""

    def policy(state: State) -> Decision:
        if states is not None:
            states.append(state)
        found = (plans for moment, plans in orders.items() if moment == state.now_seconds)
        return Decision(nodes=next(found, keep_running(state).nodes))

    return policy


def random_policy(seed: int, *, keep: float = 0.6) -> Policy:
    """A policy in which running jobs stay with probability `keep`; the others, shuffled, get any available slot, or
    sometimes wait. While nothing runs, a job with an available slot never waits. Names and prices do not matter."""

    def policy(state: State) -> Decision:
        rng = np.random.default_rng((seed, round(1000 * state.now_seconds), len(state.jobs)))
        layout = _RandomLayout(state)
        staying = {queued.job.id for queued in state.jobs if queued.nodes and rng.random() < keep}
        for queued in state.jobs:
            if queued.job.id in staying:
                layout.keep(queued)
        for number in rng.permutation(len(state.jobs)):
            queued = state.jobs[number]
            if queued.job.id in staying or (layout.placed and rng.random() < 0.2):
                continue
            for k in rng.permutation(len(state.fleet.slots)):
                if np.isfinite(queued.job.seconds[k]) and layout.put(queued, state.fleet.slots[k], rng.random):
                    break
        return layout.decision()

    return policy


class _RandomLayout:
    """Nodes while they are filled: (type, id or None, GPUs by job)."""

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

    def put(self, queued: QueuedJob, slot: Slot, random: Callable[[], float]) -> bool:
        quota = dict(self._fleet.quotas).get(queued.job.user)
        if quota is not None and self._users[queued.job.user] + slot.gpus * slot.nodes > quota:
            return False
        gpus = self._fleet.type_of(slot.type).gpus
        open_nodes = [
            each for each in self._nodes if each[0] == slot.type and sum(each[2].values()) + slot.gpus <= gpus
        ]
        chosen = open_nodes[:1] if slot.nodes == 1 and random() < 0.8 else []
        if not chosen:
            if not self._has_room(slot.type, slot.nodes):
                return False
            chosen = [self._open(slot.type, reuse=random() < 0.7) for _ in range(slot.nodes)]
        for _, _, jobs in chosen:
            jobs[queued.job.id] = slot.gpus
        self._count(queued, slot.gpus * slot.nodes)
        return True

    def _has_room(self, kind: str, nodes: int) -> bool:
        limit = self._fleet.type_of(kind).max_nodes
        of_kind = sum(each[0] == kind for each in self._nodes)
        return len(self._nodes) + nodes <= self._fleet.nodes and (limit is None or of_kind + nodes <= limit)

    def _open(self, kind: str, *, reuse: bool) -> tuple[str, int | None, dict[str, int]]:
        node = next((node for node, its in self._unused.items() if its == kind), None) if reuse else None
        if node is not None:
            del self._unused[node]
        self._nodes.append((kind, node, {}))
        return self._nodes[-1]

    def _count(self, queued: QueuedJob, gpus: int) -> None:
        self._users[queued.job.user] += gpus
        self.placed += 1
