"""Four programs on 1 to 64 T4s, up to 4 on a node: `data_parallel_t4` (petuum/adaptdl, OSDI'21 artifact, Apache-2.0).

`placements.csv` writes a placement as digits, the GPUs on each node: `14` is one on the first node and four on the
second. `scalability.csv` has only the numbers of nodes and GPUs. Both give seconds of a step at a batch size per GPU.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from trainfare.model.measurement import MeasuredIteration

SOURCE = "data_parallel_t4"
GPU = "T4"
MACHINE = "g4dn.12xlarge"
NETWORK_GB_PER_SECOND = 6.25
"""50 Gbit/s."""

GRADIENT_BYTES = {
    "bert": 4 * 110e6,
    "cifar10": 4 * 11.17e6,
    "deepspeech2": 4 * 41.19e6,
    "imagenet": 4 * 25.56e6,
    "ncf": 4 * 1.6e6,
    "yolov3": 4 * 61.95e6,
}
"""Four bytes per parameter: ResNet-18 on CIFAR-10 and ResNet-50 (He 2015), NeuMF of 32 factors and three layers on
MovieLens-1M (He 2017: 9746 users and items × 160, and 43 000 in the layers), YOLOv3 on VOC (Redmon 2018). Two more
programs of the artifact: BERT base (Devlin 2018), and DeepSpeech2 by its layers there, two convolutions and five
bidirectional GRUs of 800 on 1312 features."""


def data_parallel_t4(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of every program whose folder has either table; a folder with neither has only learning curves."""
    programs = sorted(path for path in (folder / SOURCE).iterdir() if path.is_dir())
    found = tuple(row for program in programs for row in _program_rows(program))
    if not found:
        raise FileNotFoundError(folder / SOURCE / "*" / "placements.csv")
    return found


def _program_rows(program: Path) -> Iterator[MeasuredIteration]:
    for row in _read_csv(program / "placements.csv"):
        gpus_by_node = [int(digit) for digit in row["placement"]]
        yield _iteration(program.name, len(gpus_by_node), sum(gpus_by_node), row)
    for row in _read_csv(program / "scalability.csv"):
        yield _iteration(program.name, int(row["num_nodes"]), int(row["num_replicas"]), row)


def _iteration(program: str, nodes: int, gpus: int, row: dict[str, str]) -> MeasuredIteration:
    return MeasuredIteration(
        source=SOURCE,
        program=program,
        family=program,
        gpu=GPU,
        dtype="float32",
        batch_size=float(row["local_bsz"]),
        seconds=float(row["step_time"]),
        gpus=gpus,
        nodes=nodes,
        machine=MACHINE,
        gradient_bytes=GRADIENT_BYTES.get(program),
        network_gb_per_second=NETWORK_GB_PER_SECOND,
    )


def _read_csv(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))
