"""Corrections of a step-time formula on a machine, learned from the residuals of other programs on that machine.

`fit_ring` predicts a step on many GPUs from steps of the same program on few, `links` from one GPU and hardware facts.
Part of their error belongs to the machine and is the same for all programs: a switch between the third GPU and the
fourth, hosts that meet on two nodes. For each placement on a machine

    log(T / T_formula)  =  a · w  +  b · S/(B·T_formula)

with w the elasticity of the step to the time of sending (`RingFit.sync_share`), S the gradient and B a tenth of the
nominal bandwidth of the link (`gradient_seconds`). a and b come from the steps of other programs on that machine at
that placement and, with less weight, at nearby placements (a Gaussian in ln N and ln K), each program weighing the
same, with a ridge penalty. The penalty is chosen by leaving families out, for each machine separately as far as it has
enough steps. A machine or a placement without other programs keeps the formula. Where the gradient of some program on a
machine is not known, b is 0 for all of them: an unknown gradient is not a zero gradient.

The interval covers 90% of families that were left out (`typical_factor`). Its width is proportional to `base_width + w`
(a step that computes is more certain than one that sends) and to the relative error of the machine's other programs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from trainfare.estimator.fitting.conformal import typical_factor
from trainfare.estimator.parallel.ring import GpuPlacement, MeasuredStep, RingFit
from trainfare.model.machine import Gpu

if TYPE_CHECKING:
    import numpy as np

PENALTIES = (0.03, 0.1, 0.3, 1.0, 10.0)
_WIDTH = 0.15
"""Standard deviation of the Gaussian weight, in ln N and in ln K."""
_MAX_DISTANCE = 0.3
"""A placement farther than this from all known ones is not corrected."""
_OUTLIER = 0.3
"""A log error above this loses weight."""
MAX_CORRECTION = 0.7
"""Largest correction, in logs."""
_PSEUDO_STEPS = 5
"""Steps with the typical error that are added to those of each machine."""
_PSEUDO_STEPS_FOR_PENALTY = 40
"""Steps with the error of all machines that are added where the penalty of one machine is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """The log error of a formula for one measured step."""

    program: str
    family: str
    machine: str
    placement: GpuPlacement
    sync_share: float
    gradient_share: float
    """S/(B·T_formula); 0 where the gradient is not known."""
    log_residual: float
    """ln(T / T_formula)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCorrection:
    """a and b of one placement."""

    nodes: int
    gpus: int
    on_sync: float
    on_gradient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualFit:
    """Corrections by machine, and the interval of a corrected prediction."""

    machines: Mapping[str, tuple[LinkCorrection, ...]]
    spread: float = 0.7
    """Half width of the 90% interval, in logs, of a step that only sends. That of a step that only computes is
    base_width/(1 + base_width) of it."""
    base_width: float = 0.3
    relative_errors: Mapping[str, float] = field(default_factory=dict)
    """By machine, the error of its programs relative to those of all machines; 1 for a machine that is not known."""

    def at(self, machine: str, placement: GpuPlacement) -> "PlacementResidual":
        """The correction and the error of one machine at one placement."""
        known = self.machines.get(machine, ())
        nearest = min(known, key=lambda one: _distance(placement, one.nodes, one.gpus), default=None)
        if nearest is not None and _distance(placement, nearest.nodes, nearest.gpus) > _MAX_DISTANCE:
            nearest = None
        spread = self.spread * self.relative_errors.get(machine, 1.0)
        if nearest is None:
            return PlacementResidual(0.0, 0.0, spread, self.base_width)
        return PlacementResidual(nearest.on_sync, nearest.on_gradient, spread, self.base_width)

    def log_correction(self, machine: str, placement: GpuPlacement, sync_share: float, gradient_share: float) -> float:
        return self.at(machine, placement).log_correction(sync_share, gradient_share)

    def log_spread(self, machine: str, sync_share: float) -> float:
        return self.at(machine, GpuPlacement(nodes=1, gpus=1)).log_spread(sync_share)


class PlacementResidual(NamedTuple):
    """a and b of the nearest placement, zero if none is near; and the half width of a step that only sends."""

    on_sync: float
    on_gradient: float
    spread: float
    base_width: float

    def log_correction(self, sync_share: float, gradient_share: float) -> float:
        correction = self.on_sync * sync_share + self.on_gradient * gradient_share
        return min(max(correction, -MAX_CORRECTION), MAX_CORRECTION)

    def log_spread(self, sync_share: float) -> float:
        return self.spread * (self.base_width + sync_share) / (self.base_width + 1)

    def correct(self, bare: float, sync_share: float, gradient_seconds: float) -> "CorrectedStep":
        """The time `bare` of a formula with the correction, and its interval."""
        seconds = bare * math.exp(self.log_correction(sync_share, gradient_seconds / bare))
        factor = math.exp(self.log_spread(sync_share))
        return CorrectedStep(seconds=seconds, low=seconds / factor, high=seconds * factor)


NO_CORRECTIONS = ResidualFit(machines={})


class CorrectedStep(NamedTuple):
    """A corrected step time and its 90% interval."""

    seconds: float
    low: float
    high: float


def gradient_seconds(gradient_bytes: float | None, gpu: Gpu) -> float:
    """S/B, with B a tenth of the nominal bandwidth inside a node, about as much as a ring reaches."""
    return (gradient_bytes or 0.0) / (0.1 * gpu.interconnect_gb_per_second * 1e9)


def predict_ring_step(
    ring: RingFit,
    placement: GpuPlacement,
    batch_size: float,
    *,
    machine: str,
    gradient_seconds: float,
    residuals: ResidualFit,
) -> CorrectedStep:
    """The step at a placement on which the program was not measured. `gradient_seconds` is S/B."""
    bare, share = ring.seconds(placement, batch_size), ring.sync_share(placement, batch_size)
    return correct_step(bare, placement, share, machine=machine, gradient_seconds=gradient_seconds, residuals=residuals)


def correct_step(
    bare: float,
    placement: GpuPlacement,
    sync_share: float,
    *,
    machine: str,
    gradient_seconds: float,
    residuals: ResidualFit,
) -> CorrectedStep:
    """The time `bare` of a formula with the correction for that machine."""
    return residuals.at(machine, placement).correct(bare, sync_share, gradient_seconds)


def ring_residuals(
    ring: RingFit,
    steps: Sequence[MeasuredStep],
    *,
    program: str,
    family: str,
    machine: str,
    gradient_seconds: float,
) -> tuple[Residual, ...]:
    """The residuals of steps on more GPUs than the ring was fitted to."""
    residuals = []
    for step in steps:
        bare = ring.seconds(step.placement, step.batch_size)
        residuals.append(
            Residual(
                program=program,
                family=family,
                machine=machine,
                placement=step.placement,
                sync_share=ring.sync_share(step.placement, step.batch_size),
                gradient_share=gradient_seconds / bare,
                log_residual=math.log(step.seconds / bare),
            )
        )
    return tuple(residuals)


def fit_residuals(
    residuals: Sequence[Residual], *, penalties: Sequence[float] = PENALTIES, base_width: float = 0.3
) -> ResidualFit:
    """Corrections with the penalties that predict left-out families best, and the interval of those families.

    Without penalties to choose from nothing is corrected, and only the interval is learned.
    """
    families = sorted({residual.family for residual in residuals})
    if len(families) < 2:
        return NO_CORRECTIONS
    tried = {penalty: _held_out_errors(residuals, families, penalty) for penalty in penalties}
    chosen = _choose_penalties(tried) if tried else {}
    corrected = [pair for penalty, errors in tried.items() for pair in errors if chosen[pair[1].machine] == penalty]
    pairs = corrected if tried else [(residual.log_residual, residual) for residual in residuals]
    scaled = [(error * (1 + base_width) / (base_width + residual.sync_share), residual) for error, residual in pairs]
    without = {family: _relative_errors([pair for pair in scaled if pair[1].family != family]) for family in families}
    normalised = [error / without[residual.family].get(residual.machine, 1.0) for error, residual in scaled]
    return ResidualFit(
        machines=_corrections(residuals, chosen) if tried else {},
        spread=math.log(typical_factor(normalised, [residual.family for _, residual in scaled])),
        base_width=base_width,
        relative_errors=_relative_errors(scaled),
    )


def _relative_errors(errors: Sequence[tuple[float, Residual]]) -> dict[str, float]:
    """The mean absolute error of each machine over that of all, with `_PSEUDO_STEPS` typical steps added."""
    by_machine: dict[str, list[float]] = defaultdict(list)
    for error, residual in errors:
        by_machine[residual.machine].append(abs(error))
    typical = fmean(abs(error) for error, _ in errors)
    return {
        machine: (sum(own) + _PSEUDO_STEPS * typical) / (len(own) + _PSEUDO_STEPS) / typical if typical else 1.0
        for machine, own in by_machine.items()
    }


def _held_out_errors(
    residuals: Sequence[Residual], families: Sequence[str], penalty: float
) -> list[tuple[float, Residual]]:
    """The log error of each residual after a correction that was learned without its family."""
    errors = []
    for family in families:
        others = [residual for residual in residuals if residual.family != family]
        fit = ResidualFit(machines=_corrections(others, {residual.machine: penalty for residual in others}))
        for residual in residuals:
            if residual.family == family:
                correction = fit.log_correction(
                    residual.machine, residual.placement, residual.sync_share, residual.gradient_share
                )
                errors.append((residual.log_residual - correction, residual))
    return errors


def _choose_penalties(tried: Mapping[float, Sequence[tuple[float, Residual]]]) -> dict[str, float]:
    """The penalty of each machine with the least mean absolute error, with steps of all machines added."""
    overall: dict[float, float] = {}
    by_machine: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for penalty, errors in tried.items():
        overall[penalty] = fmean(abs(error) for error, _ in errors)
        for error, residual in errors:
            by_machine[residual.machine][penalty].append(abs(error))
    return {
        machine: min(own, key=lambda penalty: sum(own[penalty]) + _PSEUDO_STEPS_FOR_PENALTY * overall[penalty])
        for machine, own in by_machine.items()
    }


def _corrections(
    residuals: Sequence[Residual], penalties: Mapping[str, float]
) -> dict[str, tuple[LinkCorrection, ...]]:
    by_machine: dict[str, list[Residual]] = defaultdict(list)
    for residual in residuals:
        by_machine[residual.machine].append(residual)
    return {machine: _machine_corrections(own, penalties[machine]) for machine, own in sorted(by_machine.items())}


def _machine_corrections(residuals: Sequence[Residual], penalty: float) -> tuple[LinkCorrection, ...]:
    import numpy as np

    rows = Counter(residual.program for residual in residuals)
    all_known = all(residual.gradient_share for residual in residuals)
    columns = np.array([[r.sync_share, r.gradient_share if all_known else 0.0] for r in residuals])
    logs = np.array([r.log_residual for r in residuals])
    weights = np.array([1 / rows[r.program] for r in residuals]) / np.sqrt(1 + (logs / _OUTLIER) ** 2)
    n = np.log([r.placement.nodes for r in residuals])
    k = np.log([r.placement.gpus for r in residuals])
    corrections = []
    for nodes, gpus in sorted({(r.placement.nodes, r.placement.gpus) for r in residuals}):
        near = np.exp(-((n - math.log(nodes)) ** 2 + (k - math.log(gpus)) ** 2) / (2 * _WIDTH**2))
        on_sync, on_gradient = _ridge(columns, logs, weights * near, penalty)
        corrections.append(LinkCorrection(nodes=nodes, gpus=gpus, on_sync=on_sync, on_gradient=on_gradient))
    return tuple(corrections)


def _ridge(columns: "np.ndarray", logs: "np.ndarray", weights: "np.ndarray", penalty: float) -> tuple[float, float]:
    import numpy as np

    weighted = columns * weights[:, None]
    a, b = np.linalg.solve(weighted.T @ columns + penalty * np.eye(2), weighted.T @ logs)
    return float(a), float(b)


def _distance(placement: GpuPlacement, nodes: int, gpus: int) -> float:
    return math.hypot(math.log(placement.nodes / nodes), math.log(placement.gpus / gpus))
