"""Fits every part of a calibration to tables of measurements, and measures its error on held-out rows.

Each part has its own file and its own fit; here they are put together.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import permutations
from statistics import fmean

from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT, batch_curves, fit_seconds_only
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.fitting.conformal import typical_factor
from trainfare.estimator.gpu.by_operator import fit_transfer
from trainfare.estimator.gpu.by_times import fit_programs
from trainfare.estimator.gpu.physics import PhysicsFit, step_seconds
from trainfare.estimator.gpu.physics_fit import fit_physics
from trainfare.estimator.parallel.links import HALF_DTYPES, ClusterStep, fit_links
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration, Measurements
from trainfare.units import format_count

FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutError:
    """Mean absolute error of a part on rows held out of its fit, in percent; and that of the previous coefficients."""

    part: str
    rows: int
    error: float
    error_before: float | None = None


def fit_calibration(
    measurements: Measurements,
    gpus: Mapping[str, Gpu],
    *,
    made_at: datetime,
    command: str,
    fingerprint: str,
    before: Calibration | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Calibration, tuple[HeldOutError, ...]]:
    """Every part fitted to its rows, and the error on held-out rows.

    A part without rows keeps its coefficients of `before`; without those it is a `ValueError`.
    """
    traced = [row for row in measurements.traced if row.gpu in gpus and row.gpus == 1]
    on_progress(f"operations to time: {format_count(len(traced))} iterations")
    physics = fit_physics(traced, gpus)
    on_progress("the same with families held out")
    held_out, (scaled, same) = cross_validate_physics(traced, gpus, before.physics if before else None)
    steps = cluster_steps(measurements.clusters, gpus)
    on_progress(f"several GPUs: {format_count(len(steps))} steps")
    links = fit_links(steps) if steps else _previous(before, "links").links
    programs = [row for row in measurements.programs if row.gpu in gpus]
    on_progress(f"programs by their times: {format_count(len(programs))} iterations")
    by_times = fit_programs(programs, gpus) if programs else _previous(before, "programs").programs
    operators = measurements.operators
    on_progress(f"operators from one GPU to another: {format_count(len(operators))} profiles")
    transfer = fit_transfer(operators, gpus) if operators else _previous(before, "transfer").transfer
    curves = batch_curves(operators, gpus)
    on_progress(f"larger batches: {format_count(len(curves))} curves")
    previous_batches = before.larger_batch if before else DEFAULT_LARGER_BATCH_FIT
    calibration = Calibration(
        made_at=made_at,
        command=command,
        fingerprint=fingerprint,
        rows=measurements.counts,
        physics=physics,
        links=links,
        programs=by_times,
        transfer=transfer,
        scaled_factor=scaled,
        same_gpu_factor=same,
        larger_batch=fit_seconds_only(curves) if curves else previous_batches,
    )
    return calibration, (held_out,)


def _previous(before: Calibration | None, part: str) -> Calibration:
    if before is None:
        raise ValueError(f"there are no rows to fit {part} to")
    return before


def cross_validate_physics(
    rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], before: PhysicsFit | None
) -> tuple[HeldOutError, tuple[float, float]]:
    """The error with families held out; and the factors of times scaled to another GPU, and to the same GPU in another
    machine."""
    predicted: dict[int, float] = {}
    families = sorted({row.family for row in rows})
    if len(families) < 2:
        raise ValueError(f"iterations of at least two families of programs are needed, and there are {len(families)}")
    for fold in range(min(FOLDS, len(families))):
        out = set(families[fold::FOLDS])
        fit = fit_physics([row for row in rows if row.family not in out], gpus)
        for index, row in enumerate(rows):
            if row.family in out:
                predicted[index] = step_seconds(row.operations, [gpus[row.gpu]], fit)[0].seconds
    held_out = HeldOutError(
        part="operations to time, families held out",
        rows=len(predicted),
        error=100 * fmean(abs(seconds / rows[index].seconds - 1) for index, seconds in predicted.items()),
        error_before=None if before is None else 100 * fmean(_relative_errors(rows, gpus, before)),
    )
    return held_out, _scaling_factors(rows, predicted)


def _relative_errors(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], fit: PhysicsFit) -> Iterator[float]:
    for row in rows:
        yield abs(step_seconds(row.operations, [gpus[row.gpu]], fit)[0].seconds / row.seconds - 1)


def _scaling_factors(rows: Sequence[MeasuredIteration], predicted: Mapping[int, float]) -> tuple[float, float]:
    """The 90% factors of log(t_b/t_a) − log(p_b/p_a), over every pair of machines that ran the same program, each
    target GPU weighing the same: to another GPU, and to the same GPU in another machine."""
    by_program: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index in predicted:
        row = rows[index]
        by_program[row.source, row.program, row.dtype, row.batch_size].append(index)
    other_gpu: list[tuple[float, str]] = []
    same_gpu: list[tuple[float, str]] = []
    for indices in by_program.values():
        for a, b in permutations(indices, 2):
            error = math.log(rows[b].seconds / rows[a].seconds) - math.log(predicted[b] / predicted[a])
            pair = (error, rows[b].gpu)
            (same_gpu if rows[a].gpu == rows[b].gpu else other_gpu).append(pair)
    return _factor(other_gpu, 2.0), _factor(same_gpu, 1.25)


def _factor(pairs: Sequence[tuple[float, str]], assumed: float) -> float:
    """`assumed` if no two machines ran the same program."""
    return typical_factor([error for error, _ in pairs], [gpu for _, gpu in pairs]) if pairs else assumed


def cluster_steps(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> list[ClusterStep]:
    """Each step on several GPUs, with the step of a single GPU at the same batch size per GPU.

    Rows of several nodes with neither a gradient size nor a network are left out: nothing can be learned from them.
    """

    def key(row: MeasuredIteration) -> tuple[object, ...]:
        return row.source, row.program, row.gpu, row.machine, row.dtype, row.batch_size

    single = {key(row): row.seconds for row in rows if row.gpus == 1}
    return [
        ClusterStep(
            program=row.program,
            family=row.family,
            gpu=gpus[row.gpu],
            gpus=row.gpus,
            nodes=row.nodes,
            single_gpu_seconds=single[key(row)],
            seconds=row.seconds,
            gradient_bytes=row.gradient_bytes,
            network_gb_per_second=row.network_gb_per_second,
            half=row.dtype in HALF_DTYPES,
        )
        for row in rows
        if row.gpus > 1
        and row.gpu in gpus
        and key(row) in single
        and (row.nodes == 1 or row.gradient_bytes or row.network_gb_per_second)
    ]
