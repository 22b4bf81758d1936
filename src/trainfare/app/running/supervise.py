"""The supervisor: asks `runner/decide.py` what to do next, does it through the door, and appends the fact.

It keeps nothing in memory that it needs: it may be killed at any point, and any later process that takes the lease of
the run goes on from its facts. `reached` marks the points at which tests kill it.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfare.app.running.journal import job_view, pull_journals, pull_output
from trainfare.clouds import driver
from trainfare.clouds.door import Door, Launch, RefusedError, Shell
from trainfare.errors import ExternalError
from trainfare.model.bill import Billing
from trainfare.model.lease import Lease
from trainfare.model.offer import Candidate
from trainfare.model.rented import RentedMachine, launch_key
from trainfare.model.run import Fact, FactKind, Run
from trainfare.runner.decide import Action, JobView, Patience, View, Wait, decide
from trainfare.runner.life import Life, life_of
from trainfare.runner.limits import lease_end
from trainfare.runner.receipt import receipt_of
from trainfare.store.history import AlreadyStoredError, History

SILENT_SECONDS = 30.0
"""An agent that writes nothing for so long on a machine that answers may have ended with a reboot of it."""
KILL_AT = "TRAINFARE_TEST_KILL_AT"
"""The label of the point at which the process kills itself, in tests of what then happens."""


def reached(label: str) -> None:
    """A labelled point between two effects."""
    if os.environ.get(KILL_AT) == label:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Supervises one run under its lease."""

    history: History
    door: Door
    run: Run
    lease: Lease
    folder: Path
    """The folder at home with what is fetched while it runs: its output."""
    prepare: Callable[[Shell, Run, Life, RentedMachine], None]
    """Sends the program to a machine and starts it."""
    lease_seconds: float = 30.0
    billing: Billing = field(default_factory=Billing)
    patience: Patience = field(default_factory=Patience)
    fallbacks: Sequence[Candidate] = ()
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _asked_to_end_at: dict[int, datetime] = field(default_factory=dict)
    _heard: dict[int, tuple[int | None, datetime]] = field(default_factory=dict)
    """The last entry of each node, and when it was first seen."""

    def step(self) -> Action:
        """Do the next thing, and append its fact. Returns what it was."""
        facts = self.history.facts.of(self.run.id)
        life = life_of(facts)
        view = self._view(facts, life)
        action = decide(self.run, life, view, patience=self.patience, fallbacks=self.fallbacks)
        with suppress(AlreadyStoredError):  # a remark of another process came first: the next step knows it
            self._carry_out(action, life, view)
        return action

    def renew(self) -> None:
        now = self.clock()
        if self.lease.expires_at - now < timedelta(seconds=self.lease_seconds / 2):
            self.lease = self.history.leases.renew(self.lease, seconds=self.lease_seconds, now=now)

    def _view(self, facts: Sequence[Fact], life: Life) -> View:
        now = self.clock()
        machines = self._machines(life) if life.may_cost else ()
        collecting = [fact.seen_at for fact in facts if fact.kind in ("program ended", "setup failed")]
        return View(
            now=now,
            machines=machines,
            job=self._job(life, machines or ()),
            spent_usd=receipt_of(self.run, facts, billing=self.billing, now=now).total.paid_usd,
            collecting_since=collecting[-1] if collecting else None,
            asked_to_end_at=self._asked_to_end_at.get(life.attempt),
        )

    def _machines(self, life: Life) -> tuple[RentedMachine, ...] | None:
        key = launch_key(self.run.id, life.attempt)
        try:
            return tuple(machine for machine in self.door.machines() if machine.key == key)
        except ExternalError:
            return None

    def _job(self, life: Life, machines: Sequence[RentedMachine]) -> JobView | None:
        if life.state not in ("setting up", "training", "collecting"):
            return None
        with suppress(ExternalError):  # what was read before still holds
            shells = self._shells(machines)
            pull_journals(self.history, self.run.id, life.attempt, shells)
            pull_output(self.folder, life.attempt, shells)
            if life.state == "training":
                self._wake_silent_agents(life, shells)
        seen = self.history.observations.of(self.run.id, kinds=("setup", "program"), attempt=life.attempt)
        nodes = life.candidate.nodes if life.candidate else 1
        return job_view(seen, nodes=nodes)

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

    def _shells(self, machines: Sequence[RentedMachine]) -> Mapping[int, Shell]:
        return {machine.node: self.door.shell(machine) for machine in machines if machine.state == "ready"}

    def _carry_out(self, action: Action, life: Life, view: View) -> None:
        if isinstance(action, Fact):
            self.history.facts.append(action, lease=self.lease)
            reached(action.kind)
        elif not isinstance(action, Wait):
            calls = {
                "launch": self._launch,
                "start": self._start,
                "stop": self._stop,
                "collect": self._collect,
                "terminate": self._terminate,
            }
            calls[action](life, view)
            reached(f"after {action}")

    def _launch(self, life: Life, view: View) -> None:
        candidate = life.candidate or self.run.candidate
        end = lease_end(self.run, view.now, spent=view.spent_usd, usd_per_hour=candidate.usd_per_hour)
        launch = Launch(
            owner=self.run.owner,
            run_id=self.run.id,
            attempt=life.attempt,
            candidate=candidate,
            expires_at=end,
        )
        try:
            self.door.launch(launch)
        except RefusedError as error:
            self._append(life, "launch refused", text=str(error))
        except ExternalError as error:
            self._warn_once(life, f"The launch failed and is tried again: {error}")

    def _start(self, life: Life, view: View) -> None:
        try:
            for machine in view.machines or ():
                self.prepare(self.door.shell(machine), self.run, life, machine)
                reached("program sent")
        except ExternalError as error:
            self._warn_once(life, f"The program could not be sent, which is tried again: {error}")

    def _stop(self, life: Life, view: View) -> None:
        for shell in self._shells(view.machines or ()).values():
            driver.ask_to_stop(shell, life.stop_reason or "user")

    def _collect(self, life: Life, view: View) -> None:
        files = size = 0
        try:
            shells = self._shells(view.machines or ())
            if len(shells) < (life.candidate.nodes if life.candidate else 1):
                return  # a node that does not answer has results too
            for shell in shells.values():
                found = driver.results(shell)
                if found is None:
                    return
                size += driver.fetch(shell, found, Path(self.run.results_directory))
                files += len(found.files)
                reached("results fetched")
        except ExternalError as error:
            self._warn_once(life, f"The results could not be fetched, which is tried again: {error}")
            return
        self._append(life, "results collected", collected_files=files, collected_bytes=size)

    def _terminate(self, life: Life, _view: View) -> None:
        try:
            self.door.terminate(launch_key(self.run.id, life.attempt))
        except ExternalError as error:
            self._append(life, "termination failed", text=str(error))
        else:
            self._asked_to_end_at.setdefault(life.attempt, self.clock())

    def _warn_once(self, life: Life, text: str) -> None:
        if text not in life.warnings:
            self._append(life, "warned", text=text)

    def _append(self, life: Life, kind: FactKind, **fields: Any) -> None:
        fact = Fact(
            run_id=self.run.id, number=life.facts, seen_at=self.clock(), kind=kind, attempt=life.attempt, **fields
        )
        self.history.facts.append(fact, lease=self.lease)
        reached(kind)
