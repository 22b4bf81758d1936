"""The saturation of a parameter server's network: real gradients over real TCP on one machine, as root.

    python -m benchmarks.saturation [--mbps 400,100] [--workers 1,2,3,4,6,8] [--ring 2,3,4] [--json] [--plot FILE]

One server and its workers are processes in network namespaces, and the server's cable has the given bandwidth. Measured
are samples per second by number of workers, for a server that waits for all workers (synchronous) and for one that
waits for none (asynchronous). `estimator/parallel/parameter_server.py` predicts the same from one server and one
worker: the time to compute, the bytes of the gradient and the bandwidth of the cable. Scala-Opt's number of workers
from the same profile is printed next to it.

Then all-reduce over gloo on a few hosts, predicted by the ring of `estimator/parallel/ring.py` from the step on one
host and the bandwidth.

A step represents that of a GPU: real gradients of a small batch, then a wait until `--compute` seconds have passed. The
benchmark takes about two and a half minutes and is stopped after three (`--at-most`); it removes everything it created.
φ of a synchronous server was fitted to these measurements at 400 Mbit/s: other bandwidths show its error.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from types import FrameType
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns about hosts without names

from benchmarks.saturation.hosts import hosts, missing_requirement
from trainfare.estimator.parallel.parameter_server import parameter_server_seconds, synchronous_step_seconds
from trainfare.estimator.parallel.ring import overlapped_seconds, ring_seconds
from trainfare.model.cluster import ClusterLimit, Server, Worker
from trainfare.recommender.clusters.fc2 import mbps_of, scala_opt_m
from trainfare.units import BYTES_PER_MEGABIT, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.saturation.parameter_server import Link, TrainingResult
    from benchmarks.saturation.ring import RingMeasurement
    from trainfare.figures.chart import Series

STARTED = time.monotonic()
AT_MOST_SECONDS = 180
MAX_HOSTS = 64
KNEE_SHARE = 0.9
"""The knee is the smallest number of workers with this share of the highest throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """The measured and predicted step of a number of workers."""

    workers: int
    seconds: float
    spread: float
    predicted_seconds: float
    even_seconds: float
    """By Sanghvi's 2·S/(B/n); for an asynchronous server, by the bound of a half-duplex link."""
    samples_per_second: float
    predicted_samples_per_second: float
    received_share: float

    @property
    def error(self) -> float:
        return self.predicted_seconds / self.seconds - 1

    @property
    def even_error(self) -> float:
        return self.even_seconds / self.seconds - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    mbps: float
    synchronous: bool
    reached_mbps: float
    gradient_bytes: int
    rows: tuple[ServerRow, ...]
    measured_knee: int
    predicted_knee: int
    always_busy: float
    """n* of the model: the number of workers that saturates the link."""
    scala_opt: int
    """Workers by the traffic of one worker and 0.95 of the reached bandwidth."""
    scala_opt_share: float | None
    """Its share of the highest measured throughput; None where that number was not measured."""
    evenness: float | None
    """φ fitted to these steps, for a synchronous server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    hosts: int
    mbps: float
    seconds: float
    predicted_seconds: float
    sent_mb: float
    ring_mb: float

    @property
    def error(self) -> float:
        return self.predicted_seconds / self.seconds - 1


def main() -> None:
    options = _arguments()
    reason = missing_requirement()
    if reason:
        raise SystemExit(f"saturation: {reason}")
    _stop_after(options.at_most)
    tables = server_tables(options.mbps, options.workers, options.compute, options.seconds) if options.workers else []
    rings = ring_rows(options.mbps, options.ring, options.compute, options.seconds / 2) if options.ring else []
    if options.json:
        print(json.dumps({"server": [asdict(t) for t in tables], "ring": [asdict(r) for r in rings]}, indent=2))
    else:
        print("\n".join(page(tables, rings, options.compute)))
    if options.plot:
        _plot(tables, options.plot)


def server_tables(bandwidths: list[float], workers: list[int], compute: float, seconds: float) -> list[ServerTable]:
    from benchmarks.saturation.parameter_server import TrainingOrder, cluster

    found = []
    with hosts(1 + max(workers)) as all_hosts, cluster(all_hosts, compute) as running:
        for mbps in bandwidths:
            running.cable.limit(mbps)
            link = running.link()
            for synchronous in (True, False):
                seen = []
                for n in workers:
                    _progress(f"{mbps:g} Mbit/s, {n} {'synchronous' if synchronous else 'asynchronous'} workers")
                    seen.append(running.train(TrainingOrder(workers=n, synchronous=synchronous, seconds=seconds), mbps))
                found.append(_table(mbps, link, seen, compute, synchronous=synchronous))
    return found


def ring_rows(bandwidths: list[float], counts: list[int], compute: float, seconds: float) -> list[RingRow]:
    """Steps with the prediction G + Y: the step of one host plus the ring, without overlap."""
    from benchmarks.saturation.learner import make_model
    from benchmarks.saturation.ring import measure_ring

    gradient = 4 * sum(p.numel() for p in make_model().parameters())
    rows: list[RingRow] = []
    with hosts(max(counts)) as all_hosts:
        _progress("all-reduce, one host")
        alone = measure_ring(all_hosts[:1], (None,), compute_seconds=compute, seconds=seconds)[0].seconds
        for n in counts:
            _progress(f"all-reduce, {n} hosts")
            found = measure_ring(all_hosts[:n], tuple(bandwidths), compute_seconds=compute, seconds=seconds)
            rows += [_ring_row(ring, alone, gradient) for ring in found]
    return rows


def _ring_row(ring: "RingMeasurement", alone: float, gradient: int) -> RingRow:
    mbps = ring.mbps or 0.0
    sync = ring_seconds(gradient, gpus=ring.hosts, bytes_per_second=mbps * BYTES_PER_MEGABIT)
    return RingRow(
        hosts=ring.hosts,
        mbps=mbps,
        seconds=ring.seconds,
        predicted_seconds=overlapped_seconds(alone, sync, 1.0),
        sent_mb=ring.sent_bytes_per_step / 1e6,
        ring_mb=2 * (ring.hosts - 1) / ring.hosts * gradient / 1e6,
    )


def _table(
    mbps: float, link: "Link", seen: "list[TrainingResult]", compute: float, *, synchronous: bool
) -> ServerTable:
    from benchmarks.saturation.learner import BATCH

    transfer = link.bytes / link.bytes_per_second
    rows = []
    for one in seen:
        served = parameter_server_seconds(
            compute, gradient_bytes=link.bytes, workers=one.workers, server_bytes_per_second=link.bytes_per_second
        )
        predicted = served.synchronous if synchronous else served.asynchronous
        even = 2 * one.workers * transfer
        rows.append(
            ServerRow(
                workers=one.workers,
                seconds=median(one.step_seconds),
                spread=one.spread,
                predicted_seconds=predicted,
                even_seconds=compute + even if synchronous else max(compute + 2 * transfer, even),
                samples_per_second=one.samples_per_second,
                predicted_samples_per_second=one.workers * BATCH / predicted,
                received_share=one.received_share,
            )
        )
    # The traffic that FC2 would measure with one worker: the busier direction over a complete step.
    one_sends = mbps_of(link.bytes, compute + 2 * transfer)
    reached = link.bytes_per_second / BYTES_PER_MEGABIT
    scala = scala_opt_m(
        Server(name="h0", usd_per_hour=1.0, mbps=reached),
        Worker(name="host", usd_per_hour=1.0, mbps=one_sends),
        ClusterLimit(workers=1000),
    ).workers
    rates = {row.workers: row.samples_per_second for row in rows}
    return ServerTable(
        mbps=mbps,
        synchronous=synchronous,
        reached_mbps=reached,
        gradient_bytes=link.bytes,
        rows=tuple(rows),
        measured_knee=_knee(rates),
        always_busy=compute / transfer + 2,
        predicted_knee=_knee({row.workers: row.predicted_samples_per_second for row in rows}),
        scala_opt=scala,
        scala_opt_share=rates[scala] / max(rates.values()) if scala in rates else None,
        evenness=_evenness(rows, compute, transfer) if synchronous else None,
    )


def _evenness(rows: list[ServerRow], compute: float, transfer: float) -> float | None:
    """φ that fits these steps: the median over the numbers of workers."""
    fitted = []
    for row in rows:
        if row.workers > 1:
            shortest, longest = (
                synchronous_step_seconds(compute, transfer, row.workers, evenness=e) for e in (0.0, 1.0)
            )
            fitted.append((row.seconds - shortest) / (longest - shortest))
    return median(fitted) if fitted else None


def _knee(rates: dict[int, float]) -> int:
    return min(n for n, rate in rates.items() if rate >= KNEE_SHARE * max(rates.values()))


def page(tables: list[ServerTable], rings: list[RingRow], compute: float) -> list[str]:
    lines = [f"A step represents that of a GPU: gradients of 32 samples, then a wait until {1000 * compute:.0f} ms."]
    for table in tables:
        kind = "synchronous" if table.synchronous else "asynchronous"
        lines += [
            "",
            f"Server at {table.mbps:g} Mbit/s ({table.reached_mbps:.1f} reached), {table.gradient_bytes / 1e6:.2f} MB, "
            f"{kind}",
            "",
            "| workers | samples/s | predicted | step (ms) | ± | predicted | error "
            f"| {_other(table)} | error | received |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(_line(row) for row in table.rows),
            "",
            _summary(table),
        ]
    if rings:
        lines += [
            "",
            "All-reduce over gloo, with the same bandwidth on every cable",
            "",
            "| hosts | Mbit/s | step (ms) | predicted | error | sent (MB) | ring (MB) |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(
                f"| {r.hosts} | {r.mbps:g} | {1000 * r.seconds:.0f} | {1000 * r.predicted_seconds:.0f} | "
                f"{100 * r.error:+.1f}% | {r.sent_mb:.2f} | {r.ring_mb:.2f} |"
                for r in rings
            ),
            "",
            f"mean error {100 * fmean(abs(r.error) for r in rings):.1f}%",
        ]
    return lines


def _other(table: ServerTable) -> str:
    """The name of the other model: Sanghvi's even sharing, or a half-duplex link."""
    return "even sharing" if table.synchronous else "half duplex"


def _line(row: ServerRow) -> str:
    return (
        f"| {row.workers} | {row.samples_per_second:.1f} | {row.predicted_samples_per_second:.1f} | "
        f"{1000 * row.seconds:.0f} | {100 * row.spread:.0f}% | {1000 * row.predicted_seconds:.0f} | "
        f"{100 * row.error:+.1f}% | {1000 * row.even_seconds:.0f} | {100 * row.even_error:+.1f}% | "
        f"{100 * row.received_share:.0f}% |"
    )


def _summary(table: ServerTable) -> str:
    ours = fmean(abs(row.error) for row in table.rows)
    even = fmean(abs(row.even_error) for row in table.rows)
    share = ""
    if table.scala_opt_share is not None:
        share = f", which reached {format_percent(round(table.scala_opt_share, 2))} of the highest throughput"
    fitted = "" if table.evenness is None else f"; fitted φ {table.evenness:.2f}"
    return (
        f"mean error {100 * ours:.1f}% ({_other(table)} {100 * even:.1f}%); {format_percent(KNEE_SHARE)} of the "
        f"highest throughput from {table.measured_knee} workers on, predicted {table.predicted_knee}; "
        f"{table.always_busy:.1f} workers would saturate the link, Scala-Opt uses {table.scala_opt}{share}{fitted}"
    )


def _plot(tables: list[ServerTable], path: Path) -> None:
    from trainfare.app.figures import save_figure
    from trainfare.figures.chart import Chart, chart_views
    from trainfare.figures.look import WIDE, page

    charts = [
        Chart(
            name=f"saturation-{mbps:g}",
            title=f"Server at {mbps:g} Mbit/s",
            subtitle="lines: ours · points: measured",
            x="workers",
            x_quantity="count",
            y="samples/s",
            series=tuple(series for table in tables if table.mbps == mbps for series in _series(table)),
            marks=tuple((float(t.scala_opt), "Scala-Opt") for t in tables if t.mbps == mbps and t.synchronous),
        )
        for mbps in dict.fromkeys(table.mbps for table in tables)
    ]
    save_figure(page(chart_views(charts), description="Samples per second by number of workers", width=WIDE), path)


def _series(table: ServerTable) -> "Iterator[Series]":
    from trainfare.figures.chart import Series

    ours = tuple((float(row.workers), row.predicted_samples_per_second) for row in table.rows)
    measured = tuple((float(row.workers), row.samples_per_second) for row in table.rows)
    label = "synchronous" if table.synchronous else "asynchronous"
    yield Series(label=label, points=ours, chosen=table.synchronous, dashed=not table.synchronous, marked=False)
    yield Series(label="", points=measured, chosen=table.synchronous, joined=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Saturation of a parameter server on real traffic; needs root.")
    parser.add_argument("--mbps", type=_numbers, default=[400.0, 100.0], help="bandwidths of the server, in Mbit/s")
    parser.add_argument(
        "--workers", type=_counts, default=[1, 2, 3, 4, 6, 8], help="numbers of workers; 0 for no server"
    )
    parser.add_argument(
        "--ring", type=_counts, default=[2, 3, 4], help="numbers of hosts in the all-reduce; 0 for none"
    )
    parser.add_argument("--compute", type=float, default=0.1, metavar="SECONDS", help="computing time of a step")
    parser.add_argument("--seconds", type=float, default=2.5, help="approximate time for each number of workers")
    parser.add_argument("--at-most", type=int, default=AT_MOST_SECONDS, metavar="SECONDS", help="maximum total time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw a figure, as .svg or .png")
    return parser.parse_args()


def _numbers(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not all(number > 0 for number in found):
        raise ValueError
    return found


def _counts(text: str) -> list[int]:
    found = sorted({int(part) for part in text.split(",")} - {0})
    if not all(0 < number <= MAX_HOSTS for number in found):
        raise ValueError
    return found


def _stop_after(seconds: int) -> None:
    """Turn signals into exceptions, also after `seconds`, so that the hosts are always removed."""

    def stop(number: int, _: FrameType | None) -> None:
        if number == signal.SIGALRM:
            raise SystemExit(f"saturation: stopped after {seconds} s; see --at-most")
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(seconds)


def _progress(text: str) -> None:
    print(f"{time.monotonic() - STARTED:4.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
