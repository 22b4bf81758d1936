"""Predictions for more GPUs and more nodes than were measured."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged, judge_tables

TABLES = ("data_parallel", "seven_models", "published_scaling", "torchvision_models")


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    yield from judge_tables(__name__, TABLES, fit, test)
