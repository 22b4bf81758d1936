"""The estimator's predictions for the jobs of a trace, each profiled on one GPU, compared with the measured times.

A model at its batch size is timed on one GPU of one kind (at its other batch sizes, if that one did not fit there).
From it follow

    t(1 GPU of another kind)   `estimator.gpu.by_times`, fitted to programs of all tables without this model
    t(g GPUs)                  `estimator.parallel.links`, fitted to programs of other families

so the errors are those of a team with one cheap profile of each job. Where a job did not run at all, out of memory,
that is taken as known: memory is a separate question.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.accuracy.more_gpus.from_one import FOLDS, multi_process_steps
from benchmarks.accuracy.unseen_gpu.by_times import GPUS, every_program, timed
from trainfare.estimator.gpu.by_times import ProgramsFit, fit_programs, predict_by_times
from trainfare.estimator.parallel.links import ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.measurements.job_traces import JOB_TYPE
from trainfare.measurements.seven_models import SOURCE, seven_models
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.queue import Instance, Job, Slot

PROFILED_GPU = "K80"
"""The cheapest GPU to profile on."""
Z_90 = 1.645
"""90 % of a normal distribution lie between -z and z."""

ModelAtBatch = tuple[str, float]
"""(model, batch size)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioPrediction:
    """The prediction of one model at one batch size on one slot, relative to the measurement."""

    ratio: float
    """predicted / measured"""
    deviation: float
    """The standard deviation of its logarithm, according to the estimator."""


RatioPredictions = Mapping[tuple[ModelAtBatch, Slot], RatioPrediction]
"""The type of the slot is the GPU."""


def predict_ratios(folder: Path, profiled: str = PROFILED_GPU) -> RatioPredictions:
    """The predictions for everything that the table of `folder` has measured."""
    rows = [row for row in seven_models(folder) if row.machine == "one" or row.gpus > 1]
    one_gpu, several = every_program(folder), multi_process_steps(folder)
    links: dict[str, ScalingFit] = {}
    found: dict[tuple[ModelAtBatch, Slot], RatioPrediction] = {}
    for model in dict.fromkeys(row.program for row in rows):
        own = [row for row in rows if row.program == model]
        fit = fit_programs([row for row in one_gpu if (row.source, row.program) != (SOURCE, model)], GPUS)
        family = own[0].family
        if family not in links:
            links[family] = fit_links([step for step in several if step.family != family], folds=FOLDS)
        profiled_rows = [row for row in own if row.gpu == profiled and row.gpus == 1]
        for row in own:
            found[(model, row.batch_size), _slot(row)] = _predict_ratio(row, profiled_rows, fit, links[family])
    return found


def _slot(row: MeasuredIteration) -> Slot:
    return Slot(row.gpu, row.gpus // row.nodes, row.nodes)


def _predict_ratio(
    row: MeasuredIteration, profiled_rows: list[MeasuredIteration], fit: ProgramsFit, links: ScalingFit
) -> RatioPrediction:
    known = [each for each in profiled_rows if each.batch_size == row.batch_size]
    if known and known[0].gpu == row.gpu:
        alone, deviation = known[0].seconds, 0.0
    else:
        interval = predict_by_times(
            [timed(each) for each in known or profiled_rows], GPUS[row.gpu], row.dtype, fit, batch_size=row.batch_size
        )
        alone, deviation = interval.value, _deviation(interval.low, interval.high)
    if row.gpus == 1:
        return RatioPrediction(ratio=alone / row.seconds, deviation=deviation)
    step = ClusterStep(
        program=row.program,
        family=row.family,
        gpu=GPUS[row.gpu],
        gpus=row.gpus,
        nodes=row.nodes,
        single_gpu_seconds=alone,
        seconds=alone,  # unknown; the prediction does not use it
        gradient_bytes=row.gradient_bytes,
        machine=f"{row.gpu}, {row.machine}",
    )
    together = predict_cluster_step(step, links)
    return RatioPrediction(
        ratio=together.seconds / row.seconds,
        deviation=math.hypot(deviation, _deviation(together.low, together.high)),
    )


def _deviation(low: float, high: float) -> float:
    return math.log(high / low) / (2 * Z_90)


def models_by_job(trace: Path) -> dict[str, ModelAtBatch]:
    """Job → its model and batch size."""
    found = {}
    for number, line in enumerate(trace.read_text().splitlines(), start=1):
        job_type = JOB_TYPE.fullmatch(line.partition("\t")[0].strip())
        if job_type is not None:
            found[f"J{number}"] = job_type["model"], float(job_type["batch"] or 1)
    return found


def with_predictions(instance: Instance, models: Mapping[str, ModelAtBatch], predictions: RatioPredictions) -> Instance:
    """The same queue and deadlines, but policies see predictions; the measured times are the true ones."""
    gpu_of = {each.name: each.gpu.upper() for each in instance.types}
    slots = [replace(slot, type=gpu_of[slot.type]) for slot in instance.slots]

    def with_prediction(job: Job) -> Job:
        known = [predictions.get((models[job.id], slot)) if seconds < math.inf else None
                 for slot, seconds in zip(slots, job.seconds, strict=True)]  # fmt: skip
        return replace(
            job,
            seconds=tuple(
                seconds if prediction is None else seconds * prediction.ratio
                for seconds, prediction in zip(job.seconds, known, strict=True)
            ),
            log_error=median(prediction.deviation for prediction in known if prediction is not None),
        )

    return replace(
        instance,
        jobs=tuple(map(with_prediction, instance.jobs)),
        true_seconds=tuple(job.seconds for job in instance.jobs),
    )
