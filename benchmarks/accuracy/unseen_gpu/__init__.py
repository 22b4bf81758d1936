"""Predictions for a GPU that is not in the fit, with none, one and a few measurements of other programs on it."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged, judge_tables

TABLES = ("torchvision_models", "rented_gpus", "seven_models", "cnn_on_ec2", "single_layers")


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    yield from judge_tables(__name__, TABLES, fit, test)
