"""Seven models on K80, P100 and V100, each GPU left out in turn, so that each model is known on two."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.unseen_gpu.by_times import every_program, judge_by_times, seven_rows, traced_rows
from trainfare.measurements.seven_models import SOURCE


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    """Times of one GPU on one server. GPUs of the other tables are used to fit transfers and operations."""
    rows, tested = seven_rows(fit), None if test is None else seven_rows(test)
    yield from judge_by_times(SOURCE, rows, every_program(fit), tested, traced=traced_rows(fit))
