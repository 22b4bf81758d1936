"""Work that a server does in the background: it takes a profile of a program that a user gave it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text
from trainfare.model.program import Program

TaskEventKind = Literal["started", "progress", "cancel asked", "succeeded", "failed", "cancelled"]
LAST_KINDS: tuple[TaskEventKind, ...] = ("succeeded", "failed", "cancelled")
"""The last event of a task is one of these."""

TaskState = Literal["waiting", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A profile to take, as it was asked for."""

    id: str
    made_at: datetime
    user: str
    program: Program
    sandboxed: bool = False
    """The program was uploaded: it sees nothing of the server but its own folder."""
    question: dict[str, str] = field(default_factory=dict)
    """The question that came together with the program, in the words of the page of offers: goal, epochs, limits."""
    batch_size: int | None = None
    samples: int | None = None
    steps: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        require_text(id=self.id, user=self.user)
        require_aware(made_at=self.made_at)
        require_positive(
            batch_size=self.batch_size, samples=self.samples, steps=self.steps, max_seconds=self.max_seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """Something that happened to a task. Events are numbered from 0 without a gap."""

    task_id: str
    number: int
    seen_at: datetime
    kind: TaskEventKind
    text: str = ""
    """A sentence: what is done now, or why it failed."""
    iterations: int | None = None
    iteration_seconds: float | None = None
    profile_id: str | None = None
    """The profile of a task that succeeded."""
    argument: str | None = None
    """The argument at fault, of a task that failed."""

    def __post_init__(self) -> None:
        require_text(task_id=self.task_id)
        require_aware(seen_at=self.seen_at)
        require_not_negative(number=self.number, iterations=self.iterations, iteration_seconds=self.iteration_seconds)
        if (self.kind == "succeeded") != (self.profile_id is not None):
            raise ValueError("a task that succeeded has a profile, and no other has")


def task_lease_name(task_id: str) -> str:
    """The name of the lease under which a task is worked on."""
    return f"task/{task_id}"


def task_state(events: tuple[TaskEvent, ...]) -> TaskState:
    """The state that the events of a task say."""
    match events[-1].kind if events else None:
        case "succeeded" | "failed" | "cancelled" as last:
            return last
    return "running" if any(event.kind == "started" for event in events) else "waiting"
