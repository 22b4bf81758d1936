"""Kills the supervisor of runs at every labelled point, and tries what else can go wrong; counts what is left.

    python -m benchmarks.faults [--times 20] [--point POINT] [--fault FAULT]

**Kills.** The provider is the shipped fake: it lists machines late and fails one call in five, half of them after they
took effect. Each run is killed once with SIGKILL at one point; another process then looks after it until it has ended,
and the reaper passes twice. Counted are machines that are left, launches that happened twice, results that did not come
home and runs that did not end well.

**Faults.** Each is one run of a training that saves. It is right if the run ends as it should, no machine is left, and
where the training ends well its weights are those of an undisturbed one. Hosts are namespaces with a real sshd; without
root these rows are left out.
"""

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.app.running.worlds import World, make_world
from tests.rigs.hosts import HostRig, SshHost, host_rig, missing_requirement
from trainfare.agent import agent
from trainfare.app.running import supervise
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run
from trainfare.app.running.status import read_output
from trainfare.clouds import driver
from trainfare.clouds.fake import Faults
from trainfare.errors import StoreError
from trainfare.runner import decide
from trainfare.runner.status import RunStatus

POINTS = (
    "launch intended",
    "after launch",
    "machines seen",
    "machines ready",
    "program sent",
    "after start",
    "program started",
    "program ended",
    "results fetched",
    "results collected",
    "after collect",
    "termination intended",
    "after terminate",
    "terminated",
    "run ended",
)
COLUMNS = ("kills", "left machines", "double launches", "lost results", "not ended")
PROGRAM = Path(__file__).parents[1] / "tests" / "programs" / "resumes.py"
BUDGET_SECONDS = 15.0
CUT_SECONDS = 60.0
TERMINATIONS = 100
DAY = 86400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="runs per point; 0 leaves the kills out")
    parser.add_argument("--point", help="only this point")
    parser.add_argument("--fault", choices=[*FAULTS, "none"], help="only this fault, or none")
    arguments = parser.parse_args()
    driver.AgentJob = partial(driver.AgentJob, heartbeat_seconds=0.3)  # type: ignore[misc, assignment] # sooner than every 5 s
    supervise.SILENT_SECONDS = 2.0
    bad = _kills([arguments.point] if arguments.point else POINTS, arguments.times) if arguments.times else 0
    chosen = [arguments.fault] if arguments.fault else list(FAULTS)
    bad += _faults([name for name in chosen if name in FAULTS])
    sys.exit(bool(bad))


# Kills.


def _kills(points: list[str] | tuple[str, ...], times: int) -> int:
    print(f"{'killed at':22}" + "".join(f"{name:>17}" for name in COLUMNS))
    total = [0] * len(COLUMNS)
    for point in points:
        counts = [0] * len(COLUMNS)
        for seed in range(times):
            for column, value in enumerate(_killed_run(point, seed)):
                counts[column] += value
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print(f"{point:22}" + "".join(f"{count:17}" for count in counts), flush=True)
    print(f"{'in all':22}" + "".join(f"{count:17}" for count in total))
    return sum(total[1:])


def _killed_run(point: str, seed: int) -> tuple[int, ...]:
    """Whether it was killed, machines left, launches too many, results lost, not ended."""
    with _world(Faults(hidden_seconds=0.3, failing_calls=0.2, seed=seed)) as world:
        run = world.start("open('out.txt', 'a').write('once\\n')")
        killed = world.attend_in_another_process(run, kill_at=point) == -signal.SIGKILL
        status = attend(run.id, settings=world.settings, poll_seconds=0.02)
        world.door.misbehave(Faults())
        for _ in range(2):
            reap(settings=world.settings)
        launches = [key for _, effect, key in world.door.log() if effect == "launched"]
        result = world.home / "out.txt"
        came_home = result.exists() and result.read_text() == "once\n"
        return (
            int(killed),
            len(world.door.machines()),
            len(launches) - len(set(launches)),
            int(status.life.outcome == "succeeded" and not came_home),
            int(status.life.outcome != "succeeded"),
        )


# Faults.

Outcome = tuple[bool, str]
"""Whether it is right, and what became of the run."""


def _faults(names: list[str]) -> int:
    bad = 0
    for name in names:
        began = time.monotonic()
        is_right, text = FAULTS[name]()
        bad += not is_right
        print(f"{name:26}{'' if is_right else 'WRONG: '}{text} ({time.monotonic() - began:.0f} s)", flush=True)
    return bad


def tool_frozen(*, clock_shift: int = 0) -> Outcome:
    """The supervisor stands still (SIGSTOP) as soon as the program runs, and its run has a budget."""
    with _world() as world, _shifted_clock(world.folder, clock_shift):
        run = world.start(PROGRAM.read_text(), "--hold-at", "23", budget_usd=BUDGET_SECONDS / 3600)
        with world.frozen_supervisor(run, at="after start"):
            return _ended_by_itself(world, run.id)


def tool_dead() -> Outcome:
    """The supervisor is killed as soon as the program runs, and nothing replaces it."""
    with _world() as world:
        run = world.start(PROGRAM.read_text(), "--hold-at", "23", budget_usd=BUDGET_SECONDS / 3600)
        world.attend_in_another_process(run, kill_at="after start")
        return _ended_by_itself(world, run.id)


def _ended_by_itself(world: World, run_id: str) -> Outcome:
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


def agent_killed() -> Outcome:
    """Guard and agent are killed at once, after a checkpoint was brought home."""
    with _world() as world:
        return _disturbed(world, lambda run_id: _kill_agents(world, run_id))


def _kill_agents(world: World, run_id: str) -> None:
    folder = world.folder / "provider" / "machines" / f"{run_id}-1" / "0"
    guard = int((folder / "agent.pid").read_text().split()[0])
    for pid in (guard, *agent.process_tree(guard)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def machine_taken_back() -> Outcome:
    """The provider takes the machine back, as on the spot market, after a checkpoint was brought home."""
    with _world() as world:
        return _disturbed(world, lambda run_id: world.door.reclaim(f"{run_id}-1"))


def store_unreachable() -> Outcome:
    """The store does not answer any more, after a checkpoint was brought home, and the machine is lost meanwhile; then
    it answers again, and the next command continues."""
    with _world() as world:
        run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")
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


def failed_terminations() -> Outcome:
    """A hundred calls to terminate fail. The pauses between them, up to five minutes, are left out."""
    with _world(Faults(failing_terminations=1.0)) as world:
        decide.MAX_TERMINATION_PAUSE_SECONDS = 0.0

        def relent(status: RunStatus) -> None:
            if status.life.termination_failures >= TERMINATIONS:
                world.door.misbehave(Faults())

        status = attend(world.start("pass").id, settings=world.settings, poll_seconds=0.0, on_status=relent)
        noted = sum(fact.kind == "termination failed" for fact in status.facts)
        left = len(world.door.machines())
        text = f"{noted} facts, one for each failed call; run {status.life.outcome}, {left} machines left"
        return noted >= TERMINATIONS and not left and status.life.outcome == "succeeded", text


def host_reboots() -> Outcome:
    """A host restarts after a checkpoint was brought home."""
    return _on_a_host(lambda host: host.reboot())


def network_cut() -> Outcome:
    """The cable of a host is cut for a minute, after a checkpoint was brought home; then the host restarts."""

    def mend(host: SshHost) -> None:
        host.restore()
        host.reboot()

    def cut(host: SshHost) -> None:
        host.cut()
        threading.Timer(CUT_SECONDS, mend, (host,)).start()

    return _on_a_host(cut)


def disk_full() -> Outcome:
    """The program fills the disk of its host."""
    source = (
        "try:\n    with open('big', 'wb', 0) as file:\n        while True: file.write(bytes(1 << 16))\n"
        "except OSError as error:\n    print('full:', error.errno, flush=True)\n    raise SystemExit(28)\n"
    )
    with _hosts() as rig:
        if rig is None:
            return True, f"not tried: {missing_requirement()}"
        rig.add("h1", home_mib=24)
        with _world() as world:
            status = _run_on_host(world, source, (), lambda _status: None)
            output = read_output(status.run.id, settings=world.settings).decode().strip()
            size = (world.home / "big").stat().st_size if (world.home / "big").exists() else 0
            text = f"run {status.life.outcome} with exit code {status.life.exit_code}; output ({output}) and a file of"
            return (
                status.life.exit_code == 28 and size > 0 and "full: 28" in output,
                f"{text} {size >> 20} MiB are at home",
            )


def _on_a_host(disturb: Callable[[SshHost], None]) -> Outcome:
    with _hosts() as rig:
        if rig is None:
            return True, f"not tried: {missing_requirement()}"
        host = rig.add("h1")
        done: list[bool] = []

        def look(status: RunStatus) -> None:
            if status.life.checkpoint is not None and not done:
                done.append(True)
                disturb(host)

        with _world() as world:
            status = _run_on_host(world, PROGRAM.read_text(), ("--hold-at", "23"), look)
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


def _disturbed(world: World, disturb: Callable[[str], None]) -> Outcome:
    """A training that is disturbed once its checkpoint is at home."""
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    done: list[bool] = []

    def look(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not done:
            done.append(True)
            disturb(run.id)

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=look)
    return _judged(status, world.home, world.door.machines())


def _judged(status: RunStatus, home: Path, left: tuple[object, ...]) -> Outcome:
    life = status.life
    weights = home / "weights.json"
    same = weights.exists() and weights.read_text() == _undisturbed()
    text = f"run {life.outcome} in {life.attempt} attempts, {len(left)} machines left"
    text += ", weights as undisturbed" if same else ", OTHER WEIGHTS than undisturbed"
    return same and life.outcome == "succeeded" and not left, text


def _undisturbed() -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(PROGRAM)], cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "weights.json").read_text()


@contextmanager
def _world(faults: Faults | None = None) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="trainfare-faults-") as folder:
        os.environ[FAKE_FOLDER] = str(Path(folder) / "provider")
        world = make_world(Path(folder), faults)
        try:
            yield world
        finally:
            world.door.misbehave(Faults())
            for machine in world.door.machines():
                world.door.terminate(machine.key)


@contextmanager
def _hosts() -> Iterator[HostRig | None]:
    if missing_requirement() is not None:
        yield None
        return
    before = dict(os.environ)
    with host_rig() as rig:
        os.environ.update(rig.environment)
        try:
            yield rig
        finally:
            os.environ.update({name: before.get(name, "") for name in rig.environment})


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


FAULTS: dict[str, Callable[[], Outcome]] = {
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


if __name__ == "__main__":
    main()
