"""The regret of choosing a machine from measurements on one machine."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged, judge_tables

TABLES = ("seven_models", "cnn_on_ec2")


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    yield from judge_tables(__name__, TABLES, fit, test)
