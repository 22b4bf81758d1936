"""How well the roofline with one factor predicts a GPU that was left out, and the coefficients that ship.

    python -m benchmarks.extrapolation --fit DIR [--json]

DIR holds public measurements of training iterations whose operations are known:
`torchvision_models_six_gpus/` (32 CNNs, six GPUs, batch 12), `vision_models_rtx3090/` (303 models, large batches,
mixed precision) and, for the noise of repeats, `cnn_on_ec2/`. Each GPU is left out in turn: the coefficients are
fitted on the others and judged on it. The intervals that ship are those of the worst GPU left out, because a pooled
quantile is too narrow for the next new GPU. What is printed as `ship` stands in `trainfare/estimator`.
"""

import argparse
import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainfare.catalog.gpus import load_gpus
from trainfare.estimator.operations import Coefficients, device_time
from trainfare.model.profile import Operation, OperationKind

GPU_NAMES = {
    "GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "TITAN Xp": "Titan Xp",
    "TITAN RTX": "Titan RTX",
    "A100-SXM4-40GB": "A100",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
    "TITAN V": "Titan V",
}
KINDS: dict[str, OperationKind] = {
    "mm": "matmul",
    "bmm": "matmul",
    "attn": "attention",
    "norm": "norm",
    "reduce": "reduction",
    "softmax": "reduction",
    "copy": "copy",
    "opt": "optimizer",
    "rnn": "rnn",
    "embed": "embedding",
}
ONE = Coefficients(roofline_factor=1, launch_seconds=1)
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured iteration: what the formula makes of it with k = c = 1, and how long it took."""

    gpu: str
    model: str
    dtype: str
    machine: str
    roofline: float
    launches: float
    seconds: float


def read_rows(folder: Path) -> Iterator[Row]:
    gpus = load_gpus()
    traced = _operations(folder / "torchvision_models_six_gpus" / "operations.jsonl.gz")
    for line in _lines(folder / "torchvision_models_six_gpus" / "training.csv"):
        key = line["model"], line["dtype"], int(line["batch_size_per_gpu"])
        if line["gpus"] == "1" and key in traced:
            gpu = GPU_NAMES[line["gpu"]]
            time = device_time(traced[key], gpus[gpu], ONE)
            yield Row(
                gpu=gpu,
                model=line["model"],
                dtype=line["dtype"],
                machine=line["folder"],
                roofline=time.compute + time.memory,
                launches=time.launches,
                seconds=float(line["median_ms"]) / 1e3,
            )
    traced = _operations(folder / "vision_models_rtx3090" / "operations.jsonl.gz")
    for line in _lines(folder / "vision_models_rtx3090" / "train_amp_nchw.csv"):
        key = line["model"], "float16", int(line["train_batch_size"])
        if key in traced:
            time = device_time(traced[key], gpus["RTX 3090"], ONE)
            yield Row(
                gpu="RTX 3090",
                model=line["model"],
                dtype="float16",
                machine="one",
                roofline=time.compute + time.memory,
                launches=time.launches,
                seconds=float(line["train_step_time"]) / 1e3,
            )


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def _operations(path: Path) -> dict[tuple[str, str, int], list[Operation]]:
    found = {}
    with gzip.open(path, "rt") as file:
        for text in file:
            model = json.loads(text)
            counts: dict[tuple[OperationKind, float, float], int] = defaultdict(int)
            for name, pairs in model["flops_and_bytes_by_class"].items():
                for flops, size in pairs:
                    if size > 8:  # smaller ones only count things on the host
                        counts[_kind(name), flops, size] += 1
            found[model["model"], model["dtype"], model["batch_size"]] = [
                Operation(kind=kind, dtype=model["dtype"], flops=flops, bytes=size, count=count)
                for (kind, flops, size), count in counts.items()
            ]
    return found


def _kind(name: str) -> OperationKind:
    """Their classes: convolutions by shape and pass (`conv1x1_f`, `dw_b`), and the elementwise rest."""
    if name.startswith(("conv", "dw", "grp", "group")):
        return "convolution"
    return KINDS.get(name, "pointwise")


@dataclass(frozen=True, slots=True)
class Table:
    """The rows as columns, weighted so that every GPU and dtype counts alike."""

    gpu: NDArray[np.str_]
    roofline: Array
    launches: Array
    seconds: Array
    weight: Array

    @classmethod
    def of(cls, rows: list[Row]) -> "Table":
        sizes: dict[tuple[str, str], int] = defaultdict(int)
        for row in rows:
            sizes[row.gpu, row.dtype] += 1
        return cls(
            np.array([row.gpu for row in rows]),
            np.array([row.roofline for row in rows]),
            np.array([row.launches for row in rows]),
            np.array([row.seconds for row in rows]),
            np.array([1 / sizes[row.gpu, row.dtype] for row in rows]),
        )


def fit(table: Table, chosen: NDArray[np.bool_]) -> Coefficients:
    """The k and c with the least mean absolute log error, on a grid of 2 % steps."""
    best = np.inf, ONE
    weight = table.weight[chosen] / table.weight[chosen].sum()
    log_seconds = np.log(table.seconds[chosen])
    for k in np.exp(np.arange(0, np.log(6), 0.02)):
        for c in np.exp(np.arange(np.log(2e-6), np.log(200e-6), 0.04)):
            predicted = k * table.roofline[chosen] + c * table.launches[chosen]
            error = float(np.abs(np.log(predicted) - log_seconds) @ weight)
            if error < best[0]:
                best = error, Coefficients(roofline_factor=float(k), launch_seconds=float(c))
    return best[1]


def predicted(table: Table, coefficients: Coefficients) -> Array:
    return coefficients.roofline_factor * table.roofline + coefficients.launch_seconds * table.launches


def factor(log_errors: Array) -> float:
    """90 % of the errors lie within this factor."""
    return float(np.exp(np.quantile(np.abs(log_errors), 0.9)))


def left_out(table: Table) -> dict[str, dict[str, float]]:
    """Each GPU judged by coefficients that never saw it."""
    found = {}
    for gpu in sorted(set(table.gpu)):
        inside = table.gpu == gpu
        ours = predicted(table, fit(table, ~inside))[inside]
        true = table.seconds[inside]
        found[str(gpu)] = {
            "n": int(inside.sum()),
            "mape": 100 * float(np.mean(np.abs(ours / true - 1))),
            "median": 100 * float(np.median(np.abs(ours / true - 1))),
            "mape_roofline_alone": 100 * float(np.mean(np.abs(table.roofline[inside] / true - 1))),
            "factor": factor(np.log(true / ours)),
        }
    return found


def moved(rows: list[Row], coefficients: Coefficients) -> dict[str, float]:
    """From one GPU to another by the ratio of the formula: the factor of the worst target, and of the same GPU."""
    errors: dict[str, list[float]] = defaultdict(list)
    same: list[float] = []
    by_model: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_model[row.model, row.dtype].append(row)
    for alike in by_model.values():
        for source, target in permutations(alike, 2):
            ours, theirs = (
                coefficients.roofline_factor * r.roofline + coefficients.launch_seconds * r.launches
                for r in (target, source)
            )
            error = np.log(target.seconds / source.seconds / (ours / theirs))
            (same if source.gpu == target.gpu else errors[target.gpu]).append(float(error))
    worst = max(factor(np.array(values)) for values in errors.values())
    return {"scaled": worst, "same_gpu": factor(np.array(same)), "same_gpu_pairs": len(same)}


def repeats(folder: Path) -> dict[str, float]:
    """A run against the median of the other runs of the same program on the same kind of machine."""
    runs: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with gzip.open(folder / "cnn_on_ec2" / "latency.csv.gz", "rt") as file:
        for line in csv.DictReader(file):
            key = tuple(line[name] for name in ("instance_name", "dataset", "model", "optimizer", "batchsize"))
            if line["batch_latency"]:
                runs[key].append(float(line["batch_latency"]))
    errors = [
        np.log(value / np.median([*values[:i], *values[i + 1 :]]))
        for values in runs.values()
        if len(values) >= 4
        for i, value in enumerate(values)
    ]
    return {"n": len(errors), "factor": factor(np.array(errors))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fit", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (options.fit / "torchvision_models_six_gpus").is_dir():
        parser.error(f"{options.fit} does not hold torchvision_models_six_gpus/")
    rows = list(read_rows(options.fit))
    table = Table.of(rows)
    shipped = fit(table, np.ones(len(rows), dtype=bool))
    gpus = left_out(table)
    result = {
        "rows": len(rows),
        "left_out": gpus,
        "ship": {
            "roofline_factor": shipped.roofline_factor,
            "launch_seconds": shipped.launch_seconds,
            "extrapolated_factor": max(row["factor"] for row in gpus.values()),
            **moved(rows, shipped),
            "repeat": repeats(options.fit),
        },
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'GPU left out':16}{'n':>5}{'mean':>9}{'median':>9}{'roofline alone':>16}{'90 % within':>14}")
    for name, row in gpus.items():
        print(
            f"{name:16}{row['n']:5}{row['mape']:8.1f} %{row['median']:7.1f} %{row['mape_roofline_alone']:14.1f} %"
            f"   ×/÷ {row['factor']:.2f}"
        )
    print(json.dumps(result["ship"], indent=2))


if __name__ == "__main__":
    main()
