"""Machines against the best of them: relative performance, relative cost, speed-up (Malta 2021, sections 4.2 and 5.3).

The best has 1 and the others how many times as long, or as dear, they are. A range is as wide as both its parts
allow; its low end lies below 1 where a machine may in truth be the best.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from trainfare.model.interval import Interval

Machine = TypeVar("Machine", bound=Hashable)


def ratio(above: Interval, below: Interval) -> Interval:
    """a / b, as if both erred against each other."""
    if not below.low > 0:
        raise ValueError(f"nothing can be divided by a time that may be zero, got {below.low} to {below.high}")
    return Interval(
        value=above.value / below.value,
        low=above.low / below.high,
        high=above.high / below.low,
        confidence=min(above.confidence, below.confidence),
    )


def by_best(values: Mapping[Machine, Interval]) -> dict[Machine, Interval]:
    """Each value over the smallest; the smallest itself is 1 whatever it is."""
    if not values:
        raise ValueError("there is no best of nothing")
    best = min(values, key=lambda machine: values[machine].value)
    return {
        machine: Interval.exactly(1.0) if machine == best else ratio(value, values[best])
        for machine, value in values.items()
    }


def by_best_cost(times: Mapping[Machine, Interval], usd_per_hour: Mapping[Machine, float]) -> dict[Machine, Interval]:
    """Relative cost: time × price over the smallest. The times may be relative already: a common factor goes out."""
    if missing := [str(machine) for machine in times if machine not in usd_per_hour]:
        raise ValueError(f"no price of {', '.join(missing)}")
    return by_best({machine: time * usd_per_hour[machine] for machine, time in times.items()})


def speedup(baseline: Interval, seconds: Interval) -> Interval:
    """How many times faster than the baseline."""
    return ratio(baseline, seconds)
