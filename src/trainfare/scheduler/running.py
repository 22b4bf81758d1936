"""A queue while it is worked off: which nodes are rented, which job runs where, how far each is.

Nothing of a running job is touched as time passes. What it has done at the moment s follows from where it began there:

    done(s) = done_before + max(0, s - works_from) / t      t: the whole job's true time in that slot
    end     = works_from + (1 - done_before) · t

so that errors of rounding do not add up over the events in between.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from trainfare.model.queue import Arrivals, Decision, Delays, Fleet, Job, Node, NodePlan, Queued, State
from trainfare.model.schedule import Rental, Stretch

ALMOST_ONE = math.nextafter(1.0, 0.0)
"""What a job has done at most as long as it has not ended."""
SEEN_JOBS = 400
"""Over so many of the last jobs the mean shortest time is taken."""


def rounding_seconds(now: float) -> float:
    """What lies closer together than this happens at one moment: 1e-10 of the time since the start of the queue."""
    return 1e-10 * max(1.0, abs(now))


def restore_seconds(queued: Queued, delays: Delays) -> float:
    """What passes before a job gets on in another place than the one it has, a boot not counted.

    nothing                   while nothing of it is done
    checkpoint + restart      where it runs, or was stopped on purpose
    restart                   after a reclaimed node: what was saved is there already
    """
    if queued.done == 0:
        return 0.0
    return delays.restart_seconds + (delays.checkpoint_seconds if queued.nodes or queued.stopped else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A job at its place, since a moment."""

    job: Job
    nodes: tuple[int, ...]
    gpus: int
    start_seconds: float
    works_from_seconds: float
    done_before: float
    expected_before: float
    gpu: str
    seen_before: tuple[tuple[str, float, float], ...]
    predicted_seconds: float
    """Of the whole job, in this slot."""
    true_seconds: float
    end_seconds: float

    def queued(self, now: float, *, saves_every_seconds: float) -> Queued:
        worked = max(0.0, now - self.works_from_seconds)
        done = min(self.done_before + worked / self.true_seconds, ALMOST_ONE)
        saved = self.done_before
        if worked >= saves_every_seconds:
            saved += worked // saves_every_seconds * saves_every_seconds / self.true_seconds
        return Queued(
            job=self.job,
            done=done,
            expected_done=self.expected_before + worked / self.predicted_seconds,
            seen=self._seen(worked),
            saved=min(saved, done),
            nodes=self.nodes,
            gpus=self.gpus,
            works_from_seconds=self.works_from_seconds,
        )

    def _seen(self, worked: float) -> tuple[tuple[str, float, float], ...]:
        if not worked:
            return self.seen_before
        seen = {gpu: (done, expected) for gpu, done, expected in self.seen_before}
        done, expected = seen.get(self.gpu, (0.0, 0.0))
        seen[self.gpu] = (done + worked / self.true_seconds, expected + worked / self.predicted_seconds)
        return tuple((gpu, *parts) for gpu, parts in seen.items())

    def stretch(self, now: float, done_after: float) -> Stretch:
        return Stretch(
            job=self.job.id,
            nodes=self.nodes,
            gpus=self.gpus,
            start_seconds=self.start_seconds,
            works_from_seconds=self.works_from_seconds,
            end_seconds=now,
            done_before=self.done_before,
            done_after=done_after,
        )


class Floor:
    """The nodes that are rented and the jobs that are not finished, with a record of what was."""

    def __init__(self, fleet: Fleet, delays: Delays, true_seconds: dict[str, tuple[float, ...]]) -> None:
        self.fleet = fleet
        self.delays = delays
        self.nodes: dict[int, Node] = {}
        self.placements: dict[str, Placement] = {}
        self.rentals: list[Rental] = []
        self.stretches: list[Stretch] = []
        self.ended: list[tuple[str, float]] = []
        self._true_seconds = true_seconds
        self._slots = {(slot.type, slot.gpus, slot.nodes): number for number, slot in enumerate(fleet.slots)}
        self._gpus = {each.name: each.gpu for each in fleet.types}
        self._queued: dict[str, Queued] = {}
        """By id in the order of submission; of a job that runs, as it was when it was put there."""
        self.furthest = 0.0
        """The sum over all jobs of the most that was ever seen done of each: it grows while work gets on."""
        self._most_done: dict[str, float] = {}
        self._next_node = 0
        self._seen = 0
        self._last_seconds = 0.0
        self._shortest: deque[float] = deque(maxlen=SEEN_JOBS)
        self._mean_shortest = 0.0

    def unfinished(self) -> tuple[str, ...]:
        return tuple(self._queued)

    def submit(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._queued[job.id] = Queued(job=job)
            self._seen += 1
            self._last_seconds = job.submitted_seconds
            self._shortest.append(job.shortest_seconds)
        self._mean_shortest = math.fsum(self._shortest) / max(len(self._shortest), 1)

    def state(self, now: float) -> State:
        saves = self.delays.checkpoint_every_seconds
        for name, placement in self.placements.items():
            queued = self._queued[name] = placement.queued(now, saves_every_seconds=saves)
            self._note_progress(name, queued.done)
        return State(
            now_seconds=now,
            fleet=self.fleet,
            jobs=tuple(self._queued.values()),
            nodes=tuple(self.nodes.values()),
            arrivals=Arrivals(
                jobs=self._seen, last_seconds=self._last_seconds, mean_shortest_seconds=self._mean_shortest
            ),
            delays=self.delays,
        )

    def end_jobs(self, now: float) -> None:
        """Ends those that are done by now."""
        latest = now + rounding_seconds(now)
        done = [name for name, placement in self.placements.items() if placement.end_seconds <= latest]
        for name in done:
            self.stretches.append(self.placements.pop(name).stretch(now, 1.0))
            self.ended.append((name, now))
            del self._queued[name]
            self._note_progress(name, 1.0)

    def reclaim(self, node: int, now: float) -> None:
        """The node is gone, and its jobs wait with what they had saved.

        What they had been expected to do shrinks with what they did, so that how wrong a prediction proved is kept.
        """
        self._give_back(node, now, reclaimed=True)
        for name in [name for name, placement in self.placements.items() if node in placement.nodes]:
            placement = self.placements.pop(name)
            was = placement.queued(now, saves_every_seconds=self.delays.checkpoint_every_seconds)
            kept = was.saved / was.done if was.done else 0.0
            self.stretches.append(placement.stretch(now, was.saved))
            self._queued[name] = Queued(
                job=was.job,
                done=was.saved,
                saved=was.saved,
                expected_done=was.expected_done * kept,
                seen=tuple((gpu, done * kept, expected * kept) for gpu, done, expected in was.seen),
            )

    def carry_out(self, decision: Decision, now: float) -> tuple[Node, ...]:
        """Does what a fit decision says, to the state as of now. The nodes that are new."""
        named = {plan.node for plan in decision.nodes}
        for node in [node for node in self.nodes if node not in named]:
            self._give_back(node, now)
        fresh = []
        wanted: dict[str, tuple[list[int], int, str]] = {}
        for plan in decision.nodes:
            number = plan.node
            if number is None:
                fresh.append(self._rent(plan, now))
                number = fresh[-1].id
            for name, gpus in plan.jobs:
                wanted.setdefault(name, ([], gpus, plan.type))[0].append(number)
        for name in [name for name in self.placements if name not in wanted]:
            self._stop(name, now)
        for name, (nodes, gpus, kind) in wanted.items():
            self._put(name, tuple(sorted(nodes)), gpus, kind, now)
        return tuple(fresh)

    def close(self, now: float) -> None:
        for node in list(self.nodes):
            self._give_back(node, now)

    def _note_progress(self, name: str, done: float) -> None:
        if done > (most := self._most_done.get(name, 0.0)):
            self.furthest += done - most
            self._most_done[name] = done

    def _rent(self, plan: NodePlan, now: float) -> Node:
        node = Node(
            id=self._next_node, type=plan.type, rented_seconds=now, ready_seconds=now + self.delays.boot_seconds
        )
        self._next_node += 1
        self.nodes[node.id] = node
        return node

    def _give_back(self, number: int, now: float, *, reclaimed: bool = False) -> None:
        node = self.nodes.pop(number)
        self.rentals.append(
            Rental(
                node=number,
                type=node.type,
                start_seconds=node.rented_seconds,
                ready_seconds=node.ready_seconds,
                end_seconds=now,
                reclaimed=reclaimed,
            )
        )

    def _stop(self, name: str, now: float) -> None:
        was = self._queued[name]
        self.stretches.append(self.placements.pop(name).stretch(now, was.done))
        self._queued[name] = Queued(
            job=was.job, done=was.done, saved=was.done, expected_done=was.expected_done, seen=was.seen, stopped=True
        )

    def _put(self, name: str, nodes: tuple[int, ...], gpus: int, kind: str, now: float) -> None:
        here = self.placements.get(name)
        if here is not None and here.nodes == nodes and here.gpus == gpus:
            return
        was = self._queued[name]
        restore = restore_seconds(was, self.delays)
        if here is not None:
            self.stretches.append(here.stretch(now, was.done))
        slot = self._slots[kind, gpus, len(nodes)]
        ready = max(self.nodes[node].ready_seconds for node in nodes)
        works_from = max(now, ready) + restore
        true_seconds = self._true_seconds[name][slot]
        self.placements[name] = Placement(
            job=was.job,
            nodes=nodes,
            gpus=gpus,
            start_seconds=now,
            works_from_seconds=works_from,
            done_before=was.done,
            expected_before=was.expected_done,
            gpu=self._gpus[kind],
            seen_before=was.seen,
            predicted_seconds=was.job.seconds[slot],
            true_seconds=true_seconds,
            end_seconds=works_from + (1 - was.done) * true_seconds,
        )
