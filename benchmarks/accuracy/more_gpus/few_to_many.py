"""The step on many GPUs from steps of the same program on few, for any of the tables.

A program on a machine is fitted to its own steps on few GPUs; the settings of the ring and its corrections on that
machine come from programs of other families in the fit folder.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.accuracy.judged import Array, Judged
from benchmarks.accuracy.more_gpus.programs import ScaledProgram, step_of
from benchmarks.baselines.stepwise import end_to_end_seconds
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.parallel.link_residuals import (
    Residual,
    ResidualFit,
    fit_residuals,
    gradient_seconds,
    predict_ring_step,
    ring_residuals,
)
from trainfare.estimator.parallel.parameter_server import MeasuredServerStep, fit_parameter_server
from trainfare.estimator.parallel.ring import (
    DEFAULT_RING_SETTINGS,
    GpuPlacement,
    MeasuredStep,
    RingFit,
    RingSettings,
    choose_settings,
    fit_ring,
    linear_scaling,
)
from trainfare.measurements.data_parallel import data_parallel_t4
from trainfare.model.measurement import MeasuredIteration


@cache
def shared_settings(fit: Path, without: frozenset[str] = frozenset(), *, most: int = 4) -> RingSettings:
    """Ring settings from the T4 programs of the fit folder, the one table with several GPUs on several nodes."""
    programs: dict[str, list[MeasuredStep]] = defaultdict(list)
    try:
        rows = data_parallel_t4(fit)
    except FileNotFoundError:
        return DEFAULT_RING_SETTINGS
    for row in rows:
        if row.program not in without:
            programs[row.program].append(step_of(row))
    return choose_settings(programs, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAndAsked:
    """The rows of a program that are given, and those to predict."""

    program: ScaledProgram
    given_rows: tuple[MeasuredIteration, ...]
    asked: tuple[MeasuredIteration, ...]

    @staticmethod
    def of(program: ScaledProgram, given: Callable[[MeasuredIteration], bool]) -> "GivenAndAsked | None":
        given_rows = tuple(row for row in program.rows if given(row))
        asked = tuple(row for row in program.rows if not given(row))
        several = any(row.gpus > 1 for row in given_rows) and any(row.gpus == 1 for row in given_rows)
        return GivenAndAsked(program=program, given_rows=given_rows, asked=asked) if several and asked else None

    def ring(self, settings: RingSettings) -> RingFit:
        return fit_ring([step_of(row) for row in self.given_rows], settings)

    def residuals(self, ring: RingFit) -> tuple[Residual, ...]:
        own = self.program
        return ring_residuals(
            ring,
            [step_of(row) for row in self.asked],
            program=own.name,
            family=own.family,
            machine=own.machine,
            gradient_seconds=gradient_seconds(own.gradient_bytes, own.gpu),
        )


Answers = dict[str, list[float]]


def judge_counts(
    key: str,
    known: Sequence[ScaledProgram],
    tested: Sequence[ScaledProgram] | None,
    given: Callable[[MeasuredIteration], bool],
    settings: Callable[[frozenset[str]], RingSettings],
    *,
    note: str,
    parts: Mapping[str, Callable[[ScaledProgram], bool]] | None = None,
) -> list[Judged]:
    """The answers for many GPUs; `settings` returns those of the ring without some programs."""
    splits = [split for program in known if (split := GivenAndAsked.of(program, given))]
    asked = splits if tested is None else [split for program in tested if (split := GivenAndAsked.of(program, given))]
    by_family: dict[str, list[GivenAndAsked]] = defaultdict(list)
    for split in asked:
        by_family[split.program.family].append(split)
    all_residuals = _Residuals(splits=splits)
    answers: list[tuple[ScaledProgram, Answers]] = []
    for family, group in by_family.items():
        own = settings(frozenset(split.program.name for split in group))
        residuals = fit_residuals([residual for residual in all_residuals.by(own) if residual.family != family])
        answers += [(split.program, _answers(split, own, residuals)) for split in group]
    if not answers:
        return []
    return [
        judged_of(key, answers, note),
        *(
            judged_of(f"{key}/{part}", chosen, "")
            for part, belongs in (parts or {}).items()
            if (chosen := [(program, own) for program, own in answers if belongs(program)])
        ),
    ]


@dataclass(slots=True, kw_only=True)
class _Residuals:
    """The residuals of all programs, computed once for each settings of the ring."""

    splits: Sequence[GivenAndAsked]
    found: dict[RingSettings, list[Residual]] | None = None

    def by(self, settings: RingSettings) -> list[Residual]:
        self.found = self.found or {}
        if settings not in self.found:
            self.found[settings] = [m for split in self.splits for m in split.residuals(split.ring(settings))]
        return self.found[settings]


def _answers(split: GivenAndAsked, settings: RingSettings, residuals: ResidualFit) -> Answers:
    ring = split.ring(settings)
    predicted = [
        predict_ring_step(
            ring,
            GpuPlacement(nodes=row.nodes, gpus=row.gpus),
            row.batch_size,
            machine=split.program.machine,
            gradient_seconds=gradient_seconds(split.program.gradient_bytes, split.program.gpu),
            residuals=residuals,
        )
        for row in split.asked
    ]
    return {
        "truth": [row.seconds for row in split.asked],
        "ours": [step.seconds for step in predicted],
        "low": [step.low for step in predicted],
        "high": [step.high for step in predicted],
        **baselines(split),
    }


def baselines(split: GivenAndAsked) -> Answers:
    steps = [step_of(row) for row in split.given_rows]
    linear = linear_scaling(steps)
    server = fit_parameter_server(
        [
            MeasuredServerStep(gpus=row.gpus, batch_size=row.batch_size * row.gpus, seconds=row.seconds)
            for row in split.given_rows
        ]
    )
    return {
        "linear scaling": [linear.seconds(GpuPlacement(nodes=r.nodes, gpus=r.gpus), r.batch_size) for r in split.asked],
        "linear from the largest": [_seconds_on_most_gpus(split.given_rows, row) for row in split.asked],
        "Sanghvi": [server.seconds(gpus=row.gpus, batch_size=row.batch_size * row.gpus) for row in split.asked],
        "end-to-end regression": end_to_end_seconds(split.given_rows, split.asked, load_gpus()).tolist(),
    }


def _seconds_on_most_gpus(given_rows: Sequence[MeasuredIteration], row: MeasuredIteration) -> float:
    same = [s for s in given_rows if s.batch_size == row.batch_size] or list(given_rows)
    largest = max(s.gpus for s in same)
    return median(s.seconds for s in same if s.gpus == largest)


def judged_of(key: str, answers: Sequence[tuple[ScaledProgram, Answers]], note: str) -> Judged:
    def joined(name: str) -> Array:
        return np.array([value for _, own in answers for value in own[name]])

    names = answers[0][1].keys() - {"truth", "ours", "low", "high"}
    return Judged.of(
        key,
        joined("truth"),
        joined("ours"),
        joined("low"),
        joined("high"),
        baselines={name: joined(name) for name in sorted(names)},
        note=note,
    )
