"""What is paid by who chooses a machine, with and without a deadline."""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

LATEST = 1.5
"""The deadline, in times of the fastest machine."""
PAID = (
    f"on demand within {LATEST} × the time of the fastest; one that misses the deadline is paid for in vain, and the "
    "cheapest that meets it on top"
)
IN_TIME = f"the least expected bill, a machine in time taken to exist, {PAID}"
SURELY = f"the cheapest whose interval ends in time, else the fastest, {PAID}"
NINE_OF_TEN = 1.645
SURELY_NONE = 1 - 1e-12
"""No machine is in time, as far as numbers tell: the fastest misses by least."""

Machine = TypeVar("Machine", bound=Hashable)
Bill = Callable[
    [Mapping[Machine, float], Mapping[Machine, float], Mapping[Machine, float], Mapping[Machine, float]], float
]
"""From predicted seconds, the upper ends of their intervals, true seconds and prices."""


def take_best(
    predicted: Mapping[Machine, float],
    _high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    chosen = min(predicted, key=lambda machine: predicted[machine] * price[machine])
    return truth[chosen] * price[chosen]


def take_in_time(
    predicted: Mapping[Machine, float],
    high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    """The least that is to be expected, in those worlds where the deadline can be met at all.

        bill(m) = cost of m + P(m late | some machine is in time) · cost of the surest

    Where none is in time no choice is better than another, so such worlds must not count: without the condition a
    machine that is surely late, and cheap, wins wherever the fastest is in doubt. With times that err by themselves

        P(m late | some in time) = (late(m) − Π late) / (1 − Π late)
    """
    latest = LATEST * min(truth.values())

    def late(machine: Machine) -> float:
        """A time is log-normal, as wide as its interval; without one it is taken at its word."""
        seconds = predicted[machine]
        if high.get(machine, seconds) <= seconds:
            return float(seconds > latest)
        deviation = math.log(high[machine] / seconds) / NINE_OF_TEN
        return 0.5 * math.erfc(math.log(latest / seconds) / deviation / math.sqrt(2))

    chances = {machine: late(machine) for machine in predicted}
    none = math.prod(chances.values())
    if none >= SURELY_NONE:
        return _paid(min(predicted, key=lambda machine: predicted[machine]), truth, price, latest)
    surest = min(predicted, key=lambda machine: (chances[machine], predicted[machine]))
    second = predicted[surest] * price[surest]

    def bill(machine: Machine) -> float:
        return predicted[machine] * price[machine] + (chances[machine] - none) / (1 - none) * second

    return _paid(min(predicted, key=bill), truth, price, latest)


def take_surely(
    predicted: Mapping[Machine, float],
    high: Mapping[Machine, float],
    truth: Mapping[Machine, float],
    price: Mapping[Machine, float],
) -> float:
    """The cheapest whose interval ends in time; where none does, the fastest."""
    latest = LATEST * min(truth.values())
    sure = [machine for machine in predicted if high.get(machine, predicted[machine]) <= latest]
    if sure:
        chosen = min(sure, key=lambda machine: predicted[machine] * price[machine])
    else:
        chosen = min(predicted, key=lambda machine: predicted[machine])
    return _paid(chosen, truth, price, latest)


def _paid(chosen: Machine, truth: Mapping[Machine, float], price: Mapping[Machine, float], latest: float) -> float:
    cost = truth[chosen] * price[chosen]
    if truth[chosen] <= latest:
        return cost
    return cost + min(truth[machine] * price[machine] for machine in truth if truth[machine] <= latest)
