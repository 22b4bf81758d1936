"""Throughputs that NVIDIA publishes on 1 to 16 V100 or A100: `published_scaling_1_to_16` (NVIDIA/DeepLearningExamples).

The table was parsed from readme pages, so a line does not say which lines belong to the same experiment. Lines go
together that share model, section, column and either the batch of one GPU or the batch of all (batch × GPUs). Where
such a group has a count of GPUs several times over (sizes of one model under one heading), the i-th of each go
together if all counts come equally often, else the lines between one "1 GPU" and the next; a group that is neither is
left out. Left out as well:

- more than 16 GPUs, where batch or number of nodes change,
- a group without a line of one GPU,
- a group in which K GPUs are more than 1.3 · K times as fast as one: a misprint (8 GPUs at 17 times one).

The unit differs (images, tokens, sequences a second) and cancels: `seconds` are those of one unit on each GPU where no
batch is printed, else of the batch. `machine` tells the experiments apart.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trainfare.model.measurement import MeasuredIteration

SOURCE = "published_scaling_1_to_16"
MOST_GPUS = 16
MOST_GAIN = 1.3

_FAMILIES = (
    (r"rn50|resnet|resnext", "ResNet"),
    (r"efficient", "EfficientNet"),
    (r"bert|electra|bart", "BERT"),
    (r"transformer", "Transformer"),
    (r"unet|vnet", "UNet"),
    (r"rcnn|ssd", "detection"),
    (r"jasper|quartznet|wav2vec", "speech recognition"),
    (r"fastpitch|fastspeech|hifigan", "speech synthesis"),
    (r"ncf|dlrm|vae|wide|sim", "recommendation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    model: str
    section: str
    column: str
    gpu: str
    gpus: int
    batch: str
    throughput: float

    @property
    def samples(self) -> float | None:
        """The batch of one GPU, where it is one number."""
        plain = self.batch.replace(",", "").strip().lower()
        found = re.fullmatch(r"(\d+)(k?)", plain)
        return float(found[1]) * (1024 if found[2] else 1) if found else None


def published_scaling(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The experiments of `folder/published_scaling_1_to_16/throughput.csv` that can be told apart, one GPU first."""
    lines = list(_lines(_rows(folder)))
    found: list[MeasuredIteration] = []
    for number, experiment in enumerate(_experiments(lines)):
        one = experiment[0].throughput
        if len(experiment) > 1 and all(line.throughput <= MOST_GAIN * line.gpus * one for line in experiment):
            found += [_iteration(line, number) for line in experiment]
    return tuple(found)


def lines_in(folder: Path) -> int:
    """Of the table, those left out included."""
    return len(_rows(folder))


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / SOURCE / "throughput.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def _lines(rows: Sequence[dict[str, str]]) -> Iterator[_Line]:
    """Where a section names no GPU its column does: TF32 is of an A100, and mixed precision follows its fellow."""
    gpu = ""
    for row in rows:
        section, column = row["system_section"], row["column"]
        gpu = _gpu(section) or ("A100" if "TF32" in column else "V100" if "FP32" in column else gpu)
        if int(row["gpus"]) <= MOST_GPUS:
            yield _Line(
                model=row["model"],
                section=section,
                column=column,
                gpu=gpu,
                gpus=int(row["gpus"]),
                batch=row["batch"],
                throughput=float(row["throughput"]),
            )


def _gpu(section: str) -> str | None:
    if "A100" in section:
        return "A100-80GB" if "80G" in section else "A100"
    if "V100" in section or "DGX-1" in section or "DGX-2" in section:
        return "V100-32GB" if "32G" in section or "DGX-2" in section else "V100"
    return None


def _experiments(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """By the batch of one GPU first; what is then without one GPU or without more, by the batch of all."""
    rest: list[_Line] = []
    for group in _groups(lines, lambda line: line.batch):
        told = [run for run in _apart(group) if len(run) > 1]
        yield from told
        kept = {id(line) for run in told for line in run}
        rest += [line for line in group if id(line) not in kept and line.samples is not None]
    for group in _groups(rest, lambda line: str((line.samples or 0) * line.gpus)):
        yield from (run for run in _apart(group) if len(run) > 1)


def _groups(lines: Sequence[_Line], batch: Callable[[_Line], str]) -> list[list[_Line]]:
    groups: dict[tuple[str, ...], list[_Line]] = defaultdict(list)
    for line in lines:
        groups[line.model, line.section, line.column, line.gpu, batch(line)].append(line)
    return list(groups.values())


def _apart(group: Sequence[_Line]) -> list[list[_Line]]:
    times = Counter(line.gpus for line in group)
    if 1 not in times:
        return []
    if len(set(times.values())) == 1:
        by_count = [[line for line in group if line.gpus == count] for count in sorted(times)]
        return [list(run) for run in zip(*by_count, strict=True)]
    starts = [i for i, line in enumerate(group) if line.gpus == 1] + [len(group)]
    runs = [list(group[start:end]) for start, end in pairwise(starts)]
    rising = all(all(a.gpus < b.gpus for a, b in pairwise(run)) for run in runs)
    return runs if rising and starts[0] == 0 else []


def _iteration(line: _Line, number: int) -> MeasuredIteration:
    on_a_node = 16 if "DGX-2" in line.section or "Large model" in line.section or "Base model" in line.section else 8
    batch = line.samples or 1.0
    return MeasuredIteration(
        source=SOURCE,
        program=line.model,
        family=_family(line.model),
        gpu=line.gpu,
        dtype="float16" if re.search("mixed|bf16", line.column, re.IGNORECASE) else "float32",
        batch_size=batch,
        seconds=line.gpus * batch / line.throughput,
        gpus=line.gpus,
        nodes=-(-line.gpus // on_a_node),
        machine=f"experiment {number}",
    )


def _family(model: str) -> str:
    name = model.rpartition("/")[2].lower()
    return next((family for pattern, family in _FAMILIES if re.search(pattern, name)), model.rpartition("/")[2])
