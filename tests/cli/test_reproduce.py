import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainfare.cli.main import app
from trainfare.errors import NotFoundError, UsageError

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


def test_the_summary_comes_first_and_the_rows_only_for_a_table() -> None:
    result = CliRunner().invoke(app, ["reproduce", "malta-5.2"])
    assert result.exit_code == 0
    first, second, *rest = result.stdout.splitlines()
    assert first.split() == ["table", "equal", "misprint", "not-recomputable", "differs"]
    assert second.split() == ["malta-5.2", "8", "·", "20", "·"]
    (line,) = (each for each in rest if each.startswith("256: estimate (s)"))
    assert line.split()[3:7] == ["146.47", "146.470", "+0.0", "%"]


def test_without_a_table_all_are_summed_up() -> None:
    lines = CliRunner().invoke(app, ["reproduce"]).stdout.splitlines()
    assert any(line.startswith("all ") for line in lines)
    assert not any("estimate (s)" in line for line in lines)


def test_json_has_a_row_a_number() -> None:
    rows = json.loads(CliRunner().invoke(app, ["reproduce", "malta-4.4", "--json"]).stdout)["rows"]
    assert len(rows) == 15
    assert all(set(row) == {"table", "row", "published", "ours", "verdict", "why"} for row in rows)
    (total,) = (row for row in rows if row["row"] == "Total: without ($)")
    assert (total["published"], total["ours"], total["verdict"]) == (35.84, 35.84, "equal")


def test_a_mistyped_table_is_named_with_the_nearest() -> None:
    error = CliRunner().invoke(app, ["reproduce", "malta5.4"]).exception
    assert isinstance(error, NotFoundError)
    assert "Did you mean malta-5.4?" in str(error)


def test_the_page_in_docs_is_what_the_command_prints() -> None:
    """After a change: trainfare reproduce --markdown > docs/papers.md"""
    result = CliRunner().invoke(app, ["reproduce", "--markdown"])
    assert result.stdout == PAGE.read_text(encoding="utf-8")


def test_figures_that_cannot_be_written_say_where(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    error = CliRunner().invoke(app, ["reproduce", "malta-5.2", "--figures", str(taken)]).exception
    assert isinstance(error, UsageError)
    assert str(taken) in str(error)


@pytest.mark.heavy
def test_figures_are_drawn_and_those_that_are_not_say_why(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "malta-5.2", "--figures", str(tmp_path)])
    assert result.exit_code == 0
    assert len(list(tmp_path.glob("*.png"))) == len(list(tmp_path.glob("*.svg"))) == 11
    assert "malta-4.5: not drawn" in result.stderr
