"""Use case: profiles that a server takes in the background. A task is stored first, and worked on under a lease."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.ids import new_id
from trainfare.app.programs.sources import read_program
from trainfare.app.programs.uploaded import is_uploaded
from trainfare.errors import UsageError
from trainfare.model.task import Task, TaskEvent, TaskEventKind, TaskState, task_state
from trainfare.settings import Settings
from trainfare.store.open import open_existing_history, open_history


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """A task and what has happened to it."""

    task: Task
    events: tuple[TaskEvent, ...]

    @property
    def state(self) -> TaskState:
        return task_state(self.events)

    @property
    def has_ended(self) -> bool:
        return self.state not in ("waiting", "running")

    @property
    def profile_id(self) -> str | None:
        return self.events[-1].profile_id if self.events else None

    @property
    def message(self) -> str:
        """The sentence that says what is done now, or how it ended."""
        return next((event.text for event in reversed(self.events) if event.text), "")

    @property
    def argument(self) -> str | None:
        """The argument at fault, of a task that failed."""
        return self.events[-1].argument if self.events else None


def submit_profile(
    command: Sequence[str],
    *,
    user: str,
    settings: Settings,
    folder: Path | None = None,
    question: Mapping[str, str] | None = None,
    batch_size: int | None = None,
    samples: int | None = None,
    steps: int | None = None,
    max_seconds: float | None = None,
) -> Task:
    """Store a task that profiles a command; a server takes it up within a second."""
    if not command or not command[0].strip():
        raise UsageError("There is no command to profile.", field="command")
    for name, number in (("batch_size", batch_size), ("samples", samples), ("steps", steps)):
        if number is not None and number < 1:
            raise UsageError(f"The number must be at least 1, got {number}.", field=name)
    if max_seconds is not None and not max_seconds > 0:
        raise UsageError(f"The time must be positive, got {max_seconds:g}.", field="max_seconds")
    source = read_program(command, settings, folder=folder)
    try:
        task = Task(
            id=new_id("t"),
            made_at=datetime.now(UTC),
            user=user,
            program=source.program,
            sandboxed=is_uploaded(source.program, settings),
            question=dict(question or {}),
            batch_size=batch_size,
            samples=samples,
            steps=steps,
            max_seconds=max_seconds,
        )
    except ValueError as error:
        raise UsageError(f"{error}.", field="command") from error
    with open_history(settings.store) as history:
        history.tasks.add(task)
    return task


def show_task(task_id: str, *, settings: Settings) -> TaskStatus:
    """One task. `NotFoundError` if there is none of this id."""
    with open_existing_history(settings.store) as history:
        return TaskStatus(task=history.tasks.get(task_id), events=history.task_events.of(task_id))


def list_tasks(*, settings: Settings, limit: int = 50) -> tuple[TaskStatus, ...]:
    """The newest tasks."""
    with open_existing_history(settings.store) as history:
        newest = history.tasks.all()[:limit]
        return tuple(TaskStatus(task=task, events=history.task_events.of(task.id)) for task in newest)


def cancel_task(task_id: str, *, settings: Settings) -> TaskStatus:
    """Ask for the end of a task; one that has not started ends at once."""
    with open_existing_history(settings.store) as history:
        task, events = history.tasks.get(task_id), history.task_events.of(task_id)
        kind: TaskEventKind = "cancel asked" if any(event.kind == "started" for event in events) else "cancelled"
        now = datetime.now(UTC)
        history.task_events.append(
            TaskEvent(task_id=task_id, number=0, seen_at=now, kind=kind, text="It was cancelled."), lease=None
        )
        return TaskStatus(task=task, events=history.task_events.of(task_id))
