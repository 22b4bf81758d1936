"""The JSON records of plans, recommendations and single estimates."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.views.estimates import estimate_record
from trainfare.views.reasons import python_arguments, sentence
from trainfare.views.sentences import SpellArguments
from trainfare.views.split import split_record
from trainfare.views.summary import plan_summary


def recommendation_record(
    plan: Plan,
    profiles: Iterable[Profile],
    estimates: Iterable[Estimate],
    *,
    spell: SpellArguments = python_arguments,
) -> dict[str, Any]:
    """The plan, and the estimates that it was chosen from, best first. Only those in the plan have bills."""
    return {
        **plan_record(plan, spell),
        "profiles": [profile.id for profile in profiles],
        "estimates": [estimate_record(estimate) for estimate in estimates],
    }


def plan_record(plan: Plan, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    """The goal, the chosen estimate and the reasons; `estimates` are those that are stored with the plan."""
    return {
        "plan": plan.id,
        "made_at": plan.made_at.isoformat(),
        "goal": plan.goal.kind,
        "weight_time": plan.goal.weight_time,
        "deadline_seconds": plan.goal.deadline_seconds,
        "budget_usd": plan.goal.budget_usd,
        "value_of_time_usd_per_hour": plan.goal.value_of_time_usd_per_hour,
        "confidence": plan.goal.confidence,
        "target": None if plan.goal.target is None else asdict(plan.goal.target),
        "epochs": plan.chosen.epochs,
        "considered": plan.considered,
        "chosen": estimate_record(plan.chosen),
        "reasons": [sentence(reason, spell) for reason in plan.reasons],
        "reason_data": [reason_record(reason) for reason in plan.reasons],
        "summary": [{"topic": topic, "sentence": line} for topic, line in plan_summary(plan, spell)],
        "here": None if plan.here is None else estimate_record(plan.here),
        "chosen_is_here": plan.chosen == plan.here,
        "other_batch_size": None if plan.other_batch_size is None else estimate_record(plan.other_batch_size),
        "front": [estimate_record(estimate) for estimate in plan.front],
        "knee": None if plan.knee is None else estimate_record(plan.knee),
        "legs": None if plan.split is None else split_record(plan.split),
        "spot_risk": None if plan.spot_risk is None else asdict(plan.spot_risk),
        "estimates": [estimate_record(estimate) for estimate in (plan.chosen, *plan.runners_up)],
    }


def estimation_record(
    estimate: Estimate, remarks: Iterable[Reason], spell: SpellArguments = python_arguments
) -> dict[str, Any]:
    """The row of an estimate, and what should be known about it."""
    remarks = tuple(remarks)
    return {
        **estimate_record(estimate),
        "remarks": [sentence(remark, spell) for remark in remarks],
        "remark_data": [reason_record(remark) for remark in remarks],
    }


def reason_record(reason: Reason) -> dict[str, Any]:
    """The topic, the code, the numbers and names, and the arguments that would change it."""
    return {
        "topic": reason.topic,
        "code": reason.code,
        "values": dict(reason.values),
        "arguments": dict(reason.arguments),
    }
