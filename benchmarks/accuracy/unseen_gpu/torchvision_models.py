"""32 CNNs at batch 12, in float32 and half, on a GPU that is not in the fit: `torchvision_models_six_gpus`.

All machines with that GPU are left out; other programs on it are then given, by number: `/0`, `/1` and `/few` (ten),
in five choices that depend on their names alone. A given program is not tested, in either dtype. The times of the same
programs on the other GPUs are always known, those of a tested program from the test folder; the baseline "constant
ratio" uses them too: the time on the GPU with the nearest peak, scaled by the ratio of the given programs, or of the
peaks without given programs. A program that was timed on no other GPU has the uncertainty of a new program in addition
to that of a new GPU.
"""

import csv
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.judged import Array, Judged
from benchmarks.accuracy.roofline_baselines import Baselines
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.physics import (
    SIMILAR,
    PhysicsFit,
    StepSeconds,
    scaled_seconds,
    step_seconds,
)
from trainfare.estimator.gpu.physics_fit import fit_physics, with_measurements
from trainfare.measurements.traced_models import (
    TORCHVISION,
    read_image_models,
    read_own_image_traces,
    read_torchvision,
)
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

KEY = f"unseen_gpu/{TORCHVISION}"
GIVEN_COUNTS = {"0": 0, "1": 1, "few": 10}
CHOICES = 5
Rows = Sequence[MeasuredIteration]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    gpus = load_gpus()
    learned = _read(fit)
    rows = [row for row in (learned if test is None else _read(test)) if row.source == TORCHVISION]
    unknown = sorted({row.gpu for row in rows if row.gpu not in gpus})
    names = sorted({row.gpu for row in rows} - set(unknown))
    parts = {part: _PartAnswers() for part in GIVEN_COUNTS}
    for name in names:
        others = [row for row in learned if row.gpu != name and row.gpu in gpus]
        if not others:
            continue
        fitted, baselines = fit_physics(others, gpus), Baselines.fitted(others, gpus)
        elsewhere = [*others, *(row for row in rows if test is not None and row.gpu not in {name, *unknown})]
        for machine in sorted({str(row.machine) for row in rows if row.gpu == name}):
            own = [row for row in rows if row.gpu == name and str(row.machine) == machine]
            for part, answers in parts.items():
                for given, asked in _choices(own, GIVEN_COUNTS[part]):
                    answers.add(part, given, asked, fitted, baselines, elsewhere, gpus)
    untraced = _untraced(fit if test is None else test, rows)
    note = "; ".join(
        f"left out, {reason}: {', '.join(names)}"
        for reason, names in (("not in the catalog", unknown), ("operations not known", untraced))
        if names
    )
    for part, answers in parts.items():
        if answers.truth:
            yield answers.judged(f"{KEY}/{part}", note)


def _read(folder: Path) -> list[MeasuredIteration]:
    rows = [row for row in read_torchvision(folder) if row.gpus == 1]
    try:
        return [*rows, *read_image_models(folder), *read_own_image_traces(folder)]
    except FileNotFoundError:
        return rows


def _untraced(folder: Path, rows: Rows) -> list[str]:
    """Timed programs without known operations."""
    with (folder / TORCHVISION / "training.csv").open(encoding="utf-8", newline="") as table:
        return sorted({line["model"] for line in csv.DictReader(table)} - {row.program for row in rows})


def _choices(rows: Rows, count: int) -> Iterator[tuple[Rows, Rows]]:
    """The given rows, and the rows to predict."""
    for choice in range(CHOICES if count else 1):
        ordered = sorted(rows, key=lambda row: _draw(f"{choice} {row.program} {row.dtype}"))
        given = ordered[:count]
        programs = {row.program for row in given}
        yield given, [row for row in rows if row.program not in programs]


def _draw(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _PartAnswers:
    """The rows of one part, added one by one."""

    def __init__(self) -> None:
        self.truth: list[float] = []
        self.ours: list[float] = []
        self.factors: list[float] = []
        self.baselines: dict[str, list[float]] = {}

    def add(
        self, part: str, given: Rows, asked: Rows, fitted: PhysicsFit, baselines: Baselines, others: Rows,
        gpus: Mapping[str, Gpu],
    ) -> None:  # fmt: skip
        if not asked:
            return
        fit = with_measurements(fitted, given, gpus)
        factor = {"0": fit.factor_new_gpu, "1": fit.factor_gpu_after_one, "few": fit.factor_gpu_after_ten}[part]
        for row in asked:
            elsewhere = [other for other in others if _is_same_program(other, row)]
            steps = step_seconds(row.operations, [gpus[one.gpu] for one in (row, *elsewhere)], fit)
            known = [(step, other.seconds) for step, other in zip(steps[1:], elsewhere, strict=True)]
            self.truth.append(row.seconds)
            self.ours.append(scaled_seconds(steps[0], known))
            self.factors.append(
                factor if known else math.exp(math.hypot(math.log(factor), _new_program_uncertainty(steps[0], fit)))
            )
        answers = {**baselines.predicted(asked, gpus), "constant ratio": _by_ratio(given, asked, others, gpus)}
        for name, values in answers.items():
            self.baselines.setdefault(name, []).extend(values)

    def judged(self, key: str, note: str) -> Judged:
        ours, factors = np.array(self.ours), np.array(self.factors)
        return Judged.of(
            key, self.truth, ours, ours / factors, ours * factors, baselines=self.baselines, note=note
        )  # fmt: skip


def _new_program_uncertainty(step: StepSeconds, fit: PhysicsFit) -> float:
    """The log factor of the uncertainty of a program without times."""
    return math.log(fit.factor_known_family if step.similarity >= SIMILAR else fit.factor_new_program)


def _is_same_program(one: MeasuredIteration, other: MeasuredIteration) -> bool:
    return (one.source, one.program, one.dtype) == (other.source, other.program, other.dtype)


def _by_ratio(given: Rows, asked: Rows, others: Rows, gpus: Mapping[str, Gpu]) -> Array:
    target = gpus[asked[0].gpu]
    found = []
    for row in asked:
        sources = {other.gpu for other in others if _is_same_program(other, row)}
        if not sources:
            found.append(np.nan)
            continue
        peak = target.peak_flops_per_second(row.dtype)
        source = min(sources, key=lambda name: abs(np.log(gpus[name].peak_flops_per_second(row.dtype) / peak)))
        seconds = _seconds(row, source, others)
        ratios = [one.seconds / time for one in given if (time := _seconds(one, source, others)) is not None]
        ratio = float(np.median(ratios)) if ratios else gpus[source].peak_flops_per_second(row.dtype) / peak
        found.append(np.nan if seconds is None else seconds * ratio)
    return np.array(found)


def _seconds(row: MeasuredIteration, gpu: str, rows: Rows) -> float | None:
    """The mean time of the same program and dtype on another GPU."""
    times = [other.seconds for other in rows if other.gpu == gpu and _is_same_program(other, row)]
    return float(np.mean(times)) if times else None
