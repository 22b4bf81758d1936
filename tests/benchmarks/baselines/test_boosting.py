"""Boosted trees: they learn, they do not extrapolate, and the same rows give the same bytes."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.boosting import Forest, Growth, fit_forest

QUICK = Growth(trees=60, depth=4, column_share=1.0)


def made(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    return {"a": source.uniform(-1, 1, rows), "b": source.integers(0, 3, rows).astype(float)}


def target(columns: dict[str, np.ndarray]) -> np.ndarray:
    """A step that depends on the other column: no line and no sum can tell it."""
    return np.where(columns["b"] == 1, 0.2, -0.1) * (columns["a"] > 0.3)


def test_an_interaction_is_learned() -> None:
    columns, asked = made(2000), made(500, seed=1)
    answers = fit_forest(columns, target(columns), QUICK).predict(asked)
    assert np.mean(np.abs(answers - target(asked))) < 0.01


def test_a_few_wild_rows_do_not_pull_it() -> None:
    columns = made(2000)
    y = target(columns)
    y[::100] += 50.0
    answers = fit_forest(columns, y, QUICK).predict(made(500, seed=1))
    assert np.max(np.abs(answers)) < 0.5


def test_beyond_the_rows_the_answer_is_that_of_the_edge() -> None:
    columns = made(500)
    forest = fit_forest(columns, columns["a"] / 10, QUICK)
    edge, far = (forest.predict({"a": np.array([a]), "b": np.array([1.0])}) for a in (1.0, 1e6))
    assert edge == pytest.approx(far)


def test_the_same_rows_give_the_same_trees() -> None:
    columns = made(300)
    assert fit_forest(columns, target(columns), QUICK) == fit_forest(columns, target(columns), QUICK)


def test_it_goes_to_json_and_back() -> None:
    columns = made(300)
    forest = fit_forest(columns, target(columns), QUICK)
    again = msgspec.json.decode(msgspec.json.encode(forest), type=Forest)
    assert again == forest
    assert again.predict(columns) == pytest.approx(forest.predict(columns))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 30), st.integers(0, 100))
def test_few_rows_stay_within_what_was_seen(rows: int, seed: int) -> None:
    columns = made(rows, seed)
    y = np.clip(target(columns), -0.3, 0.3)
    answers = fit_forest(columns, y, Growth(trees=20, depth=3, least_rows=3)).predict(made(40, seed + 1))
    assert np.all(answers >= y.min() - 0.05)
    assert np.all(answers <= y.max() + 0.05)


def test_a_column_that_never_changes_does_no_harm() -> None:
    columns = made(400) | {"same": np.ones(400)}
    answers = fit_forest(columns, target(columns), QUICK).predict(columns)
    assert np.mean(np.abs(answers - target(columns))) < 0.02


def test_rows_and_columns_must_fit() -> None:
    with pytest.raises(ValueError, match="one value a row"):
        fit_forest({"a": np.zeros(3)}, np.zeros(4))
