"""kill -9 in the middle of appending: what was acknowledged is there, and the file is intact."""

import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.makers import make_plan, make_profile, make_run
from trainfare.store.open import open_history

ROUNDS = 6
APPEND = """
import sys
from tests.makers import make_observation
from trainfare.store.open import open_history
with open_history(sys.argv[1]) as history:
    for number in range(int(sys.argv[2]), 10**9):
        history.observations.add(make_observation(number=number, value=number / 3))
        print(number, flush=True)
"""
MAKE = """
import sys
import alembic.command, trainfare.store.sql
from trainfare.store.open import open_history
print("ready", flush=True)
open_history(sys.argv[1])
"""
ROOT = Path(__file__).parents[2]


def run_and_kill(code: str, *arguments: str, lines: int) -> list[str]:
    """The lines that a process had printed when it was killed: `lines` or a few more."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout
    printed = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    printed += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line.strip() for line in printed if line.endswith("\n")]


def assert_intact(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.profiles.add(make_profile())
        history.plans.add(make_plan())
        history.runs.add(make_run())
    stored: set[int] = set()
    for number in range(ROUNDS):
        first = max(stored, default=-1) + 1
        acknowledged = {int(line) for line in run_and_kill(APPEND, str(path), str(first), lines=1 + 37 * number)}
        assert_intact(path)
        with open_history(str(path)) as history:
            found = {observation.number for observation in history.observations.of("r93")}
            assert not history.damaged
        assert stored | acknowledged <= found
        # At most one was written and not yet acknowledged.
        assert len(found - stored - acknowledged) <= 1
        stored = found


def test_a_store_whose_creation_was_killed_can_be_used(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.db"
        run_and_kill(MAKE, str(path), lines=1)
        with open_history(str(path)) as history:
            history.profiles.add(make_profile())
        assert_intact(path)
