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
from trainfare.runner.better import BetterMachine
from trainfare.runner.checkpoints import describe_checkpoint, lost_work
from trainfare.runner.life import Life
from trainfare.runner.limits import Limit, lease_end, lease_reason, limit_reached, limits_ahead
from trainfare.runner.progress import RunProgress
from trainfare.units import format_duration

MAX_TERMINATION_PAUSE_SECONDS = 300.0
NEW_LEASE_SECONDS = 120.0
"""A run that has less time left than this is not launched again when its lease has ended."""


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
    cause: str = "own"
    """Why it ended, as the agent says: by itself, or by a stop, a lease, the longest duration, or a signal to the agent
    or with the machine."""


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
    """The end of the program, or the last moment at which something of a checkpoint arrived after it."""
    asked_to_end_at: datetime | None = None
    """The moment at which the door accepted to terminate the current attempt."""
    progress: RunProgress | None = None
    """The progress of the current attempt, or of the last one."""
    heard_at: datetime | None = None
    """The time of the last entry in its journals, by the clock of the machine."""
    fetch_due: bool = False
    """A checkpoint is to be brought home, or is on its way."""
    better: BetterMachine | None = None
    """A machine for the rest that pays for its move."""
    is_sent: bool = False
    """The program was sent to machines that wait in a queue."""


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do for now."""

    why: str


Call = Literal["launch", "start", "stop", "fetch", "collect", "terminate"]
"""A call to the door or to the agents. A repeated call has no further effect:

launch       ask the door for machines, with the key of the attempt
start        send code and agent to every node and start it
stop         ask the agents to end the program, so that it can save
fetch        bring a part of a checkpoint home
collect      fetch the results
terminate    ask the door for the end of every machine of the attempt
"""

Action = Fact | Call | Wait
"""A fact to append, a call to make, or nothing."""


def decide(run: Run, life: Life, view: View, *, patience: Patience, fallbacks: Sequence[Candidate] = ()) -> Action:
    """The next action. `fallbacks` are tried in their order when a launch is refused or its machines are lost before
    the program has started."""
    if life.may_cost and life.stop_reason is None:
        limit = limit_reached(
            run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life), checkpoint_seconds=_saving_seconds(life)
        )
        if limit is not None:
            return _fact(run, life, view, "stop asked", stop_reason=limit.reason, text=limit.text)
        warning = _limit_ahead(run, life, view)
        if warning is not None:
            return _fact(run, life, view, "warned", stop_reason=warning.reason, text=warning.text)
    note = partial(_fact, run, life, view)
    match life.state:
        case "planned":
            return _between_attempts(run, life, view, note, fallbacks)
        case "asked for":
            return _asked_for(life, view, note, patience)
        case "booting":
            return _booting(run, life, view, note, patience)
        case "setting up":
            return _setting_up(life, view, note)
        case "training":
            return _training(run, life, view, note)
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


def can_resume(run: Run, life: Life) -> bool:
    """The program can go on from a checkpoint: the user says so, or its Trainer has saved the last one."""
    return run.resume_flag is not None or (life.checkpoint is not None and life.checkpoint.resumes)


def _between_attempts(run: Run, life: Life, view: View, note: _Note, fallbacks: Sequence[Candidate]) -> Action:
    if life.stop_reason is not None:
        return note("run ended", outcome="stopped", text=f"Stopped: {life.stop_reason}.")
    if life.attempt == 0:
        return note("launch intended", attempt=1, candidate=life.move_to or run.candidate)
    if life.exit_code is not None and not life.interrupted:
        outcome: Outcome = "succeeded" if life.exit_code == 0 else "failed"
        words = (f"The program ended with exit code {life.exit_code}.", life.failure)
        return note("run ended", outcome=outcome, text=" ".join(filter(None, words)))
    candidate = _next_candidate(run, life, fallbacks)
    if candidate is None:
        return _give_up(run, life, note)
    if life.interrupted and (text := _going_on(life, view)) not in life.warnings:
        return note("warned", text=text)
    return note(
        "launch intended",
        attempt=life.attempt + 1,
        candidate=candidate,
        checkpoint=life.checkpoint if can_resume(run, life) else None,
    )


def _next_candidate(run: Run, life: Life, fallbacks: Sequence[Candidate]) -> Candidate | None:
    """The machines of the next attempt; None if there is to be none. Machines that were lost while the program trained
    are asked for again; if they cannot be had, the next of the fallbacks is."""
    if life.is_moving:
        return life.move_to
    if life.starts and (life.starts - life.moves >= run.attempts or not can_resume(run, life)):
        return None
    if life.started_at is not None:
        return life.candidate
    order = [run.candidate, *fallbacks]
    tried = order.index(life.candidate) + 1 if life.candidate in order else 0
    return order[tried] if tried < len(order) else None


def _going_on(life: Life, view: View) -> str:
    """A sentence about a loss, and where the run goes on."""
    lost = lost_work(life, view.progress, heard_at=view.heard_at)
    if life.checkpoint is None:
        return f"{life.failure} It starts again from the beginning, because no checkpoint was at home. Lost: {lost}."
    return f"{life.failure} It goes on from {describe_checkpoint(life)}. Lost: {lost}."


def _give_up(run: Run, life: Life, note: _Note) -> Fact:
    """The end of a run whose machines were lost, or could not be had."""
    failure = life.failure or "The machine ended."
    if not life.ever_started:
        return note("run ended", outcome="failed", text=failure)
    words = [failure]
    if life.checkpoint is not None:
        words.append(f"{describe_checkpoint(life).capitalize()} is in {run.results_directory}.")
    if not can_resume(run, life):
        words.append("The program was started without a way to go on from a checkpoint.")
    elif life.starts - life.moves >= run.attempts:
        limit = f"It was lost {run.attempts} times, which is the limit."
        words.append("It may be started only once." if run.attempts == 1 else limit)
    return note("run ended", outcome="lost", text=" ".join(words))


def _asked_for(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if life.stop_reason is not None or life.is_moving:
        return note("termination intended")
    if _is_overdue(life, view, patience):
        return note("machines lost", text=f"No machine was listed within {format_duration(patience.boot)}.")
    if view.machines is None:
        return Wait("the door does not answer")
    if life.candidate is not None and len(view.machines) >= life.candidate.nodes:
        return note("machines seen", machines=view.machines)
    return "launch"


def _booting(run: Run, life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if life.stop_reason is not None or life.is_moving:
        return note("termination intended")
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    if view.machines and all(machine.state == "ready" for machine in view.machines):
        return note("machines ready", machines=view.machines)
    if view.machines and any(machine.state == "queued" for machine in view.machines):
        return _queued(run, life, view, note)
    if _is_overdue(life, view, patience):
        return note("machines lost", text=f"It was not ready within {format_duration(patience.boot)}.")
    return Wait("it boots")


def _queued(run: Run, life: Life, view: View, note: _Note) -> Action:
    """A queue may take days. The program is sent meanwhile, so that it starts whoever watches then; secrets are not,
    since they would have to be written to a file."""
    reasons = {machine.reason for machine in view.machines or () if machine.state == "queued" and machine.reason}
    text = f"It waits in the queue: {', '.join(sorted(reasons)) or 'no reason is given'}."
    if text not in life.warnings:
        return note("warned", text=text)
    return Wait(text) if view.is_sent or run.secrets else "start"


def _is_overdue(life: Life, view: View, patience: Patience) -> bool:
    """Machines that are not ready so long after they were asked for, or after their wait in a queue."""
    if life.asked_at is None:
        return False
    began = max((life.asked_at, *(m.launched_at for m in view.machines or () if m.launched_at is not None)))
    return view.now - began > timedelta(seconds=patience.boot)


def _setting_up(life: Life, view: View, note: _Note) -> Action:
    if life.stop_reason is not None or life.is_moving:
        return note("termination intended")
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    if view.job is None:
        return "start"
    if view.job.setup_failed is not None:
        return note("setup failed", text=view.job.setup_failed)
    return note("program started") if view.job.started else Wait("it is set up")


def _training(run: Run, life: Life, view: View, note: _Note) -> Action:
    job = view.job
    if job is not None and job.exit_code is not None:
        reason = {"lease": lease_reason(run), "longest": "longest duration"}.get(job.cause)
        if job.cause == "lease" and _has_time_left(run, life, view):
            reason = None
        if reason is not None and life.stop_reason is None:
            return note("stop asked", stop_reason=reason, text="The machine ended the program at its limit.")
        text = _interruption(run, life, view, job)
        return note("program ended", exit_code=job.exit_code, interrupted=text is not None, text=text)
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    if life.stop_reason is not None or life.is_moving:
        return "stop"
    if run.then is not None and not life.moves and _has_done_first_segment(run, view):
        return note("move asked", candidate=run.then.candidate, text="The first segment of its plan is done.")
    is_settled = run.then is not None or life.moves > 0 or life.proposed is not None or not can_resume(run, life)
    if view.better is not None and not is_settled:
        kind: FactKind = "move asked" if run.auto_move else "warned"
        return note(kind, candidate=view.better.estimate.candidate, text=view.better.text)
    return "fetch" if view.fetch_due and view.machines else Wait("it trains")


def _has_done_first_segment(run: Run, view: View) -> bool:
    first = run.estimate.iterations if run.estimate else None
    return view.progress is not None and first is not None and view.progress.iterations >= first


def _has_time_left(run: Run, life: Life, view: View) -> bool:
    """The limits of the run allow a new lease: the one that ended was shorter, as the longest job of a cluster is."""
    ends = lease_end(run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life))
    return ends - view.now > timedelta(seconds=NEW_LEASE_SECONDS)


def _interruption(run: Run, life: Life, view: View, job: JobView) -> str | None:
    """Why a program that has ended is to go on; None if it has ended by itself or was stopped for good."""
    if life.stop_reason is not None:
        return None
    if job.cause == "lease" and _has_time_left(run, life, view):
        return "Its machine ended at the longest time that it may be kept."
    if job.cause == "signal":
        return "The machine was restarted, or the agent on it was killed."
    if job.cause == "stop" and life.move_to is not None:
        return f"It moves to {life.move_to.offer.vm_type.key}."
    return None


def _collecting(life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone)
    since = view.collecting_since or view.now
    if view.now - since > timedelta(seconds=patience.collect):
        text = f"The results could not be fetched within {format_duration(patience.collect)}."
        return note("results lost", text=text)
    if view.machines is None:
        return Wait("the door does not answer")
    goes_on = life.interrupted and life.stop_reason is None
    has_time = view.now - since < timedelta(seconds=patience.collect / 2)  # the other half is for the results
    return "fetch" if goes_on and view.fetch_due and has_time else "collect"


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


def _limit_ahead(run: Run, life: Life, view: View) -> Limit | None:
    """A limit that the run will reach before its end, of which it was not warned yet."""
    if life.state != "training" or life.is_moving or view.progress is None:
        return None
    found = limits_ahead(run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life), progress=view.progress)
    return next((limit for limit in found if limit.reason not in life.warned_of), None)


def _saving_seconds(life: Life) -> float:
    return life.checkpoint.cost_seconds if life.checkpoint else 0.0


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
