"""Basis `scaled`: the program was profiled on a GPU or CPU, but not in exactly this configuration.

other batch size   on the same machine type                     predict_at_other_batch_size
other slice        more or fewer cores of the same machine      predict_on_other_slice
other GPU          or the same GPU in another machine           predict_on_other_gpu
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT
from trainfare.estimator.batch.step_time import predict_batch_time
from trainfare.estimator.gpu.by_operator import transfer_step
from trainfare.estimator.gpu.combined import predict_combined
from trainfare.estimator.memory import memory_need
from trainfare.estimator.prediction.iteration import PredictedIteration, combine_errors
from trainfare.estimator.prediction.models import ProgramModels
from trainfare.estimator.prediction.parts import parts_of_step
from trainfare.estimator.prediction.profile_index import GpuMeasurement, ProfileIndex, samples_per_pass
from trainfare.estimator.step.slices import CpuSlice, predict_iteration, slice_measurements
from trainfare.model.evidence import MeasuredAtOtherBatchSizes, MeasuredOnOtherGpus, MeasuredOnSlices, OperatorTimes
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu, VmType
from trainfare.model.measurement import OperatorProfile
from trainfare.model.profile import Profile

DTYPES = ("float32", "tf32", "float16")
"""The dtypes that a program of unknown dtype may compute in; bfloat16 is as fast as float16."""
ALONE_WIDTH = 1.5
"""The factor by which the interval is wider if only the program's times on one GPU are known. With it the interval
covers 91% of the times of `seven_models_k80_p100_v100` and 99% of `rented_gpus` on the other GPUs, dtype unknown."""


def predict_at_other_batch_size(
    index: ProfileIndex, models: ProgramModels | None, vm_type: VmType, batch_size: int
) -> PredictedIteration | None:
    """Measured by one process on this machine type at other batch sizes: `batch/step_time.py` gives t(B).

    With one measured size B₀ the time is t(B₀) · model(B)/model(B₀), with several it follows their curve. None if no
    profile knows its batch size.
    """
    profiles = [profile for profile in index.on_machine(vm_type) if profile.world_size == 1]
    measured = [(size, index.times[p.id].later.value) for p in profiles if (size := p.micro_batch_size) is not None]
    if not measured:
        return None
    gpu = vm_type.gpu
    step_at = partial(models.step, gpu) if models is not None and gpu is not None and index.traced else None
    step = None if step_at is None else step_at(batch_size)
    return PredictedIteration(
        seconds=predict_batch_time(
            measured,
            batch_size,
            modelled=None if step_at is None else lambda size: step_at(size).seconds,
            memory_share=_memory_share(profiles, gpu, batch_size),
            fit=DEFAULT_LARGER_BATCH_FIT if models is None else models.calibration.larger_batch,
        ),
        basis="scaled",
        profile=profiles[0],
        limited_by=step.limited_by if step else None,
        parts=parts_of_step(step) if step else (),
        evidence=(
            MeasuredAtOtherBatchSizes(
                machine=vm_type.key,
                measured_batch_sizes=tuple(sorted({size for size, _ in measured})),
                batch_size=batch_size,
            ),
        ),
    )


def predict_on_other_slice(index: ProfileIndex, vm_type: VmType, batch_size: int | None) -> PredictedIteration | None:
    """Measured on other slices of the same machine without a GPU: `step/slices.py` scales to its cores.

    None if the machine type is no slice of the machine at hand, or if no slice was measured at this batch size.
    """
    cores = index.slice_cores.get(vm_type.key)
    if not cores:
        return None
    same_size = [p for p in index.profiles if batch_size is None or samples_per_pass(p) == batch_size]
    measured = slice_measurements(same_size, index.slice_cores)
    if not measured:
        return None
    return PredictedIteration(
        seconds=predict_iteration(CpuSlice.of_cores(cores), [slice_ for _, slice_ in measured]),
        basis="scaled",
        profile=measured[0][0],
        evidence=(MeasuredOnSlices(slices=tuple(profile.host.vm_type for profile, _ in measured), cores=cores),),
    )


def predict_on_other_gpu(
    measured: Sequence[GpuMeasurement], models: ProgramModels, target: Gpu, batch_size: int | None
) -> PredictedIteration:
    """Measured on known GPUs, the nearest batch size first; the time of the GPU without the wait for data.

    The time comes from the program's operations or from its timed operators, whichever has the narrower
    interval; only if neither is known, from how other programs speed up between the GPUs. The interval includes the
    error of the measurement that it starts from.
    """
    nearest = measured[0]
    size = batch_size or nearest.profile.micro_batch_size
    methods = (
        _scale_by_operations(measured, models, target, size),
        _scale_by_operator_times(nearest, models, target, size),
    )
    known = [found for found in methods if found is not None]
    found = (
        min(known, key=lambda one: one.seconds.high / one.seconds.low)
        if known
        else _scale_by_other_programs(measured, models, target, size)
    )
    return replace(found, seconds=combine_errors(found.seconds.value, found.seconds, nearest.seconds))


def _scale_by_operations(
    measured: Sequence[GpuMeasurement], models: ProgramModels, target: Gpu, batch_size: int | None
) -> PredictedIteration | None:
    """To the same GPU by t₀ · model(B)/model(B₀); to another GPU by `gpu/combined.py`, which also uses how other
    programs speed up. None if no measured profile lists its operations."""
    traced = [one for one in measured if one.profile.operations]
    if not traced:
        return None
    calibration = models.calibration
    step = models.corrected_step(target, batch_size)
    known = [(models.corrected_step(one.gpu, one.profile.micro_batch_size), one.device_seconds) for one in traced]
    same_gpu = traced[0].gpu.name == target.name
    if same_gpu:
        modelled, device_seconds = known[0]
        seconds = Interval.within_factor(device_seconds * step.seconds / modelled.seconds, calibration.same_gpu_factor)
    else:
        by_times = _seconds_by_other_programs(measured, models, target, batch_size)
        seconds = predict_combined(
            step, target.name, known, calibration.physics, by_times, min_factor=calibration.scaled_factor
        )
    return PredictedIteration(
        seconds=seconds,
        basis="scaled",
        profile=traced[0].profile,
        limited_by=step.limited_by,
        parts=parts_of_step(step),
        evidence=(
            MeasuredOnOtherGpus(
                profiles=_profile_gpus(traced),
                method="operations" if same_gpu else "operations and other programs",
            ),
        ),
    )


def _scale_by_operator_times(
    measured: GpuMeasurement, models: ProgramModels, target: Gpu, batch_size: int | None
) -> PredictedIteration | None:
    """The measured time of each operator, scaled by `gpu/by_operator.py`; None if operators were not timed, or were
    timed at another batch size."""
    profile, source = measured.profile, measured.gpu
    if not profile.operator_seconds or batch_size is None or batch_size != profile.micro_batch_size:
        return None
    operators = OperatorProfile(
        program=profile.program.name,
        family=profile.program.name,
        vm_type=profile.host.vm_type or source.name,
        gpu=source.name,
        batch_size=batch_size,
        image_side=1,
        optimizer=profile.optimizer or "",
        seconds=measured.device_seconds,
        device_seconds=profile.operator_seconds,
        host_seconds=profile.operator_host_seconds,
    )
    return PredictedIteration(
        seconds=transfer_step([operators], batch_size, source, target, models.calibration.transfer),
        basis="scaled",
        profile=profile,
        evidence=(OperatorTimes(profile_id=profile.id, gpu=source.name),),
    )


def _scale_by_other_programs(
    measured: Sequence[GpuMeasurement], models: ProgramModels, target: Gpu, batch_size: int | None
) -> PredictedIteration:
    """By how other programs speed up between the measured GPUs and the target (`gpu/by_times.py`).

    Nothing but times is known. Measured on one GPU only, they do not show what limits the program, and the interval is
    ALONE_WIDTH times as wide (in logarithms). Without a dtype, as in the log of a past run, it covers every dtype that
    the program may have used: they gain differently from one GPU to another.
    """
    dtype = measured[0].profile.dtype
    found = _hull(
        [_seconds_by_other_programs(measured, models, target, batch_size, one) for one in (dtype and [dtype]) or DTYPES]
    )
    same_gpu = measured[0].gpu.name == target.name
    if not same_gpu and len(measured) == 1:
        found = Interval(
            value=found.value,
            low=found.value * (found.low / found.value) ** ALONE_WIDTH,
            high=found.value * (found.high / found.value) ** ALONE_WIDTH,
        )
    return PredictedIteration(
        seconds=found,
        basis="scaled",
        profile=measured[0].profile,
        evidence=(
            MeasuredOnOtherGpus(
                profiles=_profile_gpus(measured), method="other programs", dtype_known=dtype is not None
            ),
        ),
    )


def _hull(intervals: Sequence[Interval]) -> Interval:
    """The interval that contains all of them, with the geometric mean of the smallest and the largest value."""
    values = [one.value for one in intervals]
    return Interval(
        value=math.sqrt(min(values) * max(values)),
        low=min(one.low for one in intervals),
        high=max(one.high for one in intervals),
    )


def _seconds_by_other_programs(
    measured: Sequence[GpuMeasurement],
    models: ProgramModels,
    target: Gpu,
    batch_size: int | None,
    dtype: str | None = None,
) -> Interval:
    size = batch_size or measured[0].profile.micro_batch_size or 1
    return models.time_model(measured, dtype).predict(target, batch_size=float(size))


def _profile_gpus(measured: Sequence[GpuMeasurement]) -> tuple[tuple[str, str], ...]:
    return tuple((one.profile.id, one.gpu.name) for one in measured)


def _memory_share(profiles: Sequence[Profile], gpu: Gpu | None, batch_size: int) -> float | None:
    """The share of the GPU's memory that tensors need at the batch size; None if that is unknown."""
    need = memory_need(profiles[0], micro_batch_size=batch_size, others=profiles) if gpu is not None else None
    return None if need is None or gpu is None else need.tensors_gib / gpu.memory_gib
