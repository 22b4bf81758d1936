"""A program, the machines it was timed on, and what they cost: what a policy is asked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu
from trainfare.recommender.probing.next_probe import NOISE, Option

Array = NDArray[np.float64]

BOOT_SECONDS = 90.0
"""What the catalog has for EC2 and Google."""
PROBE_SECONDS = 30.0
"""The start of the program and a few iterations."""
EPOCHS = 20
"""Of a training, where two of them are a probe (Malta 2021 simulates 5, 10 and 20)."""
ON_ONE, OVER_SEVERAL = 0.7, 0.5
"""α of GPU facts: n GPUs on one machine, and over several, are n^α times as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    name: str
    gpu: Gpu
    gpus: int = 1
    nodes: int = 1
    usd_per_hour: float
    wired: str | None = None
    """How `links.py` knows machines of this kind."""

    def option(self, start_seconds: float) -> Option:
        return Option(
            machine=self.name,
            gpu=self.gpu.name,
            gpus=self.gpus,
            nodes=self.nodes,
            usd_per_second=self.usd_per_hour / 3600,
            start_seconds=start_seconds,
            probe_seconds=PROBE_SECONDS,
        )


Modelled = Callable[[int], tuple[Array, Array]]
"""From the machine that was measured to the seconds on each, and how sure: the deviation of the logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`seconds` of the same work on each machine, in whatever unit; `work` makes it a training of some dollars."""

    setting: str
    name: str
    machines: tuple[Machine, ...]
    seconds: Array
    modelled: Modelled
    usd_per_hour_of_time: float = 0.0
    """What an hour until the end is worth; 0 where only money counts."""

    @property
    def price(self) -> Array:
        return np.array([machine.usd_per_hour / 3600 for machine in self.machines])

    @property
    def waiting(self) -> float:
        return self.usd_per_hour_of_time / 3600

    def sized(self, usd: float, start: float = BOOT_SECONDS) -> "Job":
        """So long that its iterations alone cost `usd` (with the time that they take) where that is least."""
        rate = self.price + self.waiting
        return Job(problem=self, start=start, works=self.seconds * usd / float((rate * self.seconds).min()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    problem: Problem
    works: Array
    """Seconds of the training on each machine, once it is up."""
    start: float
    """Seconds until it is."""

    @property
    def options(self) -> list[Option]:
        return [machine.option(self.start) for machine in self.problem.machines]

    @property
    def rate(self) -> Array:
        return self.problem.price + self.problem.waiting

    @property
    def whole(self) -> Array:
        """Dollars of training on each, boot and setup included; with what the time is worth."""
        return self.rate * (self.start + self.works)

    @property
    def oracle(self) -> float:
        return float(self.whole.min())

    def shown(self, index: int, noise: np.random.Generator) -> float:
        """What a few iterations say of the whole."""
        return float(self.works[index] * np.exp(noise.normal(0.0, NOISE)))


def by_facts(machines: tuple[Machine, ...]) -> Array:
    """μ of GPU facts, up to the level."""
    return np.array(
        [-np.log(m.gpu.fp32_tflops) - (ON_ONE if m.nodes == 1 else OVER_SEVERAL) * np.log(m.gpus) for m in machines]
    )
