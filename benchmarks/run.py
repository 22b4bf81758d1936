"""What a run costs compared with starting the program by hand: time, CPU time, bytes, and the wait for the start.

    python -m benchmarks.run [--slices 200] [--rounds 5] [--doors local,ssh] [--json]

**Overhead.** A PyTorch program is started by hand and as a run on this machine, both at once. They take turns, a slice
of 100 iterations each, on the same core: whatever else the machine does slows neighbouring slices alike. As root they
have the same real-time priority (`chrt`), so that other work does not take the core. Each figure is the median over
pairs of neighbouring slices, as a run by by hand, with an interval that contains the median with at least 90%
confidence (by order statistics, whatever the distribution is).

    iteration  the time of a slice: the overhead of being watched
    CPU        the CPU time of the process during a slice
    agent      CPU time of guard and agent while it trains, as a share of one core
    home       CPU seconds of `trainfare run` itself and of what it starts to look after the run

**Start.** By hand and for each door, the time from the command to the first iteration; `ssh` is a real sshd in a
namespace of this machine.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from tests.rigs.hosts import host_rig, missing_requirement
from trainfare.clouds import driver
from trainfare.clouds.local_shell import LocalShell

PROGRAM = """
import json, os, sys, time
import torch

def watchers():
    "CPU seconds of the agent and the guard above this process, if there are any."
    pid, seconds = os.getppid(), 0.0
    while pid > 1:
        fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        if "agent.py" in open(f"/proc/{pid}/cmdline").read():
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        pid = int(fields[1])
    return seconds

def iterate():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), target).backward()
    optimizer.step()

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(64, 256), torch.randint(0, 10, (64,))
print("first", time.time(), flush=True)
iterate()
if len(sys.argv) > 1:
    slices, own, other = int(sys.argv[1]), os.open(sys.argv[2], os.O_RDWR), os.open(sys.argv[3], os.O_RDWR)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    before, began, found = watchers(), time.monotonic(), []
    for _ in range(slices):
        os.read(own, 1)  # its turn
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(100):
            iterate()
        found.append((time.perf_counter() - start, time.process_time() - cpu))
        os.write(other, b".")
    print("slices", json.dumps(found), flush=True)
    print("agent", (watchers() - before) / (time.monotonic() - began), flush=True)
torch.save(model.state_dict(), "model.pt")
"""

WARM_SLICES = 10
"""The first slices of each process are left out: memory and caches are new."""
REAL_TIME = ("chrt", "--rr", "5")
"""Before each command, as root: other work of the machine waits."""
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One start of the program."""

    first_seconds: float
    """From the command to the first iteration."""
    output: bytes
    home_cpu_seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    """The observed lines of the receipt."""

    @property
    def slices(self) -> list[tuple[float, float]]:
        """Seconds and CPU seconds of each slice."""
        return [(wall, cpu) for wall, cpu in json.loads(_printed(self.output, "slices"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=200, help="slices of 100 iterations for each of the two")
    parser.add_argument("--rounds", type=int, default=5, help="starts by hand and by each door")
    parser.add_argument("--doors", default="local,ssh")
    parser.add_argument("--json", action="store_true", help="print a record at the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainfare-run-") as folder:
        bench = Bench(Path(folder))
        print(f"{' '.join(bench.priority) or 'no priority: start it as root'}, load {_load()}")
        record: dict[str, Any] = _print_overhead(bench, arguments.slices)
        bench.print_bytes()
        record["first_iteration_seconds"] = _print_start(bench, arguments.doors.split(","), arguments.rounds)
        print(f"load at the end {_load()}")
        if arguments.json:
            print(json.dumps(record))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """An interval between two of the values that contains the median of their distribution with this confidence, or the
    widest one if there are too few of them.

    A value is below the median with an even chance, so the number of values below it is binomial.
    """
    ordered, outside, rank = sorted(values), 0.0, 0
    for below in range(len(ordered) // 2):
        outside += 2 * math.comb(len(ordered), below) / 2 ** len(ordered)
        if outside > 1 - confidence:
            break
        rank = below
    return ordered[rank], ordered[-1 - rank]


def _print_overhead(bench: "Bench", slices: int) -> dict[str, Any]:
    hand, run = bench.in_turns(slices)
    pairs = list(zip(hand.slices, run.slices, strict=True))[WARM_SLICES:]
    figures = {
        "iteration": [watched[0] / alone[0] for alone, watched in pairs],
        "CPU": [watched[1] / alone[1] for alone, watched in pairs],
    }
    print(f"{len(pairs)} pairs of slices; an iteration by hand {10 * median(a[0] for a, _ in pairs):.3f} ms")
    for name, values in figures.items():
        low, high = median_interval(values)
        print(f"{name:10}{median(values):8.4f} ({low:.4f} – {high:.4f})")
    agent = float(_printed(run.output, "agent"))
    print(f"{'agent':10}{agent:8.2%} of one core")
    print(f"{'home':10}{run.home_cpu_seconds:8.2f} CPU seconds")
    print("receipt   " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run.parts.items()))
    record: dict[str, Any] = {
        name: {"median": median(values), "interval": median_interval(values)} for name, values in figures.items()
    }
    return record | {"agent": agent, "home_cpu_seconds": run.home_cpu_seconds}


def _print_start(bench: "Bench", doors: list[str], rounds: int) -> dict[str, list[float]]:
    """The time to the first iteration by hand and through each door; the first run of a door is printed alone, because
    it also learns what the machine is."""
    by_hand = [bench.by_hand().first_seconds for _ in range(rounds)]
    found = {"by hand": by_hand}
    print(f"to the first iteration: by hand {median(by_hand):.1f} s")
    for door in doors:
        with bench.door(door) as machine:
            first, *later = [bench.as_run(on=machine).first_seconds for _ in range(rounds + 1)]
            print(
                f"to the first iteration: {machine} {median(later):.1f} s ({min(later):.1f} – {max(later):.1f} s), the "
                f"first time {first:.1f} s"
            )
            found[machine] = later
    return found


class Bench:
    """A folder with the program, a store, and a place for its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._project = folder / "project"
        self._project.mkdir()
        (self._project / "train.py").write_text(PROGRAM)
        self._runs = folder / "runs"
        (folder / "machines.toml").write_text('[box]\nssh = "h1"\n')
        self.priority = REAL_TIME if os.geteuid() == 0 and shutil.which(REAL_TIME[0]) else ()
        # Modules are compiled once, as on the machine of a user.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = {
            **inherited,
            "TRAINFARE_STORE": str(folder / "history.db"),
            "TRAINFARE_RUNS": str(self._runs),
            "TRAINFARE_MACHINES": str(folder / "machines.toml"),
        }

    @contextmanager
    def door(self, name: str) -> Iterator[str]:
        """The key of a machine behind a door."""
        if name == "local":
            yield "local/here"
            return
        if (reason := missing_requirement()) is not None:
            sys.exit(reason)
        with host_rig() as rig:
            rig.add("h1")
            self._environment |= rig.environment
            yield "ssh/box"

    def in_turns(self, slices: int) -> tuple[Started, Started]:
        """The program by hand and as a run, both at once, slice by slice in turns."""
        names = [str(self._folder / name) for name in ("hand", "run")]
        for name in names:
            os.mkfifo(name)
        turn = os.open(names[0], os.O_RDWR)
        os.write(turn, b".")  # the one by hand is first
        with ThreadPoolExecutor() as pool:
            hand = pool.submit(self.by_hand, str(slices), *names)
            run = pool.submit(self.as_run, str(slices), *reversed(names))
            return hand.result(), run.result()

    def by_hand(self, *words: str) -> Started:
        began = time.time()
        command = (*self.priority, sys.executable, "train.py", *words)
        done = subprocess.run(command, cwd=self._project, env=self._environment, stdout=subprocess.PIPE, check=True)
        return Started(first_seconds=float(_printed(done.stdout, "first")) - began, output=done.stdout)

    def as_run(self, *words: str, on: str = "local/here") -> Started:
        options = ("run", "--on", on, "-y", "--json", "--install", "none", "--results", str(self._folder / "results"))
        command = (*self.priority, sys.executable, "-m", "trainfare.cli.main", *options, "--")
        began = time.time()
        process = subprocess.Popen(
            (*command, sys.executable, "train.py", *words),
            cwd=self._project,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        output = process.stdout.read() if process.stdout else b""
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        run = json.loads(output)
        printed = (self._runs / run["id"] / "output-1-0").read_bytes()
        return Started(
            first_seconds=float(_printed(printed, "first")) - began,
            output=printed,
            home_cpu_seconds=usage.ru_utime + usage.ru_stime,
            parts={line["part"]: line["seconds"] for line in run["receipt"]["lines"]},
        )

    def print_bytes(self) -> None:
        """What is sent for a program of one file, without its environment, and what comes back of its journal."""
        shell = LocalShell(folder=self._folder / "machine")
        (self._folder / "machine").mkdir()
        job = driver.AgentJob(key="r-1", node=0, command=("python", "train.py"), lease_ends_at=_in_an_hour())
        sent = driver.prepare(shell, job=job, code=driver.CodeBundle(folder=self._project, files=("train.py",)))
        print(f"sent: {sent:,} bytes, of which the program is {len(PROGRAM):,}")
        for run_id in sorted(path.name for path in self._runs.iterdir() if (path / "output-1-0").exists())[:1]:
            seen = self._observations(run_id)
            size = sum(len(json.dumps(each["values"])) for each in seen)
            print(f"received: {len(seen)} entries of the journal, about {size:,} bytes")

    def _observations(self, run_id: str) -> list[dict[str, Any]]:
        import sqlite3

        with sqlite3.connect(self._environment["TRAINFARE_STORE"]) as connection:
            rows = connection.execute("SELECT document FROM observations WHERE run_id = ? ORDER BY number", (run_id,))
            return [json.loads(document) for (document,) in rows]


def _printed(output: bytes, word: str) -> str:
    """The rest of the line that begins with a word."""
    lines = output.decode().splitlines()
    return next(line.removeprefix(word).strip() for line in lines if line.startswith(word))


def _in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


if __name__ == "__main__":
    main()
