"""Training time from two epochs on the machine itself (Malta's first method).

    T = init + ep₁ + (N_ep − 1)·ep₂          (Malta 2021, equation 5.1; 4.1 is the same without init)

with init the initialisation, ep₁ the first epoch, ep₂ a later one, each with its validation, and N_ep the number of
epochs until the model is stable. That number depends on the batch size and not on the machine. So the program is
trained until it is stable on one machine, the cheapest, at every batch size, and for two epochs on every other; time
and cost of each machine at each batch size follow.

It finds the batch size too, which the method of `step/measured.py` takes as given. It costs one complete training per
batch size on the cheapest machine. Limits: an epoch is assumed to take the same time on the same machine every time;
the number of epochs is that of one run or the mean of some, and varies by a fifth from run to run under early stopping,
which the intervals do not include.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainfare.errors import Remedy, UsageError
from trainfare.estimator.step.repeats import ONE_TIME_NOISE, repeat_interval
from trainfare.model.interval import Interval
from trainfare.model.profile import Epoch, Profile
from trainfare.units import SECONDS_PER_HOUR, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimes:
    """The times of one machine at one batch size that equation 5.1 needs."""

    init: Interval
    first: Interval
    later: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A machine and a batch size, with the time and cost of training until the model is stable."""

    machine: str
    batch_size: int
    epochs: float
    """The mean over the runs that were trained until they were stable."""
    seconds: Interval
    usd: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCost:
    """The cost of finding the best configuration, on one machine: by complete runs, two epochs or two iterations."""

    machine: str
    exhaustive_usd: Interval
    epochs_usd: Interval
    iterations_usd: Interval


def training_seconds(times: EpochTimes, *, epochs: float) -> Interval:
    """Equation 5.1. A mean number of epochs need not be an integer."""
    if not epochs >= 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    return times.init + times.first + times.later * (epochs - 1)


def cost_usd(seconds: Iterable[Interval], *, usd_per_hour: float, runs: int = 1) -> Interval:
    """price × Σ time × runs, billed by the second and without boot, as in the document."""
    if not usd_per_hour >= 0 or runs < 1:
        raise ValueError(f"the price must not be negative and runs at least one, got ${usd_per_hour}/h and {runs}")
    return _sum(seconds) * (usd_per_hour / SECONDS_PER_HOUR * runs)


def epoch_times(profile: Profile, *repeats: Profile) -> EpochTimes:
    """The epoch times of one profile of at least two epochs, or of several repeats."""
    profiles = (profile, *repeats)
    runs = [_first_and_later(each) for each in profiles]
    later = repeat_interval([later for _, later in runs])
    first = median(first for first, _ in runs)
    # The extra time of the first epoch happens once a run; the rest of it varies like a later epoch.
    extra, rest = max(0.0, first - later.value), min(first, later.value)
    return EpochTimes(
        init=repeat_interval([[each.init_seconds or 0.0] for each in profiles], noise=ONE_TIME_NOISE),
        first=later * (rest / later.value) + repeat_interval([[extra]], noise=ONE_TIME_NOISE),
        later=later,
    )


def epochs_until_stable(profile: Profile) -> int:
    """The number of epochs that a run took until it was stable, including the patience of its early stopping.

    A run of very short epochs is stopped a few epochs late: then pass `configurations` the epochs by another rule, such
    as `stabilisation.patience_epoch`.
    """
    complete = timed_epochs(profile)
    if not complete:
        raise UsageError(
            f"Profile {profile.id} has no complete epoch, so it does not show when the model is stable. "
            "Profile the program again until it is stable.",
            remedies=[_remedy(profile, {"until_stable": True})],
        )
    return complete[-1].number


def epochs_by_batch_size(stable: Sequence[Profile]) -> dict[int, float]:
    """The mean number of epochs at each batch size, over repeated runs."""
    runs: dict[int, list[int]] = {}
    for profile in stable:
        runs.setdefault(_batch_size(profile), []).append(epochs_until_stable(profile))
    return {batch_size: sum(epochs) / len(epochs) for batch_size, epochs in sorted(runs.items())}


def configurations(
    stable: Sequence[Profile],
    short: Sequence[Profile],
    usd_per_hour: Mapping[str, float],
    *,
    epochs: Mapping[int, float] | None = None,
) -> tuple[Configuration, ...]:
    """Every machine at every batch size, the cheapest first.

    `stable` are profiles of one machine, trained until stable, one or several per batch size; `short` are those of two
    epochs on other machines. `usd_per_hour` is keyed by the machine's `provider/name`, or by the name of a host without
    a machine type. `epochs` by batch size replaces the epochs of the stable runs, for another rule of stability.
    """
    known = dict(epochs) if epochs is not None else epochs_by_batch_size(stable)
    found = []
    for (machine, batch_size), profiles in _by_configuration((*stable, *short)).items():
        if batch_size not in known:
            sizes = ", ".join(map(str, sorted(known))) or "no batch size"
            raise UsageError(
                f"The number of epochs at batch size {batch_size} is not known: the program was trained until stable "
                f"at {sizes}. Profile it until it is stable with batch size {batch_size} on the cheapest machine.",
                remedies=[_remedy(profiles[0], {"until_stable": True})],
            )
        seconds = training_seconds(epoch_times(*profiles), epochs=known[batch_size])
        found.append(
            Configuration(
                machine=machine,
                batch_size=batch_size,
                epochs=known[batch_size],
                seconds=seconds,
                usd=cost_usd([seconds], usd_per_hour=_price(machine, usd_per_hour)),
            )
        )
    return tuple(sorted(found, key=lambda c: (c.usd.value, c.seconds.value)))


def fastest(found: Sequence[Configuration]) -> Configuration:
    return min(found, key=lambda c: (c.seconds.value, c.usd.value))


def cheapest(found: Sequence[Configuration]) -> Configuration:
    return min(found, key=lambda c: (c.usd.value, c.seconds.value))


def method_costs(
    stable: Sequence[Profile], short: Sequence[Profile], usd_per_hour: Mapping[str, float]
) -> tuple[MethodCost, ...]:
    """The cost of each way to find the best configuration, by machine, without boot (tables 4.4, 4.5 and 5.14).

    Exhaustive is every run to its end, estimated where it was not run. Two epochs are the time of the short profiles,
    and the complete runs on the machine of the stable ones. Two iterations are initialisation, the first and the
    second iteration.
    """
    exhaustive: dict[str, list[Interval]] = {}
    by_epochs: dict[str, list[Interval]] = {}
    by_iterations: dict[str, list[Interval]] = {}
    known = epochs_by_batch_size(stable)
    complete = {id(profile) for profile in stable}
    for profile in (*stable, *short):
        machine, times = _machine(profile), epoch_times(profile)
        measured = _run_seconds(profile) if id(profile) in complete else None
        estimated = training_seconds(times, epochs=known.get(_batch_size(profile), epochs_until_stable(profile)))
        exhaustive.setdefault(machine, []).append(measured or estimated)
        by_epochs.setdefault(machine, []).append(measured or times.init + times.first + times.later)
        two = _sum(Interval.exactly(seconds) for seconds in profile.iteration_seconds[:2])
        by_iterations.setdefault(machine, []).append(times.init + two)

    def usd(seconds: Mapping[str, list[Interval]], machine: str) -> Interval:
        return cost_usd(seconds[machine], usd_per_hour=_price(machine, usd_per_hour))

    return tuple(
        MethodCost(
            machine=machine,
            exhaustive_usd=usd(exhaustive, machine),
            epochs_usd=usd(by_epochs, machine),
            iterations_usd=usd(by_iterations, machine),
        )
        for machine in exhaustive
    )


def _first_and_later(profile: Profile) -> tuple[float, list[float]]:
    complete = timed_epochs(profile)
    first = next((epoch.seconds for epoch in complete if epoch.number == 1), None)
    later = [epoch.seconds for epoch in complete if epoch.number > 1 and epoch.seconds is not None]
    if first is None or not later:
        raise UsageError(
            f"Profile {profile.id} has {plural(len(complete), 'complete epoch')}, and the first two are needed. "
            "Profile the program again for two epochs.",
            remedies=[_remedy(profile, {"epochs": 2})],
        )
    return first, later


def _run_seconds(profile: Profile) -> Interval:
    """The measured time of initialisation and every epoch, without an interval."""
    epochs = sum(epoch.seconds for epoch in timed_epochs(profile) if epoch.seconds is not None)
    return Interval.exactly((profile.init_seconds or 0.0) + epochs)


def timed_epochs(profile: Profile) -> list[Epoch]:
    """The epochs whose time was measured to their end."""
    return [epoch for epoch in profile.curve if epoch.seconds is not None]


def _by_configuration(profiles: Iterable[Profile]) -> dict[tuple[str, int], list[Profile]]:
    found: dict[tuple[str, int], list[Profile]] = {}
    for profile in profiles:
        found.setdefault((_machine(profile), _batch_size(profile)), []).append(profile)
    return found


def _machine(profile: Profile) -> str:
    return profile.host.vm_type or profile.host.name


def _batch_size(profile: Profile) -> int:
    size = profile.effective_batch_size
    if size is None:
        raise UsageError(
            f"Profile {profile.id} has no batch size, and epochs are compared by batch size. "
            "Profile the program again with an explicit batch size.",
            remedies=[_remedy(profile, {"batch_sizes": "64,128"})],
        )
    return size


def _price(machine: str, usd_per_hour: Mapping[str, float]) -> float:
    if machine not in usd_per_hour:
        raise UsageError(f"There is no price of {machine}; prices are known of {', '.join(sorted(usd_per_hour))}.")
    return usd_per_hour[machine]


def _remedy(profile: Profile, arguments: Mapping[str, object]) -> Remedy:
    """The advice to profile the program again with these arguments."""
    return Remedy(arguments, command="profile", program=profile.program.command_line)


def _sum(seconds: Iterable[Interval]) -> Interval:
    total = Interval.exactly(0.0)
    for each in seconds:
        total = total + each
    return total
