"""data_parallel_t4: from at most 4 GPUs to up to 64, from one node to several, and from one GPU to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, judge_one_node, multi_process_steps
from benchmarks.accuracy.more_gpus.programs import t4_programs
from trainfare.measurements.data_parallel import SOURCE

MAX_GIVEN_GPUS = 4
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known, tested = t4_programs(fit), None if test is None else t4_programs(test)
    yield from judge_counts(
        KEY,
        known,
        tested,
        lambda row: row.gpus <= MAX_GIVEN_GPUS,
        lambda without: shared_settings(fit, without, most=MAX_GIVEN_GPUS),
        note=f"from at most {MAX_GIVEN_GPUS} GPUs to more; settings and corrections from other programs",
    )
    steps, asked = multi_process_steps(fit), known if tested is None else tested
    yield from judge_one_node(f"{KEY}/one_node", steps, asked)
    yield from judge_from_one(KEY, steps, asked)
