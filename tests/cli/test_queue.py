"""`trainfare schedule submit`, `queue`, `withdraw` and `plan` on profiles that are already kept."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.app.queue_makers import T4, T4X4, store, store_submission, t4_profile
from trainfare.cli.main import app
from trainfare.cli.queue import deadline_of, quota_of
from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schedule", *arguments], catch_exceptions=True)


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def words(result: Result) -> str:
    assert result.exit_code == 0, result.exception
    return " ".join(result.stdout.split())


def test_a_training_is_submitted_listed_planned_and_withdrawn() -> None:
    store(t4_profile())
    added = run("submit", "p7k2", "--epochs", "90", "--deadline", "6h", "--user", "ada", "--late-usd-per-hour", "20")
    name = added.stdout.split()[0]
    assert words(added).startswith(f"{name} train.py, 90 epochs, by ")
    assert "next: trainfare schedule plan" in added.stderr
    listed = words(run("queue"))
    assert f"{name} train.py p7k2 ada 90 just now" in listed
    assert "$20.00" in listed
    planned = words(run("plan", "--machine", T4, "--policy", "fifo"))
    assert planned.startswith("Run now 1 of 1 job on 1 node at 0.53 $ an hour; ")
    assert f"{name} train.py ada node 1 {T4} 1 " in planned
    assert "no schedule of these jobs on these machines costs less than" in planned
    assert "a node boots 90.0 s" in planned
    gone = run("withdraw", name)
    assert gone.stderr == f"withdrawn {name}\n"
    assert run("queue").stdout == ""


def test_json_tells_the_same() -> None:
    store(t4_profile())
    added = run_json("submit", "p7k2", "--epochs", "90", "--deadline", "6h", "--gpus", "2", "--user", "ada")
    assert (added["kind"], added["program"], added["most_gpus"], added["user"]) == ("submission", "train.py", 2, "ada")
    (listed,) = run_json("queue")
    assert listed == {field: value for field, value in added.items() if field != "remarks"}
    plan = run_json("plan", "--machine", T4X4, "--nodes", "1", "--policy", "greedy", "--boot", "7min")
    assert (plan["policy"], plan["nodes"], plan["boot_s"]) == ("greedy", 1, 420.0)
    assert [machine["machine"] for machine in plan["machines"]] == [T4X4]
    (planned,) = plan["jobs"]
    assert plan["now"] == [{"machine": T4X4, "jobs": [{"job": added["id"], "gpus": planned["gpus"]}]}]
    assert planned["runs_now"] is True
    assert planned["in_time"] is True
    assert planned["predicted_low_s"] < planned["predicted_s"] < planned["predicted_high_s"]
    assert plan["outcome"]["total_usd"] >= plan["lower_bound_usd"] > 0
    assert run_json("withdraw", added["id"]) == {"withdrawn": [added["id"]]}
    assert run_json("queue") == []


def test_an_empty_queue_says_how_to_submit() -> None:
    for command in ("queue", "plan"):
        result = run(command)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "Submit a training: trainfare schedule submit PROFILE --deadline 6h" in result.stderr
    assert run_json("plan")["jobs"] == []


def test_what_waits_says_why_and_until_when() -> None:
    store(t4_profile())
    for number in range(3):
        store_submission(f"s{number}")
    planned = words(run("plan", "--machine", T4, "--nodes", "1", "--policy", "fifo"))
    assert planned.startswith("Run now 1 of 3 jobs on 1 node")
    assert "s1, s2 wait: the only node is in use" in planned
    assert "train.py ada waits, " in planned


def test_a_plan_can_be_drawn_from_now_on(tmp_path: Path) -> None:
    store(t4_profile())
    store_submission("s1", ago=timedelta(days=9))
    drawn = tmp_path / "plan.json"
    result = run("plan", "--machine", T4, "--policy", "fifo", "--plot", str(drawn))
    assert result.exit_code == 0, result.exception
    assert f"drawn: {drawn}" in result.stderr
    assert 3600 < max(_bar_ends(json.loads(drawn.read_text()))) < 86400
    assert "time from now" in drawn.read_text()
    assert "first submission" not in drawn.read_text()


def _bar_ends(spec: Any) -> Iterator[float]:
    """Wherever a bar of a figure ends."""
    if isinstance(spec, dict):
        if isinstance(spec.get("x2"), float):
            yield spec["x2"]
        spec = list(spec.values())
    if isinstance(spec, list):
        for each in spec:
            yield from _bar_ends(each)


def test_late_jobs_are_counted_and_told() -> None:
    store(t4_profile())
    store_submission("s1", within=timedelta(minutes=20))
    planned = words(run("plan", "--machine", T4, "--policy", "fifo"))
    assert ", 1 job late; at most " in planned
    assert " late (< 1 %)" in planned


def test_a_job_that_fits_nowhere_is_told_and_the_others_are_planned() -> None:
    store(t4_profile(), t4_profile(id="huge", activation_bytes=10**12))
    store_submission("s1")
    store_submission("s2", profile_ids=("huge",))
    planned = words(run("plan", "--machine", T4, "--policy", "fifo"))
    assert planned.startswith("Run now 1 of 1 job ")
    assert f"s2 (train.py): it does not fit in the memory of {T4}" in planned


def test_a_queue_of_which_nothing_can_be_planned_is_infeasible() -> None:
    store(t4_profile(activation_bytes=10**12))
    store_submission("s1")
    result = run("plan", "--machine", T4)
    assert result.exit_code == 3
    assert "it does not fit in the memory" in " ".join(result.stdout.split())


def test_a_damaged_submission_is_named_and_the_others_are_listed() -> None:
    import sqlite3

    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    connection = sqlite3.connect(read_settings().store)
    with connection:
        connection.execute("UPDATE submissions SET document = '{}' WHERE id = 's1'")
    connection.close()
    result = run("queue")
    assert result.stdout.splitlines()[1].startswith("s2")
    assert "note: submission s1 in" in result.stderr
    assert "`trainfare schedule withdraw s1`" in result.stderr
    assert run("withdraw", "s1").exit_code == 0
    assert "note" not in run("queue").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "p7k"], "Did you mean p7k2"),
        (["submit", "--deadline", "2026-01-02T09:00+00:00"], "2026-01-02 09:00 UTC has passed"),
        (["submit", "--late-usd-per-hour", "3"], "needs a deadline"),
        (["withdraw", "s9"], "there is no submission s9"),
        (["plan", "--policy", "gredy"], "Did you mean greedy"),
        (["plan", "--quota", "alice"], "as alice=8"),
        (["plan", "--machine", "g4dn.xlarg"], "Did you mean g4dn.xlarge"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_asked_wrongly_is_told_in_a_sentence(arguments: list[str], said: str) -> None:
    store(t4_profile())
    store_submission("s1")
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    assert said in str(error)


def test_a_submission_that_was_mistyped_is_named_with_the_nearest() -> None:
    store(t4_profile())
    store_submission("s1ab")
    error = run("withdraw", "s1ac").exception
    assert isinstance(error, NotFoundError)
    assert error.near == "s1ab"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("6h", timedelta(hours=6)),
        (" 2d ", timedelta(days=2)),
        ("1h 30min", timedelta(minutes=90)),
        ("2026-11-18T09:00Z", datetime(2026, 11, 18, 9, tzinfo=UTC)),
        ("2026-11-18 09:00+01:00", datetime(2026, 11, 18, 8, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_time_from_now_or_a_moment(text: str, meant: timedelta | datetime) -> None:
    assert deadline_of(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "how long from now"),
        ("6", "how long from now"),
        ("20261118", "how long from now"),
        ("tomorrow", "how long from now"),
        ("2026-13-40T09:00", "how long from now"),
        ("-3h", "how long from now"),
        ("2026-11-18", "say 2026-11-18T09:00"),
        ("9999999999999d", "on no calendar"),
    ],
)
def test_a_deadline_that_nobody_understands_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        deadline_of(text)


def test_a_quota_is_a_user_and_a_number() -> None:
    assert quota_of("ada=8") == ("ada", 8)
    assert quota_of("a=b=0") == ("a=b", 0)
    for wrong in ("ada", "=8", "ada=", "ada=-1", "ada=1.5", " =3"):
        with pytest.raises(UsageError, match="as alice=8"):
            quota_of(wrong)


def test_another_store_has_another_queue(tmp_path: Path) -> None:
    store(t4_profile())
    store_submission("s1")
    with open_history(str(tmp_path / "other.db")) as other:
        other.profiles.add(t4_profile())
    assert run_json("queue", "--store", str(tmp_path / "other.db")) == []
    assert len(run_json("queue")) == 1


def test_a_narrow_terminal_has_less_of_the_queue_and_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainfare.cli.console import out

    store(t4_profile())
    store_submission("s1")
    monkeypatch.setenv("COLUMNS", "60")
    out.cache_clear()
    shown = run("queue").stdout
    monkeypatch.delenv("COLUMNS")
    out.cache_clear()
    assert max(map(len, shown.splitlines())) <= 60
    assert "s1   train.py  100" in shown
    assert "an hour late" not in shown


def test_a_narrow_plan_keeps_names_of_machines_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainfare.cli.console import out

    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    monkeypatch.setenv("COLUMNS", "60")
    out.cache_clear()
    shown = run("plan", "--machine", T4X4, "--nodes", "1", "--policy", "fifo").stdout
    monkeypatch.delenv("COLUMNS")
    out.cache_clear()
    rows = [line for line in shown.splitlines() if line.startswith(("s1", "s2"))]
    assert len(rows) == 2
    assert all(f" {T4X4} " in row and len(row) <= 60 for row in rows)
