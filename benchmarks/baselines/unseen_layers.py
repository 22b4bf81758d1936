"""The time of a single layer on a GPU on which no layer, or only a few, were measured.

Every known GPU g predicts the time with its own coefficients and the figures of the target GPU:

    t_g = (host + device_g) · exp(r_g)        log device_g = α·log(at the target's figures) + (1 − α)·log(at those of g)

and the answer is the mean of log t_g with weight_g = ρ^(−generations between g and the target): libraries have
different kernels for every generation. α ≤ 1 damps the ratio of the figures: where latency and libraries dominate, GPUs
differ by less than their figures do. r_g is learned on g (`layers.py`) and depends on no figure.

The figures of a GPU do not predict the host's part; it is the median of the known GPUs until layers are measured:

1. layers that are mostly host time determine it: host + s, s the median of t − device − host, separately for forward
   and training;
2. the other layers update the weights, weight_g ∝ weight_g · (τ² + mean error²)^(−n/4), and the offset of each GPU,
   device_g · exp(Σ log errors / (n + λ)).

Errors are those of the device's part. One measured layer of another size has little information, so λ = 3.

Interval: each known GPU is predicted as if it were unseen, from one GPU fewer than the target has, and each weighs the
same (`typical_factor`). The choice of measured layers is random too, and one draw of ten may be lucky on all known GPUs
at once: each is predicted with several draws.
Limits: only float32 of Kepler to Volta under TensorFlow 1 was tested.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.layer_terms import HOST, Shapes, figures_of, layer_terms, shapes_of
from benchmarks.baselines.layers import LayerModel, min_seconds, parts_of
from trainfare.estimator.fitting.conformal import typical_factor
from trainfare.estimator.gpu.similarity import generations_apart
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer

Array = NDArray[np.float64]

DAMPING = 0.9
"""α."""
GENERATION_FACTOR = 5.0
"""ρ. Both were chosen on these six GPUs, where 0.8 to 0.9 and 3 to 8 hardly differ (docs/experiments/0099)."""
SHRINKAGE = 3.0
"""λ."""
NOISE = 0.1
"""τ: smaller errors do not distinguish the known GPUs."""
MIN_HOST_SHARE = 0.6
"""Share of host time above which a layer determines the host's part."""
SEVERAL = 10
DRAWS = 5
"""Draws of measured layers on each known GPU, for the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPanel:
    """The known GPUs of one kind of layer and dtype."""

    models: tuple[LayerModel, ...]
    host: Mapping[str, float]
    """Coefficients of the host's terms: the median of the known GPUs."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Factors of the interval by the number of measured layers: `0`, `1`, `few`."""

    def predict(
        self, rows: Sequence[MeasuredLayer], gpu: Gpu, gpus: Mapping[str, Gpu], measured: Sequence[MeasuredLayer] = ()
    ) -> Array:
        """Seconds of rows on `gpu`, of which there is no model; `measured` were measured on it."""
        dtype = self.models[0].dtype
        shapes = shapes_of(rows)
        predictions = [_predict_from(self, model, shapes, gpu, gpus) for model in self.models]
        weights = np.array([_prior_weight(gpus[model.gpu], gpu) for model in self.models])
        shift, offsets = np.zeros(2), np.zeros(len(predictions))
        if measured:
            shift, offsets, weights = _adapted(self, measured, gpu, gpus, weights)
        logs = [
            np.log(_shifted(prediction.host, shift, shapes.trained) + prediction.device * np.exp(offset)) + prediction.r
            for prediction, offset in zip(predictions, offsets, strict=True)
        ]
        seconds = np.exp(np.average(logs, axis=0, weights=weights))
        return np.asarray(np.maximum(seconds, min_seconds(shapes, gpu, dtype)))

    def factor(self, measured: int) -> float:
        """The factor of the 90% interval after a number of measured layers."""
        return self.factors["0" if measured == 0 else "1" if measured < SEVERAL else "few"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuPrediction:
    """The prediction of one known GPU: the host's and the device's part without measurements, and r."""

    host: Array
    device: Array
    r: Array


def _predict_from(
    panel: LayerPanel, model: LayerModel, shapes: Shapes, gpu: Gpu, gpus: Mapping[str, Gpu]
) -> GpuPrediction:
    target, own = figures_of(gpu, model.dtype), figures_of(gpus[model.gpu], model.dtype)
    terms = layer_terms(shapes, target)
    parts = parts_of(terms, {**_device(model.coefficients), **panel.host})
    device = _device_seconds(parts)
    damped = np.exp(DAMPING * np.log(device) + (1 - DAMPING) * np.log(_device_seconds(model.parts(shapes, own))))
    shown = {name: part if name == HOST else part * damped / device for name, part in parts.items()}
    return GpuPrediction(host=parts[HOST], device=damped, r=model.correction(shapes, target, shown))


def _device(coefficients: Mapping[str, float]) -> dict[str, float]:
    return {name: c for name, c in coefficients.items() if not name.startswith(HOST)}


def _device_seconds(parts: Mapping[str, Array]) -> Array:
    return np.maximum(sum(part for name, part in parts.items() if name != HOST), 1e-9)


def _prior_weight(known: Gpu, target: Gpu) -> float:
    return math.pow(GENERATION_FACTOR, -generations_apart(known, target))


def _adapted(
    panel: LayerPanel, measured: Sequence[MeasuredLayer], gpu: Gpu, gpus: Mapping[str, Gpu], weights: Array
) -> tuple[Array, Array, Array]:
    """s of forward and of training, the offset and the weight of every model: steps 1 and 2 of the module."""
    shapes, seconds = shapes_of(measured), np.array([row.seconds for row in measured])
    predictions = [_predict_from(panel, model, shapes, gpu, gpus) for model in panel.models]
    host = predictions[0].host
    device = np.exp(
        np.average([np.log(prediction.device) + prediction.r for prediction in predictions], axis=0, weights=weights)
    )
    host_dominated = host > MIN_HOST_SHARE * (host + device)
    shift = _host_shift(host[host_dominated], (seconds - device)[host_dominated], shapes.trained[host_dominated])
    host = _shifted(host, shift, shapes.trained)
    others = ~host_dominated & (seconds > 1.1 * host)
    n = int(others.sum())
    if n == 0:
        return shift, np.zeros(len(predictions)), weights
    errors = np.array(
        [np.log((seconds * np.exp(-p.r) - host).clip(0.05 * seconds) / p.device)[others] for p in predictions]
    )
    errors = np.clip(errors, -1.5, 1.5)
    offsets = errors.sum(axis=1) / (n + SHRINKAGE)
    left = np.mean((errors - offsets[:, None]) ** 2, axis=1)
    return shift, offsets, weights * (NOISE**2 + left) ** (-n / 4)


def _host_shift(host: Array, seconds: Array, trained: Array) -> Array:
    """s of forward and of training; without measurements of one, both are equal."""
    shifts = [np.median((seconds - host)[trained == each]) for each in (0, 1) if np.any(trained == each)]
    return np.array(shifts if len(shifts) == 2 else (shifts or [0.0]) * 2, dtype=np.float64)


def _shifted(host: Array, shift: Array, trained: Array) -> Array:
    """The host's part after its shift, at least a third of its value before."""
    return np.asarray(np.maximum(host + shift[trained.astype(np.intp)], host / 3))


def layers_to_measure(rows: Sequence[MeasuredLayer], count: int) -> list[int]:
    """The indices of the most informative rows, by their shapes alone.

    First a small forward layer, which is host time only; of more than four, two such and two small training layers; the
    rest evenly from small to large. Small is near the second percentile: the very smallest are atypical.
    """
    shapes = shapes_of(rows)
    work = shapes.flops * (1 + 2 * shapes.trained) / 1e13 + (shapes.x + shapes.y + shapes.w) * 4 / 3e11
    order = np.argsort(work, kind="stable")
    forward, trained = order[shapes.trained[order] == 0], order[shapes.trained[order] == 1]
    small = [_at(forward, 0.02), _at(forward, 0.04), _at(trained, 0.02), _at(trained, 0.04)]
    spread = [_at(order, share) for share in np.linspace(0.3, 0.95, max(count - 4, 0))]
    chosen = [*small[:count], *spread]
    return list(dict.fromkeys(place for place in chosen if place is not None))


def _at(order: NDArray[np.intp], share: float) -> int | None:
    return int(order[int(share * (len(order) - 1))]) if len(order) else None


def fit_panel(
    models: Sequence[LayerModel], rows: Sequence[MeasuredLayer], gpus: Mapping[str, Gpu], *, each: int = 400
) -> LayerPanel:
    """A panel of models of one kind and dtype, with factors from about `each` evenly spaced rows per GPU and draw.

    A single GPU cannot be left out: then the factors are the error of a roofline, 2.7.
    """
    if not models or len({(model.kind, model.dtype) for model in models}) != 1:
        raise ValueError("a panel needs models of one kind and dtype")
    drawn = {model.gpu: samples(model, rows, each) for model in models}
    if len(models) == 1:
        return _panel(models, dict.fromkeys(("0", "1", "few"), 2.7))
    return _panel(models, _factors(models, drawn, gpus))


def samples(model: LayerModel, rows: Sequence[MeasuredLayer], each: int) -> list[list[MeasuredLayer]]:
    """One sample of rows per draw, disjoint where there are enough rows."""
    own = [row for row in rows if (row.gpu, row.kind, row.dtype) == (model.gpu, model.kind, model.dtype)]
    apart = max(len(own) // each, 1)
    starts = dict.fromkeys(draw * apart // DRAWS for draw in range(DRAWS))
    return [own[start::apart] for start in starts]


def _panel(models: Sequence[LayerModel], factors: Mapping[str, float] | None = None) -> LayerPanel:
    names = list(dict.fromkeys(name for m in models for name in m.coefficients if name.startswith(HOST)))
    host = {name: float(np.median([m.coefficients.get(name, 0.0) for m in models])) for name in names}
    return LayerPanel(models=tuple(models), host=host, factors=factors or {})


MeasuredCount = Literal["0", "1", "few"]
MEASURED_COUNTS: Mapping[MeasuredCount, int] = {"0": 0, "1": 1, "few": SEVERAL}


def _factors(
    models: Sequence[LayerModel], drawn: Mapping[str, list[list[MeasuredLayer]]], gpus: Mapping[str, Gpu]
) -> dict[str, float]:
    errors: dict[str, list[float]] = {given: [] for given in MEASURED_COUNTS}
    groups: list[str] = []
    for model in models:
        panel = _panel([other for other in models if other.gpu != model.gpu])
        for rows in drawn[model.gpu]:
            truth = np.array([row.seconds for row in rows])
            for given, count in MEASURED_COUNTS.items():
                measured = [rows[place] for place in layers_to_measure(rows, count)]
                predicted = panel.predict(rows, gpus[model.gpu], gpus, measured)
                errors[given] += np.log(predicted / truth).tolist()
            groups += [model.gpu] * len(rows)
    return {given: typical_factor(of, groups) for given, of in errors.items()}
