"""`/tokens`: for admins: list, create, revoke."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from trainfare.app.serving.tokens import create_token, list_tokens, revoke_token
from trainfare.views.access import token_record
from trainfare.web.api.bodies import TokenBody
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import NewTokenRecord, TokenRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Admin

router = APIRouter(tags=["tokens"])


@router.get("/tokens", response_model=Page[TokenRecord])
def list_all(
    _visitor: Admin, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the tokens that are valid, the newest first."""
    tokens = list_tokens(settings=settings)
    return page_of(tokens, token_record, lambda each: each.id, limit=limit, cursor=cursor)


@router.post("/tokens", status_code=201, response_model=NewTokenRecord)
def create(_visitor: Admin, settings: ServerSettings, body: TokenBody) -> dict[str, Any]:
    """Create a token for a program of a user."""
    made = create_token(
        body.user, body.role, seconds=body.expires_seconds, budget_usd=body.budget_usd, settings=settings
    )
    return {**token_record(made.token), "secret": made.secret}


@router.delete("/tokens/{token_id}", status_code=204)
def revoke(_visitor: Admin, settings: ServerSettings, token_id: Annotated[str, Path(max_length=200)]) -> None:
    """Revoke a token."""
    revoke_token(token_id, settings=settings)
