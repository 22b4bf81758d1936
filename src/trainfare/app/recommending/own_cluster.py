"""How long the training takes on every cluster that a limit allows: what our own choice and the judgement of FC2's are
made from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import Workload, build_workload
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.parallel.parameter_server import parameter_server_seconds
from trainfare.estimator.prediction.predictor import StepTimePrediction
from trainfare.estimator.step.measured import StepTimes, training_seconds
from trainfare.model.cluster import ClusterLimit, Server, ClusterEstimate, Worker
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.recommender.clusters.fc2 import mbps_of
from trainfare.recommender.clusters.own import counts
from trainfare.settings import Settings

BYTES_PER_SECOND_OF_MBPS = 125_000.0
TRANSFER_FACTOR = 1.15
"""How far the time on a server's network may be off, 90 %: `python -m benchmarks.saturation` measures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is known of the program; each worker, or each of its GPUs, keeps the batch size of the profile."""

    workload: Workload
    vm_types: Mapping[str, VmType]
    """By the name that the user gives a worker; what the catalog does not know is not in it."""

    @property
    def profile(self) -> Profile:
        return self.workload.leading.profiles[0]

    @property
    def epochs(self) -> int:
        return self.workload.leading.length.epochs

    @property
    def gradient_bytes(self) -> float | None:
        return self.profile.gradient_bytes or (4.0 * self.profile.parameters if self.profile.parameters else None)

    def alone(self, name: str) -> StepTimePrediction | None:
        """One worker with all its GPUs, nothing sent."""
        return self._together(name, 1)

    def mbps(self, name: str, server: Server) -> float | None:
        """b_t of a worker with a server to itself: the gradient goes up and the weights come down once an iteration."""
        alone = self.alone(name)
        if alone is None or not self.gradient_bytes:
            return None
        return mbps_of(self.gradient_bytes, self._served(name, alone, server, 1).value)

    def trained(self, servers: Sequence[Server], workers: Sequence[Worker], limit: ClusterLimit) -> tuple[ClusterEstimate, ...]:
        """Every number of every type that the limit allows, behind each server and without one."""
        return tuple(
            cluster
            for worker in workers
            for server in (*servers, None)
            for cluster in self._of_type(worker, server, limit)
        )

    def _of_type(self, worker: Worker, server: Server | None, limit: ClusterLimit) -> Iterator[ClusterEstimate]:
        alone = self.alone(worker.name)
        if alone is None or (server is not None and not self.gradient_bytes):
            return
        for n in counts(server, worker, limit):
            size = self._whole_batch(worker.name, n)
            if n > 1 and size is not None and size > (self.profile.samples or size):
                return  # more workers than an epoch has batches
            if server is not None:
                times = _in_step(alone.times, self._served(worker.name, alone, server, n))
                basis = alone.basis
            else:
                together = self._together(worker.name, n)
                if together is None:
                    return
                times, basis = together.times, together.basis
            yield ClusterEstimate(
                server=server, worker=worker, workers=n, seconds=self._training(times, size), basis=basis
            )

    def _together(self, name: str, n: int) -> StepTimePrediction | None:
        vm_type = self.vm_types.get(name)
        if vm_type is None:
            return None
        size, gpus = self._whole_batch(name, n), max(1, vm_type.gpus)
        memory = memory_fit(self.profile, vm_type, batch_size=size, gpus=n * gpus, others=self.workload.predictor.profiles)
        if memory is not None and memory.verdict == "does not fit":
            return None
        return self.workload.predictor.predict(vm_type, nodes=n, gpus=vm_type.gpus, batch_size=size)

    def _whole_batch(self, name: str, n: int) -> int | None:
        size = self.profile.micro_batch_size
        passes = self.profile.accumulation_steps
        return None if size is None else size * passes * n * max(1, self.vm_types[name].gpus)

    def _served(self, name: str, alone: StepTimePrediction, server: Server, n: int) -> Interval:
        """An iteration of a server that waits for all, as all-reduce does: the training stays the same."""
        own = self.vm_types[name].network_gb_per_second
        later = alone.times.later
        step = parameter_server_seconds(
            later.value,
            gradient_bytes=self.gradient_bytes or 0.0,
            workers=n,
            server_bytes_per_second=server.mbps * BYTES_PER_SECOND_OF_MBPS,
            worker_bytes_per_second=own * 1e9 if own else None,
        )
        return later + Interval.within_factor(step.synchronous - later.value, TRANSFER_FACTOR)

    def _training(self, times: StepTimes, batch_size: int | None) -> Interval:
        group = self.workload.at(batch_size)
        length = group.length
        iterations = group.iterations_per_epoch if length.iterations is None else length.iterations / length.epochs
        return training_seconds(times, iterations_per_epoch=max(1.0, iterations), epochs=length.epochs)


def forecast(
    profiles: Sequence[Profile],
    vm_types: Mapping[str, VmType],
    *,
    epochs: int | None,
    iterations_per_epoch: int | None,
    settings: Settings,
) -> Forecast:
    workload = build_workload(
        profiles,
        decide=partial(decide_epochs, epochs),
        iterations_per_epoch=iterations_per_epoch,
        overheads=None,
        settings=settings,
    )
    return Forecast(workload=workload, vm_types=vm_types)


def _in_step(alone: StepTimes, served: Interval) -> StepTimes:
    """Every iteration, the first too, lasts longer by what is sent."""
    sent = max(0.0, served.value - alone.later.value)
    return replace(alone, first=alone.first + Interval.within_factor(sent, TRANSFER_FACTOR), later=served)
