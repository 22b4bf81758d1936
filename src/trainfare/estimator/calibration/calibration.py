"""All coefficients that predictions are made with: what was fitted, to what, by which command, and how far off it is.

Each part has its own file and its own fit; here they are put together, judged on what was left out, and turned into
JSON and back. The tables themselves are not kept: a fingerprint says which they were.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import permutations
from statistics import fmean

import msgspec

from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT, LargerBatchFit, batch_curves, fit_seconds_only
from trainfare.estimator.calibration.corrections import Corrections
from trainfare.estimator.fitting.conformal import typical_factor
from trainfare.estimator.gpu.by_operator import TransferFit, fit_transfer
from trainfare.estimator.gpu.by_times import ProgramsFit, fit_programs
from trainfare.estimator.gpu.physics import PhysicsFit, StepSeconds, fit_physics, interval_factor, step_seconds
from trainfare.estimator.parallel.links import HALF_DTYPES, ClusterStep, ScalingFit, fit_links
from trainfare.model.checks import require_aware, require_positive, require_text
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration, Measurements

VERSION = 1
FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Coefficients, and where they come from."""

    made_at: datetime
    command: str
    fingerprint: str
    """Of the tables that it was fitted to."""
    rows: Mapping[str, int]
    """How many, by table."""
    physics: PhysicsFit
    links: ScalingFit
    programs: ProgramsFit
    transfer: TransferFit
    scaled_factor: float
    """Up and down, 90 %: a time measured on one GPU, moved to another by the model."""
    same_gpu_factor: float
    """The same GPU in another machine."""
    larger_batch: LargerBatchFit = DEFAULT_LARGER_BATCH_FIT
    """How a step grows beyond the batch sizes that were measured; as it ships, in calibrations that do not have it."""
    corrections: Corrections = field(default_factory=Corrections)
    """From the user's own profiles."""
    learned_from: int = 0
    """So many of them."""

    def __post_init__(self) -> None:
        require_aware(made_at=self.made_at)
        require_text(command=self.command, fingerprint=self.fingerprint)
        require_positive(scaled_factor=self.scaled_factor, same_gpu_factor=self.same_gpu_factor)
        if min(self.scaled_factor, self.same_gpu_factor) < 1:
            raise ValueError("a factor of error is at least 1")

    def extrapolated_factor(self, step: StepSeconds, gpu: str) -> float:
        """Up and down, 90 %; narrower on a GPU that the user's profiles have corrected."""
        factor = interval_factor(step, gpu, self.physics)
        doubt = self.corrections.doubt.get(gpu, 1.0)
        if gpu in self.physics.gpus or doubt == 1.0:
            return factor
        known, unknown = math.log(self.physics.factor_new_program), math.log(factor)
        return math.exp(math.hypot(known, doubt * math.sqrt(max(0.0, unknown**2 - known**2))))

    def behind(self, gpu: str) -> tuple[str, ...]:
        """What an extrapolation leans on."""
        if gpu in self.physics.gpus:
            return (f"the operations of one iteration, by what those of other programs took on {gpu}",)
        own = ", corrected by your own profiles there" if gpu in self.corrections.gpus else ""
        return (f"the operations of one iteration and the nominal figures of {gpu}, by what GPUs reach of them{own}",)


def to_json(calibration: Calibration) -> bytes:
    document = {"kind": "calibration", "version": VERSION, **msgspec.to_builtins(calibration)}
    return msgspec.json.encode(document)


def from_json(document: bytes) -> Calibration:
    """A `ValueError` says what is wrong with it."""
    try:
        found = msgspec.json.decode(document)
        if not isinstance(found, dict) or found.get("kind") != "calibration":
            raise ValueError("it is not a calibration")
        if found.get("version") != VERSION:
            raise ValueError(f"it has version {found.get('version')}, and this trainfare reads {VERSION}")
        return msgspec.convert(found, Calibration)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutError:
    """How far off a part is on rows that were left out of its fit, in percent; and how far the old one is on them."""

    part: str
    rows: int
    error: float
    error_before: float | None = None


def cross_validate_physics(
    rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], before: PhysicsFit | None
) -> tuple[HeldOutError, tuple[float, float]]:
    """By families left out; and the factors of error of times that are moved to another GPU, and to the same one in
    another machine."""
    predicted: dict[int, float] = {}
    families = sorted({row.family for row in rows})
    if len(families) < 2:
        raise ValueError(f"iterations of at least two families of programs are needed, and there are {len(families)}")
    for fold in range(min(FOLDS, len(families))):
        out = set(families[fold::FOLDS])
        fit = fit_physics([row for row in rows if row.family not in out], gpus)
        for place, row in enumerate(rows):
            if row.family in out:
                predicted[place] = step_seconds(row.operations, [gpus[row.gpu]], fit)[0].seconds
    told = HeldOutError(
        part="operations to time, families left out",
        rows=len(predicted),
        error=100 * fmean(abs(seconds / rows[place].seconds - 1) for place, seconds in predicted.items()),
        error_before=None if before is None else 100 * fmean(_errors(rows, gpus, before)),
    )
    return told, _moved_factors(rows, predicted)


def _errors(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu], fit: PhysicsFit) -> Iterator[float]:
    for row in rows:
        yield abs(step_seconds(row.operations, [gpus[row.gpu]], fit)[0].seconds / row.seconds - 1)


def _moved_factors(rows: Sequence[MeasuredIteration], predicted: Mapping[int, float]) -> tuple[float, float]:
    """log(t_b/t_a) against log(p_b/p_a), over every pair of machines that ran the same program; nine tenths of the GPUs
    moved to, each weighing the same."""
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place in predicted:
        row = rows[place]
        alike[row.source, row.program, row.dtype, row.batch_size].append(place)
    moved: list[tuple[float, str]] = []
    same: list[tuple[float, str]] = []
    for places in alike.values():
        for a, b in permutations(places, 2):
            error = math.log(rows[b].seconds / rows[a].seconds) - math.log(predicted[b] / predicted[a])
            pair = (error, rows[b].gpu)
            (same if rows[a].gpu == rows[b].gpu else moved).append(pair)
    return _factor(moved, 2.0), _factor(same, 1.25)


def _factor(pairs: Sequence[tuple[float, str]], assumed: float) -> float:
    """`assumed` where no two machines ran the same program."""
    return typical_factor([e for e, _ in pairs], [gpu for _, gpu in pairs]) if pairs else assumed


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
    """Every part fitted anew, and how far off it is on what was left out. A part without rows keeps what it was
    `before`; without that it is a `ValueError`."""
    traced = [row for row in measurements.traced if row.gpu in gpus and row.gpus == 1]
    on_progress(f"operations to time: {len(traced)} iterations")
    physics = fit_physics(traced, gpus)
    on_progress("the same with families left out")
    left_out, (scaled, same) = cross_validate_physics(traced, gpus, before.physics if before else None)
    steps = cluster_steps(measurements.clusters, gpus)
    on_progress(f"several GPUs: {len(steps)} steps")
    links = fit_links(steps) if steps else _kept(before, "links").links
    programs = [row for row in measurements.programs if row.gpu in gpus]
    on_progress(f"programs by their times: {len(programs)} iterations")
    by_times = fit_programs(programs, gpus) if programs else _kept(before, "programs").programs
    on_progress(f"operators from one GPU to another: {len(measurements.operators)} profiles")
    transfer = (
        fit_transfer(measurements.operators, gpus) if measurements.operators else _kept(before, "transfer").transfer
    )
    curves = batch_curves(measurements.operators, gpus)
    on_progress(f"larger batches: {len(curves)} curves")
    larger = fit_seconds_only(curves) if curves else before.larger_batch if before else DEFAULT_LARGER_BATCH_FIT
    found = Calibration(
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
        larger_batch=larger,
    )
    return found, (left_out,)


def _kept(before: Calibration | None, part: str) -> Calibration:
    if before is None:
        raise ValueError(f"there are no rows to fit {part} to")
    return before


def cluster_steps(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> list[ClusterStep]:
    """Each step on several GPUs beside the step of one, at the same batch of one GPU.

    Of several nodes one must know what was sent or over which network: who knows neither learns nothing from them.
    """

    def alike(row: MeasuredIteration) -> tuple[object, ...]:
        return row.source, row.program, row.gpu, row.machine, row.dtype, row.batch_size

    alone = {alike(row): row.seconds for row in rows if row.gpus == 1}
    return [
        ClusterStep(
            program=row.program,
            family=row.family,
            gpu=gpus[row.gpu],
            gpus=row.gpus,
            nodes=row.nodes,
            single_gpu_seconds=alone[alike(row)],
            seconds=row.seconds,
            gradient_bytes=row.gradient_bytes,
            network_gb_per_second=row.network_gb_per_second,
            half=row.dtype in HALF_DTYPES,
        )
        for row in rows
        if row.gpus > 1
        and row.gpu in gpus
        and alike(row) in alone
        and (row.nodes == 1 or row.gradient_bytes or row.network_gb_per_second)
    ]
