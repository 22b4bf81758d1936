"""kill -9 in the middle of appending: what was acknowledged is there, and the file is intact."""

import random
import sqlite3
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.makers import make_profile, make_run
from tests.store.writers import BATCH, running, write_until_killed
from trainfare.store.open import open_history

KILLS = 100
ROUNDS = 6
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


def stored_numbers(path: Path) -> tuple[list[int], list[int]]:
    """The numbers of all facts and observations, read without the nouns, which is quicker."""
    connection = sqlite3.connect(path)
    try:
        facts = connection.execute("SELECT number FROM facts ORDER BY number").fetchall()
        observations = connection.execute("SELECT number FROM observations ORDER BY number").fetchall()
        return [number for (number,) in facts], [number for (number,) in observations]
    finally:
        connection.close()


def rest(reports: Connection) -> list[tuple[str, int]]:
    """What a killed process had still reported."""
    found: list[tuple[str, int]] = []
    try:
        while reports.poll():
            found.append(reports.recv())
    except (EOFError, OSError):
        pass  # the last report was cut off, or all have been read
    return found


def test_what_was_acknowledged_survives_kill_9_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.runs.add(make_run(plan_id=None))
    chance = random.Random(16)  # the same kills each time, as far as the machine allows
    last = {"fact": -1, "observations": 0}
    for number in range(KILLS):
        with running(write_until_killed, str(path), number) as (process, reports):
            for _ in range(chance.randrange(6)):
                last |= [reports.recv()]
            time.sleep(chance.uniform(0, 0.005))
            process.kill()
            process.join()
            last |= rest(reports)
        assert_intact(path)
        facts, observations = stored_numbers(path)
        assert facts == list(range(len(facts)))
        assert len(facts) > last["fact"]
        assert observations == list(range(1, len(observations) + 1))
        assert len(observations) >= last["observations"]
        assert len(observations) % BATCH == 0
    assert len(facts) > KILLS
    with open_history(str(path)) as history:
        assert [fact.number for fact in history.facts.of("r93")] == facts
        assert [each.number for each in history.observations.of("r93")] == observations
        assert not history.damaged


def test_a_store_whose_creation_was_killed_can_be_used(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.db"
        run_and_kill(MAKE, str(path), lines=1)
        with open_history(str(path)) as history:
            history.profiles.add(make_profile())
        assert_intact(path)
