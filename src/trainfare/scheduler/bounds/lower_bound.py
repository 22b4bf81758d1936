"""A lower bound on the cost of every schedule of a queue, even with full knowledge of the future.

The bound relaxes three things: a job pays only its share of a node, c·g/G (other jobs fill the rest); it migrates and
stops at no cost; and all submissions are known from the beginning. Boots, restarts and reclaims only add to the cost of
a schedule, so the bound holds with delays and on spot (at the price of spot). Jobs take their true times.

**Alone** (`alone_usd`): every job has the fleet for itself. It costs its cheapest mixture of slots, by its deadline or
paying for lateness (`priced_job.py` with prices of zero).

**Together** (`fluid_usd`): at no time more than N nodes are in use. Let time be divided into intervals of length l_i
and give a node-second in interval i any price p_i ≥ 0. A schedule uses u_ji node-seconds for job j in interval i, and
Σ_j u_ji ≤ N·l_i; so every schedule costs at least

    L(p) = Σ_j V_j(p) - Σ_i p_i·N·l_i        V_j = the least cost of job j that pays for its node-seconds

Each V_j is exact, with the end of the job as one event: half a job that is done early is not half a job in time. This
makes the bound tight under overload, where the linear relaxation (lateness in proportion to the work done after the
deadline) is far below. Limits of a type (`max_nodes`) and of a user (quotas) have their own prices in the same way.

**Every p is valid, so the bound holds however p is found**: whatever the lengths of the intervals, the sample of the
jobs, or the solver's tolerance. It is found by column generation (`fleet_prices.py`), first on few intervals, then on
twice as many from the prices found. In a large queue it is that of a sample of the jobs on the same fraction of the
fleet.

The bound ignores that complete nodes are paid, that the GPUs of two jobs must fit on one node, and that the future is
unknown. The gap of a schedule to it contains all of these and the weakness of the schedule itself.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Instance, Job
from trainfare.scheduler.bounds.fleet_prices import best_prices, dual_value
from trainfare.scheduler.bounds.priced_job import PricedJob, priced_job
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

INTERVALS = 16
"""The initial number, and three after the queue is empty. Few, since few jobs give few plans to mix in a round."""
HALVINGS = 2
"""The bound of an overloaded queue of 100 jobs was 2525, 2567, 2573 and 2575 $ with 27, 53, 105 and 209 intervals."""
ROUNDS = 24
"""The most rounds at each number of intervals; about 20 reach TOLERANCE."""
TOLERANCE = 1e-4
"""Prices are accepted when optimal ones would raise the bound by less than this fraction."""
SAMPLE = 300
"""The number of jobs with which prices are found. Under overload, a sample of 150 out of 300 jobs gave a bound 3 %
lower, out of 1000 jobs less than 0.1 % lower."""
BOX = 0.3
"""After a halving a price changes at first by no more than this fraction of itself, or of the mean price."""
PRICE_SCALES = (1.0, 0.9, 0.8)
"""Multiples of the prices of a sample that are tried on all jobs: by chance a sample may be more congested."""
MIN_INTERVAL = 1e-7
"""An interval is longer than this fraction of the total time."""
ROUNDING = 1e-7
"""The fraction of the bound that is subtracted to cover rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """The least cost of a queue; infinite if a job can never run on these nodes."""

    usd: float
    """The larger of the two bounds below."""
    alone_usd: float
    """The bound with every job alone in the fleet."""
    fluid_usd: float
    """The bound with all jobs together on the nodes of the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BoundProblem:
    """Jobs × slots as arrays, and the limits: of all nodes, of the nodes of a type, of the GPUs of a user."""

    jobs: tuple[Job, ...]
    seconds: "Numbers"
    """True times; infinite where the limits leave no room for the slot."""
    share: "Numbers"
    uses: "Numbers"
    """Resources × slots: the use of each limited resource by a job on the slot."""
    limits: "Numbers"
    users: tuple[str | None, ...]
    """The user whose jobs count towards each limit; None: all jobs."""

    def uses_of(self, job: Job) -> "Numbers":
        counts = np.array([user is None or user == job.user for user in self.users])
        of_job: Numbers = self.uses * counts[:, None]
        return of_job


def lower_bound(instance: Instance, nodes: int) -> LowerBound:
    """The lower bound on the cost of every schedule of `instance` on at most `nodes` nodes."""
    queue = _bound_problem(instance, nodes)
    if not queue.jobs:
        return LowerBound(usd=0.0, alone_usd=0.0, fluid_usd=0.0)
    if not np.isfinite(queue.seconds).any(axis=1).all():
        return LowerBound(usd=math.inf, alone_usd=math.inf, fluid_usd=math.inf)
    edges = _edges(queue)
    free = np.zeros((len(queue.limits), len(edges) - 1))
    alone = dual_value(_priced_jobs(queue, edges), free, free)
    large = len(queue.jobs) > SAMPLE
    edges, prices = _prices(_sample(queue) if large else queue, edges)
    jobs, capacity = _priced_jobs(queue, edges), _capacity(queue, edges)
    scales = PRICE_SCALES if large else (1.0,)
    fluid = max(alone, *(dual_value(jobs, capacity, prices * scale) for scale in scales))
    return LowerBound(usd=fluid * (1 - ROUNDING), alone_usd=alone * (1 - ROUNDING), fluid_usd=fluid * (1 - ROUNDING))


def _bound_problem(instance: Instance, nodes: int) -> _BoundProblem:
    fleet = instance.fleet(nodes)
    table = slot_table(fleet)
    max_nodes = np.array([nodes if each.max_nodes is None else min(each.max_nodes, nodes) for each in fleet.types])
    limited = np.flatnonzero((max_nodes > 0) & (max_nodes < nodes))
    quotas = {user: gpus for user, gpus in fleet.quotas if any(job.user == user for job in instance.jobs)}
    gpus = table.gpus * table.nodes
    seconds = np.array(instance.actual_seconds, dtype=np.float64).reshape(len(instance.jobs), len(fleet.slots))
    allowed = np.array([quotas.get(job.user, math.inf) for job in instance.jobs])
    no_room = (table.nodes > max_nodes[table.type])[None, :] | (gpus[None, :] > allowed[:, None])
    of_types = [np.where(table.type == number, table.fraction, 0.0) for number in limited]
    return _BoundProblem(
        jobs=instance.jobs,
        seconds=np.where(no_room, np.inf, seconds),
        share=table.share,
        uses=np.stack([table.fraction, *of_types, *(gpus.astype(np.float64) for _ in quotas)]),
        limits=np.array([nodes, *max_nodes[limited], *quotas.values()], dtype=np.float64),
        users=(None,) * (1 + len(of_types)) + tuple(quotas),
    )


def _sample(queue: _BoundProblem) -> _BoundProblem:
    """Every s-th job, on 1/s of the fleet."""
    s = math.ceil(len(queue.jobs) / SAMPLE)
    return replace(queue, jobs=queue.jobs[::s], seconds=queue.seconds[::s], limits=queue.limits / s)


def _edges(queue: _BoundProblem) -> "Numbers":
    """The starts of the intervals: dense where many submissions and deadlines are, and even over the time with work.

    The work of the jobs from the j-th on cannot be done before submission_j + Σ min_k frac_k·t_k / N, so the latest of
    these is about when the queue is empty. After it three intervals are enough, and one that never ends.
    """
    submitted = np.array([job.submitted_seconds for job in queue.jobs])
    due = np.maximum(np.array([job.deadline_seconds for job in queue.jobs]), submitted)
    runs = np.isfinite(queue.seconds)
    work = np.where(runs, queue.uses[0] * np.where(runs, queue.seconds, 1.0), np.inf).min(axis=1) / queue.limits[0]
    empty = float((submitted + np.cumsum(work[::-1])[::-1]).max())
    moments = [submitted, due[due < empty], np.linspace(submitted[0], empty, 2 * len(submitted))]
    busy = np.quantile(np.concatenate(moments), np.linspace(0, 1, INTERVALS))
    last = max(empty, float(due[np.isfinite(due)].max(initial=0.0))) + float(queue.seconds.min(axis=1).max())
    edges = np.concatenate([busy, empty + (last - empty) * np.array([0.15, 0.4, 1.0])])
    apart = np.diff(edges, prepend=-np.inf) > MIN_INTERVAL * (last - submitted[0])
    found: Numbers = edges[apart]
    return found


def _prices(queue: _BoundProblem, edges: "Numbers") -> tuple["Numbers", "Numbers"]:
    """The starts of the intervals, and the prices of each resource in all but the last."""
    prices = best_prices(
        _priced_jobs(queue, edges),
        _capacity(queue, edges),
        np.zeros((len(queue.limits), len(edges) - 1)),
        rounds=ROUNDS,
        tolerance=TOLERANCE,
    )
    for _ in range(HALVINGS):
        halved = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))
        if (
            np.diff(halved) <= 0
        ).any():  # intervals are too short for floating-point numbers: short jobs late in the queue
            break
        edges = halved
        prices = best_prices(
            _priced_jobs(queue, edges),
            _capacity(queue, edges),
            np.repeat(prices, 2, axis=1),
            rounds=ROUNDS,
            tolerance=TOLERANCE,
            box=BOX,
        )
    return edges, prices


def _capacity(queue: _BoundProblem, edges: "Numbers") -> "Numbers":
    return np.outer(queue.limits, np.diff(edges))


def _priced_jobs(queue: _BoundProblem, edges: "Numbers") -> list[PricedJob]:
    return [
        priced_job(
            seconds=seconds,
            share=queue.share,
            uses=queue.uses_of(job),
            submitted=job.submitted_seconds,
            deadline=job.deadline_seconds,
            late_usd_per_second=job.late_usd_per_second,
            edges=edges,
        )
        for job, seconds in zip(queue.jobs, queue.seconds, strict=True)
    ]
