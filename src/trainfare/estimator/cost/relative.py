"""Machines relative to the best of them: time, cost and speed-up (Malta 2021, sections 4.2 and 5.3).

The best machine has 1 and the others their multiple of its time or cost. An interval allows for the uncertainty of both
machines; its low end lies below 1 where a machine may in fact be the best.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.interval import Interval

MachineKey = TypeVar("MachineKey", bound=Hashable)


def ratio(above: Interval, below: Interval) -> Interval:
    """The quotient of two intervals, as if both erred in opposite directions."""
    if not below.low > 0:
        raise ValueError(f"the divisor must not include zero, got {below.low} to {below.high}")
    return Interval(
        value=above.value / below.value,
        low=above.low / below.high,
        high=above.high / below.low,
        confidence=min(above.confidence, below.confidence),
    )


def relative_to_best(values: Mapping[MachineKey, Interval]) -> dict[MachineKey, Interval]:
    """Each value over the smallest above zero; the smallest itself is exactly 1, and what is zero stays zero."""
    if not values:
        raise ValueError("at least one machine is needed")
    positive = [machine for machine, value in values.items() if value.value > 0]
    if not positive:
        return dict.fromkeys(values, Interval.exactly(1.0))
    best = min(positive, key=lambda machine: values[machine].value)
    return {
        machine: Interval.exactly(1.0) if machine == best else ratio(value, values[best])
        for machine, value in values.items()
    }


def relative_cost(
    times: Mapping[MachineKey, Interval], usd_per_hour: Mapping[MachineKey, float]
) -> dict[MachineKey, Interval]:
    """Time × price of each machine over the smallest. The times may be relative: a common factor cancels out."""
    if missing := [str(machine) for machine in times if machine not in usd_per_hour]:
        raise ValueError(f"no price of {', '.join(missing)}")
    return relative_to_best({machine: time * usd_per_hour[machine] for machine, time in times.items()})


def speedup(baseline: Interval, seconds: Interval) -> Interval:
    """The time of the baseline over the time of the machine."""
    return ratio(baseline, seconds)


def relative_saving(usd: float, instead_of: float) -> float:
    """The saving as a share of the other cost; negative where `usd` is more."""
    require_not_negative(usd=usd)
    require_positive(instead_of=instead_of)
    return 1 - usd / instead_of
