"""A queue while it runs: the rented nodes, the running jobs, and the progress of each job.

The state of a running job is not updated as time passes. Its progress at the moment s follows from its start there:

    done(s) = done_before + max(0, s - work_start) / t      t: the true time of the complete job in that slot
    end     = work_start + (1 - done_before) · t

so rounding errors do not accumulate over the events in between.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from trainfare.model.queue import (
    ArrivalStatistics,
    Decision,
    Delays,
    Fleet,
    Job,
    NodePlan,
    QueuedJob,
    RentedNode,
    State,
)
from trainfare.model.schedule import Allocation, NodeRental

ALMOST_ONE = math.nextafter(1.0, 0.0)
"""The largest progress of a job that has not ended."""
ARRIVAL_WINDOW = 400
"""The mean shortest time is taken over this many of the last jobs."""


def time_tolerance_seconds(now: float) -> float:
    """Events that are closer together than this count as simultaneous: 1e-10 of the time since the queue's start."""
    return 1e-10 * max(1.0, abs(now))


def restore_seconds(queued: QueuedJob, delays: Delays) -> float:
    """The time before a job makes progress on another slot than its current one, without the boot of a node.

    0                         while nothing of it is done
    checkpoint + restart      if it runs, or was preempted
    restart                   after a reclaim: its checkpoint exists already
    """
    if queued.done == 0:
        return 0.0
    return delays.restart_seconds + (delays.checkpoint_seconds if queued.nodes or queued.preempted else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job on its slot, since a moment."""

    job: Job
    nodes: tuple[int, ...]
    gpus: int
    start_seconds: float
    work_start_seconds: float
    done_before: float
    expected_before: float
    gpu: str
    progress_before: tuple[tuple[str, float, float], ...]
    """`QueuedJob.progress_by_gpu` when it was placed here."""
    predicted_seconds: float
    """The predicted time of the complete job in this slot."""
    true_seconds: float
    end_seconds: float

    def queued(self, now: float, *, checkpoint_every_seconds: float) -> QueuedJob:
        worked = max(0.0, now - self.work_start_seconds)
        done = min(self.done_before + worked / self.true_seconds, ALMOST_ONE)
        saved = self.done_before
        if worked >= checkpoint_every_seconds:
            saved += worked // checkpoint_every_seconds * checkpoint_every_seconds / self.true_seconds
        return QueuedJob(
            job=self.job,
            done=done,
            expected_done=self.expected_before + worked / self.predicted_seconds,
            progress_by_gpu=self._progress_by_gpu(worked),
            saved=min(saved, done),
            nodes=self.nodes,
            gpus=self.gpus,
            work_start_seconds=self.work_start_seconds,
        )

    def _progress_by_gpu(self, worked: float) -> tuple[tuple[str, float, float], ...]:
        if not worked:
            return self.progress_before
        progress = {gpu: (done, expected) for gpu, done, expected in self.progress_before}
        done, expected = progress.get(self.gpu, (0.0, 0.0))
        progress[self.gpu] = (done + worked / self.true_seconds, expected + worked / self.predicted_seconds)
        return tuple((gpu, *fractions) for gpu, fractions in progress.items())

    def allocation(self, now: float, done_after: float) -> Allocation:
        return Allocation(
            job=self.job.id,
            nodes=self.nodes,
            gpus=self.gpus,
            start_seconds=self.start_seconds,
            work_start_seconds=self.work_start_seconds,
            end_seconds=now,
            done_before=self.done_before,
            done_after=done_after,
        )


class Execution:
    """The rented nodes and the unfinished jobs of a queue, with a record of past rentals and allocations."""

    def __init__(self, fleet: Fleet, delays: Delays, true_seconds: dict[str, tuple[float, ...]]) -> None:
        self.fleet = fleet
        self.delays = delays
        self.nodes: dict[int, RentedNode] = {}
        self.running: dict[str, RunningJob] = {}
        self.rentals: list[NodeRental] = []
        self.allocations: list[Allocation] = []
        self.ended: list[tuple[str, float]] = []
        self._true_seconds = true_seconds
        self._slots = {(slot.type, slot.gpus, slot.nodes): number for number, slot in enumerate(fleet.slots)}
        self._gpus = {each.name: each.gpu for each in fleet.types}
        self._queued: dict[str, QueuedJob] = {}
        """The unfinished jobs by id, in the order of submission; a running job as it was when it was placed."""
        self.total_progress = 0.0
        """The sum over all jobs of the largest progress that each has ever had: it grows while work is done."""
        self._max_progress: dict[str, float] = {}
        self._next_node = 0
        self._submitted = 0
        self._last_seconds = 0.0
        self._shortest: deque[float] = deque(maxlen=ARRIVAL_WINDOW)
        self._mean_shortest = 0.0

    def unfinished(self) -> tuple[str, ...]:
        return tuple(self._queued)

    def submit(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._queued[job.id] = QueuedJob(job=job)
            self._submitted += 1
            self._last_seconds = job.submitted_seconds
            self._shortest.append(job.shortest_seconds)
        self._mean_shortest = math.fsum(self._shortest) / max(len(self._shortest), 1)

    def state(self, now: float) -> State:
        every = self.delays.checkpoint_every_seconds
        for name, running in self.running.items():
            queued = self._queued[name] = running.queued(now, checkpoint_every_seconds=every)
            self._record_progress(name, queued.done)
        return State(
            now_seconds=now,
            fleet=self.fleet,
            jobs=tuple(self._queued.values()),
            nodes=tuple(self.nodes.values()),
            arrivals=ArrivalStatistics(
                jobs=self._submitted, last_seconds=self._last_seconds, mean_shortest_seconds=self._mean_shortest
            ),
            delays=self.delays,
        )

    def end_jobs(self, now: float) -> None:
        """Ends the jobs that are done by now."""
        latest = now + time_tolerance_seconds(now)
        done = [name for name, running in self.running.items() if running.end_seconds <= latest]
        for name in done:
            self.allocations.append(self.running.pop(name).allocation(now, 1.0))
            self.ended.append((name, now))
            del self._queued[name]
            self._record_progress(name, 1.0)

    def reclaim(self, node: int, now: float) -> None:
        """Removes the node; its jobs wait with the progress of their last checkpoint.

        Their expected progress shrinks in proportion, so the observed prediction error stays the same.
        """
        self._release(node, now, reclaimed=True)
        for name in [name for name, running in self.running.items() if node in running.nodes]:
            running = self.running.pop(name)
            before = running.queued(now, checkpoint_every_seconds=self.delays.checkpoint_every_seconds)
            saved = before.saved / before.done if before.done else 0.0
            self.allocations.append(running.allocation(now, before.saved))
            self._queued[name] = QueuedJob(
                job=before.job,
                done=before.saved,
                saved=before.saved,
                expected_done=before.expected_done * saved,
                progress_by_gpu=tuple(
                    (gpu, done * saved, expected * saved) for gpu, done, expected in before.progress_by_gpu
                ),
            )

    def carry_out(self, decision: Decision, now: float) -> tuple[RentedNode, ...]:
        """Applies a valid decision to the state as of now, and returns the nodes that are newly rented."""
        named = {plan.node for plan in decision.nodes}
        for node in [node for node in self.nodes if node not in named]:
            self._release(node, now)
        new_nodes = []
        assigned: dict[str, tuple[list[int], int, str]] = {}
        for plan in decision.nodes:
            number = plan.node
            if number is None:
                new_nodes.append(self._rent(plan, now))
                number = new_nodes[-1].id
            for name, gpus in plan.jobs:
                assigned.setdefault(name, ([], gpus, plan.type))[0].append(number)
        for name in [name for name in self.running if name not in assigned]:
            self._preempt(name, now)
        for name, (nodes, gpus, node_type) in assigned.items():
            self._place(name, tuple(sorted(nodes)), gpus, node_type, now)
        return tuple(new_nodes)

    def release_all(self, now: float) -> None:
        for node in list(self.nodes):
            self._release(node, now)

    def _record_progress(self, name: str, done: float) -> None:
        if done > (before := self._max_progress.get(name, 0.0)):
            self.total_progress += done - before
            self._max_progress[name] = done

    def _rent(self, plan: NodePlan, now: float) -> RentedNode:
        node = RentedNode(
            id=self._next_node, type=plan.type, rented_seconds=now, ready_seconds=now + self.delays.boot_seconds
        )
        self._next_node += 1
        self.nodes[node.id] = node
        return node

    def _release(self, number: int, now: float, *, reclaimed: bool = False) -> None:
        node = self.nodes.pop(number)
        self.rentals.append(
            NodeRental(
                node=number,
                type=node.type,
                start_seconds=node.rented_seconds,
                ready_seconds=node.ready_seconds,
                end_seconds=now,
                reclaimed=reclaimed,
            )
        )

    def _preempt(self, name: str, now: float) -> None:
        before = self._queued[name]
        self.allocations.append(self.running.pop(name).allocation(now, before.done))
        self._queued[name] = QueuedJob(
            job=before.job,
            done=before.done,
            saved=before.done,
            expected_done=before.expected_done,
            progress_by_gpu=before.progress_by_gpu,
            preempted=True,
        )

    def _place(self, name: str, nodes: tuple[int, ...], gpus: int, node_type: str, now: float) -> None:
        current = self.running.get(name)
        if current is not None and current.nodes == nodes and current.gpus == gpus:
            return
        before = self._queued[name]
        restore = restore_seconds(before, self.delays)
        if current is not None:
            self.allocations.append(current.allocation(now, before.done))
        slot = self._slots[node_type, gpus, len(nodes)]
        ready = max(self.nodes[node].ready_seconds for node in nodes)
        work_start = max(now, ready) + restore
        true_seconds = self._true_seconds[name][slot]
        self.running[name] = RunningJob(
            job=before.job,
            nodes=nodes,
            gpus=gpus,
            start_seconds=now,
            work_start_seconds=work_start,
            done_before=before.done,
            expected_before=before.expected_done,
            gpu=self._gpus[node_type],
            progress_before=before.progress_by_gpu,
            predicted_seconds=before.job.seconds[slot],
            true_seconds=true_seconds,
            end_seconds=work_start + (1 - before.done) * true_seconds,
        )
