"""Whether to train on the machine at hand, `here`, or to rent another.

Here usually costs nothing, so it would always be the cheapest; but who asks where to train does not want to wait for
days.
The rules, in this order, for the time t of here and the candidates that are within the limits:

    only            nothing else is within the limits, or nothing else can be estimated
    soon            t ≤ 15 min: renting costs more attention than it saves
    no_sooner       here costs nothing and no rental ends at least a tenth sooner: t ≤ t_rental/0.9 for each
    in_time         here costs nothing, the goal is the cheapest, and the user states a deadline, which here meets
    best            here is better by the goal: fastest, weighted, with a value of time, or cheaper at the user's price

Otherwise a rental is chosen: for the cheapest goal the cheapest that ends sooner than here, since paying to wait longer
makes no sense. With a value of time the totals decide, and neither `soon` nor `no_sooner` applies.

Here may have been measured while other work kept it busy, and rented machines do nothing else. `soon`, `no_sooner` and
"ends sooner than here" therefore compare t·f, the time of here without that work (`estimator/cpu/busy.py`). Limits and
totals keep t: a deadline must be met with the machine as it is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_of, weight_of_time
from trainfare.recommender.options import Options, Rankable, T, as_options

HereRule = Literal["only", "soon", "no_sooner", "in_time", "best"]
"""Why here is the answer."""

Line = tuple[float, float]
"""The part before the first epoch, and the part that each epoch adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Time and cost of a candidate as straight lines in the number of epochs."""

    seconds: Line
    usd: Line

    @classmethod
    def through(cls, once: Rankable, twice: Rankable) -> "Lines":
        """The lines through the estimates of one epoch and of two, unrounded."""
        return cls(
            seconds=(2 * once.seconds.value - twice.seconds.value, twice.seconds.value - once.seconds.value),
            usd=(2 * once.usd.value - twice.usd.value, twice.usd.value - once.usd.value),
        )

    def without_other_work(self, idle_factor: float) -> "Lines":
        """The same machine without the other work that kept it busy."""
        fixed, each = self.seconds
        return Lines(seconds=(fixed * idle_factor, each * idle_factor), usd=self.usd)


SOON_SECONDS = 900.0
"""A training that ends within this time is not worth renting a machine for."""
SOONER = 0.9
"""A rental ends sooner than here if it takes at most this share of the time: less is within the error of both."""


def rule_for_here(
    here: Rankable,
    rentals: Sequence[Rankable],
    goal: Goal,
    ideal: IdealPoint,
    *,
    any_within_limits: bool,
    idle_factor: float = 1.0,
) -> HereRule | None:
    """The first rule by which here is the answer; None if a rental is.

    Here is within the limits of the goal. `rentals` are those that are worth renting, the best first, and
    `any_within_limits` says if there were others within the limits. `idle_factor` is the share of the time of here that
    remains without the other work of this machine.
    """
    if not rentals and not any_within_limits:
        return "only"
    if goal.value_of_time_usd_per_hour is None and here.seconds.value * idle_factor <= SOON_SECONDS:
        return "soon"
    if not rentals:
        return "no_sooner"
    if not here.usd.value and weight_of_time(goal) == 0:
        return None if goal.deadline_seconds is None else "in_time"
    return "best" if best_of((here, rentals[0]), goal, ideal=ideal) is here else None


def worth_renting(rentals: Iterable[T], here: Rankable | None, goal: Goal, *, idle_factor: float = 1.0) -> Options[T]:
    """The rentals that end sooner than here, if here costs nothing and only the cost counts; otherwise all."""
    given = as_options(rentals)
    if here is None or here.usd.value or weight_of_time(goal) != 0:
        return given
    return given.where(given.seconds <= SOONER * here.seconds.value * idle_factor)


def rent_from_epochs(here: Lines, rentals: Sequence[Lines], goal: Goal) -> tuple[int, int] | None:
    """The number of epochs from which a rental is chosen, and the index of that rental; None if none ever is.

    Time and cost are straight lines a + b·N. A rental is chosen once here takes longer than SOON_SECONDS and the rental
    takes at most the share s of it, with s = SOONER for the cheapest goal and 1 for the fastest:

        a_r + b_r·N ≤ s·(a + b·N)      from      N = (a_r − s·a)/(s·b − b_r),   if s·b > b_r
    """
    share = SOONER if goal.kind == "cheapest" else 1.0
    fixed, each = here.seconds
    soon = math.floor((SOON_SECONDS - fixed) / each) + 1
    first: dict[int, int] = {}
    for index, rental in enumerate(rentals):
        rental_fixed, rental_each = rental.seconds
        if rental_each < share * each:
            crossing = math.ceil((rental_fixed - share * fixed) / (share * each - rental_each))
            first[index] = max(1, soon, crossing)
    if not first:
        return None
    epochs = min(first.values())
    quantities = [rental.usd if goal.kind == "cheapest" else rental.seconds for rental in rentals]
    winner = min(
        (i for i, n in first.items() if n <= epochs), key=lambda i: quantities[i][0] + quantities[i][1] * epochs
    )
    return epochs, winner
