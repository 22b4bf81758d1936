"""`trainfare.Client` against a real server on a loopback port."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

import trainfare
from tests.web.conftest import Server
from trainfare.errors import ExternalError, InfeasibleError, NotFoundError, UsageError
from trainfare.model.access import Role

pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def address(shared_server: Server) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(shared_server.app, log_level="error", lifespan="off")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not running.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        running.should_exit = True
        thread.join(10)


def client_of(address: str, server: Server, role: Role = "member") -> trainfare.Client:
    return trainfare.Client(address, server.secrets[role])


def test_a_client_recommends_and_starts_a_run_once(address: str, shared_server: Server) -> None:
    with client_of(address, shared_server) as client:
        assert client.me()["role"] == "member"
        assert [each["id"] for each in client.profiles()] == ["p1", "p2", "p3"]
        plan = client.recommend(["p1"], epochs=3, goal="fastest")
        assert client.plan(plan["plan"])["chosen"] == plan["chosen"]
        terms = {"profile": "p1", "on": "local/here"}
        assert client.offer(**terms)["usd_per_hour"] == 0
        run = client.start(**terms, key="once")
        assert client.start(**terms, key="once")["id"] == run["id"]
        assert [each["id"] for each in client.runs()] == [run["id"]]
        assert client.output(run["id"])["text"] == ""
        assert client.files(run["id"]) == []
        assert client.stop(run["id"])["stop_reason"] == "user"


def test_problems_are_raised_as_the_errors_that_they_were(address: str, shared_server: Server, tmp_path: Path) -> None:
    with client_of(address, shared_server) as client:
        with pytest.raises(UsageError) as usage:
            client.recommend(epochs=2, steps=3)
        assert usage.value.field == "steps"
        with pytest.raises(NotFoundError, match="r0"):
            client.run("r0")
        with pytest.raises(NotFoundError):
            client.download("r0", 0, tmp_path / "file")
        with pytest.raises(InfeasibleError) as infeasible:
            client.recommend(["p1"], epochs=2, deadline_seconds=0.001)
        assert infeasible.value.remedies
        with pytest.raises(UsageError, match="needs the role admin"):
            list(client.tokens())


def test_a_server_that_is_not_there_is_an_external_error(address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with trainfare.Client(f"http://127.0.0.1:{port}", "t") as client, pytest.raises(ExternalError, match="not answer"):
        client.submit()
    with pytest.raises(UsageError, match="URL"):
        trainfare.Client("localhost:8765", "t")
