"""From a commitment in machines.toml to the plan, the bill and the list."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.makers import make_profile
from trainfare.cli.main import app
from trainfare.errors import UsageError
from trainfare.settings import read_settings
from trainfare.store.open import open_history

COMMITMENTS = """
[[commitment]]
machine = "g4dn.xlarge"
region = "us-east-1"
months = 12
discount = 0.9

[[commitment]]
machine = "aws/g5.xlarge"
region = "us-west-2"
months = 36
upfront_usd = 4000
usd_per_hour = 0.03
already_paid = true
"""


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text(COMMITMENTS)
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def chosen(*arguments: str) -> tuple[str, str]:
    found = run_json("recommend", "--epochs", "30000", *arguments)["chosen"]
    return found["machine"], found["market"]


def test_recommend_takes_what_is_held_and_with_reserved_what_could_be_bought() -> None:
    assert chosen() == ("g5.xlarge", "reserved")
    assert chosen("--reserved") == ("g4dn.xlarge", "reserved")
    assert chosen("--no-reserved")[1] == "on_demand"


def test_the_plan_tells_of_the_commitment_and_is_kept() -> None:
    words = " ".join(run("recommend", "--epochs", "30000").stdout.split())
    assert "Train on aws g5.xlarge (1 × A10G, batch 64, reserved, us-west-2)" in words
    assert "you hold it for 36 months, paid whether used or not" in words
    assert "with a commitment of 12 months, aws g4dn.xlarge reserved would cost" in words
    assert run_json("plans", "show", run_json("plans", "list")[0]["plan"])["chosen"]["market"] == "reserved"


def test_estimate_takes_what_is_held_unless_told_otherwise() -> None:
    held, plain = run_json("estimate", "--on", "g5.xlarge"), run_json("estimate", "--on", "g5.xlarge", "--no-reserved")
    assert (held["market"], plain["market"]) == ("reserved", "on_demand")
    assert held["usd_per_hour"] == pytest.approx(4000 / (36 * 730) + 0.03)
    assert held["seconds"] == plain["seconds"]


def test_estimate_of_what_is_to_be_bought_says_when_it_pays_off() -> None:
    assert run_json("estimate", "--on", "g4dn.xlarge")["market"] == "on_demand"
    found = run_json("estimate", "--on", "g4dn.xlarge", "--reserved")
    assert found["market"] == "reserved"
    assert any("pays off above 73 hours a month (10 % of the time)" in remark for remark in found["remarks"])
    explained = " ".join(run("estimate", "--on", "g4dn.xlarge", "--reserved", "--explain").stdout.split())
    assert "(12 months, nothing upfront)" in explained


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--on", "g6.xlarge", "--reserved"], "you have entered no commitment to aws/g6.xlarge"),
        (["--on", "g5.xlarge", "--reserved", "--region", "us-east-1"], "no commitment to aws/g5.xlarge in us-east-1"),
        (["--on", "g5.xlarge", "--reserved", "--spot"], "not both"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_the_reason(arguments: list[str], told: str) -> None:
    error = run("estimate", *arguments).exception
    assert isinstance(error, UsageError)
    assert told in str(error)


def test_commitments_are_listed_held_ones_first() -> None:
    words = " ".join(run("catalog", "commitments").stdout.split())
    assert "aws/g5.xlarge us-west-2 36 4 000 0.1822 1.006 132 h held aws/g4dn.xlarge us-east-1 12 – 0.0526" in words
    rows = run_json("catalog", "commitments")
    assert [row["already_paid"] for row in rows] == [True, False]
    assert rows[1]["break_even_hours_a_month"] == pytest.approx(73.0)


def test_a_machine_is_shown_with_its_commitments_and_listed_at_what_anybody_pays() -> None:
    assert "held" in run("catalog", "show", "g5.xlarge").stdout
    assert [row["months"] for row in run_json("catalog", "show", "g5.xlarge")["commitments"]] == [36]
    (line,) = [row for row in run_json("catalog", "list") if row["machine"] == "aws/g5.xlarge"]
    assert line["usd_per_hour"] == pytest.approx(1.006)


def test_a_commitment_that_is_over_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text(COMMITMENTS + "until = 2020-01-01\n")
    assert chosen()[1] == "on_demand"
    assert [row["months"] for row in run_json("catalog", "commitments")] == [12]


def test_without_any_the_list_says_how_to_enter_one(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text("")
    assert "[[commitment]] in machines.toml" in run("catalog", "commitments").output
    assert run_json("catalog", "commitments") == []


def test_what_is_left_out_by_its_market_alone_is_said_so() -> None:
    result = run("recommend", "--epochs", "3", "--only", "yours", "--no-reserved")
    assert "bound to a commitment. --spot or --reserved lets them in" in str(result.exception)
