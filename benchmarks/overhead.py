"""How much the probe slows a program down: `python -m benchmarks.overhead [--json]`, about three minutes.

One process trains a dense net under the real probe, in short blocks: as it is without the probe (its hooks taken out),
with the probe, and under `torch.profiler` without the probe. The order changes from round to round, so that
neighbours share whatever else the machine is doing. Of each block the median iteration counts, and each round gives
its ratio to that of the block without; the table shows the median of the ratios and a 95 % interval of it by order
statistics. An iteration after which the probe writes (five times a second) is no median one: what a write takes is
clocked apart and added. Training is real, on one thread.
`torch.profiler` records operators on the CPU, with its defaults; what it does when it stops is not counted.
"""
# mypy: allow-untyped-calls
# ruff: noqa: SLF001 # the hooks sit in private places of PyTorch

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise, permutations
from pathlib import Path
from statistics import median
from typing import Any

from trainfare.probe import boot
from trainfare.probe.recorder import FLUSH_SECONDS
from trainfare.profiler.measure import PROBE_SITE

AIM = 0.01
TARGETS = (0.002, 0.008, 0.050)
SECONDS_PER_TARGET = 55.0
BLOCK_SECONDS = 0.1
FEWEST_ITERATIONS = 5
BATCH = 64
WITHOUT, PROBE, PROFILER = "without", "probe", "torch.profiler"
ORDERS = tuple(permutations((WITHOUT, PROBE, PROFILER)))


def main() -> None:
    parser = argparse.ArgumentParser(description="How much the probe slows a program down.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS_PER_TARGET, help="for each length of iteration")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print(json.dumps(rounds(arguments.worker, arguments.seconds)))
        return
    rows = [row(target, under_probe(target, arguments.seconds)) for target in TARGETS]
    if arguments.json:
        print(json.dumps({"aim": AIM, "rows": rows}, indent=2))
    else:
        show(rows)


def under_probe(target: float, seconds: float) -> dict[str, Any]:
    """The worker, started as the profiler starts a program; so many iterations are wanted that it never stops."""
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.jsonl"
        events.touch()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(PROBE_SITE), str(Path(__file__).parents[1])]),
            boot.EVENTS: str(events),
            boot.ITERATIONS: "1000000000",
            "KINETO_LOG_LEVEL": "99",  # else it writes a line at every start and stop
        }
        command = [sys.executable, "-m", "benchmarks.overhead", "--worker", str(target), "--seconds", str(seconds)]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(result.stdout)
        if '"iterations"' not in events.read_text():
            raise SystemExit("the probe recorded nothing: this measures nothing")
        return found


def row(target: float, measured: dict[str, Any]) -> dict[str, Any]:
    writing = measured["write_seconds"] / FLUSH_SECONDS
    return {
        "target_seconds": target,
        "iteration_seconds": measured["iteration_seconds"],
        "rounds": len(measured["rounds"]),
        "writing": writing,
        "slowdowns": {
            PROBE: slowdown(measured["rounds"], PROBE, writing),
            PROFILER: slowdown(measured["rounds"], PROFILER, 0.0),
        },
    }


def slowdown(rounds: list[dict[str, float]], name: str, more: float) -> dict[str, float]:
    ratios = sorted(one[name] / one[WITHOUT] + more for one in rounds)
    low, high = median_interval(ratios)
    return {"median": median(ratios) - 1, "low": low - 1, "high": high - 1}


def median_interval(ordered: list[float]) -> tuple[float, float]:
    """95 % for the median of any distribution: the order statistics 0.98·√n either side of the middle."""
    reach = 0.98 * math.sqrt(len(ordered))
    middle = (len(ordered) - 1) / 2
    return ordered[max(0, math.floor(middle - reach))], ordered[min(len(ordered) - 1, math.ceil(middle + reach))]


def show(rows: list[dict[str, Any]]) -> None:
    print("slowdown of a training program, against the same program without (one thread, CPU; interleaved blocks)\n")
    print(f"{'iteration':>10}  {'rounds':>6}  {'the probe':>9} {'95 %':>18}  {'torch.profiler':>14} {'95 %':>20}")
    for found in rows:
        probe, profiler = found["slowdowns"][PROBE], found["slowdowns"][PROFILER]
        print(
            f"{found['iteration_seconds'] * 1e3:>7.1f} ms  {found['rounds']:>6}  {probe['median']:>+9.2%} "
            f"{interval(probe):>18}  {profiler['median']:>+14.2%} {interval(profiler):>20}"
        )
    worst = max(found["slowdowns"][PROBE]["median"] for found in rows)
    print(f"\nof this, writing takes {max(found['writing'] for found in rows):.2%} at most")
    print(f"aim: under {AIM:.0%} at every length: {'met' if worst < AIM else 'missed'}")


def interval(found: dict[str, float]) -> str:
    return f"{found['low']:+.2%} to {found['high']:+.2%}"


def rounds(target: float, seconds: float) -> dict[str, Any]:
    """In the process under the probe: the median iteration of one block of each kind, round by round."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train = training(sized(target))
    count = max(FEWEST_ITERATIONS, round(BLOCK_SECONDS / target))
    switch, writes = probe_switch(), clocked_writes()
    found: list[dict[str, float]] = []
    train(count)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times = {}
        for name in ORDERS[len(found) % len(ORDERS)]:
            switch(name == PROBE)
            with torch.profiler.profile() if name == PROFILER else nullcontext():
                times[name] = median(train(count))
        found.append(times)
    return {
        "iteration_seconds": median(one[WITHOUT] for one in found),
        "write_seconds": median(writes),
        "rounds": found,
    }


def clocked_writes() -> list[float]:
    """The seconds of every write of the probe from now on."""
    listener: Any = sys.modules["_trainfare_probe.torch_hooks"].TorchListener
    write, seconds = listener.write, []

    def clocked(self: Any) -> None:
        start = time.perf_counter()
        write(self)
        seconds.append(time.perf_counter() - start)

    listener.write = clocked
    return seconds


def sized(target: float) -> int:
    """The width at which an iteration takes about `target`: its time grows with the square of the width."""
    width = 512
    for _ in range(3):
        train = training(width)
        train(5)
        width = max(64, round(width * math.sqrt(target / median(train(10)))))
    return width


def training(width: int) -> Callable[[int], list[float]]:
    """A small program; the function trains so many iterations and returns their seconds."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(BATCH * 1000, 32), torch.randint(10, (BATCH * 1000,)))
    layers = [nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def train(iterations: int) -> list[float]:
        ends = [time.perf_counter()]
        for number, (inputs, labels) in enumerate(DataLoader(data, batch_size=BATCH, shuffle=False), start=1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            ends.append(time.perf_counter())
            if number == iterations:
                break
        return [end - start for start, end in pairwise(ends)]

    return train


def probe_switch() -> Callable[[bool], None]:
    """Takes the hooks out and puts them back: each patched function knows the one it wraps."""
    import torch
    from torch.optim import optimizer
    from torch.utils.data import dataloader

    iterators: Any = dataloader._BaseDataLoaderIter
    places: list[tuple[Any, str]] = [
        (torch.autograd, "backward"),
        (torch.amp.GradScaler, "scale"),
        (torch.nn.Module, "train"),
        (torch, "save"),
        (iterators, "__init__"),
        (iterators, "__next__"),
    ]
    with_probe = [getattr(owner, name) for owner, name in places]
    without = [function.__wrapped__ for function in with_probe]
    registries: Any = (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)
    kept = [dict(registry) for registry in registries]

    def switch(on: bool) -> None:
        for (owner, name), function in zip(places, with_probe if on else without, strict=True):
            setattr(owner, name, function)
        for registry, hooks in zip(registries, kept, strict=True):
            registry.clear()
            registry.update(hooks if on else {})

    return switch


if __name__ == "__main__":
    main()
