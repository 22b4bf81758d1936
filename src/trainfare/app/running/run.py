"""Use cases: agree on a run, carry it out and watch it, stop it, and end what was left behind.

`start_run` only stores what was agreed. `attend` supervises: it takes the lease of the run, or follows another process
that has it, until the run has ended. It may be interrupted at any point: the agent on the machine goes on by itself,
and the next `attend`, by any process, continues.
"""

import getpass
import hashlib
import os
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path

from trainfare.app.ids import new_id
from trainfare.app.learning.learn import learn_from_run
from trainfare.app.programs.data import read_data
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.app.programs.uploaded import is_uploaded
from trainfare.app.running.costs import store_within_caps, within_caps
from trainfare.app.running.doors import open_door, open_doors
from trainfare.app.running.reading import SeenReader
from trainfare.app.running.recovery import check_resume_flag, list_alternatives, read_segments
from trainfare.app.running.send import check_sending
from trainfare.app.running.status import load_status, run_folder, with_arrivals
from trainfare.app.running.supervise import Supervisor, reached
from trainfare.clouds.door import Door
from trainfare.clouds.sandbox import sandbox_prefix
from trainfare.errors import ExternalError, InfeasibleError, NotFoundError, StoreError, UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.lease import run_lease_name
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.offer import Candidate
from trainfare.model.probing import is_probe_launch
from trainfare.model.program import Program
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Fact, Launcher, Run, RunLimits
from trainfare.model.supplies import Install
from trainfare.runner.decide import Action, Wait
from trainfare.runner.gang import launcher_of
from trainfare.runner.life import life_of
from trainfare.runner.status import RunStatus, billing_of
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History, RunEndedError, StaleLeaseError
from trainfare.store.open import open_existing_history, open_history
from trainfare.units import format_duration

POLL_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.05
LEAST_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The terms of a run; None means unknown or without limit."""

    plan_id: str | None = None
    profile_id: str | None = None
    on: str | None = None
    """The key of a machine; None means the machine that the plan chose."""
    nodes: int | None = None
    """The number of machines; None means that of the plan, or one."""
    launcher: Launcher | None = None
    """The way in which several nodes find each other; None means the one that suits the command."""
    budget_usd: float | None = None
    deadline_seconds: float | None = None
    longest_seconds: float | None = None
    setup: str | None = None
    secrets: tuple[str, ...] = ()
    install: Install | None = None
    """By default `auto`, unless there is a setup command or the machine is this one."""
    folder: Path | None = None
    """The folder in which the command is started; None means the current one."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the program, which are stored."""
    data: tuple[str, ...] = ()
    """Data that the program reads, as `NAME=SOURCE`: a path, a URL, or `machine:/path`."""
    allow_private: bool = False
    """URLs of data may lead to addresses that are not public."""
    results: Path | None = None
    """The folder for results; None means the folder of the program."""
    resume_flag: str | None = None
    """Words that make the program go on from a checkpoint, `{}` being its path; `auto` if it needs none."""
    attempts: int = 3
    patience_seconds: float | None = None
    """A machine that was not reached for so long ends the program, and the run goes on elsewhere; None if a silent
    machine is waited for until its lease ends."""
    auto_move: bool = False
    """Move to a better machine that pays for its move without a question."""
    user: str | None = None
    """The user of a server who asks for it; None at home."""
    split: bool = False
    """Carry out the split of the plan: its first segment, then a move to the machines of the second."""


def agree(
    command: Sequence[str] | ProgramSource | None = None,
    options: RunOptions | None = None,
    *,
    predicted: Estimate | None = None,
    settings: Settings | None = None,
) -> Run:
    """The run that would be started: a command, a profile's program or a plan, on a machine, with its prediction. An
    archive or a task file is a command too, see `read_program`.

    `predicted` is an estimate to agree to, if it is known; otherwise it is made, or taken from the plan.
    """
    settings, options = settings or read_settings(), options or RunOptions()
    source = _source(command, options, settings)
    options = _with_stated(options, source) if source else options
    then = None
    if options.split:
        with open_history(settings.store) as history:
            predicted, then = read_segments(history, options.plan_id, options.resume_flag, settings)
    program, found, framework = _program_and_estimate(source, options, settings, predicted)
    predicted = predicted or found
    on = options.on or (predicted.candidate.offer.vm_type.key if predicted else None)
    if on is None:
        raise UsageError("The machine to run on must be named, because nothing was recommended.", field="on")
    door = open_door(settings, on)
    candidate = predicted.candidate if predicted else pick_candidate(door, on, nodes=_nodes(options, source))
    require_nodes(candidate)
    launcher = _launcher(candidate, program, options, framework)
    for name in options.secrets:
        if name not in os.environ:
            raise UsageError(f"The secret {name} is not set in the environment.", field="secret")
    uploaded = is_uploaded(program, settings)
    if uploaded:
        _require_confined(options, on)
    data = read_data(options.data, Path(program.directory), allow_private=options.allow_private, settings=settings)
    check_sending(program, data)
    now = datetime.now(UTC)
    deadline = None if options.deadline_seconds is None else now + timedelta(seconds=options.deadline_seconds)
    run = Run(
        id=new_id("r"),
        made_at=now,
        owner=owner_name(settings),
        program=program,
        candidate=candidate,
        results_directory=str((options.results or Path(program.directory)).absolute()),
        estimate=predicted,
        plan_id=options.plan_id,
        limits=RunLimits(budget_usd=options.budget_usd, deadline=deadline, longest_seconds=options.longest_seconds),
        setup=options.setup,
        secrets=options.secrets,
        resume_flag=check_resume_flag(options.resume_flag),
        attempts=options.attempts,
        patience_seconds=_check_patience(options.patience_seconds),
        auto_move=options.auto_move,
        then=then,
        due=_due(options.plan_id, candidate, now, settings),
        install=options.install,
        variables=options.variables,
        data=data,
        launcher=launcher,
        sandboxed=uploaded,
        user=options.user,
    )
    with open_history(settings.store) as history:
        return within_caps(history, run, settings)


def start_run(run: Run, *, settings: Settings | None = None) -> None:
    """Store what was agreed. Nothing is launched before it is attended. `InfeasibleError` if by now it would break a
    cap on costs."""
    settings = settings or read_settings()
    with open_history(settings.store) as history:
        store_within_caps(history, run, settings)
    reached("run stored")


def attend(
    run_id: str,
    *,
    settings: Settings | None = None,
    on_status: Callable[[RunStatus], None] = lambda _status: None,
    until_started: bool = False,
    poll_seconds: float = POLL_SECONDS,
) -> RunStatus:
    """Supervise a run until it has ended, or only until its program runs. `on_status` is called after each step."""
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        run = history.runs.get(run_id)
        with _attendance(history, run, settings) as attendance:
            before, pause, reader = None, 0.0, SeenReader(history, run.id)
            while True:
                action = attendance.step()
                status = with_arrivals(load_status(history, run, now=datetime.now(UTC), reader=reader), settings)
                on_status(status)
                if status.life.state == "ended" or (until_started and status.life.is_running):
                    return status
                pause = _pause_after(action, before, pause, poll_seconds)
                if attendance.progressed:  # a part was sent or fetched: there may be more
                    pause = 0.0
                time.sleep(pause)
                before = action


def stop_run(run_id: str, *, settings: Settings | None = None) -> RunStatus:
    """Ask for the end of a run: its program saves, results are fetched, its machines end. Whoever attends it does so;
    otherwise this process does."""
    settings = settings or read_settings()
    status = ask_to_stop(run_id, settings=settings)
    return status if status.life.state == "ended" else attend(run_id, settings=settings)


def ask_to_stop(run_id: str, *, settings: Settings | None = None) -> RunStatus:
    """Ask for the end of a run, which whoever attends it brings about. Nothing happens if it has ended or was asked to
    end before."""
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        run = history.runs.get(run_id)
        facts = history.facts.of(run_id)
        if life_of(facts).stop_reason is not None:
            return load_status(history, run, now=datetime.now(UTC))
        fact = Fact(
            run_id=run_id,
            number=len(facts),
            seen_at=datetime.now(UTC),
            kind="stop asked",
            stop_reason="user",
            attempt=life_of(facts).attempt,
        )
        with suppress(RunEndedError):
            history.facts.append(fact, lease=None)
            reached(fact.kind)
        return load_status(history, run, now=datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """The result of a pass of the reaper: machines that it asked to end, runs that it moved on, and doors that did not
    answer."""

    terminated: tuple[str, ...]
    """Keys of launches."""
    resumed: tuple[str, ...]
    unreachable: tuple[str, ...]
    """One sentence for each door or launch that failed."""


def reap(*, settings: Settings | None = None) -> Reaped:
    """Compare what every door says with the store, and end machines of this owner that no run of the store needs."""
    settings = settings or read_settings()
    terminated, resumed, failed = [], [], []
    with open_existing_history(settings.store) as history:
        for door in open_doors(settings).values():
            try:
                machines = [machine for machine in door.machines() if machine.owner == owner_name(settings)]
            except ExternalError as error:
                failed.append(f"{door.name}: {error}")
                continue
            for key in {m.key: m for m in machines if not is_needed(history, m)}:
                try:
                    door.terminate(key)
                    terminated.append(key)
                except ExternalError as error:
                    failed.append(f"{key}: {error}")
        for run_id in history.facts.unended_runs():
            if history.facts.of(run_id):
                run = history.runs.get(run_id)
                with _attendance(history, run, settings) as attendance:
                    before, action = None, attendance.step()
                    while not isinstance(action, Wait) and (action != before or attendance.progressed):
                        before, action = action, attendance.step()
                resumed.append(run_id)
    return Reaped(terminated=tuple(terminated), resumed=tuple(resumed), unreachable=tuple(failed))


def owner_name(settings: Settings) -> str:
    """The user, the machine at home and the store, as machines are tagged: `ada@laptop/5f2b9c1e`.

    The store belongs to it because its runs are known there alone: another store must not end their machines.
    """
    location = settings.store if "://" in settings.store else str(Path(settings.store).absolute())
    return f"{getpass.getuser()}@{platform.node()}/{hashlib.sha256(location.encode()).hexdigest()[:8]}"


def _pause_after(action: Action, before: Action | None, pause: float, longest: float) -> float:
    """The time to wait after an action: none after a fact; after a call a little, doubled each time it is repeated."""
    if isinstance(action, Fact):
        return 0.0
    if isinstance(action, Wait):
        return longest
    return min(longest, max(_FIRST_PAUSE_SECONDS, 2 * pause if action == before else 0.0))


@dataclass(slots=True, kw_only=True)
class _Attendance:
    """One that attends a run whenever it has its lease. Two threads of a process must not supervise at once either, so
    each attendance is a holder of its own."""

    history: History
    run: Run
    settings: Settings
    holder: str
    supervisor: Supervisor | None = None

    @property
    def progressed(self) -> bool:
        """The last step has sent or received a part."""
        return self.supervisor is not None and self.supervisor.progressed

    def step(self) -> Action:
        """Do the next thing and return it; a Wait while another process has the lease, which is taken when it is
        free."""
        if self.supervisor is None:
            self.supervisor = self._take()
        if self.supervisor is None:
            return Wait("another process attends it")
        try:
            self.supervisor.renew()
            action = self.supervisor.step()
            if isinstance(action, Fact) and action.kind == "run ended":
                with suppress(StoreError, ValueError):  # the run has ended well even if nothing is learned from it
                    learn_from_run(self.history, self.run, self.settings)
            return action
        except StaleLeaseError:
            self.supervisor = None
            return Wait("another process took it over")

    def _take(self) -> Supervisor | None:
        history, run, settings = self.history, self.run, self.settings
        lease = history.leases.take(
            run_lease_name(run.id), holder=self.holder, seconds=settings.lease_seconds, now=datetime.now(UTC)
        )
        if lease is None:
            return None
        return Supervisor(
            history=history,
            open_door=cache(partial(open_door, settings)),
            run=run,
            lease=lease,
            folder=run_folder(settings, run.id),
            lease_seconds=settings.lease_seconds,
            billing=billing_of(run),
            alternatives=list_alternatives(history, run, settings),
        )


@contextmanager
def _attendance(history: History, run: Run, settings: Settings) -> Iterator[_Attendance]:
    """The lease of the run is taken when it is free, kept, and released at the end."""
    holder = f"{owner_name(settings)}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
    attendance = _Attendance(history=history, run=run, settings=settings, holder=holder)
    try:
        yield attendance
    finally:
        if attendance.supervisor is not None:
            history.leases.release(attendance.supervisor.lease)


def is_needed(history: History, machine: RentedMachine) -> bool:
    """True for the machine of a run that may cost, and of a probe that someone follows, which renews its lease."""
    if is_probe_launch(machine.run_id):
        return machine.expires_at > datetime.now(UTC)
    try:
        life = life_of(history.facts.of(machine.run_id))
    except NotFoundError:
        return False
    return life.may_cost and life.attempt == machine.attempt


def _require_confined(options: RunOptions, on: str) -> None:
    """`UsageError` for terms under which an uploaded program would reach out of its sandbox."""
    if options.secrets:
        raise UsageError("An uploaded program gets no secrets of the server.", field="secret")
    if on.startswith(f"{HERE_PROVIDER}/"):
        sandbox_prefix()
        for field, value in (("setup", options.setup), ("install", options.install)):
            if value is not None:
                raise UsageError("On the server itself an uploaded program runs as it is, in a sandbox.", field=field)


def _source(
    command: Sequence[str] | ProgramSource | None, options: RunOptions, settings: Settings
) -> ProgramSource | None:
    if isinstance(command, ProgramSource):
        return command
    if not command and options.folder is not None:
        raise UsageError("A folder needs a command that is started in it.", field="folder")
    return read_program(command, settings, folder=options.folder) if command else None


def _with_stated(options: RunOptions, source: ProgramSource) -> RunOptions:
    """The options with what was stated together with the program, where they leave it open."""
    return replace(
        options,
        setup=options.setup or source.setup,
        results=options.results or source.results,
        variables={**source.variables, **options.variables},
        secrets=tuple(dict.fromkeys((*source.secrets, *options.secrets))),
        data=(*source.data, *options.data),
        **{name: value for name, value in source.terms.items() if getattr(options, name) is None},  # type: ignore[arg-type] # each was read in the type of its field
    )


def _program_and_estimate(
    source: ProgramSource | None, options: RunOptions, settings: Settings, known: Estimate | None
) -> tuple[Program, Estimate | None, str | None]:
    """The program, the estimate of a plan or of a profile of it, and the framework that the profile saw; None if it was
    never profiled."""
    nodes = _nodes(options, source)
    with open_history(settings.store) as history:
        plan = history.plans.get(options.plan_id) if options.plan_id else None
        profiles = history.profiles.all()
        profile_id = options.profile_id or (plan.chosen.profile_id if plan else None)
        named = history.profiles.get(profile_id) if profile_id else None
    if source is not None:
        program = source.program
        named = named or next((profile for profile in profiles if profile.program == program), None)
    elif named is None and not profiles:
        raise UsageError("There is nothing to run: give a command, a plan or a profile.", field="command")
    else:
        named = named or profiles[0]
        program = named.program
    framework = named.framework if named else None
    if known is not None or named is None:
        return program, known, framework
    if plan is not None and options.on in (None, plan.chosen.candidate.offer.vm_type.key):
        if options.nodes in (None, plan.chosen.candidate.nodes):
            return program, plan.chosen, framework
        options = replace(options, on=plan.chosen.candidate.offer.vm_type.key)
    if options.on is None:
        raise UsageError("The machine to run on must be named, because no plan names it.", field="on")
    open_door(settings, options.on)  # a host that is used for the first time says what it is, which estimates need
    from trainfare.app.recommending.estimate import estimate  # a run without a profile need not load the models

    try:
        return program, estimate(named.id, on=options.on, nodes=nodes, settings=settings).estimate, framework
    except InfeasibleError:  # a run needs no prediction
        return program, None, framework


def _nodes(options: RunOptions, source: ProgramSource | None) -> int:
    return options.nodes or (source.nodes if source else 1)


def _launcher(candidate: Candidate, program: Program, options: RunOptions, framework: str | None) -> Launcher | None:
    """The launcher of a run on several nodes; None on one."""
    if candidate.nodes == 1 and options.launcher is not None:
        raise UsageError("A launcher is for programs on several nodes: say how many.", field="launcher")
    return None if candidate.nodes == 1 else options.launcher or launcher_of(program.command, framework)


def _due(plan_id: str | None, candidate: Candidate, now: datetime, settings: Settings) -> datetime | None:
    """The deadline that a plan promises to meet on spot; None if there is none."""
    if plan_id is None or candidate.offer.market != "spot":
        return None
    with open_history(settings.store) as history:
        seconds = history.plans.get(plan_id).goal.deadline_seconds
    return None if seconds is None else now + timedelta(seconds=seconds)


def _check_patience(seconds: float | None) -> float | None:
    if seconds is not None and seconds < LEAST_PATIENCE_SECONDS:
        least = format_duration(LEAST_PATIENCE_SECONDS)
        raise UsageError(f"A machine must be waited for at least {least}: networks fail for minutes.", field="patience")
    return seconds


def require_nodes(candidate: Candidate) -> None:
    """`UsageError` if there are not so many machines. Trials may share this one."""
    offer, nodes = candidate.offer, candidate.nodes
    most = None if offer.vm_type.provider == HERE_PROVIDER else offer.most_nodes
    if most is not None and nodes > most:
        has = f"has {most} nodes" if most > 1 else "is one machine"
        raise UsageError(f"{offer.vm_type.key} {has}, and {nodes} are asked for.", field="nodes")


def pick_candidate(door: Door, on: str, *, nodes: int) -> Candidate:
    """The cheapest offer of a machine. One of the spot market is taken only if there is no other: it may be taken back
    at any time, which a plan weighs and this does not."""
    named = [offer for offer in door.offers() if offer.vm_type.key == on]
    offers = [offer for offer in named if offer.market != "spot"] or named
    if not offers:
        raise NotFoundError("machine", on, [offer.vm_type.key for offer in door.offers()])
    return Candidate(offer=min(offers, key=lambda offer: offer.usd_per_hour), nodes=nodes, batch_size=None)
