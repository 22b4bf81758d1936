"""Fleets, jobs and states with good defaults, and small random instances."""

import math
from collections.abc import Sequence

import numpy as np

from trainfare.model.queue import (
    ArrivalStatistics,
    Delays,
    Fleet,
    Instance,
    Job,
    NodeType,
    QueuedJob,
    RentedNode,
    Slot,
    State,
    single_node_slots,
)

K80 = (
    NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.56),
    NodeType(name="NC12", gpu="K80", gpus=2, usd_per_hour=1.13),
    NodeType(name="NC24", gpu="K80", gpus=4, usd_per_hour=2.25),
)
M60 = (
    NodeType(name="NV6", gpu="M60", gpus=1, usd_per_hour=0.62),
    NodeType(name="NV12", gpu="M60", gpus=2, usd_per_hour=1.24),
    NodeType(name="NV24", gpu="M60", gpus=4, usd_per_hour=2.48),
)
AZURE = K80 + M60


def make_fleet(
    nodes: int = 2,
    types: tuple[NodeType, ...] = K80,
    *,
    gangs: tuple[Slot, ...] = (),
    quotas: tuple[tuple[str, int], ...] = (),
) -> Fleet:
    return Fleet(nodes=nodes, types=types, slots=single_node_slots(types) + gangs, quotas=quotas)


def make_job(
    name: str = "j1",
    *,
    types: tuple[NodeType, ...] = K80,
    hours: float = 1.0,
    power: float = 0.75,
    speed: dict[str, float] | None = None,
    submitted_seconds: float = 0.0,
    deadline_seconds: float = 6 * 3600.0,
    late_usd_per_second: float = 0.005,
    log_error: float = 0.0,
    user: str = "",
) -> Job:
    """A job that takes `hours` on one GPU of speed 1, and 1/(speed · g^power) of that on g GPUs."""
    fast = speed or {}
    kinds = {each.name: each.gpu for each in types}
    return Job(
        id=name,
        submitted_seconds=submitted_seconds,
        deadline_seconds=deadline_seconds,
        late_usd_per_second=late_usd_per_second,
        seconds=tuple(
            3600 * hours / (fast.get(kinds[slot.type], 1.0) * slot.gpus**power) for slot in single_node_slots(types)
        ),
        log_error=log_error,
        user=user,
    )


def make_state(
    jobs: Sequence[Job | QueuedJob],
    fleet: Fleet | None = None,
    *,
    now_seconds: float = 0.0,
    nodes: tuple[RentedNode, ...] = (),
    delays: Delays | None = None,
) -> State:
    queued = tuple(each if isinstance(each, QueuedJob) else QueuedJob(job=each) for each in jobs)
    shortest = [each.job.shortest_seconds for each in queued] or [3600.0]
    return State(
        now_seconds=now_seconds,
        fleet=fleet or make_fleet(),
        jobs=queued,
        nodes=nodes,
        arrivals=ArrivalStatistics(
            jobs=len(queued),
            last_seconds=max((each.job.submitted_seconds for each in queued), default=0.0),
            mean_shortest_seconds=sum(shortest) / len(shortest),
        ),
        delays=delays or Delays(),
    )


def random_instance(seed: int, *, jobs: int = 4, types: tuple[NodeType, ...] = K80, load: float = 1.0) -> Instance:
    """A queue of jobs of 0.5 to 4 hours on one GPU, arriving over a few hours, with deadlines of 1 to 3 times the
    shortest time."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1800 / load, jobs)
    made = []
    for number in range(jobs):
        job = make_job(
            types=types,
            hours=float(rng.uniform(0.5, 4)),
            power=float(rng.uniform(0.5, 0.95)),
            speed={"K80": 1.0, "M60": float(rng.uniform(0.7, 1.5))},
        )
        submitted = float(gaps[: number + 1].sum())
        made.append(
            Job(
                id=f"j{number}",
                submitted_seconds=submitted,
                deadline_seconds=submitted + float(rng.uniform(1, 3)) * job.shortest_seconds,
                late_usd_per_second=2 * float(rng.uniform(0.0015, 0.0075)),
                seconds=job.seconds,
            )
        )
    assert all(math.isfinite(job.deadline_seconds) for job in made)
    return Instance(types=types, slots=single_node_slots(types), jobs=tuple(made))
