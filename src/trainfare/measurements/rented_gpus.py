"""Six reference programs on one GPU of a rented or own machine: `rented_gpus` (lambdal/deeplearning-benchmark).

Throughput is told in the program's own unit a second at the batch that fills the GPU, which differs with its memory. A
row is the time of as many units as the batch has entries, batch/throughput: an iteration where the unit is an entry
(images, sequences, samples), a fixed part of one where the unit is a token (`gnmt`, `transformerxl`).

`fp32` let matrix products use TF32 where the GPU has it: its dtype is `tf32`, which on other GPUs is plain float32.
A system's name is a machine; what GPU it holds is read out of the name.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from trainfare.model.measurement import MeasuredIteration

SOURCE = "rented_gpus"

_DTYPES = {"fp32": "tf32", "tf32": "tf32", "fp16": "float16", "bf16": "bfloat16"}

_GPUS = (
    (r"A100.*80 ?GB.*PCIe", "A100-80GB-PCIe"),
    (r"A100.*PCIe", "A100-PCIe"),
    (r"A100.*80 ?GB", "A100-80GB"),
    (r"A100", "A100"),
    (r"GH200", "GH200"),
    (r"H100.*NVL", "H100-NVL"),
    (r"H100.*PCIe", "H100-PCIe"),
    (r"H100", "H100"),
    (r"V100.*PCIe", "V100-PCIe"),
    (r"V100.*32 ?GB", "V100-32GB"),
    (r"V100", "V100"),
    (r"(RTX )?([456]\d00) Ada", r"RTX \2 Ada"),
    (r"Quadro RTX (\d+)", r"Quadro RTX \1"),
    (r"RTX (8000|6000|5000)", r"Quadro RTX \1"),
    (r"(RTX )?(A[456][05]00)", r"RTX \2"),
    (r"(RTX )?([2345]0[5-9]0)( Ti| SUPER)?", r"RTX \2\3"),
    (r"(GTX )?(10[5-8]0)( Ti)?", r"GTX \2\3"),
    (r"Titan ?(RTX|V|Xp)", r"Titan \1"),
    (r"(A10G|A10|A40|L40S|L40|L4|T4|P100|P4|M60|K80|K40|H200|B200|B300|MI300X)", r"\1"),
)
"""The first pattern that stands in the name as words of its own decides."""


def rented_gpus(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of `folder/rented_gpus/throughput.csv` with one GPU; a GPU that no pattern knows keeps the name told."""
    with (folder / SOURCE / "throughput.csv").open(encoding="utf-8", newline="") as table:
        return tuple(_iterations(csv.DictReader(table)))


def gpu_of_system(system: str) -> str:
    """`LambdaCloud A100 40GB PCIe` holds an `A100-PCIe`, as the catalog calls it."""
    spaced = re.sub(r"(?i)\b\d+x|_", " ", system)
    spaced = re.sub(r"(?i)(RTX|GTX)(?=[A-Z]?\d)|(?<=\d)(?=Ti|Ada|Super)", r"\1 ", spaced)
    for pattern, name in _GPUS:
        if found := re.search(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])", spaced, re.IGNORECASE):
            return found.expand(name)
    return system


def _iterations(rows: Iterator[dict[str, str]]) -> Iterator[MeasuredIteration]:
    for row in rows:
        if row["gpus"] != "1" or not float(row["throughput"] or 0) > 0:
            continue  # a program that did not run there
        yield MeasuredIteration(
            source=SOURCE,
            program=row["program"],
            family=row["program"].partition("_")[0],
            gpu=gpu_of_system(row["system"]),
            dtype=_DTYPES.get(row["precision"], row["precision"]),
            batch_size=float(row["batch_size_per_gpu"] or 1),
            seconds=float(row["batch_size_per_gpu"] or 1) / float(row["throughput"]),
            machine=row["system"],
        )
