"""Basis `extrapolated`: the program was profiled on no known GPU; only its operations are known."""

import math

from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.prediction.models import ProgramModels
from trainfare.estimator.prediction.parts import parts_of_step
from trainfare.estimator.prediction.profile_index import ProfileIndex
from trainfare.model.evidence import Evidence, OperationsAlone, OtherFramework
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu

OTHER_FRAMEWORK_FACTOR = 1.5
"""The factor by which other frameworks may be faster or slower than the PyTorch kernels that were measured; an
assumption."""


def predict_from_operations(
    index: ProfileIndex, models: ProgramModels, target: Gpu, batch_size: int | None
) -> PredictedIteration | None:
    """The step model of `gpu/physics.py` alone, with the corrections by the user's own profiles.

        t = model(operations at B) · c_gpu · c_program

    The wait for data is not included. The profile with operations at this batch size leads, or else the first one. None
    if no profile has both operations and steady iterations.
    """
    by_size = sorted(index.traced, key=lambda profile: profile.micro_batch_size != batch_size)
    leading = next((profile for profile in by_size if profile.steady_iteration_seconds), None)
    if leading is None:
        return None
    calibration = models.calibration
    step = models.step(target, batch_size or leading.micro_batch_size)
    factor = calibration.extrapolated_factor(step, target.name)
    evidence: tuple[Evidence, ...] = (
        OperationsAlone(
            gpu=target.name,
            gpu_measured=target.name in calibration.physics.gpus,
            corrected=target.name in calibration.corrections.gpus,
        ),
    )
    if leading.framework != "pytorch":
        factor = math.exp(math.hypot(math.log(factor), math.log(OTHER_FRAMEWORK_FACTOR)))
        evidence += (OtherFramework(framework=leading.framework),)
    seconds = step.seconds * models.program_correction(target, leading)
    return PredictedIteration(
        seconds=Interval.within_factor(seconds, factor),
        basis="extrapolated",
        profile=leading,
        limited_by=step.limited_by,
        parts=parts_of_step(step),
        evidence=evidence,
    )
