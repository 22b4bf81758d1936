"""A program, the machines it was timed on, and their prices: the problem that a policy has to solve."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu
from trainfare.recommender.probing.next_probe import NOISE, ProbeOption

Array = NDArray[np.float64]

BOOT_SECONDS = 90.0
"""The boot time of EC2 and Google in the catalog."""
PROBE_SECONDS = 30.0
"""The start of the program and a few iterations."""
EPOCHS = 20
"""The length of a training of which two epochs are a probe (Malta 2021 simulates 5, 10 and 20)."""
ONE_MACHINE_EXPONENT, SEVERAL_MACHINES_EXPONENT = 0.7, 0.5
"""α of GPU facts: n GPUs are n^α times as fast as one, on one machine and over several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU type, a number of GPUs and nodes, and the price of all of them together."""

    name: str
    gpu: Gpu
    gpus: int = 1
    nodes: int = 1
    usd_per_hour: float
    wiring: str | None = None
    """The name of machines of this kind in the fit of links."""

    def option(self, start_seconds: float) -> ProbeOption:
        return ProbeOption(
            machine=self.name,
            gpu=self.gpu.name,
            gpus=self.gpus,
            nodes=self.nodes,
            usd_per_second=self.usd_per_hour / 3600,
            start_seconds=start_seconds,
            probe_seconds=PROBE_SECONDS,
        )


PredictFrom = Callable[[int], tuple[Array, Array]]
"""From the measured machine to the predicted seconds on each, and the deviation of their logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`seconds` of the same work on each machine, in any unit; `sized` scales it to a training of some dollars."""

    setting: str
    name: str
    machines: tuple[Machine, ...]
    seconds: Array
    predict_from: PredictFrom
    usd_per_hour_of_time: float = 0.0
    """The value of an hour until the end of the training; 0 if only money counts."""

    @property
    def price(self) -> Array:
        return np.array([machine.usd_per_hour / 3600 for machine in self.machines])

    @property
    def waiting(self) -> float:
        return self.usd_per_hour_of_time / 3600

    def sized(self, usd: float, start: float = BOOT_SECONDS) -> "Job":
        """A job whose iterations alone cost `usd`, the value of their time included, on the cheapest machine."""
        rate = self.price + self.waiting
        return Job(problem=self, start=start, work=self.seconds * usd / float((rate * self.seconds).min()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A problem scaled to a size."""

    problem: Problem
    work: Array
    """Seconds of the training on each machine, once it is up."""
    start: float
    """Seconds until a machine is up."""

    @property
    def options(self) -> list[ProbeOption]:
        return [machine.option(self.start) for machine in self.problem.machines]

    @property
    def rate(self) -> Array:
        return self.problem.price + self.problem.waiting

    @property
    def cost(self) -> Array:
        """The cost of the complete training on each machine: boot, setup and the value of the time included."""
        return self.rate * (self.start + self.work)

    @property
    def oracle(self) -> float:
        """The cost on the best machine, without any measurement."""
        return float(self.cost.min())

    def measure(self, index: int, noise: np.random.Generator) -> float:
        """The working time that a few iterations predict."""
        return float(self.work[index] * np.exp(noise.normal(0.0, NOISE)))


def log_seconds_from_facts(machines: tuple[Machine, ...]) -> Array:
    """μ of GPU facts, up to a common level."""

    def exponent(machine: Machine) -> float:
        return ONE_MACHINE_EXPONENT if machine.nodes == 1 else SEVERAL_MACHINES_EXPONENT

    return np.array([-np.log(m.gpu.fp32_tflops) - exponent(m) * np.log(m.gpus) for m in machines])
