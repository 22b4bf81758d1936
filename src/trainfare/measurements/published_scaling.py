"""Throughputs that NVIDIA publishes on 1 to 16 V100 or A100: `published_scaling_1_to_16` (NVIDIA/DeepLearningExamples).

The table was parsed from readme pages, so a row does not say which rows belong to the same experiment. Rows belong
together if they share model, section, column and either the batch size per GPU or the global one (batch × GPUs). If
such a group has a number of GPUs several times (sizes of one model under one heading), the i-th rows of each belong
together if all numbers occur equally often, otherwise the rows between one "1 GPU" and the next; a group that fits
neither is left out. Also left out are

- more than 16 GPUs, where the batch size or the number of nodes changes,
- groups without a row of one GPU, and rows without a GPU name,
- groups in which K GPUs are more than 1.3 · K times as fast as one: a misprint (8 GPUs at 17 times one).

The unit differs (images, tokens, sequences per second) and cancels: `seconds` are those of one unit on each GPU if the
batch size is unknown, otherwise of the batch. `machine` distinguishes the experiments.

No row has the size of the gradients. It is public for the models in `MODELS`, and given where `seconds` are those of a
step: the throughput counts what the batch counts (or a known number of tokens per sequence), and the batch size is
printed or known from the programs' settings (`BATCHES`). Pre-training of BERT and similar models accumulates gradients
over many batches before it sends them: a step then has `ACCUMULATED` sequences. Half precision is assumed to send two
bytes per parameter, float32 four.
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
MAX_GPUS = 16
MAX_SPEED_UP_PER_GPU = 1.3

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
class PublishedModel:
    """Public facts of a model; both patterns are searched in the row."""

    model: str
    section: str = ""
    parameters: float
    units_per_sample: float = 1.0
    """The number of units of the throughput in one entry of the batch."""


MODELS = (
    # Xie 2017 with Hu 2018, and without: as timm counts them. He 2015 as torchvision counts it
    PublishedModel(model=r"se-resnext101-32x4d", parameters=48.96e6),
    PublishedModel(model=r"resnext101-32x4d", parameters=44.18e6),
    PublishedModel(model=r"resnet50|RN50", parameters=25.56e6),
    # Tan 2019 and 2021 as torchvision counts them; Tan 2020: D0
    PublishedModel(model=r"efficientnet-?b0", parameters=5.29e6),
    PublishedModel(model=r"efficientnet-?b4", parameters=19.34e6),
    PublishedModel(model=r"Efficientdet", parameters=3.9e6),
    # SSD300 on ResNet-50 up to its third stage, by its layers in PyTorch/Detection/SSD; torchvision's Mask R-CNN
    PublishedModel(model=r"PyTorch/Detection/SSD", parameters=22.9e6),
    PublishedModel(model=r"MaskRCNN", parameters=44.4e6),
    # Ronneberger 2015: 64 to 1024 channels
    PublishedModel(model=r"/UNet_Medical", parameters=31.0e6),
    # Devlin 2018: base and large; Lee 2019 has the base, Clark 2020 as many; BART large by fairseq's readme
    PublishedModel(model=r"BERT/biobert", parameters=110e6),
    PublishedModel(model=r"LanguageModeling/BERT$", parameters=340e6),
    PublishedModel(model=r"ELECTRA", parameters=110e6),
    PublishedModel(model=r"BART", section=r"^Fine-tuning", parameters=400e6),
    # By the layers, the vocabulary of 267 735 words and the length of a target that wt103_large and wt103_base set
    PublishedModel(model=r"Transformer-XL", section=r"^Large", parameters=285e6, units_per_sample=384),
    PublishedModel(model=r"Transformer-XL", parameters=192e6, units_per_sample=192),
    # Vaswani 2017: big; its batch is in tokens
    PublishedModel(model=r"Translation/Transformer", parameters=213e6),
    # Li 2019: 10x5 DR; Kriman 2019: 15x5
    PublishedModel(model=r"Jasper", parameters=333e6),
    PublishedModel(model=r"QuartzNet", parameters=18.9e6),
)
"""Left out: recommenders, whose embedding tables are spread over the GPUs or sparse; models that count mels, frames or
kilotokens (FastSpeech, FastPitch, wav2vec2, GNMT); models with several sizes under one name (EfficientNet in PyTorch
and TensorFlow); models of unpublished size (V-Net, 3D U-Net and TFT as they are there, MoFlow, SE(3)-Transformer)."""

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
"""Batch sizes per GPU in float32 and in half precision where the table has none, from the commands above the tables of
MxNet's readme and from configs.yml of PyTorch's ConvNets."""

ACCUMULATED = 4096.0
"""Sequences per GPU. Global batches have 27,648 to 67,584 sequences, on one GPU as on sixteen: a GPU has thousands, and
the exact number does not matter: a step takes seconds to minutes, and the gradients a hundredth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScalingRow:
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
        """The batch size per GPU, if the cell has one number: `24,576` is one, `4,2` are two."""
        found = re.fullmatch(r"(\d+(?:,\d{3})*)(k?)", self.batch.strip().lower())
        return float(found[1].replace(",", "")) * (1024 if found[2] else 1) if found else None

    @property
    def batch_size(self) -> float | None:
        """The batch size per GPU. Of two batch sizes the larger is that of half precision, which needs less memory."""
        if self.samples is not None:
            return self.samples
        if in_column := re.search(r"BS=(\d+)", self.column):
            return float(in_column[1])
        if both := re.fullmatch(r"(\d+)(?: \(\w+\))?\s*(?:,|:|/|and)\s*(\d+)(?: \(\w+\))?", self.batch.strip()):
            return (max if self.half else min)(float(both[1]), float(both[2]))
        configured = BATCHES.get((self.model, self.gpu))
        return float(configured[self.half]) if configured else None

    @property
    def known_model(self) -> PublishedModel | None:
        """The public facts of the model, if `seconds` are those of a step."""
        if self.batch_size is None:
            return None
        return next((m for m in MODELS if re.search(m.model, self.model) and re.search(m.section, self.section)), None)


def published_scaling(folder: Path) -> tuple[MeasuredIteration, ...]:
    """The rows of the experiments that can be identified in the table, those of one GPU first."""
    rows = list(_usable_rows(_read_csv(folder)))
    found: list[MeasuredIteration] = []
    for number, experiment in enumerate(_experiments(rows)):
        one = experiment[0].throughput
        if len(experiment) > 1 and all(row.throughput <= MAX_SPEED_UP_PER_GPU * row.gpus * one for row in experiment):
            found += [_iteration(row, number) for row in experiment]
    return tuple(found)


def count_rows(folder: Path) -> int:
    """The number of rows of the table, including those left out."""
    return len(_read_csv(folder))


def _read_csv(folder: Path) -> list[dict[str, str]]:
    with (folder / SOURCE / "throughput.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def _usable_rows(rows: Sequence[dict[str, str]]) -> Iterator[_ScalingRow]:
    """The usable rows. If a section names no GPU, its column does: TF32 is an A100, FP32 a V100, and mixed precision
    has the GPU of the row before."""
    gpu = ""
    for row in rows:
        section, column = row["system_section"], row["column"]
        gpu = _gpu(section) or ("A100" if "TF32" in column else "V100" if "FP32" in column else gpu)
        if gpu and int(row["gpus"]) <= MAX_GPUS:
            yield _ScalingRow(
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


def _experiments(rows: Sequence[_ScalingRow]) -> Iterator[list[_ScalingRow]]:
    """Rows grouped by the batch size per GPU; those that have no row of one GPU or no other, by the global one."""
    rest: list[_ScalingRow] = []
    for group in _groups(rows, lambda row: row.batch):
        found = [run for run in _split_runs(group) if len(run) > 1]
        yield from found
        used = {id(row) for run in found for row in run}
        rest += [row for row in group if id(row) not in used and row.samples is not None]
    for group in _groups(rest, lambda row: str((row.samples or 0) * row.gpus)):
        yield from (run for run in _split_runs(group) if len(run) > 1)


def _groups(rows: Sequence[_ScalingRow], batch: Callable[[_ScalingRow], str]) -> list[list[_ScalingRow]]:
    groups: dict[tuple[str, ...], list[_ScalingRow]] = defaultdict(list)
    for row in rows:
        groups[row.model, row.section, row.column, row.gpu, batch(row)].append(row)
    return list(groups.values())


def _split_runs(group: Sequence[_ScalingRow]) -> list[list[_ScalingRow]]:
    """The experiments in a group; empty if they cannot be separated."""
    times = Counter(row.gpus for row in group)
    if 1 not in times:
        return []
    if len(set(times.values())) == 1:
        by_count = [[row for row in group if row.gpus == count] for count in sorted(times)]
        return [list(run) for run in zip(*by_count, strict=True)]
    starts = [i for i, row in enumerate(group) if row.gpus == 1] + [len(group)]
    runs = [list(group[start:end]) for start, end in pairwise(starts)]
    rising = all(all(a.gpus < b.gpus for a, b in pairwise(run)) for run in runs)
    return runs if rising and starts[0] == 0 else []


def _iteration(row: _ScalingRow, number: int) -> MeasuredIteration:
    gpus_per_node = 16 if "DGX-2" in row.section or "Large model" in row.section or "Base model" in row.section else 8
    known = row.known_model
    batch = ACCUMULATED if known and row.section.startswith("Pre-training") else row.batch_size or 1.0
    return MeasuredIteration(
        source=SOURCE,
        program=row.model,
        family=_family(row.model),
        gpu=row.gpu,
        dtype="float16" if row.half else "float32",
        batch_size=batch,
        seconds=row.gpus * batch * (known.units_per_sample if known else 1.0) / row.throughput,
        gpus=row.gpus,
        nodes=-(-row.gpus // gpus_per_node),
        machine=f"experiment {number}",
        gradient_bytes=known.parameters * (2 if row.half else 4) if known else None,
    )


def _family(model: str) -> str:
    name = model.rpartition("/")[2].lower()
    return next((family for pattern, family in _FAMILIES if re.search(pattern, name)), model.rpartition("/")[2])
