"""The time of one iteration on one GPU from the operations it launches: a physical model with fitted coefficients.

    D = Σ_j c_j · x_j · e_(gpu, sort of j)          the device; x_j of `kernels.py`
    H = h · Σ_k a_k · launches_k                    the host, which launches every kernel
    t = max((D^γ + H^γ)^(1/γ) · exp(ρ), roofline)   they overlap: the slower one decides

c_j is how much slower real kernels are than their arithmetic or their traffic; e is the share of its nominal figures
that a GPU reaches, separately for memory, tensor cores and ordinary cores; h is the time of a launch on a host. A GPU
without measurements has e = 1. ρ is the residual of programs with similar shares of kernels; it tends to 0 far from
all of them and stays within ±0.25 (twice that on a GPU with measured programs of its own). `physics_fit.py` fits them.

Limits: kernels of PyTorch with cuDNN, tensors in channels-first order. For networks compiled into fused kernels, and
for frameworks that choose other kernels, it is only as accurate as their operations are similar to these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trainfare.errors import NotFiniteError
from trainfare.estimator.gpu.kernels import (
    FEATURES,
    HOST,
    IS_COMPUTE,
    PRIORS,
    SLOWER,
    GpuRates,
    features,
    iteration_work,
    roofline,
)
from trainfare.model.estimate import Bottleneck
from trainfare.model.machine import Gpu
from trainfare.model.profile import Operation

Array = NDArray[np.float64]

OVERLAP: Final = 1.5
"""γ."""
RESIDUAL_LENGTH: Final = 0.09
MAX_RESIDUAL: Final = 0.25
SIMILAR: Final = math.exp(-(0.12**2) / (2 * RESIDUAL_LENGTH**2))
"""From this similarity on (shares 0.12 apart) a program is predicted as well as a relative of a measured one."""
UNFAMILIAR_SHARE: Final = 0.1
ROWS_AT_ONCE: Final = 4
"""Rows of a matrix product: for larger ones BLAS starts threads, and waiting for them takes longer than the product,
on a machine with other work a hundred times as long."""
SHARED_ERROR: Final = 0.8
"""The share of the model's error on one GPU that recurs on another."""

# The sorts of features that the efficiency of a GPU distinguishes.
MEMORY_SORT, TENSOR_SORT, ORDINARY_SORT, OTHER_SORT = range(4)
SORTS: Final = np.array(
    [
        OTHER_SORT
        if f.kind in ("launches", "upload") or f.name in SLOWER
        else MEMORY_SORT
        if not f.compute
        else ORDINARY_SORT
        if f.name.endswith("on ordinary cores") or f.name.startswith("depthwise")
        else TENSOR_SORT
        for f in FEATURES
    ]
)

_ARCHITECTURE_EFFICIENCY: Final = {"Kepler": (0.8, 0.5)}
"""The share of bandwidth and of arithmetic that an architecture reaches at most: Kepler's cores wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSeconds:
    """The time of the operators of one class; it explains a prediction."""

    kind: str
    seconds: float
    limited_by: Literal["compute", "memory bandwidth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """One iteration on one GPU."""

    seconds: float
    classes: tuple[ClassSeconds, ...]
    """Longest first."""
    device_seconds: float
    host_seconds: float
    """The time the host needs to launch everything: the iteration is not faster."""
    limited_by: Bottleneck
    unfamiliar: float
    """The share of device time in operators without measurements."""
    similarity: float = 0.0
    """From 0 to 1: the similarity to the nearest measured program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualKernel:
    """ρ = Σ_a weight_a · exp(−‖s − s_a‖² / 2ℓ²), with s the roots of the shares of features at their priors.

    Shares are in hundredths, without the features whose share is 0 in every program.
    """

    features: tuple[str, ...] = ()
    shares: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    length: float = RESIDUAL_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEfficiency:
    """e of a measured GPU, the shares of its nominal figures that it reaches; and h of its host."""

    memory: float = 1.0
    tensor: float = 1.0
    ordinary: float = 1.0
    launch_seconds: float
    factor_known_family: float | None = None
    """The same as in PhysicsFit, from the rows of this GPU alone."""
    factor_new_program: float | None = None
    residuals: ResidualKernel = ResidualKernel()
    """Residuals of programs that were measured on this GPU after the fit, in addition to those of the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicsFit:
    """The fitted coefficients, and the factors of their 90% intervals."""

    coefficients: Mapping[str, float]
    """c, by feature."""
    launches: Mapping[str, float]
    """a, by the kind of launch."""
    launch_seconds: float
    """h of a host without measurements."""
    gpus: Mapping[str, GpuEfficiency] = field(default_factory=dict)
    familiar: tuple[str, ...] = ()
    """The features with measurements."""
    residuals: ResidualKernel = ResidualKernel()
    factor_known_family: float = 1.5
    """For programs similar to a measured one, on a measured GPU."""
    factor_new_program: float = 1.5
    """For programs similar to none, with their family held out, on a measured GPU."""
    factor_new_gpu: float = 2.0
    """For a GPU without measurements: it covers 90% of the rows of held-out GPUs, each GPU weighing the same."""
    factor_gpu_after_one: float = 1.7
    """For a GPU where one other program was measured."""
    factor_gpu_after_ten: float = 1.5
    """For a GPU where ten other programs were measured."""


def step_seconds(operations: Sequence[Operation], gpus: Sequence[Gpu], fit: PhysicsFit) -> tuple[StepSeconds, ...]:
    """One iteration on each GPU; a GPU without measurements by its nominal figures."""
    return StepModel(gpus, fit).seconds(operations) if gpus else ()


class StepModel:
    """`step_seconds` for many sets of operations: what the GPUs and the fit contribute is prepared once."""

    def __init__(self, gpus: Sequence[Gpu], fit: PhysicsFit) -> None:
        own = [fit.gpus.get(gpu.name, GpuEfficiency(launch_seconds=fit.launch_seconds)) for gpu in gpus]
        self._names = [gpu.name for gpu in gpus]
        self._rates = GpuRates.of([effective_gpu(gpu) for gpu in gpus])
        self._efficiency = np.array([(one.memory, one.tensor, one.ordinary, 1.0) for one in own])[:, SORTS]
        self._launch_seconds = np.array([one.launch_seconds for one in own])
        self._coefficients = np.array([fit.coefficients.get(f.name, f.prior) for f in FEATURES])
        self._launches = np.array([fit.launches.get(f.name, f.prior) for f in HOST])
        self._unfamiliar = np.array([f.name not in fit.familiar for f in FEATURES])
        self._residuals = ResidualModel(fit.residuals)
        self._own_residuals = {i: ResidualModel(one.residuals) for i, one in enumerate(own) if one.residuals.weights}

    def seconds(self, operations: Sequence[Operation]) -> tuple[StepSeconds, ...]:
        """One iteration on each GPU."""
        found = self.columns(operations)
        return tuple(found.step(i) for i in range(len(found.seconds)))

    def columns(self, operations: Sequence[Operation]) -> "StepColumns":
        """The same with one row per GPU; what explains a step is computed when it is asked for."""
        work = iteration_work(operations)
        x, lower_bound = features(work, self._rates), roofline(work, self._rates)
        parts = x * self._coefficients * self._efficiency
        host = self._launch_seconds * float(work.launches @ self._launches)
        device = parts.sum(axis=1)
        rho, similarity = self._residuals.evaluate(x)
        for i, residuals in self._own_residuals.items():
            rho[i] += residuals.evaluate(x[i : i + 1])[0][0]
        seconds = np.maximum(overlapped(device, host) * np.exp(rho), lower_bound)
        for name, one in zip(self._names, seconds.tolist(), strict=True):
            if not math.isfinite(one):
                raise NotFiniteError(f"The time of an iteration on {name}", one)
        unfamiliar = parts[:, self._unfamiliar].sum(axis=1) / np.where(device > 0, device, 1.0)
        return StepColumns(
            seconds=seconds.tolist(),
            memory=(parts @ _MEMORY_OF_KINDS).tolist(),
            compute=(parts @ _COMPUTE_OF_KINDS).tolist(),
            device=device.tolist(),
            host=host.tolist(),
            limited_by=_limits(parts, device, host),
            similarity=similarity.tolist(),
            unfamiliar=unfamiliar.tolist(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumns:
    """One iteration on many GPUs, each in its row."""

    seconds: list[float]
    memory: list[list[float]]
    """The time of each class of operators that memory limits on the device; next, that which arithmetic limits."""
    compute: list[list[float]]
    device: list[float]
    host: list[float]
    limited_by: list[Bottleneck]
    similarity: list[float]
    unfamiliar: list[float]

    def step(self, row: int) -> StepSeconds:
        """The iteration on one of the GPUs."""
        return StepSeconds(
            seconds=self.seconds[row],
            classes=_classes(self.memory[row], self.compute[row]),
            device_seconds=self.device[row],
            host_seconds=self.host[row],
            limited_by=self.limited_by[row],
            unfamiliar=self.unfamiliar[row],
            similarity=self.similarity[row],
        )


def scaled_seconds(step: StepSeconds, measured: Sequence[tuple[StepSeconds, float]]) -> float:
    """The step, corrected by the model's error for the same program on other GPUs.

        t · exp(SHARED_ERROR · median log(measured/modelled))

    `measured` has the modelled step and the measured seconds on each of those GPUs.
    """
    if not measured:
        return step.seconds
    return step.seconds * math.exp(SHARED_ERROR * median(math.log(true / other.seconds) for other, true in measured))


def interval_factor(step: StepSeconds, gpu: str, fit: PhysicsFit) -> float:
    """The factor of the 90% interval: the true time lies between seconds ÷ factor and seconds × factor.

    It is larger for a GPU without measurements and smaller for a program similar to a measured one; both uncertainties
    add up as squares. It also grows with the share of time in operators without measurements.
    """
    measured = fit.gpus.get(gpu)
    if measured is None:
        program = math.log(fit.factor_known_family if step.similarity >= SIMILAR else fit.factor_new_program)
        factor = math.exp(math.hypot(math.log(fit.factor_new_gpu), program))
    elif step.similarity >= SIMILAR:
        factor = measured.factor_known_family or fit.factor_known_family
    else:
        factor = measured.factor_new_program or fit.factor_new_program
    return factor * (1 + step.unfamiliar) if step.unfamiliar > UNFAMILIAR_SHARE else factor


def on_other_hosts(fit: PhysicsFit) -> PhysicsFit:
    """The fit for machines other than the measured ones.

    A GPU keeps the share of its figures that it reaches, but the time of a launch belongs to the host: every GPU has
    that of a host without measurements. Otherwise small networks would be three times as fast on the GPU that happened
    to be measured in the fastest machine.
    """
    gpus = {name: replace(one, launch_seconds=fit.launch_seconds) for name, one in fit.gpus.items()}
    return replace(fit, gpus=gpus)


def other_host_factor(step: StepSeconds, gpu: str, fit: PhysicsFit) -> float:
    """`interval_factor` on a machine other than the measured ones.

        log f = √((log f_gpu)² + (w·log f_new)²),     w = H^γ / (D^γ + H^γ)

    A host that was never measured is as uncertain as a GPU that never was, in as far as the host decides the time.
    """
    factor = interval_factor(step, gpu, fit)
    total = step.device_seconds**OVERLAP + step.host_seconds**OVERLAP
    if gpu not in fit.gpus or not total:
        return factor
    share = step.host_seconds**OVERLAP / total
    return math.exp(math.hypot(math.log(factor), share * math.log(fit.factor_new_gpu)))


def effective_gpu(gpu: Gpu) -> Gpu:
    """The GPU with the bandwidth and the FP32 rate that its architecture reaches at most."""
    memory, arithmetic = _ARCHITECTURE_EFFICIENCY.get(gpu.architecture, (1.0, 1.0))
    if memory == arithmetic == 1.0:
        return gpu
    return replace(
        gpu, memory_gb_per_second=gpu.memory_gb_per_second * memory, fp32_tflops=gpu.fp32_tflops * arithmetic
    )


def overlapped(device: Array, host: Array) -> Array:
    """(D^γ + H^γ)^(1/γ)."""
    return np.asarray((device**OVERLAP + host**OVERLAP) ** (1 / OVERLAP))


def root_shares(x: Array) -> Array:
    """s: the roots of the shares of features at their priors, one row per row of x."""
    at_prior = x * PRIORS
    return np.asarray(np.sqrt(at_prior / np.maximum(at_prior.sum(axis=1, keepdims=True), 1e-300)))


def share_similarity(some: Array, others: Array, length: float) -> Array:
    """exp(−‖s − s'‖² / 2ℓ²) of each row of one array with each row of the other."""
    used = np.flatnonzero(some.any(axis=0))  # a program uses few features: the products of the others are 0
    left, right = some[:, used], others.T[used]
    found = np.concatenate(
        [left[start : start + ROWS_AT_ONCE] @ right for start in range(0, max(1, len(some)), ROWS_AT_ONCE)]
    )
    found *= -2
    found += np.einsum("ij,ij->i", some, some)[:, None]
    found += np.einsum("ij,ij->i", others, others)
    np.maximum(found, 0.0, out=found)
    found *= -1 / (2 * length**2)
    return np.asarray(np.exp(found, out=found))


class ResidualModel:
    """A ResidualKernel as arrays."""

    def __init__(self, residuals: ResidualKernel) -> None:
        self._weights = np.array(residuals.weights)
        self._length = residuals.length
        self._shares = np.zeros((len(residuals.shares), len(FEATURES)))
        if residuals.weights:
            self._shares[:, [_COLUMN[name] for name in residuals.features]] = np.array(residuals.shares) / 100

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """ρ of each row, and its similarity to the nearest program."""
        if not len(self._weights):
            return np.zeros(len(x)), np.zeros(len(x))
        similarity = share_similarity(root_shares(x), self._shares, self._length)
        return np.clip(similarity @ self._weights, -MAX_RESIDUAL, MAX_RESIDUAL), similarity.max(axis=1)


_COLUMN: Final = {feature.name: column for column, feature in enumerate(FEATURES)}
_KINDS: Final = tuple(dict.fromkeys(f.kind for f in FEATURES if f.kind not in ("launches", "upload")))
_OF_KINDS: Final = np.array([[f.kind == kind for kind in _KINDS] for f in FEATURES], dtype=np.float64)
_COMPUTE_OF_KINDS: Final = _OF_KINDS * np.array([[f.compute] for f in FEATURES])
_MEMORY_OF_KINDS: Final = _OF_KINDS - _COMPUTE_OF_KINDS
"""1 for a feature and its class of operators, by what limits it."""


def _classes(memory: Sequence[float], compute: Sequence[float]) -> tuple[ClassSeconds, ...]:
    classes = [
        ClassSeconds(kind=kind, seconds=slow + fast, limited_by="compute" if fast > slow else "memory bandwidth")
        for kind, slow, fast in zip(_KINDS, memory, compute, strict=True)
        if slow + fast > 0
    ]
    return tuple(sorted(classes, key=lambda one: -one.seconds))


_IS_GAP: Final = np.equal(SORTS, OTHER_SORT)


def _limits(parts: Array, device: Array, host: Array) -> list[Bottleneck]:
    """The bottleneck of each row."""
    gaps, compute = parts[:, _IS_GAP].sum(axis=1), parts[:, IS_COMPUTE].sum(axis=1)
    limits = np.where(compute > device - gaps - compute, "compute", "memory bandwidth")
    found: list[Bottleneck] = np.where((host > device) | (gaps > device / 2), "launches", limits).tolist()
    return found
