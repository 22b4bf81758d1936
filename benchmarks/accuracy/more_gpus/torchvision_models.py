"""torchvision_models_six_gpus: from 1 and 2 GPUs under DataParallel to 3 and 4; from one to all."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import judge_counts, shared_settings
from benchmarks.accuracy.more_gpus.from_one import judge_from_one, steps_of
from benchmarks.accuracy.more_gpus.programs import torchvision_programs, torchvision_programs_and_unknown_gpus
from trainfare.measurements.torchvision_gpus import SOURCE

MOST = 2
KEY = f"more_gpus/{SOURCE}"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known = torchvision_programs(fit)
    asked, unknown = torchvision_programs_and_unknown_gpus(fit if test is None else test)
    yield from judge_counts(
        KEY,
        known,
        None if test is None else asked,
        lambda row: row.gpus <= MOST,
        lambda without: shared_settings(fit),  # noqa: ARG005 its programs are none of these
        note=f"from at most {MOST} GPUs to 3 and 4" + "".join(f"; no facts of {gpu}" for gpu in sorted(unknown)),
    )
    yield from judge_from_one(
        KEY,
        steps_of(fit, [torchvision_programs]),
        asked,
        note="fitted to DataParallel alone",
    )
