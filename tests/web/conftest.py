"""A server on a store with a profile, asked without a socket; and one token for each role."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.makers import NOON, make_profile, make_program
from trainfare.app.serving.tokens import create_token
from trainfare.model.access import ROLES, Role
from trainfare.model.machine import Host
from trainfare.profiler.host import this_host_name
from trainfare.settings import Settings
from trainfare.store.open import open_history
from trainfare.web.application import create_app


@dataclass(frozen=True)
class Server:
    """An application with its settings, and the secrets of its tokens by role."""

    app: FastAPI
    settings: Settings
    secrets: dict[Role, str]
    client: TestClient

    def headers(self, role: Role = "member") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[role]}"}

    def get(self, path: str, role: Role = "viewer", **options: Any) -> Any:
        return self._send("GET", path, role, options)

    def post(self, path: str, role: Role = "member", **options: Any) -> Any:
        return self._send("POST", path, role, options)

    def delete(self, path: str, role: Role = "member", **options: Any) -> Any:
        return self._send("DELETE", path, role, options)

    def _send(self, method: str, path: str, role: Role, options: dict[str, Any]) -> Any:
        headers = self.headers(role) | options.pop("headers", {})
        return self.client.request(method, f"/api/v1{path}", headers=headers, **options)


def make_settings(folder: Path, **changes: Any) -> Settings:
    places: dict[str, Any] = {
        name: str(folder / name) for name in ("prices", "calibrations", "logs", "runs", "skypilot")
    }
    return Settings(store=str(folder / "history.db"), machines=str(folder / "machines.toml"), **places, **changes)


def make_server(folder: Path) -> Server:
    """A server with three profiles of one program, p1 the newest, that does no work in the background."""
    program_folder = folder / "program"
    program_folder.mkdir()
    (program_folder / "train.py").write_text("print('trained')\n")
    settings = make_settings(folder)
    program, host = make_program(directory=str(program_folder)), Host(name=this_host_name())
    with open_history(settings.store) as history:
        for number in (1, 2, 3):
            earlier = NOON - timedelta(days=10 * number)
            history.profiles.add(
                make_profile(id=f"p{number}", program=program, host=host, epochs=2, measured_at=earlier)
            )
    secrets = {role: create_token(f"a-{role}", role, settings=settings).secret for role in ROLES}
    app = create_app(settings, background=False)
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    return Server(app=app, settings=settings, secrets=secrets, client=client)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = make_server(tmp_path)
    with found.client:
        yield found


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for the tests of a file that only read."""
    found = make_server(tmp_path_factory.mktemp("server"))
    with found.client:
        yield found
