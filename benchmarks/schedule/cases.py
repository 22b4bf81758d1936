"""The cases of each benchmark: which instances, which policies, under which conditions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.schedule.run import Case
from trainfare.model.queue import Delays
from trainfare.scheduler.simulation.generate import QueueSetting

PAPERS = ("fifo", "edf", "priority", "greedy", "random_greedy", "path_relinking")
EVERY = (*PAPERS, "patterns", "trainfare")
LEADING = ("greedy", "path_relinking", "trainfare")

LOADS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.2)
ERRORS = (0.0, 0.1, 0.2, 0.4)
REAL = Delays(boot_seconds=120.0, checkpoint_seconds=30.0, restart_seconds=60.0, checkpoint_every_seconds=900.0)
DELAY_FACTORS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Multiples of the usual delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkOptions:
    """The options of the benchmark command."""

    nodes: tuple[int, ...]
    loads: tuple[float, ...]
    seeds: int
    policies: tuple[str, ...]
    instances: Path | None = None
    traces: Path | None = None
    jobs: int | None = None
    """The number of jobs to read from each trace."""


def instances(options: BenchmarkOptions) -> Iterator[Case]:
    """The four published instances, with the accounting of the papers."""
    if options.instances is None:
        return
    for folder in sorted(path.parent for path in options.instances.glob("*/jobs.csv")):
        for name in options.policies or EVERY:
            yield Case(setting=folder.name, policy=name, nodes=int(folder.name.split("-")[0]), folder=str(folder))


def load(options: BenchmarkOptions) -> Iterator[Case]:
    """Random queues from a quarter of the capacity of the nodes to more than it."""
    for nodes in options.nodes:
        for share in options.loads:
            yield from _seeded(options, f"load {share:g}", QueueSetting(nodes=nodes, load=share), EVERY)


def error(options: BenchmarkOptions) -> Iterator[Case]:
    """Times with a lognormal error for each job; deadlines follow the predictions."""
    for nodes in options.nodes:
        for share in options.loads:
            for log_error in ERRORS:
                setting = QueueSetting(nodes=nodes, load=share, log_error=log_error)
                yield from _seeded(options, f"load {share:g}, error {log_error:.0%}", setting, LEADING)


def delays(options: BenchmarkOptions) -> Iterator[Case]:
    """Boot, checkpoint and restart take time: the usual delays, and multiples of them."""
    for nodes in options.nodes:
        for share in options.loads:
            for factor in DELAY_FACTORS:
                longer = replace(
                    REAL,
                    boot_seconds=REAL.boot_seconds * factor,
                    checkpoint_seconds=REAL.checkpoint_seconds * factor,
                    restart_seconds=REAL.restart_seconds * factor,
                )
                for case in _seeded(
                    options, f"load {share:g}, delays × {factor:g}", QueueSetting(nodes=nodes, load=share), LEADING
                ):
                    yield replace(case, delays=longer)


def extensions(options: BenchmarkOptions) -> Iterator[Case]:
    """Extensions of the papers: spot, jobs on several nodes, quotas, a decision every quarter of an hour."""
    for nodes in options.nodes:
        for share in options.loads:
            plain = QueueSetting(nodes=nodes, load=share)
            for name, setting in {
                "on demand": plain,
                "spot": replace(plain, spot_discount=0.65),
                "gangs": replace(plain, gang_nodes=(2,)),
                "quotas": replace(plain, users=3, quota_gpus=2 * nodes),
            }.items():
                for case in _seeded(options, f"load {share:g}, {name}", setting, ("greedy", "trainfare")):
                    yield replace(case, delays=REAL)
            for case in _seeded(options, f"load {share:g}, H 15 min", plain, ("greedy", "trainfare")):
                yield replace(case, tick_seconds=900.0)


PARTS: dict[str, Callable[[BenchmarkOptions], Iterator[Case]]] = {
    "instances": instances,
    "load": load,
    "error": error,
    "delays": delays,
    "extensions": extensions,
}


def _seeded(options: BenchmarkOptions, name: str, setting: QueueSetting, default: Sequence[str]) -> Iterator[Case]:
    for seed in range(options.seeds):
        for policy in options.policies or default:
            yield Case(setting=name, policy=policy, nodes=setting.nodes, seed=seed, generated=setting)
