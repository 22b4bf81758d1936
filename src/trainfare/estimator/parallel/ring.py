"""Step time on more GPUs than were measured, for data parallelism with a ring all-reduce.

    T = (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10

With γ = 1 the two follow each other; with a large γ the longer hides the shorter.

    T_grad(m)  = the step of one GPU at its batch m · (1 + crowding·(q − 1)) · (1 + straggling·ln K)
    T_sync     = c_in·ring(K)                              all K GPUs on one node
               = c_out·ring(N) + c_cross·share(q)/(N − 1)  on N nodes, q = K/N on each

    ring(n)    = 2(n−1)/n + 2(n−1)·λ       c is bytes/bandwidth, λ·c the latency of one hop
    share(q)   = 2(q−1)/q·(1 + λ·N)        traffic between nodes that the GPUs of one node add

Steps on few GPUs cannot separate latency from bandwidth (as a free parameter, latency was fitted to zero on one data
set and doubled the error on another: docs/decisions/0061), so the latency of a hop is tied to the transfer by λ. The
1/(N − 1) is empirical: it would hold if on two nodes all GPUs of a node used one pair of hosts, and on more nodes
N − 1 pairs.

λ, straggling and the priors of γ, crowding and the ratios of the c belong to no single program: `RingSettings`.
`choose_settings` learns them from other programs. `link_residuals.py` learns corrections of the remaining errors.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Protocol

from trainfare.model.checks import require_not_negative, require_positive

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSettings:
    """Parameters that programs on one kind of machine share.

    A `…_pull` is the weight of a parameter's distance from its prior: 1 over its typical spread, in units of log error.
    """

    latency_share: float = 0.05
    """λ."""
    straggling: float = 0.02
    """Relative slowness of the slowest of K GPUs, per ln K."""
    gamma: float = 1.5
    gamma_pull: float = 0.1
    crowding_pull: float = 4.0
    """The prior of crowding is zero."""
    between: float = 4.0
    """c_out over c_in; it decides where only one node was measured and several are to be predicted."""
    between_pull: float = 0.05
    crossing: float = 1.0
    """c_cross over c_out."""
    crossing_pull: float = 0.3
    anchor: float = 0.5
    """The part of the residual at the largest measured number of GPUs that is applied to larger numbers."""


DEFAULT_RING_SETTINGS = RingSettings()
"""`python -m benchmarks.accuracy --task more_gpus` measures their accuracy; docs/experiments/0083."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlacement:
    """A total of `gpus`, spread evenly over `nodes`."""

    nodes: int
    gpus: int

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes)
        if self.gpus < self.nodes:
            raise ValueError(f"{self.nodes} nodes need at least as many GPUs, got {self.gpus}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A measured step; `batch_size` is that of one GPU."""

    placement: GpuPlacement
    batch_size: float
    seconds: float

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)


def ring_seconds(gradient_bytes: float, *, gpus: int, bytes_per_second: float, latency_seconds: float = 0.0) -> float:
    """Ring all-reduce: 2(K−1)·latency + 2(K−1)/K·bytes/bandwidth. Zero on one GPU; tends to a line in K."""
    require_positive(gpus=gpus, bytes_per_second=bytes_per_second)
    require_not_negative(gradient_bytes=gradient_bytes, latency_seconds=latency_seconds)
    return 2 * (gpus - 1) * latency_seconds + 2 * (gpus - 1) / gpus * gradient_bytes / bytes_per_second


SHARDED_PARTS = 3
"""Weights that are sharded (FSDP, ZeRO-3) are gathered before the forward pass and again before the backward pass, and
the gradient is reduced to shards: each of the three sends (K−1)/K of the bytes, where an all-reduce sends two."""
GLOO_SHARDED_PARTS = 4
"""Gloo reduces the gradient on all processes, and each keeps its shard: docs/experiments/0125."""


def sharded_seconds(
    parameter_bytes: float,
    *,
    gpus: int,
    bytes_per_second: float,
    latency_seconds: float = 0.0,
    parts: int = SHARDED_PARTS,
) -> float:
    """The rings of weights that are sharded: `parts`/2 times an all-reduce of the gradient. Zero on one GPU."""
    ring = ring_seconds(parameter_bytes, gpus=gpus, bytes_per_second=bytes_per_second, latency_seconds=latency_seconds)
    return parts / 2 * ring


def overlapped_seconds(grad: float, sync: float, gamma: float) -> float:
    """(grad^γ + sync^γ)^(1/γ): between the longer of the two and their sum."""
    if not 1 <= gamma <= 10:
        raise ValueError(f"γ lies between 1 and 10, got {gamma}")
    longer = max(grad, sync)
    if longer == 0:
        return 0.0
    return float(longer * (1 + (min(grad, sync) / longer) ** gamma) ** (1 / gamma))


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFit:
    """The formula for a program on one kind of GPU and network, fitted to its measured steps."""

    on_one_gpu: tuple[tuple[float, float], ...]
    """(batch, seconds) on one GPU, in order of the batch."""
    gamma: float
    crowding: float
    inside_seconds: float
    between_seconds: float
    crossing_seconds: float
    latency_share: float = DEFAULT_RING_SETTINGS.latency_share
    straggling: float = 0.0
    max_measured_nodes: int = 1
    """The largest number of nodes that was measured; with one node, c_out comes from the settings."""
    max_gpus_on_one_node: int = 1
    """The largest number of GPUs that was measured on a single node."""
    residual_factors: tuple[tuple[float, float], ...] = ()
    """(batch, factor): the part of the residual at the largest measured number of GPUs that is applied everywhere."""

    def sync_seconds(self, placement: GpuPlacement) -> float:
        inside, between, crossing = _columns(placement, self.latency_share)
        return self.inside_seconds * inside + self.between_seconds * between + self.crossing_seconds * crossing

    def grad_seconds(self, placement: GpuPlacement, batch_size: float) -> float:
        q = placement.gpus / placement.nodes
        crowded = interpolate(self.on_one_gpu, batch_size) * (1 + self.crowding * (q - 1))
        return crowded * (1 + self.straggling * log(placement.gpus))

    def seconds(self, placement: GpuPlacement, batch_size: float) -> float:
        grad = self.grad_seconds(placement, batch_size)
        if placement.gpus == 1:
            return grad
        factor = _nearest(self.residual_factors, batch_size) if self.residual_factors else 1.0
        return overlapped_seconds(grad, self.sync_seconds(placement), self.gamma) * factor

    def sync_share(self, placement: GpuPlacement, batch_size: float) -> float:
        """The elasticity of the step to the time of sending, between 0 and 1: d log T / d log T_sync."""
        grad, sync = self.grad_seconds(placement, batch_size), self.sync_seconds(placement)
        return 0.0 if sync == 0 else float(1 / (1 + (grad / sync) ** self.gamma))


def fit_ring(steps: Sequence[MeasuredStep], settings: RingSettings = DEFAULT_RING_SETTINGS) -> RingFit:
    """Robust least squares of log T. Needs steps on one GPU and on at least one larger number.

    Parameters that the steps do not determine (c_out, if all are on one node) come from the settings.
    """
    import numpy as np
    from scipy.optimize import least_squares

    on_one_gpu = _single_gpu_points(steps)
    several = [step for step in steps if step.placement.gpus > 1]
    if not several:
        raise ValueError("steps on one GPU do not predict several: add a step on at least two GPUs")
    columns = np.array([_columns(step.placement, settings.latency_share) for step in several])
    straggled = np.array([1 + settings.straggling * log(step.placement.gpus) for step in several])
    grad = straggled * np.array([interpolate(on_one_gpu, step.batch_size) for step in several])
    neighbours = np.array([step.placement.gpus / step.placement.nodes - 1 for step in several])
    seconds = np.array([step.seconds for step in several])
    size = log(float(np.median(seconds)))

    def residuals(theta: "np.ndarray") -> "np.ndarray":
        gamma, crowding, inside, between, crossing = theta
        sync = columns @ np.exp(theta[2:])
        predicted = ((grad * (1 + crowding * neighbours)) ** gamma + sync**gamma) ** (1 / gamma)
        penalties = [
            settings.gamma_pull * np.log(gamma / settings.gamma),
            settings.crowding_pull * crowding,
            settings.between_pull * (between - inside - log(settings.between)),
            settings.crossing_pull * (crossing - between - log(settings.crossing)),
            # Keeps a c that no step determines near the scale of the steps.
            0.001 * (inside + between - 2 * size),
        ]
        return np.concatenate([_soft_l1(np.log(predicted / seconds)), penalties])

    fits = []
    for gamma in (1.2, 3.0):
        start = np.array([gamma, 0.01, *[size + log(0.2)] * 3])
        bounds = ([1.0, 0.0, *[size - 12] * 3], [10.0, 0.3, *[size + 6] * 3])
        fits.append(least_squares(residuals, start, bounds=bounds))
    best = min(fits, key=lambda result: float(result.cost)).x
    inside, between, crossing = np.exp(best[2:]).tolist()
    bare = RingFit(
        on_one_gpu=on_one_gpu,
        gamma=float(best[0]),
        crowding=float(best[1]),
        inside_seconds=inside,
        between_seconds=between,
        crossing_seconds=crossing,
        latency_share=settings.latency_share,
        straggling=settings.straggling,
        max_measured_nodes=max(step.placement.nodes for step in several),
        max_gpus_on_one_node=max((step.placement.gpus for step in several if step.placement.nodes == 1), default=1),
    )
    return _anchored(bare, several, settings.anchor)


def choose_settings(
    programs: Mapping[str, Sequence[MeasuredStep]],
    *,
    most: int,
    latency_shares: Sequence[float] = (0.03, 0.04, 0.05, 0.06),
    stragglings: Sequence[float] = (0.0, 0.02),
    anchors: Sequence[float] = (0.5,),
) -> RingSettings:
    """The settings with which steps on at most `most` GPUs predict those on more best, over all programs.

    The ratios of the c are the medians over programs fitted to all of their steps. Programs without steps on both
    sides of `most` are ignored; without any other, the default settings are returned.
    """
    halves = {
        name: ([s for s in steps if s.placement.gpus <= most], [s for s in steps if s.placement.gpus > most])
        for name, steps in programs.items()
        if {1, *(range(2, most + 1))} & (counts := {s.placement.gpus for s in steps}) > {1} and max(counts) > most
    }
    if not halves:
        return DEFAULT_RING_SETTINGS
    full_fits = [fit_ring(programs[name], DEFAULT_RING_SETTINGS) for name in halves]
    base = replace(
        DEFAULT_RING_SETTINGS,
        between=exp(median(log(fit.between_seconds / fit.inside_seconds) for fit in full_fits)),
        crossing=exp(median(log(fit.crossing_seconds / fit.between_seconds) for fit in full_fits)),
    )
    tried = [
        replace(base, latency_share=share, straggling=straggling, anchor=anchor)
        for share, straggling, anchor in product(latency_shares, stragglings, anchors)
    ]

    def mean_error(settings: RingSettings) -> float:
        return fmean(_mean_log_error(fit_ring(few, settings), many) for few, many in halves.values())

    return min(tried, key=mean_error)


class ScalingModel(Protocol):
    def seconds(self, placement: GpuPlacement, batch_size: float) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScalingModel:
    """The baseline: a step on K GPUs takes as long as on one, and does K times the work."""

    on_one_gpu: tuple[tuple[float, float], ...]

    def seconds(self, placement: GpuPlacement, batch_size: float) -> float:  # noqa: ARG002 # that the time does not depend on `placement` is the assumption
        return interpolate(self.on_one_gpu, batch_size)


def linear_scaling(steps: Sequence[MeasuredStep]) -> LinearScalingModel:
    return LinearScalingModel(on_one_gpu=_single_gpu_points(steps))


def interpolate(points: Sequence[tuple[float, float]], x: float) -> float:
    """Linear interpolation between the points; linear extrapolation outside, but never below half of the end."""
    if len(points) == 1:
        return points[0][1]
    right = min(max(bisect_left([p for p, _ in points], x), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    y = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return max(y, min(y0, y1) / 2)


def _single_gpu_points(steps: Sequence[MeasuredStep]) -> tuple[tuple[float, float], ...]:
    by_batch: dict[float, list[float]] = {}
    for step in steps:
        if step.placement.gpus == 1:
            by_batch.setdefault(step.batch_size, []).append(step.seconds)
    if not by_batch:
        raise ValueError("a step on one GPU is needed, with which the others are compared")
    return tuple((batch, median(seconds)) for batch, seconds in sorted(by_batch.items()))


def _columns(placement: GpuPlacement, latency_share: float) -> tuple[float, float, float]:
    """The factors of c_in, c_out and c_cross."""
    nodes, q = placement.nodes, placement.gpus / placement.nodes

    def ring(n: int) -> float:
        return ring_seconds(1.0, gpus=n, bytes_per_second=1.0, latency_seconds=latency_share)

    if nodes == 1:
        return ring(placement.gpus), 0.0, 0.0
    return 0.0, ring(nodes), 2 * (q - 1) / q * (1 + latency_share * nodes) / (nodes - 1)


def _soft_l1(errors: "np.ndarray", scale: float = 0.05) -> "np.ndarray":
    """Errors whose square is the soft-l1 loss: quadratic up to `scale`, linear above.

    The `loss` of `scipy.optimize.least_squares` would apply to the penalties as well, which stay quadratic.
    """
    import numpy as np

    ratio = errors / scale
    soft: np.ndarray = np.sign(ratio) * np.sqrt(2 * (np.sqrt(1 + ratio**2) - 1)) * scale
    return soft


def _mean_log_error(fit: ScalingModel, steps: Sequence[MeasuredStep]) -> float:
    return fmean(abs(log(fit.seconds(step.placement, step.batch_size) / step.seconds)) for step in steps)


def _anchored(fit: RingFit, several: Sequence[MeasuredStep], anchor: float) -> RingFit:
    """The fit with a part of its residual at the largest measured number of GPUs, for each batch size."""
    largest = max(step.placement.gpus for step in several)
    logs: dict[float, list[float]] = {}
    for step in several:
        if step.placement.gpus == largest:
            ratio = step.seconds / fit.seconds(step.placement, step.batch_size)
            logs.setdefault(step.batch_size, []).append(log(ratio))
    factors = tuple((batch, exp(anchor * median(own))) for batch, own in sorted(logs.items()))
    return replace(fit, residual_factors=factors)


def _nearest(points: Sequence[tuple[float, float]], x: float) -> float:
    return min(points, key=lambda point: abs(log(point[0] / x)))[1]
