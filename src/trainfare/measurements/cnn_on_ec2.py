"""Ten CNNs on four EC2 machine types, with the time of every TensorFlow operator (ddps-lab/profet, MIT).

`latency.csv.gz` has the seconds of a step on every machine type; `operations_on_<type>.csv.gz` also has the
microseconds of each operator, `Device_` on the GPU and `Host_` on the CPU, as summed by TensorFlow's profiler.

**The number of steps in a profile** is not recorded. The time it accounts for, busy and idle, is that of two steps if
the GPU never waits; a large graph fills the profiler's buffer and covers less, and a small one shows gaps that the
profiler itself causes. So

    steps = min(2, (busy + idle) / latency)

and every operator is divided by it. On a K80 the profiler slows the kernels: two steps of operators take 10% to 40%
more than two steps of the clock, which is not corrected here.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from trainfare.model.measurement import OperatorProfile

TABLE = "cnn_on_ec2"
STEPS_PROFILED = 2.0
FAMILIES = ("VGG", "ResNet", "Inception", "MobileNet", "EfficientNet", "DenseNet")
GPUS = {"p2": "K80", "g3": "M60", "g3s": "M60", "g4dn": "T4", "p3": "V100", "g5": "A10G", "p4d": "A100", "g6": "L4"}


class Setting(NamedTuple):
    """A repeated measurement: a program at one image side and batch size, on one machine type."""

    program: str
    image_side: int
    batch_size: float
    vm_type: str


def read_profiles(folder: Path) -> tuple[OperatorProfile, ...]:
    """Every setting with profiled operators: the median of its repeats, operator by operator."""
    return tuple(median_profile(repeats) for repeats in read_repeats(folder).values())


def read_repeats(folder: Path) -> Mapping[Setting, tuple[OperatorProfile, ...]]:
    """Every profiled run, in the order of the tables; without tables it is a FileNotFoundError."""
    found: dict[Setting, list[OperatorProfile]] = defaultdict(list)
    for path in _operator_tables(folder):
        for row in _rows(path):
            run = _run(row)
            found[_setting(run)].append(run)
    return {setting: tuple(runs) for setting, runs in found.items()}


def read_latencies(folder: Path) -> Mapping[Setting, float]:
    """Seconds of a step of every setting, profiled or not: the median of the repeats.

    Without `latency.csv.gz`, the latencies of other machine types in each table of operators.
    """
    path = folder / TABLE / "latency.csv.gz"
    found: dict[Setting, list[float]] = defaultdict(list)
    for table in [path] if path.is_file() else _operator_tables(folder):
        for row in _rows(table):
            for vm_type, column in _latency_columns(row).items():
                if seconds := float(row[column] or 0):
                    found[Setting(row["model"], _side(row), float(row["batchsize"]), vm_type)].append(seconds)
    return {setting: median(seconds) for setting, seconds in found.items()}


def family_of(program: str) -> str:
    """`VGG` for VGG16, `Inception` for InceptionResNetV2; a program of no known family is its own."""
    return next((family for family in FAMILIES if program.startswith(family)), program)


def gpu_of(vm_type: str) -> str:
    """The catalog's name of the GPU; the type's own name if its GPU is unknown."""
    return GPUS.get(vm_type.partition(".")[0], vm_type)


def median_profile(repeats: tuple[OperatorProfile, ...]) -> OperatorProfile:
    """The median of each number over repeats of one setting."""
    first = repeats[0]
    return OperatorProfile(
        program=first.program,
        family=first.family,
        vm_type=first.vm_type,
        gpu=first.gpu,
        batch_size=first.batch_size,
        image_side=first.image_side,
        optimizer=first.optimizer,
        seconds=median(run.seconds for run in repeats),
        device_seconds=_median_seconds([run.device_seconds for run in repeats]),
        host_seconds=_median_seconds([run.host_seconds for run in repeats]),
    )


def _median_seconds(repeats: list[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for run in repeats for name in run)
    medians = {name: median(run.get(name, 0.0) for run in repeats) for name in names}
    return {name: seconds for name, seconds in medians.items() if seconds}


def _run(row: Mapping[str, str]) -> OperatorProfile:
    seconds = float(row["batch_latency"])
    device = _operators(row, "Device_")
    accounted = sum(device.values())
    steps = min(STEPS_PROFILED, accounted / seconds) if accounted else STEPS_PROFILED
    return OperatorProfile(
        program=row["model"],
        family=family_of(row["model"]),
        vm_type=row["instance_name"],
        gpu=gpu_of(row["instance_name"]),
        batch_size=float(row["batchsize"]),
        image_side=_side(row),
        optimizer=row["optimizer"],
        seconds=seconds,
        device_seconds={name: total / steps for name, total in device.items() if name != "IDLE"},
        host_seconds={name: total / steps for name, total in _operators(row, "Host_").items() if name != "IDLE"},
    )


def _operators(row: Mapping[str, str], where: str) -> dict[str, float]:
    """Seconds by the operator's name, in the order of the table, without operators that took no time."""
    totals = {name.removeprefix(where): float(cell or 0) / 1e6 for name, cell in row.items() if name.startswith(where)}
    return {name: seconds for name, seconds in totals.items() if seconds > 0}


def _operator_tables(folder: Path) -> list[Path]:
    paths = sorted((folder / TABLE).glob("operations_on_*.csv.gz"))
    if not paths:
        raise FileNotFoundError(f"{folder / TABLE}/operations_on_<type>.csv.gz")
    return paths


def _latency_columns(row: Mapping[str, str]) -> dict[str, str]:
    """The latency columns by machine type: the table's own, and the columns named like a type, with a dot."""
    return {row["instance_name"]: "batch_latency"} | {name: name for name in row if "." in name}


def _setting(run: OperatorProfile) -> Setting:
    return Setting(run.program, run.image_side, run.batch_size, run.vm_type)


def _side(row: Mapping[str, str]) -> int:
    return int(row["dataset"].removesuffix("dataset"))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)
