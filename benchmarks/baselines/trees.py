"""Gradient-boosted trees that learn a correction from columns: scikit-learn's histogram booster.

Outside the range of a column the answer is constant: trees cannot extrapolate. So they belong on the *ratio* of a
measured time to a physical one, and the caller bounds the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = Mapping[str, Array]


class Regressor(Protocol):
    """The part of scikit-learn's interface that is used here."""

    def fit(self, rows: Array, target: Array) -> object: ...

    def predict(self, rows: Array) -> Array: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    """The settings of the booster that differ between models."""

    trees: int = 300
    depth: int = 6
    learning_rate: float = 0.1
    min_leaf_rows: int = 10
    column_share: float = 0.3
    """Share of the columns that each split may use."""
    loss: Literal["squared_error", "absolute_error"] = "squared_error"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """A fitted booster, and the columns that it was fitted to."""

    columns: tuple[str, ...]
    regressor: Regressor

    def predict(self, columns: Columns) -> Array:
        """The answer for every row; `columns` must contain those of the fit."""
        return np.asarray(self.regressor.predict(_matrix([columns[name] for name in self.columns])), dtype=np.float64)


def fit_trees(columns: Columns, target: Array, settings: TreeSettings) -> Trees:
    """Trees that predict `target` from the columns; the same rows always give the same trees.

    One thread is used: rows are few, and on a busy machine threads mostly wait for each other.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-untyped] # the library has no types
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # the library has no types

    regressor: Regressor = HistGradientBoostingRegressor(
        loss=settings.loss,
        max_iter=settings.trees,
        max_depth=settings.depth,
        max_leaf_nodes=None,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.min_leaf_rows,
        max_features=settings.column_share,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    with threadpool_limits(limits=1):
        regressor.fit(_matrix(list(columns.values())), target)
    return Trees(columns=tuple(columns), regressor=regressor)


def _matrix(columns: Sequence[Array]) -> Array:
    return np.stack(columns, axis=1)
