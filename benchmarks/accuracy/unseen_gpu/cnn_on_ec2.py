"""The step time on a machine type that was never measured, from a profile on another one: `cnn_on_ec2`.

The target type is left out of the fit, and so is the family of the program. `0`: by facts of its GPU alone. `1`: after
one profiled run of a program of another family on it and on the measured machine, for the median run of each family in
turn. `few`: after all of those, one per family.

Baselines: the ratio of peaks or of bandwidths; with runs, the mean ratio of those runs on both machines.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.accuracy.ec2_rows import GPUS, TransferRow, profiles_of, transfer_rows, unknown_types
from benchmarks.accuracy.judged import Judged
from trainfare.estimator.gpu.by_operator import TransferFit, fit_transfer, transfer_step, with_runs
from trainfare.measurements.cnn_on_ec2 import TABLE
from trainfare.model.measurement import OperatorProfile

KEY = f"unseen_gpu/{TABLE}"


@dataclass(slots=True)
class _TransferAnswers:
    truth: list[float] = field(default_factory=list)
    ours: list[tuple[float, float, float]] = field(default_factory=list)
    baselines: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def judged(self, key: str, note: str) -> Judged:
        value, low, high = np.array(self.ours).T
        return Judged.of(key, self.truth, value, low, high, baselines=self.baselines, note=note)


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    parts = {"0": _TransferAnswers(), "1": _TransferAnswers(), "few": _TransferAnswers()}
    available = (*profiles_of(test), *profiles_of(fit)) if test else profiles_of(fit)
    for to, known, asked in _folds(fit, test):
        learned = fit_transfer(known, GPUS)
        for family in sorted({row.profile.family for row in asked}):
            own = [row for row in asked if row.profile.family == family]
            _predict(parts["0"], own, learned, {})
            given = [_everywhere(first, available) for first in _one_per_family(available, to, family)]
            for runs in given:
                _predict(parts["1"], own, with_runs(learned, runs, GPUS), _ratios([runs], to))
            if len(given) > 1:
                together = with_runs(learned, [run for runs in given for run in runs], GPUS)
                _predict(parts["few"], own, together, _ratios(given, to))
    notes = {"0": "facts only", "1": "one run of another program on it", "few": "one run of each other family on it"}
    unknown = unknown_types(test or fit)
    skipped = f"; types without known GPU skipped: {', '.join(unknown)}" if unknown else ""
    for part, answers in parts.items():
        if answers.truth:
            yield answers.judged(f"{KEY}/{part}", notes[part] + skipped)


def _folds(fit: Path, test: Path | None) -> Iterator[tuple[str, Sequence[OperatorProfile], list[TransferRow]]]:
    """The target type, the profiles to learn from, and the rows to predict."""
    known, rows = profiles_of(fit), transfer_rows(test or fit)
    tested = {row.profile.program for row in rows} if test else set()
    for to in sorted({row.to for row in rows}):
        gpu = next(row.target.name for row in rows if row.to == to)
        others = [p for p in known if p.gpu != gpu and p.program not in tested]
        asked = [row for row in rows if row.to == to and row.source.name != gpu]
        if test:
            yield to, others, asked
            continue
        for family in sorted({row.profile.family for row in asked}):
            own = [row for row in asked if row.profile.family == family]
            yield to, [p for p in others if p.family != family], own


def _predict(
    answers: _TransferAnswers, rows: Sequence[TransferRow], fit: TransferFit, ratios: Mapping[str, float]
) -> None:
    for row in rows:
        answer = transfer_step([row.profile], row.profile.batch_size, row.source, row.target, fit)
        here = row.profile.seconds
        answers.truth.append(row.seconds)
        answers.ours.append((answer.value, answer.low, answer.high))
        answers.baselines["peak FP32"].append(here * row.source.fp32_tflops / row.target.fp32_tflops)
        bandwidth = row.source.memory_gb_per_second / row.target.memory_gb_per_second
        answers.baselines["bandwidth"].append(here * bandwidth)
        if ratios:
            answers.baselines["constant ratio"].append(here * ratios.get(row.profile.vm_type, np.nan))


def _one_per_family(profiles: Sequence[OperatorProfile], vm_type: str, but: str) -> list[OperatorProfile]:
    """The median run by its time, of each family but one."""
    families: dict[str, dict[tuple[str, int, float], OperatorProfile]] = defaultdict(dict)
    for p in profiles:
        if p.vm_type == vm_type and p.family != but:
            families[p.family].setdefault((p.program, p.image_side, p.batch_size), p)
    return [sorted(own.values(), key=lambda p: p.seconds)[len(own) // 2] for _, own in sorted(families.items())]


def _everywhere(run: OperatorProfile, profiles: Sequence[OperatorProfile]) -> list[OperatorProfile]:
    """The same step on every machine that ran it, once each."""
    found = {run.vm_type: run}
    for p in profiles:
        if (p.program, p.image_side, p.batch_size) == (run.program, run.image_side, run.batch_size):
            found.setdefault(p.vm_type, p)
    return list(found.values())


def _ratios(given: Sequence[Sequence[OperatorProfile]], to: str) -> dict[str, float]:
    """The mean ratio of the seconds on `to` to those on each measured type."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for runs in given:
        there = next(run.seconds for run in runs if run.vm_type == to)
        for run in runs:
            ratios[run.vm_type].append(there / run.seconds)
    return {vm_type: float(np.mean(own)) for vm_type, own in ratios.items()}
