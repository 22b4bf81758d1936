"""Predictions for a left-out GPU from times of the same program on other GPUs, shared by tables without more facts.

A target GPU is left out with all its machines; GPUs of the same model in another form (SXM and PCIe, 40 and 80 GB) stay
unless the complete architecture is left out. Given of a program are its times on the other GPUs, and its operations
where they are known. Given of the target are no, one, or three runs of other programs, in up to six choices of them.
Models that are fitted to operations have seen neither the GPU nor the predicted programs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.accuracy.judged import Judged
from benchmarks.baselines.stepwise import end_to_end_seconds
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.by_times import (
    ProgramsFit,
    ReferenceRun,
    TimedRun,
    fit_programs,
    predict_by_times,
    with_reference_runs,
)
from trainfare.estimator.gpu.combined import predict_combined
from trainfare.estimator.gpu.physics import PhysicsFit, StepModel, StepSeconds
from trainfare.estimator.gpu.physics_fit import fit_physics
from trainfare.measurements.rented_gpus import rented_gpus
from trainfare.measurements.seven_models import seven_models
from trainfare.measurements.torchvision_gpus import torchvision_gpus
from trainfare.measurements.traced_models import read_image_models, read_own_image_traces, read_torchvision
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

CHOICES = 6
SEVERAL = 3
GPUS = load_gpus()
Rows = Sequence[MeasuredIteration]


def rented_rows(folder: Path) -> list[MeasuredIteration]:
    return of_one_gpu(rented_gpus(folder))


def seven_rows(folder: Path) -> list[MeasuredIteration]:
    return of_one_gpu([row for row in seven_models(folder) if row.machine == "one"])


def torchvision_rows(folder: Path) -> list[MeasuredIteration]:
    return of_one_gpu(torchvision_gpus(folder))


def every_program(folder: Path) -> list[MeasuredIteration]:
    """All rows of programs on one GPU in a folder."""
    found: list[MeasuredIteration] = []
    for read in (rented_rows, seven_rows, torchvision_rows):
        try:
            found += read(folder)
        except FileNotFoundError:
            continue
    return found


def traced_rows(folder: Path) -> list[MeasuredIteration]:
    """All rows of programs with known operations on one GPU in a folder."""
    found: list[MeasuredIteration] = []
    for read in (read_image_models, read_own_image_traces, read_torchvision):
        try:
            found += [row for row in read(folder) if row.gpus == 1]
        except FileNotFoundError:
            continue
    return found


def of_one_gpu(rows: Rows) -> list[MeasuredIteration]:
    """The median over machines with the same GPU."""
    machines: dict[object, list[MeasuredIteration]] = {}
    for row in rows:
        if row.gpus == 1:
            machines.setdefault((program(row), row.gpu, row.batch_size), []).append(row)
    return [
        replace(found[0], seconds=median(row.seconds for row in found), machine=None) for found in machines.values()
    ]


def program(row: MeasuredIteration) -> tuple[str, str, str]:
    return row.source, row.program, row.dtype


def timed(row: MeasuredIteration) -> TimedRun:
    return TimedRun(gpu=GPUS[row.gpu], seconds=row.seconds, batch_size=row.batch_size)


class PhysicsFits:
    """Physical models fitted to operations, one per set of left-out GPUs, without the predicted programs."""

    def __init__(self, traced: Rows, asked: Rows) -> None:
        names = {_network(row) for row in asked}
        self._rows = [row for row in traced if row.gpu in GPUS and _network(row) not in names]
        self._gpus = tuple({row.gpu: GPUS[row.gpu] for row in asked if row.gpu in GPUS}.values())
        self._fits: dict[frozenset[str], ByOperations | None] = {}

    def without(self, gpus: Iterable[str]) -> "ByOperations | None":
        """The model without these GPUs; None without rows."""
        out = frozenset(gpus) & {row.gpu for row in self._rows}
        if out not in self._fits:
            rows = [row for row in self._rows if row.gpu not in out]
            self._fits[out] = ByOperations(fit_physics(rows, GPUS), self._gpus) if rows else None
        return self._fits[out]


class ByOperations:
    """Transfers programs with known operations to another GPU."""

    def __init__(self, fit: PhysicsFit, gpus: Sequence[Gpu]) -> None:
        self._fit = fit
        self._names = [gpu.name for gpu in gpus]
        self._model = StepModel(gpus, fit)
        self._steps: dict[int, Mapping[str, StepSeconds]] = {}

    def with_times(self, row: MeasuredIteration, gpu: str, elsewhere: Rows, times: Interval) -> Interval:
        """The time of the program of `row` on `gpu`, from its times in the rows `elsewhere` and its operations.

        Without operations it is `times`.
        """
        known = [(self._step(other, other.gpu), other.seconds) for other in elsewhere if other.operations]
        return (
            predict_combined(self._step(row, gpu), gpu, known, self._fit, times) if known and row.operations else times
        )

    def _step(self, row: MeasuredIteration, gpu: str) -> StepSeconds:
        found = self._steps.get(id(row.operations))
        if found is None:
            found = dict(zip(self._names, self._model.seconds(row.operations), strict=True))
            self._steps[id(row.operations)] = found
        return found[gpu]


def _network(row: MeasuredIteration) -> str:
    """The name of a network without its spelling: `ResNet-50` is torchvision's `resnet50`."""
    return row.program.lower().replace("-", "")


@dataclass(slots=True)
class PartAnswers:
    """The rows of one key, added one by one."""

    truth: list[float] = field(default_factory=list)
    ours: list[tuple[float, float, float]] = field(default_factory=list)
    baselines: dict[str, list[float]] = field(default_factory=dict)

    def add(self, truth: float, ours: tuple[float, float, float], baselines: Mapping[str, float]) -> None:
        self.truth.append(truth)
        self.ours.append(ours)
        for name, seconds in baselines.items():
            self.baselines.setdefault(name, []).append(seconds)

    def judged(self, key: str, note: str) -> Judged:
        middle, low, high = np.array(self.ours).T
        return Judged.of(key, self.truth, middle, low, high, baselines=self.baselines, note=note)


def judge_by_times(data: str, rows: Rows, fitted: Rows, tested: Rows | None, *, traced: Rows = ()) -> Iterator[Judged]:
    """Judge the `rows` of a table in the fit folder, or `tested`, the same table in the test folder.

    `fitted` are all rows of the fit folder, and `traced` those with known operations.
    """
    asked = [row for row in (tested if tested is not None else rows) if row.gpu in GPUS]
    unknown = sorted({row.gpu for row in (tested or rows)} - set(GPUS))
    elsewhere = [*asked, *(row for row in rows if row.gpu in GPUS and row not in asked)]
    physics = PhysicsFits(traced, elsewhere)
    parts = {part: PartAnswers() for part in ("0", "1", "few", "0/architecture")}
    for target in dict.fromkeys(row.gpu for row in asked):
        own = [row for row in asked if row.gpu == target]
        fit = fit_programs([row for row in fitted if row.gpu != target], GPUS)
        known = KnownRows([row for row in elsewhere if row.gpu != target], physics.without([target]))
        regression = known.end_to_end(own)
        _none_given(parts["0"], own, known, fit, regression)
        for part, count in (("1", 1), ("few", SEVERAL)):
            _some_given(parts[part], own, known, fit, count, regression)
    for architecture in dict.fromkeys(GPUS[row.gpu].architecture for row in asked):
        own = [row for row in asked if GPUS[row.gpu].architecture == architecture]
        left = [row for row in fitted if row.gpu in GPUS and GPUS[row.gpu].architecture != architecture]
        out = [name for name, gpu in GPUS.items() if gpu.architecture == architecture]
        known = KnownRows([row for row in elsewhere if row.gpu not in out], physics.without(out))
        fit = fit_programs(left, GPUS)
        _none_given(parts["0/architecture"], own, known, fit, known.end_to_end(own))
    notes = {
        "0": "the GPU is left out, its variants (PCIe or SXM, 40 or 80 GB) stay; given: times of the program elsewhere",
        "1": "also given: one run of another program on the GPU, up to six choices",
        "few": f"also given: {SEVERAL} runs of other programs on the GPU, up to six choices",
        "0/architecture": "the complete architecture is left out",
    }
    on: dict[str, set[str]] = {}
    for row in elsewhere:
        on.setdefault(row.program, set()).add(row.gpu)
    alone = sorted({row.program for row in asked if len(on[row.program]) == 1})
    skipped = f"; not in the catalog: {', '.join(unknown)}" if unknown else ""
    skipped += f"; timed on one GPU only: {', '.join(alone)}" if alone else ""
    for part, found in parts.items():
        if found.truth:
            yield found.judged(f"unseen_gpu/{data}/{part}", notes[part] + skipped)


class KnownRows:
    """The rows of the other GPUs, by program."""

    def __init__(self, rows: Rows, physics: ByOperations | None = None) -> None:
        self.rows = rows
        self.physics = physics
        self.by_program: dict[tuple[str, str, str], list[MeasuredIteration]] = {}
        for row in rows:
            self.by_program.setdefault(program(row), []).append(row)

    def times(self, row: MeasuredIteration) -> tuple[TimedRun, ...]:
        return tuple(timed(other) for other in self.by_program.get(program(row), ()))

    def end_to_end(self, own: Rows) -> dict[int, float]:
        named = [replace(row, program=f"{row.program} {row.dtype}") for row in (*self.rows, *own)]
        found = end_to_end_seconds(named[: len(self.rows)], named[len(self.rows) :], GPUS)
        return {id(row): float(seconds) for row, seconds in zip(own, found, strict=True)}

    def nearest(self, row: MeasuredIteration) -> MeasuredIteration:
        """The row of the GPU with the most similar figures, at the nearest batch size."""
        target = GPUS[row.gpu]

        def distance(other: MeasuredIteration) -> tuple[float, float]:
            gpu = GPUS[other.gpu]
            return (
                abs(np.log(_bandwidth(gpu) / _bandwidth(target)))
                + abs(np.log(_peak(gpu, row.dtype) / _peak(target, row.dtype))),
                abs(np.log(other.batch_size / row.batch_size)),
            )

        return min(self.by_program[program(row)], key=distance)


def _none_given(
    part: PartAnswers, own: Rows, known: KnownRows, fit: ProgramsFit, regression: Mapping[int, float]
) -> None:
    for row in own:
        if known.times(row):
            ours = _ours(known, row, fit)
            part.add(row.seconds, ours, {**_baselines(row, known), "end-to-end regression": regression[id(row)]})


def _some_given(
    part: PartAnswers, own: Rows, known: KnownRows, fit: ProgramsFit, count: int, regression: Mapping[int, float]
) -> None:
    for given in choices([row for row in own if known.times(row)], count):
        runs = [ReferenceRun(elsewhere=known.times(row), measured=timed(row), dtype=row.dtype) for row in given]
        after = with_reference_runs(fit, GPUS[given[0].gpu], runs)
        for row in own:
            if row.program not in {other.program for other in given} and known.times(row):
                constant = {"constant ratio": _constant_ratio(row, given, known)}
                baselines = {**_baselines(row, known), **constant, "end-to-end regression": regression[id(row)]}
                part.add(row.seconds, _ours(known, row, after), baselines)


def choices(own: Rows, count: int) -> Iterator[list[MeasuredIteration]]:
    """Choices of one row of each of `count` programs; every program is first once before one is first again."""
    names = sorted({row.program for row in own})
    for turn in range(min(CHOICES, len(own)) if len(names) > count else 0):
        chosen = [names[(turn + step * max(1, len(names) // count)) % len(names)] for step in range(count)]
        of_each = [[row for row in own if row.program == name] for name in chosen]
        yield [found[(turn + step) % len(found)] for step, found in enumerate(of_each)]


def _ours(known: KnownRows, row: MeasuredIteration, fit: ProgramsFit) -> tuple[float, float, float]:
    found = predict_by_times(known.times(row), GPUS[row.gpu], row.dtype, fit, batch_size=row.batch_size)
    if known.physics is not None:
        found = known.physics.with_times(row, row.gpu, known.by_program[program(row)], found)
    return found.value, found.low, found.high


def _baselines(row: MeasuredIteration, known: KnownRows) -> dict[str, float]:
    """Baselines by the ratio of a figure to that of the nearest GPU, or by one utilisation on all GPUs."""
    target, near = GPUS[row.gpu], known.nearest(row)
    gpu, there = GPUS[near.gpu], near.seconds / near.batch_size * row.batch_size
    work = [
        np.log(other.seconds / other.batch_size * _peak(GPUS[other.gpu], row.dtype))
        for other in known.by_program[program(row)]
    ]
    return {
        "peak FLOPs": there * _peak(gpu, row.dtype) / _peak(target, row.dtype),
        "bandwidth ratio": there * _bandwidth(gpu) / _bandwidth(target),
        "one utilisation": float(np.exp(np.mean(work))) * row.batch_size / _peak(target, row.dtype),
    }


def _constant_ratio(row: MeasuredIteration, given: Rows, known: KnownRows) -> float:
    """The time on the nearest GPU × the mean ratio of the given programs on both GPUs."""
    near = known.nearest(row)
    ratios = []
    for other in given:
        there = min(
            (found for found in known.by_program[program(other)] if found.gpu == near.gpu),
            key=lambda found: abs(np.log(found.batch_size / other.batch_size)),
            default=known.nearest(other),
        )
        ratios.append((other.seconds / other.batch_size) / (there.seconds / there.batch_size))
    return float(np.mean(ratios)) * near.seconds / near.batch_size * row.batch_size


def _bandwidth(gpu: Gpu) -> float:
    return gpu.memory_gb_per_second


def _peak(gpu: Gpu, dtype: str) -> float:
    return gpu.peak_flops_per_second(dtype)
