"""Single layers on measured GPUs, with the layers left out: `single_layers_six_gpus`.

Without a test folder every fourth layer of each file is held out. With one, its layers are predicted on the GPUs, kinds
and dtypes of the fit folder; a layer that is in both folders is left out of the fit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.judged import Judged
from benchmarks.baselines.layer_regression import fit_layer_regression
from benchmarks.baselines.layer_terms import figures_of, layer_terms, roofline_seconds, shapes_of
from benchmarks.baselines.layers import by_key, fit_layers, fit_physics, min_seconds, parts_of
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.measurements.single_layers import KINDS, SOURCE, single_layers
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer

Array = NDArray[np.float64]
KEY = f"layers/{SOURCE}"

Baseline = Callable[[Sequence[MeasuredLayer], Sequence[MeasuredLayer], Gpu, str], Array]
"""A function of the known rows, the rows to predict, the GPU and the dtype, which returns seconds."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    gpus = load_gpus()
    known, asked, note = split(fit, test, gpus)
    truth = np.array([row.seconds for row in asked])
    ours, low, high = fit_layers(known, gpus).predict(asked, gpus)
    baselines = {
        "per-layer regression": fit_layer_regression(known).predict(asked),
        "FLOPs and bytes": by_model(known, asked, gpus, flops_and_bytes),
        "roofline": by_model(known, asked, gpus, roofline),
        "bounded NNLS": by_model(known, asked, gpus, bounded_nnls),
    }
    kinds = np.array([row.kind for row in asked])
    for part in ("", *KINDS):
        here = kinds == part if part else np.ones(len(asked), dtype=bool)
        if here.any():
            yield Judged.of(
                f"{KEY}/{part}" if part else KEY,
                truth[here],
                ours[here],
                low[here],
                high[here],
                baselines={name: answers[here] for name, answers in baselines.items()},
                note=note,
            )


def split(
    fit: Path, test: Path | None, gpus: Mapping[str, Gpu]
) -> tuple[list[MeasuredLayer], list[MeasuredLayer], str]:
    """The rows to fit, the rows to predict, and a note."""
    rows = [row for row in single_layers(fit) if row.gpu in gpus]
    if test is None:
        held_out = {place for places in by_key(rows).values() for place in places[::4]}
        known = [row for place, row in enumerate(rows) if place not in held_out]
        return known, [rows[place] for place in sorted(held_out)], "every fourth layer of a file held out"
    tested = single_layers(test)
    keys = set(by_key(rows))
    asked = [row for row in tested if (row.gpu, row.kind, row.dtype) in keys]
    if not asked:
        raise FileNotFoundError(f"{test / SOURCE} has no layer on a GPU of {fit / SOURCE}")
    left = sorted({row.gpu for row in tested if (row.gpu, row.kind, row.dtype) not in keys})
    judged = set(asked)
    known = [row for row in rows if row not in judged]
    if not known:
        raise FileNotFoundError(f"{fit / SOURCE} has no layer that is not in {test / SOURCE}")
    note = f"skipped, since not in the fit: {', '.join(left)}" if left else ""
    return known, asked, note


def by_model(
    known: Sequence[MeasuredLayer], asked: Sequence[MeasuredLayer], gpus: Mapping[str, Gpu], baseline: Baseline
) -> Array:
    """The answers of a baseline that is fitted to each GPU, kind and dtype separately."""
    answers = np.full(len(asked), np.nan)
    fitted = by_key(known)
    for key, places in by_key(asked).items():
        if key in fitted:
            own = [known[place] for place in fitted[key]]
            answers[places] = baseline(own, [asked[place] for place in places], gpus[key[0]], key[2])
    return answers


def flops_and_bytes(known: Sequence[MeasuredLayer], asked: Sequence[MeasuredLayer], _gpu: Gpu, _dtype: str, /) -> Array:
    """a + b·FLOPs + c·bytes by least squares on the relative error, separately for forward and training."""

    def columns(rows: Sequence[MeasuredLayer]) -> Array:
        shapes = shapes_of(rows)
        passes = 1 + 2 * shapes.trained
        work = np.stack([np.ones_like(passes), shapes.flops * passes / 1e12, (shapes.x + shapes.y + shapes.w) / 1e9])
        return np.vstack([work * (1 - shapes.trained), work * shapes.trained]).T

    seconds = np.array([row.seconds for row in known])
    found = np.linalg.lstsq(columns(known) / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
    return np.asarray(np.maximum(columns(asked) @ found, seconds.min() / 10))


def roofline(_: Sequence[MeasuredLayer], asked: Sequence[MeasuredLayer], gpu: Gpu, dtype: str, /) -> Array:
    """The roofline without a fit."""
    return roofline_seconds(shapes_of(asked), gpu, dtype)


def bounded_nnls(known: Sequence[MeasuredLayer], asked: Sequence[MeasuredLayer], gpu: Gpu, dtype: str, /) -> Array:
    """The physical sum of our model, without its learned correction."""
    figures, shapes = figures_of(gpu, dtype), shapes_of(asked)
    c = fit_physics(layer_terms(shapes_of(known), figures), np.array([row.seconds for row in known]))
    physical = sum(parts_of(layer_terms(shapes, figures), c).values())
    return np.maximum(physical, min_seconds(shapes, gpu, dtype))
