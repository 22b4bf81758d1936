"""Budgets of users: each has their own, shown at `/me` and kept by runs that they start on the server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Server, make_server
from trainfare.app.serving.tokens import create_token

PRICE = 2.0


def headers(server: Server, user: str, key: str = "") -> dict[str, str]:
    secret = create_token(user, "member", settings=server.settings).secret
    return {"Authorization": f"Bearer {secret}", **({"Idempotency-Key": key} if key else {})}


def start(server: Server, user: str, key: str, **terms: Any) -> Any:
    body = {"profile": "p1", "on": "local/here", **terms}
    return server.client.post("/api/v1/runs", json=body, headers=headers(server, user, key))


@pytest.fixture
def priced(tmp_path: Path) -> Server:
    """A server whose own machine has a price."""
    server = make_server(tmp_path)
    Path(server.settings.machines).write_text(f"[here]\nusd_per_hour = {PRICE}\n")
    return server


@pytest.mark.parametrize("name", ["max_usd_per_user_day", "max_usd_per_user_month", "max_usd_per_user"])
def test_what_one_user_has_reserved_is_not_taken_from_another(priced: Server, name: str) -> None:
    cap: dict[str, Any] = {name: 3.0}
    priced.app.state.settings = replace(priced.settings, **cap)
    first = start(priced, "ann", "1", budget_usd=3.0)
    assert first.status_code == 201, first.text
    refused = start(priced, "ann", "2")
    assert refused.status_code == 409
    assert "The cap of a user" in refused.json()["detail"]
    assert start(priced, "bob", "1").status_code == 201

    budgets = {user: priced.client.get("/api/v1/me", headers=headers(priced, user)).json() for user in ("ann", "cyd")}
    period = {"max_usd_per_user_day": "day", "max_usd_per_user_month": "month", "max_usd_per_user": "total"}[name]
    ann, cyd = (budgets[user]["budgets"][period] for user in ("ann", "cyd"))
    assert ann["cap_usd"] == cyd["cap_usd"] == 3.0
    assert ann["spent_usd"] + ann["reserved_usd"] == pytest.approx(3.0)
    assert cyd["spent_usd"] + cyd["reserved_usd"] == 0


def test_costs_by_user_name_the_users_of_the_server(priced: Server) -> None:
    run = start(priced, "ann", "1").json()
    assert run["user"] == "ann"
    documents = priced.get("/history/runs").json()["items"]
    assert [each["user"] for each in documents] == ["ann"]
