"""The time of a single layer on a GPU on which other layers were measured.

    t = max( 0.6 · FLOPs/peak,  (Σ_j c_j · term_j) · exp(r) )

The sum is physical (`layer_terms.py`; c ≥ 0, by least squares on the relative error with Huber weights); r is learned
by boosted trees on log(measured / physical) and clipped to ±0.7, so that no answer differs from physics by more than a
factor of two. Measured convolutions take down to 0.68 of the time of their direct FLOPs (Winograd): hence 0.6.

It is learned twice: first for each GPU alone, then, for convolutions, with the predictions of the models of the *other*
GPUs as further columns. They have seen other shapes, and libraries choose the same algorithms on many GPUs.

Intervals: layers of one GPU are exchangeable, so a fifth of them, left out of a fit with half of the trees, gives the
quantile of |log error|, separately for forward and training and for the host's share of the time (small layers are
noisier). Limits: the GPUs, kinds and dtypes that were measured; `unseen_layers.py` is for others.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.layer_terms import HOST, Figures, Shapes, figures_of, layer_columns, layer_terms, shapes_of
from benchmarks.baselines.trees import Trees, TreeSettings, fit_trees
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer

Array = NDArray[np.float64]
Key = tuple[str, Literal["convolution", "dense"], str]
"""GPU, kind, dtype."""

BOUND = 0.6
MAX_CORRECTION = 0.7
HUBER = 0.1
ALONE = TreeSettings(trees=250)
INFORMED = TreeSettings(trees=500, learning_rate=0.08)
KINDS_WITH_SECOND_ROUND = ("convolution",)
"""Kinds that have a second round. Dense layers gained nothing by it: their residual is noise."""
HELD_OUT_OF = 5
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerModel:
    """c and r of one GPU alone; c by the names of the terms, without those that are zero."""

    gpu: str
    kind: Literal["convolution", "dense"]
    dtype: str
    coefficients: Mapping[str, float]
    trees: Trees

    def parts(self, shapes: Shapes, figures: Figures) -> dict[str, Array]:
        """The physical seconds by part of the work, on a GPU with these figures; those of the host under `host`."""
        return parts_of(layer_terms(shapes, figures), self.coefficients)

    def correction(self, shapes: Shapes, figures: Figures, parts: Mapping[str, Array]) -> Array:
        """r, given the parts of the physical time."""
        learned = self.trees.predict(layer_columns(shapes, figures, parts))
        return np.clip(learned, -MAX_CORRECTION, MAX_CORRECTION)

    def log_seconds(self, shapes: Shapes, figures: Figures) -> Array:
        parts = self.parts(shapes, figures)
        return np.asarray(np.log(sum(parts.values())) + self.correction(shapes, figures, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class InformedModel:
    """r of one GPU with the predictions of other GPUs as columns, and the factor of the interval by `_cells`."""

    alone: LayerModel
    trees: Trees
    factors: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersFit:
    """The models of every GPU, kind and dtype."""

    models: tuple[InformedModel, ...]

    def model(self, key: Key) -> InformedModel | None:
        return next((m for m in self.models if (m.alone.gpu, m.alone.kind, m.alone.dtype) == key), None)

    def predict(self, rows: Sequence[MeasuredLayer], gpus: Mapping[str, Gpu]) -> tuple[Array, Array, Array]:
        """Seconds of every row with the ends of its 90% interval; NaN where there is no model.

        The seconds in the rows are not used.
        """
        answers = np.full((3, len(rows)), np.nan)
        for key, places in by_key(rows).items():
            if (own := self.model(key)) is not None:
                shapes = shapes_of([rows[place] for place in places])
                answers[:, places] = self._predict(own, shapes, gpus)
        return answers[0], answers[1], answers[2]

    def _predict(self, own: InformedModel, shapes: Shapes, gpus: Mapping[str, Gpu]) -> Array:
        gpu = gpus[own.alone.gpu]
        others = _advisers(own.alone, [m.alone for m in self.models])
        columns, base = _informed_columns(own.alone, others, shapes, gpus)
        r = np.clip(own.trees.predict(columns), -MAX_CORRECTION, MAX_CORRECTION)
        seconds = np.maximum(np.exp(base + r), min_seconds(shapes, gpu, own.alone.dtype))
        factor = np.asarray(own.factors)[_cells(shapes, columns["share host"])]
        return np.array([seconds, seconds / factor, seconds * factor])


def fit_layers(
    rows: Sequence[MeasuredLayer],
    gpus: Mapping[str, Gpu],
    *,
    alone: TreeSettings = ALONE,
    informed: TreeSettings = INFORMED,
) -> LayersFit:
    """Both rounds, for every GPU of `gpus` in the rows; rows of other GPUs are ignored."""
    return inform_layers(rows, gpus, fit_alone(rows, gpus, settings=alone), settings=informed)


def fit_alone(
    rows: Sequence[MeasuredLayer], gpus: Mapping[str, Gpu], *, settings: TreeSettings = ALONE
) -> tuple[LayerModel, ...]:
    """The first round."""
    keys = by_key(rows)
    return tuple(
        _fit_alone(key, [rows[place] for place in places], gpus[key[0]], settings)
        for key, places in keys.items()
        if key[0] in gpus
    )


def inform_layers(
    rows: Sequence[MeasuredLayer],
    gpus: Mapping[str, Gpu],
    models: Sequence[LayerModel],
    *,
    settings: TreeSettings = INFORMED,
) -> LayersFit:
    """The second round, with the models of the first."""
    keys = by_key(rows)
    informed = []
    for model in models:
        own = [rows[place] for place in keys[(model.gpu, model.kind, model.dtype)]]
        informed.append(_fit_informed(model, _advisers(model, models), own, gpus, settings))
    return LayersFit(models=tuple(informed))


def by_key(rows: Sequence[MeasuredLayer]) -> dict[Key, list[int]]:
    """The indices of the rows of each GPU, kind and dtype."""
    keys: dict[Key, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        keys[(row.gpu, row.kind, row.dtype)].append(place)
    return dict(keys)


def min_seconds(shapes: Shapes, gpu: Gpu, dtype: str) -> Array:
    """The lower bound of the time of the arithmetic, at nominal peak."""
    computed = shapes.flops * (1 + 2 * shapes.trained) / gpu.peak_flops_per_second(dtype)
    return np.asarray(BOUND * computed)


def parts_of(terms: Mapping[str, Array], coefficients: Mapping[str, float]) -> dict[str, Array]:
    """c_j · term_j, summed for the host, the three products, the optimiser and other passes over memory."""
    zero = np.zeros_like(next(iter(terms.values())))
    parts = dict.fromkeys((HOST, "forward", "data", "weight", "optimizer", "passes"), zero)
    for name, coefficient in coefficients.items():
        first, _, rest = name.partition(" ")
        part = rest.split()[0] if first in ("product", "convolved") else first
        part = part if part in parts else "passes"
        parts[part] = parts[part] + coefficient * terms[name]
    return parts


def fit_physics(terms: Mapping[str, Array], seconds: Array) -> dict[str, float]:
    """c ≥ 0 that minimise Σ weight·(Σ_j c_j·term_j / t − 1)², the weights Huber's in three rounds."""
    from scipy.optimize import nnls

    names = [name for name, term in terms.items() if np.any(term > 0)]
    relative = np.stack([terms[name] / seconds for name in names], axis=1)
    # Columns of similar size keep the solver's tolerance meaningful.
    scale = np.sqrt(np.mean(relative**2, axis=0))
    weight = np.ones(len(seconds))
    for _ in range(3):
        root = np.sqrt(weight)[:, None]
        c, _rest = nnls(relative / scale * root, root[:, 0], maxiter=100 * len(names))
        error = np.abs(relative / scale @ c - 1)
        weight = np.minimum(1, HUBER / np.maximum(error, 1e-9))
    return {name: float(f"{c_j / s:.6g}") for name, c_j, s in zip(names, c, scale, strict=True) if c_j > 0}


def _fit_alone(key: Key, rows: Sequence[MeasuredLayer], gpu: Gpu, settings: TreeSettings) -> LayerModel:
    shapes, figures = shapes_of(rows), figures_of(gpu, key[2])
    seconds = np.array([row.seconds for row in rows])
    terms = layer_terms(shapes, figures)
    coefficients = fit_physics(terms, seconds)
    parts = parts_of(terms, coefficients)
    r = _clipped(np.log(seconds / sum(parts.values())))
    trees = fit_trees(layer_columns(shapes, figures, parts), r, _robust(settings, key[1]))
    return LayerModel(gpu=key[0], kind=key[1], dtype=key[2], coefficients=coefficients, trees=trees)


def _robust(settings: TreeSettings, kind: str) -> TreeSettings:
    """Dense layers are short and their times jump with the host, so trees predict the median instead of the mean."""
    return replace(settings, loss="absolute_error", min_leaf_rows=20) if kind == "dense" else settings


def _clipped(r: Array) -> Array:
    return np.clip(r, -MAX_CORRECTION, MAX_CORRECTION)


def _advisers(model: LayerModel, models: Sequence[LayerModel]) -> list[LayerModel]:
    own = (model.gpu, model.dtype)
    return [m for m in models if m.kind == model.kind in KINDS_WITH_SECOND_ROUND and (m.gpu, m.dtype) != own]


def _informed_columns(
    model: LayerModel, others: Sequence[LayerModel], shapes: Shapes, gpus: Mapping[str, Gpu]
) -> tuple[dict[str, Array], Array]:
    """The columns with the predictions of other GPUs, relative to the physical log seconds, and these log seconds."""
    figures = figures_of(gpus[model.gpu], model.dtype)
    parts = model.parts(shapes, figures)
    base = np.log(sum(parts.values()))
    columns = layer_columns(shapes, figures, parts)
    predictions = []
    for other in others:
        predictions.append(other.log_seconds(shapes, figures_of(gpus[other.gpu], other.dtype)) - base)
        columns[f"from {other.gpu} {other.dtype}"] = predictions[-1]
    if predictions:
        columns["from all"] = np.mean(predictions, axis=0)
    return columns, np.asarray(base)


def _fit_informed(
    model: LayerModel,
    others: Sequence[LayerModel],
    rows: Sequence[MeasuredLayer],
    gpus: Mapping[str, Gpu],
    settings: TreeSettings,
) -> InformedModel:
    shapes = shapes_of(rows)
    columns, base = _informed_columns(model, others, shapes, gpus)
    r = np.log(np.array([row.seconds for row in rows])) - base
    settings = _robust(settings, model.kind)
    trees = fit_trees(columns, _clipped(r), settings) if others else model.trees
    factors = _factors(columns, r, _cells(shapes, columns["share host"]), settings)
    return InformedModel(alone=model, trees=trees, factors=factors)


CELLS = 6


def _cells(shapes: Shapes, host_share: Array) -> NDArray[np.intp]:
    """The cell of a layer: forward or training, and a host share below 10%, below half or above."""
    return (3 * shapes.trained + (host_share > 0.1) + (host_share > 0.5)).astype(np.intp)


def _factors(
    columns: Mapping[str, Array], r: Array, cells: NDArray[np.intp], settings: TreeSettings
) -> tuple[float, ...]:
    """The conformal factor of every cell; a cell with few held-out rows has that of all.

    Fewer than ten rows cannot be split: then the factor is that of the largest correction.
    """
    if len(r) < 2 * HELD_OUT_OF:
        return (float(np.exp(MAX_CORRECTION)),) * CELLS
    held_out = np.arange(len(r)) % HELD_OUT_OF == 0
    fitted = {name: column[~held_out] for name, column in columns.items()}
    trees = fit_trees(fitted, _clipped(r[~held_out]), replace(settings, trees=settings.trees // 2))
    queried = {name: column[held_out] for name, column in columns.items()}
    error = np.abs(r[held_out] - _clipped(trees.predict(queried)))
    cell = cells[held_out]
    return tuple(
        float(np.exp(_quantile(error[cell == each] if np.sum(cell == each) >= 40 else error))) for each in range(CELLS)
    )


def _quantile(errors: Array) -> float:
    """The conformal quantile, with the finite-sample correction: the ⌈(n + 1)·confidence⌉-th smallest."""
    place = min(int(np.ceil((len(errors) + 1) * CONFIDENCE)), len(errors)) - 1
    return float(np.sort(errors)[place])
