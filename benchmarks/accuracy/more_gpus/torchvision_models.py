"""torchvision_models_six_gpus: from 1 and 2 GPUs under DataParallel to 3 and 4, and from one GPU to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, read_steps
from benchmarks.accuracy.more_gpus.programs import torchvision_programs, torchvision_programs_and_unknown_gpus
from trainfare.measurements.torchvision_gpus import SOURCE

MAX_GIVEN_GPUS = 2
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known = torchvision_programs(fit)
    asked, unknown = torchvision_programs_and_unknown_gpus(fit if test is None else test)
    yield from judge_counts(
        KEY,
        known,
        None if test is None else asked,
        lambda row: row.gpus <= MAX_GIVEN_GPUS,
        lambda _without: shared_settings(fit),  # these programs are in another table
        note=f"from at most {MAX_GIVEN_GPUS} GPUs to 3 and 4"
        + "".join(f"; {gpu} is not in the catalog" for gpu in sorted(unknown)),
    )
    yield from judge_from_one(
        KEY,
        read_steps(fit, [torchvision_programs]),
        asked,
        note="fitted to DataParallel only",
    )
