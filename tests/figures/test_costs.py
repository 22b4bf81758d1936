"""The figure of what runs have cost: a bar for each row, however small, and the most expensive one marked."""

import pytest

from tests.figures.reading import layers, title
from trainfare.figures.costs import ROWS, costs_figure
from trainfare.figures.look import ACCENT, Spec
from trainfare.runner.charges import CostRow


def rows(*usd: float) -> list[CostRow]:
    return [CostRow(name=f"row {place}", runs=1, machine_seconds=60.0, usd=each) for place, each in enumerate(usd)]


def bars(spec: Spec) -> list[dict[str, object]]:
    return [row for layer in layers(spec, "rect") for row in layer["data"]["values"]]


@pytest.mark.parametrize("usd", [1e-4, 0.0025, 3.0, 12_000.0])
def test_a_bar_is_as_long_as_its_cost(usd: float) -> None:
    assert [bar["x2"] for bar in bars(costs_figure(rows(usd, usd / 2), "machine"))] == [usd, usd / 2]


def test_the_most_expensive_row_is_marked() -> None:
    spec = costs_figure(rows(1.0, 3.0, 2.0), "day")
    assert [bar["fill"] == ACCENT for bar in bars(spec)] == [False, True, False]
    assert title(spec) == "Your runs have cost $6.00"


def test_the_last_days_are_drawn() -> None:
    drawn = bars(costs_figure(rows(*range(1, ROWS + 11)), "day"))
    assert [drawn[0]["name"], len(drawn)] == ["row 10", ROWS]


def test_without_rows_there_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no run"):
        costs_figure([], "day")
