import pytest

from trainfare.papers.published import tables
from trainfare.papers.sanghvi import rows

ROWS = {(row.table, row.row): row for row in rows()}


def test_every_printed_cell_is_a_row_and_none_differs() -> None:
    assert len(ROWS) == sum(len(table.cells) for table in tables("sanghvi").values())
    assert {row.verdict for row in rows()} == {"equal", "not-recomputable"}


@pytest.mark.parametrize(
    ("table", "row", "ours"),
    [
        ("sanghvi-I", "1 × K80: epoch ($)", 0.45 * 87 / 3600),
        ("sanghvi-prediction", "1 × P100: predicted ($)", 1.83018),
        ("sanghvi-prediction", "2 × K80: real (s)", 1375),
        ("sanghvi-prediction", "1 × P100: error (%)", 276),
        ("sanghvi-prediction", "2 × K80: error (%)", 104),
    ],
)
def test_costs_times_and_errors_follow(table: str, row: str, ours: float) -> None:
    assert ROWS[table, row].ours == pytest.approx(ours)
    assert ROWS[table, row].verdict == "equal"


def test_predicted_epochs_need_a_curve_that_is_not_printed() -> None:
    assert ROWS["sanghvi-prediction", "1 × P100: predicted epochs"].ours is None
