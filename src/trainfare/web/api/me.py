"""`GET /me`: who asks, in which role."""

from typing import Any

from fastapi import APIRouter

from trainfare import __version__
from trainfare.web.api.records import VisitorRecord
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["tokens"])


@router.get("/me", response_model=VisitorRecord)
def show_me(visitor: Viewer) -> dict[str, Any]:
    """Show whose token this is, and what it may do."""
    return {
        "user": visitor.user,
        "role": visitor.role,
        "budget_usd": visitor.budget_usd,
        "version": __version__,
    }
