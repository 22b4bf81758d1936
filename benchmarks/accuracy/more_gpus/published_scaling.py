"""published_scaling_1_to_16: from at most 4 GPUs to 8 and 16; from one to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, steps_in_step
from benchmarks.accuracy.more_gpus.programs import published_programs, weakly_published_programs
from trainfare.measurements.published_scaling import SOURCE, lines_in, published_scaling

MOST = 4
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known, tested = published_programs(fit), None if test is None else published_programs(test)
    folder = fit if test is None else test
    used = len(published_scaling(folder))
    yield from judge_counts(
        KEY,
        known,
        tested,
        lambda row: row.gpus <= MOST,
        lambda without: shared_settings(fit),  # noqa: ARG005 its programs are none of these
        note=f"from at most {MOST} GPUs to 8 and 16; {used} of {lines_in(folder)} lines used",
    )
    weak = weakly_published_programs(folder)
    yield from judge_from_one(
        KEY,
        steps_in_step(fit),
        weak,
        note="where each GPU keeps its batch",
    )
