"""What a formula of the links misses on a machine, as other programs on that machine have shown.

`fit_ring` tells a step on many GPUs from steps of the same program on few, `links` from one GPU and facts. Some of
what they get wrong is the machine's doing and the same for all programs: a switch between the third GPU and the
fourth, hosts that meet on two nodes. For each placement of a machine

    log(T / T_formula)  =  a · w  +  b · S/(B·T_formula)

with w the share of the step that follows the sending (`RingFit.sync_share`), S the gradient and B a tenth of the
nominal bandwidth of the link (`gradient_seconds`). a and b come from the steps of other programs on that machine at
that placement, and, less and less, at those near to it (a Gaussian in ln N and ln K), each program weighing the same,
pulled to 0. How hard is chosen by leaving families out, for each machine by itself as far as it has steps enough. A
machine or a placement that no other program was on is left as the formula has it. Where the gradient of some program
on a machine is not known, b is 0 for all of them: an unknown gradient is not an empty one.

The interval is that of families left out (`usual_factor`), in units of `calm + w` (a step that computes is surer than
one that sends) and of how far off the machine's other programs are.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from trainfare.estimator.fitting.conformal import usual_factor
from trainfare.estimator.parallel.ring import MeasuredStep, Placement, RingFit
from trainfare.model.machine import Gpu

if TYPE_CHECKING:
    import numpy as np

PULLS = (0.03, 0.1, 0.3, 1.0, 10.0)
_WIDTH = 0.15
"""Of the Gaussian, in ln N and in ln K."""
_NEAR = 0.3
"""A placement further than that from all that are known is not corrected."""
_WILD = 0.3
"""A log error beyond this loses weight."""
_MOST = 0.7
"""No correction is larger, in logs."""
_FEW = 5
_MANY = 40
"""Steps of a machine from which on these, and no longer those of all, choose its pull."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One step that a formula was asked for and that was measured."""

    program: str
    family: str
    machine: str
    placement: Placement
    sync_share: float
    gradient_share: float
    """S/(B·T_formula); 0 where the gradient is not known."""
    log_miss: float
    """ln(T / T_formula)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """a and b of one placement."""

    nodes: int
    gpus: int
    on_sync: float
    on_gradient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualFit:
    """Corrections by machine, and how far nine of ten families stay from what is then said."""

    machines: Mapping[str, tuple[Correction, ...]]
    spread: float = 0.7
    """In logs, for a step that is all sending; for one that is all computing calm/(1 + calm) of it."""
    calm: float = 0.3
    unrest: Mapping[str, float] = field(default_factory=dict)
    """By machine: how far off its programs come out beside those of the others; 1 for one that is not known."""

    def log_correction(self, machine: str, placement: Placement, sync_share: float, gradient_share: float) -> float:
        known = self.machines.get(machine, ())
        if not known:
            return 0.0
        nearest = min(known, key=lambda one: _distance(placement, one.nodes, one.gpus))
        if _distance(placement, nearest.nodes, nearest.gpus) > _NEAR:
            return 0.0
        told = nearest.on_sync * sync_share + nearest.on_gradient * gradient_share
        return min(max(told, -_MOST), _MOST)

    def log_spread(self, machine: str, sync_share: float) -> float:
        return self.spread * self.unrest.get(machine, 1.0) * (self.calm + sync_share) / (self.calm + 1)


NOTHING_KNOWN = ResidualFit(machines={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    seconds: float
    low: float
    high: float


def gradient_seconds(gradient_bytes: float | None, gpu: Gpu) -> float:
    """S/B, B a tenth of the nominal bandwidth inside a node: about what a ring reaches of it."""
    return (gradient_bytes or 0.0) / (0.1 * gpu.interconnect_gb_per_second * 1e9)


def foretell(
    ring: RingFit,
    placement: Placement,
    batch_size: float,
    *,
    machine: str,
    gradient_seconds: float,
    missed: ResidualFit,
) -> Foretold:
    """The step at a placement that the program was not on. `gradient_seconds` is S/B."""
    bare, share = ring.seconds(placement, batch_size), ring.sync_share(placement, batch_size)
    return corrected(bare, placement, share, machine=machine, gradient_seconds=gradient_seconds, missed=missed)


def corrected(
    bare: float, placement: Placement, sync_share: float, *, machine: str, gradient_seconds: float, missed: ResidualFit
) -> Foretold:
    """What a formula says, and what it misses on that machine."""
    seconds = bare * math.exp(missed.log_correction(machine, placement, sync_share, gradient_seconds / bare))
    factor = math.exp(missed.log_spread(machine, sync_share))
    return Foretold(seconds=seconds, low=seconds / factor, high=seconds * factor)


def residuals_of(
    ring: RingFit,
    steps: Sequence[MeasuredStep],
    *,
    program: str,
    family: str,
    machine: str,
    gradient_seconds: float,
) -> tuple[Residual, ...]:
    """Steps on more GPUs than the ring was fitted to, beside what it says of them."""
    found = []
    for step in steps:
        bare = ring.seconds(step.placement, step.batch_size)
        found.append(
            Residual(
                program=program,
                family=family,
                machine=machine,
                placement=step.placement,
                sync_share=ring.sync_share(step.placement, step.batch_size),
                gradient_share=gradient_seconds / bare,
                log_miss=math.log(step.seconds / bare),
            )
        )
    return tuple(found)


def fit_residuals(misses: Sequence[Residual], *, pulls: Sequence[float] = PULLS, calm: float = 0.3) -> ResidualFit:
    """The pulls with which families come out best when left out, their corrections, and how far those left out stray.

    Without pulls to choose from nothing is corrected, and only the interval is learnt.
    """
    families = sorted({miss.family for miss in misses})
    if len(families) < 2:
        return NOTHING_KNOWN
    tried = {pull: _left_out(misses, families, pull) for pull in pulls}
    chosen = _pulls(tried) if tried else {}
    left = [one for pull, found in tried.items() for one in found if chosen[one[1].machine] == pull]
    errors = left if tried else [(miss.log_miss, miss) for miss in misses]
    scaled = [(error * (1 + calm) / (calm + miss.sync_share), miss) for error, miss in errors]
    without = {family: _unrest([one for one in scaled if one[1].family != family]) for family in families}
    calmed = [error / without[miss.family].get(miss.machine, 1.0) for error, miss in scaled]
    return ResidualFit(
        machines=_corrections(misses, chosen) if tried else {},
        spread=math.log(usual_factor(calmed, [miss.family for _, miss in scaled])),
        calm=calm,
        unrest=_unrest(scaled),
    )


def _unrest(errors: Sequence[tuple[float, Residual]]) -> dict[str, float]:
    """Mean absolute error of each machine over that of all, as if `_FEW` more of its steps were like the others'."""
    by_machine: dict[str, list[float]] = defaultdict(list)
    for error, miss in errors:
        by_machine[miss.machine].append(abs(error))
    usual = fmean(abs(error) for error, _ in errors)
    return {
        machine: (sum(own) + _FEW * usual) / (len(own) + _FEW) / usual if usual else 1.0
        for machine, own in by_machine.items()
    }


def _left_out(misses: Sequence[Residual], families: Sequence[str], pull: float) -> list[tuple[float, Residual]]:
    found = []
    for family in families:
        others = [miss for miss in misses if miss.family != family]
        fit = ResidualFit(machines=_corrections(others, {miss.machine: pull for miss in others}))
        for miss in misses:
            if miss.family == family:
                told = fit.log_correction(miss.machine, miss.placement, miss.sync_share, miss.gradient_share)
                found.append((miss.log_miss - told, miss))
    return found


def _pulls(tried: Mapping[float, Sequence[tuple[float, Residual]]]) -> dict[str, float]:
    """Of each machine: the least mean absolute error, as if `_MANY` more of its steps erred as those of all do."""
    of_all: dict[float, float] = {}
    of_one: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for pull, found in tried.items():
        of_all[pull] = fmean(abs(error) for error, _ in found)
        for error, miss in found:
            of_one[miss.machine][pull].append(abs(error))
    return {
        machine: min(own, key=lambda pull: sum(own[pull]) + _MANY * of_all[pull]) for machine, own in of_one.items()
    }


def _corrections(misses: Sequence[Residual], pulls: Mapping[str, float]) -> dict[str, tuple[Correction, ...]]:
    by_machine: dict[str, list[Residual]] = defaultdict(list)
    for miss in misses:
        by_machine[miss.machine].append(miss)
    return {machine: _of_machine(own, pulls[machine]) for machine, own in sorted(by_machine.items())}


def _of_machine(misses: Sequence[Residual], pull: float) -> tuple[Correction, ...]:
    import numpy as np

    rows = Counter(miss.program for miss in misses)
    all_known = all(miss.gradient_share for miss in misses)
    columns = np.array([[miss.sync_share, miss.gradient_share if all_known else 0.0] for miss in misses])
    logs = np.array([miss.log_miss for miss in misses])
    weights = np.array([1 / rows[miss.program] for miss in misses]) / np.sqrt(1 + (logs / _WILD) ** 2)
    n = np.log([miss.placement.nodes for miss in misses])
    k = np.log([miss.placement.gpus for miss in misses])
    found = []
    for nodes, gpus in sorted({(miss.placement.nodes, miss.placement.gpus) for miss in misses}):
        near = np.exp(-((n - math.log(nodes)) ** 2 + (k - math.log(gpus)) ** 2) / (2 * _WIDTH**2))
        on_sync, on_gradient = _ridge(columns, logs, weights * near, pull)
        found.append(Correction(nodes=nodes, gpus=gpus, on_sync=on_sync, on_gradient=on_gradient))
    return tuple(found)


def _ridge(columns: "np.ndarray", logs: "np.ndarray", weights: "np.ndarray", pull: float) -> tuple[float, float]:
    import numpy as np

    weighted = columns * weights[:, None]
    a, b = np.linalg.solve(weighted.T @ columns + pull * np.eye(2), weighted.T @ logs)
    return float(a), float(b)


def _distance(placement: Placement, nodes: int, gpus: int) -> float:
    return math.hypot(math.log(placement.nodes / nodes), math.log(placement.gpus / gpus))
