"""Curves and known epochs, as others measured them."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import cos, isfinite, pi
from pathlib import Path

from trainfare.estimator.epochs.by_batch import KnownEpochs
from trainfare.estimator.epochs.stabilisation import running_median, settled_epoch, median_window

FIRST_BATCH = {"cifar10": 128, "imagenet": 200, "ncf": 256, "yolov3": 8, "deepspeech2": 20, "bert": 12}
"""At which the noise of the gradient is given, and one pass over the data is one epoch of the curve; of a program that
is not listed, the smallest that was measured."""

LOWER_IS_BETTER = ("yolov3", "deepspeech2")

SAMPLES_FROM = 10_000
"""No benchmark trains so many epochs: beyond, a table counts samples."""
COUNTED_SAMPLES = 1_000_000
"""What is resolution in samples is taken for epochs of so many."""

DATA_SET = {
    "maskrcnn": 117_266,  # images of COCO 2017 with boxes
    "ssd": 117_266,
    "resnet": 1_281_167,  # ImageNet 2012
    "retinanet": 1_170_301,  # Open Images, as MLPerf selects them
    "dlrm_dcnv2": 4_195_197_692,  # Criteo, 23 days
    "dlrm": 4_195_197_692,
}
"""Samples in one epoch, as MLPerf's rules of training name their data sets; of others it is not known."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A whole run of a program, epoch by epoch, with the plan of its learning rate."""

    program: str
    name: str
    batch_size: int
    higher: bool
    values: tuple[float, ...]
    plan: tuple[float, ...]
    passes: tuple[float, ...] = ()
    """Over the data set, at the end of each epoch of the curve; AdaScale makes these more than one an epoch."""
    noise: tuple[float, ...] = ()
    samples: int | None = None
    """In one pass."""

    @cached_property
    def settled(self) -> int:
        return settled_epoch(self.values, higher=self.higher)

    @property
    def known(self) -> KnownEpochs:
        return KnownEpochs(
            batch_size=self.batch_size,
            epochs=self.passes[self.settled - 1] if self.passes else self.settled,
            gradient_noise=self.noise[: self.settled],
            resolution=1.0,
        )


@dataclass(frozen=True, kw_only=True)
class BySize:
    """Known epochs of one program by batch size, and how many samples an epoch has."""

    known: tuple[KnownEpochs, ...]
    samples: int | None = None


def public_sizes(folder: Path) -> dict[str, BySize]:
    return by_program(public_runs(folder))


def by_program(runs: Iterable[Run]) -> dict[str, BySize]:
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        found[run.program].append(run)
    return {name: BySize(known=tuple(run.known for run in of), samples=of[0].samples) for name, of in found.items()}


def public_runs(folder: Path) -> Iterator[Run]:
    """`data_parallel_t4/<program>/validation-<batch>.csv`; the schedules as the programs' sources state them
    (petuum/adaptdl, osdi21-artifact). A run without a value in every epoch is left out."""
    programs = sorted({path.parent for path in folder.glob("*/validation-*.csv")})
    if not programs:
        raise FileNotFoundError(f"{folder}/*/validation-*.csv")
    for program in programs:
        yield from _runs_of(program.name, sorted(program.glob("validation-*.csv"), key=_batch_size))


def _runs_of(program: str, files: Sequence[Path]) -> Iterator[Run]:
    first = FIRST_BATCH.get(program, _batch_size(files[0]))
    # Progress counts iterations of the first batch size, at whichever the program ran.
    smallest = next((lines for lines in map(_lines, files) if lines), None)
    if smallest is None:
        return
    one_pass = float(smallest[-1]["progress"]) * first / len(smallest)
    for path in files:
        lines, batch_size = _lines(path), _batch_size(path)
        values = tuple(float(line["metric"]) for line in lines)
        if not values or not all(map(isfinite, values)):
            continue
        yield Run(
            program=program,
            name=str(batch_size),
            batch_size=batch_size,
            higher=program not in LOWER_IS_BETTER if program in FIRST_BATCH else _rises(values),
            values=values,
            plan=_plan(program, len(lines)),
            passes=tuple(float(line["iteration"]) * batch_size / one_pass for line in lines),
            # Given at the first batch size; at a larger one the variance is smaller in proportion.
            noise=tuple(
                max(float(line["grad_var"]) / max(float(line["grad_sqr"]), 1e-30), 1e-9) * first / batch_size
                for line in lines
            ),
            samples=round(one_pass),
        )


def _rises(values: Sequence[float]) -> bool:
    """Of a metric that nobody describes: it is meant to go where it went."""
    return values[-1] > values[0]


def _plan(program: str, epochs: int) -> tuple[float, ...]:
    """Relative to the highest rate; nothing where the program's source is not known."""
    every = range(epochs)
    if program == "cifar10":
        return tuple(0.0133 ** (epoch / epochs) for epoch in every)
    if program == "imagenet":
        return tuple(0.1 ** (epoch // 30) for epoch in every)
    if program == "ncf":
        return tuple(0.2 ** ((epoch >= 4) + (epoch >= 7)) for epoch in every)
    if program == "deepspeech2":
        return tuple(1.1**-epoch for epoch in every)
    if program == "bert":
        return tuple(1 - epoch / epochs for epoch in every)
    if program == "yolov3":
        # A warm-up over two epochs, then half a cosine down to a hundredth.
        falling = (0.01 + 0.99 * (1 + cos(pi * epoch / max(1, epochs - 2))) / 2 for epoch in range(epochs - 2))
        return (0.25, 0.75, *falling)[:epochs]
    return ()


def small_runs(path: Path) -> Iterator[Run]:
    """What `python -m benchmarks.epochs.small_programs` wrote."""
    for text in path.read_text().splitlines():
        line = json.loads(text)
        yield Run(
            program=f"{line['program']}{' ' + line['scaling'] if line['scaling'] else ''}",
            name=line["schedule"],
            batch_size=line["batch_size"],
            higher=line["higher"],
            values=tuple(line["values"]),
            plan=tuple(line["plan"]),
        )


def to_target(runs: Sequence[Run]) -> BySize:
    """Epochs to a quality that every run reached: the worst one's best, less 5 % of what it gained.

    With a constant learning rate the settled epoch is where noise lets it be; a target is not.
    """
    middles = [
        running_median([v if run.higher else -v for v in run.values], median_window(len(run.values))) for run in runs
    ]
    worst = min(middles, key=max)
    target = max(worst) - 0.05 * (max(worst) - worst[0])
    known = [
        KnownEpochs(
            batch_size=run.batch_size, epochs=1 + next(k for k, v in enumerate(middle) if v >= target), resolution=1.0
        )
        for run, middle in zip(runs, middles, strict=True)
    ]
    return BySize(known=tuple(known))


def reference_points(path: Path) -> dict[str, BySize]:
    """By benchmark, each batch size as the newest round has it.

    What was restated in samples is taken in samples: an epoch of unet3d's 168 images is 128 of them in batches of 64
    and 240 in batches of 80, so that its numbers of epochs differ by 102 % where its numbers of samples do by 8 %.
    """
    newest: dict[tuple[str, bool], dict[int, KnownEpochs]] = defaultdict(dict)
    for line in sorted(_lines(path), key=lambda line: line["round"]):
        size, epochs = int(line["bs"]), float(line["mean_epochs"])
        in_samples = epochs > SAMPLES_FROM
        newest[line["bench"], in_samples][size] = KnownEpochs(
            batch_size=size,
            epochs=epochs / COUNTED_SAMPLES if in_samples else epochs,
            runs=max(1, int(float(line.get("n") or 1))),
        )
    return {
        bench: BySize(
            known=tuple(points[size] for size in sorted(points)),
            samples=COUNTED_SAMPLES if in_samples else DATA_SET.get(bench),
        )
        for (bench, in_samples), points in newest.items()
        if in_samples or (bench, True) not in newest
    }


def _batch_size(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
