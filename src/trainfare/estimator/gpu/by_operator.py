"""Predicts a step on another machine from the times of its operators on one machine.

    T  = Σ_c D_c + I                          on the measured machine (`operator_breakdown.py`)
    T' = Σ_c D_c · e^{r_c} + I · e^{r_I}      on the other one
    r_c = p_c + e'_c − e_c + f_c(x)

p_c is the log ratio of class c that GPU facts predict (`prior_log_ratio`), e_c is how much a machine differs from its
facts, and f_c is a bounded curve (`additive_curve.py`) for two machines on which the same programs ran: a function of
the size of the class, and for convolutions also of how they divide into forward and backward.

Separating work from waiting matters most: a fast GPU waits through most of a small step, and what it waits for, the
host, is nearly as slow everywhere. Copies of the input use the host's bus and scale with it too.

Limits: one GPU, the same framework and precision on both machines. Classes that were not measured on both machines
follow facts alone; where they take more than `UNKNOWN_SHARE` of the device's time the interval is wider. How long the
host needs for a step is hidden while the GPU is busy and decides on a faster GPU, so the interval also grows with the
waiting (`_waiting_width`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.batch.step_time import batch_line
from trainfare.estimator.fitting.conformal import conformal_factor
from trainfare.estimator.gpu.additive_curve import AdditiveCurve, CurvePrior, curve_value, fit_curve
from trainfare.estimator.gpu.operator_breakdown import HOST, IDLE, StepBreakdown, break_down_step, prior_log_ratio
from trainfare.estimator.gpu.operator_classes import CONVOLUTION
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile

Array = NDArray[np.float64]
Offsets = Mapping[str, Mapping[str, float]]
_StepPair = tuple[StepBreakdown, StepBreakdown]

UNKNOWN_SHARE = 0.1
MIN_PROGRAMS_PER_PAIR = 4
"""With fewer on both machines, their errors say nothing about the next program."""
WAITING_WIDTH = 3.0
MAX_WAITING = 0.3
DEVICE = "device"
"""The key of the offset for classes that were not measured on a machine."""

# Chosen with knowledge of the ten CNNs; within a factor of two of these the error changes by 0.3 points.
CLASS_PRIOR = CurvePrior(constant=0.15, row=0.05, program=0.03, family=0.03)
CONVOLUTION_PRIOR = CurvePrior(constant=0.15, slope=0.05, bend=0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFit:
    """The curves from one machine to another."""

    programs: int
    curves: Mapping[str, AdditiveCurve]
    """f_c by class, `idle` included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFit:
    """Everything that a prediction needs; the factors are those of the 90% intervals."""

    pairs: Mapping[str, PairFit]
    """By the names of both GPUs: `K80>V100`."""
    gpu_offsets: Mapping[str, Mapping[str, float]]
    """e_c by GPU and class."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """For pairs on which enough programs ran, without waiting."""
    factor_after_one: float = 1.6
    """For a pair on which one program ran; with more programs it approaches the widest of `factors`, with waiting."""
    factor_by_facts: float = 2.0
    """For a pair without measurements."""


def transfer_step(
    profiles: Sequence[OperatorProfile], batch_size: float, source: Gpu, target: Gpu, fit: TransferFit
) -> Interval:
    """Seconds of a step on `target`, from profiles of one program on one machine at one or several batch sizes.

    A profiled batch size is transferred directly; another one lies on the line a + b·B through the transferred times,
    which needs at least two.
    """
    if not profiles:
        raise ValueError("a transfer needs at least one profile")
    steps = [(profile.batch_size, break_down_step(profile)) for profile in profiles]
    transferred = [(batch, transferred_seconds(target, step, source, fit)) for batch, step in steps]
    factors = [
        _factor(step, found, source, target, fit) for (_, step), (_, found) in zip(steps, transferred, strict=True)
    ]
    same = [seconds for batch, seconds in transferred if batch == batch_size]
    seconds = float(np.median(same)) if same else batch_line(transferred).seconds(batch_size)
    return Interval.within_factor(seconds, max(factors))


def transferred_seconds(target: Gpu, step: StepBreakdown, source: Gpu, fit: TransferFit) -> float:
    """T', the value without its interval."""
    pair = fit.pairs.get(_pair_name(source.name, target.name))
    expected = _expected(step.by_class, source, target, fit.gpu_offsets)
    if pair is None:
        return sum(expected.values())
    return sum(
        seconds * math.exp(curve_value(pair.curves[kind], step.features[kind]) if kind in pair.curves else 0.0)
        for kind, seconds in expected.items()
    )


def _expected(by_class: Mapping[str, float], source: Gpu, target: Gpu, offsets: Offsets) -> dict[str, float]:
    """D_c · e^{p_c + e'_c − e_c}."""
    return {kind: d * math.exp(_prior_with_offsets(kind, source, target, offsets)) for kind, d in by_class.items()}


def _prior_with_offsets(kind: str, source: Gpu, target: Gpu, offsets: Offsets) -> float:
    return prior_log_ratio(kind, source, target) + _offset(offsets, target, kind) - _offset(offsets, source, kind)


def _offset(offsets: Offsets, gpu: Gpu, kind: str) -> float:
    own = offsets.get(gpu.name, {})
    return own.get(kind, 0.0 if kind in HOST else own.get(DEVICE, 0.0))


def _factor(step: StepBreakdown, transferred: float, source: Gpu, target: Gpu, fit: TransferFit) -> float:
    name = _pair_name(source.name, target.name)
    pair = fit.pairs.get(name)
    if pair is None:
        return fit.factor_by_facts
    unknown = sum(d for kind, d in step.by_class.items() if kind not in pair.curves) / max(step.device_seconds, 1e-12)
    # the unknown share of the step may be off by as much again as a pair without measurements
    wider = math.pow(fit.factor_by_facts, unknown) if unknown > UNKNOWN_SHARE else 1.0
    waiting = _waiting_width(step, transferred)
    if name in fit.factors:
        return math.pow(fit.factors[name], waiting) * wider
    widest = math.pow(max(fit.factors.values(), default=fit.factor_after_one), waiting)
    return widest * math.pow(max(1.0, fit.factor_after_one / widest), 1 / pair.programs) * wider


def _waiting_width(step: StepBreakdown, transferred: float) -> float:
    """The factor on the width of an interval, in logarithms.

        1 + WAITING_WIDTH · (1 − I/T)³ · √min(I/T', MAX_WAITING)

    I is the waiting in the measured step T, and T' the step on the other machine. Where a fast GPU waits for the host,
    errors are two to three times as large, unless the measured GPU waited most of the time too: then the time of the
    host is known.
    """
    idle = step.by_class[IDLE]
    return 1 + WAITING_WIDTH * (1 - idle / step.seconds) ** 3 * math.sqrt(min(idle / transferred, MAX_WAITING))


# The fit


def fit_transfer(profiles: Sequence[OperatorProfile], gpus: Mapping[str, Gpu]) -> TransferFit:
    """The fit to every setting that was profiled on two machines or more; GPUs without facts are ignored."""
    rows = [break_down_step(profile) for profile in profiles if profile.gpu in gpus]
    fit = _fit_pairs(rows, gpus)
    factors = _pair_factors(rows, gpus)
    by_facts, after_one = _unmeasured_factors(rows, gpus)
    widest = max(factors.values(), default=1.0)
    return replace(
        fit,
        factors=factors,
        factor_after_one=max(after_one or fit.factor_after_one, widest),
        factor_by_facts=max(by_facts or fit.factor_by_facts, widest),
    )


def with_runs(fit: TransferFit, profiles: Sequence[OperatorProfile], gpus: Mapping[str, Gpu]) -> TransferFit:
    """The fit with machines that it does not know, from settings profiled there and on a machine that it knows.

    One run of any program is worth more than any fact: it shows how far the machine is from its facts.
    """
    return _with_rows(fit, [break_down_step(profile) for profile in profiles if profile.gpu in gpus], gpus)


def _with_rows(fit: TransferFit, rows: Sequence[StepBreakdown], gpus: Mapping[str, Gpu]) -> TransferFit:
    new = {pair: own for pair, own in _setting_pairs(rows).items() if _pair_name(*pair) not in fit.pairs}
    offsets = {**_fit_offsets(new, gpus, known=fit.gpu_offsets), **fit.gpu_offsets}
    pairs = {_pair_name(a, b): _fit_pair(own, gpus[a], gpus[b], offsets) for (a, b), own in new.items()}
    return replace(fit, pairs={**fit.pairs, **pairs}, gpu_offsets=offsets)


def _fit_pairs(rows: Sequence[StepBreakdown], gpus: Mapping[str, Gpu]) -> TransferFit:
    by_gpus = _setting_pairs(rows)
    offsets = _fit_offsets(by_gpus, gpus)
    pairs = {_pair_name(a, b): _fit_pair(own, gpus[a], gpus[b], offsets) for (a, b), own in by_gpus.items()}
    return TransferFit(pairs=pairs, gpu_offsets=offsets)


_SettingPairs = Mapping[tuple[str, str], Sequence[_StepPair]]


def _setting_pairs(rows: Iterable[StepBreakdown]) -> _SettingPairs:
    """The steps of each setting on every two GPUs that ran it, by the names of the GPUs."""
    settings: dict[tuple[str, int, float], dict[str, StepBreakdown]] = defaultdict(dict)
    for row in rows:
        settings[row.setting][row.gpu] = row
    found: dict[tuple[str, str], list[_StepPair]] = defaultdict(list)
    for by_gpu in settings.values():
        for a, b in permutations(by_gpu, 2):
            found[a, b].append((by_gpu[a], by_gpu[b]))
    return found


def _fit_pair(own: Sequence[_StepPair], source: Gpu, target: Gpu, offsets: Offsets) -> PairFit:
    curves = {}
    for kind in sorted({kind for here, _ in own for kind in here.by_class}):
        rows = [(a, b) for a, b in own if _comparable(kind, a, b)]
        if rows:
            expected = _prior_with_offsets(kind, source, target, offsets)
            y = [math.log(b.by_class[kind] / a.by_class[kind]) - expected for a, b in rows]
            # the classes that take most of a step are known best, and matter most
            weights = [max(a.by_class[kind] / a.seconds, 1e-3) for a, _ in rows]
            prior = CONVOLUTION_PRIOR if kind in CONVOLUTION else CLASS_PRIOR
            curves[kind] = _curve([a for a, _ in rows], kind, y, weights, prior)
    return PairFit(programs=len({a.program for a, _ in own}), curves=curves)


def _comparable(kind: str, a: StepBreakdown, b: StepBreakdown) -> bool:
    return kind in a.by_class and kind in b.by_class and (kind == IDLE or (a.complete and b.complete))


def _curve(
    rows: Sequence[StepBreakdown],
    kind: str,
    y: Sequence[float],
    weights: Sequence[float],
    prior: CurvePrior,
) -> AdditiveCurve:
    x = np.array([row.features[kind] for row in rows])
    programs, families = [row.program for row in rows], [row.family for row in rows]
    return fit_curve(x, np.array(y), np.array(weights), programs, families, prior)


def _fit_offsets(
    by_gpus: _SettingPairs, gpus: Mapping[str, Gpu], known: Offsets | None = None
) -> dict[str, dict[str, float]]:
    """e_c of each GPU: the least-squares solution of e'_c − e_c = mean over settings of log(D'_c/D_c) − p_c.

    `DEVICE` is fitted first, on all classes that the GPU limits, each by its share of the step; a class is then pulled
    towards it (those of the host towards zero), more so the fewer settings have it. `known` offsets do not change.
    """
    known = known or {}
    names = sorted({name for pair in by_gpus for name in pair})
    kinds = sorted({kind for own in by_gpus.values() for a, _ in own for kind in a.by_class})
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    device = {pair: _device_residual(own, gpus[pair[0]], gpus[pair[1]]) for pair, own in by_gpus.items()}
    fixed = {name: own[DEVICE] for name, own in known.items()}
    for name, e in _solve_offsets(names, device, dict.fromkeys(names, 0.0), fixed, pull=0.1).items():
        found[name][DEVICE] = round(e, 4)
    for kind in kinds:
        residuals = {}
        for (a, b), own in by_gpus.items():
            p = prior_log_ratio(kind, gpus[a], gpus[b])
            logs = [math.log(t.by_class[kind] / s.by_class[kind]) - p for s, t in own if _comparable(kind, s, t)]
            residuals[a, b] = (float(np.mean(logs)) if logs else 0.0, len(logs))
        near = {name: 0.0 if kind in HOST else found[name][DEVICE] for name in names}
        fixed = {name: own.get(kind, near.get(name, 0.0)) for name, own in known.items()}
        for name, e in _solve_offsets(names, residuals, near, fixed, pull=3.0).items():
            found[name][kind] = round(e, 4)
    return found


def _device_residual(own: Sequence[_StepPair], source: Gpu, target: Gpu) -> tuple[float, int]:
    weighed, weights, count = 0.0, 0.0, 0
    for a, b in own:
        for kind, seconds in a.by_class.items():
            if kind not in HOST and _comparable(kind, a, b):
                log = math.log(b.by_class[kind] / seconds) - prior_log_ratio(kind, source, target)
                weighed += seconds / a.seconds * log
                weights += seconds / a.seconds
                count += 1
    return (weighed / weights if weights else 0.0, count)


def _solve_offsets(
    names: Sequence[str],
    residuals: Mapping[tuple[str, str], tuple[float, int]],
    near: Mapping[str, float],
    fixed: Mapping[str, float],
    *,
    pull: float,
) -> dict[str, float]:
    """Minimises Σ n/(n+1) · (r_ab − e_b + e_a)² + pull/√(1+N) · Σ (e − near)², with n the settings of a pair and N the
    largest n."""
    index = {name: i for i, name in enumerate(names)}
    total = np.zeros((len(names), len(names)))
    right = np.zeros(len(names))
    largest = max((n for _, n in residuals.values()), default=0)
    for (a, b), (r, n) in residuals.items():
        row = np.zeros(len(names))
        row[index[b]], row[index[a]] = 1.0, -1.0
        weight = n / (n + 1)
        total += weight * np.outer(row, row)
        right += weight * r * row
    for name, i in index.items():
        strength = 1e6 if name in fixed else pull / math.sqrt(1 + largest)
        total[i, i] += strength
        right[i] += strength * fixed.get(name, near[name])
    return {name: float(e) for name, e in zip(names, np.linalg.solve(total, right), strict=True)} if names else {}


# Intervals


def _pair_factors(rows: Sequence[StepBreakdown], gpus: Mapping[str, Gpu]) -> dict[str, float]:
    """The factor of each pair, from programs whose family was held out of the fit.

    A family errs alike in all its programs and batch sizes on one pair, and differently on another pair: family and
    pair are the groups. Errors are relative to the width that waiting gives them (`_waiting_width`) and in units of
    their pair's own spread, shrunk half way to the common one, so that pairs that transfer well have narrow intervals.
    """
    errors: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for family in sorted({row.family for row in rows}):
        fit = _fit_pairs([row for row in rows if row.family != family], gpus)
        for (a, b), own in _setting_pairs([row for row in rows if row.family == family]).items():
            pair = fit.pairs.get(_pair_name(a, b))
            if pair is not None and pair.programs >= MIN_PROGRAMS_PER_PAIR:
                errors[_pair_name(a, b)] += [(family, _scaled_error(s, t, gpus, fit)) for s, t in own]
    if not errors:
        return {}
    spread = {name: math.sqrt(float(np.mean([e**2 for _, e in own]))) for name, own in errors.items()}
    common = math.exp(float(np.mean([math.log(max(s, 1e-6)) for s in spread.values()])))
    unit = {name: math.sqrt(max(s, 1e-6) * common) for name, s in spread.items()}
    scores = [e / unit[name] for name, own in errors.items() for _, e in own]
    groups = [(name, family) for name, own in errors.items() for family, _ in own]
    q = math.log(conformal_factor(scores, groups))
    return {name: round(math.exp(q * u), 4) for name, u in unit.items()}


def _log_error(here: StepBreakdown, there: StepBreakdown, gpus: Mapping[str, Gpu], fit: TransferFit) -> float:
    return math.log(there.seconds / transferred_seconds(gpus[there.gpu], here, gpus[here.gpu], fit))


def _scaled_error(here: StepBreakdown, there: StepBreakdown, gpus: Mapping[str, Gpu], fit: TransferFit) -> float:
    """The log error divided by its `_waiting_width`."""
    error = _log_error(here, there, gpus, fit)
    return error / _waiting_width(here, there.seconds * math.exp(-error))


def _unmeasured_factors(rows: Sequence[StepBreakdown], gpus: Mapping[str, Gpu]) -> tuple[float | None, float | None]:
    """The factors for a machine without measurements, and with one run on it: each machine is held out in turn."""
    by_facts: list[tuple[tuple[str, ...], float]] = []
    after_one: list[tuple[tuple[str, ...], float]] = []
    for name in sorted({row.gpu for row in rows}):
        others, own = [row for row in rows if row.gpu != name], [row for row in rows if row.gpu == name]
        without = _fit_pairs(others, gpus)
        if not without.pairs:
            continue
        # every fourth row: batch sizes of one program err alike, and there are many of them
        to_name = {pair: both[::4] for pair, both in _setting_pairs(rows).items() if pair[1] == name}
        # how far a machine is from its facts is one draw per machine, whatever ran on it
        for both in to_name.values():
            by_facts += [((name,), _log_error(s, t, gpus, without)) for s, t in both]
        for first in _median_per_family(own):
            after = _with_rows(without, [*(row for row in others if row.setting == first.setting), first], gpus)
            for (a, b), both in to_name.items():
                unrelated = [(s, t) for s, t in both if s.family != first.family]
                after_one += [((a, b, s.program), _log_error(s, t, gpus, after)) for s, t in unrelated]
    return _conformal(by_facts), _conformal(after_one)


def _conformal(errors: Sequence[tuple[tuple[str, ...], float]]) -> float | None:
    return round(conformal_factor([e for _, e in errors], [g for g, _ in errors]), 4) if errors else None


def _median_per_family(rows: Sequence[StepBreakdown]) -> list[StepBreakdown]:
    """The step of median length in each family: neither all waiting nor all work."""
    families: dict[str, list[StepBreakdown]] = defaultdict(list)
    for row in rows:
        families[row.family].append(row)
    return [sorted(own, key=lambda row: row.seconds)[len(own) // 2] for _, own in sorted(families.items())]


def _pair_name(source: str, target: str) -> str:
    return f"{source}>{target}"
