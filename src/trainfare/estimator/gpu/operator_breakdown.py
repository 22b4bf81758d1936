"""The seconds of one step by class of operator and waiting, and the ratio that GPU facts predict for each class.

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
NORMS = ("normalisation", "normalisation_backward")
HOST = (COPY, "loss", IDLE)
"""Limited by the host and by launches: the loss runs kernels that are too small for a faster GPU to speed up."""
MIN_IDLE_SHARE = 0.01
"""A share of the step: less cannot be distinguished from the noise of two clocks."""
KEPLER_EFFICIENCY = 0.55
"""The share of its nominal figures that a Kepler chip reaches, relative to newer chips: 192 cores of an SM share four
schedulers that feed 128 at once (NVIDIA, Kepler GK110/210 white paper). Convolutions of 20 GFLOP and more on a K40
reach 0.53 (forward) and 0.62 (training) of the share of peak that they reach on M60, P100, V100 and 1080 Ti
(CDECatapult/ml-performance-prediction).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBreakdown:
    """The seconds of one step: `by_class` has every class of operators that ran, and `idle`."""

    program: str
    family: str
    gpu: str
    setting: tuple[str, int, float]
    """Program, image side and batch size: the same work on every machine."""
    batch_size: float
    seconds: float
    by_class: Mapping[str, float]
    features: Mapping[str, tuple[float, ...]]
    """For each class, what its ratio between machines may depend on; see `_features`."""

    @property
    def device_seconds(self) -> float:
        return sum(seconds for kind, seconds in self.by_class.items() if kind != IDLE)

    @property
    def complete(self) -> bool:
        """A profile without a loss was cut short: its classes cannot be compared with those of another machine."""
        return "loss" in self.by_class


def break_down_step(profile: OperatorProfile) -> StepBreakdown:
    """The step by classes. Device time in excess of the wall time is overlap of kernels, as for convolutions on a K80,
    and is subtracted from the classes that compute."""
    classes = seconds_by_class(profile.device_seconds)
    busy_limit = (1 - MIN_IDLE_SHARE) * profile.seconds
    excess = sum(classes.values()) - busy_limit
    if excess > 0:
        overlapping = sum(classes.get(kind, 0.0) for kind in COMPUTE)
        share = max(1 - excess / overlapping, 0.3) if overlapping else 1.0
        classes = {kind: seconds * (share if kind in COMPUTE else 1.0) for kind, seconds in classes.items()}
        scale = min(1.0, busy_limit / sum(classes.values()))
        classes = {kind: seconds * scale for kind, seconds in classes.items()}
    by_class = {**classes, IDLE: profile.seconds - sum(classes.values())}
    return StepBreakdown(
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
    """log of a class's time on `target` over that on `source`, from GPU facts.

    Memory-bound classes follow bandwidth. Convolutions and matrix products follow peak and bandwidth half each: their
    layers lie on both sides of the roof. The host's work takes the same time everywhere. Depthwise convolutions were
    measured 6 to 13 times slower on GPUs with a sixth of the bandwidth of a V100, their backward pass only 2.3 times:
    the forward pass gains a little more than the bandwidth, the backward pass its root.
    """
    if kind in HOST:
        return 0.0
    bandwidth = math.log(
        _effective(source, source.memory_gb_per_second) / _effective(target, target.memory_gb_per_second)
    )
    if kind == "depthwise":
        return 1.2 * bandwidth
    if kind == "depthwise_backward":
        return 0.5 * bandwidth
    if kind in COMPUTE:
        return 0.5 * bandwidth + 0.5 * math.log(
            _effective(source, source.fp32_tflops) / _effective(target, target.fp32_tflops)
        )
    return bandwidth


def _effective(gpu: Gpu, nominal: float) -> float:
    return nominal * (KEPLER_EFFICIENCY if gpu.architecture == "Kepler" else 1.0)


def _features(by_class: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """The features of each class, scaled so that a curve bends within half a unit.

    A class has its size; convolutions also how they divide into forward and backward, and waiting also the size of the
    copies, of all work and of norms: a network with norms launches many more kernels for the same work, so that a fast
    GPU waits longer for its host.
    """
    division = _convolution_division(by_class)
    features: dict[str, tuple[float, ...]] = {kind: (_log_size(seconds),) for kind, seconds in by_class.items()}
    for kind in CONVOLUTION:
        if kind in by_class:
            features[kind] = (_log_size(by_class[kind]), *division)
    idle, total = by_class[IDLE], sum(by_class.values())
    norms = sum(by_class.get(kind, 0.0) for kind in NORMS)
    features[IDLE] = (
        _log_size(idle),
        _log_size(max(by_class.get(COPY, 0.0), 1e-5)),
        _log_size(total - idle),
        _log_size(max(norms, 1e-5)),
    )
    return features


def _log_size(seconds: float) -> float:
    return math.log(max(seconds, 1e-6) / 1e-3) / 4


def _convolution_division(by_class: Mapping[str, float]) -> tuple[float, float]:
    """The shares of convolutions in the backward pass to the weights and to the input, as scaled logarithms."""
    total = sum(by_class.get(kind, 0.0) for kind in CONVOLUTION)
    if not total:
        return (0.0, 0.0)
    _, to_weights, to_input = (max(by_class.get(kind, 0.0) / total, 0.01) for kind in CONVOLUTION)
    return (0.5 * math.log(to_weights), 0.5 * math.log(to_input))
