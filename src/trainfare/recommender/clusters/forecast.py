"""The predicted time of a training on every cluster that a limit allows.

Our own choice of a cluster and the rating of FC2's choices are based on it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfare.estimator.memory import memory_fit
from trainfare.estimator.parallel.parameter_server import parameter_server_seconds
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.estimator.step.measured import StepTimes, training_seconds
from trainfare.model.cluster import ClusterEstimate, ClusterLimit, Server, Worker
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.recommender.clusters.fc2 import mbps_of
from trainfare.recommender.clusters.own import worker_counts

BYTES_PER_SECOND_OF_MBPS = 125_000.0
TRANSFER_FACTOR = 1.15
"""The 90 % factor of the time on a server's network: `python -m benchmarks.saturation` measures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterForecast:
    """Predictions for clusters; each worker, or each of its GPUs, keeps the batch size of the profile."""

    predictor: StepTimePredictor
    profile: Profile
    length_at: Callable[[int | None], tuple[float, int]]
    """The iterations per epoch and the epochs of the training at an effective batch size."""
    epochs: int
    vm_types: Mapping[str, VmType]
    """The machine types by the names that the user gives to the workers; types that the catalog lacks are missing."""

    @property
    def gradient_bytes(self) -> float | None:
        return self.profile.gradient_bytes or (4.0 * self.profile.parameters if self.profile.parameters else None)

    def single_worker(self, name: str) -> StepTimePrediction | None:
        """The prediction for one worker with all its GPUs, without any transfer."""
        return self._all_reduce(name, 1)

    def mbps(self, name: str, server: Server) -> float | None:
        """b_t of a worker with a server to itself: gradient up and weights down once per iteration."""
        single = self.single_worker(name)
        if single is None or not self.gradient_bytes:
            return None
        return mbps_of(self.gradient_bytes, self._step_with_server(name, single, server, 1).value)

    def estimates(
        self, servers: Sequence[Server], workers: Sequence[Worker], limit: ClusterLimit
    ) -> tuple[ClusterEstimate, ...]:
        """Every number of every type that the limit allows, behind each server and without one."""
        return tuple(
            estimate
            for worker in workers
            for server in (*servers, None)
            for estimate in self._estimates_of_type(worker, server, limit)
        )

    def _estimates_of_type(
        self, worker: Worker, server: Server | None, limit: ClusterLimit
    ) -> Iterator[ClusterEstimate]:
        single = self.single_worker(worker.name)
        if single is None or (server is not None and not self.gradient_bytes):
            return
        for n in worker_counts(server, worker, limit):
            size = self._effective_batch_size(worker.name, n)
            if n > 1 and size is not None and size > (self.profile.samples or size):
                return  # more workers than an epoch has batches
            if server is not None:
                times = _with_transfer(single.times, self._step_with_server(worker.name, single, server, n))
                basis = single.basis
            else:
                together = self._all_reduce(worker.name, n)
                if together is None:
                    return
                times, basis = together.times, together.basis
            seconds = self._training_seconds(times, size)
            yield ClusterEstimate(server=server, worker=worker, workers=n, seconds=seconds, basis=basis)

    def _all_reduce(self, name: str, n: int) -> StepTimePrediction | None:
        """The prediction for n workers without a server; None if the type is unknown or its memory too small."""
        vm_type = self.vm_types.get(name)
        if vm_type is None:
            return None
        size, gpus = self._effective_batch_size(name, n), max(1, vm_type.gpus)
        memory = memory_fit(self.profile, vm_type, batch_size=size, gpus=n * gpus, others=self.predictor.profiles)
        if memory is not None and memory.verdict == "does not fit":
            return None
        return self.predictor.predict(vm_type, nodes=n, gpus=vm_type.gpus, batch_size=size)

    def _effective_batch_size(self, name: str, n: int) -> int | None:
        size = self.profile.micro_batch_size
        steps = self.profile.accumulation_steps
        return None if size is None else size * steps * n * max(1, self.vm_types[name].gpus)

    def _step_with_server(self, name: str, single: StepTimePrediction, server: Server, n: int) -> Interval:
        """An iteration behind a server that waits for all workers, as all-reduce does: the training stays the same."""
        bandwidth = self.vm_types[name].network_gb_per_second
        later = single.times.later
        step = parameter_server_seconds(
            later.value,
            gradient_bytes=self.gradient_bytes or 0.0,
            workers=n,
            server_bytes_per_second=server.mbps * BYTES_PER_SECOND_OF_MBPS,
            worker_bytes_per_second=bandwidth * 1e9 if bandwidth else None,
        )
        return later + Interval.within_factor(step.synchronous - later.value, TRANSFER_FACTOR)

    def _training_seconds(self, times: StepTimes, batch_size: int | None) -> Interval:
        iterations, epochs = self.length_at(batch_size)
        return training_seconds(times, iterations_per_epoch=max(1.0, iterations), epochs=epochs)


def _with_transfer(single: StepTimes, step: Interval) -> StepTimes:
    """The times of a worker behind a server: every iteration, also the first, takes longer by the transfer."""
    transfer = max(0.0, step.value - single.later.value)
    return replace(single, first=single.first + Interval.within_factor(transfer, TRANSFER_FACTOR), later=step)
