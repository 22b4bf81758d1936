"""The time of an iteration at a larger batch than any that was measured, from the growth that was seen so far.

Of two or three known batch sizes b₁ < b₂ < b₃ with times t, each part of the time grows from b₃ to B = r·b₃ by

    growth(r) = (1 + s·(r^γ − 1))^(1/γ),     s = clip(n·s₂ + (1 − n)·s₁, s₀, 1)

s₁ and s₂ are the slopes of (t/t₃)^γ over (b/b₃)^γ between the first two and the last two: 0 where the device had room
to spare, 1 where time was proportional. γ = 1 is a line; γ > 1 bends it, as work that hid behind a floor comes out. The
last slope tells more than the one before, and more so where they rise: n differs for rising and falling slopes.

Where the operators of each known batch were timed, products (convolutions and those of matrices), the other operators
and the time that the device waits each grow by their own, waiting by r^η. Where not, all of the time grows as one.

    T(B) = (C₃·growth_C(r) + D₃·growth_D(r) + W₃·r^η) · exp(κ·log₂ r·max(0, x − x₀))

x is the share of the GPU's memory that weights, gradients and activations need at B. Libraries choose convolutions that
want workspace, and slower ones where there is none: past x₀ the time grows faster than the batch, with each doubling.

**How sure:** |log error| ~ q·σ with σ = log₂ r·(c₀ + c₁·(1 − s) + c₂·|s₂ − s₁|) + c₃·max(0, x − x₀), c ≥ 0, and q
conformal by family on errors of families that were left out.

Limits: CNNs in float32 on four GPUs; a library that changes its algorithm between b₂ and b₃ looks like a steep slope,
and one that changes it past b₃ like nothing at all (eight rows of 171 err by more than 20 %). The form of the formula
and where its fit starts were chosen in sight of these data; only the fit leaves out the families it is judged on.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from trainfare.estimator.fitting.conformal import conformal_factor
from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile
from trainfare.units import BYTES_PER_GIB

if TYPE_CHECKING:  # a command that asks for one batch size alone need not wait for numpy
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PRODUCTS = ("conv", "matmul")
REACHED_BANDWIDTH = 0.75
"""Of the nominal one, by kernels that only move memory."""
GIVEN = 3
"""Known batch sizes of a curve to learn from."""
SHORTER = 0.5
"""The weight of curves that end before the largest batch, or start from two known ones."""
WORST = 0.5
"""|log error| that counts in a fit: beyond it a row is a library's surprise, and no parameter helps."""
FEW_FAMILIES = 0.7
"""One family says little of the next: q is 1.7 times as large from one, 1.18 from two, 1.01 from seven. Without it a
fit on VGG13 alone held 76 % of three other CNNs; 0.7 was chosen by that one case."""
LEAST_EACH_DOUBLING = 0.01
"""c₀: however well rows fit, no doubling is surer than repeats are."""
PULL = 0.2
"""How strongly a fit holds to the start: the penalty of a parameter that moved by 1, as a mean |log error|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBatch:
    """One measured batch size: seconds of an iteration, split where its operators were timed."""

    batch_size: float
    seconds: float
    product_seconds: float | None = None
    other_seconds: float | None = None
    """Of the device; what is left to `seconds` it waits."""

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        require_not_negative(product_seconds=self.product_seconds, other_seconds=self.other_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """γ, n for rising and falling slopes, s₀, γ of the other operators, η, κ and x₀ of the formula."""

    bend: float = 1.2
    newest_rising: float = 0.65
    newest_falling: float = 0.8
    least_slope: float = 0.05
    other_bend: float = 1.0
    waiting: float = 0.05
    crowded: float = 0.45
    roomy: float = 0.5


WHOLE = Growth(bend=1.1, newest_rising=0.8, least_slope=0.1)
"""Where to start from where only the whole time is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
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
    growth: Growth
    spread: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Known batch sizes and what one larger took."""

    program: str
    family: str
    known: tuple[KnownBatch, ...]
    batch_size: float
    seconds: float
    held_share: float | None = None
    weight: float = 1.0


# What `fit_seconds_alone` made on 2026-11-17 of 152 settings of ten CNNs on four EC2 types (ddps-lab/profet) and the
# shorter curves inside of them. A calibration has its own; this is for those made before it had.
SHIPPED = LargerBatchFit(
    growth=Growth(
        bend=1.10,
        newest_rising=0.81,
        newest_falling=0.81,
        least_slope=0.15,
        other_bend=1.0,
        waiting=0.05,
        crowded=0.45,
        roomy=0.50,
    ),
    spread=Spread(each_doubling=0.0118, room=0.0571, slopes=0.0665, crowded=0.228, q=3.94),
)
"""For seconds alone."""


def larger_batch(
    known: Sequence[KnownBatch], batch_size: float, fit: LargerBatchFit, *, held_share: float | None = None
) -> Interval:
    """Seconds of an iteration with `batch_size`, which is beyond those that are known.

    `held_share` is how much of the GPU's memory it needs there; without it memory is taken to be plenty.
    """
    table = _Table([(known, batch_size, held_share)])
    sigma = float((table.signs(fit.growth) @ fit.spread.weights)[0])
    return Interval.within_factor(float(table.seconds(fit.growth)[0]), math.exp(fit.spread.q * sigma))


def known_batch(profile: OperatorProfile) -> KnownBatch:
    """Where a profiler slows the kernels down they sum up to more than the step took: then they share the step."""
    device = sum(profile.device_seconds.values())
    true = min(1.0, profile.seconds / device) if device else 1.0
    products = sum(t for name, t in profile.device_seconds.items() if any(word in name.lower() for word in PRODUCTS))
    return KnownBatch(
        batch_size=profile.batch_size,
        seconds=profile.seconds,
        product_seconds=true * products,
        other_seconds=true * (device - products),
    )


def held_share(profile: OperatorProfile, batch_size: float, gpu: Gpu) -> float:
    """The share of memory that weights, gradients and activations need, told by the time of those who only move them.

    ReluGrad reads two tensors as large as what a layer keeps and writes a third, BiasAddGrad reads one; a plain step
    of gradient descent reads weight and gradient and writes the weight.
    """
    device = sum(profile.device_seconds.values())
    true = min(1.0, profile.seconds / device) if device else 1.0
    moved = true * REACHED_BANDWIDTH * gpu.memory_gb_per_second * 1e9 / BYTES_PER_GIB

    def gib(name: str) -> float:
        return moved * profile.device_seconds.get(name, 0.0)

    activations = max(gib("ReluGrad") / 3, gib("BiasAddGrad")) * batch_size / profile.batch_size
    weights = gib("ResourceApplyGradientDescent") / 3
    return (activations + 2 * weights) / gpu.memory_gib


def curves_of(profiles: Iterable[OperatorProfile], gpus: Mapping[str, Gpu]) -> list[Curve]:
    """Of every program at one image side on one machine type, all that its timed batch sizes tell."""
    settings: dict[tuple[str, int, str], dict[float, OperatorProfile]] = {}
    for profile in profiles:
        settings.setdefault((profile.program, profile.image_side, profile.vm_type), {})[profile.batch_size] = profile
    found: list[Curve] = []
    for (program, _, _), of in sorted(settings.items()):
        known = {size: known_batch(profile) for size, profile in of.items()}
        found += curves_in(known, of, gpus, program=program, family=next(iter(of.values())).family)
    return found


def curves_in(
    known: Mapping[float, KnownBatch],
    profiles: Mapping[float, OperatorProfile],
    gpus: Mapping[str, Gpu],
    *,
    program: str,
    family: str,
) -> list[Curve]:
    """One program's: from its three smallest batch sizes to its largest; then the shorter ones inside of it.

    What is held is known where all three have their operators timed and the GPU is known.
    """
    sizes = sorted(known)
    if len(sizes) <= GIVEN:
        return []
    whole = (0, len(sizes) - 1)
    inner = {(first, asked) for asked in range(GIVEN, len(sizes)) for first in (0, asked - GIVEN)} - {whole}

    def curve(first: int, asked: int, weight: float) -> Curve:
        given = [known[size] for size in sizes[first : first + GIVEN]]
        last = profiles.get(given[-1].batch_size)
        gpu = gpus.get(last.gpu) if last is not None else None
        found = Curve(
            program=program,
            family=family,
            known=tuple(given),
            batch_size=sizes[asked],
            seconds=known[sizes[asked]].seconds,
            held_share=held_share(last, sizes[asked], gpu) if last is not None and gpu is not None else None,
            weight=weight,
        )
        return found if all(k.product_seconds is not None for k in given) else without_operators([found])[0]

    return [curve(*whole, 1.0), *(curve(first, asked, SHORTER) for first, asked in sorted(inner))]


def fit_seconds_alone(curves: Sequence[Curve]) -> LargerBatchFit:
    """For plain profiles, which have two or three batch sizes, their seconds, and how much memory is held."""
    plain = [replace(one, held_share=of.held_share) for one, of in zip(without_operators(curves), curves, strict=True)]
    return fit_larger_batch([*plain, *(replace(c, known=c.known[-2:], weight=SHORTER * c.weight) for c in plain)])


def fit_larger_batch(curves: Sequence[Curve]) -> LargerBatchFit:
    """Growth by least |log error|, held to its start; spread from families that were left out in turn."""
    if not curves:
        raise ValueError("a fit needs curves")
    start = WHOLE if any(one.product_seconds is None for c in curves for one in c.known) else Growth()
    growth = _fit_growth(curves, start)
    families = sorted({curve.family for curve in curves})
    errors: dict[int, float] = {}
    for family in families:
        apart = [curve for curve in curves if curve.family == family]
        others = [curve for curve in curves if curve.family != family]
        found = _errors(apart, _fit_growth(others, start) if others else growth)
        errors |= {id(curve): float(error) for curve, error in zip(apart, found, strict=True)}
    return LargerBatchFit(
        growth=growth, spread=_fit_spread(curves, [abs(errors[id(curve)]) for curve in curves], growth)
    )


# ---- the formula


class _Table:
    """Questions as columns, one row each: known batch sizes, their times by part, and the batch that is asked for."""

    def __init__(self, questions: Sequence[tuple[Sequence[KnownBatch], float, float | None]]) -> None:
        import numpy as np

        rows = [_in_order(known) for known, _, _ in questions]
        self._two = np.array([len(row) == 2 for row in rows])
        three = [row if len(row) == 3 else [row[0], *row] for row in rows]
        self._b = np.array([[point.batch_size for point in row] for row in three])
        self._t = np.array([[point.seconds for point in row] for row in three])
        split = np.array([all(p.product_seconds is not None for p in row) for row in three])
        products = np.array([[p.product_seconds or 0.0 for p in row] for row in three])
        self._c = np.where(split[:, None], products, self._t)
        self._d = np.array([[p.other_seconds or 0.0 for p in row] for row in three]) * split[:, None]
        self._waits = np.maximum(0.0, self._t[:, 2] - self._c[:, 2] - self._d[:, 2])
        self._r = np.array([batch for _, batch, _ in questions]) / self._b[:, 2]
        self._x = np.array([held or 0.0 for _, _, held in questions])
        if (self._r < 1).any():
            raise ValueError("a batch size that is asked for must be beyond those that are known")

    def seconds(self, growth: Growth) -> "Array":
        import numpy as np

        grown = self._c[:, 2] * self._grown(self._c, growth, growth.bend)
        grown = grown + self._d[:, 2] * self._grown(self._d, growth, growth.other_bend)
        grown = grown + self._waits * self._r**growth.waiting
        found: Array = grown * np.exp(growth.crowded * np.log2(self._r) * np.maximum(0.0, self._x - growth.roomy))
        return found

    def signs(self, growth: Growth) -> "Array":
        """What c₀ to c₃ are multiplied with."""
        import numpy as np

        s1, s2 = self._slopes(self._t, growth.bend)
        doublings = np.log2(self._r)
        room = doublings * (1 - np.clip(s2, 0, 1))
        crowd = np.maximum(0.0, self._x - growth.roomy)
        return np.stack([doublings, room, doublings * np.minimum(1.0, np.abs(s2 - s1)), crowd], axis=1)

    def _grown(self, times: "Array", growth: Growth, bend: float) -> "Array":
        import numpy as np

        s1, s2 = self._slopes(times, bend)
        n = np.where(s2 > s1, growth.newest_rising, growth.newest_falling)
        s = np.clip(n * s2 + (1 - n) * s1, growth.least_slope, 1.0)
        found: Array = (1 + s * (self._r**bend - 1)) ** (1 / bend)
        return found

    def _slopes(self, times: "Array", bend: float) -> "tuple[Array, Array]":
        """s₁ and s₂; of two points both are the one that there is."""
        import numpy as np

        u = (self._b / self._b[:, 2:]) ** bend
        z = (times / np.maximum(times[:, 2:], 1e-12)) ** bend
        s2 = (z[:, 2] - z[:, 1]) / (u[:, 2] - u[:, 1])
        s1 = (z[:, 1] - z[:, 0]) / np.where(self._two, 1.0, u[:, 1] - u[:, 0])
        return np.where(self._two, s2, s1), s2


def _in_order(known: Sequence[KnownBatch]) -> list[KnownBatch]:
    points = sorted(known, key=lambda one: one.batch_size)[-3:]
    if len({point.batch_size for point in points}) < max(2, len(points)):
        raise ValueError("growth needs two known batch sizes, each once")
    return points


# ---- the fit


def _table(curves: Sequence[Curve]) -> _Table:
    return _Table([(curve.known, curve.batch_size, curve.held_share) for curve in curves])


def _errors(curves: Sequence[Curve], growth: Growth) -> "Array":
    import numpy as np

    return np.log(np.array([curve.seconds for curve in curves]) / _table(curves).seconds(growth))


def _fit_growth(curves: Sequence[Curve], start: Growth) -> Growth:
    import numpy as np
    from scipy.optimize import minimize

    names = [field.name for field in fields(Growth)]
    origin = np.array([float(getattr(start, name)) for name in names])
    table, weight = _table(curves), np.array([curve.weight for curve in curves])
    truth = np.log(np.array([curve.seconds for curve in curves]))

    def loss(values: Any) -> float:
        growth = _bounded(dict(zip(names, map(float, values), strict=True)))
        lost = np.minimum(WORST, np.abs(truth - np.log(table.seconds(growth))))
        return float(np.average(lost, weights=weight) + PULL * np.sum((values - origin) ** 2))

    found = minimize(loss, origin, method="Nelder-Mead", options={"maxfev": 400, "xatol": 1e-3, "fatol": 1e-5})
    return _bounded(dict(zip(names, map(float, found.x), strict=True)))


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


def _bounded(values: Mapping[str, float]) -> Growth:
    return Growth(**{name: min(max(v, _BOUNDS[name][0]), _BOUNDS[name][1]) for name, v in values.items()})


def _fit_spread(curves: Sequence[Curve], errors: Sequence[float], growth: Growth) -> Spread:
    """c by non-negative least squares on |log error|, q so that the intervals hold for a new family."""
    import numpy as np
    from scipy.optimize import nnls

    signs = _table(curves).signs(growth)
    c, _ = nnls(signs, np.minimum(WORST, errors))
    c[0] = max(float(c[0]), LEAST_EACH_DOUBLING)
    scores = [float(score) for score in np.array(errors) / (signs @ c)]
    families = [curve.family for curve in curves]
    q = math.log(conformal_factor(scores, families)) * (1 + FEW_FAMILIES / len(set(families)) ** 2)
    return Spread(each_doubling=float(c[0]), room=float(c[1]), slopes=float(c[2]), crowded=float(c[3]), q=q)


def without_operators(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """The same with nothing but seconds, as plain profiles have them."""
    return tuple(
        replace(
            curve,
            held_share=None,
            known=tuple(KnownBatch(batch_size=k.batch_size, seconds=k.seconds) for k in curve.known),
        )
        for curve in curves
    )
