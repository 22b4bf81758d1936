"""Time of a single layer on a GPU where other layers were measured.

    t = max( 0.6 · FLOPs/peak,  (Σ_j c_j · term_j) · exp(r) )

The sum is physical (`layer_terms.py`; c ≥ 0, by least squares on the relative error with Huber weights); r is learned
by boosted trees on log(measured / physical) and clipped to ±0.7, so that no answer leaves physics by more than a factor
of two. Measured convolutions go down to 0.68 of the time of their direct FLOPs (Winograd): hence 0.6.

It is learned twice. First for each GPU alone. Then, for convolutions, once more with what the models of the *other*
GPUs would say of the layer as further columns: they have seen other shapes, and libraries choose alike on many GPUs.

Intervals: layers of one GPU are exchangeable, so a fifth of them, kept out of a fit with half of the trees, gives the
quantile of |log error|, apart for forward and training and for how much of the time is the host's (small layers are
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
FARTHEST = 0.7
HUBER = 0.1
ALONE = TreeSettings(trees=250)
INFORMED = TreeSettings(trees=500, learning_rate=0.08)
ADVISED = ("convolution",)
"""Kinds that have a second round. Dense layers gained nothing by it: what is left of them is noise."""
HELD_OUT_OF = 5
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerModel:
    """c and r of one GPU by itself; c by the names of the terms, those that are zero left out."""

    gpu: str
    kind: Literal["convolution", "dense"]
    dtype: str
    coefficients: Mapping[str, float]
    trees: Trees

    def parts(self, shapes: Shapes, figures: Figures) -> dict[str, Array]:
        """The physical seconds by what they are spent on, on a GPU of these figures; the host's under `host`."""
        return parts_of(layer_terms(shapes, figures), self.coefficients)

    def correction(self, shapes: Shapes, figures: Figures, parts: Mapping[str, Array]) -> Array:
        """r, given the parts that the physical time is made of."""
        learned = self.trees.predict(layer_columns(shapes, figures, parts))
        return np.clip(learned, -FARTHEST, FARTHEST)

    def log_seconds(self, shapes: Shapes, figures: Figures) -> Array:
        parts = self.parts(shapes, figures)
        return np.asarray(np.log(sum(parts.values())) + self.correction(shapes, figures, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class InformedModel:
    """r of one GPU with what other GPUs say as columns, and the factor of the interval by `_cells`."""

    alone: LayerModel
    trees: Trees
    factors: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersFit:
    """What was learned of every GPU, kind and dtype."""

    models: tuple[InformedModel, ...]

    def model(self, key: Key) -> InformedModel | None:
        return next((m for m in self.models if (m.alone.gpu, m.alone.kind, m.alone.dtype) == key), None)

    def predict(self, rows: Sequence[MeasuredLayer], gpus: Mapping[str, Gpu]) -> tuple[Array, Array, Array]:
        """Seconds of every row with the low and high end of its 90 % interval; NaN where nothing was learned.

        The seconds in the rows are not looked at.
        """
        answers = np.full((3, len(rows)), np.nan)
        for key, places in by_key(rows).items():
            if (own := self.model(key)) is not None:
                shapes = shapes_of([rows[place] for place in places])
                answers[:, places] = self._predict(own, shapes, gpus)
        return answers[0], answers[1], answers[2]

    def _predict(self, own: InformedModel, shapes: Shapes, gpus: Mapping[str, Gpu]) -> Array:
        gpu = gpus[own.alone.gpu]
        alike = _advisers(own.alone, [m.alone for m in self.models])
        columns, base = _informed_columns(own.alone, alike, shapes, gpus)
        r = np.clip(own.trees.predict(columns), -FARTHEST, FARTHEST)
        seconds = np.maximum(np.exp(base + r), least_seconds(shapes, gpu, own.alone.dtype))
        factor = np.asarray(own.factors)[_cells(shapes, columns["share host"])]
        return np.array([seconds, seconds / factor, seconds * factor])


def fit_layers(
    rows: Sequence[MeasuredLayer],
    gpus: Mapping[str, Gpu],
    *,
    alone: TreeSettings = ALONE,
    informed: TreeSettings = INFORMED,
) -> LayersFit:
    """Both rounds, for every GPU of `gpus` that the rows name; rows of other GPUs are passed over."""
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
    """The places of the rows of each GPU, kind and dtype."""
    keys: dict[Key, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        keys[(row.gpu, row.kind, row.dtype)].append(place)
    return dict(keys)


def least_seconds(shapes: Shapes, gpu: Gpu, dtype: str) -> Array:
    """What the arithmetic takes at least, at nominal peak."""
    computed = shapes.flops * (1 + 2 * shapes.trained) / gpu.peak_flops_per_second(dtype)
    return np.asarray(BOUND * computed)


def parts_of(terms: Mapping[str, Array], coefficients: Mapping[str, float]) -> dict[str, Array]:
    """c_j · term_j, added up by the host, the three products, the optimiser and other passes over memory."""
    nothing = np.zeros_like(next(iter(terms.values())))
    parts = dict.fromkeys((HOST, "forward", "data", "weight", "optimizer", "passes"), nothing)
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
    # A column in its own unit keeps the solver's tolerance meaningful.
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
    """Dense layers are short and their times jump with the host: trees follow the middle, not the mean."""
    return replace(settings, loss="absolute_error", min_leaf_rows=20) if kind == "dense" else settings


def _clipped(r: Array) -> Array:
    return np.clip(r, -FARTHEST, FARTHEST)


def _advisers(model: LayerModel, models: Sequence[LayerModel]) -> list[LayerModel]:
    own = (model.gpu, model.dtype)
    return [m for m in models if m.kind == model.kind in ADVISED and (m.gpu, m.dtype) != own]


def _informed_columns(
    model: LayerModel, alike: Sequence[LayerModel], shapes: Shapes, gpus: Mapping[str, Gpu]
) -> tuple[dict[str, Array], Array]:
    """The columns of the model with `from <gpu>` of each other one, relative to the physical log seconds, and those."""
    figures = figures_of(gpus[model.gpu], model.dtype)
    parts = model.parts(shapes, figures)
    base = np.log(sum(parts.values()))
    columns = layer_columns(shapes, figures, parts)
    said = []
    for other in alike:
        said.append(other.log_seconds(shapes, figures_of(gpus[other.gpu], other.dtype)) - base)
        columns[f"from {other.gpu} {other.dtype}"] = said[-1]
    if said:
        columns["from all"] = np.mean(said, axis=0)
    return columns, np.asarray(base)


def _fit_informed(
    model: LayerModel,
    alike: Sequence[LayerModel],
    rows: Sequence[MeasuredLayer],
    gpus: Mapping[str, Gpu],
    settings: TreeSettings,
) -> InformedModel:
    shapes = shapes_of(rows)
    columns, base = _informed_columns(model, alike, shapes, gpus)
    r = np.log(np.array([row.seconds for row in rows])) - base
    settings = _robust(settings, model.kind)
    trees = fit_trees(columns, _clipped(r), settings) if alike else model.trees
    factors = _factors(columns, r, _cells(shapes, columns["share host"]), settings)
    return InformedModel(alone=model, trees=trees, factors=factors)


CELLS = 6


def _cells(shapes: Shapes, host_share: Array) -> NDArray[np.intp]:
    """Forward or training, times whether the host has under a tenth, under half or most of the time."""
    return (3 * shapes.trained + (host_share > 0.1) + (host_share > 0.5)).astype(np.intp)


def _factors(columns: Mapping[str, Array], r: Array, cells: NDArray[np.intp], settings: TreeSettings) -> tuple[float, ...]:
    """The conformal factor of every cell; one with few held-out rows takes that of all.

    Fewer than ten rows cannot be split: then it is as far as the correction may go.
    """
    if len(r) < 2 * HELD_OUT_OF:
        return (float(np.exp(FARTHEST)),) * CELLS
    held_out = np.arange(len(r)) % HELD_OUT_OF == 0
    kept = {name: column[~held_out] for name, column in columns.items()}
    trees = fit_trees(kept, _clipped(r[~held_out]), replace(settings, trees=settings.trees // 2))
    asked = {name: column[held_out] for name, column in columns.items()}
    error = np.abs(r[held_out] - _clipped(trees.predict(asked)))
    cell = cells[held_out]
    return tuple(
        float(np.exp(_quantile(error[cell == each] if np.sum(cell == each) >= 40 else error))) for each in range(CELLS)
    )


def _quantile(errors: Array) -> float:
    """With the correction for a finite sample: the ⌈(n + 1)·confidence⌉-th smallest."""
    place = min(int(np.ceil((len(errors) + 1) * CONFIDENCE)), len(errors)) - 1
    return float(np.sort(errors)[place])
