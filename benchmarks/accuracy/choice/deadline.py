"""The cost of a choice of machine, with and without a deadline."""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from trainfare.model.interval import Interval

DEADLINE_RATIO = 1.5
"""The deadline over the time of the fastest machine."""
RULES = (
    f"on demand within {DEADLINE_RATIO}x the time of the fastest; a machine that misses the deadline is paid for, and "
    "the cheapest one that meets it as well"
)
IN_TIME = f"the lowest expected cost, given that some machine is in time, {RULES}"
CONFIDENCE = 0.9
RELIABLY = f"the cheapest that is in time with {CONFIDENCE:.0%} confidence, else the fastest, {RULES}"
Z_90 = 1.645
CERTAINLY_LATE = 1 - 1e-12
"""Probability above which no machine is in time, and the fastest is chosen."""

Machine = TypeVar("Machine", bound=Hashable)
Bill = Callable[
    [Mapping[Machine, float], Mapping[Machine, float], Mapping[Machine, float], Mapping[Machine, float]], float
]
"""The cost of a choice, from predicted seconds, upper ends of their intervals, true seconds and prices."""


def take_best(
    predicted: Mapping[Machine, float],
    _high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    """The cost of the machine with the lowest predicted cost, without a deadline."""
    chosen = min(predicted, key=lambda machine: predicted[machine] * price[machine])
    return truth[chosen] * price[chosen]


def take_in_time(
    predicted: Mapping[Machine, float],
    high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    """The cost of the machine with the lowest expected cost, given that the deadline can be met at all.

        bill(m) = cost of m + P(m late | some machine is in time) · cost of the most reliable machine

    If no machine is in time no choice is better than another, so such cases must not count: without the condition a
    cheap machine that is certainly late wins wherever the fastest is uncertain. With independent errors

        P(m late | some in time) = (late(m) − Π late) / (1 − Π late)
    """
    deadline = DEADLINE_RATIO * min(truth.values())

    def late(machine: Machine) -> float:
        """The probability of being late, for a log-normal time; without an interval the time is exact."""
        seconds = predicted[machine]
        if high.get(machine, seconds) <= seconds:
            return float(seconds > deadline)
        deviation = math.log(high[machine] / seconds) / Z_90
        return 0.5 * math.erfc(math.log(deadline / seconds) / deviation / math.sqrt(2))

    late_probabilities = {machine: late(machine) for machine in predicted}
    none = math.prod(late_probabilities.values())
    if none >= CERTAINLY_LATE:
        return _paid(min(predicted, key=lambda machine: predicted[machine]), truth, price, deadline)
    most_reliable = min(predicted, key=lambda machine: (late_probabilities[machine], predicted[machine]))
    second = predicted[most_reliable] * price[most_reliable]

    def bill(machine: Machine) -> float:
        return predicted[machine] * price[machine] + (late_probabilities[machine] - none) / (1 - none) * second

    return _paid(min(predicted, key=bill), truth, price, deadline)


def take_reliable(
    predicted: Mapping[Machine, float],
    high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    """The cost of the cheapest machine that is in time with 90% confidence; without one, of the fastest."""
    deadline = DEADLINE_RATIO * min(truth.values())

    def bound(machine: Machine) -> float:
        seconds = predicted[machine]
        interval = Interval(value=seconds, low=seconds, high=max(seconds, high.get(machine, seconds)))
        return interval.upper_bound(CONFIDENCE)

    reliable = [machine for machine in predicted if bound(machine) <= deadline]
    if reliable:
        chosen = min(reliable, key=lambda machine: predicted[machine] * price[machine])
    else:
        chosen = min(predicted, key=lambda machine: predicted[machine])
    return _paid(chosen, truth, price, deadline)


def _paid(chosen: Machine, truth: Mapping[Machine, float], price: Mapping[Machine, float], deadline: float) -> float:
    cost = truth[chosen] * price[chosen]
    if truth[chosen] <= deadline:
        return cost
    return cost + min(truth[machine] * price[machine] for machine in truth if truth[machine] <= deadline)
