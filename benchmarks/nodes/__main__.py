"""Trainings on several nodes, predicted and measured: real runs on hosts that are namespaces of this machine, as root.

    python -m benchmarks.nodes [--mbps 50,200,1000] [--server-mbps 200] [--workers 1,2,3,4] [--json]

**Rings.** PyTorch's DDP and FSDP on three hosts whose cables have the given bandwidth. The prediction uses the profile
of the program on one host (its step and the bytes of its gradient) and the rate of the network between two hosts, which
a run of a few seconds measures. `estimator/parallel/ring.py` adds what the ring sends.

**Server.** TensorFlow's parameter server with 1 to 4 workers. The run with one worker shows its traffic and its step;
`recommender/clusters/measured.py` predicts the others, and Scala-Opt chooses a number of workers from the same run.

Every step is measured by the monitor of the runs; TensorFlow's by the chief, since the probe cannot count its steps.
Each row is one run. It takes about ten minutes.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tests.rigs.hosts import HostRig, host_rig, missing_requirement
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.app.running.measure_cluster import measure_link
from trainfare.app.running.run import RunOptions, agree, attend, start_run
from trainfare.app.running.status import read_output
from trainfare.estimator.parallel.ring import GLOO_SHARDED_PARTS, overlapped_seconds, ring_seconds, sharded_seconds
from trainfare.model.cluster import ClusterLimit, Server, Worker
from trainfare.model.run import Launcher, ObservationKind
from trainfare.recommender.clusters.fc2 import scala_opt_m
from trainfare.recommender.clusters.measured import TriedWorkers, best_measured, predict_workers
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings
from trainfare.store.open import open_existing_history
from trainfare.units import BYTES_PER_MEGABIT

HERE = Path(__file__).parent
STARTED = time.monotonic()
NODES = 3
ITERATIONS: tuple[ObservationKind, ...] = ("iterations",)
WARM = 4
"""The first iterations of a run, which are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """One training on several hosts."""

    kind: str
    mbps: float
    link_mbps: float
    seconds: float
    predicted_seconds: float
    sent_mb: float
    predicted_mb: float

    @property
    def ratio(self) -> float:
        return self.predicted_seconds / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """A number of workers behind a server."""

    workers: int
    seconds: float
    predicted_seconds: float
    worker_mbps: float
    server_mbps: float

    @property
    def ratio(self) -> float:
        return self.predicted_seconds / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Hosts, a group of them, and a project with both programs."""

    rig: HostRig
    settings: Settings
    project: Path

    def limit(self, mbps: float | None) -> None:
        for host in self.rig.hosts.values():
            host.limit(mbps)

    def run(self, words: Sequence[str], nodes: int, launcher: Launcher, results: str) -> RunStatus:
        folder = self.project.parent / results
        wanted = RunOptions(
            on="ssh/lab",
            nodes=nodes,
            launcher=launcher,
            results=folder,
            install="none",
            variables={"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        os.chdir(self.project)
        run = agree([sys.executable, *words], wanted, settings=self.settings)
        start_run(run, settings=self.settings)
        status = attend(run.id, settings=self.settings)
        if status.life.outcome != "succeeded":
            raise SystemExit(
                f"nodes: {status.life.message}\n{read_output(run.id, settings=self.settings).decode()[-3000:]}"
            )
        return status

    def steps(self, status: RunStatus, node: int) -> list[float]:
        """The iterations of a node, as its monitor counted them."""
        with open_existing_history(self.settings.store) as history:
            seen = history.observations.of(status.run.id, kinds=ITERATIONS, attempt=1)
        lists = [each.values.get("seconds") for each in seen if each.node == node]
        values = [value for each in lists if isinstance(each, list) for value in each if value is not None]
        return values[WARM:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbps", type=_numbers, default=[50.0, 200.0, 1000.0])
    parser.add_argument("--server-mbps", type=_numbers, default=[200.0])
    parser.add_argument("--workers", type=_numbers, default=[1.0, 2.0, 3.0, 4.0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = missing_requirement()
    if reason:
        raise SystemExit(f"nodes: {reason}")
    workers = [int(count) for count in options.workers]
    with host_rig() as rig, tempfile.TemporaryDirectory(prefix="trainfare-nodes-") as name:
        os.environ.update(rig.environment)
        bench = _bench(rig, Path(name), max(NODES, 1 + max(workers, default=0)))
        rings = ring_rows(bench, options.mbps) if options.mbps else []
        servers = {mbps: server_rows(bench, mbps, workers) for mbps in options.server_mbps if workers}
    if options.json:
        print(json.dumps({"rings": [asdict(row) for row in rings], "servers": _records(servers)}, indent=2))
        return
    print(
        "\n".join(
            [
                *(_ring_page(rings) if rings else ()),
                *(line for mbps, table in servers.items() for line in table.page(mbps)),
            ]
        )
    )


def _bench(rig: HostRig, folder: Path, hosts: int) -> Bench:
    names = [rig.add(f"h{number + 1}").name for number in range(hosts)]
    (folder / "machines.toml").write_text(f"[lab]\nhosts = {json.dumps(names)}\n")
    project = folder / "project"
    project.mkdir()
    for program in ("train_torch.py", "train_tensorflow.py"):
        shutil.copy(HERE / program, project)
    settings = Settings(
        store=str(folder / "h.db"),
        machines=str(folder / "machines.toml"),
        prices=str(folder / "prices"),
        runs=str(folder / "runs"),
    )
    return Bench(rig=rig, settings=settings, project=project)


def ring_rows(bench: Bench, bandwidths: Sequence[float]) -> list[RingRow]:
    """DDP and FSDP on three hosts, predicted from the profile of one process and the rate of the network."""
    os.chdir(bench.project)
    _progress("profile on one host")
    profile = profile_command(
        [sys.executable, "train_torch.py", "ddp"],
        ProfileOptions(settings=bench.settings, iterations=20),
    )
    alone, gradient = median(profile.steady_iteration_seconds), profile.gradient_bytes or 0
    rows = []
    for mbps in bandwidths:
        bench.limit(mbps)
        _progress(f"{mbps:g} Mbit/s, rate of the network")
        rate = measure_link("ssh/lab", bench.settings)
        for kind in ("ddp", "fsdp"):
            _progress(f"{mbps:g} Mbit/s, {kind}")
            status = bench.run(["train_torch.py", kind], NODES, "torchrun", f"{kind}{mbps:g}")
            steps = bench.steps(status, 0)
            bandwidth = rate * BYTES_PER_MEGABIT
            if kind == "ddp":
                sync = ring_seconds(gradient, gpus=NODES, bytes_per_second=bandwidth)
            else:
                sync = sharded_seconds(gradient, gpus=NODES, bytes_per_second=bandwidth, parts=GLOO_SHARDED_PARTS)
            first = next(each for each in status.traffic if each.node == 0)
            rows.append(
                RingRow(
                    kind=kind,
                    mbps=mbps,
                    link_mbps=rate,
                    seconds=median(steps),
                    predicted_seconds=overlapped_seconds(alone, sync, 1.0),
                    sent_mb=first.sent_bytes / first.iterations / 1e6,
                    predicted_mb=sync * bandwidth / 1e6,
                )
            )
    bench.limit(None)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """All numbers of workers at one bandwidth."""

    link_mbps: float
    rows: tuple[ServerRow, ...]
    scala_opt: int
    best: int | None
    """The fewest workers with 90% of the highest throughput."""

    def page(self, mbps: float) -> list[str]:
        rates = {row.workers: row.workers / row.seconds for row in self.rows}
        share = rates[self.scala_opt] / max(rates.values()) if self.scala_opt in rates else None
        reached = "" if share is None else f", which reached {share:.0%} of the highest throughput"
        return [
            "",
            f"TensorFlow's parameter server at {mbps:g} Mbit/s ({self.link_mbps:.1f} reached)",
            "",
            "| workers | step (ms) | predicted | ratio | a worker (Mbit/s) | the server |",
            "| ---: | ---: | ---: | ---: | ---: | ---: |",
            *(
                f"| {row.workers} | {1000 * row.seconds:.0f} | {1000 * row.predicted_seconds:.0f} | {row.ratio:.2f} "
                f"| {row.worker_mbps:.1f} | {row.server_mbps:.1f} |"
                for row in self.rows
            ),
            "",
            f"mean error {fmean(abs(row.ratio - 1) for row in self.rows[1:]):.1%} from two workers on; Scala-Opt takes "
            f"{self.scala_opt}{reached}; 90% of it from {self.best} workers on",
        ]


def server_rows(bench: Bench, mbps: float, workers: Sequence[int]) -> ServerTable:
    bench.limit(mbps)
    rate = measure_link("ssh/lab", bench.settings)
    tried = []
    for count in workers:
        _progress(f"{mbps:g} Mbit/s, a server and {count} workers")
        results = f"server{mbps:g}-{count}"
        status = bench.run(["train_tensorflow.py"], count + 1, "tf-server", results)
        chief = json.loads((bench.project.parent / results / "chief.json").read_text())
        step = chief["seconds"] / chief["steps"]
        own = [each for each in status.traffic if each.node]
        sent = fmean(max(each.sent_bytes, each.received_bytes) for each in own) / chief["all_steps"]
        server = next(each for each in status.traffic if each.node == 0)
        training = chief["all_steps"] * step
        tried.append(
            TriedWorkers(
                workers=count,
                worker_mbps=sent / BYTES_PER_MEGABIT / step,
                server_mbps=max(server.sent_bytes, server.received_bytes) / BYTES_PER_MEGABIT / training,
                step_seconds=step,
                bytes_per_step=sent,
            )
        )
    bench.limit(None)
    predicted = {each.workers: each for each in predict_workers(tried[0], workers, server_mbps=rate)}
    node = Worker(name="host", usd_per_hour=1.0, mbps=tried[0].worker_mbps)
    scala = scala_opt_m(Server(name="host", usd_per_hour=1.0, mbps=rate), node, ClusterLimit(workers=1000))
    return ServerTable(
        link_mbps=rate,
        rows=tuple(
            ServerRow(
                workers=each.workers,
                seconds=each.step_seconds or 0.0,
                predicted_seconds=predicted[each.workers].asynchronous_seconds,
                worker_mbps=each.worker_mbps,
                server_mbps=each.server_mbps,
            )
            for each in tried
        ),
        scala_opt=scala.workers,
        best=best_measured(tried),
    )


def _ring_page(rows: Sequence[RingRow]) -> list[str]:
    return [
        f"{NODES} hosts; predicted from one host and the rate of the network",
        "",
        "| | Mbit/s | reached | step (ms) | predicted | ratio | sent (MB) | predicted |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {row.kind} | {row.mbps:g} | {row.link_mbps:.1f} | {1000 * row.seconds:.0f} "
            f"| {1000 * row.predicted_seconds:.0f} | {row.ratio:.2f} | {row.sent_mb:.2f} | {row.predicted_mb:.2f} |"
            for row in rows
        ),
        "",
        f"mean error {fmean(abs(row.ratio - 1) for row in rows):.1%}",
    ]


def _records(servers: Mapping[float, ServerTable]) -> dict[str, Any]:
    return {f"{mbps:g}": asdict(table) for mbps, table in servers.items()}


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if float(part) > 0]


def _progress(text: str) -> None:
    print(f"{time.monotonic() - STARTED:4.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
