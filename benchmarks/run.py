"""What a run costs compared with starting the program by hand: time, CPU time, bytes, and the wait for the start.

    python -m benchmarks.run [--seconds 60] [--rounds 5] [--doors local,ssh]

A PyTorch program with a fixed number of iterations on one thread is started by hand and as a run on this machine, in
turn, so that other work on the machine slows both alike.

    program    its time under the agent and the probe, by the time by hand: the overhead of being watched
    whole      from `trainfare run` to the receipt, by the time by hand: start, collecting and end included
    iteration  its median iteration, as above: other work takes whole time slices, and hardly changes it
    CPU        the CPU time of the program, as above
    agent      CPU time of guard and agent on the machine, as a share of one core
    home       CPU time of `trainfare run` itself and of what it starts to look after the run, as a share of one core

Then, for each door, the time from `trainfare run` to the first iteration; `ssh` is a real sshd in a namespace of this
machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
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
import statistics, sys, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(64, 256), torch.randint(0, 10, (64,))
print("first", time.time(), flush=True)
ends = [time.perf_counter()]
for iteration in range(int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), target).backward()
    optimizer.step()
    ends.append(time.perf_counter())
print("iteration", statistics.median(b - a for a, b in zip(ends, ends[1:])), flush=True)
torch.save(model.state_dict(), "model.pt")
print("cpu", time.process_time(), flush=True)
"""

TRIAL_ITERATIONS = 1000
SCAN_SECONDS = 8.0
"""The processes of the machine are read so rarely, because reading them takes CPU time from the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One start of the program."""

    whole_seconds: float
    program_seconds: float
    """From its start to its end."""
    iteration_seconds: float
    """The median."""
    cpu_seconds: float
    """Of the program."""
    first_seconds: float
    """From the command to the first iteration."""
    agent_cpu_seconds: float = 0.0
    home_cpu_seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    """The observed lines of the receipt."""

    def __str__(self) -> str:
        parts = "".join(f", {name} {seconds:.1f} s" for name, seconds in self.parts.items())
        return (
            f"{self.program_seconds:6.1f} s ({self.cpu_seconds:.1f} s of CPU, {1e3 * self.iteration_seconds:.3f} ms an "
            f"iteration), whole {self.whole_seconds:6.1f} s{parts}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="the approximate time of the program by hand")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--doors", default="local,ssh")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainfare-run-") as folder:
        bench = Bench(Path(folder))
        trial = bench.by_hand(TRIAL_ITERATIONS)
        per_iteration = (trial.whole_seconds - trial.first_seconds) / TRIAL_ITERATIONS
        iterations = max(100, round(arguments.seconds / per_iteration))
        print(f"{iterations:,} iterations, {arguments.rounds} rounds, load {_load()}")
        _print_overhead(bench, iterations, arguments.rounds)
        bench.print_bytes()
        _print_start(bench, arguments.doors.split(","), arguments.rounds)
        print(f"load at the end {_load()}")


def _print_overhead(bench: "Bench", iterations: int, rounds: int) -> None:
    pairs = []
    for number in range(rounds):
        order = (bench.by_hand, bench.as_run) if number % 2 == 0 else (bench.as_run, bench.by_hand)
        done = {start: start(iterations) for start in order}
        hand, run = done[bench.by_hand], done[bench.as_run]
        pairs.append((hand, run))
        print(f"round {number + 1}: by hand {hand}", f"         as a run {run}; load {_load()}", sep="\n", flush=True)
    print(f"{'':10}{'median':>10}{'range':>18}")
    for name, values in {
        "program": [run.program_seconds / hand.program_seconds for hand, run in pairs],
        "whole": [run.whole_seconds / hand.whole_seconds for hand, run in pairs],
        "iteration": [run.iteration_seconds / hand.iteration_seconds for hand, run in pairs],
        "CPU": [run.cpu_seconds / hand.cpu_seconds for hand, run in pairs],
    }.items():
        print(f"{name:10}{median(values):10.3f}{min(values):9.3f} – {max(values):.3f}")
    for name, values in {
        "agent": [run.agent_cpu_seconds / run.program_seconds for _, run in pairs],
        "home": [run.home_cpu_seconds / run.whole_seconds for _, run in pairs],
    }.items():
        print(f"{name:10}{median(values):10.2%}{min(values):9.2%} – {max(values):.2%}")


def _print_start(bench: "Bench", doors: list[str], rounds: int) -> None:
    """The time to the first iteration by hand and through each door; the first run of a door is printed alone, because
    it also learns what the machine is."""
    by_hand = [bench.by_hand(1).first_seconds for _ in range(rounds)]
    print(f"to the first iteration: by hand {median(by_hand):.1f} s")
    for door in doors:
        with bench.door(door) as machine:
            first, *later = [bench.as_run(1, on=machine).first_seconds for _ in range(rounds + 1)]
            print(
                f"to the first iteration: {machine} {median(later):.1f} s ({min(later):.1f} – {max(later):.1f} s), the "
                f"first time {first:.1f} s"
            )


class Bench:
    """A folder with the program, a store, and a place for its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._project = folder / "project"
        self._project.mkdir()
        (self._project / "train.py").write_text(PROGRAM)
        self._runs = folder / "runs"
        (folder / "machines.toml").write_text('[box]\nssh = "h1"\n')
        self._environment = {
            **os.environ,
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

    def by_hand(self, iterations: int) -> Timed:
        began, before = time.time(), time.monotonic()
        process = subprocess.Popen(
            (sys.executable, "train.py", str(iterations)), cwd=self._project, stdout=subprocess.PIPE
        )
        output = process.stdout.read() if process.stdout else b""
        process.wait()
        whole = time.monotonic() - before
        return Timed(
            whole_seconds=whole,
            program_seconds=whole,
            iteration_seconds=_printed(output, "iteration"),
            cpu_seconds=_printed(output, "cpu"),
            first_seconds=_printed(output, "first") - began,
        )

    def as_run(self, iterations: int, on: str = "local/here") -> Timed:
        words = (sys.executable, "-m", "trainfare.cli.main", "run", "--on", on, "-y", "--json", "--install", "none")
        began, before = time.time(), time.monotonic()
        process = subprocess.Popen(
            (*words, "--", sys.executable, "train.py", str(iterations)),
            cwd=self._project,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        agents: dict[int, float] = {}
        next_scan = before + SCAN_SECONDS / 2
        while not _has_ended(process):
            if time.monotonic() > next_scan:
                agents |= _agent_cpu(self._runs / "machines")
                next_scan += SCAN_SECONDS
            time.sleep(0.1)
        output = process.stdout.read() if process.stdout else b""
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        whole, run = time.monotonic() - before, json.loads(output)
        seen = self._observations(run["id"])
        ended = next(s for s in seen if s["observation_kind"] == "program" and s["values"]["state"] == "ended")
        printed = (self._runs / run["id"] / "output-1-0").read_bytes()
        return Timed(
            whole_seconds=whole,
            program_seconds=ended["values"]["seconds"],
            iteration_seconds=_printed(printed, "iteration"),
            cpu_seconds=_printed(printed, "cpu"),
            first_seconds=_printed(printed, "first") - began,
            agent_cpu_seconds=sum(agents.values()),
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


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Without waiting for it, so that its CPU time can be read afterwards."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _agent_cpu(machines: Path) -> dict[int, float]:
    """The CPU seconds of guards and agents in the folders of machines, by process."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"agent.py" in words and b"start" in words and machines in (process / "cwd").readlink().parents:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                found[int(process.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:  # it has ended
            continue
    return found


def _printed(output: bytes, word: str) -> float:
    return next(float(line.split()[1]) for line in output.decode().splitlines() if line.startswith(word))


def _in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


if __name__ == "__main__":
    main()
