"""Checkpoints of a run: which one is brought home, how often, and what is lost with a machine.

    τ = √(2·C·M)    Young (1974), Daly (2006)

is the interval that loses least, C being the seconds that a checkpoint costs and M the mean time between losses of the
machine. C is measured: the time that the program takes to save, and that of the transfer. A checkpoint is brought home
only once, so never more often than the program saves. The transfer does not stop the program: τ is an upper bound for
the interval that would be best, and keeps the link free.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from posixpath import commonpath

from trainfare.model.offer import Candidate
from trainfare.model.run import Observation, Run
from trainfare.runner.life import Life
from trainfare.runner.progress import RunProgress, last_iteration
from trainfare.units import format_duration

MEAN_SECONDS_BETWEEN_LOSSES = 86400.0
"""M of a machine whose rate of loss is unknown: a day. Rented machines on demand and own servers last longer, so that
checkpoints come home more often than they must."""
SETTLED_SECONDS = 1.0
"""Files that belong to one checkpoint are saved one after the other within so much time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint on the machine: everything that the program saved at one iteration."""

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


def mean_seconds_between_losses(run: Run, candidate: Candidate | None) -> float:
    """M of the machines of an attempt: by the predicted interruptions where they are known."""
    estimate = run.estimate
    known = estimate is not None and candidate in (None, run.candidate)
    if estimate is None or not known or not estimate.interruptions or not estimate.interruptions.value:
        return MEAN_SECONDS_BETWEEN_LOSSES
    return estimate.seconds.value / estimate.interruptions.value


def fetch_interval_seconds(cost_seconds: float, *, between_losses: float) -> float:
    """τ; at least the cost itself, so that a slow link is not always busy with checkpoints."""
    return max(cost_seconds, math.sqrt(2 * cost_seconds * between_losses))


def latest_saved(
    seen: Sequence[Observation], *, done_before: int = 0, has_ended: bool = False
) -> SavedCheckpoint | None:
    """The last complete checkpoint by the entries of the current attempt (`checkpoint` and `iterations`) in their
    order; `done_before` iterations were done in earlier attempts.

    Entries with the same iteration are one checkpoint (weights and optimizer state in two files); without iterations,
    those saved at the same time. The last group counts once the agent looked later and saw no more of it, or the
    program has ended.
    """
    of_node = [each for each in seen if each.node == 0]
    groups = _groups([each for each in of_node if each.kind == "checkpoint" and _path(each)])
    looked_at = max((each.at for each in of_node), default=None)
    if groups and looked_at is not None and not has_ended:
        last = groups[-1][-1]
        if (looked_at - _saved_at(last)).total_seconds() < SETTLED_SECONDS:
            groups.pop()
    if not groups:
        return None
    group = groups[-1]
    iteration = _number(group[-1], "iteration")
    if iteration is None:  # it was found on the disk: at least those that were reported before were done
        counts = [last_iteration(each) for each in of_node if _is_count(each, _saved_at(group[-1]))]
        iteration = max(counts, default=None)
    by_trainer = [_path(each) for each in group if _number(each, "resumes")]
    return SavedCheckpoint(
        number=group[-1].number,
        paths=tuple(dict.fromkeys(_path(each) for each in group)),
        path=_main_path(by_trainer[-1:] or [_path(each) for each in group], [_path(each) for each in of_node]),
        saved_at=_saved_at(group[-1]),
        save_seconds=sum(_number(each, "seconds") or 0.0 for each in group),
        iteration=done_before + int(iteration) if iteration is not None else None,
        resumes=bool(by_trainer),
    )


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


def lost_work(life: Life, progress: RunProgress | None, *, heard_at: datetime | None) -> str:
    """The work that is done again, in words: iterations since the last checkpoint at home, where they can be counted,
    and the time that they took; otherwise the time until `heard_at`, that of the last entry of the machine."""
    last = life.checkpoint
    if progress is not None and progress.iterations and (last is None or last.iteration is not None):
        count = max(0, progress.iterations - (last.iteration or 0 if last else 0))
        took = progress.iteration_seconds
        words = f"{count:,} iterations" if count != 1 else "1 iteration"
        return f"{words} ({format_duration(count * took.value)})" if took else words
    is_of_this_attempt = last is not None and life.checkpoint_attempt == life.attempt
    since = last.saved_at if last is not None and is_of_this_attempt else life.started_at
    until = heard_at or life.ended_at
    seconds = max(0.0, (until - since).total_seconds()) if until and since else 0.0
    return f"{format_duration(seconds)} of training"


def describe_checkpoint(life: Life) -> str:
    """The last checkpoint at home in words; it must exist."""
    last = life.checkpoint
    if last is None:
        raise ValueError("there is no checkpoint")
    at = f"{last.saved_at:%H:%M}" + (f", iteration {last.iteration:,}" if last.iteration is not None else "")
    return f"the checkpoint {last.path} of {at}"


def _groups(entries: Sequence[Observation]) -> list[list[Observation]]:
    groups: list[list[Observation]] = []
    for entry in entries:
        if groups and _belong_together(groups[-1][-1], entry):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _belong_together(first: Observation, second: Observation) -> bool:
    before, after = _number(first, "iteration"), _number(second, "iteration")
    if before is not None and after is not None:
        return before == after
    return abs((_saved_at(second) - _saved_at(first)).total_seconds()) < SETTLED_SECONDS


def _main_path(group: Sequence[str], every: Sequence[str]) -> str:
    """The path to go on from: that of the only file, or of the one that is saved most often (`last.pt`, while `best.pt`
    is saved now and then), or the common folder of files that belong together."""
    names = list(dict.fromkeys(group))
    counts = sorted((every.count(name) for name in names), reverse=True)
    if len(names) == 1 or counts[0] > counts[1]:
        return max(names, key=every.count)
    folders = [name.rpartition("/")[0] for name in names]
    return commonpath(folders) if all(folders) else "."


def _is_count(seen: Observation, until: datetime) -> bool:
    return seen.kind == "iterations" and seen.at <= until


def _path(seen: Observation) -> str:
    path = seen.values.get("path")
    return path if isinstance(path, str) else ""


def _saved_at(seen: Observation) -> datetime:
    saved = _number(seen, "saved")
    return datetime.fromtimestamp(saved, UTC) if saved is not None else seen.at


def _number(seen: Observation, name: str) -> float | None:
    value = seen.values.get(name)
    return float(value) if isinstance(value, int | float) else None
