"""The per-layer regression: the table of the documents, one line per type, and sums over a program's operations."""

import msgspec
import numpy as np
import pytest

from benchmarks.baselines.layer_regression import (
    Layer,
    LayerRegression,
    complexity,
    fit_layer_regression,
    layer_of,
    layers_of,
)
from tests.benchmarks.baselines.layer_rows import make_layer
from trainfare.model.profile import Convolution, Operation


def test_table_of_the_documents() -> None:
    """Ardagna's slides, by hand for a 3×3 window, 8 channels in, 16 out, 5 of them normalised together."""
    shape = {"channels_in": 8, "channels_out": 16, "window": 9, "normalised": 5}
    found = {
        (type_, direction): complexity(type_, direction, **shape)
        for type_ in ("conv", "fc", "loss", "norm", "pool", "relu")
        for direction in ("forward", "backward")
    }
    assert found == {
        ("conv", "forward"): 1152,
        ("conv", "backward"): (2 * 72 + 1) * 16,
        ("fc", "forward"): 1152,
        ("fc", "backward"): 2304,
        ("loss", "forward"): 63,
        ("loss", "backward"): 17,
        ("norm", "forward"): 83,
        ("norm", "backward"): 132,
        ("pool", "forward"): 144,
        ("pool", "backward"): 160,
        ("relu", "forward"): 48,
        ("relu", "backward"): 64,
    }


def test_training_is_both_directions() -> None:
    both = complexity("conv", "training", channels_in=8, channels_out=16, window=9)
    assert both == 1152 + (2 * 72 + 1) * 16


def test_complexity_is_proportional_to_plane_and_batch() -> None:
    """Side 9, kernel 3, stride 2: four output pixels a side without padding, five with it."""
    plain = make_layer(side=9, kernel=3, stride=2, batch_size=7, channels_in=2, channels_out=3)
    padded = make_layer(side=9, kernel=3, stride=2, batch_size=7, channels_in=2, channels_out=3, padded=True)
    assert layer_of(plain).complexity == 7 * 16 * 9 * 2 * 3
    assert layer_of(padded).complexity == 7 * 25 * 9 * 2 * 3


def test_each_gpu_and_direction_has_its_own_line() -> None:
    def row(channels: int, gpu: str, optimizer: str | None) -> object:
        of = make_layer(kind="dense", channels_in=channels, gpu=gpu, optimizer=optimizer)
        slow = {"A": 1e-9, "B": 5e-9}[gpu]
        return make_layer(
            kind="dense",
            channels_in=channels,
            gpu=gpu,
            optimizer=optimizer,
            seconds=1e-3 + slow * layer_of(of).complexity,
        )

    rows = [row(c, gpu, o) for c in (10, 200, 3000) for gpu in ("A", "B") for o in (None, "sgd")]
    fit = fit_layer_regression(rows)  # type: ignore[arg-type] # the row maker above is typed as object
    assert set(fit.lines) == {f"{gpu}/fc/{way}" for gpu in "AB" for way in ("forward", "training")}
    assert fit.lines["B/fc/forward"] == pytest.approx((1e-3, 5e-9))
    asked = make_layer(kind="dense", channels_in=777, gpu="B")
    assert fit.predict([asked]) == pytest.approx([1e-3 + 5e-9 * layer_of(asked).complexity])


def test_unmeasured_gpu_has_no_answer() -> None:
    fit = fit_layer_regression([make_layer(gpu="A")])
    assert np.isnan(fit.predict([make_layer(gpu="B")])).all()


def test_program_is_the_sum_of_layers_with_a_line() -> None:
    shape = Convolution(channels_in=3, channels_out=4, kernel=(3, 3), stride=(1, 1), plane=(5, 5))
    convolution = Operation(
        kind="convolution",
        dtype="float32",
        flops=1.0,
        bytes=1.0,
        count=2,
        part="forward",
        inputs=((6, 3, 7, 7), (4, 3, 3, 3)),
        outputs=((6, 4, 5, 5),),
        convolution=shape,
    )
    relu = Operation(
        kind="pointwise",
        dtype="float32",
        flops=1.0,
        bytes=1.0,
        name="aten.relu",
        part="forward",
        inputs=((10,),),
        outputs=((10,),),
    )
    found = layers_of([convolution, relu])
    assert found == (
        Layer(type="conv", direction="forward", complexity=6 * 25 * 9 * 3 * 4, count=2),
        Layer(type="relu", direction="forward", complexity=30),
    )
    fit = LayerRegression(lines={"A/conv/forward": (1e-4, 1e-9)}, min_seconds=1e-6)
    assert fit.operations_seconds([convolution, relu], "A") == pytest.approx(2 * (1e-4 + 1e-9 * 16200))


def test_fit_survives_json() -> None:
    fit = fit_layer_regression([make_layer(), make_layer(channels_in=50, seconds=2e-3)])
    assert msgspec.json.decode(msgspec.json.encode(fit), type=LayerRegression) == fit
