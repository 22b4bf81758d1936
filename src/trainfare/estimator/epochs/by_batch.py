"""How many epochs at another batch size, from one, two or more that are known.

    E(B) = A·(1 + B/B_c)          or, in steps of N samples, S(B) = S_min·(1 + B_c/B),   S_min = A·N/B_c

Up to the critical batch size B_c a larger batch costs few epochs more; beyond it epochs grow with B, for no program
gets by with fewer steps than S_min. Nobody knows B_c, so it is a belief (`EpochsPrior`), on a grid of 61 points:

    log S_min ~ N(7.5, 1.05)      a program that is known to take S steps has S_min < S; left out where N is unknown
    log(B_c/B) ~ t₃(2.0, 1.45)    people choose batches B that pay; B is the geometric mean of the known ones
    E(B) = A                      for one program in four, at every size that anybody tries

A known E differs from the law in the logarithm by σ = s·√(0.036² + 0.062²/r) where it is the mean of r runs, and by
half an epoch where whole ones were counted. Some programs are smoother than others: s is 0.35, 1 or 2.8, with weights
1 : 4 : 1, and what is known tells which. A has a flat prior.

Where the noise of the gradient φ = variance / square of the mean was measured at a batch size B0, it gives B_c:

    E(B) = A·Σ_r (a·φ_r + S)/(a·φ_r + 1),   S = B/B0,   log a ~ N(0, 0.7)

with φ_r in each epoch r; one φ makes it the first law with B_c = a·φ·B0. Those who measured it scaled their learning
rate by AdaScale, which follows this very law: with other ways to scale it, less is known.

Both laws presume that the learning rate is adapted to the batch. Farther than four times from what is known only the
range is told. E never falls with B.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.epochs import EpochsAnswer, EpochsRule

DEGREES = 3.0
"""Of freedom of Student's t: some choose batches that are far from what pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsPrior:
    """Of a program about which nothing is known but its steps: means and deviations of the formula.

    The numbers are those of eight public programs together (`fit_epochs_prior`).
    """

    steps_mean: float = 7.5
    steps_deviation: float = 1.05
    room_mean: float = 2.0
    room_deviation: float = 1.45
    flat: float = 0.25

    def __post_init__(self) -> None:
        require_positive(steps_deviation=self.steps_deviation, room_deviation=self.room_deviation)
        if not 0 <= self.flat < 1:
            raise ValueError(f"flat must be a share below 1, got {self.flat}")

    def log_weight(self, steps: float | None, room: float) -> float:
        """Of log S_min and log B_c/B; not normalised."""
        far = 0.0 if steps is None else (steps - self.steps_mean) / self.steps_deviation
        odd = (room - self.room_mean) / self.room_deviation
        return -(far**2) / 2 - (DEGREES + 1) / 2 * math.log1p(odd**2 / DEGREES)


SHIPPED = EpochsPrior()
NOISE_DEVIATION = 0.7
LAW_NOISE, RUN_NOISE = 0.036, 0.062
"""How far the law is off, and how far one run is from the mean of its like, in the logarithm; and, below, how many
times that a program may be, with the weights of Gauss and Hermite for a deviation of 0.6. Chosen so that the 90 %
interval holds about nine in ten, on four programs with one run a size as on four benchmarks with the mean of ten to a
hundred (`python -m benchmarks.accuracy --task epochs_other_batch`)."""
SMOOTHNESS = ((0.354, 1 / 6), (1.0, 2 / 3), (2.83, 1 / 6))
GRID = 61
LEAST_ROOM, MOST_ROOM = -4.0, 10.0
"""Ends of the grid of log B_c/B."""
NEGLIGIBLE = 1e-6
FARTHEST = 4.0
"""Times larger or smaller than the nearest known batch size."""

UNKNOWN = "at no batch size is it known how many epochs are needed"
ACCURACY = "larger batches can reach a lower accuracy, however long they train"

Ends = tuple[float, float, float]
"""Low, value and high."""


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
    told: EpochsAnswer | None = None
    """Who says so, and how surely: at this size it is the answer, and its ends pass through to other sizes."""

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, epochs=self.epochs, runs=self.runs)
        for noise in self.gradient_noise:
            require_positive(gradient_noise=noise)
        require_not_negative(counted=self.counted)

    @classmethod
    def of(cls, told: EpochsAnswer, batch_size: int, gradient_noise: float | None = None) -> "KnownEpochs | None":
        """What you, the program, its schedule or its curve say at `batch_size`; None where they give no number."""
        if told.value is None:
            return None
        noise = (gradient_noise,) if gradient_noise else ()
        return cls(batch_size=batch_size, epochs=told.value, gradient_noise=noise, counted=1.0, told=told)

    def variance(self, times: float) -> float:
        """Of log E around the law, for a program that is so many times as rough as others; a count in whole epochs is
        off by half of one."""
        return times**2 * (LAW_NOISE**2 + RUN_NOISE**2 / self.runs) + (self.counted / 2 / self.epochs) ** 2


def epochs_at_batches(
    known: Sequence[KnownEpochs],
    batch_sizes: Iterable[int],
    *,
    samples: int | None = None,
    farthest: float = FARTHEST,
    belief: EpochsPrior = SHIPPED,
) -> dict[int, EpochsAnswer]:
    """Epochs at each of these batch sizes, from small to large; never fewer than at a smaller one.

    A size that is `told` keeps what was told, and the others lie between those that are told to both sides of them:
    who needs 30 epochs in batches of 64 needs at least as many in larger ones. Where what was told falls with the
    batch, that is chance, and those sizes share their mean. Beyond `farthest` times from the nearest known size there
    is no value, only the ends; a batch larger than the data set is refused.
    """
    sizes = sorted(set(batch_sizes))
    require_positive(**{f"batch size {size}": size for size in sizes})
    posterior = _posterior(known, samples, belief) if known else None
    told = {k.batch_size: k.told for k in reversed(known) if k.told is not None and k.told.value is not None}
    levels = _levelled({size: _ends_of(answer) for size, answer in told.items()})
    answers: dict[int, EpochsAnswer] = {}
    for size in sizes:
        refusal = _refused(size, known, samples)
        if refusal or posterior is None:
            answers[size] = refusal or _refusal(size, UNKNOWN)
        elif size in told:
            low, value, high = levels[size]
            answers[size] = replace(told[size], low=low, value=value, high=high, batch_size=size)
        else:
            ends = _widened(posterior.ends(size), known)
            answers[size] = _answer(size, known, _between(size, ends, levels), farthest)
    return answers


def _answer(batch_size: int, known: Sequence[KnownEpochs], ends: Ends, farthest: float) -> EpochsAnswer:
    rule: EpochsRule = "gradient noise" if any(k.gradient_noise for k in known) else "other batch sizes"
    low, value, high = ends
    ratio = min(max(batch_size / k.batch_size, k.batch_size / batch_size) for k in known)
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


def _widened(ends: Ends, known: Sequence[KnownEpochs]) -> Ends:
    """The law takes known epochs for facts; where they are beliefs, their ends pass through in its ends.

    As if all erred together and by chance with the law: the logarithms of both add in squares.
    """
    low, value, high = ends
    told = [(k.epochs, _ends_of(k.told)) for k in known if k.told is not None and not k.told.refused]
    down = max((math.log(max(1.0, epochs / of[0])) for epochs, of in told), default=0.0)
    up = max((math.log(max(1.0, of[2] / epochs)) for epochs, of in told), default=0.0)
    return (
        value * math.exp(-math.hypot(down, math.log(value / low))),
        value,
        value * math.exp(math.hypot(up, math.log(high / value))),
    )


def _levelled(told: Mapping[int, Ends]) -> dict[int, Ends]:
    """Neighbours of which the larger batch has fewer epochs share their geometric means, until none is left."""
    groups: list[tuple[list[int], Ends]] = []
    for size, ends in sorted(told.items()):
        sizes, level = [size], ends
        while groups and any(before > here for before, here in zip(groups[-1][1], level, strict=True)):
            others, theirs = groups.pop()
            share = len(sizes) / (len(sizes) + len(others))
            low, value, high = (y ** (1 - share) * x**share for x, y in zip(level, theirs, strict=True))
            sizes, level = [*others, *sizes], (low, value, high)
        groups.append((sizes, level))
    return {size: level for sizes, level in groups for size in sizes}


def _between(batch_size: int, ends: Ends, told: Mapping[int, Ends]) -> Ends:
    """Neither below what is told of the next smaller size nor above what is told of the next larger."""
    smaller = max((size for size in told if size < batch_size), default=None)
    larger = min((size for size in told if size > batch_size), default=None)
    least = (0.0, 0.0, 0.0) if smaller is None else told[smaller]
    most = (math.inf, math.inf, math.inf) if larger is None else told[larger]
    low, value, high = (min(max(x, a), b) for x, a, b in zip(ends, least, most, strict=True))
    return low, value, high


def _ends_of(answer: EpochsAnswer) -> Ends:
    if answer.low is None or answer.high is None:
        raise ValueError(f"a refusal has no ends: {answer.why}")
    return answer.low, answer.value or math.sqrt(answer.low * answer.high), answer.high


def _refused(batch_size: int, known: Sequence[KnownEpochs], samples: int | None) -> EpochsAnswer | None:
    if not known:
        return _refusal(batch_size, UNKNOWN)
    if samples is not None and batch_size > samples:
        return _refusal(batch_size, f"a batch of {batch_size} is larger than the data set of {samples} samples")
    return None


Shape = Callable[[float], float]
"""log E(B) − log A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """log E is normal around log A + shape(B): one for each B_c or a of the grid, and each smoothness."""

    place: int
    """Of its shape."""
    log_a: float
    """The mean of what the known points say."""
    deviation: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posterior:
    """A mixture of normal distributions of log E at any batch size."""

    shapes: tuple[Shape, ...]
    parts: tuple[_Part, ...]

    def ends(self, batch_size: float) -> Ends:
        """Epochs at 5, 50 and 95 %. Each part moves up with B and the weights stay, so none of them falls with B."""
        at = {place: self.shapes[place](batch_size) for place in {part.place for part in self.parts}}
        means = [part.log_a + at[part.place] for part in self.parts]
        low, middle, high = (math.exp(self._quantile(means, p)) for p in (0.05, 0.5, 0.95))
        return low, middle, high

    def _quantile(self, means: Sequence[float], p: float) -> float:
        """By Newton's steps, and by halving where one would leave what is left."""
        widest = max(part.deviation for part in self.parts)
        low, high = min(means) - 2 * widest, max(means) + 2 * widest
        found = (low + high) / 2
        rows = [(p.weight, mean, 1 / (p.deviation * math.sqrt(2))) for p, mean in zip(self.parts, means, strict=True)]
        while high - low > 1e-12:
            z = [(found - mean) * scale for _, mean, scale in rows]
            missed = sum(row[0] * math.erf(x) for row, x in zip(rows, z, strict=True)) - (2 * p - 1)
            low, high = (found, high) if missed < 0 else (low, found)
            density = sum(row[0] * row[2] * math.exp(-x * x) for row, x in zip(rows, z, strict=True))
            step = missed * math.sqrt(math.pi) / 2 / density if density else math.inf
            if abs(step) < 1e-12:
                break
            found = found - step if low < found - step < high else (low + high) / 2
        return found


def _posterior(known: Sequence[KnownEpochs], samples: int | None, belief: EpochsPrior) -> _Posterior:
    measured = [k for k in known if k.gradient_noise]
    prior = _by_noise(measured) if measured else _by_belief(known, samples, belief)
    apart = [[math.log(k.epochs) - shape(k.batch_size) for k in known] for _, shape in prior]
    found: list[tuple[float, _Part]] = []
    for times, share in SMOOTHNESS:
        surety = [1 / k.variance(times) for k in known]
        total = math.fsum(surety)
        # What is foretold has the noise of what is known, and A that of their mean.
        deviation = math.sqrt(math.fsum(1 / w for w in surety) / len(known) + 1 / total)
        evidence = math.log(share) + (math.fsum(map(math.log, surety)) - math.log(total)) / 2
        for place, (log_weight, _) in enumerate(prior):
            log_a = math.fsum(w * x for w, x in zip(surety, apart[place], strict=True)) / total
            missed = math.fsum(w * (x - log_a) ** 2 for w, x in zip(surety, apart[place], strict=True))
            part = _Part(place=place, log_a=log_a, deviation=deviation, weight=1.0)
            found.append((log_weight + evidence - missed / 2, part))
    weights = _shares([log for log, _ in found])
    parts = [replace(part, weight=share) for share, (_, part) in zip(weights, found, strict=True) if share > NEGLIGIBLE]
    return _Posterior(shapes=tuple(shape for _, shape in prior), parts=tuple(parts))


def _shares(logs: Sequence[float]) -> list[float]:
    top = max(logs)
    weights = [math.exp(log - top) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _by_noise(measured: Sequence[KnownEpochs]) -> list[tuple[float, Shape]]:
    """Each a with the logarithm of its weight."""
    steps = [6 * i / (GRID - 1) - 3 for i in range(GRID)]
    return [(-(step**2) / 2, _with_noise(measured, math.exp(NOISE_DEVIATION * step))) for step in steps]


def _by_belief(known: Sequence[KnownEpochs], samples: int | None, belief: EpochsPrior) -> list[tuple[float, Shape]]:
    """Each B_c with the logarithm of its weight, and none at all; S_min is by the mean A that goes with B_c."""
    centre = math.fsum(math.log(k.batch_size) for k in known) / len(known)
    rooms = [_room(place) for place in range(GRID)]
    shapes = [_with_critical(math.exp(centre + room)) for room in rooms]
    logs = []
    for room, shape in zip(rooms, shapes, strict=True):
        log_a = math.fsum(math.log(k.epochs) - shape(k.batch_size) for k in known) / len(known)
        steps = None if samples is None else log_a + math.log(samples) - centre - room
        logs.append(belief.log_weight(steps, room))
    grows = [math.log((1 - belief.flat) * share + 1e-300) for share in _shares(logs)]
    return [*zip(grows, shapes, strict=True), (math.log(belief.flat + 1e-300), _flat)]


def believed(known: Sequence[KnownEpochs], samples: int, belief: EpochsPrior) -> tuple[float, float, float]:
    """What the known sizes of one program make of a belief: the share of flat, and where not flat the means of
    log B_c and of log S_min."""
    found = _posterior([replace(k, gradient_noise=()) for k in known], samples, belief)
    growing = [part for part in found.parts if part.place < GRID]
    centre = math.fsum(math.log(k.batch_size) for k in known) / len(known)
    share = math.fsum(part.weight for part in growing)
    log_critical = centre + math.fsum(part.weight * _room(part.place) for part in growing) / share
    log_a = math.fsum(part.weight * part.log_a for part in growing) / share
    return 1 - share, log_critical, log_a + math.log(samples) - log_critical


def _room(place: int) -> float:
    return LEAST_ROOM + (MOST_ROOM - LEAST_ROOM) * place / (GRID - 1)


def _flat(_: float) -> float:
    return 0.0


def _with_critical(critical: float) -> Shape:
    return lambda batch_size: math.log1p(batch_size / critical)


def _with_noise(measured: Sequence[KnownEpochs], a: float) -> Shape:
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
