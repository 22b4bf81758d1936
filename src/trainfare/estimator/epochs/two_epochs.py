"""Time from two epochs on the machine itself: Malta's first method.

    T = init + ep₁ + (N_ep − 1)·ep₂          (Malta 2021, equation 5.1; 4.1 is the same without init)

with init the initialisation, ep₁ the first epoch, ep₂ a later one, each with its validation, and N_ep the number of
epochs until the model is stable. That number depends on the batch size and not on the machine. So the program is
trained until it is stable on one machine, the cheapest, at every batch size, and for two epochs on every other; time
and cost of each machine at each batch size follow.

It finds the batch size too, which the method of `iterations.py` takes as given. It costs a whole training a batch
size, on the cheapest machine. Limits: an epoch takes the same time on the same machine every time; the number of
epochs is that of one run or the mean of some, and varies by a fifth from run to run under early stopping, which the
intervals do not hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainfare.errors import UsageError
from trainfare.estimator.step.repeats import ONE_TIME_NOISE, repeat_interval
from trainfare.model.interval import Interval
from trainfare.model.profile import Epoch, Profile
from trainfare.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimes:
    """What equation 5.1 needs of a machine at a batch size."""

    init: Interval
    first: Interval
    later: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A machine and a batch size: how long it trains until it is stable, and for how much."""

    machine: str
    batch_size: int
    epochs: float
    """The mean over the runs that were trained until they were stable."""
    seconds: Interval
    usd: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCost:
    """What it costs to find out, on one machine: to run everything, by two epochs, by two iterations."""

    machine: str
    exhaustive_usd: Interval
    epochs_usd: Interval
    iterations_usd: Interval


def training_seconds(times: EpochTimes, *, epochs: float) -> Interval:
    """Equation 5.1. A mean number of epochs need not be whole."""
    if not epochs >= 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}: no training takes no time")
    return times.init + times.first + times.later * (epochs - 1)


def spent_usd(seconds: Iterable[Interval], *, usd_per_hour: float, runs: int = 1) -> Interval:
    """price × Σ time × runs, by the second and without boot, as the document counts."""
    if not usd_per_hour > 0 or runs < 1:
        raise ValueError(f"a price must be positive and runs at least one, got {usd_per_hour} $/h and {runs}")
    return _sum(seconds) * (usd_per_hour / SECONDS_PER_HOUR * runs)


def saved_share(usd: Interval, *, of: Interval) -> float:
    """How much cheaper, as a share of the dearer way; negative where it is not cheaper."""
    if not of.value > 0:
        raise ValueError("nothing can be saved of nothing")
    return 1 - usd.value / of.value


def epoch_times(profile: Profile, *repeats: Profile) -> EpochTimes:
    """From profiles of two epochs or more (`trainfare profile --epochs 2`): one, or several of the same."""
    profiles = (profile, *repeats)
    runs = [_first_and_later(each) for each in profiles]
    later = repeat_interval([later for _, later in runs])
    first = median(first for first, _ in runs)
    # What the first epoch has more than a later one happens once a run; the rest of it repeats as they do.
    beyond, rest = max(0.0, first - later.value), min(first, later.value)
    return EpochTimes(
        init=repeat_interval([[each.init_seconds or 0.0] for each in profiles], noise=ONE_TIME_NOISE),
        first=later * (rest / later.value) + repeat_interval([[beyond]], noise=ONE_TIME_NOISE),
        later=later,
    )


def epochs_until_stable(profile: Profile) -> int:
    """How many epochs a run took until it was stable: Malta's number, with the patience of its early stopping.

    A run of very short epochs is stopped a few late: then give `configurations` the epochs by another rule, such as
    `stabilisation.patience_epoch`.
    """
    complete = complete_epochs(profile)
    if not complete:
        raise UsageError(
            f"profile {profile.id} has no complete epoch, so nobody knows when it is stable. "
            "Take another with: trainfare profile --until-stable"
        )
    return complete[-1].number


def epochs_by_batch_size(stable: Sequence[Profile]) -> dict[int, float]:
    """The mean number of epochs at each batch size, over repeat_interval runs."""
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
    """Every machine at every batch size, the cheapest first: `best` chooses by time or by cost.

    `stable` are profiles of one machine, trained until stable, one a batch size or several; `short` those of two
    epochs elsewhere. `usd_per_hour` is by the machine's `provider/name`, or by the name of a host that has none.
    `epochs` by batch size takes the place of what the stable runs took, for another rule of stability.
    """
    known = dict(epochs) if epochs is not None else epochs_by_batch_size(stable)
    found = []
    for (machine, batch_size), profiles in _by_configuration((*stable, *short)).items():
        if batch_size not in known:
            sizes = ", ".join(map(str, sorted(known))) or "no batch size"
            raise UsageError(
                f"nobody knows how many epochs batch size {batch_size} takes: it was trained until stable at {sizes}. "
                f"On the cheapest machine: trainfare profile --until-stable, with batch size {batch_size}"
            )
        seconds = training_seconds(epoch_times(*profiles), epochs=known[batch_size])
        found.append(
            Configuration(
                machine=machine,
                batch_size=batch_size,
                epochs=known[batch_size],
                seconds=seconds,
                usd=spent_usd([seconds], usd_per_hour=_price(machine, usd_per_hour)),
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
    """What each way to find the best would cost, machine by machine, without boot (tables 4.4, 4.5 and 5.14).

    Exhaustive is every run to its end, estimated where it was not run; two epochs are what the short profiles took,
    and the whole run on the machine of the stable ones; two iterations are initialisation, the first and the second.
    """
    exhaustive: dict[str, list[Interval]] = {}
    by_epochs: dict[str, list[Interval]] = {}
    by_iterations: dict[str, list[Interval]] = {}
    known = epochs_by_batch_size(stable)
    whole = {id(profile) for profile in stable}
    for profile in (*stable, *short):
        machine, times = _machine(profile), epoch_times(profile)
        to_the_end = _run_seconds(profile) if id(profile) in whole else None
        estimated = training_seconds(times, epochs=known.get(_batch_size(profile), epochs_until_stable(profile)))
        exhaustive.setdefault(machine, []).append(to_the_end or estimated)
        by_epochs.setdefault(machine, []).append(to_the_end or times.init + times.first + times.later)
        two = _sum(Interval.exactly(seconds) for seconds in profile.iteration_seconds[:2])
        by_iterations.setdefault(machine, []).append(times.init + two)

    def usd(spent: Mapping[str, list[Interval]], machine: str) -> Interval:
        return spent_usd(spent[machine], usd_per_hour=_price(machine, usd_per_hour))

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
    complete = complete_epochs(profile)
    first = next((epoch.seconds for epoch in complete if epoch.number == 1), None)
    later = [epoch.seconds for epoch in complete if epoch.number > 1 and epoch.seconds is not None]
    if first is None or not later:
        raise UsageError(
            f"profile {profile.id} has {len(complete)} complete epochs, and the first two are needed. "
            "Take another with: trainfare profile --epochs 2"
        )
    return first, later


def _run_seconds(profile: Profile) -> Interval:
    """Measured, so without an interval: initialisation and every epoch."""
    epochs = sum(epoch.seconds for epoch in complete_epochs(profile) if epoch.seconds is not None)
    return Interval.exactly((profile.init_seconds or 0.0) + epochs)


def complete_epochs(profile: Profile) -> list[Epoch]:
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
            f"profile {profile.id} does not know its batch size, and epochs are compared by batch size. "
            "Take another with: trainfare profile --batch-sizes"
        )
    return size


def _price(machine: str, usd_per_hour: Mapping[str, float]) -> float:
    if machine not in usd_per_hour:
        raise UsageError(f"there is no price of {machine}; those known are {', '.join(sorted(usd_per_hour))}.")
    return usd_per_hour[machine]


def _sum(seconds: Iterable[Interval]) -> Interval:
    total = Interval.exactly(0.0)
    for each in seconds:
        total = total + each
    return total
