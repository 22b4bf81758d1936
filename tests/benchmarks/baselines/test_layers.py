"""Layers on GPUs that were measured: the physical terms, the bounded correction and the intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.layer_terms import HOST, figures_of, layer_columns, layer_terms, roofline_seconds, shapes_of
from benchmarks.baselines.layers import LayersFit, fit_layers, fit_physics, min_seconds, parts_of
from benchmarks.baselines.trees import TreeSettings
from tests.benchmarks.baselines.layer_rows import made_gpus, made_layers, make_layer, replace_seconds
from tests.makers import make_gpu

QUICK = TreeSettings(trees=30, depth=4)
GPUS = made_gpus(5.0, 10.0)
ROWS = made_layers(GPUS, 400)


@pytest.fixture(scope="module")
def fit() -> LayersFit:
    return fit_layers(ROWS, GPUS, alone=QUICK, informed=QUICK)


def test_left_out_layers_are_predicted(fit: LayersFit) -> None:
    asked = made_layers(GPUS, 100, seed=1)
    seconds, _, _ = fit.predict(asked, GPUS)
    truth = np.array([row.seconds for row in asked])
    assert np.mean(np.abs(seconds / truth - 1)) < 0.1


def test_interval_covers_about_90_percent(fit: LayersFit) -> None:
    asked = made_layers(GPUS, 300, seed=2)
    seconds, low, high = fit.predict(asked, GPUS)
    truth = np.array([row.seconds for row in asked])
    assert np.all((low < seconds) & (seconds < high))
    assert 0.84 < np.mean((low <= truth) & (truth <= high)) < 0.97


def test_seconds_of_the_queried_rows_are_not_used(fit: LayersFit) -> None:
    asked = made_layers(GPUS, 20, seed=3)
    wrong = [replace_seconds(row, 1e3) for row in asked]
    assert fit.predict(asked, GPUS)[0] == pytest.approx(fit.predict(wrong, GPUS)[0])


def test_unmeasured_gpu_kind_or_dtype_has_no_answer(fit: LayersFit) -> None:
    name = next(iter(GPUS))
    asked = [
        make_layer(gpu="another"),
        make_layer(gpu=name, kind="dense"),
        make_layer(gpu=name, dtype="float16"),
    ]
    assert np.isnan(fit.predict(asked, GPUS)).all()


def test_answer_is_never_below_the_arithmetic_bound(fit: LayersFit) -> None:
    """The layer is far larger than any that was measured."""
    name, gpu = next(iter(GPUS.items()))
    huge = make_layer(gpu=name, batch_size=4096, side=500, channels_in=4000, channels_out=4000, kernel=5)
    seconds, _, _ = fit.predict([huge], GPUS)
    assert seconds[0] >= min_seconds(shapes_of([huge]), gpu, "float32")[0]


def test_single_gpu_can_be_fitted() -> None:
    one = made_gpus(5.0)
    rows = made_layers(one, 60)
    seconds, low, high = fit_layers(rows, one, alone=QUICK, informed=QUICK).predict(rows[:5], one)
    assert np.isfinite([seconds, low, high]).all()


@pytest.mark.parametrize("rows", [1, 3, 12])
def test_few_rows_are_enough_for_an_answer(rows: int) -> None:
    known = made_layers(GPUS, rows)
    asked = made_layers(GPUS, 5, seed=1)
    seconds, low, high = fit_layers(known, GPUS, alone=QUICK, informed=QUICK).predict(asked, GPUS)
    assert np.isfinite([seconds, low, high]).all()
    assert (low < high).all()


def test_rows_of_a_gpu_without_figures_are_ignored() -> None:
    rows = [*ROWS[:60], make_layer(gpu="unknown")]
    fit = fit_layers(rows, GPUS, alone=QUICK, informed=QUICK)
    assert {model.alone.gpu for model in fit.models} <= set(GPUS)


def test_same_rows_give_the_same_answers(fit: LayersFit) -> None:
    again = fit_layers(ROWS, GPUS, alone=QUICK, informed=QUICK)
    assert again.predict(ROWS[:9], GPUS)[0] == pytest.approx(fit.predict(ROWS[:9], GPUS)[0], rel=1e-12)


def test_physical_fit_recovers_the_law_of_the_rows() -> None:
    name, gpu = next(iter(GPUS.items()))
    rows = [row for row in ROWS if row.gpu == name]
    terms = layer_terms(shapes_of(rows), figures_of(gpu, "float32"))
    truth = 1e-4 * terms[HOST] + 5 * terms["optimizer adam"] + 2 * terms["convolved forward flops"]
    c = fit_physics(terms, truth)
    assert sum(parts_of(terms, c).values()) == pytest.approx(truth, rel=1e-3)


shapes = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 64),
        "channels_in": st.integers(1, 512),
        "channels_out": st.integers(1, 512),
        "side": st.integers(8, 200),
        "kernel": st.integers(1, 7),
        "stride": st.integers(1, 4),
        "padded": st.booleans(),
        "bias": st.booleans(),
        "activation": st.sampled_from([None, "relu", "tanh", "sigmoid"]),
        "optimizer": st.sampled_from([None, "sgd", "adadelta", "adagrad", "momentum", "adam", "rmsprop"]),
    }
)


@settings(deadline=None)
@given(shapes, st.sampled_from(["batch_size", "channels_in", "channels_out"]))
def test_more_work_never_lowers_a_term(shape: dict[str, int], which: str) -> None:
    """More work by batch or channels; a larger plane may fit a stride better, and is then less work."""
    figures = figures_of(make_gpu(), "float32")
    less, more = (
        layer_terms(shapes_of([make_layer(**row)]), figures) for row in (shape, {**shape, which: 2 * shape[which]})
    )
    # The gradient of the data is spread over more channels: its depth shrinks by rounding at most.
    assert all(more[name][0] >= less[name][0] * (1 - 1e-9) for name in less)


@settings(deadline=None)
@given(shapes)
def test_training_is_never_less_than_the_forward_pass(shape: dict[str, int]) -> None:
    gpu = make_gpu()
    forward, trained = (shapes_of([make_layer(**{**shape, "optimizer": o})]) for o in (None, "adam"))
    less, more = (layer_terms(of, figures_of(gpu, "float32")) for of in (forward, trained))
    assert all(more[name][0] >= less[name][0] for name in less)
    assert roofline_seconds(trained, gpu, "float32")[0] >= roofline_seconds(forward, gpu, "float32")[0]


@settings(deadline=None)
@given(shapes)
def test_work_in_waves_is_at_least_the_flops(shape: dict[str, int]) -> None:
    of = shapes_of([make_layer(**shape)])
    figures = figures_of(make_gpu(), "float32")
    columns = layer_columns(of, figures, {HOST: np.ones(1)})
    assert all(value[0] >= -1e-9 for name, value in columns.items() if name.startswith("waste"))


def test_kepler_has_less_than_its_nominal_figures() -> None:
    kepler, pascal = (figures_of(make_gpu(architecture=name), "float32") for name in ("Kepler", "Pascal"))
    assert kepler.flops_per_second < pascal.flops_per_second
    assert kepler.bytes_per_second < pascal.bytes_per_second


def test_even_kernel_has_asymmetric_padding() -> None:
    """TensorFlow's SAME: kernel 3 on 8 pixels pads one on each side, kernel 2 one on one side."""
    of = shapes_of([make_layer(side=8, kernel=k, padded=True) for k in (3, 2)])
    assert of.lopsided.tolist() == [0, 1]
    assert of.out.tolist() == [8, 8]
