"""Six reference programs on twelve current GPUs, each GPU left out in turn."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.unseen_gpu.by_times import every_program, judge_by_times, rented_rows


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    """The median over machines with the same GPU counts."""
    rows = rented_rows(fit)
    yield from judge_by_times("rented_gpus", rows, every_program(fit), None if test is None else rented_rows(test))
