"""Who comes in: every route needs a token, and a browser must show that our own page sent what changes something."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from trainfare.app.serving.tokens import create_token
from trainfare.settings import Settings, read_settings
from trainfare.web import pages
from trainfare.web.application import create_app
from trainfare.web.visitors import COOKIE, csrf_token


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    store, runs, logs = (str(tmp_path / name) for name in ("history.db", "runs", "logs"))
    return replace(read_settings(), store=store, runs=runs, logs=logs)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    return create_app(settings, background=False)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://localhost:8765", follow_redirects=False) as client:
        yield client


@pytest.fixture
def session(settings: Settings) -> str:
    return create_token("ada", "admin", purpose="browser", settings=settings).secret


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Every method and path, with a name for each parameter."""
    documented = [(method.upper(), path) for path, item in app.openapi()["paths"].items() for method in item]
    shown = [
        (method, route.path)
        for module in pages.MODULES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    ]
    return [(method, path.replace("{", "").replace("}", "")) for method, path in (*documented, *shown)]


def test_there_are_routes(app: FastAPI) -> None:
    assert len(routes(app)) > 20


def test_every_route_without_a_token_is_refused(app: FastAPI, client: TestClient) -> None:
    answers = {(method, path): client.request(method, path).status_code for method, path in routes(app)}
    assert {key for key, status in answers.items() if status != 401} == set()


def test_a_wrong_token_is_refused(client: TestClient) -> None:
    assert client.get("/api/v1/runs", headers={"Authorization": "Bearer tf_wrong"}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", ""])
def test_another_host_is_refused(host: str, client: TestClient, session: str) -> None:
    answer = client.get("/api/v1/runs", headers={"Host": host, "Authorization": f"Bearer {session}"})
    assert answer.status_code == 421


def test_a_browser_that_comes_from_another_site_is_refused_on_every_route_that_changes_something(
    app: FastAPI, client: TestClient, session: str
) -> None:
    attacks = {
        "another origin": {"Origin": "https://evil.example", "X-CSRF-Token": csrf_token(session)},
        "no origin": {"X-CSRF-Token": csrf_token(session)},
        "no token": {"Origin": "http://localhost:8765"},
        "wrong token": {"Origin": "http://localhost:8765", "X-CSRF-Token": "0" * 64},
    }
    changing = [(method, path) for method, path in routes(app) if method not in ("GET", "OPTIONS")]
    assert changing
    cookie = {"Cookie": f"{COOKIE}={session}"}
    let_in = [
        (name, method, path)
        for name, headers in attacks.items()
        for method, path in changing
        if client.request(method, path, headers=headers | cookie).status_code not in (403, 405)
    ]
    assert let_in == []


def test_a_link_signs_one_browser_in(client: TestClient, settings: Settings) -> None:
    link = create_token("ada", "admin", purpose="link", seconds=60, settings=settings)
    first = client.get("/login", params={"token": link.secret})
    assert first.status_code == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert link.secret not in first.headers["set-cookie"]
    client.cookies.clear()
    assert client.get("/login", params={"token": link.secret}).status_code == 401


def test_a_page_says_how_to_sign_in(client: TestClient) -> None:
    answer = client.get("/runs", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert "trainfare serve" in answer.text


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: TestClient, session: str) -> None:
    answer = client.post(
        "/api/v1/runs", headers={"Authorization": f"Bearer {session}", "Content-Length": str(10**9)}, content=b""
    )
    assert answer.status_code == 413


def test_every_answer_forbids_scripts_of_others(client: TestClient) -> None:
    headers = client.get("/healthz").headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_metrics_are_for_admins(client: TestClient, settings: Settings, session: str) -> None:
    member = create_token("bob", "member", settings=settings).secret
    assert client.get("/metrics", headers={"Authorization": f"Bearer {member}"}).status_code == 403
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {session}"})
    assert "trainfare_requests_total" in answer.text
