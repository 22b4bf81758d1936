"""What of a queue can be scheduled. Jobs that no node of the fleet can take, or whose numbers no reckoning can bear,
are left out with a sentence, and the others go on. A policy that fails is said, with what to do.

Numbers are limited where sums of dollars and seconds stop being exact to the cent: nothing that is rented is near.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from trainfare.errors import InfeasibleError, UsageError
from trainfare.model.queue import Instance, Job, NodeType, Slot
from trainfare.scheduler.simulation.simulate import PolicyError, UnfinishedJobsError

SHORTEST_SECONDS, LONGEST_SECONDS = 1e-3, 1e10
"""A thousandth of a second, and 300 years; Unix time is within."""
DEAREST_USD_PER_SECOND = 1e6
"""Of lateness."""
CHEAPEST_USD_PER_HOUR, DEAREST_USD_PER_HOUR = 1e-6, 1e6
"""Of a node."""
MOST_LOG_ERROR = 2.0
"""Off by a factor of 7, one way or the other."""
MOST_GPUS = 256
"""Of a node; the largest that is sold has 72."""
MOST_RECLAIMS_PER_HOUR = 3600.0
MOST_NODES = 100_000
MOST_JOBS = 1_000_000
"""That are made up."""
MOST_TICKS = 1e6
"""Decisions at least that a tick may ask for."""


def schedulable(instance: Instance, nodes: int) -> tuple[Instance, tuple[str, ...]]:
    """The queue with the jobs that can run on so many nodes, and a sentence for each of the others."""
    _require_machines(instance.types, instance.slots)
    true = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    rooms = _Rooms(instance, nodes)
    kept, left_out = [], []
    for job, seconds in zip(instance.jobs, true, strict=True):
        why = _beyond_reckoning(job, seconds) or rooms.why_not(job)
        if why is None:
            kept.append((job, seconds))
        else:
            left_out.append(f"job {job.id} is left out: {why}")
    if instance.jobs and not kept:
        raise InfeasibleError(f"no job of this queue can run: {left_out[0]}")
    if not left_out:
        return instance, ()
    return (
        replace(
            instance,
            jobs=tuple(job for job, _ in kept),
            true_seconds=tuple(seconds for _, seconds in kept) if instance.true_seconds else (),
        ),
        tuple(left_out),
    )


def _require_machines(types: tuple[NodeType, ...], slots: tuple[Slot, ...]) -> None:
    for each in types:
        if not CHEAPEST_USD_PER_HOUR <= each.usd_per_hour <= DEAREST_USD_PER_HOUR:
            raise UsageError(
                f"{each.name} costs {each.usd_per_hour:g} $ an hour, and prices from {CHEAPEST_USD_PER_HOUR:g} to "
                f"{DEAREST_USD_PER_HOUR:g} $ can be reckoned with. Give what it truly is."
            )
        if each.gpus > MOST_GPUS:
            raise UsageError(
                f"{each.name} has {each.gpus:g} GPUs, and no node has more than {MOST_GPUS}. Give what it truly is."
            )
        if each.reclaims_per_hour > MOST_RECLAIMS_PER_HOUR:
            raise UsageError(
                f"{each.name} is taken back {each.reclaims_per_hour:g} times an hour, more than once a second. Give "
                "what it truly is."
            )
    for slot in slots:
        if slot.nodes > MOST_NODES:
            raise UsageError(f"a gang of {slot.nodes:g} {slot.type} is more than {MOST_NODES} nodes. Give fewer.")


def _beyond_reckoning(job: Job, true_seconds: tuple[float, ...]) -> str | None:
    runs = [seconds for seconds in (*job.seconds, *true_seconds) if seconds < math.inf]
    for seconds in (min(runs), max(runs)):
        if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            return (
                f"it takes {seconds:g} s, and from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} s can be reckoned "
                "with. Give what it truly is, or inf where it cannot run."
            )
    if job.submitted_seconds > LONGEST_SECONDS:
        return f"it is submitted after {job.submitted_seconds:g} s, more than {LONGEST_SECONDS:g}. Give a nearer time."
    if job.deadline_seconds < -LONGEST_SECONDS:
        return f"its deadline is {job.deadline_seconds:g} s, before {-LONGEST_SECONDS:g}. Give a nearer time."
    if job.late_usd_per_second > DEAREST_USD_PER_SECOND:
        return (
            f"a second late costs {job.late_usd_per_second:g} $, more than {DEAREST_USD_PER_SECOND:g}. Give fewer, as "
            "0.01."
        )
    if job.log_error > MOST_LOG_ERROR:
        return f"its log_error is {job.log_error:g}, more than {MOST_LOG_ERROR:g}. Give how sure its prediction is."
    return None


class _Rooms:
    """What the fleet can ever give to one job alone."""

    def __init__(self, instance: Instance, nodes: int) -> None:
        self._nodes = nodes
        self._slots = instance.slots
        self._most = {
            each.name: nodes if each.max_nodes is None else min(nodes, each.max_nodes) for each in instance.types
        }
        self._quotas = dict(instance.quotas)

    def why_not(self, job: Job) -> str | None:
        quota = self._quotas.get(job.user, math.inf)
        places = [slot for slot, seconds in zip(self._slots, job.seconds, strict=True) if seconds < math.inf]
        if any(self._fits(slot) and slot.gpus * slot.nodes <= quota for slot in places):
            return None
        among = f" and the quota of {quota:g} GPUs that {job.user} has" if quota < math.inf else ""
        return (
            f"it can never run, none of the places that it has times for can be had with "
            f"{self._nodes} node{'s' * (self._nodes != 1)}{among}. Give more, or times elsewhere."
        )

    def _fits(self, slot: Slot) -> bool:
        return slot.nodes <= self._most[slot.type]


def require_nodes(nodes: int) -> None:
    if nodes < 1:
        raise UsageError(f"{nodes} nodes can run nothing: give --nodes 1 or more.")
    if nodes > MOST_NODES:
        raise UsageError(f"{nodes} nodes are more than can be planned: give --nodes {MOST_NODES} or fewer.")


def require_seed(seed: int) -> None:
    if seed < 0:
        raise UsageError(f"--seed is 0 or more, not {seed}.")


def require_error(error: float) -> None:
    if not 0 <= error <= MOST_LOG_ERROR:  # NaN neither
        raise UsageError(f"--error must be a number such as 0.2, at most {MOST_LOG_ERROR:g}, got {error:g}.")


def require_tick(tick_seconds: float | None, instance: Instance, nodes: int) -> None:
    """Not so short that the policy would be asked for ever."""
    if tick_seconds is None:
        return
    if not 0 < tick_seconds < math.inf:
        raise UsageError(
            f"a tick of {tick_seconds:g} s never passes: give a time, or leave --tick out to decide at events."
        )
    work = math.fsum(job.shortest_seconds for job in instance.jobs) / min(nodes, max(1, len(instance.jobs)))
    if work / tick_seconds > MOST_TICKS:
        raise UsageError(
            f"a tick of {tick_seconds:g} s asks the policy more than {MOST_TICKS:g} times: give --tick "
            f"{math.ceil(work / MOST_TICKS)}s or longer, or leave it out to decide at events."
        )


@contextmanager
def policies_may_fail() -> Iterator[None]:
    """A policy that leaves jobs for ever, or that cannot decide, is told to the user."""
    try:
        yield
    except UnfinishedJobsError as error:
        raise InfeasibleError(
            f"{error}. They lose their nodes before anything is saved, or the policy gives them none: let them save "
            "themselves (--mode real --checkpoint-every 10min), give more nodes, or take another policy."
        ) from error
    except PolicyError as error:
        raise InfeasibleError(f"{str(error).rstrip('.?')}. Take another policy, as --policy greedy.") from error
