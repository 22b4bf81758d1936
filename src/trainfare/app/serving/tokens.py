"""Use case: tokens. A secret is shown once; the store has its digest."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trainfare.app.ids import new_id
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.access import ROLES, Purpose, Role, Token
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyStoredError
from trainfare.store.open import open_existing_history, open_history

LINK_SECONDS = 15 * 60.0
SESSION_SECONDS = 30 * 86_400.0
_PREFIX = "tf_"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token and its secret, which cannot be read again."""

    token: Token
    secret: str


def create_token(
    user: str,
    role: Role = "member",
    *,
    purpose: Purpose = "api",
    seconds: float | None = None,
    budget_usd: float | None = None,
    settings: Settings | None = None,
) -> NewToken:
    """Store a new token; it expires after `seconds`, or never."""
    if not user.strip() or not user.isprintable() or len(user) > 200:
        raise UsageError("A user needs a name of at most 200 characters that can be printed.", field="user")
    if role not in ROLES:
        raise NotFoundError("role", role, ROLES, field="role")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"The time must be positive, got {seconds:g}.", field="expires")
    if budget_usd is not None and not budget_usd > 0:
        raise UsageError(f"The budget must be positive, got {budget_usd:g}.", field="budget")
    now, secret = datetime.now(UTC), _PREFIX + secrets.token_urlsafe(32)
    token = Token(
        id=new_id("k"),
        user=user.strip(),
        role=role,
        purpose=purpose,
        secret_sha256=_digest(secret),
        made_at=now,
        expires_at=None if seconds is None else now + timedelta(seconds=seconds),
        budget_usd=budget_usd,
    )
    with open_history((settings or read_settings()).store) as history:
        history.tokens.add(token)
    return NewToken(token=token, secret=secret)


def list_tokens(*, settings: Settings | None = None) -> tuple[Token, ...]:
    """The tokens that are neither revoked nor expired, the newest first."""
    now = datetime.now(UTC)
    with open_existing_history((settings or read_settings()).store) as history:
        return tuple(token for token in history.tokens.all() if not token.has_expired(now))


def revoke_token(token_id: str, *, settings: Settings | None = None) -> None:
    """End a token, and with it the sessions of whoever has it. `NotFoundError` if there is none of this id."""
    with open_existing_history((settings or read_settings()).store) as history:
        history.tokens.remove(token_id)


def authenticate(secret: str, *, settings: Settings) -> Token | None:
    """The token of a secret that a program or a browser shows; None if it is not valid."""
    with open_history(settings.store) as history:
        token = history.tokens.find(_digest(secret))
    if token is None or token.purpose == "link" or token.has_expired(datetime.now(UTC)):
        return None
    return token


def exchange_link(secret: str, *, settings: Settings) -> NewToken | None:
    """The session that a link is good for, once; None if it was used before or is too old."""
    with open_history(settings.store) as history:
        link = history.tokens.find(_digest(secret))
        if link is None or link.purpose != "link" or link.has_expired(datetime.now(UTC)):
            return None
        try:
            history.tokens.remove(link.id)
        except (AlreadyStoredError, NotFoundError):  # another browser was faster
            return None
    return create_token(
        link.user,
        link.role,
        purpose="browser",
        seconds=SESSION_SECONDS,
        budget_usd=link.budget_usd,
        settings=settings,
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
