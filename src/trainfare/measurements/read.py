"""Reads a folder of tables into Measurements, and computes the fingerprint that identifies the tables."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from trainfare.measurements.cnn_on_ec2 import read_profiles
from trainfare.measurements.data_parallel import data_parallel_t4
from trainfare.measurements.published_scaling import published_scaling
from trainfare.measurements.rented_gpus import rented_gpus
from trainfare.measurements.seven_models import seven_models
from trainfare.measurements.traced_models import read_image_models, read_own_image_traces, read_torchvision
from trainfare.model.measurement import Measurements

Row = TypeVar("Row")

TABLES: Mapping[str, str] = {
    "vision_models_rtx3090": "train_amp_nchw.csv, operations.jsonl.gz: step times with the operations of a step",
    "torchvision_models_six_gpus": "training.csv, operations.jsonl.gz: the same on several GPUs",
    "rented_gpus": "throughput.csv: programs on many GPUs, by their times alone",
    "seven_models_k80_p100_v100": "throughput.csv: programs on one and several GPUs",
    "data_parallel_t4": "<program>/placements.csv: step times by placement of the GPUs",
    "published_scaling_1_to_16": "throughput.csv: throughputs on one and several GPUs",
    "cnn_on_ec2": "operations_on_*.csv.gz: step times with the time of each operator, on several machines",
}
"""The tables that a folder may have, and the files that are read."""


def read_measurements(folder: Path) -> Measurements:
    """The rows of all tables; a missing table is empty.

    Several GPUs of `torchvision_models_six_gpus` are driven by one process (DataParallel), which follows other
    constants: mixed with the others they doubled the error of both, so they are left out.
    """
    several = seven_models(folder) if (folder / "seven_models_k80_p100_v100").is_dir() else ()
    return Measurements(
        traced=(
            *_read(read_image_models, folder),
            *_read(read_own_image_traces, folder),
            *_read(read_torchvision, folder),
        ),
        programs=(*_read(rented_gpus, folder), *(row for row in several if row.gpus == 1)),
        clusters=(
            *_read(data_parallel_t4, folder),
            *several,
            *_read(published_scaling, folder),
        ),
        operators=tuple(_read(read_profiles, folder)),
    )


def _read(reader: Callable[[Path], Iterable[Row]], folder: Path) -> tuple[Row, ...]:
    try:
        return tuple(reader(folder))
    except FileNotFoundError:
        return ()


def fingerprint(folder: Path) -> str:
    """A hash of the names and contents of all files of the tables."""
    digest = hashlib.sha256()
    for table in TABLES:
        for path in sorted((folder / table).rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(folder)).encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
