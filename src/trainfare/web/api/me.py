"""`GET /me`: who asks, in which role."""

from typing import Any

from fastapi import APIRouter

from trainfare import __version__
from trainfare.app.running.costs import BudgetLine, user_budget
from trainfare.web.api.ownership import within_budget
from trainfare.web.api.records import VisitorRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["tokens"])


@router.get("/me", response_model=VisitorRecord)
def show_me(visitor: Viewer, settings: ServerSettings) -> dict[str, Any]:
    """Show whose token this is, what it may do, and what it may spend."""
    budget = user_budget(visitor.user, settings=within_budget(settings, visitor))
    return {
        "user": visitor.user,
        "role": visitor.role,
        "budget_usd": visitor.budget_usd,
        "budgets": {
            "day": _line(budget.day),
            "month": _line(budget.month),
            "total": _line(budget.total),
        },
        "version": __version__,
    }


def _line(line: BudgetLine) -> dict[str, float | None]:
    return {"cap_usd": line.cap_usd, "spent_usd": line.spent_usd, "reserved_usd": line.reserved_usd}
