"""What the supervisor does next: the facts of a run and what its door says now → one action.

The supervisor appends the fact, or makes the call, and asks again. It may be killed at any point: a call whose effect
was not seen is made again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, Protocol

from trainfare.model.offer import Candidate, Market
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Checkpoint, Fact, FactKind, Outcome, Run, RunState
from trainfare.runner.better import BetterMachine
from trainfare.runner.checkpoints import LostWork, describe_checkpoint, lost_work
from trainfare.runner.collecting import Arrivals, lost_sentence, stuck_sentence
from trainfare.runner.life import MAY_BE_SILENT, Life
from trainfare.runner.limits import Limit, format_moment, lease_end, lease_reason, limit_reached, limits_ahead
from trainfare.runner.progress import RunProgress
from trainfare.runner.recovery import Onward
from trainfare.units import format_duration

MAX_TERMINATION_PAUSE_SECONDS = 300.0
SOON_SECONDS = 600.0
"""A program whose iterations cannot be counted, and that ends with an error within so long, has done nothing new."""
LEASE_MARGIN = timedelta(seconds=60)
"""A silent machine has ended its program so long after the end of its lease: a renewal may have been under way."""
_ON_SPOT: tuple[RunState, ...] = ("asked for", "booting", "setting up", "training")
"""The states in which a run on spot can be left for other machines."""
NEW_LEASE_SECONDS = 120.0
"""A run that has less time left than this is not launched again when its lease has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The longest times that a door may take, in seconds."""

    appear: float = 5.0
    """Until a machine that was launched is listed. So long after a termination one may still turn up."""
    boot: float = 900.0
    collect: float = 600.0
    """Until results are given up of which nothing arrives any more."""
    notice: float = 120.0
    """Until a silent machine is reported, and until a run that the user moves leaves it: longer than a short cut."""
    silence: float = 1800.0
    """Until a silent machine is given up whose lease is over, or whose run the user has stopped."""
    spot_silence: float = 300.0
    """Until a silent spot machine is taken to be lost: its end is asked for and confirmed before the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A summary of the journals of all nodes."""

    setup_failed: str | None = None
    started: bool = False
    exit_code: int | None = None
    """The exit code that counts, once the program has ended on every node."""
    everywhere: bool = True
    """The agent of every node has reported something."""
    failing: bool = False
    """The program has ended on one node, and for that must be stopped on others."""
    failed_node: int | None = None
    """The node whose exit code counts, if it is one of several and failed."""
    cause: str = "own"
    """Why it ended, as the agent says: by itself, or by a stop, a lease, the longest duration, an announced
    interruption, or a signal to the agent or with the machine."""
    taken_at: datetime | None = None
    """The moment at which the provider takes a machine back, as it has announced there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The knowledge at one moment."""

    now: datetime
    machines: tuple[RentedMachine, ...] | None
    """The machines of the current attempt as the door lists them; None if the door does not answer."""
    job: JobView | None
    """The journals; None if a node does not answer, or if nothing was started on it yet."""
    spent_usd: float
    answers: bool | None = None
    """True if all machines answer; None if that is unknown."""
    collecting_since: datetime | None = None
    """The last moment at which a part of the results or of a checkpoint arrived, or at which that was first tried. Time
    in which it was not tried is left out."""
    arrivals: Arrivals | None = None
    """The results on their way home; None if their list was not read yet."""
    asked_to_end_at: datetime | None = None
    """The moment at which the door accepted to terminate the current attempt."""
    progress: RunProgress | None = None
    """The progress of the current attempt, or of the last one."""
    has_saved: bool = False
    """The program has saved in the current attempt."""
    heard_at: datetime | None = None
    """The time of the last entry in its journals, by the clock of the machine."""
    fetch_due: bool = False
    """A checkpoint is to be brought home, or is on its way."""
    better: BetterMachine | None = None
    """A machine for the rest that pays for its move."""
    onward: Onward | None = None
    """The next machines of a run on spot; None if it was not agreed to on spot."""


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
collect      bring a part of the results home
terminate    ask the door for the end of every machine of the attempt
"""

Action = Fact | Call | Wait
"""A fact to append, a call to make, or nothing."""

_MARKETS: Mapping[Market, str] = {"on_demand": "on demand", "spot": "on spot", "reserved": "with a commitment"}


def decide(run: Run, life: Life, view: View, *, patience: Patience, fallbacks: Sequence[Candidate] = ()) -> Action:
    """The next action. `fallbacks` are tried in their order when a launch is refused or its machines are lost before
    the program has started."""
    note = partial(_fact, run, life, view)
    remark = (
        _limit_remark(run, life, view, note)
        or _change_of_silence(life, view, note, patience)
        or _leaving_spot(run, life, view, note)
    )
    if remark is not None:
        return remark
    match life.state:
        case "planned":
            return _between_attempts(run, life, view, note, fallbacks)
        case "asked for":
            return _asked_for(life, view, note, patience)
        case "booting":
            return _booting(run, life, view, note, patience)
        case "setting up":
            return _setting_up(run, life, view, note, patience)
        case "training":
            return _training(run, life, view, note, patience)
        case "collecting":
            return _collecting(run, life, view, note, patience)
        case "ending":
            return _ending(run, life, view, note, patience)
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
    onward = view.onward if not life.is_moving else None
    if life.attempt == 0:
        first = onward.candidate if onward is not None and onward.must_leave else None
        if first is not None and onward is not None and not _was_said(life, onward.text):
            return note("warned", text=onward.text)
        return note("launch intended", attempt=1, candidate=life.move_to or first or run.candidate)
    if life.exit_code is not None and not life.interrupted:
        outcome: Outcome = "succeeded" if life.exit_code == 0 else "failed"
        words = (f"The program ended with exit code {life.exit_code}.", life.failure)
        return note("run ended", outcome=outcome, text=" ".join(filter(None, words)))
    candidate = _next_candidate(run, life, view, fallbacks)
    if candidate is None and (onward is None or onward.gives_up or not _may_start_again(run, life, view)):
        return _give_up(run, life, note, onward)
    if (life.interrupted or _could_not_load(life)) and life.loss_reported != life.attempt:
        lost = lost_work(life, view.progress, heard_at=view.heard_at)
        where = f" {onward.text}" if onward is not None else ""
        return note("warned", text=_going_on(life, lost) + where, lost_seconds=lost.seconds or 0.0)
    if onward is not None and (candidate is None or onward.must_leave) and not _was_said(life, onward.text):
        return note("warned", text=onward.text)
    if candidate is None:
        return Wait("it waits for a machine")
    return note(
        "launch intended",
        attempt=life.attempt + 1,
        candidate=candidate,
        checkpoint=life.usable_checkpoint if can_resume(run, life) else None,
    )


def _next_candidate(run: Run, life: Life, view: View, fallbacks: Sequence[Candidate]) -> Candidate | None:
    """The machines of the next attempt; None if there is to be none, or none now. Machines that were lost while the
    program trained are asked for again; if they cannot be had, the next of the fallbacks is. A run on spot goes on
    where that is cheapest."""
    if life.is_moving:
        return life.move_to
    if not _may_start_again(run, life, view):
        return None
    if view.onward is not None:
        return view.onward.candidate
    order = [run.candidate, *fallbacks]
    if life.is_abandoned:
        silent = [candidate for _, candidate in life.abandoned]
        again = life.candidate if life.started_at is not None else None
        return next((candidate for candidate in order if candidate not in silent), again)
    if life.started_at is not None or _could_not_load(life):
        return life.candidate
    tried = order.index(life.candidate) + 1 if life.candidate in order else 0
    return order[tried] if tried < len(order) else None


def _may_start_again(run: Run, life: Life, view: View) -> bool:
    """The program has not started yet, or may be started once more and can go on. What a provider takes back is no
    trial, if going on elsewhere was agreed to."""
    if not life.starts:
        return True
    taken = life.reclaims if view.onward is not None and run.attempts > 1 else 0
    return _trials(life) - taken < run.attempts and can_resume(run, life)


def _was_said(life: Life, text: str) -> bool:
    return any(text in warning for warning in life.warnings)


def _going_on(life: Life, lost: LostWork) -> str:
    """A sentence about a loss, and what the run goes on from."""
    last = life.usable_checkpoint
    if last is not None:
        return f"{life.failure} It goes on from {describe_checkpoint(last)}. Lost: {lost}."
    why = "no checkpoint was at home" if life.checkpoint is None else "no other one is at home"
    return f"{life.failure} It starts again from the beginning, because {why}. Lost: {lost}."


def _leaving_spot(run: Run, life: Life, view: View, note: _Note) -> Fact | None:
    """The move from spot machines to others before it is too late for the deadline."""
    if view.onward is None or not view.onward.must_leave or not life.may_cost or life.silent_since is not None:
        return None
    if life.state not in _ON_SPOT or (life.state == "training" and not can_resume(run, life)):
        return None
    return note("move asked", candidate=view.onward.candidate, text=view.onward.text)


def _could_not_load(life: Life) -> bool:
    """The checkpoint that the current attempt was to go on from could not be loaded."""
    return life.resumed_from is not None and life.resumed_from.name in life.unloadable


def _trials(life: Life) -> int:
    """The starts of the program that count: not those after a move, nor those that could not load a checkpoint."""
    return life.starts - life.moves - len(life.unloadable)


def _give_up(run: Run, life: Life, note: _Note, onward: Onward | None) -> Fact:
    """The end of a run whose machines were lost, or could not be had."""
    failure = life.failure or "The machine ended."
    failure += f" {onward.text}" if onward is not None and onward.gives_up else ""
    if not life.ever_started:
        return note("run ended", outcome="failed", text=failure)
    words = [failure]
    if life.checkpoint is not None:
        words.append(f"{describe_checkpoint(life.checkpoint).capitalize()} is in {run.results_directory}.")
    if not can_resume(run, life):
        words.append("The program was started without a way to go on from a checkpoint.")
    elif _trials(life) >= run.attempts:
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
        refused = next((machine.refused for machine in view.machines or () if machine.refused), None)
        return note("machines lost", text=gone, candidate=life.candidate if refused else None, refusal=refused)
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
    return Wait(text) if life.sent or run.secrets else "start"


def _is_overdue(life: Life, view: View, patience: Patience) -> bool:
    """Machines that are not ready so long after they were asked for, or after their wait in a queue."""
    if life.asked_at is None:
        return False
    began = max((life.asked_at, *(m.launched_at for m in view.machines or () if m.launched_at is not None)))
    return view.now - began > timedelta(seconds=patience.boot)


def _setting_up(run: Run, life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if (silence := _fatal_silence(run, life, view, patience)) is not None:
        return note("machines lost", text=silence)
    if life.stop_reason is not None or life.is_moving:
        return note("termination intended")
    if (gone := _gone(life, view)) is not None:
        return note("machines lost", text=gone, reclaimed=_is_on_spot(life))
    if life.silent_since is not None:
        return Wait("its machine does not answer")
    if view.job is not None and view.job.taken_at is not None and not view.job.started:
        return note("machines lost", text=_announcement(view.job.taken_at, view.now), reclaimed=True)
    if view.job is None or not (view.job.everywhere or view.job.setup_failed):
        return "start"
    if view.job.setup_failed is not None:
        return note("setup failed", text=view.job.setup_failed)
    return note("program started") if view.job.started else Wait("it is set up")


def _training(run: Run, life: Life, view: View, note: _Note, patience: Patience) -> Action:
    job = view.job
    if job is not None and job.exit_code is not None:
        bad = life.resumed_from if _failed_at_once(life, job, view) else None
        text = _interruption(run, life, view, job) if bad is None else _cannot_load(bad, job.exit_code)
        reason = {"lease": lease_reason(run), "longest": "longest duration"}.get(job.cause)
        if text is None and reason is not None and life.stop_reason is None:
            return note("stop asked", stop_reason=reason, text="The machine ended the program at its limit.")
        return note(
            "program ended",
            exit_code=job.exit_code,
            interrupted=text is not None,
            reclaimed=text is not None and job.cause == "interruption",
            text=text or _failed_node(life, job),
            checkpoint=bad,
        )
    if (gone := _gone(life, view) or _fatal_silence(run, life, view, patience)) is not None:
        return note("machines lost", text=gone, reclaimed=_is_on_spot(life))
    if life.stop_reason is not None or life.is_moving or (job is not None and job.failing):
        return "stop"
    if life.silent_since is not None:
        return Wait("its machine does not answer")
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


def _failed_at_once(life: Life, job: JobView, view: View) -> bool:
    """The program was to go on from a checkpoint, and ended with an error before it did anything new. Where iterations
    cannot be counted, it must have ended soon."""
    last = life.resumed_from
    if last is None or not job.exit_code or job.cause != "own" or life.stop_reason is not None or life.is_moving:
        return False
    if view.has_saved or life.checkpoint_attempt == life.attempt or last.name in life.unloadable:
        return False
    if view.progress is not None and view.progress.is_measured:
        return view.progress.iterations <= life.done_before
    return life.started_at is not None and view.now - life.started_at < timedelta(seconds=SOON_SECONDS)


def _failed_node(life: Life, job: JobView) -> str | None:
    """A sentence about the one of several nodes on which the program failed."""
    found = next((machine for machine in life.machines if machine.node == job.failed_node), None)
    return f"It failed on {found.place}, and was stopped on the others." if found and job.cause == "own" else None


def _cannot_load(checkpoint: Checkpoint, exit_code: int) -> str:
    return (
        f"The program could not go on from {describe_checkpoint(checkpoint)}: it ended with exit code {exit_code} "
        "before its first iteration."
    )


def _has_time_left(run: Run, life: Life, view: View) -> bool:
    """The limits of the run allow a new lease: the one that ended was shorter, as the longest job of a cluster is."""
    ends = lease_end(run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life))
    return ends - view.now > timedelta(seconds=NEW_LEASE_SECONDS)


def _full_name(candidate: Candidate) -> str:
    """`2 × aws/p3.2xlarge in us-east-1 on spot`; a single node is not counted."""
    offer = candidate.offer
    nodes = "" if candidate.nodes == 1 else f"{candidate.nodes} × "
    place = "" if offer.market == "own" else f" in {offer.region} {_MARKETS[offer.market]}"
    return f"{nodes}{offer.vm_type.key}{place}"


def _interruption(run: Run, life: Life, view: View, job: JobView) -> str | None:
    """Why a program that has ended is to go on; None if it has ended by itself or was stopped for good."""
    if life.stop_reason is not None:
        return None
    if job.cause == "lease" and run.patience_seconds is not None and view.now < _end_of_lease(life, view.now):
        return f"The machine ended the program, because it was not reached for {format_duration(run.patience_seconds)}."
    if job.cause == "lease" and _has_time_left(run, life, view):
        return "Its machine ended at the longest time that it may be kept."
    if job.cause == "interruption":
        return _announcement(job.taken_at or view.now, view.now)
    if job.cause == "signal":
        return "The machine was restarted, or the agent on it was killed."
    if job.cause == "stop" and life.move_to is not None:
        return f"It moves to {_full_name(life.move_to)}."
    return None


def _announcement(taken_at: datetime, now: datetime) -> str:
    return f"The provider takes the machine back at {format_moment(taken_at, now)}."


def _is_on_spot(life: Life) -> bool:
    return life.candidate is not None and life.candidate.offer.market == "spot"


def _collecting(run: Run, life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if (gone := _gone(life, view) or _fatal_silence(run, life, view, patience)) is not None:
        return note("machines lost", text=gone, reclaimed=_is_on_spot(life))
    since = view.collecting_since or view.now
    if life.silent_since is not None and _is_own(life):
        return Wait("its machine does not answer")  # the results wait there, and cost nothing
    if view.now - since > timedelta(seconds=patience.collect):
        text = lost_sentence(run.id, view.arrivals, run.results_directory, stuck=patience.collect)
        return note("results lost", text=text)
    half = patience.collect / 2
    if view.now - since > timedelta(seconds=half):
        text = stuck_sentence(run.id, view.arrivals, stuck=half, left=half)
        if not _was_said(life, text):
            return note("warned", text=text)
    if view.machines is None:
        return Wait("the door does not answer")
    goes_on = life.interrupted and life.stop_reason is None
    has_time = view.now - since < timedelta(seconds=patience.collect / 2)  # the other half is for the results
    return "fetch" if goes_on and view.fetch_due and has_time else "collect"


def _ending(run: Run, life: Life, view: View, note: _Note, patience: Patience) -> Action:
    if not life.termination_intended:
        return note("termination intended")
    if life.silent_since is not None and life.termination_failures:
        if (silence := _fatal_silence(run, life, view, patience)) is not None:
            return note("machines abandoned", text=f"{silence} {_left_there(life, view.now)}")
        return Wait("its machine does not answer")
    pause = timedelta(seconds=termination_pause_seconds(life.termination_failures))
    if life.termination_failed_at is not None and view.now - life.termination_failed_at < pause:
        return Wait("the last call to terminate failed")
    if view.asked_to_end_at is None or view.machines:
        return "terminate"
    if view.machines is None:
        return Wait("the door does not answer")
    quiet = view.now - view.asked_to_end_at >= timedelta(seconds=patience.appear)
    return note("terminated") if quiet else Wait("a machine may still appear")


def _change_of_silence(life: Life, view: View, note: _Note, patience: Patience) -> Fact | None:
    """The fact that machines have fallen silent, or answer again, and one warning about a silence that lasts."""
    if view.answers is None or life.state not in MAY_BE_SILENT:
        return None
    if view.answers:
        return note("machines answer") if life.silent_since is not None else None
    if life.silent_since is None:
        reasons = [machine.reason for machine in view.machines or () if machine.reason]
        return note("machines silent", text=reasons[0] if reasons else "It does not answer.")
    silence = view.now - life.silent_since
    text = f"{_machine(life)} has not answered since {life.silent_since:%H:%M} UTC"
    if silence < timedelta(seconds=patience.notice) or any(warning.startswith(text) for warning in life.warnings):
        return None
    words = f"{text}, for {format_duration(silence.total_seconds())}. Its program may go on there, and is waited for."
    return note("warned", text=f"{words} Move the run to go on elsewhere from its last checkpoint.")


def _fatal_silence(run: Run, life: Life, view: View, patience: Patience) -> str | None:
    """Why silent machines are given up: the user goes on elsewhere or has stopped the run, or their lease is over, so
    that nothing runs there any more; or they are some of several, and the program has ended on another, so that it
    cannot go on. None if they are waited for."""
    if life.silent_since is None:
        return None
    silence = (view.now - life.silent_since).total_seconds()
    longest = patience.silence if run.patience_seconds is None else run.patience_seconds
    is_over = silence >= longest and view.now >= _silent_lease_end(run, life, view.now) + LEASE_MARGIN
    by_user = silence >= (patience.notice if life.is_moving else patience.silence)
    if _is_on_spot(life) and life.state in _ON_SPOT and silence >= patience.spot_silence:
        return f"{_machine(life)} has not answered for {format_duration(silence)}."
    is_broken = silence >= patience.notice and _is_broken_gang(life, view)
    if is_over or is_broken or (by_user and (life.is_moving or life.stop_reason == "user")):
        return f"{_machine(life)} has not answered for {format_duration(silence)}."
    return None


def _is_broken_gang(life: Life, view: View) -> bool:
    """One of several nodes has ended, with which the others cannot go on: now, or before the attempt was to end."""
    if life.candidate is None or life.candidate.nodes == 1:
        return False
    return (view.job is not None and view.job.failing) or (life.state == "ending" and life.interrupted)


def _silent_lease_end(run: Run, life: Life, now: datetime) -> datetime:
    """The moment at which silent machines have ended the program by themselves. With a patience, whoever reaches them
    renews their lease for so long only."""
    end = _end_of_lease(life, now)
    if run.patience_seconds is None or life.silent_since is None:
        return end
    return min(end, life.silent_since + timedelta(seconds=run.patience_seconds))


def _end_of_lease(life: Life, now: datetime) -> datetime:
    """The end of the lease that the budget and the other limits of the run gave its machines."""
    return max((machine.expires_at for machine in life.machines), default=now)


def _left_there(life: Life, now: datetime) -> str:
    """A sentence about machines that are given up."""
    end = _end_of_lease(life, now)
    until = f" It may still run until {end:%Y-%m-%d %H:%M} UTC." if end > now else ""
    return f"What is there is not used any more, and is ended as soon as it answers.{until}"


def _machine(life: Life) -> str:
    return life.candidate.offer.vm_type.key if life.candidate else "The machine"


def _is_own(life: Life) -> bool:
    return life.candidate is not None and life.candidate.offer.market == "own"


def _limit_remark(run: Run, life: Life, view: View, note: _Note) -> Fact | None:
    """The fact that a limit is reached, or will be."""
    if not life.may_cost or life.stop_reason is not None:
        return None
    limit = limit_reached(
        run, view.now, spent=view.spent_usd, usd_per_hour=_rate(life), checkpoint_seconds=_saving_seconds(life)
    )
    if limit is not None:
        return note("stop asked", stop_reason=limit.reason, text=limit.text)
    warning = _limit_ahead(run, life, view)
    return note("warned", stop_reason=warning.reason, text=warning.text) if warning is not None else None


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
