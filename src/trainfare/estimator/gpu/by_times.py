"""Programs known only by their times on some GPUs, moved to a GPU that they never ran on.

Seconds of an iteration of program p at batch b on GPU g, the logarithm of which is fitted:

    t = c · (H + b · A)
    A = (1/bandwidth^β + exp(φ)/peak^π·sold^ρ + exp(κ)/clock) / (watts^ω · exp(η · year)) · exp(U)

Traffic, arithmetic and small kernels add up; c, H (what the host needs, whatever the GPU), φ (arithmetic for traffic)
and κ are the program's. The exponents are the same for all; they are positive, so a GPU that is faster by every
figure is never slower. U is what a GPU loses against its figures (`reached`): a Gaussian process over GPUs, so a GPU
never measured takes after those that are like it (`chips.likeness`), and one measured program moves it.

What remains of a program, the same process holds: its errors on alike GPUs and at alike batches are alike (a program
that likes the A100 likes the A100-80GB). Where no GPU is alike the nearest by its figures still tells more than one
further off: a second, wider process of a program by itself. (Not in the fit of all programs: there it would explain
what the law is to learn.) Its size is found program by program, and single rows that stand out count less (Student's
t), so that one odd program does not spoil a GPU.

Everything is one penalised least-squares problem in logarithms, solved by Gauss–Newton. The priors were chosen in
sight of the tables `rented_gpus` and `seven_models_k80_p100_v100`, so errors on those flatter a little.

Limits: one GPU; a dtype that all known times share; no law of the host, which differs from machine to machine.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.fitting.conformal import usual_factor
from trainfare.estimator.gpu.similarity import Array, Chips, chip_of, chips_of, facts, far_likeness, likeness, place_of
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

Indices = NDArray[np.intp]

LAW_PRIOR = np.array([np.log(0.9), np.log(0.9), np.log(0.4), np.log(0.15), np.log(0.1), 0.0, -3.0])
"""Logarithms of β, π, ρ, ω, η; and φ, κ of the typical program at 100 TFLOP/s, 1 TB/s and 1.5 GHz."""
LAW_SPREAD = np.array([0.1, 0.1, 0.5, 0.5, 0.5, 1.0, 0.7])
PROGRAM_PRIOR = np.array([0.0, np.log(0.05), 0.0, 0.0])
"""log c, log H as a share of the typical device time, and φ, κ against the typical program's."""
PROGRAM_SPREAD = np.array([100.0, 1.5, 0.8, 0.8])
GPU_SPREAD = 0.12
GPU_OWN_SHARE = 0.3
"""Of the variance of U: what no other GPU tells."""
KEPT_DOUBT = 0.4
"""Of the deviation of U that stays however many programs ran there: they err together where the law does."""
LIKE_GPU = 0.06
FAR_GPU = 0.12
"""Of the wider process."""
LIKE_BATCH = 0.05
BATCH_LENGTH = 0.3
NOISE = 0.03
HOST_SPREAD = 0.4
"""Of the logarithm of H from machine to machine, which no fact of a GPU tells."""
SCALE_DOUBT = 4.0
STUDENT = 6.0
STEPS = 15
CONFIDENCE = 0.9
CALIBRATED_ROWS = 12
"""Of one GPU, more or less: enough to see how far off it is."""
ENOUGH = 1e-3
"""A step that moves no weight by more is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEffect:
    """U of a GPU that somebody measured."""

    chip: str
    place: tuple[float, ...]
    effect: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsFit:
    chips: Chips
    law: tuple[float, ...]
    """In the order of LAW_PRIOR."""
    gpus: Mapping[str, GpuEffect] = field(default_factory=dict)
    interval: float = 2.0
    """Deviations to either side that hold nine of ten times on GPUs left out of the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The program's time on a GPU where it ran."""

    gpu: Gpu
    seconds: float
    batch_size: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What another program took `there`, and what it takes elsewhere."""

    known: tuple[Timed, ...]
    there: Timed
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    seconds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What programs reach of the nominal figures, against the typical GPU that was measured: 1 is as much."""

    peak: float
    bandwidth: float
    deviation: float
    """Of the logarithm of either."""


def fit_programs(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> ProgramsFit:
    """From programs on one GPU each; rows of several GPUs, or of a GPU that `gpus` lacks, tell nothing here.

    The interval is that of rows whose GPU's U is taken from the other GPUs; the law has seen them, seven numbers. It
    is the nine tenths of those rows, each GPU weighing the same (`usual_factor`): what is not known of a GPU is in the
    deviation already.
    """
    usable = [row for row in rows if row.gpus == 1 and row.gpu in gpus]
    fit = _fit(usable, gpus, chips_of(gpus))
    errors, left_out = [], []
    for name in fit.gpus:
        others = [row for row in usable if row.gpu != name]
        without = replace(fit, gpus={other: effect for other, effect in fit.gpus.items() if other != name})
        asked = [row for row in usable if row.gpu == name]
        for error in _errors(others, asked[:: max(1, len(asked) // CALIBRATED_ROWS)], gpus, without):
            errors.append(error)
            left_out.append(name)
    if not errors:
        return fit
    return replace(fit, interval=float(np.log(usual_factor(errors, left_out, confidence=CONFIDENCE))))


def moved(
    known: Sequence[Timed], target: Gpu, dtype: str, fit: ProgramsFit, *, batch_size: float | None = None
) -> Moved:
    """Seconds of an iteration on `target`, of a program that took `known`; at their batch unless another is told."""
    return Mover(known, dtype, fit).to(target, batch_size=batch_size)


def learned(fit: ProgramsFit, gpu: Gpu, runs: Sequence[Run]) -> ProgramsFit:
    """What other programs took on `gpu` moves its U, by the Gaussian rule; a run that stands out moves it less."""
    effect, deviation = _gpu_effect(gpu, fit)
    precision, pull = deviation**-2, 0.0
    for run in runs:
        guess = Mover(run.known, run.dtype, fit).guess(gpu, run.there.batch_size)
        error = float(np.log(run.there.seconds)) - guess.log_seconds
        trust = (STUDENT + 1) / (STUDENT + (error / guess.deviation) ** 2)
        precision += trust * guess.device_share**2 / guess.variance
        pull += trust * guess.device_share * error / guess.variance
    there = GpuEffect(
        chip=chip_of(gpu),
        place=place_of(gpu, fit.chips),
        effect=effect + pull / precision,
        deviation=float(np.hypot(precision**-0.5, KEPT_DOUBT * deviation)),
    )
    return replace(fit, gpus={**fit.gpus, gpu.name: there})


def reached(gpu: Gpu, dtype: str, fit: ProgramsFit) -> Reached:
    """Of a GPU that was measured, or by what it has in common with those that were.

    The rate that the law gives a GPU (bandwidth^β, peak^π·sold^ρ, each with its watts, year and U) over the nominal
    figure, on the scale where an average GPU of 1 TB/s or 100 TFLOP/s has 1.
    """
    x = facts(gpu, dtype, fit.chips)
    beta, pi, rho, omega, eta = np.exp(fit.law[:5])
    effect, deviation = _gpu_effect(gpu, fit)
    common = omega * x[3] + eta * x[5] - effect
    return Reached(
        peak=float(np.exp((pi - 1) * x[1] + (rho - 1) * x[2] + common)),
        bandwidth=float(np.exp((beta - 1) * x[0] + common)),
        deviation=deviation,
    )


# The law, and rows of programs that follow it


def _device(law: Array, x: Array) -> tuple[Array, Array]:
    """log A without U, row by row, and its gradient by the seven numbers of `law` (one row of them each)."""
    beta, pi, rho, omega, eta = np.exp(law[:, :5]).T
    traffic = -beta * x[:, 0]
    arithmetic = law[:, 5] - pi * x[:, 1] - rho * x[:, 2]
    small = law[:, 6] - x[:, 4]
    total = np.logaddexp(np.logaddexp(traffic, arithmetic), small)
    of_traffic, of_arithmetic, of_small = (np.exp(part - total) for part in (traffic, arithmetic, small))
    gradient = np.stack(
        [
            -of_traffic * beta * x[:, 0],
            -of_arithmetic * pi * x[:, 1],
            -of_arithmetic * rho * x[:, 2],
            -omega * x[:, 3],
            -eta * x[:, 5],
            of_arithmetic,
            of_small,
        ],
        axis=1,
    )
    return total - omega * x[:, 3] - eta * x[:, 5], gradient


@dataclass(frozen=True, slots=True)
class _Rows:
    x: Array
    batch: Array
    log_seconds: Array
    host: Array
    """The typical device time of the row's program, which its H is a share of."""
    programs: tuple[Indices, ...]
    covariances: tuple[Array, ...]
    """Of each program's errors, before the noise, at scale 1."""

    @classmethod
    def of(
        cls,
        timed: Sequence[Timed],
        dtypes: Sequence[str],
        keys: Sequence[Hashable],
        chips: Chips,
        *,
        far: float = 0.0,
    ) -> "_Rows":
        x = np.array([facts(row.gpu, dtype, chips) for row, dtype in zip(timed, dtypes, strict=True)])
        batch = np.array([row.batch_size for row in timed])
        typical = np.log(batch) + _device(np.tile(LAW_PRIOR, (len(x), 1)), x)[0]
        found: dict[Hashable, list[int]] = {}
        for index, key in enumerate(keys):
            found.setdefault(key, []).append(index)
        programs = tuple(np.array(indices) for indices in found.values())
        host = np.empty(len(timed))
        for indices in programs:
            host[indices] = np.exp(typical[indices].mean())
        covariances = tuple(
            _alike(own, own, dtypes[indices[0]], chips, far)
            for indices, own in ((indices, [timed[i] for i in indices]) for indices in programs)
        )
        return cls(x, batch, np.log([row.seconds for row in timed]), host, programs, covariances)


def _alike(these: Sequence[Timed], those: Sequence[Timed], dtype: str, chips: Chips, far: float) -> Array:
    places = [place_of(row.gpu, chips, dtype) for row in these]
    others = [place_of(row.gpu, chips, dtype) for row in those]
    gpus = likeness(places, [chip_of(row.gpu) for row in these], others, [chip_of(row.gpu) for row in those])
    wider = far_likeness(places, others)
    batches = np.subtract.outer(_log_batch(these), _log_batch(those)) / BATCH_LENGTH
    return np.asarray(LIKE_GPU**2 * gpus + far**2 * wider + LIKE_BATCH**2 * np.exp(-0.5 * batches**2), dtype=np.float64)


def _log_batch(rows: Sequence[Timed]) -> Array:
    return np.log([row.batch_size for row in rows])


class _Answer(NamedTuple):
    log_seconds: Array
    device_share: Array
    law_gradient: Array


def _answer(rows: _Rows, law: Array, program: Array, effect: Array) -> _Answer:
    """`law` and `program` (log c, log H, φ, κ) hold one line a row; `effect` is U."""
    own = law.copy()
    own[:, 5:] += program[:, 2:]
    device, gradient = _device(own, rows.x)
    busy, host = rows.batch * np.exp(device + effect), rows.host * np.exp(program[:, 1])
    return _Answer(program[:, 0] + np.log(busy + host), busy / (busy + host), gradient)


# Gauss–Newton on errors that are alike within a program


class _Solved(NamedTuple):
    weights: Array
    covariance: Array
    """Of the weights (Laplace)."""
    scales: Array
    """Of each program's errors, against the typical."""
    trust: Array
    """Of each row, below 1 where it stands out."""
    errors: Array


def _solve(
    rows: _Rows, answer: Callable[[Array], tuple[Array, Array]], start: Array, prior: Array, precision: Array
) -> _Solved:
    """IdealPoint squares of `answer(weights) = log seconds` with a Gaussian prior; the answer brings its Jacobian.

    After every step the scale of each program's errors and the trust in each row are found anew, from what its other
    rows say of it (leave-one-out errors of the process, in closed form).
    """
    weights, scales, trust = start.copy(), np.ones(len(rows.programs)), np.ones(len(rows.x))
    for _ in range(STEPS):
        whiten = _whitener(rows, scales, trust)
        found, jacobian = answer(weights)
        white = whiten(jacobian)
        hessian = white.T @ white + precision
        downhill = white.T @ whiten(rows.log_seconds - found) - precision @ (weights - prior)
        step: Array = np.linalg.solve(hessian, downhill).astype(np.float64)
        step = _shortened(step, weights, prior, precision, rows, answer, whiten)
        weights = weights + step
        errors = rows.log_seconds - answer(weights)[0]
        for number, own in enumerate(rows.programs):
            scales[number], trust[own] = _scale(errors[own], rows.covariances[number], scales[number])
        if np.abs(step).max() < ENOUGH:
            break
    return _Solved(weights, np.linalg.inv(hessian).astype(np.float64), scales, trust, errors)


def _shortened(
    step: Array,
    weights: Array,
    prior: Array,
    precision: Array,
    rows: _Rows,
    answer: Callable[[Array], tuple[Array, Array]],
    whiten: Callable[[Array], Array],
) -> Array:
    def loss(at: Array) -> float:
        errors = whiten(rows.log_seconds - answer(at)[0])
        return float(errors @ errors + (at - prior) @ precision @ (at - prior))

    before = loss(weights)
    for _ in range(7):
        if loss(weights + step) <= before:
            break
        step = step / 2
    return step


def _whitener(rows: _Rows, scales: Array, trust: Array) -> Callable[[Array], Array]:
    roots = [
        np.linalg.cholesky(scale**2 * (covariance + NOISE**2 * np.diag(1 / trust[own])))
        for own, covariance, scale in zip(rows.programs, rows.covariances, scales, strict=True)
    ]

    def whiten(values: Array) -> Array:
        white = np.empty_like(values)
        for own, root in zip(rows.programs, roots, strict=True):
            white[own] = np.linalg.solve(root, values[own])
        return white

    return whiten


def _scale(errors: Array, covariance: Array, before: float) -> tuple[float, Array]:
    inverse = np.linalg.inv(covariance + NOISE**2 * np.eye(len(errors)))
    standard = (inverse @ errors) / np.sqrt(np.diag(inverse))
    trust = (STUDENT + 1) / (STUDENT + (standard / before) ** 2)
    return float(np.sqrt((SCALE_DOUBT + trust @ standard**2) / (SCALE_DOUBT + len(errors)))), trust


# All programs together


def _fit(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], chips: Chips) -> ProgramsFit:
    """Weights: the law's seven, U of each GPU, then log c, log H, φ and κ of each program."""
    if not rows:
        return ProgramsFit(chips=chips, law=tuple(LAW_PRIOR.tolist()))
    keys = [_program(row) for row in rows]
    timed = [Timed(gpu=gpus[row.gpu], seconds=row.seconds, batch_size=row.batch_size) for row in rows]
    laid = _Rows.of(timed, [row.dtype for row in rows], keys, chips)
    names = list(dict.fromkeys(row.gpu for row in rows))
    gpu_of = np.array([names.index(row.gpu) for row in rows])
    program_of = np.empty(len(rows), dtype=np.intp)
    for number, own in enumerate(laid.programs):
        program_of[own] = number
    laws, count = len(LAW_PRIOR), len(laid.programs)
    own = laws + len(names) + 4 * program_of[:, None] + np.arange(4)
    line = np.arange(len(rows))

    def answer(weights: Array) -> tuple[Array, Array]:
        law = np.broadcast_to(weights[:laws], (len(rows), laws))
        found = _answer(laid, law, weights[own], weights[laws + gpu_of])
        jacobian = np.zeros((len(rows), len(weights)))
        jacobian[:, :laws] = found.law_gradient * found.device_share[:, None]
        jacobian[line, laws + gpu_of] = found.device_share
        jacobian[line[:, None], own] = _program_gradient(found)
        return found.log_seconds, jacobian

    effects = GPU_SPREAD**2 * (
        (1 - GPU_OWN_SHARE) * _alike_gpus([gpus[name] for name in names], chips) + GPU_OWN_SHARE * np.eye(len(names))
    )
    precision = np.diag(np.concatenate([LAW_SPREAD**-2.0, np.zeros(len(names)), np.tile(PROGRAM_SPREAD**-2.0, count)]))
    precision[laws : laws + len(names), laws : laws + len(names)] = np.linalg.inv(effects)
    prior = np.concatenate([LAW_PRIOR, np.zeros(len(names)), np.tile(PROGRAM_PRIOR, count)])
    start = _started(laid, prior, own)
    solved = _solve(laid, answer, start, prior, precision)
    spread = np.sqrt(np.diag(solved.covariance))
    return ProgramsFit(
        chips=chips,
        law=tuple(solved.weights[:laws].tolist()),
        gpus={
            name: GpuEffect(
                chip=chip_of(gpus[name]),
                place=place_of(gpus[name], chips),
                effect=float(solved.weights[laws + number]),
                deviation=float(spread[laws + number]),
            )
            for number, name in enumerate(names)
        },
    )


def _program(row: MeasuredIteration) -> tuple[str, str, str]:
    return row.source, row.program, row.dtype


def _program_gradient(found: _Answer) -> Array:
    """By log c, log H, φ and κ."""
    share = found.device_share
    return np.stack(
        [np.ones_like(share), 1 - share, share * found.law_gradient[:, 5], share * found.law_gradient[:, 6]], axis=1
    )


def _started(laid: _Rows, prior: Array, own: NDArray[np.intp]) -> Array:
    """Each c so that the typical program would take the program's times."""
    start = prior.copy()
    typical = np.log(laid.batch) + _device(np.tile(LAW_PRIOR, (len(laid.x), 1)), laid.x)[0]
    for indices in laid.programs:
        start[own[indices[0], 0]] = np.mean((laid.log_seconds - typical)[indices])
    return start


def _alike_gpus(gpus: Sequence[Gpu], chips: Chips) -> Array:
    places, of_chips = [place_of(gpu, chips) for gpu in gpus], [chip_of(gpu) for gpu in gpus]
    return likeness(places, of_chips, places, of_chips)


def _errors(
    others: Sequence[MeasuredIteration],
    asked: Sequence[MeasuredIteration],
    gpus: Mapping[str, Gpu],
    fit: ProgramsFit,
) -> Iterator[float]:
    """Errors in their own deviations, of the programs of `asked` that `others` has elsewhere."""
    known: dict[tuple[str, str, str], list[Timed]] = {}
    for row in others:
        timed = Timed(gpu=gpus[row.gpu], seconds=row.seconds, batch_size=row.batch_size)
        known.setdefault(_program(row), []).append(timed)
    for row in asked:
        if elsewhere := known.get(_program(row)):
            guess = Mover(elsewhere, row.dtype, fit).guess(gpus[row.gpu], row.batch_size)
            yield (float(np.log(row.seconds)) - guess.log_seconds) / guess.deviation


# One program by itself


class _Guess(NamedTuple):
    log_seconds: float
    variance: float
    """Without what is not known of the GPU."""
    device_share: float
    effect_deviation: float

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.variance + (self.device_share * self.effect_deviation) ** 2))


class Mover:
    """`moved` of one program to many GPUs: what its own times say is found once.

    Law and U stay as they were fitted; c, H, φ and κ are the program's own.
    """

    def __init__(self, known: Sequence[Timed], dtype: str, fit: ProgramsFit) -> None:
        if not known:
            raise ValueError("a program is moved from at least one GPU where it was timed")
        self._known, self._dtype, self._fit = tuple(known), dtype, fit
        self._laid = _Rows.of(known, [dtype] * len(known), [0] * len(known), fit.chips, far=FAR_GPU)
        self._law = np.tile(np.array(fit.law), (len(known), 1))
        effects = np.array([_gpu_effect(row.gpu, fit)[0] for row in known])

        def answer(weights: Array) -> tuple[Array, Array]:
            found = _answer(self._laid, self._law, np.tile(weights, (len(known), 1)), effects)
            return found.log_seconds, _program_gradient(found)

        start = _started(self._laid, PROGRAM_PRIOR, np.zeros((len(known), 4), dtype=np.intp))
        self._solved = _solve(self._laid, answer, start, PROGRAM_PRIOR, np.diag(PROGRAM_SPREAD**-2.0))
        self._effects: dict[str, tuple[float, float]] = {}

    def to(self, target: Gpu, *, batch_size: float | None = None) -> Moved:
        guess = self.guess(target, batch_size or self._known[-1].batch_size)
        middle, factor = float(np.exp(guess.log_seconds)), float(np.exp(self._fit.interval * guess.deviation))
        return Moved(seconds=middle, low=middle / factor, high=middle * factor)

    def guess(self, target: Gpu, batch_size: float) -> _Guess:
        chips, laid, solved = self._fit.chips, self._laid, self._solved
        effect, effect_deviation = self._effect(target)
        there = Timed(gpu=target, seconds=1.0, batch_size=batch_size)
        x = facts(target, self._dtype, chips)[None, :]
        asked = _Rows(x, np.array([batch_size]), np.zeros(1), laid.host[:1], (), ())
        found = _answer(asked, self._law[:1], solved.weights[None, :], np.array([effect]))
        gradient, host_share = _program_gradient(found)[0], 1 - float(found.device_share[0])

        alike = _alike([there], self._known, self._dtype, chips, FAR_GPU)[0]
        carried = np.linalg.solve(laid.covariances[0] + NOISE**2 * np.diag(1 / solved.trust), alike)
        own = _alike([there], [there], self._dtype, chips, FAR_GPU)[0, 0] + NOISE**2 - alike @ carried
        own_doubt = solved.scales[0] ** 2 * own + gradient @ solved.covariance @ gradient
        return _Guess(
            float(found.log_seconds[0] + carried @ solved.errors),
            float(own_doubt + (HOST_SPREAD * host_share) ** 2),
            1 - host_share,
            effect_deviation,
        )

    def _effect(self, gpu: Gpu) -> tuple[float, float]:
        if gpu.name not in self._effects:
            self._effects[gpu.name] = _gpu_effect(gpu, self._fit)
        return self._effects[gpu.name]


def _gpu_effect(gpu: Gpu, fit: ProgramsFit) -> tuple[float, float]:
    """U and its deviation: as measured, or as the measured GPUs that are like it have it."""
    if measured := fit.gpus.get(gpu.name):
        return measured.effect, measured.deviation
    if not fit.gpus:
        return 0.0, GPU_SPREAD
    known = list(fit.gpus.values())
    places, of_chips = [one.place for one in known], [one.chip for one in known]
    among = likeness(places, of_chips, places, of_chips)
    alike = likeness([place_of(gpu, fit.chips)], [chip_of(gpu)], places, of_chips)[0]
    shared = 1 - GPU_OWN_SHARE
    carried = np.linalg.solve(shared * among + GPU_OWN_SHARE * np.eye(len(known)), shared * alike)
    left = GPU_SPREAD**2 * (1 - shared * alike @ carried)
    told = (carried * [one.deviation for one in known]) @ (carried * [one.deviation for one in known])
    return float(carried @ [one.effect for one in known]), float(np.sqrt(left + told))
