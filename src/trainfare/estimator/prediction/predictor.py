"""How long an iteration takes on a machine, by the best basis that the profiles allow.

measured      a profile was taken on that machine type, on as many GPUs, at that batch size     `measured.py`
scaled        … there at another batch size, on another slice of the machine, or on other GPUs   `scaled.py`
              … on another CPU, for a machine without GPUs                                       `other_cpu.py`
extrapolated  … on no known GPU: the model of its operations alone                               `extrapolated.py`

    t(B) = t_device(operations at B) + wait for data                 on one GPU or CPU   `data_wait.py`
    t    = cluster(t(B/K))                                           on K GPUs   `several_gpus.py`

A profile that was taken on a CPU gives the operations, the start-up and the wait for data, and the times on other
slices and other CPUs; it never determines the speed of a GPU. `host.py` adds the host's part of a training.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.cost.timing import TimeColumns
from trainfare.estimator.parallel.links import ClusterPredictor
from trainfare.estimator.parallel.ring import RingFit
from trainfare.estimator.prediction.data_wait import LoaderHost, ProfiledWait, add_data_wait
from trainfare.estimator.prediction.extrapolated import predict_from_operations
from trainfare.estimator.prediction.host import times_on_other_host
from trainfare.estimator.prediction.iteration import PredictedIteration, StepTimePrediction
from trainfare.estimator.prediction.measured import predict_from_runs
from trainfare.estimator.prediction.models import ProgramModels
from trainfare.estimator.prediction.other_cpu import OtherCpuPredictor
from trainfare.estimator.prediction.predicted_times import MachineShape, MachineTimes, in_columns
from trainfare.estimator.prediction.profile_index import ProfileIndex, same_setting, samples_per_pass
from trainfare.estimator.prediction.scaled import (
    predict_at_other_batch_size,
    predict_on_other_gpu,
    predict_on_other_slice,
)
from trainfare.estimator.prediction.several_gpus import (
    fit_own_ring,
    predict_several_gpus,
    several_gpus_basis,
    several_gpus_steps,
)
from trainfare.estimator.step.measured import StepTimes, measured_times
from trainfare.estimator.step.slices import CpuSlice, predict_step_times, slice_measurements
from trainfare.model.evidence import MeasuredOnSlices
from trainfare.model.machine import Cpu, Gpu, VmType
from trainfare.model.profile import Profile

Key = tuple[object, ...]


class StepTimePredictor:
    """Predicts the iterations of one program on many machines; equal questions are answered once.

    `gpus` has the facts of the GPUs that the profiles were taken on, by the device names in the profiles, and
    `slice_cores` the cores of each slice of the machine at hand, by the key of its machine type; `taken_here` has the
    ids of the profiles of the machine at hand itself; `cpus` has the facts of the CPUs of the hosts, by the names in
    the profiles. Without a calibration nothing is predicted for GPUs that were not measured. `targets` are the GPUs
    that will be asked about: the model evaluates all of them at once.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        gpus: Mapping[str, Gpu] | None = None,
        slice_cores: Mapping[str, float] | None = None,
        taken_here: Collection[str] = (),
        cpus: Mapping[str, Cpu] | None = None,
        calibration: Calibration | None = None,
        targets: Iterable[Gpu] = (),
    ) -> None:
        self.profiles = tuple(profiles)
        self._index = ProfileIndex.build(
            profiles, gpus=gpus or {}, slice_cores=slice_cores or {}, taken_here=taken_here, cpus=cpus
        )
        self._other_cpus = OtherCpuPredictor(self._index)
        self._models = None if calibration is None else ProgramModels(self._index, calibration, targets)
        self._waits_for_data = self._index.waits_for_data
        self._machine_keys: dict[int, tuple[VmType, Key]] = {}
        self._validation_ratios: dict[Key, float] = {}
        self._predictions: dict[Key, StepTimePrediction | None] = {}
        self._machine_times: dict[Key, MachineTimes | None] = {}
        self._on_gpu: dict[Key, tuple[PredictedIteration, ProfiledWait] | None] = {}
        self._single: dict[Key, PredictedIteration | None] = {}
        self._rings: dict[str, RingFit | None] = {}

    def predict(
        self, vm_type: VmType, *, nodes: int = 1, gpus: int = 1, batch_size: int | None = None
    ) -> StepTimePrediction | None:
        """One iteration at `batch_size` (of all GPUs together), shared by `gpus` of each of `nodes`.

        None if the profiles say nothing about the machine.
        """
        key = self._key(vm_type, nodes, gpus, batch_size)
        if key not in self._predictions:
            iteration = self._iteration(vm_type, nodes, max(1, gpus), batch_size)
            self._predictions[key] = (
                None
                if iteration is None
                else StepTimePrediction(iteration=iteration, times=self._times(iteration, vm_type))
            )
        return self._predictions[key]

    def times(self, shapes: Sequence[MachineShape]) -> list[MachineTimes | None]:
        """The times of `predict` alone, without what explains them: fast enough for thousands of machines."""
        known = self._machine_times
        keys = [self._key(*shape) for shape in shapes]
        unknown = {key: shape for key, shape in zip(keys, shapes, strict=True) if key not in known}
        joined: dict[Key, tuple[PredictedIteration, ClusterPredictor, float]] = {}
        for key, shape in unknown.items():
            several = None if self._index.on_machine(shape.vm_type) else self._cluster_of(*shape)
            if several is None:
                known[key] = self._times_alone(shape)
            else:
                single, cluster, _ = several
                joined[key] = single, cluster, self._validation_ratio(single, shape.vm_type)
        steps = several_gpus_steps([(single.seconds, cluster) for single, cluster, _ in joined.values()])
        for (key, (single, _, ratio)), step in zip(joined.items(), steps, strict=True):
            known[key] = MachineTimes(single.profile, several_gpus_basis(single), None, step, ratio)
        return [known[key] for key in keys]

    def alike(self, vm_type: VmType) -> Key:
        """Equal for machine types on which every iteration takes the same time, and that have the same GPUs."""
        return (*self._machine_key(vm_type), vm_type.gpus, vm_type.network_gb_per_second)

    def columns(self, machines: Sequence[MachineTimes]) -> TimeColumns:
        """The times of many machines."""
        return in_columns(machines, self._index)

    def _times_alone(self, shape: MachineShape) -> MachineTimes | None:
        vm_type, nodes, gpus, batch_size = shape
        found = self.predict(vm_type, nodes=nodes, gpus=gpus, batch_size=batch_size)
        return None if found is None else MachineTimes(found.profile, found.basis, found.times, found.times.later)

    def _key(self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None) -> Key:
        """Equal for questions with the same answer. Inside one machine nothing goes over its network."""
        network = vm_type.network_gb_per_second if nodes > 1 else None
        return (*self._machine_key(vm_type), nodes, gpus, batch_size, network)

    def _machine_key(self, vm_type: VmType) -> Key:
        """Machine type, GPU and host. The type only counts if the program was measured on it, or if it has no GPU; the
        host only if the program waits for data."""
        known = self._machine_keys.get(id(vm_type))
        if known is not None:
            return known[1]
        gpu = vm_type.gpu
        key: Key = (vm_type.key, None, None)
        if gpu is not None:
            host = (vm_type.vcpus, vm_type.cpu.name if vm_type.cpu else None) if self._waits_for_data else None
            key = vm_type.key if self._index.on_machine(vm_type) else None, gpu.name, host
        self._machine_keys[id(vm_type)] = vm_type, key  # as long as it is here, no other has its id
        return key

    def _iteration(self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None) -> PredictedIteration | None:
        workers = nodes * gpus
        runs = [
            p
            for p in (self._index.on_machine(vm_type) if nodes == 1 else ())
            if (p.world_size == workers or vm_type.gpu is None)  # processes without GPUs share the machine
            and (batch_size is None or p.effective_batch_size == batch_size)
        ]
        if runs:
            return predict_from_runs(runs)
        if workers == 1:
            return self._on_single_gpu(vm_type, self._per_pass(batch_size))
        return self._on_several_gpus(vm_type, nodes, gpus, batch_size)

    def _per_pass(self, batch_size: int | None) -> int | None:
        """The number of accumulated passes stays as profiled: what changes is how many samples each has."""
        passes = self._index.leading.accumulation_steps
        return batch_size if batch_size is None or passes == 1 else max(1, round(batch_size / passes))

    def _on_single_gpu(
        self, vm_type: VmType, batch_size: int | None, *, processes: int = 1
    ) -> PredictedIteration | None:
        """One process, on one GPU or none; `batch_size` is that of one pass. So many processes share the host."""
        key = (*self._machine_key(vm_type), batch_size, processes if self._waits_for_data else 1)
        if key not in self._single:
            self._single[key] = self._single_iteration(vm_type, batch_size, processes)
        return self._single[key]

    def _single_iteration(self, vm_type: VmType, batch_size: int | None, processes: int) -> PredictedIteration | None:
        index, models, gpu = self._index, self._models, vm_type.gpu
        if batch_size is not None and any(p.world_size == 1 for p in index.on_machine(vm_type)):
            return predict_at_other_batch_size(index, models, vm_type, batch_size)
        if gpu is None:
            return predict_on_other_slice(index, vm_type, batch_size) or self._other_cpus.predict(vm_type, batch_size)
        found = self._computing(gpu, batch_size)
        if found is None or not self._waits_for_data:
            return None if found is None else found[0]
        computing, waiting = found
        known = waiting.profile.micro_batch_size
        return add_data_wait(
            computing,
            waiting,
            growth=batch_size / known if batch_size and known else 1.0,
            target=LoaderHost.of_type(vm_type, processes=processes),
        )

    def _computing(self, gpu: Gpu, batch_size: int | None) -> tuple[PredictedIteration, ProfiledWait] | None:
        """One iteration on a GPU without the wait for data, and the wait in the profile that it starts from."""
        key = (gpu.name, batch_size)
        if key not in self._on_gpu:
            self._on_gpu[key] = self._new_computing(gpu, batch_size)
        return self._on_gpu[key]

    def _new_computing(self, gpu: Gpu, batch_size: int | None) -> tuple[PredictedIteration, ProfiledWait] | None:
        index, models = self._index, self._models
        if models is None:
            return None
        measured = index.nearest_per_gpu(gpu, batch_size)
        if measured:
            found = predict_on_other_gpu(measured, models, gpu, batch_size)
            return found, ProfiledWait.of(measured[0].profile, measured[0].wait, index)
        computing = predict_from_operations(index, models, gpu, batch_size)
        if computing is None:
            return None
        profile = computing.profile
        return computing, ProfiledWait.of(profile, profile.median_data_wait_seconds, index)

    def _on_several_gpus(
        self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None
    ) -> PredictedIteration | None:
        found = self._cluster_of(vm_type, nodes, gpus, batch_size)
        if found is None:
            return None
        single, cluster, samples_per_gpu = found
        return predict_several_gpus(
            single, cluster, self._own_ring(vm_type), nodes=nodes, gpus=gpus, samples_per_gpu=samples_per_gpu
        )

    def _cluster_of(
        self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None
    ) -> tuple[PredictedIteration, ClusterPredictor, int] | None:
        """The iteration of one of several GPUs, their cluster, and the samples of each; None if there is only one GPU,
        or if the profiles say nothing about it."""
        index, models, gpu = self._index, self._models, vm_type.gpu
        workers = nodes * gpus
        size = self._per_pass(batch_size) or samples_per_pass(index.leading)
        if models is None or gpu is None or workers <= 1 or size is None or size < workers:
            return None
        samples_per_gpu = round(size / workers)
        there = index.on_machine(vm_type)
        runs = there and [p for p in there if p.world_size == 1 and p.micro_batch_size == samples_per_gpu]
        single = predict_from_runs(runs) if runs else self._on_single_gpu(vm_type, samples_per_gpu, processes=gpus)
        if single is None:
            return None
        network = vm_type.network_gb_per_second
        return single, models.cluster(gpu, network_gb_per_second=network, gpus=gpus, nodes=nodes), samples_per_gpu

    def _own_ring(self, vm_type: VmType) -> RingFit | None:
        profiles = self._index.on_machine(vm_type)
        if not profiles:
            return None
        if vm_type.key not in self._rings:
            self._rings[vm_type.key] = fit_own_ring(profiles, self._index.times)
        return self._rings[vm_type.key]

    def _times(self, iteration: PredictedIteration, vm_type: VmType) -> StepTimes:
        """The times of a whole training on the machine."""
        index, profile = self._index, iteration.profile
        on_machine = index.on_machine(vm_type)
        if iteration.basis == "measured":
            repeats = [p for p in on_machine if same_setting(p, profile)]
            return replace(measured_times(profile, *repeats[1:]), later=iteration.seconds)
        cores = index.slice_cores.get(vm_type.key)
        if cores and not on_machine and isinstance(iteration.evidence[0], MeasuredOnSlices):
            repeats = [p for p in index.profiles if same_setting(p, profile)]
            return predict_step_times(CpuSlice.of_cores(cores), slice_measurements(repeats, index.slice_cores))
        return times_on_other_host(
            index.times[profile.id],
            index.host_times[profile.id],
            iteration.seconds,
            validation_ratio=self._validation_ratio(iteration, vm_type),
        )

    def _validation_ratio(self, iteration: PredictedIteration, vm_type: VmType) -> float:
        """The time of the profiled iteration on one GPU of the machine, relative to its measured time."""
        profile = iteration.profile
        key = (*self._machine_key(vm_type), profile.id)
        known = self._validation_ratios.get(key)
        if known is not None:
            return known
        if any(p.world_size == 1 and same_setting(p, profile) for p in self._index.on_machine(vm_type)):
            return 1.0
        as_profiled = self._on_single_gpu(vm_type, profile.micro_batch_size)
        ratio = (as_profiled or iteration).seconds.value / self._index.times[profile.id].later.value
        if as_profiled is not None:
            self._validation_ratios[key] = ratio
        return ratio
