"""Use case: the short runs of `trainfare cluster`: one server and 1 to k workers on hosts of the user, and what their
networks carried. Each is a run like any other, with its receipt."""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from trainfare.agent import link
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.app.running.doors import open_door
from trainfare.app.running.last_lines import last_lines
from trainfare.app.running.run import RunOptions, agree, attend, pick_candidate, start_run, stop_run
from trainfare.errors import ProgramError, UsageError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.run import Launcher
from trainfare.recommender.clusters.measured import PredictedWorkers, TriedWorkers, predict_workers
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings
from trainfare.units import BYTES_PER_MEGABIT

SECONDS = 60.0
"""The longest time of a short run."""
ENOUGH_ITERATIONS = 40
"""A run whose iterations are counted ends after so many of each worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMeasurement:
    """A server and its workers, as short runs on a machine type with several nodes saw them."""

    machine: str
    usd_per_hour: float
    link_mbps: float
    """The rate of the network from one node to another."""
    tried: tuple[TriedWorkers, ...]

    @property
    def predicted(self) -> tuple[PredictedWorkers, ...]:
        """The steps that the run with one worker predicts."""
        counts = [each.workers for each in self.tried]
        return predict_workers(self.tried[0], counts, server_mbps=self.link_mbps)


class _EnoughError(Exception):
    """A short run has shown what it can."""


def measure_cluster(
    command: Sequence[str],
    *,
    on: str,
    workers: Sequence[int],
    launcher: Launcher = "tf-server",
    seconds: float = SECONDS,
    options: RunOptions | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> ClusterMeasurement:
    """Run a program with each number of workers for a short while. Node 0 is the server, the others are workers."""
    settings = settings or read_settings()
    if not workers or min(workers) < 1:
        raise UsageError("At least one worker is needed.", field="max_workers")
    if on.partition("/")[0] == HERE_PROVIDER:
        raise UsageError(f"The nodes of {on} share this machine: there is no network between them.", field="on")
    source = read_program(command, settings)
    on_progress(f"the network of {on}")
    rate = measure_link(on, settings)
    tried = []
    for count in sorted(set(workers)):
        on_progress(f"1 server and {count} {'worker' if count == 1 else 'workers'}")
        tried.append(_try_workers(source, count, on, launcher, seconds, options or RunOptions(), settings))
    price = pick_candidate(open_door(settings, on), on, nodes=1).usd_per_hour
    return ClusterMeasurement(machine=on, usd_per_hour=price, link_mbps=rate, tried=tuple(tried))


def measure_link(on: str, settings: Settings) -> float:
    """The rate of the network from one node of a machine type to another, in Mbit/s, by a run of a few seconds."""
    with tempfile.TemporaryDirectory(prefix="trainfare-link-") as name:
        folder = Path(name)
        shutil.copy(link.__file__, folder / "link.py")
        source = read_program(("python3", "link.py"), settings, folder=folder)
        wanted = RunOptions(on=on, nodes=2, launcher="env", results=folder, install="none", longest_seconds=600.0)
        run = agree(source, wanted, settings=settings)
        start_run(run, settings=settings)
        status = attend(run.id, settings=settings)
        if status.life.outcome != "succeeded":
            raise _failure("The network could not be measured", status, settings)
        found = json.loads((folder / "link.json").read_text())
    return float(found["bytes_per_second"]) / BYTES_PER_MEGABIT


def _try_workers(
    source: ProgramSource,
    count: int,
    on: str,
    launcher: Launcher,
    seconds: float,
    options: RunOptions,
    settings: Settings,
) -> TriedWorkers:
    with tempfile.TemporaryDirectory(prefix="trainfare-measure-") as results:
        wanted = RunOptions(
            on=on,
            nodes=count + 1,
            launcher=launcher,
            results=Path(results),
            longest_seconds=seconds,
            setup=options.setup,
            install=options.install,
            variables=options.variables,
            secrets=options.secrets,
            data=options.data,
            attempts=1,
        )
        run = agree(source, wanted, settings=settings)
        start_run(run, settings=settings)
        try:
            status = attend(run.id, settings=settings, on_status=_stop_when_enough)
        except _EnoughError:
            status = stop_run(run.id, settings=settings)
        if status.life.outcome not in ("succeeded", "stopped") or len(status.traffic) <= count:
            raise _failure(f"The run with {count} workers showed nothing", status, settings)
        return _tried(status, count)


def _stop_when_enough(status: RunStatus) -> None:
    counted = [each.iterations for each in status.traffic if each.node]
    is_training = status.life.state == "training" and status.life.stop_reason is None
    if is_training and counted and min(counted) >= ENOUGH_ITERATIONS:
        raise _EnoughError


def _tried(status: RunStatus, count: int) -> TriedWorkers:
    server = next(each for each in status.traffic if each.node == 0)
    workers = [each for each in status.traffic if each.node]
    counted = [each for each in workers if each.iterations]
    busier = [max(each.sent_bytes, each.received_bytes) / each.iterations for each in counted]
    return TriedWorkers(
        workers=count,
        worker_mbps=fmean(each.mbps for each in workers),
        server_mbps=server.mbps,
        step_seconds=fmean(each.seconds / each.iterations for each in counted) if counted else None,
        bytes_per_step=fmean(busier) if counted else None,
        run_id=status.run.id,
    )


def _failure(what: str, status: RunStatus, settings: Settings) -> ProgramError:
    lines = last_lines(status, settings=settings, count=3)
    said = f" It printed: {' / '.join(lines)}" if lines else ""
    return ProgramError(f"{what}: {status.life.message}{said} Run {status.run.id} has the rest.")
