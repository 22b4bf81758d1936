"""Small random queues, hard enough that every term of the papers' cost matters."""

import math

import numpy as np

from tests.scheduler.makers import K80, M60, make_fleet, make_state
from trainfare.model.queue import Fleet, Job, NodeType, QueuedJob, Slot, State, single_node_slots


def random_jobs(
    rng: np.random.Generator, fleet: Fleet, count: int, *, users: tuple[str, ...] = ("",)
) -> list[QueuedJob]:
    """Jobs whose times fall with the GPUs, or not; some slots cannot be used; deadlines are tight, past, or far."""
    jobs = []
    for number in range(count):
        base, power = float(rng.uniform(600, 20_000)), float(rng.uniform(-0.1, 1))
        seconds = [
            math.inf if rng.random() < 0.1 else base * float(rng.uniform(0.8, 1.2)) / (slot.gpus * slot.nodes) ** power
            for slot in fleet.slots
        ]
        if not any(map(math.isfinite, seconds)):
            seconds[0] = base
        job = Job(
            id=f"j{number}",
            submitted_seconds=0,
            deadline_seconds=float(rng.choice([0, 4000, 8000, 20_000, 1e6])) + float(rng.uniform(0, 4000)),
            late_usd_per_second=float(rng.choice([0.0, 0.0001, 0.005])),
            seconds=tuple(seconds),
            user=str(rng.choice(users)),
        )
        jobs.append(QueuedJob(job=job, done=float(rng.choice([0, 0.3, 0.9]))))
    return jobs


def random_state(seed: int) -> State:
    """A state with one or two nodes, one to four jobs, two types with 1, 2 or 4 GPUs."""
    rng = np.random.default_rng(seed)
    kinds = tuple((K80 + M60)[index] for index in sorted(rng.choice(6, 2, replace=False)))
    nodes = int(rng.integers(1, 3))
    fleet = make_fleet(nodes, kinds)
    return make_state(random_jobs(rng, fleet, int(rng.integers(1, 6 - nodes))), fleet, now_seconds=3000)


def gang_state(seed: int) -> State:
    """A state with three nodes, of which several of one type can go to one job."""
    rng = np.random.default_rng(seed)
    fleet = make_fleet(3, K80[:2], gangs=(Slot("NC12", 2, 2), Slot("NC6", 1, 3)))
    return make_state(random_jobs(rng, fleet, 3), fleet, now_seconds=3000)


def quota_state(seed: int) -> State:
    """A state with two users with small quotas, and one node of the larger type."""
    rng = np.random.default_rng(seed)
    kinds = (K80[0], NodeType(name="NC24", gpu="K80", gpus=4, usd_per_hour=2.25, max_nodes=1))
    fleet = Fleet(nodes=2, types=kinds, slots=single_node_slots(kinds), quotas=(("ann", 2), ("bob", 1)))
    return make_state(random_jobs(rng, fleet, 4, users=("ann", "bob", "eve")), fleet, now_seconds=3000)
