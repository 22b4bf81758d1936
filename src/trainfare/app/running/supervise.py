"""The supervisor: asks `runner/decide.py` what to do next, does it through the door, and appends the fact.

It keeps nothing in memory that it needs: it may be killed at any point, and any later process that takes the lease of
the run goes on from its facts. `reached` marks the points at which tests kill it.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfare.app.running.checkpoints import (
    CheckpointFetch,
    CheckpointGoneError,
    checkpoints_folder,
    copy_to_results,
    keep_newest,
)
from trainfare.app.running.collecting import Collecting
from trainfare.app.running.journal import JournalEnds, job_view, pull_journals, pull_output
from trainfare.app.running.reading import SeenReader
from trainfare.app.running.recovery import Alternatives
from trainfare.app.running.send import ProgramSending
from trainfare.clouds import driver
from trainfare.clouds.door import Door, Launch, MachineUnreachableError, RefusedError, Shell, notice_service
from trainfare.clouds.snapshots import NoSnapshotError
from trainfare.errors import ExternalError, UsageError
from trainfare.model.bill import Billing
from trainfare.model.lease import Lease
from trainfare.model.rented import RentedMachine, launch_key
from trainfare.model.run import Fact, FactKind, ObservationKind, Run
from trainfare.runner.better import better_machine
from trainfare.runner.checkpoints import is_fetch_due, is_newer, latest_saved, mean_seconds_between_losses
from trainfare.runner.decide import Action, JobView, Patience, View, Wait, decide
from trainfare.runner.gang import LEADING
from trainfare.runner.life import Life, life_of
from trainfare.runner.limits import latest_end, lease_end
from trainfare.runner.progress import progress_of
from trainfare.runner.receipt import receipt_of
from trainfare.runner.recovery import Onward, Situation, onward, spot_records
from trainfare.runner.seen import Seen
from trainfare.store.history import AlreadyStoredError, History

SILENT_SECONDS = 30.0
"""An agent that writes nothing for so long on a machine that answers may have ended with a reboot of it."""
PART_SECONDS = 5.0
"""A program is sent, a checkpoint fetched, or results are collected for so long at a time: then limits and requests to
stop are looked at, and the lease is renewed."""
LONGEST_STEP = timedelta(seconds=60)
"""The most of the time between two steps that counts as a try to collect: the computer may have slept."""
REAP_SECONDS = 60.0
"""Machines that were given up are asked to end this often."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
KILL_AT = "TRAINFARE_TEST_KILL_AT"
"""The label of the point at which the process kills itself, in tests of what then happens."""


FREEZE_AT = "TRAINFARE_TEST_FREEZE_AT"
"""The label of the point at which the process stops itself once, as a laptop does that is closed."""


def reached(label: str) -> None:
    """A labelled point between two effects."""
    if os.environ.get(KILL_AT) == label:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get(FREEZE_AT) == label:
        del os.environ[FREEZE_AT]  # one that is woken passes the label again, and goes on
        os.kill(os.getpid(), signal.SIGSTOP)


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Supervises one run under its lease."""

    history: History
    open_door: Callable[[str], Door]
    """The door to a machine, by the key of its type."""
    run: Run
    lease: Lease
    folder: Path
    """The folder at home with what is fetched while it runs: its output and its checkpoints."""
    lease_seconds: float = 30.0
    billing: Billing = field(default_factory=Billing)
    alternatives: Alternatives = field(default_factory=Alternatives)
    """Machines to fall back on, or to move to."""
    rule: Callable[[Run, Life, Situation], Onward | None] = onward
    """Decides where a run on spot goes on."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _life: Life = field(default_factory=Life)
    """The life by the facts that were known at the last step."""
    _asked_to_end_at: dict[int, datetime] = field(default_factory=dict)
    _heard: dict[int, tuple[int | None, datetime]] = field(default_factory=dict)
    """The last entry of each node, and when it was first seen."""
    _journal_ends: JournalEnds = field(default_factory=dict)
    _reader: SeenReader | None = None
    _sendings: dict[tuple[int, int], ProgramSending] = field(default_factory=dict)
    """The program on its way to each node, by attempt and node."""
    _fetch: CheckpointFetch | None = None
    """The checkpoint that is on its way home."""
    _given_up: set[tuple[int, int]] = field(default_factory=set)
    """Checkpoints that cannot be had any more, by attempt and number."""
    _renewed_at: dict[tuple[int, int], datetime] = field(default_factory=dict)
    """The last renewal of the lease of a machine, by attempt and node."""
    _reaped_at: datetime | None = None
    """The last time that machines that were given up were asked to end."""
    _collecting: Collecting | None = None
    """The results that are on their way home."""
    _tried_at: datetime | None = None
    """The last step in which results were tried to be collected."""
    _stuck: timedelta = timedelta()
    """The time that was spent on collecting since something arrived."""
    progressed: bool = False
    """The last step has sent or received a part: there may be more."""

    def step(self) -> Action:
        """Do the next thing, and append its fact. Returns what it was."""
        facts = self.history.facts.of(self.run.id)
        life = self._life = life_of(facts[self._life.facts :], self._life)  # facts are only appended
        self.progressed = False
        self._end_abandoned(life)
        view = self._view(facts, life)
        door = self._door(life)
        patience = Patience(appear=door.appears_within_seconds, boot=door.boots_within_seconds)
        fallbacks = self.alternatives.within(self.run.estimate.usd.high) if self.run.estimate else ()
        action = decide(self.run, life, view, patience=patience, fallbacks=fallbacks)
        with suppress(AlreadyStoredError):  # a remark of another process came first: the next step knows it
            self._carry_out(action, life, view)
        return action

    def renew(self) -> None:
        now = self.clock()
        if self.lease.expires_at - now < timedelta(seconds=self.lease_seconds / 2):
            self.lease = self.history.leases.renew(self.lease, seconds=self.lease_seconds, now=now)

    def _door(self, life: Life) -> Door:
        return self.open_door((life.candidate or self.run.candidate).offer.vm_type.key)

    def _view(self, facts: Sequence[Fact], life: Life) -> View:
        now = self.clock()
        machines = self._machines(life) if life.may_cost else ()
        job, answers = self._job(life, machines)
        seen = self._seen(life)
        progress = progress_of(self.run, seen, seconds=0.0, done_before=life.done_before, candidate=life.candidate)
        spent = receipt_of(self.run, facts, billing=self.billing, now=now).total.paid_usd
        situation = self.alternatives.situation(now, spent=spent, progress=progress, records=spot_records(facts))
        return View(
            now=now,
            machines=machines,
            job=job,
            answers=answers,
            progress=progress,
            better=better_machine(self.run, life, progress, self.alternatives.estimates, self.alternatives.goal),
            has_saved=seen.has_saved,
            heard_at=seen.heard_at,
            fetch_due=self._is_fetch_due(life, seen, now),
            onward=self.rule(self.run, life, situation),
            spent_usd=spent,
            collecting_since=self._stuck_since(life, now),
            arrivals=self._collecting.arrivals if self._collecting else None,
            asked_to_end_at=self._asked_to_end_at.get(life.attempt),
        )

    def _stuck_since(self, life: Life, now: datetime) -> datetime | None:
        """The moment since which nothing of the results has arrived, if only the time is counted in which it was tried:
        the computer may sleep for hours."""
        if life.state != "collecting":
            self._tried_at, self._stuck = None, timedelta()
            return None
        if self._tried_at is not None:
            self._stuck += min(now - self._tried_at, LONGEST_STEP)
        self._tried_at = now
        return now - self._stuck

    def _note_progress(self, has_progressed: bool) -> None:
        if has_progressed:
            self.progressed, self._stuck = True, timedelta()

    def _machines(self, life: Life) -> tuple[RentedMachine, ...] | None:
        key = launch_key(self.run.id, life.attempt)
        try:
            return self._door(life).machines(key)
        except ExternalError:
            return None

    def _seen(self, life: Life) -> Seen:
        """A summary of the entries about training of the current attempt, or of the last one."""
        if life.state not in ("training", "collecting", "planned") or not life.attempt:
            return Seen()
        self._reader = self._reader or SeenReader(self.history, self.run.id)
        return self._reader.read(life.attempt, nodes=_nodes(life))

    def _is_fetch_due(self, life: Life, seen: Seen, now: datetime) -> bool:
        """A checkpoint is to be brought home, or is on its way. After the end of the program, the last one is."""
        if self._fetch is not None and self._fetch.attempt != life.attempt:
            self._fetch = None
        if life.state not in ("training", "collecting"):
            return False
        has_ended = life.state == "collecting"
        if self._fetch is not None and not has_ended:
            return True
        saved = latest_saved(seen, nodes=_nodes(life), done_before=life.done_before, has_ended=has_ended)
        if saved is None or (life.attempt, saved.number) in self._given_up:
            return False
        between_losses = mean_seconds_between_losses(self.run, life.candidate)
        is_due = is_newer(life, saved) if has_ended else is_fetch_due(life, saved, now, between_losses)
        if not is_due:
            return False
        if self._fetch is None or self._fetch.saved.number != saved.number:
            self._fetch = CheckpointFetch(
                folder=checkpoints_folder(self.folder),
                attempt=life.attempt,
                saved=saved,
                was_killed=life.exit_code in _KILLED,
            )
        return True

    def _job(self, life: Life, machines: Sequence[RentedMachine] | None) -> tuple[JobView | None, bool | None]:
        """A summary of the journals, and whether the machines answer, if that is known."""
        states = {machine.state for machine in machines or ()}
        answers = False if "unreachable" in states else True if states == {"ready"} else None
        if life.state not in ("setting up", "training", "collecting"):
            return None, answers
        try:  # if a machine does not answer, what was read before still holds
            shells = self._shells(life, machines or ())
            self._renew_machines(life, shells)
            pull_journals(self.history, self.run.id, life.attempt, shells, self._journal_ends)
            with suppress(OSError):  # the disk at home may be full: what is missing in the log is read again later
                pull_output(self.folder, life.attempt, shells)
            if life.state == "training":
                self._wake_silent_agents(life, shells)
        except MachineUnreachableError:
            answers = False
        except ExternalError:
            pass
        kinds: tuple[ObservationKind, ...] = ("setup", "program", "interruption")
        seen = self.history.observations.of(self.run.id, kinds=kinds, attempt=life.attempt)
        return job_view(seen, nodes=_nodes(life), leading=self.run.launcher in LEADING), answers

    def _renew_machines(self, life: Life, shells: Mapping[int, Shell]) -> None:
        """Renew the lease of machines that end by themselves when they are not reached."""
        patience, now = self.run.patience_seconds, self.clock()
        if patience is None:
            return
        for machine in life.machines:
            last = self._renewed_at.get((life.attempt, machine.node))
            due = last is None or now - last > timedelta(seconds=patience / 4)
            if due and (shell := shells.get(machine.node)) is not None:
                driver.renew(shell, min(machine.expires_at, now + timedelta(seconds=patience)))
                self._renewed_at[life.attempt, machine.node] = now

    def _end_abandoned(self, life: Life) -> None:
        """Ask now and then for the end of machines that were given up because they did not answer. It is
        not waited for: they may still not answer, and the reaper asks too."""
        now = self.clock()
        last = self._reaped_at
        if not life.abandoned or (last is not None and now - last < timedelta(seconds=REAP_SECONDS)):
            return
        self._reaped_at = now
        for attempt, candidate in life.abandoned:
            door, key = self.open_door(candidate.offer.vm_type.key), launch_key(self.run.id, attempt)
            if any(machine.key == key for machine in door.known_machines()):
                threading.Thread(target=_try_to_terminate, args=(door, key), daemon=True).start()

    def _wake_silent_agents(self, life: Life, shells: Mapping[int, Shell]) -> None:
        """Start agents that have fallen silent: one that runs is not disturbed, and one that was killed reports the end
        of its program."""
        now = self.clock()
        for node, shell in shells.items():
            number = self.history.observations.last_number(self.run.id, attempt=life.attempt, node=node)
            last, since = self._heard.get(node, (None, now))
            if number == last and now - since > timedelta(seconds=SILENT_SECONDS):
                driver.start(shell, secrets={})
                since = now
            self._heard[node] = (number, since if number == last else now)

    def _shells(self, life: Life, machines: Sequence[RentedMachine]) -> Mapping[int, Shell]:
        door = self._door(life)
        return {machine.node: door.shell(machine) for machine in machines if machine.state == "ready"}

    def _carry_out(self, action: Action, life: Life, view: View) -> None:
        if isinstance(action, Fact):
            if action.kind == "run ended":
                action = self._with_checkpoint(action, life)
            elif action.kind == "results lost":
                action = self._with_arrived(action)
            self.history.facts.append(action, lease=self.lease)
            reached(action.kind)
        elif not isinstance(action, Wait):
            calls = {
                "launch": self._launch,
                "start": self._start,
                "stop": self._stop,
                "fetch": self._fetch_checkpoint,
                "collect": self._collect,
                "terminate": self._terminate,
            }
            reached(f"before {action}")
            calls[action](life, view)
            reached(f"after {action}")

    def _with_checkpoint(self, end: Fact, life: Life) -> Fact:
        """The end of the run, with its last checkpoint among the results if there are no newer ones."""
        if life.checkpoint is None or not life.ended_without_results:
            return end
        folder = checkpoints_folder(self.folder)
        try:
            copy_to_results(folder, life.checkpoint, Path(self.run.results_directory))
        except (OSError, ExternalError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            text = f"{end.text} It could not be copied there ({reason}): it is in {folder / life.checkpoint.name}."
            return replace(end, text=text)
        return end

    def _with_arrived(self, end: Fact) -> Fact:
        """The end of collecting, with the results that have arrived in their place."""
        if self._collecting is None:
            return end
        try:
            self._collecting.settle()
        except (OSError, ExternalError) as error:
            return replace(end, text=f"{end.text} Not all that arrived could be put there: {error}")
        return end

    def _launch(self, life: Life, view: View) -> None:
        # A process that stood still before this call must not launch: another one may have ended the attempt meanwhile.
        self.lease = self.history.leases.renew(self.lease, seconds=self.lease_seconds, now=self.clock())
        candidate = life.candidate or self.run.candidate
        end = lease_end(self.run, view.now, spent=view.spent_usd, usd_per_hour=candidate.usd_per_hour)
        launch = Launch(
            owner=self.run.owner,
            run_id=self.run.id,
            attempt=life.attempt,
            candidate=candidate,
            expires_at=end,
            ends_by=latest_end(self.run),
        )
        try:
            self._door(life).launch(launch)
        except RefusedError as error:
            self._append(life, "launch refused", text=str(error), candidate=candidate, refusal=error.cause)
        except ExternalError as error:
            self._warn_once(life, f"The launch failed and is tried again: {error}")

    def _start(self, life: Life, view: View) -> None:
        """Go on with sending the program to all nodes; once it is everywhere, start it."""
        door, machines = self._door(life), view.machines or ()
        until = self.clock() + timedelta(seconds=min(PART_SECONDS, self.lease_seconds / 4))
        sendings = [self._sending(life, machine, door) for machine in machines]
        before = sum(sending.bytes for sending in sendings)
        try:
            for sending in sendings:
                left = (until - self.clock()).total_seconds()
                if not sending.advance(door.shell(sending.machine), seconds=max(0.0, left)):
                    return
            reached("all sent")
            for sending in sendings:
                sending.start(door.shell(sending.machine), machines)
            if not life.sent:
                seconds = sum(sending.seconds for sending in sendings)
                size = sum(sending.bytes for sending in sendings)
                self._append(life, "program sent", sent_bytes=size, transfer_seconds=seconds)
        except CheckpointGoneError as error:
            self._append(life, "setup failed", text=str(error), checkpoint=life.resumed_from)
        except ExternalError as error:
            self._warn_once(life, f"The program could not be sent, which is tried again: {error}")
        except UsageError as error:  # what is at home has changed since the run was agreed to: trying again is useless
            self._append(life, "setup failed", text=f"The program could not be sent: {error.message}")
        finally:
            self._note_progress(sum(sending.bytes for sending in sendings) > before)

    def _sending(self, life: Life, machine: RentedMachine, door: Door) -> ProgramSending:
        return self._sendings.setdefault(
            (life.attempt, machine.node),
            ProgramSending(
                run=self.run,
                life=life,
                machine=machine,
                power_off=door.powers_off,
                notice=notice_service(door, life.candidate or self.run.candidate),
                checkpoints=checkpoints_folder(self.folder),
            ),
        )

    def _stop(self, life: Life, view: View) -> None:
        with suppress(ExternalError):  # it is asked again
            for shell in self._shells(life, view.machines or ()).values():
                driver.ask_to_stop(shell, life.stop_reason or "it ends everywhere")

    def _fetch_checkpoint(self, life: Life, view: View) -> None:
        """Go on with the checkpoint that is on its way."""
        fetch = self._fetch
        if fetch is None:
            return
        try:
            shells = self._shells(life, view.machines or ())
            before = fetch.seconds
            checkpoint = fetch.advance(shells, seconds=min(PART_SECONDS, self.lease_seconds / 4))
            self._note_progress(fetch.seconds > before)
        except NoSnapshotError:  # the program has saved another one meanwhile, or will
            self._given_up.add((life.attempt, fetch.saved.number))
            self._fetch = None
            return
        except (ExternalError, OSError) as error:
            self._warn_once(life, f"A checkpoint could not be brought home, which is tried again: {error}")
            return
        if checkpoint is None:
            return
        reached("checkpoint arrived")
        self._append(life, "checkpoint fetched", checkpoint=checkpoint)
        self._fetch = None
        keep_newest(fetch.folder, checkpoint, life.usable_checkpoint)
        fetch.forget(shells)

    def _collect(self, life: Life, view: View) -> None:
        """Go on with the results; once all are at home, put them in their place."""
        key = launch_key(self.run.id, life.attempt)
        if self._collecting is None or self._collecting.attempt != life.attempt:
            results = Path(self.run.results_directory)
            self._collecting = Collecting(folder=self.folder, results=results, key=key, attempt=life.attempt)
        collecting = self._collecting
        before = collecting.steps
        try:
            shells = self._shells(life, view.machines or ())
            if len(shells) < _nodes(life):
                return  # a node that does not answer has results too
            if not collecting.advance(shells, seconds=min(PART_SECONDS, self.lease_seconds / 4)):
                return
            reached("results arrived")
            collecting.settle()
            reached("results fetched")
        except (ExternalError, OSError) as error:
            self._warn_once(life, f"The results could not be fetched, which is tried again: {error}")
            return
        finally:
            self._note_progress(collecting.steps != before)
        found = collecting.arrivals
        self._append(
            life,
            "results collected",
            collected_files=found.whole_files if found else 0,
            collected_bytes=found.received_bytes if found else 0,
            transfer_seconds=found.seconds if found else 0.0,
        )

    def _terminate(self, life: Life, _view: View) -> None:
        try:
            self._door(life).terminate(launch_key(self.run.id, life.attempt))
        except ExternalError as error:
            self._append(life, "termination failed", text=str(error))
        else:
            self._asked_to_end_at.setdefault(life.attempt, self.clock())

    def _warn_once(self, life: Life, text: str) -> None:
        if text not in life.warnings:
            self._append(life, "warned", text=text)

    def _append(self, life: Life, kind: FactKind, **fields: Any) -> None:
        """Append what a call has done. Remarks of other processes may have come first, which change no state."""
        fact = Fact(
            run_id=self.run.id, number=life.facts, seen_at=self.clock(), kind=kind, attempt=life.attempt, **fields
        )
        while True:
            try:
                self.history.facts.append(fact, lease=self.lease)
                break
            except AlreadyStoredError:
                fact = replace(fact, number=len(self.history.facts.of(self.run.id)))
        reached(kind)


def _nodes(life: Life) -> int:
    return life.candidate.nodes if life.candidate else 1


def _try_to_terminate(door: Door, key: str) -> None:
    with suppress(ExternalError):  # it does not answer yet
        door.terminate(key)
