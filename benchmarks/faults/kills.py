"""Kills at labelled points: lives of runs that together pass every label, and what is counted afterwards.

One process supervises a run with SIGKILL waiting at a label; another then looks after the run until it has ended, and
the reaper passes twice. There are three ways to disturb it:

    killed   one supervisor, killed at the label
    rivals   two supervisors at once; each is killed if it passes the label
    woken    one supervisor stands still at the label, another goes on, and the first one wakes in the middle of that
"""

import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from benchmarks.faults.places import SAVING, fresh_world, undisturbed_weights
from tests.app.running.worlds import World
from trainfare.app.probing import distant
from trainfare.app.probing.probe import probe_machines
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.running import supervise
from trainfare.app.running.doors import open_doors
from trainfare.app.running.moves import move_run
from trainfare.app.running.run import attend, reap, stop_run
from trainfare.app.running.status import list_runs, read_output
from trainfare.app.running.train import train
from trainfare.clouds.fake import Faults
from trainfare.model.run import Outcome
from trainfare.runner.decide import Patience
from trainfare.runner.life import IllegalFactError, life_of
from trainfare.runner.status import RunStatus
from trainfare.store.open import open_existing_history

Way = Literal["killed", "rivals", "woken"]

UNRELIABLE = Faults(hidden_seconds=0.3, failing_calls=0.2)
"""Machines are listed 0.3 s late, and one call in five fails, half of them after they took effect."""
ONCE = "open('out.txt', 'a').write('once\\n')"
MEASURED = """
import json, os, sys, time
path = os.environ.get("TRAINFARE_PROBE_EVENTS")
def write(event, **facts):
    if path:
        with open(path, "a") as file:
            file.write(json.dumps({"event": event, "pid": os.getpid(), "time": time.monotonic(), **facts}) + "\\n")
write("import", name="torch", version="2")
for n in range(1, 21):
    start = time.monotonic()
    time.sleep(0.01)
    write("iteration", n=n, start=start, end=time.monotonic(), wait=0.0, batches=0, learning_rate=None)
open("out.txt", "a").write("once\\n")
"""
"""A program that writes the events of a training without any framework."""
HANG_SECONDS = 300
_POLL_SECONDS = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How a run lives, and the labels at which its supervisor is killed."""

    labels: tuple[str, ...]
    begin: Callable[[World], str | None]
    """Stores the run and returns its id, or prepares a command that stores it."""
    act: Callable[[World, str | None], None]
    """What the process does that is killed."""
    disturb: Callable[[World, RunStatus], None] = lambda _world, _status: None
    """Called after each step of each supervisor."""
    faults: Faults = UNRELIABLE
    outcome: Outcome = "succeeded"
    has_results: Callable[[World], bool] = lambda _world: True
    collect_seconds: float = 600.0
    silence_seconds: float = 1800.0
    ways: tuple[Way, ...] = ("killed", "rivals", "woken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What was found after kills; all but the kills must be 0."""

    kills: int = 0
    missed: int = 0
    """The label was not reached."""
    orphans: int = 0
    """Machines and processes that are left after two passes of the reaper."""
    double_launches: int = 0
    """Launches of a key that had been launched, or while another machine of the run existed."""
    lost_results: int = 0
    illegal: int = 0
    """Facts that cannot follow each other, or a store that is damaged."""
    wrong_end: int = 0
    """The run has another outcome than without a kill."""

    def __add__(self, other: "Count") -> "Count":
        return Count(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    @property
    def wrong(self) -> int:
        return sum(getattr(self, name) for name in self.__dataclass_fields__ if name != "kills")


def kill_once(name: str, label: str, way: Way, seed: int, *, postgres: bool = False) -> Count:
    """One life that is disturbed once, at a label."""
    life = LIVES[name]
    faults = Faults(**{key: getattr(life.faults, key) for key in life.faults.__dataclass_fields__} | {"seed": seed})
    with fresh_world(faults, postgres=postgres) as world, _short_times(life):
        run_id = life.begin(world)
        disturbed = _disturb(life, world, run_id, label, way, seed)
        stored = [status.run.id for status in list_runs(settings=world.settings).runs]
        status = _attend(life, world, stored[0]) if stored else None
        for pid in disturbed.alive:
            os.waitpid(pid, 0)
        world.door.misbehave(Faults())
        if name == "is probed":
            time.sleep(distant.SENDING_SECONDS + distant.ENDING_SECONDS)
        for _ in range(2):
            reap(settings=world.settings)
        return Count(
            kills=int(disturbed.happened),
            missed=int(not disturbed.happened),
            orphans=sum(len(door.machines()) for door in open_doors(world.settings).values()) + _processes(world),
            double_launches=_double_launches(world),
            lost_results=int(status is not None and not life.has_results(world)),
            illegal=_illegal(world, stored),
            wrong_end=int(status is not None and status.life.outcome != life.outcome),
        )


@contextmanager
def _short_times(life: Life) -> Iterator[None]:
    """The machine of a probe whose process has died ends after seconds, and results are given up in the time of the
    life, not after minutes."""
    shorter = {"LEASE_SECONDS": 3.0, "SENDING_SECONDS": 15.0, "FEWEST_SECONDS": 1.0, "ENDING_SECONDS": 1.0}
    before = {name: getattr(distant, name) for name in shorter}
    distant.__dict__.update(shorter)
    supervise.__dict__["Patience"] = partial(Patience, collect=life.collect_seconds, silence=life.silence_seconds)
    try:
        yield
    finally:
        distant.__dict__.update(before)
        supervise.__dict__["Patience"] = Patience


# The disturbance.


@dataclass(frozen=True, slots=True)
class _Disturbed:
    happened: bool
    alive: tuple[int, ...] = ()
    """Supervisors that go on."""


def _disturb(life: Life, world: World, run_id: str | None, label: str, way: Way, seed: int) -> _Disturbed:
    act = partial(life.act, world, run_id)
    if way == "killed":
        pid = _fork(act, world, supervise.KILL_AT, label)
        return _Disturbed(_was_killed(os.waitpid(pid, 0)[1]))
    if way == "rivals":
        pids = [_fork(act, world, supervise.KILL_AT, label) for _ in range(2)]
        killed = [_was_killed(os.waitpid(pid, 0)[1]) for pid in pids]
        return _Disturbed(any(killed))
    pid = _fork(act, world, supervise.FREEZE_AT, label)
    if not os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
        return _Disturbed(False)
    steps = random.Random(seed).randrange(1, 25)  # the moment at which it wakes, after its lease is over
    woken: list[bool] = []
    over = time.monotonic() + world.settings.lease_seconds

    def wake(_status: RunStatus) -> None:
        nonlocal steps
        steps -= time.monotonic() > over
        if steps == 0 and not woken:
            woken.append(True)
            os.kill(pid, signal.SIGCONT)

    stored = [status.run.id for status in list_runs(settings=world.settings).runs]
    _attend(life, world, stored[0], then=wake)
    if not woken:
        os.kill(pid, signal.SIGCONT)
    return _Disturbed(True, (pid,))


def _fork(act: Callable[[], None], world: World, variable: str, label: str) -> int:
    """A process of its own that does something with SIGKILL or SIGSTOP waiting at a label."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(HANG_SECONDS)
        os.environ[variable] = label
        act()
        code = 0
    except BaseException:  # noqa: BLE001 # the process has no one to raise it to
        (world.folder / f"error-{os.getpid()}").write_text(traceback.format_exc())
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _was_killed(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _attend(
    life: Life, world: World, run_id: str, *, then: Callable[[RunStatus], None] = lambda _status: None
) -> RunStatus:
    def look(status: RunStatus) -> None:
        life.disturb(world, status)
        then(status)

    return attend(run_id, settings=world.settings, poll_seconds=_POLL_SECONDS, on_status=look)


# Counting.


def _double_launches(world: World) -> int:
    double = 0
    known: set[str] = set()
    alive: set[str] = set()
    for _, effect, key in world.door.log():
        if effect == "launched":
            double += key in known or bool(alive)
            known.add(key)
            alive.add(key)
        else:
            alive.discard(key)
    return double


def _processes(world: World) -> int:
    """Processes that were started on the machines of a world and still run."""
    left = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            left += (process / "cwd").readlink().is_relative_to(world.folder)
        except OSError:  # it has ended
            continue
    return left


def _illegal(world: World, run_ids: Sequence[str]) -> int:
    with open_existing_history(world.settings.store) as history:
        try:
            wrong = sum(life_of(history.facts.of(run_id)).state != "ended" for run_id in run_ids)
        except IllegalFactError:
            return 1
        wrong += len(history.damaged)
    if "://" not in world.settings.store:
        with sqlite3.connect(world.settings.store) as connection:
            wrong += connection.execute("PRAGMA integrity_check").fetchone() != ("ok",)
    return wrong


# The lives.


def _start(source: str, *arguments: str, **options: object) -> Callable[[World], str]:
    return lambda world: world.start(source, *arguments, **options).id


def _supervise(name: str) -> Callable[[World, str | None], None]:
    def act(world: World, run_id: str | None) -> None:
        _attend(LIVES[name], world, run_id or "")

    return act


def _start_and_train(world: World) -> str:
    """A training that is held at a step, and that has said so."""
    run = world.start(SAVING.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    attend(run.id, settings=world.settings, poll_seconds=_POLL_SECONDS, until_started=True)
    while b"step" not in read_output(run.id, settings=world.settings):
        reap(settings=world.settings)
        time.sleep(_POLL_SECONDS)
    return run.id


def _take_back(world: World, status: RunStatus) -> None:
    """The provider takes the first machine back, once a checkpoint is at home."""
    if status.life.checkpoint is not None and not any(effect == "reclaimed" for _, effect, _ in world.door.log()):
        world.door.reclaim(f"{status.run.id}-1")


def _cut_off(world: World, status: RunStatus) -> None:
    """The machine cannot be reached any more, once the program has ended."""
    if status.life.state == "collecting":
        world.door.cut(f"{status.run.id}-1")


def _fall_silent(world: World, status: RunStatus) -> None:
    """The machine cannot be reached for a while, in which its program goes on."""
    if any(fact.kind == "machines silent" for fact in status.facts):
        world.door.mend(f"{status.run.id}-1")
    elif status.life.state == "training":
        world.door.cut(f"{status.run.id}-1")


def _start_and_cut(world: World) -> str:
    """A program that runs on a machine that cannot be reached any more."""
    run = world.start("import time\ntime.sleep(60)")
    attend(run.id, settings=world.settings, poll_seconds=_POLL_SECONDS, until_started=True)
    world.door.cut(f"{run.id}-1")
    world.door.misbehave(Faults(failing_terminations=1.0))
    return run.id


def _relent(world: World, status: RunStatus) -> None:
    """The provider terminates again, after two calls have failed."""
    if status.life.termination_failures >= 2:
        world.door.misbehave(UNRELIABLE)


def _prepare(source: str) -> Callable[[World], None]:
    def begin(world: World) -> None:
        (world.folder / "project").mkdir()
        (world.folder / "project" / "train.py").write_text(source)

    return begin


def _train(world: World, _run_id: str | None) -> None:
    os.chdir(world.folder / "project")
    length = {"iterations_per_epoch": 10, "epochs": 2}
    train((sys.executable, "train.py"), settings=world.settings, **length)  # type: ignore[arg-type] # two of its keywords


def _probe(world: World, _run_id: str | None) -> None:
    os.chdir(world.folder / "project")
    profiling = ProfileOptions(iterations=20)
    probe_machines(["fake/small"], ("python3", "train.py"), profiling=profiling, settings=world.settings)


def _ran_once(world: World) -> bool:
    found = [path for path in (world.home / "out.txt", world.folder / "project" / "out.txt") if path.exists()]
    return [path.read_text() for path in found] == ["once\n"]


def _has_weights(world: World) -> bool:
    path = world.home / "weights.json"
    return path.exists() and path.read_text() == undisturbed_weights()


def _has_checkpoint(world: World) -> bool:
    return (world.home / "out" / "last.ckpt").exists()


LIVES: dict[str, Life] = {
    "ends well": Life(
        labels=(
            "launch intended",
            "before launch",
            "after launch",
            "machines seen",
            "machines ready",
            "before start",
            "all sent",
            "program sent",
            "after start",
            "program started",
            "program ended",
            "before collect",
            "results arrived",
            "results fetched",
            "results collected",
            "after collect",
            "termination intended",
            "before terminate",
            "after terminate",
            "terminated",
            "run ended",
        ),
        begin=_start(ONCE),
        act=_supervise("ends well"),
        has_results=_ran_once,
    ),
    "loses its machine": Life(
        labels=("before fetch", "after fetch", "checkpoint arrived", "checkpoint fetched", "machines lost", "warned"),
        begin=_start(SAVING.read_text(), "--hold-at", "23", resume_flag="--resume {}"),
        act=_supervise("loses its machine"),
        disturb=_take_back,
        has_results=_has_weights,
    ),
    "moves": Life(
        labels=("move asked", "before stop", "after stop"),
        begin=_start_and_train,
        act=lambda world, run_id: _end(move_run(run_id or "", "local/here", settings=world.settings)),
        has_results=_has_weights,
    ),
    "is stopped": Life(
        labels=("stop asked",),
        begin=_start_and_train,
        act=lambda world, run_id: _end(stop_run(run_id or "", settings=world.settings)),
        outcome="stopped",
        has_results=_has_checkpoint,
    ),
    "cannot be set up": Life(
        labels=("setup failed",),
        begin=_start(ONCE, setup="exit 4"),
        act=_supervise("cannot be set up"),
        outcome="failed",
    ),
    "is refused": Life(
        labels=("launch refused",),
        begin=_start(ONCE),
        act=_supervise("is refused"),
        faults=Faults(no_capacity=True),
        outcome="failed",
    ),
    "is terminated late": Life(
        labels=("termination failed",),
        begin=_start(ONCE),
        act=_supervise("is terminated late"),
        disturb=_relent,
        faults=Faults(hidden_seconds=0.3, failing_terminations=1.0),
        has_results=_ran_once,
    ),
    "cannot be collected": Life(
        labels=("results lost",),
        begin=_start(ONCE),
        act=_supervise("cannot be collected"),
        disturb=_cut_off,
        faults=Faults(hidden_seconds=0.3),
        collect_seconds=1.0,
    ),
    "falls silent": Life(
        labels=("machines silent", "machines answer"),
        begin=_start(f"import time\ntime.sleep(2)\n{ONCE}"),
        act=_supervise("falls silent"),
        disturb=_fall_silent,
        faults=Faults(hidden_seconds=0.3),
        has_results=_ran_once,
    ),
    "is left in silence": Life(
        labels=("machines abandoned",),
        begin=_start_and_cut,
        act=lambda world, run_id: _end(stop_run(run_id or "", settings=world.settings)),
        faults=Faults(hidden_seconds=0.3),
        outcome="stopped",
        silence_seconds=1.0,
    ),
    "is trained": Life(
        labels=("profiled", "run stored"),
        begin=_prepare(MEASURED),
        act=_train,
        faults=Faults(),
        has_results=lambda world: (world.folder / "project" / "out.txt").exists(),
        ways=("killed",),
    ),
    "is probed": Life(
        labels=("probe launched", "probe sent", "probe measured", "probe terminated"),
        begin=_prepare(MEASURED),
        act=_probe,
        faults=Faults(hidden_seconds=0.3),
        ways=("killed",),
    ),
}


def _end(_status: RunStatus) -> None:
    """What a command does has been done."""
