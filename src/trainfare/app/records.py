"""What `--json` prints: a noun's document and what can be derived from it, for programs that read us."""

import shlex
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from trainfare.model.document import to_document
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Plan
from trainfare.model.prediction import Prediction
from trainfare.model.profile import Profile
from trainfare.model.split import SplitPlan
from trainfare.profiler.stopping import PATIENCE, stability_of
from trainfare.recommender.choose import best_per_machine
from trainfare.views.reasons import sentence

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
        **_spread("iteration_seconds", prediction.iteration_seconds),
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


def split_record(legs: SplitPlan) -> dict[str, Any]:
    """The legs in order, what lies between them, and all of it together."""
    move, saving = legs.migration, legs.saving
    return {
        "legs": [
            {
                "first_epoch": leg.first_epoch,
                "last_epoch": leg.last_epoch,
                "delta": leg.delta,
                "progress": None if leg.progress is None else asdict(leg.progress),
                **estimate_record(leg.estimate),
            }
            for leg in legs.segments
        ],
        "move": {
            **_spread("seconds", move.seconds),
            **_spread("usd", move.usd),
            "parts": {name: {**_spread("seconds", p.seconds), "how": p.how} for name, p in move.parts.items()},
        },
        **_spread("seconds", legs.seconds),
        **_spread("usd", legs.usd),
        "instead_of": None if legs.single_machine is None else estimate_record(legs.single_machine),
        "saving": None
        if saving is None
        else {"quantity": saving.quantity, "share": saving.share, **_spread("amount", saving.amount)},
        "reached": None
        if legs.early_target is None
        else {**asdict(legs.early_target.target), **_spread("epochs", legs.early_target.epochs)},
    }


def estimate_record(estimate: Estimate) -> dict[str, Any]:
    """One flat row: who, where, how long, how much, how sure."""
    candidate, memory = estimate.candidate, estimate.memory
    offer, vm_type = candidate.offer, candidate.offer.vm_type
    return {
        "provider": vm_type.provider,
        "machine": vm_type.name,
        "region": offer.region,
        "market": offer.market,
        "nodes": candidate.nodes,
        "gpu": vm_type.gpu.name if vm_type.gpu else None,
        "gpus": candidate.gpus,
        "gpus_working": candidate.nodes * candidate.gpus_working,
        "batch_size": candidate.batch_size,
        "epochs": estimate.epochs,
        "epochs_low": estimate.epochs_interval.low if estimate.epochs_interval else estimate.epochs,
        "epochs_high": estimate.epochs_interval.high if estimate.epochs_interval else estimate.epochs,
        **_spread("seconds", estimate.seconds),
        **_spread("usd", estimate.usd),
        "confidence": estimate.seconds.confidence,
        "basis": estimate.basis,
        "profile": estimate.profile_id,
        "fits": estimate.fits,
        "memory_fit": memory.verdict if memory else None,
        "memory_needed_gib": memory.needed_gib.value if memory else None,
        "memory_available_gib": memory.available_gib if memory else None,
        **_spread("iteration_seconds", estimate.iteration_seconds),
        "limited_by": estimate.limited_by,
        "phases": {phase.name: phase.seconds.value for phase in estimate.phases},
        "bill": _bill(estimate),
        "interruptions": estimate.interruptions.value if estimate.interruptions else None,
        "checkpoint_every_seconds": estimate.checkpoint_every_seconds,
        "usd_per_hour": candidate.usd_per_hour,
        "price_seen_on": offer.seen_on.isoformat(),
        "price_source": offer.source,
        "commitment": asdict(offer.commitment) if offer.commitment else None,
    }


def _bill(estimate: Estimate) -> dict[str, Any] | None:
    """Line by line; None of plans of before there were bills."""
    bill = estimate.bill
    if bill is None:
        return None
    return {
        "billed_seconds": bill.billed_seconds,
        "increment_seconds": bill.billing.increment_seconds,
        "minimum_seconds": bill.billing.minimum_seconds,
        "lines": [{"name": line.name, **_spread("usd", line.usd), "how": line.how} for line in bill.lines],
    }


def _spread(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
