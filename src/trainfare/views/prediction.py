"""Predictions of an iteration: JSON records, and the sentences of their evidence."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from trainfare.model.evidence import (
    DataWait,
    Evidence,
    GradientSync,
    MeasuredAtOtherBatchSizes,
    MeasuredOnMachine,
    MeasuredOnOtherCpu,
    MeasuredOnOtherGpus,
    MeasuredOnSlices,
    OperationsAlone,
    OperatorTimes,
    OtherFramework,
)
from trainfare.model.prediction import Prediction, PredictionReport
from trainfare.units import format_number, format_percent, plural
from trainfare.views.estimates import spread

_METHODS = {
    "operations": "scaled by the times predicted from its operations",
    "operations and other programs": (
        "scaled by the times predicted from its operations and by how other programs speed up between these GPUs"
    ),
    "other programs": "scaled by how other programs speed up between these GPUs",
}


def prediction_report_record(report: PredictionReport) -> dict[str, Any]:
    """The requested prediction, and those for other batch sizes and numbers of GPUs."""
    return {
        **prediction_record(report.prediction),
        "remarks": list(report.remarks),
        "largest_batch": None if report.largest_batch is None else asdict(report.largest_batch),
        "saturation_batch": report.saturation_batch,
        "batches": [prediction_record(one) for one in report.batches],
        "strong_scaling": [prediction_record(one) for one in report.strong],
        "weak_scaling": [prediction_record(one) for one in report.weak],
        "served": [asdict(one) for one in report.served],
    }


def prediction_record(prediction: Prediction) -> dict[str, Any]:
    """One flat row: the machine, the time of an iteration, its parts, and its evidence in sentences."""
    vm_type, memory, rate = prediction.vm_type, prediction.memory, prediction.samples_per_second
    return {
        "provider": vm_type.provider,
        "machine": vm_type.name,
        "gpu": vm_type.gpu.name if vm_type.gpu else None,
        "nodes": prediction.nodes,
        "gpus": prediction.gpus,
        "batch_size": prediction.batch_size,
        **spread("iteration_seconds", prediction.iteration_seconds),
        "confidence": prediction.iteration_seconds.confidence,
        "samples_per_second": rate.value if rate else None,
        "tokens_per_second": prediction.tokens_per_second,
        "basis": prediction.basis,
        "limited_by": prediction.limited_by,
        "parts": [asdict(part) for part in prediction.parts],
        "leans_on": [evidence_sentence(one) for one in prediction.evidence],
        "memory_fit": memory.verdict if memory else None,
        "memory_needed_gib": memory.needed_gib.value if memory else None,
    }


def prediction_remarks(prediction: Prediction) -> Iterator[str]:
    """The basis with its evidence, and whether memory is short; one sentence each, without a full stop."""
    first, *others = (evidence_sentence(one) for one in prediction.evidence)
    yield f"{prediction.basis}: {first}"
    yield from others
    memory = prediction.memory
    if memory is not None and memory.verdict != "fits":
        needed = memory.needed_gib
        yield (
            f"memory: {memory.verdict}: each GPU needs about {format_number(needed.value)} GiB "
            f"({format_percent(needed.confidence)}: {format_number(needed.low)} – {format_number(needed.high)}) "
            f"and has {format_number(memory.available_gib)} GiB"
        )


def evidence_sentence(evidence: Evidence) -> str:
    """The evidence as one plain sentence without a full stop."""
    match evidence:
        case MeasuredOnMachine(profile_ids=ids, batch_size=size):
            at = "" if size is None else f" at batch size {size}"
            return f"{_profiles(ids)}, taken on this machine type{at}"
        case MeasuredAtOtherBatchSizes(machine=machine, measured_batch_sizes=sizes, batch_size=size):
            return f"measured on {machine} at batch size {', '.join(map(str, sizes))}, and scaled to {size}"
        case MeasuredOnSlices(slices=slices, cores=cores):
            names = ", ".join(name or "the whole machine" for name in slices)
            return f"measured on the same machine ({names}), scaled to {format_number(cores)} of its cores"
        case MeasuredOnOtherCpu():
            return _other_cpu(evidence)
        case DataWait():
            return _data_wait(evidence)
        case MeasuredOnOtherGpus(profiles=profiles, method=method, dtype_known=dtype_known):
            unknown = "" if dtype_known else "; its dtype is unknown, so the interval is wider"
            return f"{_profiles([f'{name} on {gpu}' for name, gpu in profiles])}, {_METHODS[method]}{unknown}"
        case OperatorTimes(profile_id=name, gpu=gpu):
            return f"the time of each operator in profile {name} on {gpu}, scaled operator by operator"
        case OperationsAlone(gpu=gpu, gpu_measured=measured, corrected=corrected):
            own = ", corrected by your own profiles there" if corrected else ""
            if measured:
                return f"the operations of one iteration, by measurements of other programs on {gpu}{own}"
            return f"the operations of one iteration and the nominal figures of {gpu}, which was not measured{own}"
        case OtherFramework(framework=framework):
            return f"the kernels are assumed to be PyTorch's; {framework} may fuse them, so the interval is wider"
        case GradientSync(nodes=nodes, gpus=gpus, samples_per_gpu=samples):
            where = f"{gpus} GPUs" if nodes == 1 else f"{nodes} nodes" if gpus == 1 else f"{nodes} nodes of {gpus} GPUs"
            return (
                f"on {where} each iteration of {plural(samples, 'sample')} per GPU also synchronises gradients, "
                f"predicted from {_sync_source(evidence)}"
            )


def _other_cpu(evidence: MeasuredOnOtherCpu) -> str:
    method = "the times predicted from its operations" if evidence.by_operations else "the speed of their cores alone"
    return (
        f"{_profiles(evidence.profile_ids)} on {_cores(evidence.cores)} of {evidence.cpu}, scaled to "
        f"{_cores(evidence.target_cores)} of {evidence.target_cpu} by {method}{_busy(evidence.busy_share)}"
    )


def _data_wait(evidence: DataWait) -> str:
    if evidence.workers:
        where = "" if evidence.cores is None else f" on {_cores(evidence.cores)}"
        how = f"{plural(evidence.workers, 'worker')} of the loader{where}"
    else:
        how = "one thread of the program, which more cores do not speed up"
    return (
        f"waiting for data, {format_percent(round(evidence.share, 2))} of the iteration, is the least certain part: it "
        f"is the work of {how}, as in profile {evidence.profile_id}{_busy(evidence.busy_share)}"
    )


def _busy(share: float) -> str:
    if not share:
        return ""
    return (
        f"; the profiled machine was busy with other work (the program waited for a CPU "
        f"{format_percent(round(share, 2))} of the time), so a profile on an idle machine would be more certain"
    )


def _cores(cores: float) -> str:
    return f"{format_number(cores)} {'core' if cores == 1 else 'cores'}"


def _sync_source(evidence: GradientSync) -> str:
    others = "other programs on such links"
    if not evidence.own_runs:
        return others
    if evidence.nodes == 1:
        return "the program's own runs on fewer GPUs"
    return f"{others} and, at half weight, the program's own runs on one node"


def _profiles(names: tuple[str, ...] | list[str]) -> str:
    return f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"
