"""Six reference programs on twelve of today's GPUs; each GPU in turn was never measured."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.unseen_gpu.by_times import every_program, judge_by_times, rented_rows


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    """A machine's name is not judged: of several with the same GPU the middle counts."""
    rows = rented_rows(fit)
    yield from judge_by_times("rented_gpus", rows, every_program(fit), None if test is None else rented_rows(test))
