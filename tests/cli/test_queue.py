"""`trainfare queue` on stored profiles."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.app.queue_makers import T4, T4X4, store, store_submission, t4_profile, too_large_profile
from tests.cli.commands import complaint, error_of, in_one_line, read_json, run, succeed, terminal
from trainfare.cli.parsing import parse_deadline, parse_user_quota
from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import read_settings
from trainfare.store.open import open_history

ON_T4 = ("--machine", T4, "--policy", "fifo")


def test_a_training_is_submitted_listed_planned_and_cancelled() -> None:
    store(t4_profile())
    options = ("--epochs", 90, "--deadline", "6h", "--user", "ada", "--late-usd-per-hour", 20)
    added = succeed("queue", "submit", "p7k2", *options)
    name = added.stdout.split()[0]
    assert "next: trainfare queue plan" in added.stderr
    listed = in_one_line("queue", "list")
    assert f"{name} train.py p7k2 ada 90 just now" in listed
    assert "$20.00/h" in listed
    planned = in_one_line("queue", "plan", *ON_T4)
    assert planned.startswith("Run now 1 of 1 job on 1 node at $0.526/h; ")
    assert f"{name} train.py ada node 1 {T4} 1 " in planned
    assert "a node boots in 1 min 30 s" in planned
    assert succeed("queue", "cancel", name).stderr == f"cancelled {name}\n"
    assert succeed("queue", "list").stdout == ""


def test_json_has_the_submission_the_queue_and_the_plan() -> None:
    store(t4_profile())
    options = ("--epochs", 90, "--deadline", "6h", "--gpus", 2, "--user", "ada")
    added = read_json("queue", "submit", "p7k2", *options)
    assert (added["kind"], added["program"], added["most_gpus"], added["user"]) == ("submission", "train.py", 2, "ada")
    (listed,) = read_json("queue", "list")
    assert listed == {field: value for field, value in added.items() if field != "remarks"}
    plan = read_json("queue", "plan", "--machine", T4X4, "--nodes", 1, "--policy", "greedy", "--boot", "7min")
    assert (plan["policy"], plan["nodes"], plan["boot_s"]) == ("greedy", 1, 420.0)
    assert [machine["machine"] for machine in plan["machines"]] == [T4X4]
    (planned,) = plan["jobs"]
    assert plan["now"] == [{"machine": T4X4, "jobs": [{"job": added["id"], "gpus": planned["gpus"]}]}]
    assert planned["runs_now"] is True
    assert planned["in_time"] is True
    assert planned["predicted_low_s"] < planned["predicted_s"] < planned["predicted_high_s"]
    assert plan["outcome"]["total_usd"] >= plan["lower_bound_usd"] > 0
    assert read_json("queue", "cancel", added["id"]) == {"cancelled": [added["id"]]}
    assert read_json("queue", "list") == []


def test_remarks_name_flags() -> None:
    store(t4_profile())
    result = succeed("queue", "submit", "--deadline", "6h")
    assert "--late-usd-per-hour USD" in result.stderr
    assert "--gpus N" in result.stderr
    remarks = read_json("queue", "submit", "--deadline", "6h")["remarks"]
    assert any("--gpus N" in remark for remark in remarks)


def test_an_empty_queue_names_the_command_to_submit() -> None:
    for command in ("list", "plan"):
        result = succeed("queue", command)
        assert result.stdout == ""
        assert "trainfare queue submit PROFILE --deadline 6h" in result.stderr
    assert read_json("queue", "plan")["jobs"] == []


def test_a_waiting_job_is_shown_with_the_reason_and_its_start() -> None:
    store(t4_profile())
    for number in range(3):
        store_submission(f"s{number}")
    options = (*ON_T4, "--nodes", 1)
    planned = in_one_line("queue", "plan", *options)
    assert planned.startswith("Run now 1 of 3 jobs on 1 node")
    assert "train.py ada waits until " in planned
    reasons = [job["waits_because"] for job in read_json("queue", "plan", *options)["jobs"]]
    assert reasons[0] is None
    assert reasons[1] == reasons[2]
    assert f"s1, s2 wait: {reasons[1]}" in planned


def test_a_plan_is_drawn_from_now_on(tmp_path: Path) -> None:
    store(t4_profile())
    store_submission("s1", ago=timedelta(days=9))
    drawn = tmp_path / "plan.json"
    result = succeed("queue", "plan", *ON_T4, "--plot", drawn)
    assert f"drawn: {drawn}" in result.stderr
    assert 3600 < max(_bar_ends(json.loads(drawn.read_text()))) < 86400
    assert "time from now" in drawn.read_text()
    assert "first submission" not in drawn.read_text()


def _bar_ends(spec: Any) -> Iterator[float]:
    """The right ends of all bars of a figure."""
    if isinstance(spec, dict):
        if isinstance(spec.get("x2"), float):
            yield spec["x2"]
        spec = list(spec.values())
    if isinstance(spec, list):
        for each in spec:
            yield from _bar_ends(each)


def test_late_jobs_are_counted_and_their_probability_is_not_zero() -> None:
    store(t4_profile())
    store_submission("s1", within=timedelta(minutes=20))
    planned = in_one_line("queue", "plan", *ON_T4)
    assert ", 1 job late; at most " in planned
    assert " late (<1%)" in planned
    (job,) = read_json("queue", "plan", *ON_T4)["jobs"]
    assert job["in_time"] is False
    assert job["chance"] < 0.01


def test_a_job_that_does_not_fit_is_named_and_the_others_are_planned() -> None:
    store(t4_profile(), too_large_profile(id="huge"))
    store_submission("s1")
    store_submission("s2", profile_ids=("huge",))
    plan = read_json("queue", "plan", *ON_T4)
    assert [job["job"] for job in plan["jobs"]] == ["s1"]
    (unplanned,) = plan["unplanned"]
    assert unplanned["job"] == "s2"
    assert T4 in unplanned["why"]
    assert f"s2 (train.py): {unplanned['why']}" in in_one_line("queue", "plan", *ON_T4)


def test_a_queue_of_which_nothing_can_be_planned_is_infeasible() -> None:
    store(too_large_profile())
    store_submission("s1")
    result = run("queue", "plan", "--machine", T4)
    assert result.exit_code == 3
    assert "memory" in result.stdout


def test_a_damaged_submission_is_named_and_the_others_are_listed() -> None:
    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    connection = sqlite3.connect(read_settings().store)
    with connection:
        connection.execute("UPDATE submissions SET document = '{}' WHERE id = 's1'")
    connection.close()
    result = succeed("queue", "list")
    assert result.stdout.splitlines()[1].startswith("s2")
    assert "note: submission s1 in" in result.stderr
    assert "`trainfare queue cancel s1`" in result.stderr
    succeed("queue", "cancel", "s1")
    assert "note" not in succeed("queue", "list").stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("submit", "p7k"), "Did you mean p7k2?"),
        (("submit", "--deadline", "2026-01-02T09:00+00:00"), "--deadline: 2026-01-02 09:00 UTC has passed"),
        (("submit", "--late-usd-per-hour", 3), "--late-usd-per-hour: "),
        (("submit", "--deadline", "soon"), "--deadline: takes a time from now, such as 6h"),
        (("cancel", "s9"), "there is no submission s9"),
        (("plan", "--policy", "gredy"), "Did you mean greedy?"),
        (("plan", "--quota", "alice"), "--quota: takes a user and a number of GPUs, such as alice=8"),
        (("plan", "--machine", "g4dn.xlarg"), "Did you mean g4dn.xlarge?"),
        (("plan", "--boot", "soon"), "--boot: "),
        (("plan", "--plot", "plan.pdf"), ".html, .png, .svg or .json"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_wrong_argument_is_explained(words: tuple[object, ...], expected: str) -> None:
    store(t4_profile())
    store_submission("s1")
    assert isinstance(error_of("queue", *words), UsageError)
    assert expected in complaint("queue", *words)


def test_a_mistyped_submission_is_named_with_the_nearest() -> None:
    store(t4_profile())
    store_submission("s1ab")
    error = error_of("queue", "cancel", "s1ac")
    assert isinstance(error, NotFoundError)
    assert error.near == "s1ab"


@pytest.mark.parametrize(
    ("text", "deadline"),
    [
        ("6h", timedelta(hours=6)),
        (" 2d ", timedelta(days=2)),
        ("1h 30min", timedelta(minutes=90)),
        ("2026-11-18T09:00Z", datetime(2026, 11, 18, 9, tzinfo=UTC)),
        ("2026-11-18 09:00+01:00", datetime(2026, 11, 18, 8, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_time_from_now_or_a_moment(text: str, deadline: timedelta | datetime) -> None:
    assert parse_deadline(text) == deadline


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a time from now"),
        ("6", "a time from now"),
        ("20261118", "a time from now"),
        ("tomorrow", "a time from now"),
        ("2026-13-40T09:00", "a time from now"),
        ("-3h", "a time from now"),
        ("2026-11-18", "Write 2026-11-18T09:00"),
        ("9999999999999d", "outside the calendar"),
    ],
)
def test_an_invalid_deadline_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_deadline(text)
    assert caught.value.field == "deadline"


def test_a_quota_is_a_user_and_a_number() -> None:
    assert parse_user_quota("ada=8") == ("ada", 8)
    assert parse_user_quota("a=b=0") == ("a=b", 0)
    for invalid in ("ada", "=8", "ada=", "ada=-1", "ada=1.5", " =3"):
        with pytest.raises(UsageError, match="such as alice=8"):
            parse_user_quota(invalid)


def test_another_store_has_another_queue(tmp_path: Path) -> None:
    store(t4_profile())
    store_submission("s1")
    with open_history(str(tmp_path / "other.db")) as other:
        other.profiles.add(t4_profile())
    assert read_json("queue", "list", "--store", tmp_path / "other.db") == []
    assert len(read_json("queue", "list")) == 1


def test_a_narrow_terminal_shows_fewer_columns_and_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    store(t4_profile())
    store_submission("s1")
    with terminal(60, monkeypatch):
        shown = succeed("queue", "list").stdout
    assert max(map(len, shown.splitlines())) <= 60
    assert "s1   train.py  100" in shown
    assert "lateness" not in shown


def test_a_narrow_plan_does_not_break_the_names_of_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    with terminal(60, monkeypatch):
        shown = succeed("queue", "plan", "--machine", T4X4, "--nodes", 1, "--policy", "fifo").stdout
    rows = [line for line in shown.splitlines() if line.startswith(("s1", "s2"))]
    assert len(rows) == 2
    assert all(f" {T4X4} " in row and len(row) <= 60 for row in rows)
