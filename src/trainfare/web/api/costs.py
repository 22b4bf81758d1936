"""`/costs` and `/accuracy`: what runs have cost, and how good the predictions were."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from trainfare.app.learning.accuracy import accuracy
from trainfare.app.running.costs import costs
from trainfare.runner.charges import CostGroup
from trainfare.views.accuracy import accuracy_record
from trainfare.views.costs import caps_record, cost_row_record
from trainfare.web.api.records import AccuracyRecord, CostRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["history"])


@router.get("/costs", response_model=CostRecord)
def show_costs(
    _visitor: Viewer,
    settings: ServerSettings,
    by: CostGroup = "day",
    days: Annotated[int | None, Query(ge=1, le=36_500, description="The last days; by default all.")] = None,
) -> dict[str, Any]:
    """Show what runs have cost, by day, month, program, machine or user."""
    found = costs(by=by, days=days, settings=settings)
    return {
        "by": found.by,
        "since": None if found.since is None else found.since.isoformat(),
        "rows": [cost_row_record(row) for row in found.rows],
        "usd": found.usd,
        "reserved_usd": found.reserved_usd,
        "caps": caps_record(found.caps),
    }


@router.get("/accuracy", response_model=AccuracyRecord)
def show_accuracy(_visitor: Viewer, settings: ServerSettings) -> dict[str, Any]:
    """Compare predicted with observed and paid, over all runs that have ended."""
    return accuracy_record(accuracy(settings=settings))
