"""Basis `measured`: the program was profiled on this machine type, on as many GPUs, at this batch size."""

from collections.abc import Sequence
from dataclasses import replace

from trainfare.estimator.cpu.busy import idle_factor
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.step.measured import measured_times
from trainfare.model.evidence import MeasuredOnMachine
from trainfare.model.profile import Profile


def predict_from_runs(runs: Sequence[Profile]) -> PredictedIteration:
    """The steady iteration of a further run, from one profile or from repeats (`step/repeats.py`).

    If other work kept the machine busy, the next run may find it idle: the low end is then at most the idle time.
    """
    measured = measured_times(*runs).later
    idle = measured.value * idle_factor(runs[0])
    return PredictedIteration(
        seconds=replace(measured, low=min(measured.low, idle)),
        basis="measured",
        profile=runs[0],
        runs=len(runs),
        evidence=(
            MeasuredOnMachine(
                profile_ids=tuple(run.id for run in runs), batch_size=runs[0].effective_batch_size or None
            ),
        ),
    )
