"""Comparison of the machines that a program was measured on: Malta's two methods on the user's profiles.

By iterations (his second method), each machine is simulated for several numbers of epochs, and the winner may change
with them. By epochs (his first method), the number of epochs is known from a run at each batch size that was trained
until its metric was stable; this also finds the best batch size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trainfare.estimator.cost.cost_benefit import CostBenefit, StableRun, cost_benefit
from trainfare.estimator.cost.delta import TimeAndCost, delta
from trainfare.estimator.cost.relative import relative_to_best
from trainfare.estimator.epochs.two_epochs import (
    Configuration,
    MethodCost,
    configurations,
    method_costs,
    timed_epochs,
)
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.stability import Stability, stability_of
from trainfare.recommender.crossovers import WinningRange

MIN_SHORT_EPOCHS = 2
"""Timed epochs that a short profile needs for Malta's first method."""

LengthUnit = Literal["epochs", "steps", "tokens"]
"""The unit in which the length of a training is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMachine:
    """One machine at one batch size for one length of the training, relative to the best of all compared."""

    estimate: Estimate
    relative_seconds: Interval
    relative_usd: Interval
    delta: float | None
    """Sanghvi's Δ: speed-up divided by cost ratio, relative to the baseline; None if one of the two costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StableComparison:
    """Every machine at every batch size, trained until stable, and the cost of finding that out."""

    configurations: tuple[Configuration, ...]
    method_costs: tuple[MethodCost, ...]
    cost_benefit: tuple[CostBenefit, ...]
    """Up to the stabilisation point (Malta 2019), relative to the machine that was trained until stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The compared machines by both of Malta's methods."""

    profiles: tuple[Profile, ...]
    baseline: str
    """The machine with the lowest hourly price."""
    unit: LengthUnit = "epochs"
    """The unit of the lengths below."""
    by_iterations: dict[float, tuple[ComparedMachine, ...]]
    """By number of epochs, or of the unit; the machines are in the same order each time."""
    fastest: tuple[WinningRange, ...]
    """The fastest machine by length of the training."""
    cheapest: tuple[WinningRange, ...]
    """The cheapest machine by length of the training."""
    until_stable: StableComparison | None
    """The comparison of complete trainings; None if no profile was trained until it was stable."""
    remarks: tuple[Reason, ...]


def compare_estimates(estimates: Sequence[Estimate], baseline: str) -> tuple[ComparedMachine, ...]:
    """Each estimate relative to the best; `baseline` is the key of the machine type that Δ refers to."""
    seconds = relative_to_best({index: estimate.seconds for index, estimate in enumerate(estimates)})
    usd = relative_to_best({index: estimate.usd for index, estimate in enumerate(estimates)})
    base = min((e for e in estimates if e.candidate.offer.vm_type.key == baseline), key=lambda e: e.usd.value)
    return tuple(
        ComparedMachine(
            estimate=estimate,
            relative_seconds=seconds[index],
            relative_usd=usd[index],
            delta=_delta(estimate, base),
        )
        for index, estimate in enumerate(estimates)
    )


def _delta(estimate: Estimate, base: Estimate) -> float | None:
    if not estimate.usd.value or not base.usd.value:
        return None
    return delta(_time_and_cost(estimate), _time_and_cost(base))


def _time_and_cost(estimate: Estimate) -> TimeAndCost:
    return TimeAndCost(seconds=estimate.seconds.value, usd=estimate.usd.value)


def compare_until_stable(
    profiles: Sequence[Profile], usd_per_hour: Mapping[str, float], patience: int
) -> StableComparison | None:
    """Runs until stable give the number of epochs, two epochs on the other machines give their time.

    A run is stable if its metric has not improved for `patience` epochs. None if no run is.
    """
    points = {
        profile.id: stability
        for profile in profiles
        if (stability := stability_of(profile, patience)) is not None and stability.patience_exhausted
    }
    stable = [p for p in profiles if p.id in points]
    if not stable:
        return None
    sizes = {p.effective_batch_size for p in stable}
    short = [
        p
        for p in profiles
        if p not in stable and len(timed_epochs(p)) >= MIN_SHORT_EPOCHS and p.effective_batch_size in sizes
    ]
    return StableComparison(
        configurations=configurations(stable, short, usd_per_hour),
        method_costs=method_costs(stable, short, usd_per_hour),
        cost_benefit=_cost_benefit(stable, short, points, usd_per_hour),
    )


def _cost_benefit(
    stable: Sequence[Profile],
    short: Sequence[Profile],
    points: Mapping[str, Stability],
    usd_per_hour: Mapping[str, float],
) -> tuple[CostBenefit, ...]:
    """Empty if a batch size has no stabilisation point, if runs until stable were on several machines, or if one costs
    nothing."""
    first = {p.effective_batch_size or 0: points[p.id] for p in stable}
    epochs = {size: point.stable_from_epoch for size, point in first.items() if point.stable_from_epoch}
    machines = {p.host.vm_type for p in stable}
    free = any(not usd_per_hour[p.host.vm_type or ""] for p in (*stable, *short))
    if len(epochs) < len(first) or len(machines) != 1 or free:
        return ()
    runs = [
        StableRun(
            machine=each.machine,
            batch_size=each.batch_size,
            iterations=first[each.batch_size].stable_from_iteration or 0,
            seconds=each.seconds,
            usd_per_hour=usd_per_hour[each.machine],
        )
        for each in configurations(stable, short, usd_per_hour, epochs=epochs)
    ]
    return cost_benefit(runs, baseline=machines.pop() or "")
