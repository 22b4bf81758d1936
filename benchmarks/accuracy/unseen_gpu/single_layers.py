"""Single layers on a left-out GPU, with no, one and ten layers of the kind measured on it.

Each GPU of the tested folder in turn is left out of the fit. The layers that are measured on it are chosen by shape
alone, the smallest first, and are not tested.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.judged import Judged
from benchmarks.baselines.layer_terms import HOST, figures_of, layer_terms, shapes_of
from benchmarks.baselines.layers import LayerModel, by_key, fit_alone, fit_physics, parts_of
from benchmarks.baselines.stepwise import fit_stepwise
from benchmarks.baselines.unseen_layers import MEASURED_COUNTS, SEVERAL, fit_panel, layers_to_measure
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.measurements.single_layers import KINDS, SOURCE, single_layers
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer

Array = NDArray[np.float64]
KEY = f"unseen_gpu/{SOURCE}"
TESTED_ROWS = 2000
"""Evenly spaced rows of one GPU, kind and dtype: enough for a mean, and fast."""
Answers = dict[str, Array]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    gpus = load_gpus()
    known = [row for row in single_layers(fit) if row.gpu in gpus]
    tested = list(single_layers(test)) if test else known
    unknown = sorted({row.gpu for row in tested} - set(gpus))
    models = fit_alone(known, gpus)
    parts: dict[tuple[str, str], list[Answers]] = {}
    for (name, kind, dtype), places in by_key(tested).items():
        own = [tested[place] for place in places][:: max(len(places) // TESTED_ROWS, 1)]
        others = [model for model in models if (model.kind, model.dtype) == (kind, dtype) and model.gpu != name]
        if name in gpus and others:
            for given, answers in _answers(others, known, own, gpus[name], gpus):
                parts.setdefault((given, kind), []).append(answers)
    if not parts:
        raise FileNotFoundError(f"{(test or fit) / SOURCE} has no layer on a GPU that another one could predict")
    note = f"; skipped, since not in the catalog: {', '.join(unknown)}" if unknown else ""
    for given, count in MEASURED_COUNTS.items():
        given_note = f"{count} measured layers of the kind" + note
        for part in ("", *KINDS):
            found = [a for each in KINDS if part in ("", each) for a in parts.get((given, each), [])]
            if found:
                yield _judged(f"{KEY}/{given}/{part}".rstrip("/"), found, given_note)


def _judged(key: str, found: Sequence[Answers], note: str) -> Judged:
    joined = {name: np.concatenate([answers[name] for answers in found]) for name in found[0]}
    truth, ours, low, high = (joined.pop(name) for name in ("truth", "ours", "low", "high"))
    return Judged.of(key, truth, ours, low, high, baselines=joined, note=note)


def _answers(
    models: Sequence[LayerModel],
    known: Sequence[MeasuredLayer],
    rows: Sequence[MeasuredLayer],
    gpu: Gpu,
    gpus: Mapping[str, Gpu],
) -> Iterator[tuple[str, Answers]]:
    """Our answers and the baselines on a GPU that is not in the models, by the number of measured layers."""
    kind, dtype = models[0].kind, models[0].dtype
    names = {model.gpu for model in models}
    sources = [row for row in known if row.gpu in names and (row.kind, row.dtype) == (kind, dtype)]
    panel = fit_panel(models, sources, gpus)
    baselines = {
        "nearest GPU × peak ratio": nearest_gpu(models, rows, gpu, gpus),
        "shared NNLS on nominal specs": shared_nnls(sources[:: max(len(sources) // 8000, 1)], rows, gpu, gpus),
        "end-to-end regression": end_to_end(sources, rows, gpu, gpus),
    }
    measured_rows = set(layers_to_measure(rows, SEVERAL)) | set(layers_to_measure(rows, 1))
    judged = np.array([place for place in range(len(rows)) if place not in measured_rows], dtype=np.intp)
    truth = np.array([row.seconds for row in rows])[judged]
    for given, count in MEASURED_COUNTS.items():
        measured = [rows[place] for place in layers_to_measure(rows, count)]
        ours = panel.predict(rows, gpu, gpus, measured)[judged]
        factor = panel.factor(count)
        yield (
            given,
            {"truth": truth, "ours": ours, "low": ours / factor, "high": ours * factor}
            | {
                name: _offset(answers, rows, layers_to_measure(rows, count))[judged]
                for name, answers in baselines.items()
            },
        )


def _offset(answers: Array, rows: Sequence[MeasuredLayer], measured: Sequence[int]) -> Array:
    """A baseline, scaled by its median ratio on the measured layers."""
    if not measured:
        return answers
    off = [np.log(rows[place].seconds / answers[place]) for place in measured]
    return np.asarray(answers * np.exp(np.median(off)))


def nearest_gpu(
    models: Sequence[LayerModel], rows: Sequence[MeasuredLayer], gpu: Gpu, gpus: Mapping[str, Gpu]
) -> Array:
    """The times of the known GPU with the nearest peak, scaled by the ratio of the peaks."""
    dtype = models[0].dtype
    peak = gpu.peak_flops_per_second(dtype)
    nearest = min(models, key=lambda model: abs(np.log(gpus[model.gpu].peak_flops_per_second(dtype) / peak)))
    own = gpus[nearest.gpu]
    seconds = np.exp(nearest.log_seconds(shapes_of(rows), figures_of(own, dtype)))
    return np.asarray(seconds * own.peak_flops_per_second(dtype) / peak)


def _nominal_terms(rows: Sequence[MeasuredLayer], gpu: Gpu) -> dict[str, Array]:
    """Host, FLOPs over peak and bytes over bandwidth, separately for forward and training."""
    shapes = shapes_of(rows)
    host = {name: term for name, term in layer_terms(shapes, figures_of(gpu, rows[0].dtype)).items() if HOST in name}
    computed = shapes.flops / gpu.peak_flops_per_second(rows[0].dtype)
    moved = 4 * (shapes.x + shapes.y + shapes.w) / (gpu.memory_gb_per_second * 1e9)
    return {
        **host,
        "flops": computed,
        "flops training": computed * shapes.trained,
        "bytes": moved,
        "bytes training": moved * shapes.trained,
    }


def shared_nnls(
    sources: Sequence[MeasuredLayer], rows: Sequence[MeasuredLayer], gpu: Gpu, gpus: Mapping[str, Gpu]
) -> Array:
    """One non-negative fit over all known GPUs on nominal figures."""
    places = by_key(sources)
    each = [[sources[place] for place in own] for own in places.values()]
    terms = [_nominal_terms(own, gpus[own[0].gpu]) for own in each]
    joined = {name: np.concatenate([own[name] for own in terms]) for name in terms[0]}
    c = fit_physics(joined, np.array([row.seconds for own in each for row in own]))
    return np.asarray(sum(parts_of(_nominal_terms(rows, gpu), c).values()))


def end_to_end(
    sources: Sequence[MeasuredLayer], rows: Sequence[MeasuredLayer], gpu: Gpu, gpus: Mapping[str, Gpu]
) -> Array:
    """The stepwise regression of the documents, with the layer's work instead of the network's iterations."""

    def columns(these: Sequence[MeasuredLayer], of: Sequence[Gpu]) -> dict[str, list[float]]:
        shapes = shapes_of(these)
        return {
            "batch_size": shapes.batch.tolist(),
            "gflop": (shapes.flops * (1 + 2 * shapes.trained) / 1e9).tolist(),
            "gbyte": ((shapes.x + shapes.y + shapes.w) * 4e-9).tolist(),
            "trained": (1 + shapes.trained).tolist(),
            "gflops_per_second": [g.peak_flops_per_second(row.dtype) / 1e9 for row, g in zip(these, of, strict=True)],
            "gbyte_per_second": [g.memory_gb_per_second for g in of],
        }

    fit = fit_stepwise(columns(sources, [gpus[row.gpu] for row in sources]), [row.seconds for row in sources])
    return fit.predict(columns(rows, [gpu] * len(rows)))
