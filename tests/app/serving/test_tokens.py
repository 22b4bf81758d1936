"""Tokens: a secret opens the server until it is revoked, expires or, for a link, is used."""

from dataclasses import replace
from pathlib import Path

import pytest

from trainfare.app.serving.tokens import authenticate, create_token, exchange_link, list_tokens, revoke_token
from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import Settings, read_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(read_settings(), store=str(tmp_path / "history.db"))


def test_the_store_has_no_secret(settings: Settings) -> None:
    made = create_token("ada", settings=settings)
    assert authenticate(made.secret, settings=settings) == made.token
    assert made.secret.encode() not in Path(settings.store).read_bytes()
    assert authenticate(made.secret + "x", settings=settings) is None


def test_a_revoked_token_is_refused(settings: Settings) -> None:
    made = create_token("ada", settings=settings)
    revoke_token(made.token.id, settings=settings)
    assert authenticate(made.secret, settings=settings) is None
    assert list_tokens(settings=settings) == ()
    with pytest.raises(NotFoundError):
        revoke_token(made.token.id, settings=settings)


def test_an_expired_token_is_refused(settings: Settings) -> None:
    made = create_token("ada", seconds=1e-6, settings=settings)
    assert authenticate(made.secret, settings=settings) is None


def test_a_link_opens_one_session(settings: Settings) -> None:
    link = create_token("ada", "admin", purpose="link", seconds=60, settings=settings)
    assert authenticate(link.secret, settings=settings) is None
    session = exchange_link(link.secret, settings=settings)
    assert session is not None
    assert (session.token.user, session.token.role, session.token.purpose) == ("ada", "admin", "browser")
    assert authenticate(session.secret, settings=settings) == session.token
    assert exchange_link(link.secret, settings=settings) is None


def test_a_token_of_a_program_is_no_link(settings: Settings) -> None:
    assert exchange_link(create_token("ada", settings=settings).secret, settings=settings) is None


@pytest.mark.parametrize("user", ["", "  ", "a\x1b[31m", "x" * 201])
def test_a_user_needs_a_name_that_can_be_printed(user: str, settings: Settings) -> None:
    with pytest.raises(UsageError):
        create_token(user, settings=settings)
