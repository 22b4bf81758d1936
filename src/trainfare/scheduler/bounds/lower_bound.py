"""What no schedule of a queue costs less than, whoever makes it and whatever they know beforehand.

Three things are given away, so that what is left can be reckoned: a job pays only its share of a node, c·g/G (others
fill the rest); it moves and stops at no cost; and all submissions are known from the beginning. Boots, restarts and
reclaimed nodes only add to what a schedule costs, so the bound holds with delays and on spot (at the price of spot).
Jobs take their true times.

**Alone** (`each_usd`): every job has the fleet to itself. Its cheapest mixture of slots, by its deadline or paying for
lateness (`priced_job.py` with prices of zero).

**Together** (`fluid_usd`): at no time more than N nodes are in use. Let time be cut into intervals of length l_i and
give a node's second in interval i any price p_i ≥ 0. A schedule uses u_ji node seconds for job j in interval i, and
Σ_j u_ji ≤ N·l_i; so whatever the schedule, it costs at least

    L(p) = Σ_j V_j(p) - Σ_i p_i·N·l_i        V_j = the least that job j can cost and pay for its node seconds

Each V_j is exact, with the job's own end as a whole: half a job that is done early is not half a job in time. That is
what makes the bound tight under overload, where the linear relaxation (lateness in proportion to the work done after
the deadline) is far below. Limits of a type (`most`) and of a user (quotas) have their own prices in the same way.

**Every p is valid, so nothing depends on how it is found**: on the lengths of the intervals, a sample of the jobs, a
solver's tolerance. It is found by column generation (`fleet_prices.py`), first on few intervals, then on twice as
many from the prices found. In a large queue it is that of a sample of the jobs on as small a part of the fleet.

What it cannot see: that a node is paid whole, that GPUs of two jobs must fit on one node, and that nobody knows the
future. The gap of a schedule to it is all of these and the schedule's own fault.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Instance, Job
from trainfare.scheduler.bounds.fleet_prices import best_prices, value
from trainfare.scheduler.bounds.priced_job import PricedJob, priced_job
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

INTERVALS = 16
"""At first, and three after the queue is empty. Few, since a queue of few jobs has few ways to mix in a round."""
HALVINGS = 2
"""The bound of an overloaded queue of 100 jobs was 2525, 2567, 2573 and 2575 $ with 27, 53, 105 and 209 intervals."""
ROUNDS = 24
"""At most, at each number of intervals; about 20 reach ENOUGH."""
ENOUGH = 1e-4
"""Prices are good when the best ones possible would raise the bound by less than this part."""
SAMPLE = 300
"""Jobs by which prices are found. Of 300 overloaded jobs 150 gave a bound 3 % lower, of 1000 less than 0.1 % lower."""
BOX = 0.3
"""After a halving a price moves at first by no more than this part of itself, or of the mean price."""
PARTS = (1.0, 0.9, 0.8)
"""Of the prices of a sample, that are tried on all jobs: chance makes a sample dearer than the whole."""
NO_TIME = 1e-7
"""An interval is longer than this part of the whole time."""
ROUNDING = 1e-7
"""Of the bound, given away to floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """What a queue costs at least; infinite where a job can never run on these nodes."""

    usd: float
    """The larger of the two."""
    each_usd: float
    """With every job alone in the fleet."""
    fluid_usd: float
    """With all jobs on so many nodes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Queue:
    """Jobs × slots as arrays, and what is limited: the nodes in all, the nodes of a type, the GPUs of a user."""

    jobs: tuple[Job, ...]
    seconds: "Numbers"
    """True ones; infinite where the limits leave no room for the slot."""
    share: "Numbers"
    uses: "Numbers"
    """Resources × slots: what a job on the slot takes of each limit."""
    limits: "Numbers"
    users: tuple[str | None, ...]
    """Whose jobs count to each limit; None: all."""

    def uses_of(self, job: Job) -> "Numbers":
        counts = np.array([user is None or user == job.user for user in self.users])
        of_job: Numbers = self.uses * counts[:, None]
        return of_job


def lower_bound(instance: Instance, nodes: int) -> LowerBound:
    """Of the cost of every schedule of `instance` on at most `nodes` nodes."""
    queue = _queue(instance, nodes)
    if not queue.jobs:
        return LowerBound(usd=0.0, each_usd=0.0, fluid_usd=0.0)
    if not np.isfinite(queue.seconds).any(axis=1).all():
        return LowerBound(usd=math.inf, each_usd=math.inf, fluid_usd=math.inf)
    edges = _edges(queue)
    free = np.zeros((len(queue.limits), len(edges) - 1))
    each = value(_priced(queue, edges), free, free)
    large = len(queue.jobs) > SAMPLE
    edges, prices = _prices(_sample(queue) if large else queue, edges)
    jobs, capacity = _priced(queue, edges), _capacity(queue, edges)
    fluid = max(each, *(value(jobs, capacity, prices * part) for part in (PARTS if large else (1.0,))))
    return LowerBound(usd=fluid * (1 - ROUNDING), each_usd=each * (1 - ROUNDING), fluid_usd=fluid * (1 - ROUNDING))


def _queue(instance: Instance, nodes: int) -> _Queue:
    fleet = instance.fleet(nodes)
    table = slot_table(fleet)
    most = np.array([nodes if each.max_nodes is None else min(each.max_nodes, nodes) for each in fleet.types])
    limited = np.flatnonzero((most > 0) & (most < nodes))
    quotas = {user: gpus for user, gpus in fleet.quotas if any(job.user == user for job in instance.jobs)}
    gpus = table.gpus * table.nodes
    true = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    seconds = np.array(true, dtype=np.float64).reshape(len(instance.jobs), len(fleet.slots))
    allowed = np.array([quotas.get(job.user, math.inf) for job in instance.jobs])
    no_room = (table.nodes > most[table.type])[None, :] | (gpus[None, :] > allowed[:, None])
    of_types = [np.where(table.type == number, table.fraction, 0.0) for number in limited]
    return _Queue(
        jobs=instance.jobs,
        seconds=np.where(no_room, np.inf, seconds),
        share=table.share,
        uses=np.stack([table.fraction, *of_types, *(gpus.astype(np.float64) for _ in quotas)]),
        limits=np.array([nodes, *most[limited], *quotas.values()], dtype=np.float64),
        users=(None,) * (1 + len(of_types)) + tuple(quotas),
    )


def _sample(queue: _Queue) -> _Queue:
    """Every s-th job, on 1/s of what there is."""
    s = math.ceil(len(queue.jobs) / SAMPLE)
    return replace(queue, jobs=queue.jobs[::s], seconds=queue.seconds[::s], limits=queue.limits / s)


def _edges(queue: _Queue) -> "Numbers":
    """Where intervals begin: close where much happens, and evenly over the time in which there is work.

    The work of the jobs from the j-th on cannot be done before submission_j + Σ min_k frac_k·t_k / N, so H, the latest
    of these, is about when the queue is empty. After it three intervals are enough, and one that never ends.
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
    apart = np.diff(edges, prepend=-np.inf) > NO_TIME * (last - submitted[0])
    found: Numbers = edges[apart]
    return found


def _prices(queue: _Queue, edges: "Numbers") -> tuple["Numbers", "Numbers"]:
    """The intervals and the prices of each resource in them, but for the last."""
    prices = best_prices(
        _priced(queue, edges),
        _capacity(queue, edges),
        np.zeros((len(queue.limits), len(edges) - 1)),
        rounds=ROUNDS,
        enough=ENOUGH,
    )
    for _ in range(HALVINGS):
        halved = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))
        if (np.diff(halved) <= 0).any():  # nothing lies between, so late in the queue are so short jobs
            break
        edges = halved
        prices = best_prices(
            _priced(queue, edges),
            _capacity(queue, edges),
            np.repeat(prices, 2, axis=1),
            rounds=ROUNDS,
            enough=ENOUGH,
            box=BOX,
        )
    return edges, prices


def _capacity(queue: _Queue, edges: "Numbers") -> "Numbers":
    return np.outer(queue.limits, np.diff(edges))


def _priced(queue: _Queue, edges: "Numbers") -> list[PricedJob]:
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
