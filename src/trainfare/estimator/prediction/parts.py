"""The parts of an iteration, as a prediction explains them."""

from trainfare.estimator.gpu.physics import StepSeconds
from trainfare.model.prediction import IterationPart


def parts_of_step(step: StepSeconds) -> tuple[IterationPart, ...]:
    """Each class of operators and the launches, longest first; parts without time are left out."""
    classes = [IterationPart(name=c.kind, seconds=c.seconds, limited_by=c.limited_by) for c in step.classes]
    host = IterationPart(name="launching kernels", seconds=step.host_seconds, limited_by="launches")
    return tuple(sorted((part for part in (*classes, host) if part.seconds > 0), key=lambda part: -part.seconds))
