"""Single convolution and dense layers on six GPUs: `single_layers_six_gpus` (CDECatapult/ml-performance-prediction).

One file per kind and GPU, `convolution_V100.csv.gz`; shapes are random, times are milliseconds, the median of five
repeats. The codes are those of the measuring program (`Generate_train_data/benchmark.py`), and the data agree:

- optimizer 0 is the forward pass alone; 1 to 6 a training step with the mean square against a constant as its loss;
- activation 0 is none, 1 ReLU, 2 tanh, 3 sigmoid;
- padding 1 is TensorFlow's SAME, 0 VALID; a dense layer always has a bias;
- precision is the number of bits, gpu the number of the board in the machine.

In a training step the input and the target are variables too, so the optimiser updates them like the weights.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from trainfare.model.measurement import MeasuredLayer

SOURCE = "single_layers_six_gpus"
OPTIMIZERS = (None, "sgd", "adadelta", "adagrad", "momentum", "adam", "rmsprop")
ACTIVATIONS = (None, "relu", "tanh", "sigmoid")
KINDS: tuple[Literal["convolution", "dense"], ...] = ("convolution", "dense")

_GPU_NAMES = {"1080ti": "GTX 1080 Ti", "k80": "K80"}


def single_layers(folder: Path) -> tuple[MeasuredLayer, ...]:
    """Every layer of the files in `folder/single_layers_six_gpus`; a row without a time ran out of memory."""
    table = folder / SOURCE
    files = sorted(path for kind in KINDS for path in table.glob(f"{kind}_*.csv.gz"))
    if not files:
        raise FileNotFoundError(f"{table}/convolution_*.csv.gz or dense_*.csv.gz")
    return tuple(layer for path in files for layer in _layers(path))


def _layers(path: Path) -> Iterator[MeasuredLayer]:
    kind, _, name = path.name.removesuffix(".csv.gz").partition("_")
    gpu = _GPU_NAMES.get(name, name)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            if (milliseconds := float(row["timeUsed_median"] or "nan")) > 0:
                yield (_convolution if kind == "convolution" else _dense)(row, gpu, milliseconds / 1e3)


def _convolution(row: Mapping[str, str], gpu: str, seconds: float) -> MeasuredLayer:
    return MeasuredLayer(
        kind="convolution",
        gpu=gpu,
        batch_size=int(row["batchsize"]),
        channels_in=int(row["channels_in"]),
        channels_out=int(row["channels_out"]),
        seconds=seconds,
        side=int(row["matsize"]),
        kernel=int(row["kernelsize"]),
        stride=int(row["strides"]),
        padded=row["padding"] == "1",
        bias=row["use_bias"] == "True",
        activation=ACTIVATIONS[int(row["activation_fct"])],
        optimizer=OPTIMIZERS[int(row["optimizer"])],
        dtype=f"float{row['precision']}",
    )


def _dense(row: Mapping[str, str], gpu: str, seconds: float) -> MeasuredLayer:
    return MeasuredLayer(
        kind="dense",
        gpu=gpu,
        batch_size=int(row["batchsize"]),
        channels_in=int(row["dim_input"]),
        channels_out=int(row["dim_output"]),
        seconds=seconds,
        bias=True,
        activation=ACTIVATIONS[int(row["activation_fct"])],
        optimizer=OPTIMIZERS[int(row["optimizer"])],
        dtype=f"float{row['precision']}",
    )
