"""A PostgreSQL schema for each test that needs one, and a new history in each kind of store."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainfare.store.history import History
from trainfare.store.open import open_history

POSTGRES_VARIABLE = "TRAINFARE_TEST_POSTGRES"


@pytest.fixture(scope="session")
def postgres_server() -> str:
    url = os.environ.get(POSTGRES_VARIABLE)
    if not url:
        pytest.skip(f"PostgreSQL is NOT tested: {POSTGRES_VARIABLE} names no database; run scripts/test")
    return url


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The URL of an empty schema, dropped afterwards."""
    import psycopg

    schema = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    yield f"{postgres_server}?options=-csearch_path%3D{schema}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of a new history."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres")
        return url
    return "memory:" if request.param == "memory" else str(tmp_path / "history.db")


@pytest.fixture
def history(location: str) -> Iterator[History]:
    with open_history(location) as history:
        yield history
