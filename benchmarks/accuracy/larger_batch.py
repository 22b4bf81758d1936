"""The largest measured batch size of a program on a machine, predicted from its three smallest at one image side.

Complete families are left out; with a test folder, everything is learned from the fit folder without the tested
programs. `cnn_on_ec2` uses the time of every operator at the three sizes, `cnn_on_ec2/latency_only` only their seconds,
as in profiles without operator times. Settings without operator times are predicted from their seconds in both.

Baselines: `line` is a + b·B by least squares on relative errors, a and b not negative; `line through two` goes through
the first and the last of the three; `power law` is least squares on logarithms; `end-to-end regression` is one
stepwise regression per program and machine type, on batch and pixels, over the given rows of all its image sides.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.accuracy.judged import Judged
from benchmarks.baselines.stepwise import fit_stepwise
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.batch.larger import (
    KNOWN_SIZES,
    BatchCurve,
    KnownBatch,
    LargerBatchFit,
    fit_larger_batch,
    known_batch,
    predict_larger_batch,
    program_curves,
    without_operators,
)
from trainfare.estimator.batch.step_time import batch_line
from trainfare.measurements.cnn_on_ec2 import family_of, gpu_of, read_latencies, read_profiles
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile

KEY = "larger_batch/cnn_on_ec2"

Setting = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting: its curve, and the GPU of the machine."""

    setting: Setting
    curve: BatchCurve
    gpu: Gpu | None

    @property
    def points(self) -> list[tuple[float, float]]:
        return [(known.batch_size, known.seconds) for known in self.curve.known]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    learned_from, shorter = read_rows(fit)
    asked = learned_from if test is None else read_rows(test)[0]
    if not asked:
        raise FileNotFoundError(f"{test or fit}/cnn_on_ec2: no setting with more than {KNOWN_SIZES} batch sizes")
    left_out = family_of if test is None else _itself
    curves = [row.curve for row in learned_from] + shorter
    by_seconds = _answers(asked, [*without_operators(curves)], left_out, operators=False)
    timed = [curve for curve in curves if _timed(curve)]
    split = _answers(asked, timed, left_out, operators=True) if timed else by_seconds
    both = [s if _timed(row.curve) else w for row, s, w in zip(asked, split, by_seconds, strict=True)]
    baselines = _baselines(asked)
    for key, answers in ((KEY, both), (f"{KEY}/latency_only", by_seconds)):
        yield Judged.of_intervals(
            key, [row.curve.seconds for row in asked], answers, baselines=baselines, note=_note(asked)
        )


def read_rows(folder: Path) -> tuple[list[Row], list[BatchCurve]]:
    """Each setting from its three smallest batch sizes to its largest, and the shorter curves inside them."""
    profiles: dict[Setting, dict[float, OperatorProfile]] = defaultdict(dict)
    seconds: dict[Setting, dict[float, float]] = defaultdict(dict)
    missing: list[FileNotFoundError] = []
    try:
        for profile in read_profiles(folder):
            setting = (profile.program, profile.image_side, profile.vm_type)
            profiles[setting][profile.batch_size] = profile
            seconds[setting][profile.batch_size] = profile.seconds
    except FileNotFoundError as error:
        missing.append(error)
    try:
        for one, latency in read_latencies(folder).items():
            seconds[one.program, one.image_side, one.vm_type][one.batch_size] = latency
    except FileNotFoundError as error:
        missing.append(error)
    if len(missing) == 2:
        raise missing[1]
    gpus = load_gpus()
    rows: list[Row] = []
    shorter: list[BatchCurve] = []
    for setting, times in sorted(seconds.items()):
        known = {size: _known(size, latency, profiles[setting].get(size)) for size, latency in times.items()}
        found = program_curves(known, profiles[setting], gpus, program=setting[0], family=family_of(setting[0]))
        if found:
            rows.append(Row(setting=setting, curve=found[0], gpu=gpus.get(gpu_of(setting[2]))))
            shorter += found[1:]
    return rows, shorter


def _known(batch_size: float, seconds: float, profile: OperatorProfile | None) -> KnownBatch:
    if profile is None:
        return KnownBatch(batch_size=batch_size, seconds=seconds)
    return replace(known_batch(profile), seconds=seconds)


def _timed(curve: BatchCurve) -> bool:
    return all(known.product_seconds is not None for known in curve.known)


def _itself(program: str) -> str:
    return program


def _answers(
    asked: Sequence[Row], curves: Sequence[BatchCurve], left_out: Callable[[str], str], *, operators: bool
) -> list[Interval | None]:
    """The prediction of each row by a fit without its group; rows of the same group share a fit."""
    fits: dict[str, LargerBatchFit | None] = {}
    known = {left_out(curve.program) for curve in curves}
    answers: list[Interval | None] = []
    for row in asked:
        group = left_out(row.setting[0])
        group = group if group in known else ""
        if group not in fits:
            rest = [curve for curve in curves if left_out(curve.program) != group]
            fits[group] = fit_larger_batch(rest) if rest else None
        fit = fits[group]
        curve = row.curve if operators else without_operators([row.curve])[0]
        if fit is None or (operators and not _timed(curve)):
            answers.append(None)
        else:
            answers.append(predict_larger_batch(curve.known, curve.batch_size, fit, memory_share=curve.memory_share))
    return answers


def _baselines(asked: Sequence[Row]) -> dict[str, list[float]]:
    return {
        "line": [batch_line(row.points).seconds(row.curve.batch_size) for row in asked],
        "line through two": [_through_two(row) for row in asked],
        "proportional": [row.points[-1][1] * row.curve.batch_size / row.points[-1][0] for row in asked],
        "power law": [_power_law(row) for row in asked],
        "end-to-end regression": _end_to_end(asked),
    }


def _through_two(row: Row) -> float:
    (b1, t1), *_, (b3, t3) = row.points
    return max(t1 + (t3 - t1) / (b3 - b1) * (row.curve.batch_size - b1), 1e-9)


def _power_law(row: Row) -> float:
    b, t = np.log(np.array(row.points)).T
    slope, start = np.polyfit(b, t, 1)
    return float(np.exp(start + slope * math.log(row.curve.batch_size)))


def _end_to_end(asked: Sequence[Row]) -> list[float]:
    answers = [math.nan] * len(asked)
    for program, vm_type in {(row.setting[0], row.setting[2]) for row in asked}:
        places = [i for i, row in enumerate(asked) if (row.setting[0], row.setting[2]) == (program, vm_type)]
        given = [(asked[i], batch, seconds) for i in places for batch, seconds in asked[i].points]
        fit = fit_stepwise(_columns([(row, b) for row, b, _ in given]), [seconds for _, _, seconds in given])
        found = fit.predict(_columns([(asked[i], asked[i].curve.batch_size) for i in places]))
        for place, seconds in zip(places, found, strict=True):
            answers[place] = float(seconds)
    return answers


def _columns(cells: Sequence[tuple[Row, float]]) -> dict[str, list[float]]:
    return {
        "batch": [batch for _, batch in cells],
        "pixels": [float(row.setting[1] ** 2) for row, _ in cells],
    }


def _note(asked: Sequence[Row]) -> str:
    notes = [f"{len({row.curve.family for row in asked})} families"]
    untimed = sum(not _timed(row.curve) for row in asked)
    if untimed:
        notes.append(f"{untimed} settings without operators")
    unknown = sorted({row.setting[2] for row in asked if row.gpu is None})
    if unknown:
        notes.append(f"memory unknown of {', '.join(unknown)}")
    return "; ".join(notes)
