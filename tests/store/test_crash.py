"""kill -9 in the middle of appending: what was acknowledged is there, and the file is sound."""

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
        history.add_observation(make_observation(number=number, value=number / 3))
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


def killed_after(code: str, *arguments: str, lines: int) -> list[str]:
    """What a process had printed when it was killed, `lines` lines or a few more from its beginning."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout
    printed = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    printed += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line.strip() for line in printed if line.endswith("\n")]


def assert_sound(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.add_profile(make_profile())
        history.add_plan(make_plan())
        history.add_run(make_run())
    kept: set[int] = set()
    for number in range(ROUNDS):
        first = max(kept, default=-1) + 1
        acknowledged = {int(line) for line in killed_after(APPEND, str(path), str(first), lines=1 + 37 * number)}
        assert_sound(path)
        with open_history(str(path)) as history:
            found = {seen.number for seen in history.observations("r93")}
            assert not history.damaged
        assert kept | acknowledged <= found
        # At most one was written and not yet acknowledged.
        assert len(found - kept - acknowledged) <= 1
        kept = found


def test_a_store_whose_making_was_killed_can_be_used(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.db"
        killed_after(MAKE, str(path), lines=1)
        with open_history(str(path)) as history:
            history.add_profile(make_profile())
        assert_sound(path)
