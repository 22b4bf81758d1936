"""What `--json` prints: a noun's document and what can be derived from it, for programs that read us."""

import shlex
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from trainfare.model.document import to_document
from trainfare.model.plan import Plan
from trainfare.model.prediction import Prediction
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, stability_of
from trainfare.recommender.choose import best_per_machine
from trainfare.views.estimates import estimate_record, spread
from trainfare.views.reasons import sentence
from trainfare.views.split import split_record

if TYPE_CHECKING:
    from trainfare.app.profiling.series import Trial
    from trainfare.app.recommending.compare import Comparison
    from trainfare.app.recommending.estimate import Estimation
    from trainfare.app.recommending.predict import PredictionReport
    from trainfare.app.recommending.recommend import Recommendation
    from trainfare.recommender.crossovers import WinningRange


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


def comparison_record(found: "Comparison") -> dict[str, Any]:
    """Each machine at each number of epochs, who wins where, and, where it is known, the training until stable."""
    return {
        "profiles": [profile.id for profile in found.profiles],
        "baseline": found.baseline,
        "by_iterations": [
            {
                **estimate_record(standing.estimate),
                "relative_seconds": standing.relative_seconds.value,
                "relative_usd": standing.relative_usd.value,
                "delta": standing.delta,
            }
            for standings in found.by_iterations.values()
            for standing in standings
        ],
        "fastest": [winning_range_record(stretch) for stretch in found.fastest],
        "cheapest": [winning_range_record(stretch) for stretch in found.cheapest],
        "until_stable": None
        if found.until_stable is None
        else {
            "configurations": [asdict(each) for each in found.until_stable.configurations],
            "method_costs": [asdict(each) for each in found.until_stable.method_costs],
            "cost_benefit": [asdict(each) | {"pays": each.pays} for each in found.until_stable.cost_benefit],
        },
        "remarks": list(found.remarks),
    }


def winning_range_record(stretch: "WinningRange") -> dict[str, Any]:
    candidate = stretch.estimate.candidate
    return {
        "from_epochs": stretch.first,
        "to_epochs": stretch.last,
        "machine": candidate.offer.vm_type.key,
        "batch_size": candidate.batch_size,
    }


def prediction_report_record(found: "PredictionReport") -> dict[str, Any]:
    """The iteration that was asked for, and what lies around it."""
    return {
        **prediction_record(found.prediction),
        "remarks": list(found.remarks),
        "largest_batch": None if found.largest_batch is None else asdict(found.largest_batch),
        "saturation_batch": found.saturation_batch,
        "batches": [prediction_record(one) for one in found.batches],
        "strong_scaling": [prediction_record(one) for one in found.strong],
        "weak_scaling": [prediction_record(one) for one in found.weak],
        "served": [{"workers": one.workers, **asdict(one.seconds)} for one in found.served],
    }


def prediction_record(prediction: Prediction) -> dict[str, Any]:
    vm_type, memory, rate = prediction.vm_type, prediction.memory, prediction.samples_per_second
    return {
        "provider": vm_type.provider,
        "machine": vm_type.name,
        "gpu": vm_type.gpu.name if vm_type.gpu else None,
        "nodes": prediction.nodes,
        "gpus": prediction.gpus,
        "batch_size": prediction.batch_size,
        **spread("iteration_seconds", prediction.iteration_seconds),
        "confidence": prediction.iteration_seconds.confidence,
        "samples_per_second": rate.value if rate else None,
        "basis": prediction.basis,
        "limited_by": prediction.limited_by,
        "parts": [asdict(part) for part in prediction.parts],
        "leans_on": list(prediction.leans_on),
        "memory_fit": memory.verdict if memory else None,
        "memory_needed_gib": memory.needed_gib.value if memory else None,
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
