"""Faults that are tried with one run each: what becomes of the run, and whether that is right.

A run is right if it ends as it should, no machine is left, and where the training ends well its weights are those of an
undisturbed one.
"""

import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from benchmarks.faults.places import SAVING, fresh_hosts, fresh_world, undisturbed_weights
from tests.app.running.worlds import World
from tests.rigs.hosts import SshHost, missing_requirement
from trainfare.agent import agent
from trainfare.app.running.run import RunOptions, agree, attend, start_run
from trainfare.app.running.status import read_output
from trainfare.clouds.fake import Faults
from trainfare.errors import StoreError
from trainfare.runner import decide
from trainfare.runner.status import RunStatus

BUDGET_SECONDS = 15.0
CUT_SECONDS = 60.0
TERMINATIONS = 100
DAY = 86400

Verdict = tuple[bool, str]
"""Whether it is right, and what became of the run."""


def tool_frozen(*, clock_shift: int = 0) -> Verdict:
    """The supervisor stands still (SIGSTOP) as soon as the program runs, and its run has a budget."""
    with fresh_world() as world, _shifted_clock(world.folder, clock_shift):
        run = world.start(SAVING.read_text(), "--hold-at", "23", budget_usd=BUDGET_SECONDS / 3600)
        with world.frozen_supervisor(run, at="after start"):
            return _ended_by_itself(world, run.id)


def tool_dead() -> Verdict:
    """The supervisor is killed as soon as the program runs, and nothing replaces it."""
    with fresh_world() as world:
        run = world.start(SAVING.read_text(), "--hold-at", "23", budget_usd=BUDGET_SECONDS / 3600)
        world.attend_in_another_process(run, kill_at="after start")
        return _ended_by_itself(world, run.id)


def _ended_by_itself(world: World, run_id: str) -> Verdict:
    (machine,) = world.door.machines()
    give_up = time.monotonic() + 4 * BUDGET_SECONDS
    while world.door.machines() and time.monotonic() < give_up:
        time.sleep(0.1)
    off = world.folder / "provider" / "machines" / machine.id / "off"
    if not off.exists() or machine.launched_at is None:
        return False, "the machine did not end"
    seconds = off.stat().st_mtime - machine.launched_at.timestamp()
    status = attend(run_id, settings=world.settings, poll_seconds=0.02)
    text = f"the machine ended itself after {seconds:.1f} s of {BUDGET_SECONDS:.0f} s that the budget allows"
    return seconds <= BUDGET_SECONDS + 2 and status.life.outcome == "stopped", f"{text}; run {status.life.outcome}"


def agent_killed() -> Verdict:
    """Guard and agent are killed at once, after a checkpoint was brought home."""
    with fresh_world() as world:
        return _disturbed(world, lambda run_id: _kill_agents(world, run_id))


def _kill_agents(world: World, run_id: str) -> None:
    folder = world.folder / "provider" / "machines" / f"{run_id}-1" / "0"
    guard = int((folder / "agent.pid").read_text().split()[0])
    for pid in (guard, *agent.process_tree(guard)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def machine_taken_back() -> Verdict:
    """The provider takes the machine back, as on the spot market, after a checkpoint was brought home."""
    with fresh_world() as world:
        return _disturbed(world, lambda run_id: world.door.reclaim(f"{run_id}-1"))


def store_unreachable() -> Verdict:
    """The store does not answer any more, after a checkpoint was brought home, and the machine is lost meanwhile; then
    it answers again, and the next command continues."""
    with fresh_world() as world:
        run = world.start(SAVING.read_text(), "--hold-at", "23", resume_flag="--resume {}")
        other = sqlite3.connect(world.settings.store)

        def lock(status: RunStatus) -> None:
            if status.life.checkpoint is not None:
                other.execute("BEGIN EXCLUSIVE")

        try:
            attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=lock)
            return False, "the loss of the store was not noticed"
        except StoreError:
            said = "an error that says so"
        other.close()
        world.door.reclaim(f"{run.id}-1")
        status = attend(run.id, settings=world.settings, poll_seconds=0.02)
        is_right, text = _judged(status, world.home, world.door.machines())
        return is_right, f"the command ends with {said}, the next one continues; {text}"


def failed_terminations() -> Verdict:
    """A hundred calls to terminate fail. The pauses between them, up to five minutes, are left out."""
    with fresh_world(Faults(failing_terminations=1.0)) as world:
        decide.MAX_TERMINATION_PAUSE_SECONDS = 0.0

        def relent(status: RunStatus) -> None:
            if status.life.termination_failures >= TERMINATIONS:
                world.door.misbehave(Faults())

        status = attend(world.start("pass").id, settings=world.settings, poll_seconds=0.0, on_status=relent)
        noted = sum(fact.kind == "termination failed" for fact in status.facts)
        left = len(world.door.machines())
        text = f"{noted} facts, one for each failed call; run {status.life.outcome}, {left} machines left"
        return noted >= TERMINATIONS and not left and status.life.outcome == "succeeded", text


def host_reboots() -> Verdict:
    """A host restarts after a checkpoint was brought home."""
    return _on_a_host(lambda host: host.reboot())


def network_cut() -> Verdict:
    """The cable of a host is cut for a minute, after a checkpoint was brought home; then the host restarts."""

    def mend(host: SshHost) -> None:
        host.restore()
        host.reboot()

    def cut(host: SshHost) -> None:
        host.cut()
        threading.Timer(CUT_SECONDS, mend, (host,)).start()

    return _on_a_host(cut)


def disk_full() -> Verdict:
    """The program fills the disk of its host."""
    source = (
        "try:\n    with open('big', 'wb', 0) as file:\n        while True: file.write(bytes(1 << 16))\n"
        "except OSError as error:\n    print('full:', error.errno, flush=True)\n    raise SystemExit(28)\n"
    )
    with fresh_hosts() as rig:
        if rig is None:
            return True, f"not tried: {missing_requirement()}"
        rig.add("h1", home_mib=24)
        with fresh_world() as world:
            status = _run_on_host(world, source, (), lambda _status: None)
            output = read_output(status.run.id, settings=world.settings).decode().strip()
            size = (world.home / "big").stat().st_size if (world.home / "big").exists() else 0
            text = f"run {status.life.outcome} with exit code {status.life.exit_code}; output ({output}) and a file of"
            return (
                status.life.exit_code == 28 and size > 0 and "full: 28" in output,
                f"{text} {size >> 20} MiB are at home",
            )


def _on_a_host(disturb: Callable[[SshHost], None]) -> Verdict:
    with fresh_hosts() as rig:
        if rig is None:
            return True, f"not tried: {missing_requirement()}"
        host = rig.add("h1")
        done: list[bool] = []

        def look(status: RunStatus) -> None:
            if status.life.checkpoint is not None and not done:
                done.append(True)
                disturb(host)

        with fresh_world() as world:
            status = _run_on_host(world, SAVING.read_text(), ("--hold-at", "23"), look)
            return _judged(status, world.home, ())


def _run_on_host(
    world: World, source: str, arguments: tuple[str, ...], on_status: Callable[[RunStatus], None]
) -> RunStatus:
    project = world.folder / "project"
    project.mkdir(exist_ok=True)
    (project / "train.py").write_text(source)
    options = RunOptions(on="ssh/h1", results=world.home, folder=project, resume_flag="--resume {}", install="none")
    run = agree((sys.executable, "train.py", *arguments), options, settings=world.settings)
    start_run(run, settings=world.settings)
    return attend(run.id, settings=world.settings, poll_seconds=0.1, on_status=on_status)


def _disturbed(world: World, disturb: Callable[[str], None]) -> Verdict:
    """A training that is disturbed once its checkpoint is at home."""
    run = world.start(SAVING.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    done: list[bool] = []

    def look(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not done:
            done.append(True)
            disturb(run.id)

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=look)
    return _judged(status, world.home, world.door.machines())


def _judged(status: RunStatus, home: Path, left: tuple[object, ...]) -> Verdict:
    life = status.life
    weights = home / "weights.json"
    same = weights.exists() and weights.read_text() == undisturbed_weights()
    text = f"run {life.outcome} in {life.attempt} attempts, {len(left)} machines left"
    text += ", weights as undisturbed" if same else ", OTHER WEIGHTS than undisturbed"
    return same and life.outcome == "succeeded" and not left, text


SHIFTED = """
import runpy, sys, time
real, began = time.time, time.time()
time.time = lambda: real() + ({shift} if real() - began > 1.0 else 0.0)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextmanager
def _shifted_clock(folder: Path, shift: int) -> Iterator[None]:
    """Agents that are started in the block see the clock of their machine set, a second after their start."""
    if not shift:
        yield
        return
    (folder / "bin").mkdir()
    (folder / "bin" / "shifted.py").write_text(SHIFTED.format(shift=shift))
    (folder / "bin" / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/bin/shifted.py "$@"\n')
    (folder / "bin" / "python3").chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder / 'bin'}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


FAULTS: dict[str, Callable[[], Verdict]] = {
    "tool frozen": tool_frozen,
    "tool dead": tool_dead,
    "clock set back": partial(tool_frozen, clock_shift=-DAY),
    "clock set forward": partial(tool_frozen, clock_shift=DAY),
    "machine taken back": machine_taken_back,
    "agent killed": agent_killed,
    "host reboots": host_reboots,
    "network cut": network_cut,
    "disk full": disk_full,
    "store unreachable": store_unreachable,
    "failed terminations": failed_terminations,
}
