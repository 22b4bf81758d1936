"""`trainfare --server URL`: the commands of a user against a real server on a loopback port."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from tests.web.conftest import Server, make_server

pytestmark = pytest.mark.loopback


class Elsewhere:
    """The shell of a user on another machine."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        self.variables = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "d")}

    def __call__(self, *words: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "trainfare.cli.main", "--server", self.url, *words),
            cwd=self.home,
            check=False,
            env={"PATH": os.environ["PATH"], **self.variables, **variables},
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return make_server(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(uvicorn.Config(server.app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not running.started:
            time.sleep(0.01)
        yield Elsewhere(tmp_path_factory.mktemp("home"), f"http://127.0.0.1:{listener.getsockname()[1]}")
        running.should_exit = True
        thread.join(10)


def test_commands_answer_from_the_store_of_the_server(shell: Elsewhere, server: Server) -> None:
    without = shell("profiles", "list")
    assert without.returncode == 2
    assert "no token" in without.stderr
    saved = shell("token", "save", shell.url, given=server.secrets["member"] + "\n")
    assert saved.returncode == 0, saved.stderr
    file = shell.home / "config" / "trainfare" / "tokens.toml"
    assert file.stat().st_mode & 0o077 == 0

    listed = json.loads(shell("profiles", "list", "--json").stdout)
    assert [each["id"] for each in listed] == ["p1", "p2", "p3"]
    recommended = shell("recommend", "p1", "--epochs", "3", "--only", "provider=aws")
    assert recommended.returncode == 0, recommended.stderr
    [plan] = json.loads(shell("plans", "list", "--json").stdout)
    assert plan["plan"] in recommended.stdout
    submitted = shell("queue", "submit", "p1", "--epochs", "3", "--deadline", "6h", "--json")
    assert submitted.returncode == 0, submitted.stderr
    [waiting] = json.loads(shell("queue", "list", "--json").stdout)
    assert waiting["user"] == "a-member"

    file.chmod(0o644)
    assert "can be read by others" in shell("runs", "list").stderr
    file.chmod(0o600)


def test_runs_of_the_server_are_offered_listed_and_have_receipts(shell: Elsewhere, server: Server) -> None:
    token = {"TRAINFARE_TOKEN": server.secrets["member"]}
    shown = shell("run", "--profile", "p1", "--on", "local/here", "--dryrun", **token)
    assert shown.returncode == 0, shown.stderr
    assert "at no cost" in shown.stderr
    made = server.post("/runs", json={"profile": "p1", "on": "local/here"}, headers={"Idempotency-Key": "k"}).json()
    listed = shell("runs", "list", **token).stdout
    assert re.search(rf"{made['id']} .*planned", listed)
    assert shell("receipt", made["id"], **token).stdout.startswith(f"run {made['id']}")


@pytest.mark.parametrize("words", [("reap",), ("queue", "plan")])
def test_a_command_that_needs_the_machine_of_the_server_says_so(shell: Elsewhere, words: tuple[str, ...]) -> None:
    refused = shell(*words)
    assert refused.returncode == 2
    assert "does not work with a server" in refused.stderr


def test_options_that_a_server_does_not_take_are_refused_by_name(shell: Elsewhere, server: Server) -> None:
    token = {"TRAINFARE_TOKEN": server.secrets["member"]}
    refused = shell("run", "--profile", "p1", "--on", "local/here", "--setup", "make", **token)
    assert refused.returncode == 2
    assert "--setup" in refused.stderr
