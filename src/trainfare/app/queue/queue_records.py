"""What the commands of the queue print with --json, for programs that read us."""

from typing import TYPE_CHECKING, Any

from trainfare.app.queue.schedule_records import finite, outcome_record
from trainfare.model.document import to_document
from trainfare.model.submission import Submission

if TYPE_CHECKING:
    from trainfare.app.queue.plan import PlannedJob, QueuePlan
    from trainfare.app.queue.submit import SubmissionResult


def submission_record(submission: Submission) -> dict[str, Any]:
    return to_document(submission)


def submitted_record(found: "SubmissionResult") -> dict[str, Any]:
    return {**submission_record(found.submission), "remarks": list(found.remarks)}


def queue_plan_record(plan: "QueuePlan") -> dict[str, Any]:
    """What to do now, what is expected of each job, and what all of it comes to; seconds end in `_s`."""
    delays = plan.table.delays
    return {
        "made_at": plan.made_at.isoformat(),
        "policy": plan.policy,
        "nodes": plan.nodes,
        "machines": _machines(plan),
        "now": [
            {
                "machine": node.type,
                "jobs": [{"job": name, "gpus": gpus} for name, gpus in node.jobs],
            }
            for node in plan.decision.nodes
        ],
        "jobs": [_job_record(planned) for planned in plan.jobs],
        "unplanned": [{"job": left.submission.id, "why": left.why} for left in plan.unplanned],
        "outcome": None if plan.outcome is None else outcome_record(plan.outcome),
        "lower_bound_usd": plan.bound_usd,
        "gap": plan.gap,
        "boot_s": delays.boot_seconds,
        "checkpoint_s": delays.checkpoint_seconds,
        "restart_s": delays.restart_seconds,
        "checkpoint_every_s": finite(delays.checkpoint_every_seconds),
        "remarks": list(plan.table.remarks),
    }


def _machines(plan: "QueuePlan") -> list[dict[str, Any]]:
    if plan.table.instance is None:
        return []
    return [
        {
            "machine": each.name,
            "gpu": offer.vm_type.gpu.name if offer.vm_type.gpu else None,
            "gpus": offer.vm_type.gpus,
            "region": offer.region,
            "market": offer.market,
            "usd_per_hour": each.usd_per_hour,
            "reclaims_per_hour": each.reclaims_per_hour,
            "most": each.max_nodes,
        }
        for each in plan.table.instance.types
        for offer in (plan.table.offers[each.name],)
    ]


def _job_record(planned: "PlannedJob") -> dict[str, Any]:
    submission, estimate = planned.training.submission, planned.estimate
    return {
        "job": submission.id,
        "program": submission.program,
        "profile": estimate.profile_id,
        "user": submission.user,
        "epochs": planned.training.length.epochs,
        "runs_now": planned.node is not None,
        "waits_because": planned.waits_because,
        "node": planned.node,
        "machine": planned.slot.type,
        "gpus": planned.slot.gpus,
        "begins_at": planned.begins_at.isoformat(),
        "ends_at": planned.ends_at.isoformat(),
        "deadline_at": None if submission.deadline_at is None else submission.deadline_at.isoformat(),
        "in_time": planned.in_time,
        "chance": planned.chance,
        "late_s": planned.late_seconds,
        "late_usd": planned.late_usd,
        "moves": planned.moves,
        "predicted_s": estimate.seconds.value,
        "predicted_low_s": estimate.seconds.low,
        "predicted_high_s": estimate.seconds.high,
        "basis": estimate.basis,
    }
