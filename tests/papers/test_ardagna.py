import pytest

from trainfare.papers.ardagna import rows
from trainfare.papers.published import tables

ROWS = {row.row: row for row in rows()}


def test_every_printed_cell_is_a_row() -> None:
    assert len(ROWS) == len(tables("ardagna")["ardagna-prototype"].cells) == 25


def test_the_sums_and_their_difference_follow() -> None:
    found = {name: ROWS[f"sum: {name}"] for name in ("predicted ($)", "real ($)", "difference (%)")}
    assert {row.verdict for row in found.values()} == {"equal"}
    assert found["predicted ($)"].ours == pytest.approx(16.02)
    assert found["real ($)"].ours == pytest.approx(16.71)
    assert found["difference (%)"].ours == pytest.approx(100 * 0.69 / 16.71, rel=1e-5)


def test_slots_are_inputs() -> None:
    assert ROWS["slot 6: real ($)"].verdict == "not-recomputable"
