"""What `--json` prints: a noun's document and what can be derived from it, for programs that read us."""

import shlex
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from trainfare.model.document import to_document
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, stability_of
from trainfare.recommender.choose import best_per_machine
from trainfare.views.estimates import estimate_record
from trainfare.views.reasons import sentence
from trainfare.views.split import split_record

if TYPE_CHECKING:
    from trainfare.app.profiling.series import Trial
    from trainfare.app.recommending.estimate import Estimation
    from trainfare.app.recommending.recommend import Recommendation


def profile_record(profile: Profile) -> dict[str, Any]:
    """The document of a Profile, which `trainfare profiles import` reads back, and what follows from it."""
    steady = profile.steady_iteration_seconds
    stability = stability_of(profile, PATIENCE)
    return {
        **to_document(profile),
        "name": profile.program.name,
        "command": profile.program.command_line,
        "batch_size": profile.micro_batch_size,
        "global_batch_size": profile.effective_batch_size,
        "effective_batch_size": profile.effective_batch_size,
        "first_iteration_seconds": profile.first_iteration_seconds,
        "median_iteration_seconds": median(steady) if steady else None,
        "stability": None if stability is None else asdict(stability),
    }


def trial_record(trial: "Trial") -> dict[str, Any]:
    """One of a series of measurements; without a profile where nothing could be kept."""
    return {
        "command": shlex.join(trial.command),
        "batch_size": trial.batch_size,
        "repeat": trial.repeat,
        "failure": trial.failure,
        "remark": trial.remark,
        "profile": None if trial.profile is None else profile_record(trial.profile),
    }


def recommendation_record(recommendation: "Recommendation", *, every: bool) -> dict[str, Any]:
    """The plan, its reasons, and what it was chosen from, best first: `every` estimate, or the best of each machine
    type and market. Bills have those of the plan."""
    estimates = recommendation.estimates
    return {
        **plan_record(recommendation.plan),
        "profiles": [profile.id for profile in recommendation.profiles],
        "estimates": [estimate_record(estimate) for estimate in (estimates if every else best_per_machine(estimates))],
    }


def estimation_record(found: "Estimation") -> dict[str, Any]:
    """The row of an estimate, and what should be known about it."""
    return {**estimate_record(found.estimate), "remarks": list(found.remarks)}


def plan_record(plan: Plan) -> dict[str, Any]:
    """What was chosen and why; `estimates` are those that were kept with it."""
    return {
        "plan": plan.id,
        "made_at": plan.made_at.isoformat(),
        "goal": plan.goal.kind,
        "weight_time": plan.goal.weight_time,
        "deadline_seconds": plan.goal.deadline_seconds,
        "budget_usd": plan.goal.budget_usd,
        "confidence": plan.goal.confidence,
        "target": None if plan.goal.target is None else asdict(plan.goal.target),
        "epochs": plan.chosen.epochs,
        "considered": plan.considered,
        "chosen": estimate_record(plan.chosen),
        "reasons": [sentence(reason) for reason in plan.reasons],
        "reason_data": [asdict(reason) for reason in plan.reasons],
        "front": [estimate_record(estimate) for estimate in plan.front],
        "knee": None if plan.knee is None else estimate_record(plan.knee),
        "legs": None if plan.split is None else split_record(plan.split),
        "spot_risk": None if plan.spot_risk is None else asdict(plan.spot_risk),
        "estimates": [estimate_record(estimate) for estimate in (plan.chosen, *plan.runners_up)],
    }
