"""What is played for each question: which instances, which policies, under which circumstances."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.schedule.play import Game
from trainfare.model.queue import Delays
from trainfare.scheduler.simulation.generate import QueueSetting

PAPERS = ("fifo", "edf", "priority", "greedy", "random_greedy", "path_relinking")
EVERY = (*PAPERS, "patterns", "trainfare")
LEADING = ("greedy", "path_relinking", "trainfare")

LOADS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.2)
ERRORS = (0.0, 0.1, 0.2, 0.4)
REAL = Delays(boot_seconds=120.0, checkpoint_seconds=30.0, restart_seconds=60.0, checkpoint_every_seconds=900.0)
TIMES_REAL = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How many times the usual delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was given."""

    nodes: tuple[int, ...]
    loads: tuple[float, ...]
    seeds: int
    policies: tuple[str, ...]
    instances: Path | None = None
    traces: Path | None = None
    jobs: int | None = None
    """Of a trace, the first so many."""


def instances(asked: Asked) -> Iterator[Game]:
    """The four published instances, as the papers count."""
    if asked.instances is None:
        return
    for folder in sorted(path.parent for path in asked.instances.glob("*/jobs.csv")):
        for name in asked.policies or EVERY:
            yield Game(setting=folder.name, policy=name, nodes=int(folder.name.split("-")[0]), folder=str(folder))


def load(asked: Asked) -> Iterator[Game]:
    """Random queues from a quarter of what the nodes can do to more than they can."""
    for nodes in asked.nodes:
        for share in asked.loads:
            yield from _seeded(asked, f"load {share:g}", QueueSetting(nodes=nodes, load=share), EVERY)


def error(asked: Asked) -> Iterator[Game]:
    """Times wrong by a lognormal factor a job; deadlines follow what was predicted."""
    for nodes in asked.nodes:
        for share in asked.loads:
            for wrong in ERRORS:
                setting = QueueSetting(nodes=nodes, load=share, log_error=wrong)
                yield from _seeded(asked, f"load {share:g}, error {wrong:.0%}", setting, LEADING)


def moves(asked: Asked) -> Iterator[Game]:
    """Boot, checkpoint and restart cost something: the usual delays, and multiples of them."""
    for nodes in asked.nodes:
        for share in asked.loads:
            for factor in TIMES_REAL:
                delays = replace(
                    REAL,
                    boot_seconds=REAL.boot_seconds * factor,
                    checkpoint_seconds=REAL.checkpoint_seconds * factor,
                    restart_seconds=REAL.restart_seconds * factor,
                )
                for game in _seeded(
                    asked, f"load {share:g}, delays × {factor:g}", QueueSetting(nodes=nodes, load=share), LEADING
                ):
                    yield replace(game, delays=delays)


def beyond(asked: Asked) -> Iterator[Game]:
    """What the papers have not: spot, jobs over several nodes, quotas, a decision every quarter of an hour."""
    for nodes in asked.nodes:
        for share in asked.loads:
            plain = QueueSetting(nodes=nodes, load=share)
            for name, setting in {
                "on demand": plain,
                "spot": replace(plain, spot_discount=0.65),
                "gangs": replace(plain, gang_nodes=(2,)),
                "quotas": replace(plain, users=3, quota_gpus=2 * nodes),
            }.items():
                for game in _seeded(asked, f"load {share:g}, {name}", setting, ("greedy", "trainfare")):
                    yield replace(game, delays=REAL)
            for game in _seeded(asked, f"load {share:g}, H 15 min", plain, ("greedy", "trainfare")):
                yield replace(game, tick_seconds=900.0)


PARTS: dict[str, Callable[[Asked], Iterator[Game]]] = {
    "instances": instances,
    "load": load,
    "error": error,
    "moves": moves,
    "beyond": beyond,
}


def _seeded(asked: Asked, name: str, setting: QueueSetting, usual: Sequence[str]) -> Iterator[Game]:
    for seed in range(asked.seeds):
        for policy in asked.policies or usual:
            yield Game(setting=name, policy=policy, nodes=setting.nodes, seed=seed, generated=setting)
