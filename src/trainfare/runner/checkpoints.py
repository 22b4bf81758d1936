"""Checkpoints of a run: which one is brought home, how often, and what is lost with a machine.

    τ = √(2·C·M)    Young (1974), Daly (2006)

is the interval that loses least, C being the seconds that a checkpoint costs and M the mean time between losses of the
machine. C is measured: the time that the program takes to save, and that of the transfer. A checkpoint is brought home
only once, so never more often than the program saves. The transfer does not stop the program: τ is an upper bound for
the interval that would be best, and keeps the link free.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from posixpath import commonpath

from trainfare.model.offer import Candidate
from trainfare.model.run import Checkpoint, Observation, Run
from trainfare.runner.life import Life
from trainfare.runner.progress import RunProgress
from trainfare.runner.seen import NodeSeen, Seen, number_in, path_of, saved_at, summarise
from trainfare.units import format_duration

MEAN_SECONDS_BETWEEN_LOSSES = 86400.0
"""M of a machine whose rate of loss is unknown: a day. Rented machines on demand and own servers last longer, so that
checkpoints come home more often than they must."""
SAME_TIME_SECONDS = 10.0
"""Nodes that do not count iterations save one checkpoint within so much time, by their clocks."""
UNSEEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPart:
    """The part of a checkpoint that a further node has saved."""

    node: int
    number: int
    paths: tuple[str, ...]
    saved_at: datetime
    save_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint on the machines: everything that the program saved at one iteration."""

    number: int
    """The number of its last entry in the journal."""
    paths: tuple[str, ...]
    """Paths within the program's folder, or absolute ones."""
    path: str
    """The one to go on from."""
    saved_at: datetime
    save_seconds: float
    iteration: int | None
    resumes: bool = False
    """The Trainer of the program can go on from it without an argument."""
    node: int = 0
    """The node that all of this is about: the first one that saves."""
    others: tuple[SavedPart, ...] = ()
    """The parts of further nodes."""


def mean_seconds_between_losses(run: Run, candidate: Candidate | None) -> float:
    """M of the machines of an attempt: by the predicted interruptions where they are known. Those of spot machines in
    another region are taken to be alike."""
    estimate = run.estimate
    known = candidate is None or candidate == run.candidate or _are_alike(candidate, run.candidate)
    if estimate is None or not known or not estimate.interruptions or not estimate.interruptions.value:
        return MEAN_SECONDS_BETWEEN_LOSSES
    return estimate.seconds.value / estimate.interruptions.value


def _are_alike(candidate: Candidate, other: Candidate) -> bool:
    """The same number of the same machines, both on spot."""
    on_spot = candidate.offer.market == other.offer.market == "spot"
    return on_spot and (candidate.offer.vm_type, candidate.shape) == (other.offer.vm_type, other.shape)


def fetch_interval_seconds(cost_seconds: float, *, between_losses: float) -> float:
    """τ; at least the cost itself, so that a slow link is not always busy with checkpoints."""
    return max(cost_seconds, math.sqrt(2 * cost_seconds * between_losses))


def latest_saved(
    entries: Iterable[Observation] | Seen, *, nodes: int = 1, done_before: int = 0, has_ended: bool = False
) -> SavedCheckpoint | None:
    """The last complete checkpoint by the entries of the current attempt in their order, or by their summary;
    `done_before` iterations were done in earlier attempts.

    Entries with the same iteration are one checkpoint (weights and optimizer state in two files); without iterations,
    those saved at the same time. The last group counts once the agent looked later and saw no more of it, or the
    program has ended. Of several nodes, each that saves must have saved its part.
    """
    seen = summarise(entries)
    saving = {number: node for number, node in sorted(seen.nodes.items()) if node.groups}
    if not saving:
        return None
    lead, first = next(iter(saving.items()))
    for group in reversed(first.groups):
        if not (has_ended or first.is_settled(group)):
            continue
        others = {number: seen.nodes.get(number, NodeSeen()) for number in range(nodes) if number != lead}
        parts = _parts(group, first, others, has_ended=has_ended)
        if parts is not None:
            return _saved(group, lead, first, parts, done_before)
    return None


def _parts(
    group: list[Observation], first: NodeSeen, others: Mapping[int, NodeSeen], *, has_ended: bool
) -> tuple[SavedPart, ...] | None:
    """The parts of other nodes of a checkpoint; None if one of them is not complete, or may still come. A node that
    saves at least half as often as the first has a part of each."""
    found = []
    for number, node in sorted(others.items()):
        part = _part(group, first, node)
        if part is not None and (has_ended or node.is_settled(part)):
            found.append(
                SavedPart(
                    node=number,
                    number=part[-1].number,
                    paths=tuple(dict.fromkeys(map(path_of, part))),
                    saved_at=saved_at(part[-1]),
                    save_seconds=_save_seconds(part),
                )
            )
        elif part is not None or 2 * node.saves >= first.saves or not (has_ended or _will_not_save(node, group, first)):
            return None
    return tuple(found)


def _will_not_save(node: NodeSeen, group: Sequence[Observation], first: NodeSeen) -> bool:
    """A node has looked since a checkpoint was saved and saw no part of it. If it never reports anything, because its
    program is not observed, that is taken to be so after a minute."""
    moment = saved_at(group[-1])
    if node.looked_at is not None:
        return node.has_looked_after(moment)
    return first.has_looked_after(moment + timedelta(seconds=UNSEEN_SECONDS))


def _part(group: list[Observation], first: NodeSeen, node: NodeSeen) -> list[Observation] | None:
    """The files that a node saved at the same iteration, or else at the same time: then each is the nearest of the
    other, so that a node that has saved once more than another is not taken together with it."""
    iteration = number_in(group[-1], "iteration")
    if iteration is not None:
        same = [each for each in node.groups if number_in(each[-1], "iteration") == iteration]
        if same or any(number_in(each[-1], "iteration") is not None for each in node.groups):
            return same[-1] if same else None
    part = _nearest(node, group)
    if part is None or abs((saved_at(part[-1]) - saved_at(group[-1])).total_seconds()) > SAME_TIME_SECONDS:
        return None
    return part if _nearest(first, part) is group else None


def _nearest(node: NodeSeen, group: Sequence[Observation]) -> list[Observation] | None:
    moment = saved_at(group[-1])
    return min(node.groups, key=lambda each: abs((saved_at(each[-1]) - moment).total_seconds()), default=None)


def _saved(
    group: Sequence[Observation], lead: int, node: NodeSeen, parts: tuple[SavedPart, ...], done_before: int
) -> SavedCheckpoint:
    last = group[-1]
    iteration = number_in(last, "iteration")
    if iteration is None:  # it was found on the disk: at least those that were reported before were done
        iteration = max((count for at, count in node.counts if at <= saved_at(last)), default=None)
    by_trainer = [path_of(each) for each in group if number_in(each, "resumes")]
    return SavedCheckpoint(
        number=last.number,
        paths=tuple(dict.fromkeys(map(path_of, group))),
        path=_main_path(by_trainer[-1:] or [path_of(each) for each in group], node.paths),
        saved_at=saved_at(last),
        save_seconds=_save_seconds(group),
        iteration=done_before + int(iteration) if iteration is not None else None,
        resumes=bool(by_trainer),
        node=lead,
        others=parts,
    )


def _save_seconds(group: Sequence[Observation]) -> float:
    return sum(number_in(each, "seconds") or 0.0 for each in group)


def is_fetch_due(life: Life, saved: SavedCheckpoint, now: datetime, between_losses: float) -> bool:
    """The checkpoint is new, and the last one came home long enough ago. The first of an attempt is always due: its
    cost is not known yet."""
    last = life.checkpoint
    if last is None or life.checkpoint_at is None or life.checkpoint_attempt != life.attempt:
        return True
    interval = fetch_interval_seconds(last.cost_seconds, between_losses=between_losses)
    return is_newer(life, saved) and now - life.checkpoint_at >= timedelta(seconds=interval)


def is_newer(life: Life, saved: SavedCheckpoint) -> bool:
    """It was saved after the last one that came home. Clocks are compared within one attempt only."""
    last = life.checkpoint
    return last is None or life.checkpoint_attempt != life.attempt or saved.saved_at > last.saved_at


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWork:
    """The work that is done again after a loss."""

    iterations: int | None
    """Iterations that are done again; None if they cannot be counted."""
    seconds: float | None
    """The time that they took; None if that of an iteration is unknown."""

    def __str__(self) -> str:
        if self.iterations is None:
            return f"{format_duration(self.seconds or 0.0)} of training"
        words = f"{self.iterations:,} iterations" if self.iterations != 1 else "1 iteration"
        return words if self.seconds is None else f"{words} ({format_duration(self.seconds)})"


def lost_work(life: Life, progress: RunProgress | None, *, heard_at: datetime | None) -> LostWork:
    """The iterations since the checkpoint that the run goes on from, where they can be counted, and the time that they
    took; otherwise the time until `heard_at`, that of the last entry of the machine."""
    last = life.usable_checkpoint
    if progress is not None and progress.iterations and (last is None or last.iteration is not None):
        count = max(0, progress.iterations - (last.iteration or 0 if last else 0))
        took = progress.iteration_seconds
        return LostWork(iterations=count, seconds=count * took.value if took else None)
    is_of_this_attempt = last is life.checkpoint and life.checkpoint_attempt == life.attempt
    since = last.saved_at if last is not None and is_of_this_attempt else life.started_at
    until = heard_at or life.ended_at
    seconds = max(0.0, (until - since).total_seconds()) if until and since else 0.0
    return LostWork(iterations=None, seconds=seconds)


def describe_checkpoint(checkpoint: Checkpoint) -> str:
    """A checkpoint at home in words."""
    iteration = f", iteration {checkpoint.iteration:,}" if checkpoint.iteration is not None else ""
    return f"the checkpoint {checkpoint.path} of {checkpoint.saved_at:%H:%M}{iteration}"


def _main_path(group: Sequence[str], counts_by_path: Mapping[str, int]) -> str:
    """The path to go on from: that of the only file, or of the one that is saved most often (`last.pt`, while `best.pt`
    is saved now and then), or the common folder of files that belong together."""
    names = list(dict.fromkeys(group))
    counts = sorted((counts_by_path[name] for name in names), reverse=True)
    if len(names) == 1 or counts[0] > counts[1]:
        return max(names, key=lambda name: counts_by_path[name])
    folders = [name.rpartition("/")[0] for name in names]
    return commonpath(folders) if all(folders) else "."
