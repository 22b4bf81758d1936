"""The stored queue and its plan as JSON records and sentences."""

from typing import Any

from trainfare.model.document import to_document
from trainfare.model.submission import Submission, SubmissionResult
from trainfare.scheduler.job_table import QueueRemark, UnplannedJob
from trainfare.scheduler.queue_plan import PlannedJob, QueuePlan
from trainfare.units import format_duration
from trainfare.views.reasons import python_arguments, sentence
from trainfare.views.schedule import finite, outcome_record
from trainfare.views.sentences import SpellArguments


def submission_record(submission: Submission) -> dict[str, Any]:
    return to_document(submission)


def submission_result_record(result: SubmissionResult, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    """The submission with its remarks as sentences."""
    return {**submission_record(result.submission), "remarks": [sentence(remark, spell) for remark in result.remarks]}


def remark_sentence(remark: QueueRemark, spell: SpellArguments = python_arguments) -> str:
    """The remark, after the names of the jobs that it applies to."""
    jobs = f"{', '.join(remark.jobs)}: " if remark.jobs else ""
    return f"{jobs}{sentence(remark.reason, spell)}"


def unplanned_sentence(unplanned: UnplannedJob, spell: SpellArguments = python_arguments) -> str:
    """The id of the submission, and why it cannot be planned."""
    return f"{unplanned.submission.id}: {sentence(unplanned.reason, spell)}"


def deadline_margin(planned: PlannedJob) -> str | None:
    """The time by which the deadline is met or missed: `2 h 10 min early`, `3 h late`; None without a deadline."""
    deadline = planned.submission.deadline_at
    if deadline is None:
        return None
    if planned.late_seconds:
        return f"{format_duration(planned.late_seconds)} late"
    return f"{format_duration(max(1.0, (deadline - planned.ends_at).total_seconds()))} early"


def queue_plan_record(plan: QueuePlan, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    """The decision for now, the projection of each job, and the total cost; keys of seconds end in `_s`."""
    delays = plan.table.delays
    return {
        "made_at": plan.made_at.isoformat(),
        "policy": plan.policy,
        "nodes": plan.nodes,
        "machines": _machine_records(plan),
        "now": [
            {
                "machine": node.type,
                "jobs": [{"job": name, "gpus": gpus} for name, gpus in node.jobs],
            }
            for node in plan.decision.nodes
        ],
        "jobs": [_job_record(planned, spell) for planned in plan.jobs],
        "unplanned": [{"job": each.submission.id, "why": sentence(each.reason, spell)} for each in plan.unplanned],
        "outcome": None if plan.outcome is None else outcome_record(plan.outcome),
        "lower_bound_usd": plan.bound_usd,
        "gap": plan.gap,
        "boot_s": delays.boot_seconds,
        "checkpoint_s": delays.checkpoint_seconds,
        "restart_s": delays.restart_seconds,
        "checkpoint_every_s": finite(delays.checkpoint_every_seconds),
        "remarks": [remark_sentence(remark, spell) for remark in plan.table.remarks],
    }


def _machine_records(plan: QueuePlan) -> list[dict[str, Any]]:
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


def _job_record(planned: PlannedJob, spell: SpellArguments) -> dict[str, Any]:
    submission, estimate, waits = planned.submission, planned.estimate, planned.waits_because
    return {
        "job": submission.id,
        "program": submission.program,
        "profile": estimate.profile_id,
        "user": submission.user,
        "epochs": planned.epochs,
        "runs_now": planned.node is not None,
        "waits_because": None if waits is None else sentence(waits, spell),
        "node": planned.node,
        "machine": planned.slot.type,
        "gpus": planned.slot.gpus,
        "begins_at": planned.begins_at.isoformat(),
        "ends_at": planned.ends_at.isoformat(),
        "deadline_at": None if submission.deadline_at is None else submission.deadline_at.isoformat(),
        "in_time": planned.in_time,
        "chance": planned.on_time_probability,
        "late_s": planned.late_seconds,
        "late_usd": planned.late_usd,
        "moves": planned.migrations,
        "predicted_s": estimate.seconds.value,
        "predicted_low_s": estimate.seconds.low,
        "predicted_high_s": estimate.seconds.high,
        "basis": estimate.basis,
    }
