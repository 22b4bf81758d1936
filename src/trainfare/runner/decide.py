"""What the supervisor does next: the facts of a run and what its door says now → one action.

The supervisor appends the fact, or makes the call, and asks again. It may be killed at any point: a call whose effect
was not seen is made again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, Protocol

from trainfare.model.offer import Candidate
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Fact, FactKind, Outcome, Run
from trainfare.runner.life import Life
from trainfare.runner.limits import limit_reached
from trainfare.units import format_duration

MAX_TERMINATION_PAUSE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The longest times that a door may take, in seconds."""

    appear: float = 5.0
    """Until a machine that was launched is listed. So long after a termination one may still turn up."""
    boot: float = 900.0
    collect: float = 600.0
    """Until results that cannot be fetched are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A summary of the journals of all nodes."""

    setup_failed: str | None = None
    started: bool = False
    exit_code: int | None = None
    """The worst exit code, once the program has ended on every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The knowledge at one moment."""

    now: datetime
    machines: tuple[RentedMachine, ...] | None
    """The machines of the current attempt as the door lists them; None if the door does not answer."""
    job: JobView | None
    """The journals; None if a node does not answer, or if nothing was started on it yet."""
    spent_usd: float
    collecting_since: datetime | None = None
    asked_to_end_at: datetime | None = None
    """The moment at which the door accepted to terminate the current attempt."""


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do for now."""

    why: str


Call = Literal["launch", "start", "stop", "collect", "terminate"]
"""A call to the door or to the agents. A repeated call has no further effect:

launch       ask the door for machines, with the key of the attempt
start        send code and agent to every node and start it
stop         ask the agents to end the program, so that it can save
collect      fetch the results
terminate    ask the door for the end of every machine of the attempt
"""

Action = Fact | Call | Wait
"""A fact to append, a call to make, or nothing."""


def decide(run: Run, life: Life, view: View, *, patience: Patience, fallbacks: Sequence[Candidate] = ()) -> Action:
    """The next action. `fallbacks` are tried in their order when a launch is refused or its machines are lost before
    the program has started."""
    if life.may_cost and life.stop_reason is None:
        limit = limit_reached(run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life))
        if limit is not None:
            return _fact(run, life, view, "stop asked", stop_reason=limit.reason, text=limit.text)
    note = partial(_fact, run, life, view)
    match life.state:
        case "planned":
            return _between_attempts(run, life, note, fallbacks)
        case "asked for":
            return _asked_for(life, view, note, patience)
        case "booting":
            return _booting(life, view, note, patience)
        case "setting up":
            return _setting_up(life, view, note)
        case "training":
            return _training(life, view, note)
        case "collecting":
            return _collecting(life, view, note, patience)
        case "ending":
            return _ending(life, view, note, patience)
        case "ended":
            return Wait("the run has ended")


def termination_pause_seconds(failures: int) -> float:
    """The pause after so many failed calls: 1 s, doubled with each, at most five minutes."""
    return min(MAX_TERMINATION_PAUSE_SECONDS, 2.0 ** (failures - 1)) if failures else 0.0


class _Note(Protocol):
    def __call__(self, kind: FactKind, **fields: Any) -> Fact: ...


def _fact(run: Run, life: Life, view: View, kind: FactKind, **fields: Any) -> Fact:
    fields = {"attempt": life.attempt, **fields}
    return Fact(run_id=run.id, number=life.facts, seen_at=view.now, kind=kind, **fields)


def _between_attempts(run: Run, life: Life, note: _Note, fallbacks: Sequence[Candidate]) -> Action:
    if life.stop_reason is not None:
        return note("run ended", outcome="stopped", text=f"Stopped: {life.stop_reason}.")
    if life.exit_code is not None:
        outcome: Outcome = "succeeded" if life.exit_code == 0 else "failed"
        return note("run ended", outcome=outcome, text=f"The program ended with exit code {life.exit_code}.")
    if life.attempt == 0:
        return note("launch intended", attempt=1, candidate=run.candidate)
    if not life.ever_started and life.attempt <= len(fallbacks):
        return note("launch intended", attempt=life.attempt + 1, candidate=fallbacks[life.attempt - 1])
    outcome = "lost" if life.ever_started else "failed"
    return note("run ended", outcome=outcome, text=life.failure or "The machine ended.")


def _asked_for(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if life.stop_reason is not None:
        return note("termination intended")
    if _is_overdue(life, view, patience):
        return note("machines lost", text=f"No machine was listed within {format_duration(patience.boot)}.")
    if view.machines is None:
        return Wait("the door does not answer")
    if life.candidate is not None and len(view.machines) >= life.candidate.nodes:
        return note("machines seen", machines=view.machines)
    return "launch"


def _booting(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if life.stop_reason is not None:
        return note("termination intended")
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    if view.machines and all(machine.state == "ready" for machine in view.machines):
        return note("machines ready", machines=view.machines)
    if _is_overdue(life, view, patience):
        return note("machines lost", text=f"It was not ready within {format_duration(patience.boot)}.")
    return Wait("it boots")


def _is_overdue(life: Life, view: View, patience: Patience) -> bool:
    return life.asked_at is not None and view.now - life.asked_at > timedelta(seconds=patience.boot)


def _setting_up(life: Life, view: View, note: _Note) -> Action:
    if life.stop_reason is not None:
        return note("termination intended")
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    if view.job is None:
        return "start"
    if view.job.setup_failed is not None:
        return note("setup failed", text=view.job.setup_failed)
    return note("program started") if view.job.started else Wait("it is set up")


def _training(life: Life, view: View, note: _Note) -> Action:
    if view.job is not None and view.job.exit_code is not None:
        return note("program ended", exit_code=view.job.exit_code)
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    return "stop" if life.stop_reason is not None else Wait("it trains")


def _collecting(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    since = view.collecting_since or view.now
    if view.now - since > timedelta(seconds=patience.collect):
        text = f"The results could not be fetched within {format_duration(patience.collect)}."
        return note("results lost", text=text)
    return Wait("the door does not answer") if view.machines is None else "collect"


def _ending(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if not life.termination_intended:
        return note("termination intended")
    pause = timedelta(seconds=termination_pause_seconds(life.termination_failures))
    if life.termination_failed_at is not None and view.now - life.termination_failed_at < pause:
        return Wait("the last call to terminate failed")
    if view.asked_to_end_at is None or view.machines:
        return "terminate"
    if view.machines is None:
        return Wait("the door does not answer")
    quiet = view.now - view.asked_to_end_at >= timedelta(seconds=patience.appear)
    return note("terminated") if quiet else Wait("a machine may still appear")


def _rate(life: Life) -> float:
    return life.candidate.usd_per_hour if life.candidate else 0.0


def _gone(life: Life, view: View) -> str | None:
    """Why the machines of the attempt cannot be used any more; None if they can, or if that is unknown."""
    if view.machines is None:
        return None
    for machine in view.machines:
        if machine.state in ("failed", "preempted"):
            return machine.reason or f"{machine.id} {machine.state}"
    listed = {machine.id for machine in view.machines}
    missing = [machine.id for machine in life.machines if machine.id not in listed]
    return f"{', '.join(missing)} no longer exists." if missing else None
