"""Several GPUs: each computes its share of the batch, and all of them synchronise their gradients."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trainfare.estimator.cost.interruptions import ValueRange
from trainfare.estimator.parallel.links import ClusterPredictor, ClusterSeconds, cluster_steps
from trainfare.estimator.parallel.ring import GpuPlacement, MeasuredStep, RingFit, fit_ring
from trainfare.estimator.prediction.iteration import PredictedIteration, log_ratio
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Basis
from trainfare.model.evidence import GradientSync
from trainfare.model.interval import Interval
from trainfare.model.prediction import IterationPart
from trainfare.model.profile import Profile

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Floats


def predict_several_gpus(
    single: PredictedIteration,
    cluster: ClusterPredictor,
    ring: RingFit | None,
    *,
    nodes: int,
    gpus: int,
    samples_per_gpu: int,
) -> PredictedIteration:
    """One iteration of `nodes` × `gpus` GPUs, from the iteration of a single one with its share of the batch.

        t = cluster(t_single)    `parallel/links.py`: computing and synchronising overlap

    `ring` is the program's own ring, fitted to its steps on this machine type; without it the links decide.
    """
    step = cluster.seconds(single.seconds.value, ring)
    value, low, high = several_gpus_seconds(single.seconds, step)
    return PredictedIteration(
        seconds=Interval(value=value, low=low, high=high),
        basis=several_gpus_basis(single),
        profile=single.profile,
        runs=single.runs,
        limited_by=single.limited_by if step.limited_by == "computing" else "network",
        parts=(
            *single.parts,
            IterationPart(name="adding up gradients", seconds=step.sync_seconds, limited_by="network"),
        ),
        evidence=(
            *single.evidence,
            GradientSync(nodes=nodes, gpus=gpus, samples_per_gpu=samples_per_gpu, own_runs=ring is not None),
        ),
    )


def several_gpus_basis(single: PredictedIteration) -> Basis:
    return "scaled" if single.basis == "measured" else single.basis


def several_gpus_seconds(alone: Interval, step: ClusterSeconds) -> ValueRange[float]:
    """The step with the errors of both times, which are independent: their logarithms add up as squares."""
    down = math.hypot(log_ratio(alone.value, alone.low), log_ratio(step.seconds, step.low))
    up = math.hypot(log_ratio(alone.high, alone.value), log_ratio(step.high, step.seconds))
    value = alone.value * (step.seconds / alone.value)
    return ValueRange(value, step.seconds * math.exp(-down), step.seconds * math.exp(up))


def several_gpus_steps(alone: Sequence[tuple[Interval, ClusterPredictor]]) -> list[ValueRange[float]]:
    """`several_gpus_seconds` of many iterations on one GPU, each with its cluster."""
    import numpy as np

    value, low, high = np.array([(each.value, each.low, each.high) for each, _ in alone]).reshape(-1, 3).T
    step, shortest, longest = cluster_steps(value, [cluster for _, cluster in alone])
    down = np.hypot(_log_ratios(value, low), np.log(step / shortest))
    up = np.hypot(_log_ratios(high, value), np.log(longest / step))
    ends = step, step * np.exp(-down), step * np.exp(up)
    return list(map(ValueRange, *(end.tolist() for end in ends)))


def _log_ratios(larger: "Floats", smaller: "Floats") -> "Floats":
    """`log_ratio` of many."""
    import numpy as np

    return np.log(larger / np.where((larger > smaller) & (smaller > 0), smaller, larger))


def fit_own_ring(profiles: Sequence[Profile], times: Mapping[str, StepTimes]) -> RingFit | None:
    """The ring that the program's own steps on one machine type show; None unless it ran there on one GPU and on
    several."""
    sized = [profile for profile in profiles if profile.micro_batch_size is not None]
    if not {1} < {profile.world_size for profile in sized}:
        return None
    return fit_ring(
        [
            MeasuredStep(
                placement=GpuPlacement(nodes=1, gpus=profile.world_size),
                batch_size=float(profile.micro_batch_size or 1),
                seconds=times[profile.id].later.value,
            )
            for profile in sized
        ]
    )
