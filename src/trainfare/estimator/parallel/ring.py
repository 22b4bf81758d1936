"""Step time on more GPUs than were measured: of a ring that adds up gradients.

    T = (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10

γ = 1: one after the other; a large γ: the longer hides the shorter.

    T_grad(m)  = what one GPU needs at its batch m, × (1 + crowding·(q − 1)) × (1 + straggling·ln K)
    T_sync     = c_in·ring(K)                              all K GPUs on one node
               = c_out·ring(N) + c_cross·share(q)/(N − 1)  on N nodes, q = K/N on each

    ring(n)    = 2(n−1)/n + 2(n−1)·λ       c is bytes/bandwidth, λ·c the latency of one hop
    share(q)   = 2(q−1)/q·(1 + λ·N)        what the GPUs of one node add to the traffic between nodes

Few GPUs cannot tell latency from bandwidth (free, it was fitted to zero on one data set and doubled the error on
another: docs/decisions/0061), so the latency of a hop is tied to the transfer: λ. The 1/(N−1) is found, not derived:
it would be so if on two nodes all GPUs of a node pressed through one pair of hosts, and on more spread over N − 1.

λ, straggling, and where γ, crowding and the ratios of the c are pulled to belong to no single program: `RingSettings`.
`settings_of` reads them off other programs. What is then still missed, `estimator/parallel/link_residuals.py` learns from those.
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
    """What programs on one kind of machine have in common. A pull is 1 over the usual spread, in log errors of 1."""

    latency_share: float = 0.05
    """λ."""
    straggling: float = 0.02
    """The slowest of K is that much slower than the usual one, for each ln K."""
    gamma: float = 1.5
    gamma_pull: float = 0.1
    crowding_pull: float = 4.0
    """Crowding is pulled to nothing."""
    between: float = 4.0
    """c_out over c_in: all there is to go by when one node was measured and several are asked for."""
    between_pull: float = 0.05
    crossing: float = 1.0
    """c_cross over c_out."""
    crossing_pull: float = 0.3
    anchor: float = 0.5
    """Which part of what the formula misses at the largest measured count is carried on to larger ones."""


SHIPPED = RingSettings()
"""`python -m benchmarks.accuracy --task more_gpus` measures what these are worth; docs/decisions/0083."""


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
    latency_share: float = SHIPPED.latency_share
    straggling: float = 0.0
    seen_nodes: int = 1
    """The most that were measured: c_out of a program that was on one node alone is no more than a usual one."""
    seen_on_a_node: int = 1
    """The most GPUs that were measured on one node by itself."""
    carried: tuple[tuple[float, float], ...] = ()
    """(batch, factor): what the largest measured count took beyond the formula."""

    def sync_seconds(self, placement: Placement) -> float:
        inside, between, crossing = _columns(placement, self.latency_share)
        return self.inside_seconds * inside + self.between_seconds * between + self.crossing_seconds * crossing

    def grad_seconds(self, placement: Placement, batch_size: float) -> float:
        q = placement.gpus / placement.nodes
        crowded = along(self.alone, batch_size) * (1 + self.crowding * (q - 1))
        return crowded * (1 + self.straggling * log(placement.gpus))

    def seconds(self, placement: Placement, batch_size: float) -> float:
        grad = self.grad_seconds(placement, batch_size)
        if placement.gpus == 1:
            return grad
        factor = _nearest(self.carried, batch_size) if self.carried else 1.0
        return overlapped_seconds(grad, self.sync_seconds(placement), self.gamma) * factor

    def sync_share(self, placement: Placement, batch_size: float) -> float:
        """By how much in a hundred the step grows when sending takes one in a hundred longer: between 0 and 1."""
        grad, sync = self.grad_seconds(placement, batch_size), self.sync_seconds(placement)
        return 0.0 if sync == 0 else float(1 / (1 + (grad / sync) ** self.gamma))


def fit_ring(steps: Sequence[MeasuredStep], settings: RingSettings = SHIPPED) -> RingFit:
    """IdealPoint squares of log T, robust to a few wild steps. Needs one GPU and one more.

    What the steps do not tell (c_out, if all are on one node) comes from the settings.
    """
    import numpy as np
    from scipy.optimize import least_squares

    alone = _alone(steps)
    several = [step for step in steps if step.placement.gpus > 1]
    if not several:
        raise ValueError("steps of one GPU alone say nothing of several: add a step on two at least")
    columns = np.array([_columns(step.placement, settings.latency_share) for step in several])
    straggled = np.array([1 + settings.straggling * log(step.placement.gpus) for step in several])
    grad = straggled * np.array([along(alone, step.batch_size) for step in several])
    beside = np.array([step.placement.gpus / step.placement.nodes - 1 for step in several])
    seconds = np.array([step.seconds for step in several])
    size = log(float(np.median(seconds)))

    def residuals(theta: "np.ndarray") -> "np.ndarray":
        gamma, crowding, inside, between, crossing = theta
        sync = columns @ np.exp(theta[2:])
        ours = ((grad * (1 + crowding * beside)) ** gamma + sync**gamma) ** (1 / gamma)
        pulls = [
            settings.gamma_pull * np.log(gamma / settings.gamma),
            settings.crowding_pull * crowding,
            settings.between_pull * (between - inside - log(settings.between)),
            settings.crossing_pull * (crossing - between - log(settings.crossing)),
            # Without it a c that no step tells of would wander
            0.001 * (inside + between - 2 * size),
        ]
        return np.concatenate([_robust(np.log(ours / seconds)), pulls])

    fits = []
    for gamma in (1.2, 3.0):
        start = np.array([gamma, 0.01, *[size + log(0.2)] * 3])
        bounds = ([1.0, 0.0, *[size - 12] * 3], [10.0, 0.3, *[size + 6] * 3])
        fits.append(least_squares(residuals, start, bounds=bounds))
    best = min(fits, key=lambda found: float(found.cost)).x
    inside, between, crossing = np.exp(best[2:]).tolist()
    bare = RingFit(
        alone=alone,
        gamma=float(best[0]),
        crowding=float(best[1]),
        inside_seconds=inside,
        between_seconds=between,
        crossing_seconds=crossing,
        latency_share=settings.latency_share,
        straggling=settings.straggling,
        seen_nodes=max(step.placement.nodes for step in several),
        seen_on_a_node=max((step.placement.gpus for step in several if step.placement.nodes == 1), default=1),
    )
    return _anchored(bare, several, settings.anchor)


def settings_of(
    programs: Mapping[str, Sequence[MeasuredStep]],
    *,
    most: int,
    latency_shares: Sequence[float] = (0.03, 0.04, 0.05, 0.06),
    stragglings: Sequence[float] = (0.0, 0.02),
    anchors: Sequence[float] = (0.5,),
) -> RingSettings:
    """With which of these the steps on more than `most` GPUs follow best from those on fewer, over programs.

    The ratios of the c are the middle ones of the programs when fitted to all of their steps. Programs that were
    not measured on both sides of `most` say nothing; without any, the shipped settings come back.
    """
    halves = {
        name: ([s for s in steps if s.placement.gpus <= most], [s for s in steps if s.placement.gpus > most])
        for name, steps in programs.items()
        if {1, *(range(2, most + 1))} & (counts := {s.placement.gpus for s in steps}) > {1} and max(counts) > most
    }
    if not halves:
        return SHIPPED
    wholes = [fit_ring(programs[name], SHIPPED) for name in halves]
    base = replace(
        SHIPPED,
        between=exp(median(log(fit.between_seconds / fit.inside_seconds) for fit in wholes)),
        crossing=exp(median(log(fit.crossing_seconds / fit.between_seconds) for fit in wholes)),
    )
    tried = [
        replace(base, latency_share=share, straggling=straggling, anchor=anchor)
        for share, straggling, anchor in product(latency_shares, stragglings, anchors)
    ]

    def missed(settings: RingSettings) -> float:
        return fmean(_missed(fit_ring(seen, settings), rest) for seen, rest in halves.values())

    return min(tried, key=missed)


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


def _robust(errors: "np.ndarray", scale: float = 0.05) -> "np.ndarray":
    """Whose square is soft-l1: quadratic up to `scale`, linear beyond. By hand, so that pulls stay quadratic."""
    import numpy as np

    ratio = errors / scale
    robust: np.ndarray = np.sign(ratio) * np.sqrt(2 * (np.sqrt(1 + ratio**2) - 1)) * scale
    return robust


def _missed(fit: StepModel, steps: Sequence[MeasuredStep]) -> float:
    return fmean(abs(log(fit.seconds(step.placement, step.batch_size) / step.seconds)) for step in steps)


def _anchored(fit: RingFit, several: Sequence[MeasuredStep], anchor: float) -> RingFit:
    """Part of what the formula misses at the largest measured count, batch by batch, goes on to larger ones."""
    largest = max(step.placement.gpus for step in several)
    missed: dict[float, list[float]] = {}
    for step in several:
        if step.placement.gpus == largest:
            ratio = step.seconds / fit.seconds(step.placement, step.batch_size)
            missed.setdefault(step.batch_size, []).append(log(ratio))
    carried = tuple((batch, exp(anchor * median(logs))) for batch, logs in sorted(missed.items()))
    return replace(fit, carried=carried)


def _nearest(points: Sequence[tuple[float, float]], x: float) -> float:
    return min(points, key=lambda point: abs(log(point[0] / x)))[1]
