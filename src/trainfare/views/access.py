"""The JSON records of tokens, which never contain a secret, and of tasks."""

from typing import Any

from trainfare.model.access import Token


def token_record(token: Token) -> dict[str, Any]:
    """A token without its secret."""
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role,
        "purpose": token.purpose,
        "made_at": token.made_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "budget_usd": token.budget_usd,
    }
