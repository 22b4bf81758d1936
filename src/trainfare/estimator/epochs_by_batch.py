"""How many epochs at another batch size, from one, two or more that are known.

    E(B) = A·(1 + B/B_c)                                       log E = a + log(1 + B/B_c)

Up to the critical batch size B_c a larger batch costs few epochs more; beyond it epochs grow with B. Nobody knows
B_c, so it is a belief: log(B_c / geometric mean of the known B) ~ N(2.5, 2), on a grid of 61 points over three
deviations to each side. A known E differs from the law in the logarithm by 0.04, by 0.07/√r where it is the mean of r
runs, and by half an epoch where whole ones were counted; A has a flat prior.

Where the noise of the gradient φ = variance / square of the mean was measured at a batch size B0, it gives B_c:

    E(B) = A·Σ_r (a·φ_r + S)/(a·φ_r + 1),   S = B/B0,   log a ~ N(0, 0.7)

with φ_r in each epoch r; one φ makes it the first law with B_c = a·φ·B0. Those who measured it scaled their learning
rate by AdaScale, which follows this very law: with other ways to scale it, less is known.

Both laws presume that the learning rate is adapted to the batch. Farther than four times from what is known only the
range is told. E never falls with B.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.epochs import EpochsAnswer, EpochsRule

CRITICAL_MEAN, CRITICAL_DEVIATION = 2.5, 2.0
NOISE_DEVIATION = 0.7
LAW_NOISE, RUN_NOISE = 0.04, 0.07
"""How far the law is off, and how far one run is from the mean of its like, in the logarithm. With these the 90 %
interval holds nine in ten, on four programs with one run a size as on four benchmarks with the mean of ten to a hundred
(`python -m benchmarks.accuracy --task epochs_other_batch`); the likelihood alone would say 0.05 and 0.05."""
GRID = 61
FARTHEST = 4.0
"""Times larger or smaller than the nearest known batch size."""

ACCURACY = "larger batches can reach a lower accuracy, however long they train"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEpochs:
    """At this batch size, of one iteration over all processes, so many epochs are needed."""

    batch_size: int
    epochs: float
    gradient_noise: tuple[float, ...] = ()
    """φ at this batch size: one, or one an epoch; empty where it was not measured."""
    counted: float = 0.0
    """In steps of so many epochs: 1 where one run was looked at once an epoch, 0 for a mean over many."""
    runs: int = 1
    """Of how many it is the mean."""

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, epochs=self.epochs, runs=self.runs)
        for noise in self.gradient_noise:
            require_positive(gradient_noise=noise)
        require_not_negative(counted=self.counted)

    @property
    def variance(self) -> float:
        """Of log E around the law; a count in whole epochs is off by half of one."""
        return LAW_NOISE**2 + RUN_NOISE**2 / self.runs + (self.counted / 2 / self.epochs) ** 2


def epochs_at_batch_size(
    batch_size: int, known: Sequence[KnownEpochs], *, samples: int | None = None, farthest: float = FARTHEST
) -> EpochsAnswer:
    """The median and the 90 % interval of the belief; only the interval far from what is known.

    `samples` in the data set: a batch cannot be larger.
    """
    require_positive(batch_size=batch_size)
    nearest = min(known, key=lambda k: abs(math.log(k.batch_size / batch_size)), default=None)
    rule: EpochsRule = "gradient noise" if any(k.gradient_noise for k in known) else "other batch sizes"
    if nearest is None:
        return _refusal(batch_size, "at no batch size is it known how many epochs are needed")
    if samples is not None and batch_size > samples:
        return _refusal(batch_size, f"a batch of {batch_size} is larger than the data set of {samples} samples")
    belief = _belief(known)
    low, value, high = (math.exp(belief.quantile(batch_size, p)) for p in (0.05, 0.5, 0.95))
    ratio = max(batch_size / nearest.batch_size, nearest.batch_size / batch_size)
    sizes = sorted({k.batch_size for k in known})
    larger = (ACCURACY,) if batch_size > sizes[-1] else ()
    at = f"at batch size{'s' if len(sizes) > 1 else ''} {_listed(sizes)}"
    if ratio > farthest:
        return EpochsAnswer(
            rule=rule,
            low=low,
            high=high,
            batch_size=batch_size,
            why=f"epochs are known {at}; {batch_size} is {ratio:.3g} times from the nearest, and beyond "
            f"{farthest:g} times only a range can be told. Profile at a batch size between them",
            warnings=larger,
        )
    return EpochsAnswer(
        rule=rule,
        value=value,
        low=low,
        high=high,
        batch_size=batch_size,
        why=f"epochs are known {at}, and grow with the batch as 1 + B/B_c"
        + (", with B_c by the measured noise of the gradient" if rule == "gradient noise" else ""),
        warnings=larger,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Belief:
    """A mixture of normal distributions of log E at any batch size: one for each B_c or a of the grid."""

    shapes: tuple[Callable[[float], float], ...]
    """log E(B) − log A."""
    scales: tuple[float, ...]
    """log A, the mean of what the known points say."""
    weights: tuple[float, ...]
    deviation: float

    def quantile(self, batch_size: float, p: float) -> float:
        """By halving; each part moves up with B and the weights stay, so the quantile never falls with B."""
        means = [scale + shape(batch_size) for shape, scale in zip(self.shapes, self.scales, strict=True)]
        low, high = min(means) - 6 * self.deviation, max(means) + 6 * self.deviation
        for _ in range(40):
            middle = (low + high) / 2
            below = math.fsum(
                weight * (1 + math.erf((middle - mean) / self.deviation / math.sqrt(2))) / 2
                for weight, mean in zip(self.weights, means, strict=True)
            )
            low, high = (middle, high) if below < p else (low, middle)
        return high


def _belief(known: Sequence[KnownEpochs]) -> _Belief:
    centre = math.exp(math.fsum(math.log(k.batch_size) for k in known) / len(known))
    measured = [k for k in known if k.gradient_noise]
    steps = [6 * i / (GRID - 1) - 3 for i in range(GRID)]
    if measured:
        shapes = [_with_noise(measured, math.exp(NOISE_DEVIATION * step)) for step in steps]
    else:
        critical = [centre * math.exp(CRITICAL_MEAN + CRITICAL_DEVIATION * step) for step in steps]
        shapes = [_with_critical(size) for size in critical]
    surety = [1 / k.variance for k in known]
    scales, logs = [], []
    for shape, step in zip(shapes, steps, strict=True):
        apart = [math.log(k.epochs) - shape(k.batch_size) for k in known]
        scale = math.fsum(w * x for w, x in zip(surety, apart, strict=True)) / math.fsum(surety)
        scales.append(scale)
        logs.append(-(step**2) / 2 - math.fsum(w * (x - scale) ** 2 for w, x in zip(surety, apart, strict=True)) / 2)
    top = max(logs)
    weights = [math.exp(log - top) for log in logs]
    total = math.fsum(weights)
    return _Belief(
        shapes=tuple(shapes),
        scales=tuple(scales),
        weights=tuple(weight / total for weight in weights),
        # What is foretold has the noise of what is known, and A that of their mean.
        deviation=math.sqrt(math.fsum(k.variance for k in known) / len(known) + 1 / math.fsum(surety)),
    )


def _with_critical(critical: float) -> Callable[[float], float]:
    return lambda batch_size: math.log1p(batch_size / critical)


def _with_noise(measured: Sequence[KnownEpochs], a: float) -> Callable[[float], float]:
    """The mean over the runs whose noise was measured of log Σ_r (a·φ_r + B/B0)/(a·φ_r + 1)."""

    def shape(batch_size: float) -> float:
        logs = []
        for run in measured:
            s, phis = batch_size / run.batch_size, run.gradient_noise
            logs.append(math.log(math.fsum((a * phi + s) / (a * phi + 1) for phi in phis) / len(phis)))
        return math.fsum(logs) / len(logs)

    return shape


def _refusal(batch_size: int, reason: str) -> EpochsAnswer:
    return EpochsAnswer(rule="other batch sizes", why=reason, batch_size=batch_size)


def _listed(sizes: Sequence[int]) -> str:
    names = [str(size) for size in sizes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
