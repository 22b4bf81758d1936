"""What belongs to a user is changed by that user, or by an admin."""

from dataclasses import replace

from trainfare.settings import Settings
from trainfare.web.refusals import RequestRefusedError
from trainfare.web.visitors import Visitor


def require_own(visitor: Visitor, user: str | None, thing: str) -> None:
    """Refuse what belongs to another user. Without a known user, only an admin may change it."""
    if visitor.role == "admin" or visitor.user == user:
        return
    whose = "another user" if user is not None else "no user of this server"
    raise RequestRefusedError(403, f"{thing} belongs to {whose}, so only an admin may change it.")


def within_budget(settings: Settings, visitor: Visitor) -> Settings:
    """The settings with the budget of the visitor as a cap on the costs of a month, if it is the lower one."""
    caps = [usd for usd in (settings.max_usd_per_user_month, visitor.budget_usd) if usd is not None]
    return replace(settings, max_usd_per_user_month=min(caps)) if caps else settings
