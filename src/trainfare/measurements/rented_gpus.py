"""Six reference programs on one GPU of a rented or own machine: `rented_gpus` (lambdal/deeplearning-benchmark).

Throughput is in the program's own unit per second, at the batch size that fills the GPU's memory. A row is the time of
as many units as the batch has entries, batch/throughput: an iteration if the unit is an entry (images, sequences,
samples), a fixed part of one if the unit is a token (`gnmt`, `transformerxl`).

`fp32` lets matrix products use TF32 if the GPU has it: its dtype is `tf32`, which on other GPUs is plain float32.
The name of a system is a machine; its GPU is read from the name.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from trainfare.measurements.gpu_names import find_gpu_name
from trainfare.model.measurement import MeasuredIteration

SOURCE = "rented_gpus"

_DTYPES = {"fp32": "tf32", "tf32": "tf32", "fp16": "float16", "bf16": "bfloat16"}


def rented_gpus(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of `folder/rented_gpus/throughput.csv` with one GPU; a GPU without a pattern keeps its name."""
    with (folder / SOURCE / "throughput.csv").open(encoding="utf-8", newline="") as table:
        return tuple(_iterations(csv.DictReader(table)))


def _iterations(rows: Iterator[dict[str, str]]) -> Iterator[MeasuredIteration]:
    for row in rows:
        if row["gpus"] != "1" or not float(row["throughput"] or 0) > 0:
            continue  # the program did not run there
        yield MeasuredIteration(
            source=SOURCE,
            program=row["program"],
            family=row["program"].partition("_")[0],
            gpu=find_gpu_name(row["system"]),
            dtype=_DTYPES.get(row["precision"], row["precision"]),
            batch_size=float(row["batch_size_per_gpu"] or 1),
            seconds=float(row["batch_size_per_gpu"] or 1) / float(row["throughput"]),
            machine=row["system"],
        )
