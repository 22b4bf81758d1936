"""The step on many GPUs from steps of the same program on few, for any of the tables.

A program on a machine is fitted by its own steps on at most `most` GPUs; the settings of the ring and what it misses
on that machine come from programs of other families in the fit folder.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.accuracy.judged import Array, Judged
from benchmarks.accuracy.more_gpus.programs import Program, step_of
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
    """Of the ring, by the T4 programs of the fit folder: the one table with several GPUs on several nodes."""
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
class Halves:
    """A program as the task sees it: what is given and what is asked."""

    program: Program
    seen: tuple[MeasuredIteration, ...]
    asked: tuple[MeasuredIteration, ...]

    @staticmethod
    def of(program: Program, given: Callable[[MeasuredIteration], bool]) -> "Halves | None":
        seen = tuple(row for row in program.rows if given(row))
        asked = tuple(row for row in program.rows if not given(row))
        several = any(row.gpus > 1 for row in seen) and any(row.gpus == 1 for row in seen)
        return Halves(program=program, seen=seen, asked=asked) if several and asked else None

    def ring(self, settings: RingSettings) -> RingFit:
        return fit_ring([step_of(row) for row in self.seen], settings)

    def misses(self, ring: RingFit) -> tuple[Residual, ...]:
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
    known: Sequence[Program],
    tested: Sequence[Program] | None,
    given: Callable[[MeasuredIteration], bool],
    settings: Callable[[frozenset[str]], RingSettings],
    *,
    note: str,
    parts: Mapping[str, Callable[[Program], bool]] | None = None,
) -> list[Judged]:
    """`settings` gives those of the ring, without some programs."""
    halves = [half for program in known if (half := Halves.of(program, given))]
    asked = halves if tested is None else [half for program in tested if (half := Halves.of(program, given))]
    by_family: dict[str, list[Halves]] = defaultdict(list)
    for half in asked:
        by_family[half.program.family].append(half)
    misses = _Misses(halves=halves)
    answers: list[tuple[Program, Answers]] = []
    for family, group in by_family.items():
        own = settings(frozenset(half.program.name for half in group))
        residuals = fit_residuals([miss for miss in misses.by(own) if miss.family != family])
        answers += [(half.program, _answers(half, own, residuals)) for half in group]
    if not answers:
        return []
    return [
        judged_of(key, answers, note),
        *(
            judged_of(f"{key}/{part}", chosen, "")
            for part, belongs in (parts or {}).items()
            if (chosen := [(program, told) for program, told in answers if belongs(program)])
        ),
    ]


@dataclass(slots=True, kw_only=True)
class _Misses:
    """Of all programs, once for each settings of the ring."""

    halves: Sequence[Halves]
    found: dict[RingSettings, list[Residual]] | None = None

    def by(self, settings: RingSettings) -> list[Residual]:
        self.found = self.found or {}
        if settings not in self.found:
            self.found[settings] = [m for half in self.halves for m in half.misses(half.ring(settings))]
        return self.found[settings]


def _answers(half: Halves, settings: RingSettings, residuals: ResidualFit) -> Answers:
    ring = half.ring(settings)
    told = [
        predict_ring_step(
            ring,
            GpuPlacement(nodes=row.nodes, gpus=row.gpus),
            row.batch_size,
            machine=half.program.machine,
            gradient_seconds=gradient_seconds(half.program.gradient_bytes, half.program.gpu),
            residuals=residuals,
        )
        for row in half.asked
    ]
    return {
        "truth": [row.seconds for row in half.asked],
        "ours": [one.seconds for one in told],
        "low": [one.low for one in told],
        "high": [one.high for one in told],
        **baselines(half),
    }


def baselines(half: Halves) -> Answers:
    steps = [step_of(row) for row in half.seen]
    linear = linear_scaling(steps)
    served = fit_parameter_server(
        [MeasuredServerStep(gpus=row.gpus, batch_size=row.batch_size * row.gpus, seconds=row.seconds) for row in half.seen]
    )
    return {
        "linear scaling": [linear.seconds(GpuPlacement(nodes=r.nodes, gpus=r.gpus), r.batch_size) for r in half.asked],
        "linear from the largest": [_on_the_largest(half.seen, row) for row in half.asked],
        "Sanghvi": [served.seconds(gpus=row.gpus, batch_size=row.batch_size * row.gpus) for row in half.asked],
        "end-to-end regression": end_to_end_seconds(half.seen, half.asked, load_gpus()).tolist(),
    }


def _on_the_largest(seen: Sequence[MeasuredIteration], row: MeasuredIteration) -> float:
    same = [s for s in seen if s.batch_size == row.batch_size] or list(seen)
    largest = max(s.gpus for s in same)
    return median(s.seconds for s in same if s.gpus == largest)


def judged_of(key: str, answers: Sequence[tuple[Program, Answers]], note: str) -> Judged:
    def joined(name: str) -> Array:
        return np.array([value for _, told in answers for value in told[name]])

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
