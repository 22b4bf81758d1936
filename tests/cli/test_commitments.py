"""From a commitment in machines.toml to the plan, the bill and the list."""

from pathlib import Path

import pytest

from tests.cli.commands import complaint, error_of, in_one_line, read_json, run, store, succeed
from tests.makers import make_profile
from trainfare.errors import UsageError

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
def stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text(COMMITMENTS)
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    store(make_profile(activation_bytes=50_000_000))


def chosen(*arguments: str) -> tuple[str, str]:
    found = read_json("recommend", "--epochs", "30000", *arguments)["chosen"]
    return found["machine"], found["market"]


def test_recommend_uses_held_commitments_and_with_reserved_also_others() -> None:
    assert chosen() == ("g5.xlarge", "reserved")
    assert chosen("--reserved") == ("g4dn.xlarge", "reserved")
    assert chosen("--no-reserved")[1] == "on_demand"


def test_the_plan_explains_the_commitment_and_is_stored() -> None:
    shown = in_one_line("recommend", "--epochs", 30000)
    assert "Train on aws g5.xlarge (1 × A10G, batch 64, reserved, us-west-2)" in shown
    plan = read_json("recommend", "--epochs", 30000)
    months = {reason["code"]: reason["values"].get("months") for reason in plan["reason_data"]}
    assert months["held_commitment"] == 36
    assert 12 in months.values()
    assert read_json("plans", "show", read_json("plans", "list")[0]["plan"])["chosen"]["market"] == "reserved"


def test_estimate_uses_a_held_commitment_unless_told_otherwise() -> None:
    held = read_json("estimate", "--on", "g5.xlarge")
    plain = read_json("estimate", "--on", "g5.xlarge", "--no-reserved")
    assert (held["market"], plain["market"]) == ("reserved", "on_demand")
    assert held["usd_per_hour"] == pytest.approx(4000 / (36 * 730) + 0.03)
    assert held["seconds"] == plain["seconds"]


def test_the_estimate_of_a_commitment_to_buy_says_when_it_pays_off() -> None:
    assert read_json("estimate", "--on", "g4dn.xlarge")["market"] == "on_demand"
    found = read_json("estimate", "--on", "g4dn.xlarge", "--reserved")
    assert found["market"] == "reserved"
    assert any("pays off above 73 hours a month (10% of the time)" in remark for remark in found["remarks"])
    explained = in_one_line("estimate", "--on", "g4dn.xlarge", "--reserved", "--explain")
    assert "(12 months, nothing upfront)" in explained


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "g6.xlarge", "--reserved"], "you have entered no commitment to aws/g6.xlarge"),
        (["--on", "g5.xlarge", "--reserved", "--region", "us-east-1"], "no commitment to aws/g5.xlarge in us-east-1"),
        (["--on", "g5.xlarge", "--reserved", "--spot"], "--reserved: "),
    ],
)
def test_a_wrong_argument_is_explained(arguments: list[str], message: str) -> None:
    assert isinstance(error_of("estimate", *arguments), UsageError)
    assert message in complaint("estimate", *arguments)


def test_commitments_are_listed_held_ones_first() -> None:
    held, to_buy = (line.split() for line in succeed("catalog", "commitments").stdout.splitlines()[1:])
    assert held == ["aws/g5.xlarge", "us-west-2", "36", "$4,000.00", "$0.1822/h", "$1.006/h", "132", "h", "held"]
    assert to_buy[:5] == ["aws/g4dn.xlarge", "us-east-1", "12", "–", "$0.0526/h"]
    rows = read_json("catalog", "commitments")
    assert [row["already_paid"] for row in rows] == [True, False]
    assert rows[1]["break_even_hours_a_month"] == pytest.approx(73.0)


def test_a_machine_is_shown_with_its_commitments_and_listed_at_its_public_price() -> None:
    assert "held" in run("catalog", "show", "g5.xlarge").stdout
    assert [row["months"] for row in read_json("catalog", "show", "g5.xlarge")["commitments"]] == [36]
    (line,) = [row for row in read_json("catalog", "list") if row["machine"] == "aws/g5.xlarge"]
    assert line["usd_per_hour"] == pytest.approx(1.006)


def test_an_expired_commitment_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text(COMMITMENTS + "until = 2020-01-01\n")
    assert chosen()[1] == "on_demand"
    assert [row["months"] for row in read_json("catalog", "commitments")] == [12]


def test_an_empty_list_says_how_to_add_a_commitment(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text("")
    assert "[[commitment]] to machines.toml" in run("catalog", "commitments").output
    assert read_json("catalog", "commitments") == []


def test_machines_excluded_only_by_their_market_have_a_remedy() -> None:
    words = ("recommend", "--epochs", 3, "--only", "yours", "--no-reserved")
    assert "Try `--spot` or `--reserved`." in complaint(*words)
