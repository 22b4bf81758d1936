"""Who may do what on a server: roles, and tokens that people and programs show."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from trainfare.model.checks import require_aware, require_positive, require_text

Role = Literal["viewer", "member", "admin"]
"""A viewer reads, a member profiles and spends, an admin also gives tokens; each may do what those before it may."""
ROLES: tuple[Role, ...] = get_args(Role)

Purpose = Literal["api", "browser", "link"]
"""A token of a program, the session of a browser, or a link that is exchanged for a session once."""


def role_includes(role: Role, needed: Role) -> bool:
    """True if the role may do what the needed one may."""
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The right of a user to act in a role. Its secret is shown once and not stored."""

    id: str
    user: str
    role: Role
    purpose: Purpose
    secret_sha256: str
    made_at: datetime
    expires_at: datetime | None = None
    budget_usd: float | None = None
    """The most that the runs of this user may cost in a month; None is without limit."""

    def __post_init__(self) -> None:
        require_text(id=self.id, user=self.user, secret_sha256=self.secret_sha256)
        require_aware(made_at=self.made_at)
        require_positive(budget_usd=self.budget_usd)
        if self.expires_at is not None:
            require_aware(expires_at=self.expires_at)

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now
