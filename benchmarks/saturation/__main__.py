"""When does a parameter server's network hold its workers up? Real gradients, real TCP, on one machine, as root.

    python -m benchmarks.saturation [--mbps 400,100] [--workers 1,2,3,4,6,8] [--ring 2,3,4] [--json] [--plot FILE]

One server and its workers are processes in network namespaces, the server's cable is as narrow as asked for. Measured:
samples a second by number of workers, of a server that waits for all and of one that waits for none. Predicted, by
`estimator/parallel/parameter_server.py`: the same from what one server and one worker show, which is the time to compute, the
bytes of the gradient and what the cable carries. Beside it Scala-Opt's number of workers from the same profile.

Then all-reduce over gloo on a few hosts, predicted by the ring of `estimator/parallel/ring.py` from the step on one host and
the bandwidth.

Computing stands for a GPU: real gradients of a small batch, then a wait until the step has computed for `--compute`.
It takes about two and a half minutes and is stopped after three (`--at-most`); nothing is left behind. φ of a server
that waits was read off this at 400 Mbit/s: look at other bandwidths for its error.
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
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns that hosts have no names

from benchmarks.saturation.hosts import hosts, why_not
from trainfare.estimator.parallel.parameter_server import synchronous_step_seconds, parameter_server_seconds
from trainfare.estimator.parallel.ring import overlapped_seconds, ring_seconds
from trainfare.model.cluster import ClusterLimit, Server, Worker
from trainfare.recommender.clusters.fc2 import mbps_of, scala_opt_m

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.saturation.ring import Ring
    from benchmarks.saturation.served import Link, Seen
    from trainfare.figures.chart import Series

STARTED = time.monotonic()
AT_MOST_SECONDS = 180
MOST_HOSTS = 64
BYTES_PER_MEGABIT = 125_000.0
ENOUGH = 0.9
"""The knee of a row of numbers: the fewest workers that get so much done of the most that any do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """So many workers: measured, and predicted."""

    workers: int
    seconds: float
    spread: float
    predicted_seconds: float
    even_seconds: float
    """By Sanghvi's 2·S/(B/n); of a server that waits for none, by the bound of a link that goes one way at a time."""
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
class Table:
    mbps: float
    in_step: bool
    reached_mbps: float
    gradient_bytes: int
    rows: tuple[Row, ...]
    measured_knee: int
    predicted_knee: int
    always_busy: float
    """n* of the model: so many would fill the link."""
    scala_opt: int
    """Workers, by what one sends and all of the reached bandwidth × 0.95."""
    scala_opt_share: float | None
    """Of the most samples a second that any measured number got done; None where that number was not measured."""
    evenness: float | None
    """φ that these steps would want, of a server that waits."""


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
    asked = _arguments()
    reason = why_not()
    if reason:
        raise SystemExit(f"saturation: {reason}")
    _bounded(asked.at_most)
    tables = served_tables(asked.mbps, asked.workers, asked.compute, asked.seconds) if asked.workers else []
    rings = ring_rows(asked.mbps, asked.ring, asked.compute, asked.seconds / 2) if asked.ring else []
    if asked.json:
        print(json.dumps({"served": [asdict(t) for t in tables], "ring": [asdict(r) for r in rings]}, indent=2))
    else:
        print("\n".join(page(tables, rings, asked.compute)))
    if asked.plot:
        _plot(tables, asked.plot)


def served_tables(bandwidths: list[float], workers: list[int], compute: float, seconds: float) -> list[Table]:
    from benchmarks.saturation.served import Order, cluster

    found = []
    with hosts(1 + max(workers)) as all_hosts, cluster(all_hosts, compute) as running:
        for mbps in bandwidths:
            running.cable.narrow(mbps)
            link = running.link()
            for in_step in (True, False):
                seen = []
                for n in workers:
                    _progress(f"{mbps:g} Mbit/s, {n} workers {'in step' if in_step else 'apart'}")
                    seen.append(running.train(Order(workers=n, in_step=in_step, seconds=seconds), mbps))
                found.append(_table(mbps, link, seen, compute, in_step=in_step))
    return found


def ring_rows(bandwidths: list[float], counts: list[int], compute: float, seconds: float) -> list[RingRow]:
    """G + Y: what one host takes, then the ring; nothing is said to hide."""
    from benchmarks.saturation.learner import make_model
    from benchmarks.saturation.ring import measured

    gradient = 4 * sum(p.numel() for p in make_model().parameters())
    rows: list[RingRow] = []
    with hosts(max(counts)) as all_hosts:
        _progress("all-reduce, one host")
        alone = measured(all_hosts[:1], (None,), compute_seconds=compute, seconds=seconds)[0].seconds
        for n in counts:
            _progress(f"all-reduce, {n} hosts")
            found = measured(all_hosts[:n], tuple(bandwidths), compute_seconds=compute, seconds=seconds)
            rows += [_ring_row(ring, alone, gradient) for ring in found]
    return rows


def _ring_row(ring: "Ring", alone: float, gradient: int) -> RingRow:
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


def _table(mbps: float, link: "Link", seen: "list[Seen]", compute: float, *, in_step: bool) -> Table:
    from benchmarks.saturation.learner import BATCH

    transfer = link.bytes / link.bytes_per_second
    rows = []
    for one in seen:
        served = parameter_server_seconds(
            compute, gradient_bytes=link.bytes, workers=one.workers, server_bytes_per_second=link.bytes_per_second
        )
        predicted = served.synchronous if in_step else served.asynchronous
        even = 2 * one.workers * transfer
        rows.append(
            Row(
                workers=one.workers,
                seconds=median(one.step_seconds),
                spread=one.spread,
                predicted_seconds=predicted,
                even_seconds=compute + even if in_step else max(compute + 2 * transfer, even),
                samples_per_second=one.samples_per_second,
                predicted_samples_per_second=one.workers * BATCH / predicted,
                received_share=one.received_share,
            )
        )
    # What FC2 would measure with one worker: the busier direction over a whole step.
    one_sends = mbps_of(link.bytes, compute + 2 * transfer)
    reached = link.bytes_per_second / BYTES_PER_MEGABIT
    scala = scala_opt_m(
        Server(name="h0", usd_per_hour=1.0, mbps=reached),
        Worker(name="host", usd_per_hour=1.0, mbps=one_sends),
        ClusterLimit(workers=1000),
    ).workers
    rates = {row.workers: row.samples_per_second for row in rows}
    return Table(
        mbps=mbps,
        in_step=in_step,
        reached_mbps=reached,
        gradient_bytes=link.bytes,
        rows=tuple(rows),
        measured_knee=_knee(rates),
        always_busy=compute / transfer + 2,
        predicted_knee=_knee({row.workers: row.predicted_samples_per_second for row in rows}),
        scala_opt=scala,
        scala_opt_share=rates[scala] / max(rates.values()) if scala in rates else None,
        evenness=_evenness(rows, compute, transfer) if in_step else None,
    )


def _evenness(rows: list[Row], compute: float, transfer: float) -> float | None:
    """The median over the numbers of workers."""
    wanted = []
    for row in rows:
        if row.workers > 1:
            least, most = (synchronous_step_seconds(compute, transfer, row.workers, evenness=e) for e in (0.0, 1.0))
            wanted.append((row.seconds - least) / (most - least))
    return median(wanted) if wanted else None


def _knee(rates: dict[int, float]) -> int:
    return min(n for n, rate in rates.items() if rate >= ENOUGH * max(rates.values()))


def page(tables: list[Table], rings: list[RingRow], compute: float) -> list[str]:
    lines = [f"Computing stands for a GPU: real gradients of 32 samples, then a wait until {1000 * compute:.0f} ms."]
    for table in tables:
        kind = "waits for all" if table.in_step else "waits for none"
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
            "All-reduce over gloo, every cable narrow",
            "",
            "| hosts | Mbit/s | step (ms) | predicted | error | sent (MB) | ring (MB) |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(
                f"| {r.hosts} | {r.mbps:g} | {1000 * r.seconds:.0f} | {1000 * r.predicted_seconds:.0f} | "
                f"{100 * r.error:+.1f} % | {r.sent_mb:.2f} | {r.ring_mb:.2f} |"
                for r in rings
            ),
            "",
            f"mean error {100 * fmean(abs(r.error) for r in rings):.1f} %",
        ]
    return lines


def _other(table: Table) -> str:
    """The older model beside ours: Sanghvi's term, or a link that goes one way at a time."""
    return "evenly" if table.in_step else "half duplex"


def _line(row: Row) -> str:
    return (
        f"| {row.workers} | {row.samples_per_second:.1f} | {row.predicted_samples_per_second:.1f} | "
        f"{1000 * row.seconds:.0f} | {100 * row.spread:.0f} % | {1000 * row.predicted_seconds:.0f} | "
        f"{100 * row.error:+.1f} % | {1000 * row.even_seconds:.0f} | {100 * row.even_error:+.1f} % | "
        f"{100 * row.received_share:.0f} % |"
    )


def _summary(table: Table) -> str:
    ours = fmean(abs(row.error) for row in table.rows)
    even = fmean(abs(row.even_error) for row in table.rows)
    share = "" if table.scala_opt_share is None else f", which got {100 * table.scala_opt_share:.0f} % of the most done"
    wanted = "" if table.evenness is None else f"; φ that it wants {table.evenness:.2f}"
    return (
        f"mean error {100 * ours:.1f} % ({_other(table)} {100 * even:.1f} %); {100 * ENOUGH:.0f} % of the most from "
        f"{table.measured_knee} workers on, predicted {table.predicted_knee}; {table.always_busy:.1f} would fill the "
        f"link, Scala-Opt takes {table.scala_opt}{share}{wanted}"
    )


def _plot(tables: list[Table], path: Path) -> None:
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
            marks=tuple((float(t.scala_opt), "Scala-Opt") for t in tables if t.mbps == mbps and t.in_step),
        )
        for mbps in dict.fromkeys(table.mbps for table in tables)
    ]
    save_figure(page(chart_views(charts), description="Samples a second against workers", width=WIDE), path)


def _series(table: Table) -> "Iterator[Series]":
    from trainfare.figures.chart import Series

    ours = tuple((float(row.workers), row.predicted_samples_per_second) for row in table.rows)
    measured = tuple((float(row.workers), row.samples_per_second) for row in table.rows)
    label = "waits for all" if table.in_step else "waits for none"
    yield Series(label=label, points=ours, chosen=table.in_step, dashed=not table.in_step, marked=False)
    yield Series(label="", points=measured, chosen=table.in_step, joined=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Saturation of a parameter server on real traffic; needs root.")
    parser.add_argument("--mbps", type=_numbers, default=[400.0, 100.0], help="bandwidths of the server, in Mbit/s")
    parser.add_argument("--workers", type=_counts, default=[1, 2, 3, 4, 6, 8], help="0: no server")
    parser.add_argument("--ring", type=_counts, default=[2, 3, 4], help="hosts that all-reduce; 0: none")
    parser.add_argument("--compute", type=float, default=0.1, metavar="SECONDS", help="what stands for a GPU's step")
    parser.add_argument("--seconds", type=float, default=2.5, help="about so long for each number of workers")
    parser.add_argument("--at-most", type=int, default=AT_MOST_SECONDS, metavar="SECONDS", help="then it is stopped")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it too, as .svg or .png")
    return parser.parse_args()


def _numbers(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not all(number > 0 for number in found):
        raise ValueError
    return found


def _counts(text: str) -> list[int]:
    found = sorted({int(part) for part in text.split(",")} - {0})
    if not all(0 < number <= MOST_HOSTS for number in found):
        raise ValueError
    return found


def _bounded(seconds: int) -> None:
    """However it ends, the hosts go: what would kill us outright becomes an exception that unwinds."""

    def stop(number: int, _: FrameType | None) -> None:
        if number == signal.SIGALRM:
            raise SystemExit(f"saturation: stopped after {seconds} s; see --at-most")
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(seconds)


def _progress(words: str) -> None:
    print(f"{time.monotonic() - STARTED:4.0f} s  {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
