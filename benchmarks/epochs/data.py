"""Curves and known epochs from public measurements."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import cos, isfinite, pi
from pathlib import Path

from trainfare.estimator.epochs.by_batch import KnownEpochs
from trainfare.estimator.epochs.stabilisation import median_window, running_median, settled_epoch

FIRST_BATCH = {"cifar10": 128, "imagenet": 200, "ncf": 256, "yolov3": 8, "deepspeech2": 20, "bert": 12}
"""The batch size of the given gradient noise, at which one pass over the data is one epoch of the curve; for other
programs the smallest measured batch size."""

LOWER_IS_BETTER = ("yolov3", "deepspeech2")

MAX_EPOCHS = 10_000
"""No benchmark trains more epochs: larger numbers in the table are samples."""
EPOCH_SAMPLES = 1_000_000
"""Samples of an epoch, for benchmarks that are counted in samples."""

DATA_SET = {
    "maskrcnn": 117_266,  # images of COCO 2017 with boxes
    "ssd": 117_266,
    "resnet": 1_281_167,  # ImageNet 2012
    "retinanet": 1_170_301,  # Open Images, as MLPerf selects them
    "dlrm_dcnv2": 4_195_197_692,  # Criteo, 23 days
    "dlrm": 4_195_197_692,
}
"""Samples in one epoch by the data sets in MLPerf's training rules; unknown for other benchmarks."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A complete run of a program, epoch by epoch, with the plan of its learning rate."""

    program: str
    name: str
    batch_size: int
    higher: bool
    values: tuple[float, ...]
    plan: tuple[float, ...]
    passes: tuple[float, ...] = ()
    """Passes over the data set at the end of each epoch of the curve; with AdaScale more than one per epoch."""
    noise: tuple[float, ...] = ()
    samples: int | None = None
    """Samples in one pass."""

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
    """Known epochs of one program by batch size, and the samples of an epoch."""

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
    """The runs of `data_parallel_t4/<program>/validation-<batch>.csv`, with the schedules of the programs' sources
    (petuum/adaptdl, osdi21-artifact). A run without a value in every epoch is left out."""
    programs = sorted({path.parent for path in folder.glob("*/validation-*.csv")})
    if not programs:
        raise FileNotFoundError(f"{folder}/*/validation-*.csv")
    for program in programs:
        yield from _runs_of(program.name, sorted(program.glob("validation-*.csv"), key=_batch_size))


def _runs_of(program: str, files: Sequence[Path]) -> Iterator[Run]:
    first = FIRST_BATCH.get(program, _batch_size(files[0]))
    # Progress counts iterations of the first batch size, whatever the batch size of the run.
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
            # The noise is given at the first batch size; at a larger one the variance is smaller in proportion.
            noise=tuple(
                max(float(line["grad_var"]) / max(float(line["grad_sqr"]), 1e-30), 1e-9) * first / batch_size
                for line in lines
            ),
            samples=round(one_pass),
        )


def _rises(values: Sequence[float]) -> bool:
    """The direction of an unknown metric: the one in which it went."""
    return values[-1] > values[0]


def _plan(program: str, epochs: int) -> tuple[float, ...]:
    """Learning rates relative to the highest; empty where the program's source is not known."""
    numbers = range(epochs)
    if program == "cifar10":
        return tuple(0.0133 ** (epoch / epochs) for epoch in numbers)
    if program == "imagenet":
        return tuple(0.1 ** (epoch // 30) for epoch in numbers)
    if program == "ncf":
        return tuple(0.2 ** ((epoch >= 4) + (epoch >= 7)) for epoch in numbers)
    if program == "deepspeech2":
        return tuple(1.1**-epoch for epoch in numbers)
    if program == "bert":
        return tuple(1 - epoch / epochs for epoch in numbers)
    if program == "yolov3":
        # A warm-up over two epochs, then half a cosine down to a hundredth.
        falling = (0.01 + 0.99 * (1 + cos(pi * epoch / max(1, epochs - 2))) / 2 for epoch in range(epochs - 2))
        return (0.25, 0.75, *falling)[:epochs]
    return ()


def small_runs(path: Path) -> Iterator[Run]:
    """The runs in the output of `python -m benchmarks.epochs.small_programs`."""
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


def known_to_target(runs: Sequence[Run]) -> BySize:
    """Epochs to a quality that every run reached: the best of the worst run, minus 5% of its gain.

    With a constant learning rate the settled epoch depends on noise; a target does not.
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


def with_long_epochs(of: BySize, factor: int = 20) -> BySize:
    """The same program with `factor` times the samples in an epoch, counted in whole epochs, so that it needs few of
    them. The number of steps is the same, so the predictions should be the same but for their unit."""
    return BySize(
        known=tuple(replace(k, epochs=k.epochs / factor, resolution=1.0) for k in of.known),
        samples=of.samples and of.samples * factor,
    )


def with_fewer_steps(of: BySize, factor: int = 50) -> BySize:
    """A program that does with fewer steps than those from which the prior is learned, as fine-tuning does."""
    return BySize(known=of.known, samples=of.samples and max(1, of.samples // factor))


def reference_points(path: Path) -> dict[str, BySize]:
    """The known epochs by benchmark, each batch size from the newest round.

    Benchmarks that were restated in samples are counted in samples: an epoch of unet3d's 168 images has 128 of them in
    batches of 64 and 240 in batches of 80, so its numbers of epochs differ by 102% and its numbers of samples by 8%.
    """
    newest: dict[tuple[str, bool], dict[int, KnownEpochs]] = defaultdict(dict)
    for line in sorted(_lines(path), key=lambda line: line["round"]):
        size, epochs = int(line["bs"]), float(line["mean_epochs"])
        in_samples = epochs > MAX_EPOCHS
        newest[line["bench"], in_samples][size] = KnownEpochs(
            batch_size=size,
            epochs=epochs / EPOCH_SAMPLES if in_samples else epochs,
            runs=max(1, int(float(line.get("n") or 1))),
        )
    return {
        bench: BySize(
            known=tuple(points[size] for size in sorted(points)),
            samples=EPOCH_SAMPLES if in_samples else DATA_SET.get(bench),
        )
        for (bench, in_samples), points in newest.items()
        if in_samples or (bench, True) not in newest
    }


def _batch_size(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
