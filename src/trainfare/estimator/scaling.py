"""Step time on several GPUs that add up their gradients around a ring.

    T = (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10

γ = 1: one after the other; a large γ: the longer hides the shorter.

    T_grad(m)  = what one GPU needs at its batch m, × (1 + crowding·(q − 1)) with q GPUs on a node
    T_sync     = c_in·ring(K)                              all K GPUs on one node
               = c_out·ring(N) + c_cross·share(q)/(N − 1)  on N nodes, q = K/N on each

    ring(n)    = 2(n−1)/n + 2(n−1)·λ       c is bytes/bandwidth, λ·c the latency of one hop
    share(q)   = 2(q−1)/q·(1 + λ·N)        what the GPUs of one node add to the traffic between nodes

Few GPUs cannot tell latency from bandwidth (free, it was fitted to zero on one data set and doubled the error on
another: docs/decisions/0061), so the latency of a hop is tied to the transfer: λ. The 1/(N−1) is found, not derived:
it would be so if on two nodes all GPUs of a node pressed through one pair of hosts, and on more spread over N − 1.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Protocol

from trainfare.model.checks import require_not_negative, require_positive

if TYPE_CHECKING:
    import numpy as np

LATENCY_SHARE = 0.04
"""λ. On four programs on up to 64 T4s each of them, left out, got 0.04 or 0.06 from the other three."""

_GAMMA, _GAMMA_PULL = 1.5, 0.1
_CROWDING_PULL = 4.0
_ANCHOR = 0.5
"""How hard γ is pulled to 1.5 and crowding to nothing, and which part of the residual at the largest measured count
is carried on to larger ones. `python -m benchmarks.scaling` measures what the whole is worth; docs/scaling.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`gpus` in all, spread evenly over `nodes`."""

    nodes: int
    gpus: int

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes)
        if self.gpus < self.nodes:
            raise ValueError(f"{self.nodes} nodes need as many GPUs at least, got {self.gpus}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """The batch is of one GPU."""

    placement: Placement
    batch_size: float
    seconds: float

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)


def ring_seconds(gradient_bytes: float, *, gpus: int, bytes_per_second: float, latency_seconds: float = 0.0) -> float:
    """Ring all-reduce: 2(K−1)·latency + 2(K−1)/K·bytes/bandwidth. Free on one GPU; tends to a line in K."""
    require_positive(gpus=gpus, bytes_per_second=bytes_per_second)
    require_not_negative(gradient_bytes=gradient_bytes, latency_seconds=latency_seconds)
    return 2 * (gpus - 1) * latency_seconds + 2 * (gpus - 1) / gpus * gradient_bytes / bytes_per_second


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
    """A program on one kind of GPU and network, as fitted to its measured steps."""

    alone: tuple[tuple[float, float], ...]
    """(batch, seconds) on one GPU, by batch."""
    gamma: float
    crowding: float
    inside_seconds: float
    between_seconds: float
    crossing_seconds: float
    latency_share: float = LATENCY_SHARE
    carried: tuple[tuple[float, float], ...] = ()
    """(batch, factor): what the largest measured count took beyond the formula."""

    def sync_seconds(self, placement: Placement) -> float:
        inside, between, crossing = _columns(placement, self.latency_share)
        return self.inside_seconds * inside + self.between_seconds * between + self.crossing_seconds * crossing

    def seconds(self, placement: Placement, batch_size: float) -> float:
        if placement.gpus == 1:
            return along(self.alone, batch_size)
        q = placement.gpus / placement.nodes
        grad = along(self.alone, batch_size) * (1 + self.crowding * (q - 1))
        factor = _nearest(self.carried, batch_size) if self.carried else 1.0
        return overlapped_seconds(grad, self.sync_seconds(placement), self.gamma) * factor


def fit_ring(steps: Sequence[MeasuredStep], *, latency_share: float = LATENCY_SHARE) -> RingFit:
    """Least squares of log T with every coefficient ≥ 0, robust to a few wild steps. Needs one GPU and one more."""
    import numpy as np
    from scipy.optimize import least_squares

    alone = _alone(steps)
    several = [step for step in steps if step.placement.gpus > 1]
    if not several:
        raise ValueError("steps of one GPU alone say nothing of several: add a step on two at least")
    columns = np.array([_columns(step.placement, latency_share) for step in several])
    grad = np.array([along(alone, step.batch_size) for step in several])
    beside = np.array([step.placement.gpus / step.placement.nodes - 1 for step in several])
    seconds = np.array([step.seconds for step in several])

    def residuals(theta: "np.ndarray") -> "np.ndarray":
        gamma, crowding = theta[0], theta[1]
        sync = columns @ theta[2:]
        ours = ((grad * (1 + crowding * beside)) ** gamma + sync**gamma) ** (1 / gamma)
        pulls = [_GAMMA_PULL * np.log(gamma / _GAMMA), _CROWDING_PULL * crowding]
        return np.concatenate([np.log(ours / seconds), pulls])

    size = float(np.median(seconds))
    fits = []
    for gamma in (1.2, 3.0):
        start = np.array([gamma, 0.01, *[0.2 * size] * 3])
        upper = [10.0, 0.3, *[np.inf] * 3]
        fits.append(
            least_squares(
                residuals, start, bounds=([1.0, *[0.0] * 4], upper), loss="soft_l1", f_scale=0.05, x_scale=start
            )
        )
    best = min(fits, key=lambda found: float(found.cost)).x
    bare = RingFit(
        alone=alone,
        gamma=float(best[0]),
        crowding=float(best[1]),
        inside_seconds=float(best[2]),
        between_seconds=float(best[3]),
        crossing_seconds=float(best[4]),
        latency_share=latency_share,
    )
    return _anchored(bare, several)


class StepModel(Protocol):
    def seconds(self, placement: Placement, batch_size: float) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """The baseline: K GPUs take as long a step as one, and do K times the work."""

    alone: tuple[tuple[float, float], ...]

    def seconds(self, placement: Placement, batch_size: float) -> float:  # noqa: ARG002 that is the assumption
        return along(self.alone, batch_size)


def linear_scaling(steps: Sequence[MeasuredStep]) -> LinearScaling:
    return LinearScaling(alone=_alone(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodness:
    """Errors in percent on steps that the fit has not seen."""

    steps: int
    mean: float
    median: float
    worst: float


def goodness(model: StepModel, held_out: Sequence[MeasuredStep]) -> Goodness:
    """Mean absolute percentage error and its kin."""
    errors = [100 * abs(model.seconds(s.placement, s.batch_size) / s.seconds - 1) for s in held_out]
    return Goodness(steps=len(errors), mean=fmean(errors), median=median(errors), worst=max(errors))


def along(points: Sequence[tuple[float, float]], x: float) -> float:
    """Straight lines between the points; beyond the ends the last of them goes on, but never below half its end."""
    if len(points) == 1:
        return points[0][1]
    right = min(max(bisect_left([p for p, _ in points], x), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    y = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return max(y, min(y0, y1) / 2)


def _alone(steps: Sequence[MeasuredStep]) -> tuple[tuple[float, float], ...]:
    by_batch: dict[float, list[float]] = {}
    for step in steps:
        if step.placement.gpus == 1:
            by_batch.setdefault(step.batch_size, []).append(step.seconds)
    if not by_batch:
        raise ValueError("a step on one GPU is needed: it is what the others are compared with")
    return tuple((batch, median(seconds)) for batch, seconds in sorted(by_batch.items()))


def _columns(placement: Placement, latency_share: float) -> tuple[float, float, float]:
    """What multiplies c_in, c_out and c_cross."""
    nodes, q = placement.nodes, placement.gpus / placement.nodes

    def ring(n: int) -> float:
        return ring_seconds(1.0, gpus=n, bytes_per_second=1.0, latency_seconds=latency_share)

    if nodes == 1:
        return ring(placement.gpus), 0.0, 0.0
    return 0.0, ring(nodes), 2 * (q - 1) / q * (1 + latency_share * nodes) / (nodes - 1)


def _anchored(fit: RingFit, several: Sequence[MeasuredStep]) -> RingFit:
    """Half of what the formula misses at the largest measured count, batch by batch, goes on to larger ones."""
    largest = max(step.placement.gpus for step in several)
    missed: dict[float, list[float]] = {}
    for step in several:
        if step.placement.gpus == largest:
            ratio = step.seconds / fit.seconds(step.placement, step.batch_size)
            missed.setdefault(step.batch_size, []).append(log(ratio))
    carried = tuple((batch, exp(_ANCHOR * median(logs))) for batch, logs in sorted(missed.items()))
    return replace(fit, carried=carried)


def _nearest(points: Sequence[tuple[float, float]], x: float) -> float:
    return min(points, key=lambda point: abs(log(point[0] / x)))[1]
