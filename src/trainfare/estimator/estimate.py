"""From profiles and a Candidate to an Estimate: the best basis there is, and the interval that goes with it.

measured      a profile of this program was taken on that machine type: Malta's equation 5.3
scaled        … on another GPU: its measured device time × the ratio of the two device times of the formula
extrapolated  … on no GPU at all: the formula of `operations.py` alone

Initialisation, data loading and what the first iteration takes beyond a later one are the host's. Off the
machine they were measured on they are carried over as they were, within a factor of two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfare.estimator.bill import usd
from trainfare.estimator.iterations import StepTimes, measured_times, training_phases
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.operations import (
    EXTRAPOLATED_FACTOR,
    SAME_GPU_FACTOR,
    SCALED_FACTOR,
    DeviceTime,
    device_time,
)
from trainfare.model.estimate import Basis, Estimate, Limit, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile

HOST_FACTOR = 2.0
"""How much faster or slower another host may be at the host's work; a guess until hosts are modelled."""

NO_TIME = Interval.exactly(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What one profile says about one machine, before it is multiplied by epochs and a price."""

    profile: Profile
    basis: Basis
    times: StepTimes
    limited_by: Limit | None = None


def estimate_all(
    profiles: Sequence[Profile],
    candidates: Sequence[Candidate],
    *,
    gpus: Callable[[str], Gpu | None],
    iterations_per_epoch: int,
    epochs: int,
) -> tuple[Estimate, ...]:
    """An Estimate for each Candidate about which the profiles say anything; the first profile leads.

    `gpus` finds the facts of the GPU that a profile was measured on by the name it gave.
    """
    beliefs: dict[tuple[str, str | None], Belief | None] = {}
    estimates: list[Estimate] = []
    for candidate in candidates:
        vm_type = candidate.offer.vm_type
        measured_on = vm_type.key if any(p.host.vm_type == vm_type.key for p in profiles) else ""
        key = (measured_on, vm_type.gpu.name if vm_type.gpu else None)
        if key not in beliefs:
            beliefs[key] = _belief(profiles, candidate, gpus)
        belief = beliefs[key]
        if belief is not None:
            estimates.append(_estimate(belief, candidate, iterations_per_epoch, epochs))
    return tuple(estimates)


def _belief(profiles: Sequence[Profile], candidate: Candidate, gpus: Callable[[str], Gpu | None]) -> Belief | None:
    vm_type = candidate.offer.vm_type
    for profile in profiles:
        if profile.host.vm_type == vm_type.key and profile.steady_iteration_seconds:
            return Belief(profile=profile, basis="measured", times=measured_times(profile))
    if vm_type.gpu is None:
        return None
    for profile in profiles:
        source = gpus(profile.host.gpu) if profile.device == "cuda" and profile.host.gpu else None
        if source is not None and profile.operations and profile.steady_iteration_seconds:
            return _scaled(profile, source, vm_type.gpu)
    leading = next((p for p in profiles if p.operations and p.steady_iteration_seconds), None)
    return _extrapolated(leading, vm_type.gpu) if leading else None


def _scaled(profile: Profile, source: Gpu, target: Gpu) -> Belief:
    """Device time moves by the ratio of the formula; the wait for data stays what it was."""
    there, here = device_time(profile.operations, target), device_time(profile.operations, source)
    measured = measured_times(profile).later
    wait = min(_data_wait(profile), 0.9 * measured.value)
    device = (measured.value - wait) * there.seconds / here.seconds
    factor = max(SAME_GPU_FACTOR if source.name == target.name else SCALED_FACTOR, measured.high / measured.value)
    return _elsewhere(profile, "scaled", Interval.within_factor(device, factor), wait, there)


def _extrapolated(profile: Profile, target: Gpu) -> Belief:
    there = device_time(profile.operations, target)
    device = Interval.within_factor(there.seconds, EXTRAPOLATED_FACTOR)
    return _elsewhere(profile, "extrapolated", device, _data_wait(profile), there)


def _elsewhere(profile: Profile, basis: Basis, device: Interval, data_wait: float, terms: DeviceTime) -> Belief:
    """The times on a machine other than the profile's."""
    measured = measured_times(profile)
    later = device + Interval.within_factor(data_wait, HOST_FACTOR)
    beyond = max(0.0, measured.first.value - measured.later.value)
    ratio = later.value / measured.later.value

    def moved(validation: Interval | None) -> Interval | None:
        """A validation is iterations without the backward pass: it moves as they do."""
        if validation is None:
            return None
        value = validation.value * ratio
        return Interval(value=value, low=value * later.low / later.value, high=value * later.high / later.value)

    return Belief(
        profile=profile,
        basis=basis,
        times=StepTimes(
            init=Interval.within_factor(measured.init.value, HOST_FACTOR),
            first=later + Interval.within_factor(beyond, HOST_FACTOR),
            later=later,
            first_validation=moved(measured.first_validation),
            later_validation=moved(measured.later_validation),
        ),
        limited_by="data" if data_wait > device.value else terms.limited_by,
    )


def _data_wait(profile: Profile) -> float:
    """The median wait of the iterations after the first."""
    waits = sorted(profile.data_wait_seconds[1:])
    return waits[len(waits) // 2] if waits else 0.0


def _estimate(belief: Belief, candidate: Candidate, iterations_per_epoch: int, epochs: int) -> Estimate:
    phases = training_phases(belief.times, iterations_per_epoch=iterations_per_epoch, epochs=epochs)
    seconds = _total(phases)
    return Estimate(
        candidate=candidate,
        profile_id=belief.profile.id,
        epochs=epochs,
        basis=belief.basis,
        iteration_seconds=belief.times.later,
        phases=phases,
        seconds=seconds,
        usd=usd(seconds, candidate),
        limited_by=belief.limited_by,
        memory=memory_fit(belief.profile, candidate.offer.vm_type),
    )


def _total(phases: Sequence[Phase]) -> Interval:
    return sum((phase.seconds for phase in phases), start=NO_TIME)
