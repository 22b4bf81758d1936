"""Where the seconds of one step went, by classes of operators and waiting, and what GPU facts say of each class.

T = Σ_c D_c + I        D_c seconds of the GPU in operators of class c, I seconds in which it waits
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trainfare.estimator.gpu.operator_classes import CONVOLUTION, COPY, seconds_by_class
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile

IDLE = "idle"
COMPUTE = (*CONVOLUTION, "matmul")
HOST = (COPY, "loss", IDLE)
"""Limited by the host and by launches: the loss runs kernels too small for any GPU to be faster at them."""
LEAST_IDLE = 0.01
"""Of the step: less cannot be told from the noise of two clocks."""
KEPLER = 0.55
"""Of its nominal figures, against newer chips: 192 cores of an SM share four schedulers that feed 128 at once (NVIDIA,
Kepler GK110/210 white paper). Convolutions of 20 GFLOP and more on a K40 reach 0.53 (forward) and 0.62 (training) of
the share of peak that they reach on M60, P100, V100 and 1080 Ti (CDECatapult/ml-performance-prediction)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The seconds of one step: `by_class` holds every class of operators that ran, and `idle`."""

    program: str
    family: str
    gpu: str
    setting: tuple[str, int, float]
    """Program, image side, batch: the same work on every machine."""
    batch_size: float
    seconds: float
    by_class: Mapping[str, float]
    features: Mapping[str, tuple[float, ...]]
    """Of each class, what its ratio between machines may depend on; see `_features`."""

    @property
    def device(self) -> float:
        return sum(seconds for kind, seconds in self.by_class.items() if kind != IDLE)

    @property
    def whole(self) -> bool:
        """A profile without a loss was cut short: its classes cannot be compared with another machine's."""
        return "loss" in self.by_class


def spent(profile: OperatorProfile) -> Spent:
    """Device time beyond the wall's is kernels that overlapped, as convolutions on a K80 do: it is taken off them."""
    classes = seconds_by_class(profile.device_seconds)
    most = (1 - LEAST_IDLE) * profile.seconds
    over = sum(classes.values()) - most
    if over > 0:
        overlapping = sum(classes.get(kind, 0.0) for kind in COMPUTE)
        kept = max(1 - over / overlapping, 0.3) if overlapping else 1.0
        classes = {kind: seconds * (kept if kind in COMPUTE else 1.0) for kind, seconds in classes.items()}
        fits = min(1.0, most / sum(classes.values()))
        classes = {kind: seconds * fits for kind, seconds in classes.items()}
    by_class = {**classes, IDLE: profile.seconds - sum(classes.values())}
    return Spent(
        program=profile.program,
        family=profile.family,
        gpu=profile.gpu,
        setting=(profile.program, profile.image_side, profile.batch_size),
        batch_size=profile.batch_size,
        seconds=profile.seconds,
        by_class=by_class,
        features=_features(by_class),
    )


def prior_log_ratio(kind: str, source: Gpu, target: Gpu) -> float:
    """log of a class's time on `target` over that on `source`, from facts.

    Memory-bound classes follow bandwidth. Convolutions and products of matrices follow peak and bandwidth half each:
    their layers lie on both sides of the roof. What the host does takes as long anywhere. The backward of a depthwise
    convolution gains only the root of the bandwidth: it was seen to run 2.3 times slower on old GPUs where the
    forward runs 6 to 13 times slower.
    """
    if kind in HOST:
        return 0.0
    bandwidth = math.log(_reached(source, source.memory_gb_per_second) / _reached(target, target.memory_gb_per_second))
    if kind == "depthwise_backward":
        return 0.5 * bandwidth
    if kind in COMPUTE:
        return 0.5 * bandwidth + 0.5 * math.log(
            _reached(source, source.fp32_tflops) / _reached(target, target.fp32_tflops)
        )
    return bandwidth


def _reached(gpu: Gpu, nominal: float) -> float:
    return nominal * (KEPLER if gpu.architecture == "Kepler" else 1.0)


def _features(by_class: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Scaled so that a curve bends within half a unit.

    A class: its size; of convolutions also how they divide into forward and backward, of waiting also the size of the
    copies and of all work.
    """
    division = _division(by_class)
    found: dict[str, tuple[float, ...]] = {kind: (_size(seconds),) for kind, seconds in by_class.items()}
    for kind in CONVOLUTION:
        if kind in by_class:
            found[kind] = (_size(by_class[kind]), *division)
    idle, total = by_class[IDLE], sum(by_class.values())
    found[IDLE] = (_size(idle), _size(max(by_class.get(COPY, 0.0), 1e-5)), _size(total - idle))
    return found


def _size(seconds: float) -> float:
    return math.log(max(seconds, 1e-6) / 1e-3) / 4


def _division(by_class: Mapping[str, float]) -> tuple[float, float]:
    """How convolutions divide into forward, backward to the weights and backward to the input."""
    total = sum(by_class.get(kind, 0.0) for kind in CONVOLUTION)
    if not total:
        return (0.0, 0.0)
    _, to_weights, to_input = (max(by_class.get(kind, 0.0) / total, 0.01) for kind in CONVOLUTION)
    return (0.5 * math.log(to_weights), 0.5 * math.log(to_input))
