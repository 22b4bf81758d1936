"""The codes of all reasons and remarks that this package gives, and the constructor that checks them."""

from collections.abc import Mapping
from typing import Literal

from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.reason import Reason, Scalar, Topic, Value

Code = Literal[
    # why
    "no_single_machine_within_limits",
    "best_candidate",
    "train_here",
    "renting_compared_with_here",
    "last_bit_of_speed",
    "weights",
    "limited_by",
    "other_extreme",
    "runners_up",
    "chosen_is_knee",
    "knee",
    "chosen_is_baseline",
    "compared_with_baseline",
    "spot_would_be_better",
    "commitment_would_be_better",
    "held_machine_is_idle",
    "spot_deadline_risk",
    "no_time_for_spot",
    "fallback_to_on_demand",
    "late_even_on_demand",
    # certainty
    "basis_measured",
    "basis_scaled_from_same_machine",
    "basis_scaled_from_slice",
    "basis_scaled_from_cpu",
    "basis_scaled_from_gpu",
    "basis_extrapolated",
    "busy_profile",
    "data_wait_uncertain",
    "ranking_uncertain",
    # changes
    "rent_anyway",
    "rent_from_epochs",
    "here_up_to_epochs",
    "other_batch_size",
    "best_for_any_epochs",
    "fewer_epochs",
    "more_epochs",
    "epochs_within_deadline",
    "looser_deadline",
    "tighter_deadline",
    "looser_budget",
    "tighter_budget",
    "price_rise",
    # charges
    "long_start",
    "unused_time",
    "held_commitment",
    "commitment_share",
    "commitment_break_even",
    "spot_interruptions",
    "no_checkpoints",
    "own_checkpoints",
    "assumed_checkpoints",
    "spot_price_age",
    # assumptions
    "iterations_planned",
    "batch_larger_than_data_set",
    "epochs_assumed",
    "epochs_expected",
    "epochs_at_batch_size",
    "same_epochs_at_batch_sizes",
    "epochs_by_batch_size",
    "validation_not_measured",
    "memory_unknown",
    "several_gpus_assumed",
    "idle_gpus",
    "incompatible_offers",
    "gpus_unknown",
    "old_marketplace_offers",
    "refused_offers",
    "price_seen",
    "price_is_old",
    "here_is_free",
    # only remarks of an estimate
    "cheapest_with_gpu",
    "does_not_fit",
    "batch_shared_by_gpus",
    "same_epochs_as_profiled",
    "billing_assumed",
    "no_longer_rentable",
]
"""`views/reasons.py` has one sentence for each."""


def reason(topic: Topic, code: Code, arguments: Mapping[str, Scalar] | None = None, /, **values: Value) -> Reason:
    """A Reason with a code of this package. A value in capitals, as in `{"epochs": "N"}`, is a placeholder for one that
    the user chooses."""
    return Reason(topic=topic, code=code, values=values, arguments=arguments or {})


def describe(candidate: Candidate, *, with_batch_size: bool = False) -> dict[str, Scalar]:
    """The provider, machine, market and nodes of a candidate, and if it matters the batch size."""
    offer = candidate.offer
    described: dict[str, Scalar] = {
        "provider": offer.vm_type.provider,
        "machine": offer.vm_type.name,
        "market": offer.market,
        "held": offer.held,
        "nodes": candidate.nodes,
    }
    if with_batch_size and candidate.batch_size is not None:
        described["batch_size"] = candidate.batch_size
    return described


def limit_values(goal: Goal) -> dict[str, Scalar]:
    """The limits of a goal and their confidence."""
    return {
        "deadline_seconds": goal.deadline_seconds,
        "budget_usd": goal.budget_usd,
        "confidence": goal.confidence,
    }
