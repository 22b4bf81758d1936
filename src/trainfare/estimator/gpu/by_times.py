"""Predicts a program on a GPU where it never ran, from its times on other GPUs alone; its operations are not needed.

Seconds of an iteration of program p at batch b on GPU g; the logarithm is fitted:

    t = c · (H + b · A)
    A = (1/bandwidth^β + exp(φ)/peak^π·sold^ρ + exp(κ)/clock) / (watts^ω · exp(η · year)) · exp(U)

Memory traffic, arithmetic and small kernels add up. c, H (host time, the same on every GPU), φ (arithmetic relative to
traffic) and κ belong to the program. The exponents are shared by all programs; they are positive, so a GPU that is
better by every figure is never slower. U is what a GPU loses against its figures: a Gaussian process over GPUs, so
that a GPU without measurements resembles similar ones (`similarity.gpu_similarity`), and one measured program moves it.

The same process models what remains of a program: its errors on similar GPUs and at similar batch sizes are similar (a
program that is fast on the A100 is fast on the A100-80GB). Where no GPU is similar, the nearest by its figures still
says more than one farther away: a second, wider process of the program by itself. (It is not in the fit of all
programs: there it would explain what the law should learn.) The scale of a program's errors is estimated from its rows,
and outlying rows count less (Student's t), so that one odd program does not distort a GPU.

Everything is one penalised least-squares problem in logarithms, solved by Gauss-Newton. The priors were chosen with
knowledge of the tables `rented_gpus` and `seven_models_k80_p100_v100`, so errors on those are slightly optimistic.

Limits: one GPU; one dtype for all known times; no law for the host, which differs from machine to machine.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.fitting.conformal import typical_factor
from trainfare.estimator.gpu.similarity import (
    Array,
    ChipFacts,
    chip_family,
    collect_chip_facts,
    gpu_coordinates,
    gpu_features,
    gpu_similarity,
    wide_gpu_similarity,
)
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

Indices = NDArray[np.intp]

LAW_PRIOR = np.array([np.log(0.9), np.log(0.9), np.log(0.4), np.log(0.15), np.log(0.1), 0.0, -3.0])
"""Logarithms of β, π, ρ, ω, η; and φ, κ of the typical program at 100 TFLOP/s, 1 TB/s and 1.5 GHz."""
LAW_SPREAD = np.array([0.1, 0.1, 0.5, 0.5, 0.5, 1.0, 0.7])
PROGRAM_PRIOR = np.array([0.0, np.log(0.05), 0.0, 0.0])
"""log c, log H as a share of the typical device time, and φ, κ relative to the typical program's."""
PROGRAM_SPREAD = np.array([100.0, 1.5, 0.8, 0.8])
GPU_SPREAD = 0.12
"""Prior standard deviation of U."""
GPU_OWN_SHARE = 0.3
"""The share of the variance of U that no other GPU explains."""
REMAINING_DEVIATION_SHARE = 0.4
"""The share of the deviation of U that remains however many programs ran there: they share the errors of the law."""
SIMILAR_GPU_DEVIATION = 0.06
WIDE_GPU_DEVIATION = 0.12
"""Parameters of the wider process."""
SIMILAR_BATCH_DEVIATION = 0.05
BATCH_LENGTH = 0.3
NOISE = 0.03
HOST_SPREAD = 0.4
"""Standard deviation of log H between machines, which no fact of a GPU explains."""
SCALE_PRIOR_ROWS = 4.0
"""The prior of a program's error scale counts as this many rows."""
STUDENT = 6.0
STEPS = 15
CONFIDENCE = 0.9
CALIBRATION_ROWS = 12
"""About this many rows per GPU determine the interval."""
CONVERGED = 1e-3
"""A Gauss-Newton step that changes every weight by less is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEffect:
    """U of a measured GPU."""

    chip: str
    coordinates: tuple[float, ...]
    effect: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsFit:
    """The law that all programs share, and U of the measured GPUs."""

    chips: ChipFacts
    law: tuple[float, ...]
    """In the order of LAW_PRIOR."""
    gpus: Mapping[str, GpuEffect] = field(default_factory=dict)
    interval: float = 2.0
    """The number of standard deviations to either side that cover 90% of the times on held-out GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """The time of one iteration of a program on a GPU where it ran."""

    gpu: Gpu
    seconds: float
    batch_size: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A run of another program on the GPU in question, with the program's times on other GPUs."""

    elsewhere: tuple[TimedRun, ...]
    measured: TimedRun
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRates:
    """The share of its nominal figures that programs reach on a GPU, relative to the typical measured GPU (1)."""

    peak: float
    bandwidth: float
    deviation: float
    """Standard deviation of the logarithm of either."""


def fit_programs(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> ProgramsFit:
    """Fits the law to rows of one GPU each; rows of several GPUs, or of a GPU that `gpus` lacks, are ignored.

    The interval comes from rows whose GPU's U is predicted from the other GPUs; the law itself, seven numbers, has seen
    them. It covers 90% of those rows, each GPU weighing the same (`typical_factor`): the uncertainty about a GPU is
    already in the deviation.
    """
    usable = [row for row in rows if row.gpus == 1 and row.gpu in gpus]
    fit = _fit_law(usable, gpus, collect_chip_facts(gpus))
    errors, held_out = [], []
    for name in fit.gpus:
        others = [row for row in usable if row.gpu != name]
        without = replace(fit, gpus={other: effect for other, effect in fit.gpus.items() if other != name})
        own = [row for row in usable if row.gpu == name]
        for error in _standardised_errors(others, own[:: max(1, len(own) // CALIBRATION_ROWS)], gpus, without):
            errors.append(error)
            held_out.append(name)
    if not errors:
        return fit
    return replace(fit, interval=float(np.log(typical_factor(errors, held_out, confidence=CONFIDENCE))))


def predict_by_times(
    known: Sequence[TimedRun], target: Gpu, dtype: str, fit: ProgramsFit, *, batch_size: float | None = None
) -> Interval:
    """Seconds of an iteration on `target` of a program with these times, at the last one's batch size by default."""
    return ProgramTimeModel(known, dtype, fit).predict(target, batch_size=batch_size)


def with_reference_runs(fit: ProgramsFit, gpu: Gpu, runs: Sequence[ReferenceRun]) -> ProgramsFit:
    """The fit with U of `gpu` updated by runs of other programs there, by the Gaussian rule; outliers count less."""
    effect, deviation = _gpu_effect(gpu, fit)
    precision, pull = deviation**-2, 0.0
    for run in runs:
        predicted = ProgramTimeModel(run.elsewhere, run.dtype, fit).predict_log(gpu, run.measured.batch_size)
        error = float(np.log(run.measured.seconds)) - predicted.log_seconds
        weight = (STUDENT + 1) / (STUDENT + (error / predicted.deviation) ** 2)
        precision += weight * predicted.device_share**2 / predicted.variance
        pull += weight * predicted.device_share * error / predicted.variance
    updated = GpuEffect(
        chip=chip_family(gpu),
        coordinates=gpu_coordinates(gpu, fit.chips),
        effect=effect + pull / precision,
        deviation=float(np.hypot(precision**-0.5, REMAINING_DEVIATION_SHARE * deviation)),
    )
    return replace(fit, gpus={**fit.gpus, gpu.name: updated})


def effective_rates(gpu: Gpu, dtype: str, fit: ProgramsFit) -> EffectiveRates:
    """The effective rates of a measured GPU, or those predicted from similar measured GPUs.

    The rate that the law gives a GPU (bandwidth^β, peak^π·sold^ρ, each with its watts, year and U) over the nominal
    figure, on the scale where an average GPU of 1 TB/s or 100 TFLOP/s has 1.
    """
    x = gpu_features(gpu, dtype, fit.chips)
    beta, pi, rho, omega, eta = np.exp(fit.law[:5])
    effect, deviation = _gpu_effect(gpu, fit)
    common = omega * x[3] + eta * x[5] - effect
    return EffectiveRates(
        peak=float(np.exp((pi - 1) * x[1] + (rho - 1) * x[2] + common)),
        bandwidth=float(np.exp((beta - 1) * x[0] + common)),
        deviation=deviation,
    )


# The law, and rows of programs that follow it


def _device_time(law: Array, x: Array) -> tuple[Array, Array]:
    """log A without U, row by row, and its gradient by the seven numbers of `law` (one row of them each)."""
    beta, pi, rho, omega, eta = np.exp(law[:, :5]).T
    traffic = -beta * x[:, 0]
    arithmetic = law[:, 5] - pi * x[:, 1] - rho * x[:, 2]
    small = law[:, 6] - x[:, 4]
    total = np.logaddexp(np.logaddexp(traffic, arithmetic), small)
    traffic_share, arithmetic_share, small_share = (np.exp(part - total) for part in (traffic, arithmetic, small))
    gradient = np.stack(
        [
            -traffic_share * beta * x[:, 0],
            -arithmetic_share * pi * x[:, 1],
            -arithmetic_share * rho * x[:, 2],
            -omega * x[:, 3],
            -eta * x[:, 5],
            arithmetic_share,
            small_share,
        ],
        axis=1,
    )
    return total - omega * x[:, 3] - eta * x[:, 5], gradient


@dataclass(frozen=True, slots=True)
class _ProgramRows:
    """Timed runs as columns, with the rows of each program."""

    x: Array
    batch: Array
    log_seconds: Array
    host: Array
    """The typical device time of the row's program, which its H is a share of."""
    programs: tuple[Indices, ...]
    covariances: tuple[Array, ...]
    """Covariance of each program's errors, before the noise, at scale 1."""

    @classmethod
    def build(
        cls,
        timed: Sequence[TimedRun],
        dtypes: Sequence[str],
        keys: Sequence[Hashable],
        chips: ChipFacts,
        *,
        wide: float = 0.0,
    ) -> "_ProgramRows":
        """`keys` name the program of each run; `wide` is the deviation of the wider process."""
        x = np.array([gpu_features(run.gpu, dtype, chips) for run, dtype in zip(timed, dtypes, strict=True)])
        batch = np.array([run.batch_size for run in timed])
        typical = np.log(batch) + _device_time(np.tile(LAW_PRIOR, (len(x), 1)), x)[0]
        by_program: dict[Hashable, list[int]] = {}
        for index, key in enumerate(keys):
            by_program.setdefault(key, []).append(index)
        programs = tuple(np.array(indices) for indices in by_program.values())
        host = np.empty(len(timed))
        for indices in programs:
            host[indices] = np.exp(typical[indices].mean())
        covariances = tuple(
            _error_covariance(own, own, dtypes[indices[0]], chips, wide)
            for indices, own in ((indices, [timed[i] for i in indices]) for indices in programs)
        )
        return cls(x, batch, np.log([run.seconds for run in timed]), host, programs, covariances)


def _error_covariance(
    some: Sequence[TimedRun], others: Sequence[TimedRun], dtype: str, chips: ChipFacts, wide: float
) -> Array:
    """Prior covariance of a program's errors: similar on similar GPUs and at similar batch sizes."""
    here = [gpu_coordinates(run.gpu, chips, dtype) for run in some]
    there = [gpu_coordinates(run.gpu, chips, dtype) for run in others]
    gpus = gpu_similarity(here, [chip_family(run.gpu) for run in some], there, [chip_family(run.gpu) for run in others])
    wider = wide_gpu_similarity(here, there)
    batches = np.subtract.outer(_log_batch(some), _log_batch(others)) / BATCH_LENGTH
    return np.asarray(
        SIMILAR_GPU_DEVIATION**2 * gpus + wide**2 * wider + SIMILAR_BATCH_DEVIATION**2 * np.exp(-0.5 * batches**2),
        dtype=np.float64,
    )


def _log_batch(runs: Sequence[TimedRun]) -> Array:
    return np.log([run.batch_size for run in runs])


class _LawOutput(NamedTuple):
    log_seconds: Array
    device_share: Array
    law_gradient: Array


def _evaluate(rows: _ProgramRows, law: Array, program: Array, effect: Array) -> _LawOutput:
    """`law` and `program` (log c, log H, φ, κ) have one line per row; `effect` is U."""
    own = law.copy()
    own[:, 5:] += program[:, 2:]
    device, gradient = _device_time(own, rows.x)
    busy, host = rows.batch * np.exp(device + effect), rows.host * np.exp(program[:, 1])
    return _LawOutput(program[:, 0] + np.log(busy + host), busy / (busy + host), gradient)


# Gauss-Newton on errors that are correlated within a program


class _Solution(NamedTuple):
    weights: Array
    covariance: Array
    """Covariance of the weights (Laplace)."""
    scales: Array
    """Scale of each program's errors, relative to the typical scale."""
    trust: Array
    """Weight of each row, below 1 for outliers."""
    errors: Array


def _solve(
    rows: _ProgramRows,
    evaluate: Callable[[Array], tuple[Array, Array]],
    start: Array,
    prior: Array,
    precision: Array,
) -> _Solution:
    """Least squares of `evaluate(weights) = log seconds` with a Gaussian prior; `evaluate` also gives the Jacobian.

    After every step the scale of each program's errors and the trust in each row are estimated again from what the
    program's other rows predict (leave-one-out errors of the process, in closed form).
    """
    weights, scales, trust = start.copy(), np.ones(len(rows.programs)), np.ones(len(rows.x))
    for _ in range(STEPS):
        whiten = _whitener(rows, scales, trust)
        found, jacobian = evaluate(weights)
        white = whiten(jacobian)
        hessian = white.T @ white + precision
        downhill = white.T @ whiten(rows.log_seconds - found) - precision @ (weights - prior)
        step: Array = np.linalg.solve(hessian, downhill).astype(np.float64)
        step = _backtrack(step, weights, prior, precision, rows, evaluate, whiten)
        weights = weights + step
        errors = rows.log_seconds - evaluate(weights)[0]
        for number, own in enumerate(rows.programs):
            scales[number], trust[own] = _scale_and_trust(errors[own], rows.covariances[number], scales[number])
        if np.abs(step).max() < CONVERGED:
            break
    return _Solution(weights, np.linalg.inv(hessian).astype(np.float64), scales, trust, errors)


def _backtrack(
    step: Array,
    weights: Array,
    prior: Array,
    precision: Array,
    rows: _ProgramRows,
    evaluate: Callable[[Array], tuple[Array, Array]],
    whiten: Callable[[Array], Array],
) -> Array:
    """The step, halved until the loss does not grow, at most seven times."""

    def loss(at: Array) -> float:
        errors = whiten(rows.log_seconds - evaluate(at)[0])
        return float(errors @ errors + (at - prior) @ precision @ (at - prior))

    before = loss(weights)
    for _ in range(7):
        if loss(weights + step) <= before:
            break
        step = step / 2
    return step


def _whitener(rows: _ProgramRows, scales: Array, trust: Array) -> Callable[[Array], Array]:
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


def _scale_and_trust(errors: Array, covariance: Array, before: float) -> tuple[float, Array]:
    inverse = np.linalg.inv(covariance + NOISE**2 * np.eye(len(errors)))
    standard = (inverse @ errors) / np.sqrt(np.diag(inverse))
    trust = (STUDENT + 1) / (STUDENT + (standard / before) ** 2)
    return float(np.sqrt((SCALE_PRIOR_ROWS + trust @ standard**2) / (SCALE_PRIOR_ROWS + len(errors)))), trust


# All programs together


def _fit_law(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], chips: ChipFacts) -> ProgramsFit:
    """Weights: the law's seven, U of each GPU, then log c, log H, φ and κ of each program."""
    if not rows:
        return ProgramsFit(chips=chips, law=tuple(LAW_PRIOR.tolist()))
    keys = [_program_key(row) for row in rows]
    timed = [TimedRun(gpu=gpus[row.gpu], seconds=row.seconds, batch_size=row.batch_size) for row in rows]
    columns = _ProgramRows.build(timed, [row.dtype for row in rows], keys, chips)
    names = list(dict.fromkeys(row.gpu for row in rows))
    gpu_of = np.array([names.index(row.gpu) for row in rows])
    program_of = np.empty(len(rows), dtype=np.intp)
    for number, own in enumerate(columns.programs):
        program_of[own] = number
    laws, count = len(LAW_PRIOR), len(columns.programs)
    own = laws + len(names) + 4 * program_of[:, None] + np.arange(4)
    line = np.arange(len(rows))

    def evaluate(weights: Array) -> tuple[Array, Array]:
        law = np.broadcast_to(weights[:laws], (len(rows), laws))
        found = _evaluate(columns, law, weights[own], weights[laws + gpu_of])
        jacobian = np.zeros((len(rows), len(weights)))
        jacobian[:, :laws] = found.law_gradient * found.device_share[:, None]
        jacobian[line, laws + gpu_of] = found.device_share
        jacobian[line[:, None], own] = _program_gradient(found)
        return found.log_seconds, jacobian

    effects = GPU_SPREAD**2 * (
        (1 - GPU_OWN_SHARE) * _similarity_matrix([gpus[name] for name in names], chips)
        + GPU_OWN_SHARE * np.eye(len(names))
    )
    precision = np.diag(np.concatenate([LAW_SPREAD**-2.0, np.zeros(len(names)), np.tile(PROGRAM_SPREAD**-2.0, count)]))
    precision[laws : laws + len(names), laws : laws + len(names)] = np.linalg.inv(effects)
    prior = np.concatenate([LAW_PRIOR, np.zeros(len(names)), np.tile(PROGRAM_PRIOR, count)])
    start = _starting_weights(columns, prior, own)
    solved = _solve(columns, evaluate, start, prior, precision)
    spread = np.sqrt(np.diag(solved.covariance))
    return ProgramsFit(
        chips=chips,
        law=tuple(solved.weights[:laws].tolist()),
        gpus={
            name: GpuEffect(
                chip=chip_family(gpus[name]),
                coordinates=gpu_coordinates(gpus[name], chips),
                effect=float(solved.weights[laws + number]),
                deviation=float(spread[laws + number]),
            )
            for number, name in enumerate(names)
        },
    )


def _program_key(row: MeasuredIteration) -> tuple[str, str, str]:
    return row.source, row.program, row.dtype


def _program_gradient(found: _LawOutput) -> Array:
    """The gradient by log c, log H, φ and κ."""
    share = found.device_share
    return np.stack(
        [np.ones_like(share), 1 - share, share * found.law_gradient[:, 5], share * found.law_gradient[:, 6]], axis=1
    )


def _starting_weights(rows: _ProgramRows, prior: Array, own: NDArray[np.intp]) -> Array:
    """The prior, with each c such that the typical program would take the program's times."""
    start = prior.copy()
    typical = np.log(rows.batch) + _device_time(np.tile(LAW_PRIOR, (len(rows.x), 1)), rows.x)[0]
    for indices in rows.programs:
        start[own[indices[0], 0]] = np.mean((rows.log_seconds - typical)[indices])
    return start


def _similarity_matrix(gpus: Sequence[Gpu], chips: ChipFacts) -> Array:
    coordinates, families = [gpu_coordinates(gpu, chips) for gpu in gpus], [chip_family(gpu) for gpu in gpus]
    return gpu_similarity(coordinates, families, coordinates, families)


def _standardised_errors(
    others: Sequence[MeasuredIteration],
    held_out: Sequence[MeasuredIteration],
    gpus: Mapping[str, Gpu],
    fit: ProgramsFit,
) -> Iterator[float]:
    """Errors in standard deviations, for the held-out rows whose programs `others` has on other GPUs."""
    known: dict[tuple[str, str, str], list[TimedRun]] = {}
    for row in others:
        timed = TimedRun(gpu=gpus[row.gpu], seconds=row.seconds, batch_size=row.batch_size)
        known.setdefault(_program_key(row), []).append(timed)
    for row in held_out:
        if elsewhere := known.get(_program_key(row)):
            predicted = ProgramTimeModel(elsewhere, row.dtype, fit).predict_log(gpus[row.gpu], row.batch_size)
            yield (float(np.log(row.seconds)) - predicted.log_seconds) / predicted.deviation


# One program by itself


class _LogPrediction(NamedTuple):
    log_seconds: float
    variance: float
    """Without the uncertainty about the GPU."""
    device_share: float
    effect_deviation: float

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.variance + (self.device_share * self.effect_deviation) ** 2))


class ProgramTimeModel:
    """The law with the parameters of one program, fitted to its known times once and evaluated on many GPUs.

    Law and U stay as they were fitted; c, H, φ and κ are the program's own.
    """

    def __init__(self, known: Sequence[TimedRun], dtype: str, fit: ProgramsFit) -> None:
        if not known:
            raise ValueError("a program is predicted from at least one GPU where it was timed")
        self._known, self._dtype, self._fit = tuple(known), dtype, fit
        self._rows = _ProgramRows.build(
            known, [dtype] * len(known), [0] * len(known), fit.chips, wide=WIDE_GPU_DEVIATION
        )
        self._law = np.tile(np.array(fit.law), (len(known), 1))
        effects = np.array([_gpu_effect(run.gpu, fit)[0] for run in known])

        def evaluate(weights: Array) -> tuple[Array, Array]:
            found = _evaluate(self._rows, self._law, np.tile(weights, (len(known), 1)), effects)
            return found.log_seconds, _program_gradient(found)

        start = _starting_weights(self._rows, PROGRAM_PRIOR, np.zeros((len(known), 4), dtype=np.intp))
        self._solved = _solve(self._rows, evaluate, start, PROGRAM_PRIOR, np.diag(PROGRAM_SPREAD**-2.0))
        self._effects: dict[str, tuple[float, float]] = {}

    def predict(self, target: Gpu, *, batch_size: float | None = None) -> Interval:
        """Seconds of an iteration on `target`, at the batch size of the last known time by default."""
        found = self.predict_log(target, batch_size or self._known[-1].batch_size)
        value, factor = float(np.exp(found.log_seconds)), float(np.exp(self._fit.interval * found.deviation))
        return Interval(value=value, low=value / factor, high=value * factor)

    def predict_log(self, target: Gpu, batch_size: float) -> _LogPrediction:
        chips, rows, solved = self._fit.chips, self._rows, self._solved
        effect, effect_deviation = self._effect(target)
        there = TimedRun(gpu=target, seconds=1.0, batch_size=batch_size)
        x = gpu_features(target, self._dtype, chips)[None, :]
        row = _ProgramRows(x, np.array([batch_size]), np.zeros(1), rows.host[:1], (), ())
        found = _evaluate(row, self._law[:1], solved.weights[None, :], np.array([effect]))
        gradient, host_share = _program_gradient(found)[0], 1 - float(found.device_share[0])

        shared = _error_covariance([there], self._known, self._dtype, chips, WIDE_GPU_DEVIATION)[0]
        gain = np.linalg.solve(rows.covariances[0] + NOISE**2 * np.diag(1 / solved.trust), shared)
        prior = _error_covariance([there], [there], self._dtype, chips, WIDE_GPU_DEVIATION)[0, 0]
        own = prior + NOISE**2 - shared @ gain
        own_variance = solved.scales[0] ** 2 * own + gradient @ solved.covariance @ gradient
        return _LogPrediction(
            float(found.log_seconds[0] + gain @ solved.errors),
            float(own_variance + (HOST_SPREAD * host_share) ** 2),
            1 - host_share,
            effect_deviation,
        )

    def _effect(self, gpu: Gpu) -> tuple[float, float]:
        if gpu.name not in self._effects:
            self._effects[gpu.name] = _gpu_effect(gpu, self._fit)
        return self._effects[gpu.name]


def _gpu_effect(gpu: Gpu, fit: ProgramsFit) -> tuple[float, float]:
    """U and its deviation: as measured, or as predicted from similar measured GPUs."""
    if measured := fit.gpus.get(gpu.name):
        return measured.effect, measured.deviation
    if not fit.gpus:
        return 0.0, GPU_SPREAD
    known = list(fit.gpus.values())
    coordinates, families = [one.coordinates for one in known], [one.chip for one in known]
    among = gpu_similarity(coordinates, families, coordinates, families)
    similar = gpu_similarity([gpu_coordinates(gpu, fit.chips)], [chip_family(gpu)], coordinates, families)[0]
    shared = 1 - GPU_OWN_SHARE
    gain = np.linalg.solve(shared * among + GPU_OWN_SHARE * np.eye(len(known)), shared * similar)
    unexplained = GPU_SPREAD**2 * (1 - shared * similar @ gain)
    inherited = (gain * [one.deviation for one in known]) @ (gain * [one.deviation for one in known])
    return float(gain @ [one.effect for one in known]), float(np.sqrt(unexplained + inherited))
