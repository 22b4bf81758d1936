"""32 CNNs at batch 12, in float32 and half, on a GPU that the fit has not seen: `torchvision_models_six_gpus`.

All machines with that GPU are left out; other programs on it are then given, by number: `/0`, `/1` and `/few` (ten),
in five choices that depend on their names alone. A program that is given is not judged, in either dtype. What the
other GPUs took for the same programs is known throughout, of a tested program from the test folder, as it is to the
baseline "constant ratio": the time on the GPU of the nearest peak, by the ratio of what is given, or of the peaks where
nothing is. A program that nobody timed elsewhere has the doubt of a new program beside that of a new GPU.
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
GIVEN = {"0": 0, "1": 1, "few": 10}
CHOICES = 5
Rows = Sequence[MeasuredIteration]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    gpus = load_gpus()
    learnt = _read(fit)
    rows = [row for row in (learnt if test is None else _read(test)) if row.source == TORCHVISION]
    unknown = sorted({row.gpu for row in rows if row.gpu not in gpus})
    names = sorted({row.gpu for row in rows} - set(unknown))
    parts = {part: _Answers() for part in GIVEN}
    for name in names:
        others = [row for row in learnt if row.gpu != name and row.gpu in gpus]
        if not others:
            continue
        fitted, baselines = fit_physics(others, gpus), Baselines.fitted(others, gpus)
        elsewhere = [*others, *(row for row in rows if test is not None and row.gpu not in {name, *unknown})]
        for machine in sorted({str(row.machine) for row in rows if row.gpu == name}):
            own = [row for row in rows if row.gpu == name and str(row.machine) == machine]
            for part, answers in parts.items():
                for given, asked in _choices(own, GIVEN[part]):
                    answers.add(part, given, asked, fitted, baselines, elsewhere, gpus)
    untraced = _untraced(fit if test is None else test, rows)
    note = "; ".join(
        f"left out, {why}: {', '.join(names)}"
        for why, names in (("not in the catalog", unknown), ("operations not known", untraced))
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
    """Programs that were timed, and whose operations nobody has."""
    with (folder / TORCHVISION / "training.csv").open(encoding="utf-8", newline="") as table:
        return sorted({line["model"] for line in csv.DictReader(table)} - {row.program for row in rows})


def _choices(rows: Rows, count: int) -> Iterator[tuple[Rows, Rows]]:
    """What is given, and what is asked."""
    for choice in range(CHOICES if count else 1):
        ordered = sorted(rows, key=lambda row: _draw(f"{choice} {row.program} {row.dtype}"))
        given = ordered[:count]
        programs = {row.program for row in given}
        yield given, [row for row in rows if row.program not in programs]


def _draw(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Answers:
    """One part, row by row."""

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
            elsewhere = [other for other in others if _alike(other, row)]
            steps = step_seconds(row.operations, [gpus[one.gpu] for one in (row, *elsewhere)], fit)
            known = [(step, other.seconds) for step, other in zip(steps[1:], elsewhere, strict=True)]
            self.truth.append(row.seconds)
            self.ours.append(scaled_seconds(steps[0], known))
            self.factors.append(factor if known else math.exp(math.hypot(math.log(factor), _new(steps[0], fit))))
        answers = {**baselines.predicted(asked, gpus), "constant ratio": _by_ratio(given, asked, others, gpus)}
        for name, values in answers.items():
            self.baselines.setdefault(name, []).extend(values)

    def judged(self, key: str, note: str) -> Judged:
        ours, factors = np.array(self.ours), np.array(self.factors)
        return Judged.of(
            key, self.truth, ours, ours / factors, ours * factors, baselines=self.baselines, note=note
        )  # fmt: skip


def _new(step: StepSeconds, fit: PhysicsFit) -> float:
    """The doubt of a program that nobody timed, in the logarithm."""
    return math.log(fit.factor_known_family if step.similarity >= SIMILAR else fit.factor_new_program)


def _alike(one: MeasuredIteration, other: MeasuredIteration) -> bool:
    return (one.source, one.program, one.dtype) == (other.source, other.program, other.dtype)


def _by_ratio(given: Rows, asked: Rows, others: Rows, gpus: Mapping[str, Gpu]) -> Array:
    target = gpus[asked[0].gpu]
    found = []
    for row in asked:
        sources = {other.gpu for other in others if _alike(other, row)}
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
    """Of the same program and dtype on another GPU."""
    alike = [other.seconds for other in rows if other.gpu == gpu and _alike(other, row)]
    return float(np.mean(alike)) if alike else None
