"""seven_models_k80_p100_v100: from at most 2 GPUs to 4 and 8, on one server and on several, and from one to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, multi_process_steps
from benchmarks.accuracy.more_gpus.programs import seven_programs
from trainfare.measurements.seven_models import SOURCE

MAX_GIVEN_GPUS = 2
KEY = f"more_gpus/{SOURCE}"
ERRATIC = "V100, one"
"""Most programs take longer on 4 GPUs of this server than on 8."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known, tested = seven_programs(fit), None if test is None else seven_programs(test)
    yield from judge_counts(
        KEY,
        known,
        tested,
        lambda row: row.gpus <= MAX_GIVEN_GPUS,
        lambda _without: shared_settings(fit),  # these programs are in another table
        note=f"from at most {MAX_GIVEN_GPUS} GPUs to 4 and 8",
        parts={
            "v100_one_server": lambda program: program.machine == ERRATIC,
            "without_v100_one_server": lambda program: program.machine != ERRATIC,
        },
    )
    yield from judge_from_one(KEY, multi_process_steps(fit), known if tested is None else tested)
