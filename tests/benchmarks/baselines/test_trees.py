"""The settings of the booster: robust, deterministic and without extrapolation."""

import numpy as np
import pytest

from benchmarks.baselines.trees import TreeSettings, fit_trees

QUICK = TreeSettings(trees=60, depth=4, column_share=1.0)


def make_columns(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    return {"a": source.uniform(-1, 1, rows), "b": source.integers(0, 3, rows).astype(float)}


def target(columns: dict[str, np.ndarray]) -> np.ndarray:
    """A step that depends on the other column, which no line and no sum can express."""
    return np.where(columns["b"] == 1, 0.2, -0.1) * (columns["a"] > 0.3)


def test_interaction_is_learned() -> None:
    columns, queried = make_columns(2000), make_columns(500, seed=1)
    answers = fit_trees(columns, target(columns), QUICK).predict(queried)
    assert np.mean(np.abs(answers - target(queried))) < 0.01


def test_columns_are_matched_by_name() -> None:
    columns = make_columns(300)
    trees = fit_trees(columns, target(columns), QUICK)
    reordered = {"unused": np.zeros(300), "b": columns["b"], "a": columns["a"]}
    assert trees.predict(reordered) == pytest.approx(trees.predict(columns))


def test_absolute_error_ignores_outliers() -> None:
    columns = make_columns(2000)
    y = target(columns)
    y[::100] += 50.0
    settings = TreeSettings(trees=60, depth=4, column_share=1.0, loss="absolute_error")
    answers = fit_trees(columns, y, settings).predict(make_columns(500, seed=1))
    assert np.max(np.abs(answers)) < 0.5


def test_answer_outside_the_rows_is_that_of_the_edge() -> None:
    columns = make_columns(500)
    trees = fit_trees(columns, columns["a"] / 10, QUICK)
    edge, far = (trees.predict({"a": np.array([a]), "b": np.array([1.0])}) for a in (1.0, 1e6))
    assert edge == pytest.approx(far)


@pytest.mark.parametrize("rows", [1, 5, 30])
def test_few_rows_give_answers_within_their_range(rows: int) -> None:
    columns = make_columns(rows)
    y = target(columns)
    answers = fit_trees(columns, y, TreeSettings(trees=20, depth=3, min_leaf_rows=3)).predict(make_columns(40, seed=1))
    assert np.all(answers >= y.min() - 0.05)
    assert np.all(answers <= y.max() + 0.05)


def test_constant_column_does_no_harm() -> None:
    columns = make_columns(400) | {"same": np.ones(400)}
    answers = fit_trees(columns, target(columns), QUICK).predict(columns)
    assert np.mean(np.abs(answers - target(columns))) < 0.02
