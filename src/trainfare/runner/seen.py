"""What is remembered of the journals of one attempt: enough to know how far it is and which checkpoint is the last.

Entries are added once, in the order of each journal, and are not kept: so a look at a run of weeks costs no more than
one at a run of minutes.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trainfare.model.run import Observation, ObservationKind

KINDS: tuple[ObservationKind, ...] = ("iterations", "losses", "checkpoint", "meter", "program")
"""The kinds of observations that are read."""
SETTLED_SECONDS = 1.0
"""Files that belong to one checkpoint are saved one after the other within so much time."""
_GROUPS = 8
_COUNTS = 200
"""Entries about iterations that are remembered: a checkpoint is noted a minute after it was saved at most."""


@dataclass(slots=True)
class NodeSeen:
    """The journal of one node."""

    last_number: int = 0
    looked_at: datetime | None = None
    """The time of its last entry about training, by the clock of the machine."""
    first_steps: Observation | None = None
    last_steps: Observation | None = None
    last_losses: Observation | None = None
    paths: Counter[str] = field(default_factory=Counter)
    """The paths of all checkpoints, and how often each was saved."""
    groups: deque[list[Observation]] = field(default_factory=lambda: deque(maxlen=_GROUPS))
    """Entries that are one checkpoint together, the last ones."""
    saves: int = 0
    """The number of all such groups."""
    steps: int = 0
    """All iterations that were counted."""
    steps_seconds: float = 0.0
    """The time of all of them."""
    last_meter: Observation | None = None
    meter_at_start: Observation | None = None
    """The last reading before the program started."""
    counts: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=_COUNTS))
    """The times of entries about iterations, and the number of the last iteration in each."""

    def add(self, entry: Observation) -> None:
        self.last_number = max(self.last_number, entry.number)
        if entry.kind == "losses":
            self.last_losses = entry
            return
        if entry.kind == "meter":
            self.last_meter = entry
        if entry.kind == "program" and entry.values.get("state") == "started":
            self.meter_at_start = self.last_meter
        if entry.kind not in ("iterations", "checkpoint"):
            return
        self.looked_at = entry.at if self.looked_at is None else max(self.looked_at, entry.at)
        if entry.kind == "iterations":
            self.first_steps = self.first_steps or entry
            self.last_steps = entry
            self.steps += int(number_in(entry, "count") or 0)
            self.steps_seconds += _seconds_of(entry)
            self.counts.append((entry.at, last_iteration(entry)))
        elif path_of(entry):
            self.paths[path_of(entry)] += 1
            if self.groups and _belong_together(self.groups[-1][-1], entry):
                self.groups[-1].append(entry)
            else:
                self.groups.append([entry])
                self.saves += 1

    def is_settled(self, group: list[Observation]) -> bool:
        """No more of a checkpoint will come: another followed, or the agent has looked again since."""
        if group is not self.groups[-1]:
            return True
        return self.has_looked_after(saved_at(group[-1]))

    def has_looked_after(self, moment: datetime) -> bool:
        return self.looked_at is not None and (self.looked_at - moment).total_seconds() >= SETTLED_SECONDS


@dataclass(slots=True)
class Seen:
    """The journals of all nodes."""

    nodes: dict[int, NodeSeen] = field(default_factory=dict)

    def add(self, entries: Iterable[Observation]) -> None:
        for entry in entries:
            self.nodes.setdefault(entry.node, NodeSeen()).add(entry)

    @property
    def first(self) -> NodeSeen:
        """The first node, by which progress is measured."""
        return self.nodes.get(0) or NodeSeen()

    @property
    def heard_at(self) -> datetime | None:
        """The time of the last entry about training, by the clocks of the machines."""
        return max((node.looked_at for node in self.nodes.values() if node.looked_at), default=None)

    @property
    def has_saved(self) -> bool:
        return any(node.groups for node in self.nodes.values())


def summarise(entries: "Iterable[Observation] | Seen") -> Seen:
    """The summary of all entries of an attempt, in their order."""
    if isinstance(entries, Seen):
        return entries
    seen = Seen()
    seen.add(entries)
    return seen


def last_iteration(entry: Observation) -> int:
    """The number of the last iteration in an entry, counted from 1 in each attempt."""
    return int((number_in(entry, "first") or 0.0) + (number_in(entry, "count") or 0.0)) - 1


def _seconds_of(entry: Observation) -> float:
    """The time of the iterations of an entry, which has means of groups of equal size but for the last."""
    means, count = entry.values.get("seconds"), int(number_in(entry, "count") or 0)
    if not isinstance(means, list) or not means or not count:
        return 0.0
    size = -(-count // len(means))
    return sum((mean or 0.0) * min(size, count - place * size) for place, mean in enumerate(means))


def path_of(entry: Observation) -> str:
    path = entry.values.get("path")
    return path if isinstance(path, str) else ""


def saved_at(entry: Observation) -> datetime:
    saved = number_in(entry, "saved")
    return datetime.fromtimestamp(saved, UTC) if saved is not None else entry.at


def number_in(entry: Observation, name: str) -> float | None:
    value = entry.values.get(name)
    return float(value) if isinstance(value, int | float) else None


def _belong_together(first: Observation, second: Observation) -> bool:
    before, after = number_in(first, "iteration"), number_in(second, "iteration")
    if before is not None and after is not None:
        return before == after
    return abs((saved_at(second) - saved_at(first)).total_seconds()) < SETTLED_SECONDS
