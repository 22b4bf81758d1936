"""Basis `scaled`: the program was profiled on a CPU, and is asked about on another machine without GPUs.

    t = transfer(t₀ − wait₀) + wait      `cpu/transfer.py`, `data_wait.py`

A profile on a GPU says nothing about a CPU.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from trainfare.estimator.batch.operations import operations_by_batch
from trainfare.estimator.cpu.busy import on_idle_machine, queue_share
from trainfare.estimator.cpu.machine import CpuMachine, machine_of_host, machine_of_type
from trainfare.estimator.cpu.step import CpuStepModel
from trainfare.estimator.cpu.transfer import CpuMeasurement, transfer_step
from trainfare.estimator.prediction.data_wait import LoaderHost, ProfiledWait, add_data_wait
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.prediction.profile_index import MAX_WAIT_SHARE, ProfileIndex
from trainfare.estimator.step.measured import measured_times
from trainfare.model.evidence import MeasuredOnOtherCpu
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile

LIMITED_SHARE = 0.75
"""A program that computes with less than this share of the cores of its machine limits itself to them everywhere."""


class OtherCpuPredictor:
    """Iterations of one program on machines without GPUs, from its profiles on a CPU."""

    def __init__(self, index: ProfileIndex) -> None:
        self._index = index
        self._profiles = [p for p in index.profiles if _usable(p, index) and self._machine(p) is not None]
        sized = [p for p in index.traced if p.micro_batch_size is not None]
        self._operations_at = operations_by_batch(sized) if sized else None
        self._models: dict[int | None, CpuStepModel | None] = {}
        self._known: dict[str, tuple[tuple[str, ...], list[CpuMeasurement]]] = {}

    def predict(self, vm_type: VmType, batch_size: int | None) -> PredictedIteration | None:
        """One iteration with `batch_size` samples in a pass.

        None if no profile was taken on a CPU, if the cores of the machine are unknown, or if the batch size differs
        from the profiled one and the operations are unknown.
        """
        leading = min(self._profiles, key=lambda p: _log_distance(p.micro_batch_size, batch_size), default=None)
        if leading is None:
            return None
        host = self._machine(leading)
        size = batch_size or leading.micro_batch_size
        model, asked = self._model(leading.micro_batch_size), self._model(size)
        target = None if host is None else self._target(vm_type, leading, host)
        if host is None or target is None or (asked is None and size != leading.micro_batch_size):
            return None
        ids, measured = self._measurements(leading)
        found = transfer_step(model, measured, target, asked=asked)
        index = self._index
        iteration = PredictedIteration(
            seconds=found.seconds,
            basis="scaled",
            profile=leading,
            limited_by=None if model is None else found.step.limited_by,
            parts=() if model is None else found.step.parts(found.seconds.value),
            evidence=(
                MeasuredOnOtherCpu(
                    profile_ids=ids,
                    cpu=host.cpu.name,
                    cores=host.cores,
                    target_cpu=target.cpu.name if target.facts else "a CPU of unknown type",
                    target_cores=target.cores,
                    by_operations=model is not None,
                    busy_share=queue_share(leading) if host.cores >= 1 else 0.0,
                ),
            ),
        )
        waiting = add_data_wait(
            iteration,
            ProfiledWait.of(leading, _wait(leading, index), index),
            growth=size / leading.micro_batch_size if size and leading.micro_batch_size else 1.0,
            target=LoaderHost.of_type(vm_type),
        )
        # Without operations the wait would be the only part, and have all of the time.
        return waiting if model is not None else replace(waiting, parts=())

    def _machine(self, profile: Profile) -> CpuMachine | None:
        cores = self._index.slice_cores.get(profile.host.vm_type or "")
        return machine_of_host(profile.host, self._index.host_cpu(profile), cores)

    def _target(self, vm_type: VmType, leading: Profile, host: CpuMachine) -> CpuMachine | None:
        """The machine asked about, which may be another slice of the profiled one."""
        cores = self._index.slice_cores.get(vm_type.key)
        if cores is not None:
            return machine_of_host(leading.host, self._index.host_cpu(leading), cores)
        return machine_of_type(vm_type, host.cpu)

    def _same_cpu(self, leading: Profile) -> list[list[Profile]]:
        """The profiles on the machine of the leading one at its batch size, grouped by their number of cores; its own
        group first."""
        groups: dict[float, list[Profile]] = {}
        for profile in (leading, *self._profiles):
            machine = self._machine(profile)
            same = _host_and_size(profile) == _host_and_size(leading)
            if machine is not None and same and profile not in groups.get(machine.cores, ()):
                groups.setdefault(machine.cores, []).append(profile)
        return list(groups.values())

    def _measurements(self, leading: Profile) -> tuple[tuple[str, ...], list[CpuMeasurement]]:
        """The ids of the profiles on the machine of the leading one, and their times."""
        if leading.id not in self._known:
            groups = self._same_cpu(leading)
            ids = tuple(group[0].id for group in groups)
            self._known[leading.id] = ids, [self._measured(group) for group in groups]
        return self._known[leading.id]

    def _measured(self, group: Sequence[Profile]) -> CpuMeasurement:
        machine = self._machine(group[0])
        if machine is None:
            raise ValueError(f"the cores of {group[0].host.name} are unknown")
        later, wait = measured_times(*group).later, _wait(group[0], self._index)
        computing = Interval(
            value=later.value - wait,
            low=max(later.low - wait, (1 - MAX_WAIT_SHARE) * later.low),
            high=later.high - wait,
        )
        threads, share = group[0].threads, queue_share(group[0])
        limited = threads is not None and threads < LIMITED_SHARE * machine.cores
        idle = on_idle_machine(computing, share, threads=threads or math.ceil(machine.cores))
        if share and machine.cores < 1:  # the wait for the quota is left out of the time, too
            machine = replace(machine, cores=1.0)
        return CpuMeasurement(machine=machine, seconds=idle, threads=threads if limited else None)

    def _model(self, batch_size: int | None) -> CpuStepModel | None:
        if batch_size not in self._models:
            self._models[batch_size] = self._new_model(batch_size)
        return self._models[batch_size]

    def _new_model(self, batch_size: int | None) -> CpuStepModel | None:
        traced = self._index.traced
        if not traced:
            return None
        if batch_size is None or self._operations_at is None:
            return CpuStepModel(traced[0].operations)
        return CpuStepModel(self._operations_at(batch_size))


def _usable(profile: Profile, index: ProfileIndex) -> bool:
    return profile.device == "cpu" and profile.world_size == 1 and profile.id in index.times


def _wait(profile: Profile, index: ProfileIndex) -> float:
    return min(profile.median_data_wait_seconds, MAX_WAIT_SHARE * index.times[profile.id].later.value)


def _host_and_size(profile: Profile) -> tuple[object, ...]:
    return profile.host.name, profile.host.cpu, profile.micro_batch_size


def _log_distance(known: int | None, wanted: int | None) -> float:
    if wanted is None or known == wanted:
        return 0.0
    return math.inf if known is None else abs(math.log(known / wanted))
