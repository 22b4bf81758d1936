"""Clusters that were tried for a moment: what one worker shows, and what it predicts of several.

The short run of FC2's Scala-Opt measures the traffic of one worker that has the server to itself. The same run also
gives the time to compute, t = T(1) − 2·D with D = S/B, and with it the step of n workers by
`estimator/parallel/parameter_server.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.estimator.parallel.parameter_server import parameter_server_seconds
from trainfare.model.checks import require_positive
from trainfare.units import BYTES_PER_MEGABIT


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedWorkers:
    """A number of workers behind a server, as a short run saw them."""

    workers: int
    worker_mbps: float
    """The traffic of one worker in its busier direction, the mean of all."""
    server_mbps: float
    step_seconds: float | None = None
    """The iteration of a worker; None if its iterations could not be counted."""
    bytes_per_step: float | None = None
    """The bytes of a worker in an iteration, in its busier direction."""
    run_id: str | None = None

    def __post_init__(self) -> None:
        require_positive(workers=self.workers, step_seconds=self.step_seconds, bytes_per_step=self.bytes_per_step)

    @property
    def steps_per_second(self) -> float | None:
        """The iterations of all workers together."""
        return None if self.step_seconds is None else self.workers / self.step_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedWorkers:
    """The step of a number of workers, by the run with one."""

    workers: int
    synchronous_seconds: float
    asynchronous_seconds: float


def predict_workers(first: TriedWorkers, counts: Sequence[int], *, server_mbps: float) -> tuple[PredictedWorkers, ...]:
    """The steps of several workers, from the run with one worker and the bandwidth of the server; none if its
    iterations were not counted."""
    if first.workers != 1 or first.step_seconds is None or first.bytes_per_step is None:
        return ()
    bandwidth = server_mbps * BYTES_PER_MEGABIT
    transfer = first.bytes_per_step / bandwidth
    compute = max(first.step_seconds - 2 * transfer, 0.01 * first.step_seconds)
    found = []
    for workers in counts:
        step = parameter_server_seconds(
            compute, gradient_bytes=first.bytes_per_step, workers=workers, server_bytes_per_second=bandwidth
        )
        found.append(
            PredictedWorkers(
                workers=workers, synchronous_seconds=step.synchronous, asynchronous_seconds=step.asynchronous
            )
        )
    return tuple(found)


def best_measured(tried: Sequence[TriedWorkers], *, share: float = 0.9) -> int | None:
    """The fewest workers that reach this share of the most iterations per second; None if none were counted."""
    rates = {each.workers: rate for each in tried if (rate := each.steps_per_second) is not None}
    return min((n for n, rate in rates.items() if rate >= share * max(rates.values())), default=None)
