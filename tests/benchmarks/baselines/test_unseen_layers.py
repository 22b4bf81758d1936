"""Layers on a GPU with no or few measurements: predictions of the other GPUs, the host part, measured layers."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.baselines.layers import LayerModel, fit_alone
from benchmarks.baselines.trees import TreeSettings
from benchmarks.baselines.unseen_layers import DRAWS, LayerPanel, fit_panel, layers_to_measure, samples
from tests.benchmarks.baselines.layer_rows import made_gpus, made_layers
from trainfare.model.measurement import MeasuredLayer

KNOWN = made_gpus(4.0, 6.0, 10.0)
ASKED = made_gpus(8.0)
EVERY = KNOWN | ASKED
HOST = {"GPU 8.0": 6e-4}
"""The host of the target GPU is three times slower than the others, which its figures do not show."""


@pytest.fixture(scope="module")
def models() -> tuple[LayerModel, ...]:
    return fit_alone(made_layers(KNOWN, 250), KNOWN, settings=TreeSettings(trees=20, depth=3))


@pytest.fixture(scope="module")
def panel(models: tuple[LayerModel, ...]) -> LayerPanel:
    return fit_panel(models, made_layers(KNOWN, 250), KNOWN, each=100)


def mean_error(panel: LayerPanel, asked: list[MeasuredLayer], measured: int) -> float:
    given = [asked[place] for place in layers_to_measure(asked, measured)]
    seconds = panel.predict(asked, ASKED["GPU 8.0"], EVERY, given)
    return float(np.mean(np.abs(seconds / [row.seconds for row in asked] - 1)))


def test_gpu_of_the_same_law_is_predicted_by_its_figures(panel: LayerPanel) -> None:
    assert mean_error(panel, made_layers(ASKED, 200, seed=5), 0) < 0.12


def test_one_small_layer_determines_the_host(panel: LayerPanel) -> None:
    asked = made_layers(ASKED, 200, seed=5, host=HOST)
    assert mean_error(panel, asked, 1) < 0.6 * mean_error(panel, asked, 0)


def test_ten_layers_correct_a_device_that_is_slower_than_its_figures(panel: LayerPanel) -> None:
    asked = [replace(row, seconds=2e-4 + 1.6 * (row.seconds - 2e-4)) for row in made_layers(ASKED, 200, seed=5)]
    asked = [replace(row, seconds=max(row.seconds, 1e-4)) for row in asked]
    assert mean_error(panel, asked, 10) < 0.6 * mean_error(panel, asked, 0)


def test_measured_layers_narrow_the_interval_where_hosts_differ() -> None:
    rows = made_layers(KNOWN, 250, host={"GPU 4.0": 1e-4, "GPU 6.0": 3e-4, "GPU 10.0": 8e-4})
    panel = fit_panel(fit_alone(rows, KNOWN, settings=TreeSettings(trees=20, depth=3)), rows, KNOWN, each=100)
    assert 1 < panel.factor(10) < panel.factor(0)
    assert panel.factor(3) == panel.factors["1"]


def test_measured_layers_are_chosen_by_shape_alone(panel: LayerPanel) -> None:
    rows = made_layers(ASKED, 100, seed=7)
    slower = made_layers(ASKED, 100, seed=7, host=HOST)
    for count in (0, 1, 3, 10):
        chosen = layers_to_measure(rows, count)
        assert chosen == layers_to_measure(slower, count)
        assert len(chosen) == len(set(chosen)) == count
    assert rows[layers_to_measure(rows, 1)[0]].optimizer is None


def test_single_known_gpu_has_a_wide_interval(models: tuple[LayerModel, ...]) -> None:
    alone = fit_panel(models[:1], made_layers(KNOWN, 50), KNOWN)
    asked = made_layers(ASKED, 20, seed=5)
    assert np.isfinite(alone.predict(asked, ASKED["GPU 8.0"], EVERY)).all()
    assert alone.factor(0) > 2


def test_empty_panel_is_refused(models: tuple[LayerModel, ...]) -> None:
    with pytest.raises(ValueError, match="one kind"):
        fit_panel([], [], KNOWN)


def test_interval_uses_several_draws_of_measured_layers(models: tuple[LayerModel, ...]) -> None:
    rows = made_layers(KNOWN, 250)
    draws = samples(models[0], rows, 25)
    assert [len(draw) for draw in draws] == [25] * DRAWS
    assert len({id(row) for draw in draws for row in draw}) == 25 * DRAWS
    measured = [tuple(draw[place] for place in layers_to_measure(draw, 10)) for draw in draws]
    assert len(set(measured)) == DRAWS


def test_too_few_rows_are_one_draw(models: tuple[LayerModel, ...]) -> None:
    (only,) = samples(models[0], made_layers(KNOWN, 20), 400)
    assert {row.gpu for row in only} == {models[0].gpu}
