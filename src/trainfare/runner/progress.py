"""How far a run is: iterations done, the time and cost that remain, with intervals that narrow as it runs.

The time of an iteration is known twice: as predicted, and as measured so far by the clock, validation and checkpoints
included. Both are logarithms with a normal error; they are combined by their weights 1/σ².
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.run import Observation, Run
from trainfare.runner.seen import NodeSeen, Seen, last_iteration, summarise

_Z = NormalDist().inv_cdf(0.95)
_LEAST_SIGMA = 0.005
"""The speed of a machine drifts by this much, however long it was measured."""
_FIRST_SIGMA = 0.3
"""The relative error of one measured iteration as a forecast of the rest; of n it is this by √n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of a run while its program trains."""

    iterations: int
    """Done in all, those before the checkpoint that this attempt goes on from included."""
    total_iterations: int | None
    seconds: float
    """Since the program was started in this attempt."""
    iteration_seconds: Interval | None
    """The time by the clock of an iteration of the rest."""
    remaining_seconds: Interval | None
    loss: float | None
    is_measured: bool = False
    """Iterations of this attempt were measured."""

    @property
    def share(self) -> float | None:
        """The share of iterations that are done."""
        return None if not self.total_iterations else min(1.0, self.iterations / self.total_iterations)


def progress_of(
    run: Run,
    observations: Iterable[Observation] | Seen,
    *,
    seconds: float,
    done_before: int = 0,
    candidate: Candidate | None = None,
) -> RunProgress:
    """The progress by the observations of the current attempt, in order. `seconds` is the time since its start; the
    checkpoint that it goes on from was saved after `done_before` iterations. For a `candidate` with other machines than
    those of the run nothing is predicted."""
    node = summarise(observations).first
    done = done_before + (last_iteration(node.last_steps) if node.last_steps else 0)
    segments = [segment for segment in (run.estimate, run.then) if segment is not None]
    current = _prediction_for(candidate or run.candidate, segments)
    per_iteration = _combined(predicted_iteration_seconds(current), *_measured(node))
    later = run.then if run.then is not None and current is run.estimate else None
    total = sum(each.iterations or 0 for each in segments) or None
    left = None if total is None else max(0, total - (later.iterations or 0 if later else 0) - done)
    return RunProgress(
        iterations=done,
        total_iterations=total,
        seconds=seconds,
        iteration_seconds=per_iteration,
        remaining_seconds=_remaining(per_iteration, left, later),
        loss=_last_loss(node.last_losses) if node.last_losses else None,
        is_measured=node.last_steps is not None,
    )


def _prediction_for(candidate: Candidate, segments: Sequence[Estimate]) -> Estimate | None:
    """The estimate of a candidate, or of the same machines in another region or on another market: they are as fast."""
    same = [each for each in segments if each.candidate == candidate]
    alike = [
        each
        for each in segments
        if (each.candidate.offer.vm_type, each.candidate.shape) == (candidate.offer.vm_type, candidate.shape)
    ]
    return next(iter((*same, *alike)), None)


def _remaining(per_iteration: Interval | None, left: int | None, later: Estimate | None) -> Interval | None:
    """The time of the iterations that are left on these machines, and of the segment that comes later on others."""
    if per_iteration is None or left is None:
        return None
    return per_iteration * left + (later.seconds if later else Interval.exactly(0.0))


def _measured(node: NodeSeen) -> tuple[float, int]:
    """The time by the clock that some iterations took, and their number: those between the first entry and the last,
    or those of a single entry without what is between them."""
    first, last = node.first_steps, node.last_steps
    if first is None or last is None:
        return 0.0, 0
    iterations = last_iteration(last) - last_iteration(first)
    if iterations > 0:
        return (last.at - first.at).total_seconds(), iterations
    times = first.values.get("seconds")
    known = [time for time in times if time is not None] if isinstance(times, list) else []
    return sum(known), len(known)


def predicted_iteration_seconds(estimate: Estimate | None) -> Interval | None:
    """The predicted time of an iteration by the clock: everything after the first iteration, spread over all."""
    if estimate is None or not estimate.iterations:
        return None
    after = ("steady iterations", "validation", "checkpoints")
    phases = [phase.seconds for phase in estimate.phases if phase.name in after]
    return sum(phases, Interval.exactly(0.0)) * (1 / estimate.iterations) if phases else None


def _combined(predicted: Interval | None, seconds: float, iterations: int) -> Interval | None:
    """The time of an iteration, from the prediction and from so many iterations that took `seconds` together."""
    if not iterations or seconds <= 0:
        return predicted
    measured, sigma = seconds / iterations, max(_LEAST_SIGMA, _FIRST_SIGMA / math.sqrt(iterations))
    if predicted is None or not predicted.value:
        return _interval(math.log(measured), sigma)
    prior = max(_LEAST_SIGMA, math.log(predicted.high / predicted.value) / _Z)
    weights = 1 / sigma**2, 1 / prior**2
    mean = (weights[0] * math.log(measured) + weights[1] * math.log(predicted.value)) / sum(weights)
    return _interval(mean, max(_LEAST_SIGMA, 1 / math.sqrt(sum(weights))))


def _interval(log_value: float, sigma: float) -> Interval:
    return Interval.within_factor(math.exp(log_value), math.exp(_Z * sigma))


def _last_loss(seen: Observation) -> float | None:
    values = seen.values.get("values")
    return values[-1] if isinstance(values, list) and values else None
