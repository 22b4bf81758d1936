"""Throughputs that NVIDIA publishes on 1 to 16 V100 or A100: `published_scaling_1_to_16` (NVIDIA/DeepLearningExamples).

The table was parsed from readme pages, so a line does not say which lines belong to the same experiment. Lines go
together that share model, section, column and either the batch of one GPU or the batch of all (batch × GPUs). Where
such a group has a count of GPUs several times over (sizes of one model under one heading), the i-th of each go
together if all counts come equally often, else the lines between one "1 GPU" and the next; a group that is neither is
left out. Left out as well:

- more than 16 GPUs, where batch or number of nodes change,
- a group without a line of one GPU, and lines of which nothing says the GPU,
- a group in which K GPUs are more than 1.3 · K times as fast as one: a misprint (8 GPUs at 17 times one).

The unit differs (images, tokens, sequences a second) and cancels: `seconds` are those of one unit on each GPU where no
batch is known, else of the batch. `machine` tells the experiments apart.

No line tells the gradient. It is public for the models of `MODELS`, and given where `seconds` are those of a step:
the throughput counts what the batch counts (or so many tokens a sequence), and the batch is printed, or the programs'
own settings tell it (`BATCHES`). Pre-training of BERT and its kin adds gradients up over many batches before it sends
them: a step is then `ACCUMULATED` sequences. Half precision is taken to send two bytes a parameter, float32 four.
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
class Model:
    """What is public of a model; both patterns are searched for in what the line says."""

    model: str
    section: str = ""
    parameters: float
    counted: float = 1.0
    """How many of what the throughput counts are in one of the batch."""


MODELS = (
    # Xie 2017 with Hu 2018, and without: as timm counts them. He 2015 as torchvision counts it
    Model(model=r"se-resnext101-32x4d", parameters=48.96e6),
    Model(model=r"resnext101-32x4d", parameters=44.18e6),
    Model(model=r"resnet50|RN50", parameters=25.56e6),
    # Tan 2019 and 2021 as torchvision counts them; Tan 2020: D0
    Model(model=r"efficientnet-?b0", parameters=5.29e6),
    Model(model=r"efficientnet-?b4", parameters=19.34e6),
    Model(model=r"Efficientdet", parameters=3.9e6),
    # SSD300 on ResNet-50 up to its third stage, by its layers in PyTorch/Detection/SSD; torchvision's Mask R-CNN
    Model(model=r"PyTorch/Detection/SSD", parameters=22.9e6),
    Model(model=r"MaskRCNN", parameters=44.4e6),
    # Ronneberger 2015: 64 to 1024 channels
    Model(model=r"/UNet_Medical", parameters=31.0e6),
    # Devlin 2018: base and large; Lee 2019 has the base, Clark 2020 as many; BART large by fairseq's readme
    Model(model=r"BERT/biobert", parameters=110e6),
    Model(model=r"LanguageModeling/BERT$", parameters=340e6),
    Model(model=r"ELECTRA", parameters=110e6),
    Model(model=r"BART", section=r"^Fine-tuning", parameters=400e6),
    # By the layers, the vocabulary of 267 735 words and the length of a target that wt103_large and wt103_base set
    Model(model=r"Transformer-XL", section=r"^Large", parameters=285e6, counted=384),
    Model(model=r"Transformer-XL", parameters=192e6, counted=192),
    # Vaswani 2017: big; its batch is in tokens
    Model(model=r"Translation/Transformer", parameters=213e6),
    # Li 2019: 10x5 DR; Kriman 2019: 15x5
    Model(model=r"Jasper", parameters=333e6),
    Model(model=r"QuartzNet", parameters=18.9e6),
)
"""Left out: recommenders, whose tables are spread over the GPUs or sparse; what counts mels, frames or kilotokens
(FastSpeech, FastPitch, wav2vec2, GNMT); what has several sizes under one name (EfficientNet in PyTorch and TensorFlow);
sizes that nobody prints (V-Net, 3D U-Net and TFT as they are there, MoFlow, SE(3)-Transformer)."""

BATCHES = {
    ("MxNet/Classification/RN50v1.5", "V100"): (96, 192),
    ("MxNet/Classification/RN50v1.5", "V100-32GB"): (128, 256),
    ("MxNet/Classification/RN50v1.5", "A100-80GB"): (512, 512),
    ("PyTorch/Classification/ConvNets/resnet50v1.5", "V100"): (112, 256),
    ("PyTorch/Classification/ConvNets/resnet50v1.5", "V100-32GB"): (112, 256),
    ("PyTorch/Classification/ConvNets/resnet50v1.5", "A100-80GB"): (256, 256),
    ("PyTorch/Classification/ConvNets/resnext101-32x4d", "V100"): (64, 128),
    ("PyTorch/Classification/ConvNets/resnext101-32x4d", "V100-32GB"): (64, 128),
    ("PyTorch/Classification/ConvNets/resnext101-32x4d", "A100-80GB"): (128, 128),
    ("PyTorch/Classification/ConvNets/se-resnext101-32x4d", "V100"): (64, 112),
    ("PyTorch/Classification/ConvNets/se-resnext101-32x4d", "V100-32GB"): (64, 112),
    ("PyTorch/Classification/ConvNets/se-resnext101-32x4d", "A100-80GB"): (128, 128),
}
"""Of one GPU, in float32 and in half precision, where the table prints none: the commands above the tables of MxNet's
readme, and configs.yml of PyTorch's ConvNets."""

ACCUMULATED = 4096.0
"""Sequences of one GPU. Batches of all are 27 648 to 67 584 sequences, on one GPU as on sixteen: a GPU has thousands,
and how many does not matter: a step takes seconds to minutes, and the gradient a hundredth of a second."""


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
    def half(self) -> bool:
        return re.search("mixed|bf16", self.column, re.IGNORECASE) is not None

    @property
    def samples(self) -> float | None:
        """The batch of one GPU, where it is one number. `24,576` is one, `4,2` are two."""
        found = re.fullmatch(r"(\d+(?:,\d{3})*)(k?)", self.batch.strip().lower())
        return float(found[1].replace(",", "")) * (1024 if found[2] else 1) if found else None

    @property
    def batch_size(self) -> float | None:
        """Of two batches the larger is that of half precision, which leaves room for more."""
        if self.samples is not None:
            return self.samples
        if in_column := re.search(r"BS=(\d+)", self.column):
            return float(in_column[1])
        if both := re.fullmatch(r"(\d+)(?: \(\w+\))?\s*(?:,|:|/|and)\s*(\d+)(?: \(\w+\))?", self.batch.strip()):
            return (max if self.half else min)(float(both[1]), float(both[2]))
        told = BATCHES.get((self.model, self.gpu))
        return float(told[self.half]) if told else None

    @property
    def known(self) -> Model | None:
        """Of a line that tells a step."""
        if self.batch_size is None:
            return None
        return next((m for m in MODELS if re.search(m.model, self.model) and re.search(m.section, self.section)), None)


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
        if gpu and int(row["gpus"]) <= MOST_GPUS:
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
    other = re.search(r"\b(H100|H200|GH200|B200|A30|A40|L4|L40S?|T4|P100)\b", section)
    return other[1] if other else None


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
    known = line.known
    batch = ACCUMULATED if known and line.section.startswith("Pre-training") else line.batch_size or 1.0
    return MeasuredIteration(
        source=SOURCE,
        program=line.model,
        family=_family(line.model),
        gpu=line.gpu,
        dtype="float16" if line.half else "float32",
        batch_size=batch,
        seconds=line.gpus * batch * (known.counted if known else 1.0) / line.throughput,
        gpus=line.gpus,
        nodes=-(-line.gpus // on_a_node),
        machine=f"experiment {number}",
        gradient_bytes=known.parameters * (2 if line.half else 4) if known else None,
    )


def _family(model: str) -> str:
    name = model.rpartition("/")[2].lower()
    return next((family for pattern, family in _FAMILIES if re.search(pattern, name)), model.rpartition("/")[2])
