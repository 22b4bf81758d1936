"""How much the probe slows a program down: `python -m benchmarks.overhead [--json]`, about two minutes.

One process trains a dense net under the real probe, in short blocks with the probe's hooks in place and taken out
again (off on, on off, …): neighbours share whatever else the machine is doing. Each pair of blocks gives a ratio of
times; the table shows their median and a 95 % interval of it by order statistics. Training is real, on one thread.
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
from pathlib import Path
from statistics import median
from typing import Any

from trainfare.probe import boot
from trainfare.profiler.measure import PROBE_SITE

AIM = 0.01
TARGETS = (0.005, 0.050)
SECONDS_PER_TARGET = 50.0
BLOCK_SECONDS = 0.25
"""A little longer than the probe waits between two writes, so that each block has one."""
BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="How much the probe slows a program down.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS_PER_TARGET, help="for each length of iteration")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print(json.dumps(pairs(arguments.worker, arguments.seconds)))
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
        }
        command = [sys.executable, "-m", "benchmarks.overhead", "--worker", str(target), "--seconds", str(seconds)]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(result.stdout)
        if '"iterations"' not in events.read_text():
            raise SystemExit("the probe recorded nothing: this measures nothing")
        return found


def row(target: float, measured: dict[str, Any]) -> dict[str, Any]:
    ratios = sorted(on / off for off, on in measured["pairs"])
    low, high = median_interval(ratios)
    return {
        "target_seconds": target,
        "iteration_seconds": measured["iteration_seconds"],
        "pairs": len(ratios),
        "slowdown": median(ratios) - 1,
        "slowdown_low": low - 1,
        "slowdown_high": high - 1,
    }


def median_interval(ordered: list[float]) -> tuple[float, float]:
    """95 % for the median of any distribution: the order statistics 0.98·√n either side of the middle."""
    reach = 0.98 * math.sqrt(len(ordered))
    middle = (len(ordered) - 1) / 2
    return ordered[max(0, math.floor(middle - reach))], ordered[min(len(ordered) - 1, math.ceil(middle + reach))]


def show(rows: list[dict[str, Any]]) -> None:
    print("slowdown of a training program by the probe (one thread, CPU; pairs of blocks with and without)\n")
    print(f"{'iteration':>10}  {'pairs':>5}  {'slowdown':>9}  {'95 % interval':>19}  aim")
    for found in rows:
        interval = f"{found['slowdown_low']:+.2%} to {found['slowdown_high']:+.2%}"
        print(
            f"{found['iteration_seconds'] * 1e3:>7.1f} ms  {found['pairs']:>5}  {found['slowdown']:>+9.2%}  "
            f"{interval:>19}  {'met' if found['slowdown'] < AIM else 'missed'} (under {AIM:.0%})"
        )


def pairs(target: float, seconds: float) -> dict[str, Any]:
    """In the process under the probe: the seconds of blocks without and with its hooks."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train = training(sized(target))
    count = max(4, round(BLOCK_SECONDS / target))
    switch = probe_switch()
    found: list[tuple[float, float]] = []
    train(count)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times = {}
        for on in (True, False) if len(found) % 2 else (False, True):
            switch(on)
            times[on] = train(count)
        found.append((times[False], times[True]))
    return {"iteration_seconds": median(off for off, _ in found) / count, "pairs": found}


def sized(target: float) -> int:
    """The width at which an iteration takes about `target`: its time grows with the square of the width."""
    width = 512
    for _ in range(3):
        train = training(width)
        train(5)
        width = max(64, round(width * math.sqrt(target * 10 / train(10))))
    return width


def training(width: int) -> Callable[[int], float]:
    """A small program; the function trains so many iterations and returns their seconds."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(BATCH * 1000, 32), torch.randint(10, (BATCH * 1000,)))
    layers = [nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def train(iterations: int) -> float:
        start = time.perf_counter()
        for number, (inputs, labels) in enumerate(DataLoader(data, batch_size=BATCH, shuffle=False), start=1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            if number == iterations:
                break
        return time.perf_counter() - start

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
