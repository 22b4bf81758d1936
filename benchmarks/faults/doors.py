"""Faults of the doors to Slurm and to SkyPilot, each with one run of a training that saves.

The cluster is a real one, with three nodes on this machine (`tests/rigs/slurm.py`). SkyPilot's server answers with
recorded answers (`tests/rigs/skypilot.py`), and its nodes are on a host in a namespace; `scripts/test-skypilot` has the
real one. Without root these rows are left out.

A fault is right if the run ends as it should, with the weights of an undisturbed training; nothing is left in the
queue, with the provider or for the reaper; the provider has got one launch for each attempt; and calls to terminate
that failed are facts of the run.
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.places import SAVING, fresh_hosts, undisturbed_weights
from tests.rigs.hosts import missing_requirement, wait_until
from tests.rigs.skypilot import NAMES, SKY, START, Replay, replay
from tests.rigs.slurm import SlurmRig, missing_slurm, slurm_rig
from trainfare.app.running.check_doors import check_doors
from trainfare.app.running.doors import open_door
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run, stop_run
from trainfare.app.running.status import show_run
from trainfare.clouds.skypilot_api import VERSION
from trainfare.model.offer import Candidate
from trainfare.model.run import Run
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings

AWAY_SECONDS = 6.0
"""The time without a controller, or without SkyPilot's server."""
PAUSE_SECONDS = 15.0
"""A training that is to go on by itself pauses so long at one step: the fault happens meanwhile."""
FAILED_CALLS = 3
"""Calls to terminate that fail before one has an effect."""

Verdict = tuple[bool, str]
Disturb = Callable[[RunStatus], None]

_HOLDS = 'while state["step"] == arguments.hold_at and not arguments.resume:\n        time.sleep(0.1)'
PAUSING = SAVING.read_text().replace(_HOLDS, f'if state["step"] == 23:\n        time.sleep({PAUSE_SECONDS})')
"""The training that saves, which goes on by itself after a pause."""


@dataclass(frozen=True, slots=True)
class Place:
    """A user with a project, a store and one machine type."""

    folder: Path
    settings: Settings
    machine: str
    launches: Callable[[], int]
    """How many launches the provider has got."""
    left: Callable[[], int]
    """How many jobs or clusters it still has."""

    def start(self, *, holds: bool, market: str | None = None) -> Run:
        """Start the training; with `holds` it waits at a step until it is ended."""
        project = self.folder / "project"
        project.mkdir()
        (project / "train.py").write_text(SAVING.read_text() if holds else PAUSING)
        options = RunOptions(
            on=self.machine, folder=project, results=self.folder / "results", resume_flag="--resume {}", install="none"
        )
        words = ("--hold-at", "23") if holds else ()
        run = agree((sys.executable, "train.py", *words), options, settings=self.settings)
        if market is not None:
            offers = open_door(self.settings, self.machine).offers()
            offer = next(each for each in offers if (each.vm_type.key, each.market) == (self.machine, market))
            run = replace(run, candidate=Candidate(offer=offer, nodes=1, batch_size=None))
        start_run(run, settings=self.settings)
        return run

    def train(self, *, holds: bool, disturb: Disturb, market: str | None = None) -> Verdict:
        """Train, disturbed once its checkpoint is at home."""
        run = self.start(holds=holds, market=market)
        done: list[bool] = []

        def look(status: RunStatus) -> None:
            if status.life.checkpoint is not None and not done:
                done.append(True)
                disturb(status)

        status = attend(run.id, settings=self.settings, poll_seconds=0.1, on_status=look)
        return self._judged(status)

    def _judged(self, status: RunStatus) -> Verdict:
        reaped, left = len(reap(settings=self.settings).terminated), self.left()
        launches, life = self.launches(), status.life
        weights = self.folder / "results" / "weights.json"
        same = weights.exists() and weights.read_text() == undisturbed_weights()
        failed = sum(fact.kind == "termination failed" for fact in status.facts)
        text = f"run {life.outcome} in {life.attempt} attempts, {launches} launches, {left + reaped} machines left"
        text += ", weights as undisturbed" if same else ", OTHER WEIGHTS than undisturbed"
        text += f", {failed} failed terminations as facts" if failed else ""
        is_right = same and life.outcome == "succeeded" and launches == life.attempt and not left and not reaped
        return is_right, text


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _settings(folder: Path) -> Settings:
    return Settings(
        store=str(folder / "h.db"),
        machines=str(folder / "machines.toml"),
        prices=str(folder / "prices"),
        runs=str(folder / "runs"),
        skypilot=str(folder / "skypilot"),
    )


# Slurm.


@contextmanager
def _on_slurm() -> Iterator[tuple[Place, SlurmRig]]:
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-faults-")))
        cluster = closing.enter_context(slurm_rig())
        closing.enter_context(_variables({**cluster.environment, "HOME": str(folder)}))
        (folder / "machines.toml").write_text("[lab]\nslurm = true\nusd_per_hour = 0.36\n")

        def launches() -> int:
            """Every job that is over is a line of this file."""
            lines = (cluster.folder / "jobcomp.txt").read_text().splitlines()
            return len({line.split()[0] for line in lines if "Name=trainfare-" in line})

        yield Place(folder, _settings(folder), "slurm/lab-cpu", launches, lambda: len(cluster.jobs())), cluster


def slurm_node_dies() -> Verdict:
    """Every process of the node ends at once, as by a power failure."""
    with _on_slurm() as (place, cluster):
        return place.train(holds=True, disturb=lambda _: cluster.kill_node("n1"))


def slurm_controller_restarts() -> Verdict:
    """slurmctld is stopped, and started some seconds later with its state; the job runs meanwhile."""
    with _on_slurm() as (place, cluster):
        ended: list[threading.Thread] = []

        def stop(_status: RunStatus) -> None:
            cluster.stop_controller()
            ended.append(threading.Timer(AWAY_SECONDS, cluster.start_controller))
            ended[0].start()

        found = place.train(holds=False, disturb=stop)
        ended[0].join()
        return found


def slurm_submits_and_fails() -> Verdict:
    """sbatch ends with exit code 1 after each submission, as if the controller had answered too late."""
    with _on_slurm() as (place, cluster):
        cluster.misbehave("sbatch", '"$REAL" "$@" > /dev/null\necho "sbatch: error: Socket timed out" >&2\nexit 1')
        return place.train(holds=False, disturb=lambda _: None)


def slurm_cancellation_fails() -> Verdict:
    """A run that waits in the queue is stopped, and the first calls of scancel fail."""
    with _on_slurm() as (place, cluster):
        count = place.folder / "cancellations"
        cluster.misbehave(
            "scancel",
            f'echo x >> {count}\n[ "$(wc -l < {count})" -gt {FAILED_CALLS} ] && exec "$REAL" "$@"\n'
            'echo "scancel: error: Kill job error: Access denied" >&2\nexit 1',
        )
        cluster.block()
        run = place.start(holds=True)
        watching = threading.Thread(target=attend, args=(run.id,), kwargs={"settings": place.settings})
        watching.start()
        wait_until(lambda: len(cluster.jobs()) == 2, 60.0)
        stop_run(run.id, settings=place.settings)
        watching.join()
        status = show_run(run.id, settings=place.settings)
        failed = sum(fact.kind == "termination failed" for fact in status.facts)
        left = place.left() - 1  # the job of someone else
        calls = len(count.read_text().split())
        text = f"run {status.life.outcome}, {calls} calls of scancel, {FAILED_CALLS} failed, {failed} are facts"
        return status.life.outcome == "stopped" and failed == FAILED_CALLS and not left, f"{text}, {left} machines left"


# SkyPilot.


@dataclass(slots=True)
class FaultyServer(Replay):
    """SkyPilot's server, which can fail to end clusters."""

    failing_downs: int = 0

    def down(self, name: str) -> dict[str, Any]:
        if self.failing_downs > 0 and name in self.clusters:
            self.failing_downs -= 1
            return self._fail(self._request("sky.down", name), "RuntimeError", "The provider does not answer.")
        return Replay.down(self, name)


@contextmanager
def _on_skypilot() -> Iterator[tuple[Place, FaultyServer]]:
    with ExitStack() as closing:
        rig = closing.enter_context(fresh_hosts())
        assert rig is not None
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-faults-")))
        host = rig.add("h1")
        configuration = rig.folder / "ssh_config"
        configuration.write_text(NAMES.format(address=host.address) + configuration.read_text())
        settings, environment = _settings(folder), folder / "skypilot" / "env"
        server = FaultyServer(host, away=folder / "away")
        closing.enter_context(replay(host, environment, server))
        (environment / "bin/sky").write_text(SKY + START.format(seconds=AWAY_SECONDS, file=server.away))
        installed = {"version": VERSION, "clouds": ["aws"], "seconds": 1.0, "bytes": 1}
        (folder / "skypilot" / "setup.json").write_text(json.dumps(installed))
        closing.enter_context(
            _variables({"HOME": str(folder), "SKYPILOT_API_SERVER_ENDPOINT": server.url, "TRAINFARE_PRICES": ""})
        )
        check_doors(settings=settings)

        def launches() -> int:
            return sum(path == "/launch" for path, _ in server.asked)

        yield Place(folder, settings, "aws/m7i.large", launches, lambda: len(server.clusters)), server


def skypilot_machine_dies() -> Verdict:
    """The provider takes the spot machine back."""
    with _on_skypilot() as (place, server):
        return place.train(
            holds=True, disturb=lambda status: server.take_back(f"trainfare-{status.run.id}-1"), market="spot"
        )


def skypilot_server_restarts() -> Verdict:
    """SkyPilot's server ends while the program runs; the door starts it again."""
    with _on_skypilot() as (place, server):
        return place.train(holds=False, disturb=lambda _: server.away.touch(), market="on_demand")


def skypilot_launch_fails_and_runs() -> Verdict:
    """The launch fails with its cluster up, and without a timer."""
    with _on_skypilot() as (place, server):
        server.holds, server.fails_after_up = "cluster UP without timer", True
        is_right, text = place.train(holds=False, disturb=lambda _: None, market="on_demand")
        timers = sum(path == "/autostop" for path, _ in server.asked)
        return is_right and timers > 0, f"{text}, its timer was set"


def skypilot_termination_fails() -> Verdict:
    """SkyPilot fails to end the cluster, several times."""
    with _on_skypilot() as (place, server):
        server.failing_downs = FAILED_CALLS
        return place.train(holds=False, disturb=lambda _: None, market="on_demand")


def _or_skipped(fault: Callable[[], Verdict], missing: Callable[[], str | None]) -> Verdict:
    reason = missing()
    if reason is not None:
        return True, f"not tried: {reason}"
    return fault()


DOOR_FAULTS: dict[str, Callable[[], Verdict]] = {
    **{
        name: partial(_or_skipped, fault, missing_slurm)
        for name, fault in {
            "slurm: node dies": slurm_node_dies,
            "slurm: controller restarts": slurm_controller_restarts,
            "slurm: sbatch fails": slurm_submits_and_fails,
            "slurm: scancel fails": slurm_cancellation_fails,
        }.items()
    },
    **{
        name: partial(_or_skipped, fault, missing_requirement)
        for name, fault in {
            "skypilot: machine dies": skypilot_machine_dies,
            "skypilot: server restarts": skypilot_server_restarts,
            "skypilot: launch fails": skypilot_launch_fails_and_runs,
            "skypilot: down fails": skypilot_termination_fails,
        }.items()
    },
}
