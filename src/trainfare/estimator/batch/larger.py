"""Iteration time at a batch size larger than any that was measured, extrapolated from the growth at the known ones.

From two or three known batch sizes b₁ < b₂ < b₃ with times t, each part of the time grows from b₃ to B = r·b₃ by

    growth(r) = (1 + s·(r^γ − 1))^(1/γ),     s = clip(n·s₂ + (1 − n)·s₁, s₀, 1)

s₁ and s₂ are the slopes of (t/t₃)^γ over (b/b₃)^γ between the first two and the last two batch sizes: 0 where the
device had unused capacity, 1 where time was proportional to the batch. γ = 1 is a line; γ > 1 bends it, because work
that was hidden behind a lower bound becomes visible. The last slope predicts better than the one before, and more so
where slopes rise: n differs for rising and falling slopes.

Where the operators of each known batch were timed, products (convolutions and matrix products), other operators and the
time in which the device waits grow separately, waiting by r^η. Otherwise the total time grows as one part.

    T(B) = (C₃·growth_C(r) + D₃·growth_D(r) + W₃·r^η) · exp(κ·log₂ r·max(0, x − x₀))

x is the share of the GPU's memory that weights, gradients and activations need at B. Libraries choose convolutions that
need workspace, and slower ones where there is none: above x₀ the time grows faster than the batch, with each doubling.

**Interval:** |log error| ~ q·σ with σ = log₂ r·(c₀ + c₁·(1 − s) + c₂·|s₂ − s₁|) + c₃·max(0, x − x₀), c ≥ 0, and q
conformal by family, on the errors of families that were left out.

Limits: fitted to CNNs in float32 on four GPUs. A library that changes its algorithm between b₂ and b₃ looks like a
steep slope, and one that changes it above b₃ leaves no sign (eight rows of 171 err by more than 20%). The form of the
formula and the start of its fit were chosen on these data; only the fit leaves out the families it is tested on.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from trainfare.estimator.fitting.conformal import conformal_factor
from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile
from trainfare.units import BYTES_PER_GIB

if TYPE_CHECKING:  # a command with one batch size does not need numpy
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PRODUCT_NAMES = ("conv", "matmul")
REACHED_BANDWIDTH = 0.75
"""Share of the nominal bandwidth that is reached by kernels that only move memory."""
KNOWN_SIZES = 3
"""Known batch sizes of a curve in a fit."""
PARTIAL_CURVE_WEIGHT = 0.5
"""Weight of curves that end before the largest batch, or that have only two known sizes."""
MAX_LOG_ERROR = 0.5
"""A larger |log error| counts as this much in a fit: it comes from another algorithm, which no parameter predicts."""
FEW_FAMILIES = 0.7
"""A fit to few families generalises less: q is 1.7 times as large for one family, 1.18 for two, 1.01 for seven. Without
this factor a fit to VGG13 alone covered 76% of three other CNNs; 0.7 was chosen on that one case."""
MIN_EACH_DOUBLING = 0.01
"""Lower bound of c₀: no interval is narrower than run-to-run variation."""
REGULARISATION = 0.2
"""Penalty of a parameter that moved by 1 from the start of the fit, in units of the mean |log error|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBatch:
    """The measured iteration time of one batch size, split into parts where its operators were timed."""

    batch_size: float
    seconds: float
    product_seconds: float | None = None
    other_seconds: float | None = None
    """Device time of the other operators; in the rest of `seconds` the device waits."""

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        require_not_negative(product_seconds=self.product_seconds, other_seconds=self.other_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthParameters:
    """γ, n for rising and falling slopes, s₀, γ of the other operators, η, κ and x₀ of the formula."""

    bend: float = 1.2
    newest_rising: float = 0.65
    newest_falling: float = 0.8
    least_slope: float = 0.05
    other_bend: float = 1.0
    waiting: float = 0.05
    crowded: float = 0.45
    roomy: float = 0.5


SECONDS_ONLY_START = GrowthParameters(bend=1.1, newest_rising=0.8, least_slope=0.1)
"""Start of the fit where only the total time is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadParameters:
    """c₀ to c₃ and q of the formula."""

    each_doubling: float
    room: float
    slopes: float
    crowded: float
    q: float

    @property
    def weights(self) -> tuple[float, float, float, float]:
        return self.each_doubling, self.room, self.slopes, self.crowded


@dataclass(frozen=True, slots=True, kw_only=True)
class LargerBatchFit:
    growth: GrowthParameters
    spread: SpreadParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCurve:
    """Known batch sizes of a program, and the measured time of a larger one."""

    program: str
    family: str
    known: tuple[KnownBatch, ...]
    batch_size: float
    seconds: float
    memory_share: float | None = None
    weight: float = 1.0


# The result of `fit_seconds_only` on 2026-11-17 for 152 settings of ten CNNs on four EC2 types (ddps-lab/profet) and
# the shorter curves inside them. It is used with calibrations that have no such fit of their own.
DEFAULT_LARGER_BATCH_FIT = LargerBatchFit(
    growth=GrowthParameters(
        bend=1.10,
        newest_rising=0.81,
        newest_falling=0.81,
        least_slope=0.15,
        other_bend=1.0,
        waiting=0.05,
        crowded=0.45,
        roomy=0.50,
    ),
    spread=SpreadParameters(each_doubling=0.0118, room=0.0571, slopes=0.0665, crowded=0.228, q=3.94),
)
"""For profiles without operator times."""


def predict_larger_batch(
    known: Sequence[KnownBatch], batch_size: float, fit: LargerBatchFit, *, memory_share: float | None = None
) -> Interval:
    """The iteration time at `batch_size`, which is larger than the known ones.

    `memory_share` is the share of the GPU's memory that is needed at that size; without it memory does not slow the
    iteration down.
    """
    table = _CurveTable([(known, batch_size, memory_share)])
    sigma = float((table.error_features(fit.growth) @ fit.spread.weights)[0])
    return Interval.within_factor(float(table.seconds(fit.growth)[0]), math.exp(fit.spread.q * sigma))


def known_batch(profile: OperatorProfile) -> KnownBatch:
    """The times of a profile by part.

    A profiler may slow kernels down so that they add up to more than the step; then they are scaled to the step.
    """
    device = sum(profile.device_seconds.values())
    scale = _profiler_scale(profile, device)
    products = sum(
        t for name, t in profile.device_seconds.items() if any(word in name.lower() for word in PRODUCT_NAMES)
    )
    return KnownBatch(
        batch_size=profile.batch_size,
        seconds=profile.seconds,
        product_seconds=scale * products,
        other_seconds=scale * (device - products),
    )


def _profiler_scale(profile: OperatorProfile, device_seconds: float) -> float:
    return min(1.0, profile.seconds / device_seconds) if device_seconds else 1.0


def memory_share(profile: OperatorProfile, batch_size: float, gpu: Gpu) -> float:
    """The share of memory that weights, gradients and activations need, from the time of kernels that only move them.

    ReluGrad reads two tensors as large as the output of a layer and writes a third, BiasAddGrad reads one; a plain step
    of gradient descent reads weight and gradient and writes the weight.
    """
    scale = _profiler_scale(profile, sum(profile.device_seconds.values()))
    gib_per_second = scale * REACHED_BANDWIDTH * gpu.memory_gb_per_second * 1e9 / BYTES_PER_GIB

    def gib(name: str) -> float:
        return gib_per_second * profile.device_seconds.get(name, 0.0)

    activations = max(gib("ReluGrad") / 3, gib("BiasAddGrad")) * batch_size / profile.batch_size
    weights = gib("ResourceApplyGradientDescent") / 3
    return (activations + 2 * weights) / gpu.memory_gib


def batch_curves(profiles: Iterable[OperatorProfile], gpus: Mapping[str, Gpu]) -> list[BatchCurve]:
    """The curves of every program at one image side on one machine type."""
    settings: dict[tuple[str, int, str], dict[float, OperatorProfile]] = {}
    for profile in profiles:
        settings.setdefault((profile.program, profile.image_side, profile.vm_type), {})[profile.batch_size] = profile
    curves: list[BatchCurve] = []
    for (program, _, _), by_size in sorted(settings.items()):
        known = {size: known_batch(profile) for size, profile in by_size.items()}
        curves += program_curves(known, by_size, gpus, program=program, family=next(iter(by_size.values())).family)
    return curves


def program_curves(
    known: Mapping[float, KnownBatch],
    profiles: Mapping[float, OperatorProfile],
    gpus: Mapping[str, Gpu],
    *,
    program: str,
    family: str,
) -> list[BatchCurve]:
    """The curve from a program's three smallest batch sizes to its largest, then the shorter curves inside it.

    The memory share is known where the operators of all three were timed and the GPU is known.
    """
    sizes = sorted(known)
    if len(sizes) <= KNOWN_SIZES:
        return []
    longest = (0, len(sizes) - 1)
    inner = {(first, last) for last in range(KNOWN_SIZES, len(sizes)) for first in (0, last - KNOWN_SIZES)} - {longest}

    def curve(first: int, last: int, weight: float) -> BatchCurve:
        given = [known[size] for size in sizes[first : first + KNOWN_SIZES]]
        largest_known = profiles.get(given[-1].batch_size)
        gpu = gpus.get(largest_known.gpu) if largest_known is not None else None
        share = None
        if largest_known is not None and gpu is not None:
            share = memory_share(largest_known, sizes[last], gpu)
        result = BatchCurve(
            program=program,
            family=family,
            known=tuple(given),
            batch_size=sizes[last],
            seconds=known[sizes[last]].seconds,
            memory_share=share,
            weight=weight,
        )
        return result if all(k.product_seconds is not None for k in given) else without_operators([result])[0]

    return [curve(*longest, 1.0), *(curve(first, last, PARTIAL_CURVE_WEIGHT) for first, last in sorted(inner))]


def fit_seconds_only(curves: Sequence[BatchCurve]) -> LargerBatchFit:
    """The fit for profiles that have two or three batch sizes, their seconds and their memory share."""
    plain = [
        replace(bare, memory_share=curve.memory_share)
        for bare, curve in zip(without_operators(curves), curves, strict=True)
    ]
    two_known = [replace(c, known=c.known[-2:], weight=PARTIAL_CURVE_WEIGHT * c.weight) for c in plain]
    return fit_larger_batch([*plain, *two_known])


def fit_larger_batch(curves: Sequence[BatchCurve]) -> LargerBatchFit:
    """Growth by least mean |log error|, regularised to its start; spread from each family left out in turn."""
    if not curves:
        raise ValueError("a fit needs curves")
    seconds_only = any(known.product_seconds is None for curve in curves for known in curve.known)
    start = SECONDS_ONLY_START if seconds_only else GrowthParameters()
    growth = _fit_growth(curves, start)
    families = sorted({curve.family for curve in curves})
    errors: dict[int, float] = {}
    for family in families:
        held_out = [curve for curve in curves if curve.family == family]
        others = [curve for curve in curves if curve.family != family]
        log_errors = _log_errors(held_out, _fit_growth(others, start) if others else growth)
        errors |= {id(curve): float(error) for curve, error in zip(held_out, log_errors, strict=True)}
    return LargerBatchFit(
        growth=growth, spread=_fit_spread(curves, [abs(errors[id(curve)]) for curve in curves], growth)
    )


# ---- the formula


class _CurveTable:
    """Curves as arrays, one row each: known batch sizes, their times by part, and the batch size to predict."""

    def __init__(self, curves: Sequence[tuple[Sequence[KnownBatch], float, float | None]]) -> None:
        import numpy as np

        rows = [_last_three(known) for known, _, _ in curves]
        self._two = np.array([len(row) == 2 for row in rows])
        three = [row if len(row) == 3 else [row[0], *row] for row in rows]
        self._b = np.array([[point.batch_size for point in row] for row in three])
        self._t = np.array([[point.seconds for point in row] for row in three])
        split = np.array([all(p.product_seconds is not None for p in row) for row in three])
        products = np.array([[p.product_seconds or 0.0 for p in row] for row in three])
        self._c = np.where(split[:, None], products, self._t)
        self._d = np.array([[p.other_seconds or 0.0 for p in row] for row in three]) * split[:, None]
        self._waits = np.maximum(0.0, self._t[:, 2] - self._c[:, 2] - self._d[:, 2])
        self._r = np.array([batch for _, batch, _ in curves]) / self._b[:, 2]
        self._x = np.array([share or 0.0 for _, _, share in curves])
        if (self._r < 1).any():
            raise ValueError("the batch size to predict must be larger than those that are known")

    def seconds(self, growth: GrowthParameters) -> "Array":
        import numpy as np

        grown = self._c[:, 2] * self._growth(self._c, growth, growth.bend)
        grown = grown + self._d[:, 2] * self._growth(self._d, growth, growth.other_bend)
        grown = grown + self._waits * self._r**growth.waiting
        seconds: Array = grown * np.exp(growth.crowded * np.log2(self._r) * np.maximum(0.0, self._x - growth.roomy))
        return seconds

    def error_features(self, growth: GrowthParameters) -> "Array":
        """The factors of c₀ to c₃ in σ."""
        import numpy as np

        s1, s2 = self._slopes(self._t, growth.bend)
        doublings = np.log2(self._r)
        room = doublings * (1 - np.clip(s2, 0, 1))
        crowd = np.maximum(0.0, self._x - growth.roomy)
        return np.stack([doublings, room, doublings * np.minimum(1.0, np.abs(s2 - s1)), crowd], axis=1)

    def _growth(self, times: "Array", growth: GrowthParameters, bend: float) -> "Array":
        import numpy as np

        s1, s2 = self._slopes(times, bend)
        n = np.where(s2 > s1, growth.newest_rising, growth.newest_falling)
        s = np.clip(n * s2 + (1 - n) * s1, growth.least_slope, 1.0)
        factor: Array = (1 + s * (self._r**bend - 1)) ** (1 / bend)
        return factor

    def _slopes(self, times: "Array", bend: float) -> "tuple[Array, Array]":
        """s₁ and s₂; with two points both are the only slope."""
        import numpy as np

        u = (self._b / self._b[:, 2:]) ** bend
        z = (times / np.maximum(times[:, 2:], 1e-12)) ** bend
        s2 = (z[:, 2] - z[:, 1]) / (u[:, 2] - u[:, 1])
        s1 = (z[:, 1] - z[:, 0]) / np.where(self._two, 1.0, u[:, 1] - u[:, 0])
        return np.where(self._two, s2, s1), s2


def _last_three(known: Sequence[KnownBatch]) -> list[KnownBatch]:
    points = sorted(known, key=lambda point: point.batch_size)[-3:]
    if len({point.batch_size for point in points}) < max(2, len(points)):
        raise ValueError("growth needs two known batch sizes, each once")
    return points


# ---- the fit


def _table(curves: Sequence[BatchCurve]) -> _CurveTable:
    return _CurveTable([(curve.known, curve.batch_size, curve.memory_share) for curve in curves])


def _log_errors(curves: Sequence[BatchCurve], growth: GrowthParameters) -> "Array":
    import numpy as np

    return np.log(np.array([curve.seconds for curve in curves]) / _table(curves).seconds(growth))


def _fit_growth(curves: Sequence[BatchCurve], start: GrowthParameters) -> GrowthParameters:
    import numpy as np
    from scipy.optimize import minimize

    names = [field.name for field in fields(GrowthParameters)]
    origin = np.array([float(getattr(start, name)) for name in names])
    table, weight = _table(curves), np.array([curve.weight for curve in curves])
    truth = np.log(np.array([curve.seconds for curve in curves]))

    def loss(values: "Array") -> float:
        growth = _within_bounds(dict(zip(names, map(float, values), strict=True)))
        errors = np.minimum(MAX_LOG_ERROR, np.abs(truth - np.log(table.seconds(growth))))
        return float(np.average(errors, weights=weight) + REGULARISATION * np.sum((values - origin) ** 2))

    result = minimize(loss, origin, method="Nelder-Mead", options={"maxfev": 400, "xatol": 1e-3, "fatol": 1e-5})
    return _within_bounds(dict(zip(names, map(float, result.x), strict=True)))


_BOUNDS: Mapping[str, tuple[float, float]] = {
    "bend": (0.8, 2.0),
    "newest_rising": (0.0, 1.2),
    "newest_falling": (0.0, 1.2),
    "least_slope": (0.0, 0.3),
    "other_bend": (0.8, 2.0),
    "waiting": (0.0, 1.0),
    "crowded": (0.0, 2.0),
    "roomy": (0.3, 0.9),
}


def _within_bounds(values: Mapping[str, float]) -> GrowthParameters:
    return GrowthParameters(**{name: min(max(v, _BOUNDS[name][0]), _BOUNDS[name][1]) for name, v in values.items()})


def _fit_spread(curves: Sequence[BatchCurve], errors: Sequence[float], growth: GrowthParameters) -> SpreadParameters:
    """c by non-negative least squares on |log error|, and q so that the intervals hold for a new family."""
    import numpy as np
    from scipy.optimize import nnls

    features = _table(curves).error_features(growth)
    c, _ = nnls(features, np.minimum(MAX_LOG_ERROR, errors))
    c[0] = max(float(c[0]), MIN_EACH_DOUBLING)
    scores = [float(score) for score in np.array(errors) / (features @ c)]
    families = [curve.family for curve in curves]
    q = math.log(conformal_factor(scores, families)) * (1 + FEW_FAMILIES / len(set(families)) ** 2)
    return SpreadParameters(each_doubling=float(c[0]), room=float(c[1]), slopes=float(c[2]), crowded=float(c[3]), q=q)


def without_operators(curves: Iterable[BatchCurve]) -> tuple[BatchCurve, ...]:
    """The same curves with only batch sizes and seconds, as in profiles without operator times."""
    return tuple(
        replace(
            curve,
            memory_share=None,
            known=tuple(KnownBatch(batch_size=k.batch_size, seconds=k.seconds) for k in curve.known),
        )
        for curve in curves
    )
