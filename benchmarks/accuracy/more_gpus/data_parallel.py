"""data_parallel_t4: from at most 4 GPUs to up to 64, from one node to several, from one GPU to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, judge_one_node, steps_in_step
from benchmarks.accuracy.more_gpus.programs import t4_programs
from trainfare.measurements.data_parallel import SOURCE

MOST = 4
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known, tested = t4_programs(fit), None if test is None else t4_programs(test)
    yield from judge_counts(
        KEY,
        known,
        tested,
        lambda row: row.gpus <= MOST,
        lambda without: shared_settings(fit, without, most=MOST),
        note=f"from at most {MOST} GPUs to more; settings and corrections from other programs",
    )
    steps, asked = steps_in_step(fit), known if tested is None else tested
    yield from judge_one_node(f"{KEY}/one_node", steps, asked)
    yield from judge_from_one(KEY, steps, asked)
