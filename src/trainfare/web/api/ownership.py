"""What belongs to a user is changed by that user, or by an admin."""

from trainfare.web.refusals import RequestRefusedError
from trainfare.web.visitors import Visitor


def require_own(visitor: Visitor, user: str | None, thing: str) -> None:
    """Refuse what belongs to another user. Without a known user, only an admin may change it."""
    if visitor.role == "admin" or visitor.user == user:
        return
    whose = "another user" if user is not None else "no user of this server"
    raise RequestRefusedError(403, f"{thing} belongs to {whose}, so only an admin may change it.")
