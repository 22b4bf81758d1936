"""published_scaling_1_to_16: from at most 4 GPUs to 8 and 16, and from one GPU to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, multi_process_steps
from benchmarks.accuracy.more_gpus.programs import published_programs, weakly_published_programs
from trainfare.measurements.published_scaling import SOURCE, count_rows, published_scaling

MAX_GIVEN_GPUS = 4
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known, tested = published_programs(fit), None if test is None else published_programs(test)
    folder = fit if test is None else test
    used = len(published_scaling(folder))
    yield from judge_counts(
        KEY,
        known,
        tested,
        lambda row: row.gpus <= MAX_GIVEN_GPUS,
        lambda _without: shared_settings(fit),  # these programs are in another table
        note=f"from at most {MAX_GIVEN_GPUS} GPUs to 8 and 16; {used} of {count_rows(folder)} lines used",
    )
    weak = weakly_published_programs(folder)
    yield from judge_from_one(
        KEY,
        multi_process_steps(fit),
        weak,
        note="weak scaling only",
    )
