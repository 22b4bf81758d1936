"""The number of epochs at another batch size, from one, two or more known batch sizes.

    E(B) = A·(1 + B/B_c)          or, in steps of N samples, S(B) = S_min·(1 + B_c/B),   S_min = A·N/B_c

Up to the critical batch size B_c a larger batch needs few additional epochs; above it epochs grow with B, because no
program can do with fewer steps than S_min. B_c is unknown and has a prior (`EpochsPrior`), on a grid of 61 points:

    log S_min ~ N(7.4, 1.1·n)     S_min is less than the known number of steps. The deviation grows with the number n of
                                  known batch sizes, which show B_c by themselves. Left out where N is unknown, and for
                                  programs of fewer than 1,000 steps, such as fine-tuning
    log(B_c/B) ~ t₃(2.0, 1.5)     people choose efficient batch sizes B; B is the geometric mean of the known ones
    E(B) = A                      for one program in four, at every batch size that is tried

A known E differs from the law in its logarithm by σ = s·√(0.036² + 0.062²/r) if it is the mean of r runs. Some programs
vary less than others: s is 0.2, 0.5, 1, 2 or 4, with weights 1 : 2 : 2 : 2 : 1 that the known values update. That an
epoch was counted in integers widens the interval and does not weaken the known values: with it in their weights, a
program of two epochs was predicted by the prior alone. A has a flat prior.

Without evidence the number of epochs stays as it is, and is marked as a guess: with one known batch size and no
gradient noise nothing shows how it changes, and a number that was only stated is the choice of someone. The bounds are
those of the law. A measured number that took at least 1,000 steps follows the law, and is a guess too.

Where the gradient noise scale φ = variance / squared mean was measured at a batch size B0, it gives B_c:

    E(B) = A·Σ_r (a·φ_r + S)/(a·φ_r + 1),   S = B/B0,   log a ~ N(0, 0.7)

with φ_r in each epoch r; with one φ it is the first law with B_c = a·φ·B0. The published measurements scaled the
learning rate by AdaScale, which follows this law exactly; other ways to scale it are less certain.

Both laws assume that the learning rate is adapted to the batch size. More than four times from a known batch size the
answer is only a range. E never falls with B.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfare.estimator.fitting.normal_mixture import NormalPart, mixture_quantile
from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.epochs import EpochsAnswer, EpochsRule

DEGREES_OF_FREEDOM = 3.0
"""Degrees of freedom of Student's t distribution of log(B_c/B): some batch sizes are far from efficient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsPrior:
    """Means and standard deviations of the prior of a program.

    The default values are those of eight public programs (`fit_epochs_prior`).
    """

    steps_mean: float = 7.4
    steps_deviation: float = 1.1
    room_mean: float = 2.0
    room_deviation: float = 1.5
    flat: float = 0.25

    def __post_init__(self) -> None:
        require_positive(steps_deviation=self.steps_deviation, room_deviation=self.room_deviation)
        if not 0 <= self.flat < 1:
            raise ValueError(f"flat must be a share below 1, got {self.flat}")

    def log_weight(self, steps: float | None, room: float) -> float:
        """The log density of log S_min and log(B_c/B), not normalised."""
        steps_z = 0.0 if steps is None else (steps - self.steps_mean) / self.steps_deviation
        room_z = (room - self.room_mean) / self.room_deviation
        return -(steps_z**2) / 2 - (DEGREES_OF_FREEDOM + 1) / 2 * math.log1p(room_z**2 / DEGREES_OF_FREEDOM)


DEFAULT_EPOCHS_PRIOR = EpochsPrior()
NOISE_DEVIATION = 0.7
LAW_NOISE, RUN_NOISE = 0.036, 0.062
"""Standard deviations of the log error of the law, and of one run. NOISE_SCALES has the values of s and their weights.
They were chosen so that the 90% interval covers about 90%, both on four programs with one run per batch size and on
four benchmarks with the mean of ten to a hundred runs (`python -m benchmarks.accuracy --task epochs_other_batch`)."""
NOISE_SCALES = ((0.2, 1 / 8), (0.5, 1 / 4), (1.0, 1 / 4), (2.0, 1 / 4), (4.0, 1 / 8))
GRID_POINTS = 61
MIN_ROOM, MAX_ROOM = -4.0, 10.0
"""Ends of the grid of log(B_c/B)."""
NEGLIGIBLE_WEIGHT = 1e-6
MIN_STEPS = 1000.0
"""Steps below which a program is not one of those from which the prior of S_min was learned: they need 1,600 or more,
fine-tuning of a trained model often a few hundred."""
MEASURED_RULES: tuple[EpochsRule, ...] = ("settled", "early stopping", "target")
"""Rules by which a run showed how many epochs it needs."""
MAX_BATCH_RATIO = 4.0
"""Largest ratio to the nearest known batch size for which a value is given."""

NO_KNOWN_SIZE = "the number of epochs is not known at any batch size"
ACCURACY_WARNING = "larger batches can reach a lower accuracy, however long they train"

Bounds = tuple[float, float, float]
"""Low, value and high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEpochs:
    """The number of epochs that is needed at one effective batch size."""

    batch_size: int
    epochs: float
    gradient_noise: tuple[float, ...] = ()
    """φ at this batch size, once or for each epoch; empty where it was not measured."""
    resolution: float = 0.0
    """The unit in which epochs were counted: 1 for one run that was evaluated after each epoch, 0 for a mean."""
    runs: int = 1
    """The number of runs of which `epochs` is the mean."""
    answer: EpochsAnswer | None = None
    """The estimate from which it comes: it is the answer at this batch size, and its interval widens the others."""

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, epochs=self.epochs, runs=self.runs)
        for noise in self.gradient_noise:
            require_positive(gradient_noise=noise)
        require_not_negative(resolution=self.resolution)

    @classmethod
    def from_answer(
        cls, answer: EpochsAnswer, batch_size: int, gradient_noise: float | None = None
    ) -> "KnownEpochs | None":
        """The epochs by the user, the program, its schedule or its curve; None where the answer has no value."""
        if answer.value is None:
            return None
        noise = (gradient_noise,) if gradient_noise else ()
        return cls(batch_size=batch_size, epochs=answer.value, gradient_noise=noise, resolution=1.0, answer=answer)

    def variance(self, scale: float) -> float:
        """The variance of log E around the law for a noise scale s."""
        return scale**2 * (LAW_NOISE**2 + RUN_NOISE**2 / self.runs)

    @property
    def rounding_variance(self) -> float:
        """The variance of log E because E was counted in units: that of a uniform distribution of one unit."""
        return (self.resolution / self.epochs) ** 2 / 12

    @property
    def is_measured(self) -> bool:
        """True if a run showed that this many epochs are needed; a number that was stated is the choice of someone."""
        return self.answer is None or self.answer.rule in MEASURED_RULES


def epochs_at_batches(
    known: Sequence[KnownEpochs],
    batch_sizes: Iterable[int],
    *,
    samples: int | None = None,
    max_ratio: float = MAX_BATCH_RATIO,
    prior: EpochsPrior = DEFAULT_EPOCHS_PRIOR,
) -> dict[int, EpochsAnswer]:
    """Epochs at each of these batch sizes, in increasing order; never fewer than at a smaller one.

    A batch size with an answer of its own keeps it, and the others lie between their neighbours with an answer: a
    program that needs 30 epochs with batches of 64 needs at least as many with larger ones. Where the known answers
    fall with the batch size, which is noise, those batch sizes share their mean. More than `max_ratio` times from the
    nearest known batch size the answer has no value, only a range; a batch larger than the data set is refused.
    """
    sizes = sorted(set(batch_sizes))
    require_positive(**{f"batch size {size}": size for size in sizes})
    stays = bool(known) and not _shows_growth(known, samples)
    telling = samples if not stays and _steps_tell(known, samples) else None
    posterior = _posterior(known, telling, prior) if known else None
    answered = {k.batch_size: k.answer for k in reversed(known) if k.answer is not None and k.answer.value is not None}
    monotone = _pooled({size: _bounds(answer) for size, answer in answered.items()})
    answers: dict[int, EpochsAnswer] = {}
    for size in sizes:
        refusal = _refused(size, known, samples)
        if refusal or posterior is None:
            answers[size] = refusal or _refusal(size, NO_KNOWN_SIZE)
        elif size in answered:
            low, value, high = monotone[size]
            answers[size] = replace(answered[size], low=low, value=value, high=high, batch_size=size)
        else:
            bounds = posterior.bounds(size)
            bounds = _widened(_unchanged(bounds, known) if stays else bounds, known)
            found = _answer(size, known, _between_neighbours(size, bounds, monotone), max_ratio)
            answers[size] = replace(found, why=_unchanged_why(known)) if stays and found.value is not None else found
    return answers


def is_evidence(known: Sequence[KnownEpochs]) -> bool:
    """True if these known epochs show how the number changes with the batch size: the gradient noise was measured, or
    the epochs at two batch sizes, or someone states different numbers at two of them."""
    if any(k.gradient_noise for k in known):
        return True
    measured = {k.batch_size for k in known if k.is_measured}
    return len(measured) > 1 or (len({k.batch_size for k in known}) > 1 and len({k.epochs for k in known}) > 1)


def _shows_growth(known: Sequence[KnownEpochs], samples: int | None) -> bool:
    """True if the law applies: there is evidence, or at least one measured number of epochs that took many steps, as
    the programs had from which the prior was learned. Otherwise the number of epochs stays as it is: a number that was
    only stated is the choice of someone, and fine-tuning needs few steps whatever the batch size."""
    return is_evidence(known) or (all(k.is_measured for k in known) and _steps_tell(known, samples))


def _unchanged(bounds: Bounds, known: Sequence[KnownEpochs]) -> Bounds:
    """The known number of epochs, with the bounds of the law."""
    value = math.exp(math.fsum(math.log(k.epochs) for k in known) / len(known))
    return min(bounds[0], value), value, max(bounds[2], value)


def _unchanged_why(known: Sequence[KnownEpochs]) -> str:
    sizes = sorted({k.batch_size for k in known})
    return (
        f"epochs are known at batch size{'s' if len(sizes) > 1 else ''} {_listed(sizes)}, and nothing measured shows "
        "how many another size needs: the same number is a guess"
    )


def _answer(batch_size: int, known: Sequence[KnownEpochs], bounds: Bounds, max_ratio: float) -> EpochsAnswer:
    rule: EpochsRule = "gradient noise" if any(k.gradient_noise for k in known) else "other batch sizes"
    low, value, high = bounds
    ratio = min(max(batch_size / k.batch_size, k.batch_size / batch_size) for k in known)
    sizes = sorted({k.batch_size for k in known})
    is_guess = not is_evidence(known)
    warnings = (ACCURACY_WARNING,) if batch_size > sizes[-1] else ()
    at = f"at batch size{'s' if len(sizes) > 1 else ''} {_listed(sizes)}"
    if ratio > max_ratio:
        return EpochsAnswer(
            rule=rule,
            low=low,
            high=high,
            batch_size=batch_size,
            why=f"epochs are known {at}; {batch_size} differs from the nearest by a factor of {ratio:.3g}, and above "
            f"{max_ratio:g} only a range can be estimated. Profile at a batch size between them",
            warnings=warnings,
            is_guess=is_guess,
        )
    return EpochsAnswer(
        rule=rule,
        value=value,
        low=low,
        high=high,
        batch_size=batch_size,
        why=f"epochs are known {at}, and grow with the batch as 1 + B/B_c"
        + (", with the B_c of other programs, which is a guess" if is_guess else "")
        + (", with B_c from the measured gradient noise" if rule == "gradient noise" else ""),
        warnings=warnings,
        is_guess=is_guess,
    )


def _widened(bounds: Bounds, known: Sequence[KnownEpochs]) -> Bounds:
    """The bounds of the law, widened by the intervals of the known answers, which the law takes as exact.

    All known answers are assumed to err together, independently of the law: the logarithms add in quadrature.
    """
    low, value, high = bounds
    intervals = [(k.epochs, _bounds(k.answer)) for k in known if k.answer is not None and not k.answer.refused]
    down = max((math.log(max(1.0, epochs / own[0])) for epochs, own in intervals), default=0.0)
    up = max((math.log(max(1.0, own[2] / epochs)) for epochs, own in intervals), default=0.0)
    return (
        value * math.exp(-math.hypot(down, math.log(value / low))),
        value,
        value * math.exp(math.hypot(up, math.log(high / value))),
    )


def _pooled(answered: Mapping[int, Bounds]) -> dict[int, Bounds]:
    """Monotone bounds: neighbours that fall with the batch size share their geometric mean, until none fall.

    This is isotonic regression by pooling adjacent violators, of low, value and high together.
    """
    groups: list[tuple[list[int], Bounds]] = []
    for size, bounds in sorted(answered.items()):
        sizes, level = [size], bounds
        while groups and any(before > here for before, here in zip(groups[-1][1], level, strict=True)):
            others, theirs = groups.pop()
            share = len(sizes) / (len(sizes) + len(others))
            low, value, high = (y ** (1 - share) * x**share for x, y in zip(level, theirs, strict=True))
            sizes, level = [*others, *sizes], (low, value, high)
        groups.append((sizes, level))
    return {size: level for sizes, level in groups for size in sizes}


def _between_neighbours(batch_size: int, bounds: Bounds, answered: Mapping[int, Bounds]) -> Bounds:
    """The bounds, clipped to the answers of the next smaller and the next larger batch size."""
    smaller = max((size for size in answered if size < batch_size), default=None)
    larger = min((size for size in answered if size > batch_size), default=None)
    lowest = (0.0, 0.0, 0.0) if smaller is None else answered[smaller]
    highest = (math.inf, math.inf, math.inf) if larger is None else answered[larger]
    low, value, high = (min(max(x, a), b) for x, a, b in zip(bounds, lowest, highest, strict=True))
    return low, value, high


def _bounds(answer: EpochsAnswer) -> Bounds:
    if answer.low is None or answer.high is None:
        raise ValueError(f"a refusal has no bounds: {answer.why}")
    return answer.low, answer.value or math.sqrt(answer.low * answer.high), answer.high


def _refused(batch_size: int, known: Sequence[KnownEpochs], samples: int | None) -> EpochsAnswer | None:
    if not known:
        return _refusal(batch_size, NO_KNOWN_SIZE)
    if samples is not None and batch_size > samples:
        return _refusal(batch_size, f"a batch of {batch_size} is larger than the data set of {samples} samples")
    return None


LogCurve = Callable[[float], float]
"""log E(B) − log A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PosteriorPart:
    """A normal distribution of log E around log A + curve(B), for one B_c or a of the grid and one noise scale."""

    curve: int
    """The index of the curve."""
    log_a: float
    """The mean of log A, given the known points."""
    deviation: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posterior:
    """A mixture of normal distributions of log E at any batch size."""

    curves: tuple[LogCurve, ...]
    parts: tuple[_PosteriorPart, ...]

    def bounds(self, batch_size: float) -> Bounds:
        """The 5%, 50% and 95% quantiles. Each part grows with B at constant weights, so none of them falls with B."""
        at = {index: self.curves[index](batch_size) for index in {part.curve for part in self.parts}}
        mixture = [NormalPart(part.weight, part.log_a + at[part.curve], part.deviation) for part in self.parts]
        low, middle, high = (math.exp(mixture_quantile(mixture, p)) for p in (0.05, 0.5, 0.95))
        return low, middle, high


def _posterior(known: Sequence[KnownEpochs], samples: int | None, prior: EpochsPrior) -> _Posterior:
    measured = [k for k in known if k.gradient_noise]
    grid = _noise_grid(measured) if measured else _critical_batch_grid(known, samples, prior)
    log_as = [[math.log(k.epochs) - curve(k.batch_size) for k in known] for _, curve in grid]
    rounding = math.fsum(k.rounding_variance for k in known) / len(known)
    parts: list[tuple[float, _PosteriorPart]] = []
    for scale, share in NOISE_SCALES:
        precisions = [1 / k.variance(scale) for k in known]
        total = math.fsum(precisions)
        # A prediction has the noise of the known values, that of their mean in A, and the rounding of a count.
        deviation = math.sqrt(math.fsum(1 / w for w in precisions) / len(known) + 1 / total + rounding)
        evidence = math.log(share) + (math.fsum(map(math.log, precisions)) - math.log(total)) / 2
        for index, (log_weight, _) in enumerate(grid):
            log_a = math.fsum(w * x for w, x in zip(precisions, log_as[index], strict=True)) / total
            squares = math.fsum(w * (x - log_a) ** 2 for w, x in zip(precisions, log_as[index], strict=True))
            part = _PosteriorPart(curve=index, log_a=log_a, deviation=deviation, weight=1.0)
            parts.append((log_weight + evidence - squares / 2, part))
    weights = _normalised([log for log, _ in parts])
    likely = [
        replace(part, weight=weight)
        for weight, (_, part) in zip(weights, parts, strict=True)
        if weight > NEGLIGIBLE_WEIGHT
    ]
    return _Posterior(curves=tuple(curve for _, curve in grid), parts=tuple(likely))


def _normalised(logs: Sequence[float]) -> list[float]:
    """The exponentials of log weights, scaled to add up to one."""
    top = max(logs)
    weights = [math.exp(log - top) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _noise_grid(measured: Sequence[KnownEpochs]) -> list[tuple[float, LogCurve]]:
    """The log weight and curve of each a on the grid."""
    steps = [6 * i / (GRID_POINTS - 1) - 3 for i in range(GRID_POINTS)]
    return [(-(step**2) / 2, _noise_curve(measured, math.exp(NOISE_DEVIATION * step))) for step in steps]


def _critical_batch_grid(
    known: Sequence[KnownEpochs], samples: int | None, prior: EpochsPrior
) -> list[tuple[float, LogCurve]]:
    """The log weight and curve of each B_c on the grid, then of a flat curve; S_min follows from the mean A at B_c."""
    centre = math.fsum(math.log(k.batch_size) for k in known) / len(known)
    rooms = [_room(index) for index in range(GRID_POINTS)]
    curves = [_critical_batch_curve(math.exp(centre + room)) for room in rooms]
    logs = []
    # Several known batch sizes show B_c by themselves, and S_min counts less.
    prior = replace(prior, steps_deviation=prior.steps_deviation * len({k.batch_size for k in known}))
    for room, curve in zip(rooms, curves, strict=True):
        log_a = math.fsum(math.log(k.epochs) - curve(k.batch_size) for k in known) / len(known)
        steps = None if samples is None else log_a + math.log(samples) - centre - room
        logs.append(prior.log_weight(steps, room))
    growing = [math.log((1 - prior.flat) * weight + 1e-300) for weight in _normalised(logs)]
    return [*zip(growing, curves, strict=True), (math.log(prior.flat + 1e-300), _flat_curve)]


def _steps_tell(known: Sequence[KnownEpochs], samples: int | None) -> bool:
    """True if the number of steps tells something about B_c: of a program that needs at least `MIN_STEPS`."""
    return samples is not None and all(k.epochs * samples / k.batch_size >= MIN_STEPS for k in known)


def posterior_means(known: Sequence[KnownEpochs], samples: int, prior: EpochsPrior) -> tuple[float, float, float]:
    """The posterior of one program: the probability of flat, and the means of log B_c and log S_min otherwise.

    A program of few steps counts too: what is learned is its own S_min, not whether it is like those of others.
    """
    prior = replace(prior, steps_deviation=prior.steps_deviation / len({k.batch_size for k in known}))
    posterior = _posterior([replace(k, gradient_noise=()) for k in known], samples, prior)
    growing = [part for part in posterior.parts if part.curve < GRID_POINTS]
    centre = math.fsum(math.log(k.batch_size) for k in known) / len(known)
    share = math.fsum(part.weight for part in growing)
    log_critical = centre + math.fsum(part.weight * _room(part.curve) for part in growing) / share
    log_a = math.fsum(part.weight * part.log_a for part in growing) / share
    return 1 - share, log_critical, log_a + math.log(samples) - log_critical


def _room(index: int) -> float:
    """log(B_c/B) of a grid point."""
    return MIN_ROOM + (MAX_ROOM - MIN_ROOM) * index / (GRID_POINTS - 1)


def _flat_curve(_: float) -> float:
    return 0.0


def _critical_batch_curve(critical: float) -> LogCurve:
    return lambda batch_size: math.log1p(batch_size / critical)


def _noise_curve(measured: Sequence[KnownEpochs], a: float) -> LogCurve:
    """The mean over the runs with measured noise of log Σ_r (a·φ_r + B/B0)/(a·φ_r + 1)."""

    def curve(batch_size: float) -> float:
        logs = []
        for run in measured:
            s, phis = batch_size / run.batch_size, run.gradient_noise
            logs.append(math.log(math.fsum((a * phi + s) / (a * phi + 1) for phi in phis) / len(phis)))
        return math.fsum(logs) / len(logs)

    return curve


def _refusal(batch_size: int, reason: str) -> EpochsAnswer:
    return EpochsAnswer(rule="other batch sizes", why=reason, batch_size=batch_size)


def _listed(sizes: Sequence[int]) -> str:
    names = [str(size) for size in sizes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
