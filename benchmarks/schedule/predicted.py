"""What the estimator would say of the jobs of a trace, each profiled on one GPU alone, beside what was measured.

A model at its batch is timed on one GPU of one kind (its other batches, where that one did not fit there). From it:

    t(1 GPU of another kind)   `estimator.programs`, fitted to programs of all tables without this model
    t(g GPUs)                  `estimator.links`, fitted to programs of other families

so the errors are those that a team would have with one cheap profile of each job. Where a job did not run at all, out
of memory, that is taken as known: memory is another question.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.accuracy.more_gpus.from_one import FOLDS, steps_in_step
from benchmarks.accuracy.unseen_gpu.by_times import GPUS, every_program, timed
from trainfare.estimator.gpu.by_times import ProgramsFit, fit_programs, predict_by_times
from trainfare.estimator.parallel.links import ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.measurements.job_traces import JOB_TYPE
from trainfare.measurements.seven_models import SOURCE, seven_models
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.queue import Instance, Job, Slot

PROFILED = "K80"
"""The cheapest to profile on."""
OF_90_PERCENT = 1.645
"""Deviations of a normal distribution to either side."""

Kind = tuple[str, float]
"""A model at a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Of one model at one batch in one place."""

    ratio: float
    """Predicted for measured."""
    deviation: float
    """Of its logarithm, as the estimator believes."""


Guesses = Mapping[tuple[Kind, Slot], Guess]
"""Of a slot the type is the GPU."""


def guesses(folder: Path, profiled: str = PROFILED) -> Guesses:
    """Of all that the table of `folder` has timed."""
    rows = [row for row in seven_models(folder) if row.machine == "one" or row.gpus > 1]
    one_gpu, several = every_program(folder), steps_in_step(folder)
    links: dict[str, ScalingFit] = {}
    found: dict[tuple[Kind, Slot], Guess] = {}
    for model in dict.fromkeys(row.program for row in rows):
        own = [row for row in rows if row.program == model]
        fit = fit_programs([row for row in one_gpu if (row.source, row.program) != (SOURCE, model)], GPUS)
        family = own[0].family
        if family not in links:
            links[family] = fit_links([step for step in several if step.family != family], folds=FOLDS)
        there = [row for row in own if row.gpu == profiled and row.gpus == 1]
        for row in own:
            found[(model, row.batch_size), _slot(row)] = _guess(row, there, fit, links[family])
    return found


def _slot(row: MeasuredIteration) -> Slot:
    return Slot(row.gpu, row.gpus // row.nodes, row.nodes)


def _guess(row: MeasuredIteration, there: list[MeasuredIteration], fit: ProgramsFit, links: ScalingFit) -> Guess:
    known = [each for each in there if each.batch_size == row.batch_size]
    if known and known[0].gpu == row.gpu:
        alone, deviation = known[0].seconds, 0.0
    else:
        told = predict_by_times([timed(each) for each in known or there], GPUS[row.gpu], row.dtype, fit, batch_size=row.batch_size)
        alone, deviation = told.value, _deviation(told.low, told.high)
    if row.gpus == 1:
        return Guess(ratio=alone / row.seconds, deviation=deviation)
    step = ClusterStep(
        program=row.program,
        family=row.family,
        gpu=GPUS[row.gpu],
        gpus=row.gpus,
        nodes=row.nodes,
        single_gpu_seconds=alone,
        seconds=alone,  # what is asked for; it is not looked at
        gradient_bytes=row.gradient_bytes,
        machine=f"{row.gpu}, {row.machine}",
    )
    together = predict_cluster_step(step, links)
    return Guess(
        ratio=together.seconds / row.seconds,
        deviation=math.hypot(deviation, _deviation(together.low, together.high)),
    )


def _deviation(low: float, high: float) -> float:
    return math.log(high / low) / (2 * OF_90_PERCENT)


def kinds_of(trace: Path) -> dict[str, Kind]:
    """Job → its model and batch."""
    found = {}
    for number, line in enumerate(trace.read_text().splitlines(), start=1):
        kind = JOB_TYPE.fullmatch(line.partition("\t")[0].strip())
        if kind is not None:
            found[f"J{number}"] = kind["model"], float(kind["batch"] or 1)
    return found


def with_predictions(instance: Instance, kinds: Mapping[str, Kind], told: Guesses) -> Instance:
    """The same queue, its deadlines too, where policies see predictions; what was measured is the truth."""
    gpu_of = {each.name: each.gpu.upper() for each in instance.types}
    slots = [replace(slot, type=gpu_of[slot.type]) for slot in instance.slots]

    def predicted(job: Job) -> Job:
        known = [told.get((kinds[job.id], slot)) if seconds < math.inf else None
                 for slot, seconds in zip(slots, job.seconds, strict=True)]  # fmt: skip
        return replace(
            job,
            seconds=tuple(
                seconds if guess is None else seconds * guess.ratio
                for seconds, guess in zip(job.seconds, known, strict=True)
            ),
            log_error=median(guess.deviation for guess in known if guess is not None),
        )

    return replace(
        instance,
        jobs=tuple(map(predicted, instance.jobs)),
        true_seconds=tuple(job.seconds for job in instance.jobs),
    )
