"""The profiles of one program, indexed once: by machine type, by GPU, by their operations."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trainfare.estimator.prediction.host import HostTimes, host_times
from trainfare.estimator.step.measured import StepTimes, measured_times
from trainfare.model.interval import Interval
from trainfare.model.machine import HERE, Cpu, Gpu, VmType
from trainfare.model.profile import Profile

MAX_WAIT_SHARE = 0.9
"""At most this share of a measured iteration counts as waiting for data: the GPU did something in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasurement:
    """The steady iteration that a profile measured on a known GPU, which the program had for itself."""

    profile: Profile
    gpu: Gpu
    seconds: Interval
    wait: float
    """Seconds of each iteration that wait for data."""

    @property
    def device_seconds(self) -> float:
        return self.seconds.value - self.wait


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileIndex:
    """The evidence that the profiles of one program offer; the leading profile comes first."""

    profiles: tuple[Profile, ...]
    times: Mapping[str, StepTimes]
    """By profile id, for every profile with steady iterations."""
    host_times: Mapping[str, HostTimes]
    """The host's part of them."""
    by_machine: Mapping[str, tuple[Profile, ...]]
    """By the key of the machine type; only profiles with steady iterations."""
    on_gpus: tuple[GpuMeasurement, ...]
    traced: tuple[Profile, ...]
    """The profiles that list the operations of an iteration."""
    slice_cores: Mapping[str, float]
    """The number of cores of each slice of the machine at hand, by the key of its machine type."""
    cpus: Mapping[str, Cpu] = field(default_factory=dict)
    """The facts of the CPUs of the hosts, by the names in the profiles."""

    @classmethod
    def build(
        cls,
        profiles: Sequence[Profile],
        *,
        gpus: Mapping[str, Gpu],
        slice_cores: Mapping[str, float],
        taken_here: Collection[str] = (),
        cpus: Mapping[str, Cpu] | None = None,
    ) -> "ProfileIndex":
        """`gpus` and `cpus` have the facts of the GPUs and CPUs that the profiles were taken on, by the names in the
        profiles; `taken_here` are the ids of the profiles that were taken on the machine at hand."""
        steady = [profile for profile in profiles if profile.steady_iteration_seconds]
        times = {profile.id: measured_times(profile) for profile in steady}
        by_machine: dict[str, tuple[Profile, ...]] = {}
        for profile in steady:
            if (machine := profile.host.vm_type) is not None:
                by_machine[machine] = (*by_machine.get(machine, ()), profile)
        if here := tuple(profile for profile in steady if profile.id in taken_here):
            by_machine[HERE] = here
        return cls(
            profiles=tuple(profiles),
            times=times,
            host_times={name: host_times(measured) for name, measured in times.items()},
            by_machine=by_machine,
            on_gpus=tuple(
                GpuMeasurement(
                    profile=profile,
                    gpu=gpu,
                    seconds=times[profile.id].later,
                    wait=min(profile.median_data_wait_seconds, MAX_WAIT_SHARE * times[profile.id].later.value),
                )
                for profile in steady
                if profile.device == "cuda"
                and profile.world_size == 1
                and (gpu := gpus.get(profile.host.gpu or "")) is not None
            ),
            traced=tuple(profile for profile in profiles if profile.operations),
            slice_cores=slice_cores,
            cpus=cpus or {},
        )

    @property
    def leading(self) -> Profile:
        return self.profiles[0]

    def host_cpu(self, profile: Profile) -> Cpu | None:
        """The facts of the CPU of a profile; None if the catalog does not know its name."""
        return self.cpus.get(profile.host.cpu or "")

    @property
    def waits_for_data(self) -> bool:
        """True if any profile waited for data, or if its loader has workers that may become too slow."""
        return any(profile.median_data_wait_seconds or profile.loader_cpu_seconds for profile in self.profiles)

    def on_machine(self, vm_type: VmType) -> tuple[Profile, ...]:
        """The profiles taken on a machine type, of any number of processes."""
        return self.by_machine.get(vm_type.key, ()) if self.by_machine else ()

    def nearest_per_gpu(self, target: Gpu, batch_size: int | None) -> tuple[GpuMeasurement, ...]:
        """One measurement per GPU, that with the nearest batch size, the nearest first.

        If the target GPU itself was measured (in another machine), only that measurement.
        """
        nearest: dict[str, GpuMeasurement] = {}
        for one in sorted(self.on_gpus, key=lambda one: _log_distance(one.profile.micro_batch_size, batch_size)):
            nearest.setdefault(one.gpu.name, one)
        return (nearest[target.name],) if target.name in nearest else tuple(nearest.values())


def same_setting(one: Profile, other: Profile) -> bool:
    """Both profiles ran the same batch size per process on the same number of processes."""
    return one.micro_batch_size == other.micro_batch_size and one.world_size == other.world_size


def samples_per_pass(profile: Profile) -> int | None:
    """Samples that all processes together take through one forward pass."""
    return None if profile.micro_batch_size is None else profile.micro_batch_size * profile.world_size


def _log_distance(known: int | None, wanted: int | None) -> float:
    """|log(known/wanted)|; an unknown batch size is farther away than any other."""
    if wanted is None or known == wanted:
        return 0.0
    return math.inf if known is None else abs(math.log(known / wanted))
