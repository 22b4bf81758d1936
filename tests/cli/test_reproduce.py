"""`trainfare reproduce`: the published tables, recomputed."""

from pathlib import Path

import pytest

from tests.cli.commands import error_of, read_json, succeed
from trainfare.errors import NotFoundError, UsageError

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


def test_the_summary_comes_first_and_the_rows_only_for_a_table() -> None:
    first, second, *rest = succeed("reproduce", "malta-5.2").stdout.splitlines()
    assert first.split() == ["table", "equal", "misprint", "not-recomputable", "differs"]
    assert second.split() == ["malta-5.2", "8", "·", "20", "·"]
    (line,) = (each for each in rest if each.startswith("256: estimate (s)"))
    assert line.split()[3:6] == ["146.47", "146.470", "0.0%"]


def test_without_a_table_the_totals_of_all_are_printed() -> None:
    lines = succeed("reproduce").stdout.splitlines()
    assert any(line.startswith("total ") for line in lines)
    assert not any("estimate (s)" in line for line in lines)


def test_json_has_one_row_per_number() -> None:
    rows = read_json("reproduce", "malta-4.4")["rows"]
    assert len(rows) == 15
    assert all(set(row) == {"table", "row", "published", "ours", "verdict", "why"} for row in rows)
    (total,) = (row for row in rows if row["row"] == "Total: without ($)")
    assert (total["published"], total["ours"], total["verdict"]) == (35.84, 35.84, "equal")


def test_a_mistyped_table_is_named_with_the_nearest() -> None:
    error = error_of("reproduce", "malta5.4")
    assert isinstance(error, NotFoundError)
    assert error.near == "malta-5.4"


def test_the_page_in_docs_is_what_the_command_prints() -> None:
    """After a change, run: trainfare reproduce --markdown > docs/papers.md"""
    assert succeed("reproduce", "--markdown").stdout == PAGE.read_text(encoding="utf-8")


def test_a_folder_for_figures_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    error = error_of("reproduce", "malta-5.2", "--figures", taken)
    assert isinstance(error, UsageError)
    assert error.field == "figures"
    assert str(taken) in error.message


@pytest.mark.heavy
def test_figures_are_drawn_except_those_without_numbers(tmp_path: Path) -> None:
    result = succeed("reproduce", "malta-5.2", "--figures", tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == len(list(tmp_path.glob("*.svg"))) == 11
    assert "malta-4.5: not drawn" in result.stderr
