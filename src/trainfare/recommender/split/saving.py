"""The saving of a split plan relative to the best single machine, and its uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.split import Quantity, Saving
from trainfare.recommender.split.search import LinearGoal, MachineCost, MigrationCost, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTerm:
    """One term of the quantity that the goal minimises; terms of one `error_group` err together."""

    error_group: object
    amount: Interval


def estimate_saving(
    single: CostTerm, parts: Sequence[CostTerm], quantity: Quantity, *, epoch_changes: Sequence[float] = ()
) -> Saving | None:
    """S = J(single machine) − Σ J(part), if it is larger than its uncertainty; else None.

    Terms of one error group (the same GPU predicted in the same way) err together, terms of different groups
    independently. For each group, the change of S is computed with all its terms at their low ends and with all at
    their high ends; the worse changes of all groups are squared and added up. `epoch_changes` are the changes of S for
    fewer and for more epochs; the worst of them counts as one more such error.
    """
    value = single.amount.value - sum(part.amount.value for part in parts)
    if value <= 0:
        return None
    groups: dict[object, list[tuple[int, Interval]]] = {}
    for sign, term in ((1, single), *((-1, part) for part in parts)):
        groups.setdefault(term.error_group, []).append((sign, term.amount))
    changes = [
        (
            sum(sign * (amount.low - amount.value) for sign, amount in group),
            sum(sign * (amount.high - amount.value) for sign, amount in group),
        )
        for group in groups.values()
    ]
    changes.append((min((0.0, *epoch_changes)), max((0.0, *epoch_changes))))
    down = math.hypot(*(min(0.0, *change) for change in changes))
    up = math.hypot(*(max(0.0, *change) for change in changes))
    if down >= value:
        return None
    return Saving(
        quantity=quantity,
        amount=Interval(value=value, low=value - down, high=value + up, confidence=single.amount.confidence),
        share=min(1.0, value / single.amount.value),
    )


def error_group(estimate: Estimate) -> tuple[object, ...]:
    """A key that is equal for estimates whose iterations take one and the same time."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    gpu = None if estimate.basis == "measured" else vm_type.gpu
    gpus = candidate.nodes * candidate.working_gpus_per_node
    return estimate.basis, estimate.profile_id, gpu.name if gpu else vm_type.key, gpus, candidate.batch_size


def saving_changes(
    machines: Sequence[MachineCost],
    single: int,
    split: Split,
    migration: MigrationCost,
    goal: LinearGoal,
    epochs: Interval,
) -> tuple[float, float]:
    """The change of S if the number of epochs is at its low end, and if it is at its high end.

    A training that ends before the split is never migrated.
    """
    first, second = machines[split.first], machines[split.second]

    def weighed(seconds: float, usd: float) -> float:
        return goal.per_usd * usd + (0.0 if goal.weighs_early_time else goal.per_second * seconds)

    def saving_at(n: float) -> float:
        alone = weighed(machines[single].seconds.at(n), machines[single].usd.at(n))
        k = split.after
        if n <= k:
            return alone - weighed(first.seconds.at(n), first.usd.at(n))
        until_second = weighed(first.seconds.at(k) + migration.seconds, first.usd.at(k) + migration.usd)
        return alone - until_second - weighed(second.seconds.at(n - k), second.usd.at(n - k))

    expected = saving_at(epochs.value)
    return saving_at(epochs.low) - expected, saving_at(epochs.high) - expected
