"""Stored plans: list them, show one."""

from trainfare.app.recommending.plans import list_plans as all
from trainfare.app.recommending.plans import show_plan as show

__all__ = [
    "all",
    "show",
]
