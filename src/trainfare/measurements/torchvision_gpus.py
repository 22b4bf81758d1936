"""CNNs on 1 to 4 GPUs under `DataParallel`: `torchvision_models_six_gpus` (ryujaehun/pytorch-gpu-benchmark, MIT).

One process drives all GPUs of the machine: in every iteration it distributes the weights and adds up the gradients.
The batch size is that of one GPU. A GPU occurs once for each machine that had it (`folder`); one of the folders is a
copy of another, and repeated lines are read once.
"""

import csv
from pathlib import Path

from trainfare.measurements.families import family_of
from trainfare.measurements.gpu_names import find_gpu_name
from trainfare.model.measurement import MeasuredIteration

SOURCE = "torchvision_models_six_gpus"

PARAMETERS = {
    "densenet121": 7.98e6, "densenet161": 28.68e6, "densenet169": 14.15e6, "densenet201": 20.01e6,
    "mnasnet0_5": 2.22e6, "mnasnet0_75": 3.17e6, "mnasnet1_0": 4.38e6, "mnasnet1_3": 6.28e6, "mobilenet_v2": 3.50e6,
    "resnet18": 11.69e6, "resnet34": 21.80e6, "resnet50": 25.56e6, "resnet101": 44.55e6, "resnet152": 60.19e6,
    "resnext50_32x4d": 25.03e6, "resnext101_32x8d": 88.79e6, "wide_resnet50_2": 68.88e6, "wide_resnet101_2": 126.89e6,
    "shufflenet_v2_x0_5": 1.37e6, "shufflenet_v2_x1_0": 2.28e6, "shufflenet_v2_x1_5": 3.50e6,
    "shufflenet_v2_x2_0": 7.39e6, "squeezenet1_0": 1.25e6, "squeezenet1_1": 1.24e6,
    "vgg11": 132.86e6, "vgg11_bn": 132.87e6, "vgg13": 133.05e6, "vgg13_bn": 133.05e6,
    "vgg16": 138.36e6, "vgg16_bn": 138.37e6, "vgg19": 143.67e6, "vgg19_bn": 143.68e6,
    "alexnet": 61.10e6, "googlenet": 13.00e6, "inception_v3": 27.16e6,
}  # fmt: skip
"""The numbers of parameters in torchvision's table of weights."""


def torchvision_gpus(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of programs that were timed on one GPU and on several of the same machine."""
    with (folder / SOURCE / "training.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    once = {tuple(value for key, value in row.items() if key != "folder"): row for row in reversed(rows)}.values()
    counts: dict[tuple[str, str, str], set[str]] = {}
    for row in once:
        counts.setdefault(_program(row), set()).add(row["gpus"])
    return tuple(_iteration(row) for row in once if {"1"} < counts[_program(row)])


def gradient_bytes(program: str, dtype: str) -> float | None:
    """The size of the gradients; None for a program that is not in torchvision."""
    parameters = PARAMETERS.get(program)
    return None if parameters is None else parameters * (2 if dtype == "float16" else 4)


def _program(row: dict[str, str]) -> tuple[str, str, str]:
    return row["folder"], row["dtype"], row["model"]


def _iteration(row: dict[str, str]) -> MeasuredIteration:
    return MeasuredIteration(
        source=SOURCE,
        program=row["model"],
        family=family_of(row["model"]),
        gpu=find_gpu_name(row["gpu"]),
        dtype=row["dtype"],
        batch_size=float(row["batch_size_per_gpu"]),
        seconds=float(row["median_ms"]) / 1000,
        gpus=int(row["gpus"]),
        machine=row["folder"],
        gradient_bytes=gradient_bytes(row["model"], row["dtype"]),
    )
