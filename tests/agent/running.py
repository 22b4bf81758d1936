"""Runs the agent in a folder of its own, as a door does."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.clouds.contract import wait_until
from trainfare.agent import agent
from trainfare.clouds import driver
from trainfare.clouds.driver import AgentJob, CodeBundle
from trainfare.clouds.local_shell import LocalShell

Run = Callable[..., LocalShell]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a program of one file under an agent; whatever still runs is ended after the test."""
    shells: list[LocalShell] = []

    def run(source: str, *, machine: dict[str, str] | None = None, **job: Any) -> LocalShell:
        folder, project = tmp_path / f"machine {len(shells)}", tmp_path / f"project {len(shells)}"
        folder.mkdir()
        project.mkdir()
        (project / "train.py").write_text(source)
        shells.append(LocalShell(folder=folder, environment=machine or {}))
        fields: dict[str, Any] = {
            "key": "r1-1",
            "node": 0,
            "command": (sys.executable, "train.py"),
            "lease_ends_at": datetime.now(UTC) + timedelta(hours=1),
            "heartbeat_seconds": 0.2,
            "grace_seconds": 2.0,
            "probe": False,
        }
        driver.prepare(shells[-1], job=AgentJob(**fields | job), code=CodeBundle(folder=project, files=("train.py",)))
        driver.start(shells[-1], secrets={})
        return shells[-1]

    yield run
    for shell in shells:
        if shell.folder.exists():
            driver.end(shell)


def entries(shell: LocalShell, kind: str) -> list[dict[str, Any]]:
    return [dict(entry.values) for entry in driver.entries(shell, after=0) if entry.kind == kind]


def ended(shell: LocalShell) -> dict[str, Any]:
    """The last entry of the program, once its results are known."""
    wait_until(lambda: driver.results(shell), "the end of the program")
    return entries(shell, "program")[-1]


def program_pid(shell: LocalShell) -> int:
    return int(wait_until(lambda: entries(shell, "program"), "the start of the program")[0]["pid"])


def guard_pid(shell: LocalShell) -> int:
    return int(shell.read("agent.pid").split()[0])


def agent_pid(shell: LocalShell) -> int:
    """The agent proper: the parent of the program."""
    return int(agent.process_fields(program_pid(shell))[1])
