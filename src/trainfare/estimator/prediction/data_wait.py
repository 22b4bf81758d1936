"""The wait for data on another machine, from the wait in a profile.

A loader without workers prepares each batch in the program's own thread: the iteration waits for all of its work W, and
cores do not help. A loader with n workers prepares n batches at once, while the device computes; the iteration waits
only for what is missing when the device is done:

    wait = W·v                            without workers
    wait = max(0, W·v/min(n, c) − t)      with n workers on c cores, and t seconds of computing

v   time of one thread there, relative to the profiled host: the inverse ratio of the clocks, if both are known
W   without workers: the measured wait, less the share in which the program had no CPU (`cpu/busy.py`); with workers:
    their measured CPU time; if that is unknown and the iterations waited, iteration × workers that could run at once

Where a GPU computes, the loader has all cores of the machine. Where the CPU computes, it has to share them: half of
them are taken to be its own. It is the least certain part of an iteration: within HOST_FACTOR of W, and where the host
was busy, from the work alone up to the whole wait.
"""

from dataclasses import dataclass, replace

from trainfare.estimator.cpu.busy import on_idle_machine, queue_share
from trainfare.estimator.prediction.host import HOST_FACTOR, with_data_wait
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.prediction.profile_index import ProfileIndex
from trainfare.model.evidence import DataWait
from trainfare.model.interval import Interval
from trainfare.model.machine import Cpu, VmType
from trainfare.model.profile import Profile

THREADS_OF_A_CORE = 1.3
"""The work of two hardware threads of one core, relative to one."""
WAITING_SHARE = 0.1
"""An iteration waits for its workers if it does so for at least this share of its time."""
NAMED_SHARE = 0.05
"""A wait of at least this share of an iteration is named in the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderHost:
    """The cores and the clock that the workers of a loader have on a machine; None if unknown."""

    cores: float | None = None
    clock_ghz: float | None = None

    @classmethod
    def of_type(cls, vm_type: VmType, *, processes: int = 1) -> "LoaderHost":
        """The share of one process: all cores of a machine whose GPU computes, or half of them if they compute."""
        threads = vm_type.cpu.threads_per_core if vm_type.cpu else 2
        cores = None if vm_type.vcpus is None else vm_type.vcpus / threads * (THREADS_OF_A_CORE if threads > 1 else 1)
        if cores is not None and vm_type.gpu is None:
            cores /= 2
        if cores is not None:
            cores /= processes
        return cls(cores=cores, clock_ghz=vm_type.cpu.clock_ghz if vm_type.cpu else None)

    @classmethod
    def of_profile(cls, profile: Profile, cpu: Cpu | None) -> "LoaderHost":
        """The cores that computing leaves to the loader on the host of a profile."""
        host = profile.host
        cores: float | None = host.physical_cores or host.cores
        if cores is not None and profile.device == "cpu":
            cores = max(1.0, cores - (profile.cpu_use or 0.0))
        return cls(cores=cores, clock_ghz=cpu.clock_ghz if cpu else host.clock_ghz)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledWait:
    """The wait for data in the iterations of a profile, and what it says about its loader."""

    profile: Profile
    seconds: float
    clock_ghz: float | None
    queue_share: float
    """The share of the time in which the program had no CPU."""
    work: float | None
    """W of a loader with workers: the CPU time of one batch; None if it has none, or if it is unknown."""

    @classmethod
    def of(cls, profile: Profile, seconds: float, index: ProfileIndex) -> "ProfiledWait":
        host = LoaderHost.of_profile(profile, index.host_cpu(profile))
        return cls(
            profile=profile,
            seconds=seconds,
            clock_ghz=host.clock_ghz,
            queue_share=queue_share(profile),
            work=_loader_seconds(profile, seconds, host),
        )


def data_wait(known: ProfiledWait, *, device_seconds: float, growth: float, target: LoaderHost) -> Interval:
    """The wait for data in one iteration that computes for `device_seconds`; `growth` is the number of its samples
    relative to the profile."""
    profile = known.profile
    slower = known.clock_ghz / target.clock_ghz if known.clock_ghz and target.clock_ghz else 1.0
    scale = growth * slower
    if not profile.loader_workers or known.work is None:
        idle = on_idle_machine(Interval.exactly(known.seconds * scale), known.queue_share)
        return Interval(value=idle.value, low=idle.low / HOST_FACTOR, high=idle.high * HOST_FACTOR)
    there = min(profile.loader_workers, target.cores or profile.loader_workers)
    per_batch = known.work * scale / max(1.0, there)

    def missing(seconds: float) -> float:
        return max(0.0, seconds - device_seconds)

    return Interval(
        value=missing(per_batch), low=missing(per_batch / HOST_FACTOR), high=missing(per_batch * HOST_FACTOR)
    )


def _loader_seconds(profile: Profile, wait: float, source: LoaderHost) -> float | None:
    """W of a loader with workers: the CPU time of one batch. If it is unknown and the iteration waited for the loader,
    all of its workers were busy all the time, as far as there were cores for them. None if it did not wait."""
    if profile.loader_cpu_seconds is not None:
        return profile.loader_cpu_seconds
    steady = sorted(profile.steady_iteration_seconds)
    middle = steady[len(steady) // 2] if steady else 0.0
    if not profile.loader_workers or wait < WAITING_SHARE * middle:
        return None
    return middle * min(profile.loader_workers, max(1.0, source.cores or profile.loader_workers))


def add_data_wait(
    iteration: PredictedIteration, known: ProfiledWait, *, growth: float, target: LoaderHost
) -> PredictedIteration:
    """The iteration with the wait for data of `data_wait` added to its time, its parts and its evidence."""
    found = data_wait(known, device_seconds=iteration.seconds.value, growth=growth, target=target)
    waiting = with_data_wait(iteration, found)
    busy = known.queue_share if known.seconds else 0.0
    if found.value < NAMED_SHARE * waiting.seconds.value and not busy:
        return waiting
    evidence = DataWait(
        profile_id=known.profile.id,
        share=found.value / waiting.seconds.value,
        workers=known.profile.loader_workers,
        cores=target.cores,
        busy_share=busy,
    )
    return replace(waiting, evidence=(*waiting.evidence, evidence))
