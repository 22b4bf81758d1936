"""Gradient-boosted regression trees on histograms, in numpy: a correction that is learned where no formula is known.

    answer(x) = start + Σ_trees leaf(x)

Each tree of at most 2^depth leaves is fitted to what the trees before it left over, clipped to ±`clip` so that a few
wild rows cannot pull it. Every column is cut into at most `bins` intervals of equal count; a node is split where

    gain = G_l²/(n_l + λ) + G_r²/(n_r + λ) − G²/(n + λ)

is largest (G sums of leftovers, n counts), and a leaf answers η·G/(n + λ), η the learning rate. A tree sees a share of
the rows and of the columns, taken by an equidistributed sequence, so the same rows always give the same trees.

Limits: beyond the outermost cuts of a column the answer is constant; it cannot extrapolate. So it belongs on the
*ratio* of a measured time to a physical one, and its caller bounds it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Columns = Mapping[str, Array]

GOLDEN = (5**0.5 - 1) / 2
STEP = 1e-5
"""What a leaf's answer is rounded to, so that it fits two bytes: ±0.32, more than any correction should be."""
MOST_BINS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees as bytes, each a full binary tree level by level: small in a file, quick to read.

    `splits` holds the column of each inner node and `cuts` the number of the cut (one byte each): a row goes right if
    its value lies above `edges[column][cut]`. `leaves` are two-byte integers in steps of STEP.
    """

    columns: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    depth: int
    start: float
    splits: bytes
    cuts: bytes
    leaves: bytes

    def predict(self, columns: Columns) -> Array:
        """The answer for every row; `columns` must have those of the fit."""
        codes = _coded([columns[name] for name in self.columns], self.edges)
        rows = np.arange(codes.shape[1])
        answer = np.full(len(rows), self.start)
        inner = 2**self.depth - 1
        splits = np.frombuffer(self.splits, dtype=np.uint8).reshape(-1, inner).astype(np.intp)
        cuts = np.frombuffer(self.cuts, dtype=np.uint8).reshape(-1, inner)
        leaves = np.frombuffer(self.leaves, dtype="<i2").reshape(-1, inner + 1) * STEP
        for split, cut, leaf in zip(splits, cuts, leaves, strict=True):
            answer += leaf[_leaf_of(codes, rows, split, cut, self.depth)]
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How the trees are grown; see the module for the letters."""

    trees: int = 300
    depth: int = 6
    learning_rate: float = 0.1
    """η."""
    bins: int = 64
    least_rows: int = 10
    """In a leaf."""
    shrinkage: float = 1.0
    """λ."""
    clip: float = 0.3
    row_share: float = 0.5
    column_share: float = 0.5

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= MOST_BINS or not 1 <= self.depth <= 10:
            raise ValueError(f"need 2 to {MOST_BINS} bins and a depth of 1 to 10, got {self.bins} and {self.depth}")


DEFAULT = Growth()


def fit_forest(columns: Columns, target: Sequence[float] | Array, growth: Growth = DEFAULT) -> Forest:
    """Trees for `target` from the columns; fewer than 2·least_rows rows give the median and no trees."""
    y = np.asarray(target, dtype=np.float64)
    if not y.size or not columns or any(len(column) != y.size for column in columns.values()):
        raise ValueError("there must be rows, and every column needs one value a row")
    edges = tuple(_edges(np.asarray(column, dtype=np.float64), growth.bins) for column in columns.values())
    codes = _coded(list(columns.values()), edges)
    start = float(np.median(y))
    answer, rows = np.full(y.size, start), np.arange(y.size)
    grown: list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int16]]] = []
    for tree in range(growth.trees if y.size >= 2 * growth.least_rows else 0):
        left_over = np.clip(y - answer, -growth.clip, growth.clip)
        seen = _share(y.size, growth.row_share, tree)
        used = _share(len(edges), growth.column_share, tree)
        split, cut, leaf = _tree(codes[np.ix_(used, seen)], left_over[seen], growth)
        split = np.asarray(used)[split]
        answer += leaf[_leaf_of(codes, rows, split, cut, growth.depth)] * STEP
        grown.append((split.astype(np.uint8), cut.astype(np.uint8), leaf))
    return Forest(
        columns=tuple(columns),
        edges=edges,
        depth=growth.depth,
        start=start,
        splits=b"".join(split.tobytes() for split, _, _ in grown),
        cuts=b"".join(cut.tobytes() for _, cut, _ in grown),
        leaves=b"".join(leaf.astype("<i2").tobytes() for _, _, leaf in grown),
    )


def _edges(column: Array, bins: int) -> tuple[float, ...]:
    """Cuts half-way between neighbouring values, at equal counts; a column of few values is cut between all."""
    values = np.unique(column)
    if len(values) > bins:
        values = np.unique(np.quantile(column, np.linspace(0, 1, bins), method="nearest"))
    middles = (values[1:] + values[:-1]) / 2
    return tuple(float(f"{middle:.6g}") for middle in middles)


def _coded(columns: Sequence[Array], edges: Sequence[tuple[float, ...]]) -> NDArray[np.uint8]:
    return np.array(
        [np.searchsorted(np.asarray(cuts), column, side="left") for column, cuts in zip(columns, edges, strict=True)]
    ).astype(np.uint8)


def _share(count: int, share: float, turn: int) -> Ints:
    """Which of `count` take part in a turn: a different share of them each time, evenly spread. At least one."""
    place = (np.arange(count) * GOLDEN + (turn + 1) * 2**0.5 * (1 + np.arange(count) // 7 % 5)) % 1
    chosen = np.flatnonzero(place < share)
    return chosen if len(chosen) else np.array([turn % count])


def _tree(codes: NDArray[np.uint8], left_over: Array, growth: Growth) -> tuple[Ints, Ints, NDArray[np.int16]]:
    """Splits and cuts of the inner nodes and answers of the leaves; a node that is not split sends all rows left."""
    used, rows = codes.shape
    width = growth.bins
    inner = 2**growth.depth - 1
    split, cut = np.zeros(inner, dtype=np.intp), np.full(inner, MOST_BINS - 1, dtype=np.intp)
    offset = codes.astype(np.intp) + (np.arange(used) * width)[:, None]
    weights = np.broadcast_to(left_over, (used, rows)).ravel()
    at = np.zeros(rows, dtype=np.intp)
    for level in range(growth.depth):
        nodes = 2**level
        cell = (offset + at * (used * width)).ravel()
        shape = (nodes, used, width)
        sums = np.bincount(cell, weights=weights, minlength=nodes * used * width).reshape(shape)
        counts = np.bincount(cell, minlength=nodes * used * width).reshape(shape)
        column, place, worth = _best_splits(sums, counts, growth)
        first = nodes - 1
        split[first : first + nodes] = np.where(worth, column, 0)
        cut[first : first + nodes] = np.where(worth, place, MOST_BINS - 1)
        right = codes[split[first + at], np.arange(rows)] > cut[first + at]
        at = 2 * at + right
    sums = np.bincount(at, weights=left_over, minlength=inner + 1)
    counts = np.bincount(at, minlength=inner + 1)
    answers = growth.learning_rate * sums / (counts + growth.shrinkage)
    return split, cut, np.clip(np.rint(answers / STEP), -32767, 32767).astype(np.int16)


def _best_splits(sums: Array, counts: NDArray[Any], growth: Growth) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Of each node: the column, the cut after which a row goes right, and whether that gains anything."""
    left, n_left = np.cumsum(sums, axis=2), np.cumsum(counts, axis=2)
    all_, n = left[:, :, -1:], n_left[:, :, -1:]
    n_right = n - n_left
    gain = left**2 / (n_left + growth.shrinkage) + (all_ - left) ** 2 / (n_right + growth.shrinkage)
    gain -= all_**2 / (n + growth.shrinkage)
    gain[(n_left < growth.least_rows) | (n_right < growth.least_rows)] = -np.inf
    flat = gain.reshape(len(gain), -1)
    best = np.argmax(flat, axis=1)
    return best // gain.shape[2], best % gain.shape[2], flat[np.arange(len(flat)), best] > 1e-9


def _leaf_of(codes: NDArray[np.uint8], rows: Ints, split: Ints, cut: NDArray[Any], depth: int) -> Ints:
    at = np.zeros(len(rows), dtype=np.intp)
    for level in range(depth):
        node = at + (2**level - 1)
        at = 2 * at + (codes[split[node], rows] > cut[node])
    return at
