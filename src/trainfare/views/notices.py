"""Messages to people and programs: a run has ended, or a budget is nearly spent."""

from typing import Any

from trainfare.model.notice import Notice
from trainfare.runner.status import RunStatus
from trainfare.units import format_duration, format_usd
from trainfare.views.runs import receipt_record, state_sentence


def ended_notice(status: RunStatus) -> Notice:
    run, receipt = status.run, status.receipt
    outcome = status.life.outcome or "ended"
    paid, seconds = format_usd(receipt.total.paid_usd), format_duration(receipt.total.seconds)
    return Notice(
        id=f"{run.id}/ended",
        event="run.ended",
        subject=f"Run {run.id} of {run.program.name}: {outcome}",
        text=f"{run.program.command_line}\n{state_sentence(status)}\nIt took {seconds} and cost {paid}.\n"
        f"Receipt: trainfare receipt {run.id}\n",
        user=run.user,
        data={
            "run": run.id,
            "user": run.user,
            "outcome": outcome,
            "message": status.life.message,
            "paid_usd": receipt.total.paid_usd,
            "receipt": receipt_record(receipt),
        },
    )


def run_budget_notice(status: RunStatus, budget_usd: float) -> Notice:
    run, paid = status.run, status.receipt.total.paid_usd
    return Notice(
        id=f"{run.id}/budget",
        event="budget.near",
        subject=f"Run {run.id} has spent {paid / budget_usd:.0%} of its budget",
        text=f"{run.program.command_line}\n{format_usd(paid)} of {format_usd(budget_usd)} are spent. It is stopped "
        "when all of it is.\n",
        user=run.user,
        data={"run": run.id, "user": run.user, "paid_usd": paid, "budget_usd": budget_usd},
    )


def user_budget_notice(user: str, period: str, when: str, used_usd: float, cap_usd: float) -> Notice:
    data: dict[str, Any] = {"user": user, "period": period, "used_usd": used_usd, "budget_usd": cap_usd}
    of = {"day": f"of {when}", "month": f"of {when}", "total": "in all"}[period]
    return Notice(
        id=f"{user}/{period}/{when}",
        event="budget.near",
        subject=f"{user} has used {used_usd / cap_usd:.0%} of the budget {of}",
        text=f"{format_usd(used_usd)} of {format_usd(cap_usd)} are spent, or reserved by runs that have not ended.\n",
        user=user,
        data=data,
    )
