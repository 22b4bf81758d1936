"""Seven models on K80, P100 and V100, 1 to 8 GPUs: `seven_models_k80_p100_v100` (stanford-futuredata/gavel, MIT).

The table has steps per second summed over the workers, at a batch size per worker; n workers that step together at a
sum of r need n/r seconds per step. `servers` says whether the workers share one server or are spread over many; then
each is assumed to have its own. One worker was timed under both headings, which are two measurements, not a repetition:
`Recommendation` is up to eleven times slower under `many`.

A3C and CycleGAN have no batch size; it is 1, a step. All ran in float32. A (model, batch size) that is missing on a GPU
did not run there. The network between "many" servers is not known.

The table has no operations either. They come from reimplementations of the programs, traced by
`benchmarks/traced/seven_programs.py`, which states its assumptions; the result is stored in `data/`.
"""

import csv
import gzip
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation

SOURCE = "seven_models_k80_p100_v100"
OPERATIONS = Path(__file__).parent / "data" / "operations_of_seven_models.jsonl.gz"


class TracedProgram(msgspec.Struct, frozen=True):
    """The operations of one iteration on one GPU."""

    program: str
    batch_size: float
    gradient_bytes: float
    """Four bytes per parameter."""
    operations: tuple[Operation, ...]


@lru_cache(maxsize=1)
def traced_programs() -> Mapping[tuple[str, float], TracedProgram]:
    """The traced programs, by name and batch size."""
    lines = gzip.decompress(OPERATIONS.read_bytes()).splitlines()
    found = [msgspec.json.decode(line, type=TracedProgram) for line in lines]
    return {(one.program, one.batch_size): one for one in found}


def seven_models(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of `folder/seven_models_k80_p100_v100/throughput.csv`, in its order."""
    with (folder / SOURCE / "throughput.csv").open(encoding="utf-8", newline="") as table:
        return tuple(
            _iteration(row)
            for row in csv.DictReader(table)
            if float(row["steps_per_second_summed_over_workers"] or 0) > 0
        )


def _iteration(row: dict[str, str]) -> MeasuredIteration:
    gpus, batch_size = int(row["gpus"]), float(row["batch_size_per_gpu"] or 1)
    traced = traced_programs().get((row["model"], batch_size))
    return MeasuredIteration(
        source=SOURCE,
        program=row["model"],
        family=row["model"].partition("-")[0],
        gpu=row["gpu"].upper(),
        dtype="float32",
        batch_size=batch_size,
        seconds=gpus / float(row["steps_per_second_summed_over_workers"]),
        gpus=gpus,
        nodes=1 if row["servers"] == "one" else gpus,
        machine=row["servers"],
        operations=traced.operations if traced else (),
        gradient_bytes=traced.gradient_bytes if traced else None,
    )
