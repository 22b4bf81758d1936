"""Basis `measured`: the program was profiled on this machine type, on as many GPUs, at this batch size."""

from collections.abc import Sequence

from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.step.measured import measured_times
from trainfare.model.evidence import MeasuredOnMachine
from trainfare.model.profile import Profile


def predict_from_runs(runs: Sequence[Profile]) -> PredictedIteration:
    """The steady iteration of a further run, from one profile or from repeats (`step/repeats.py`)."""
    return PredictedIteration(
        seconds=measured_times(*runs).later,
        basis="measured",
        profile=runs[0],
        runs=len(runs),
        evidence=(
            MeasuredOnMachine(
                profile_ids=tuple(run.id for run in runs), batch_size=runs[0].effective_batch_size or None
            ),
        ),
    )
