"""The measured time of a migration between two machines, compared with the prediction.

    python -m benchmarks.migration [--epochs N] [--after K] [--json]

Two slices of this machine: one CPU, and half of one. `examples/pytorch_resume.py`, which writes a checkpoint of 52 MB
after each epoch and resumes from it, is profiled on both for two epochs. Then it trains N epochs without interruption
on the first slice; and as a split plan: K epochs on the first slice, where it is killed once the checkpoint of epoch K
is complete, which is copied to the second slice, where the training resumes to its end. Everything uses the doors of
the product, and the predictions come from the code of `recommend`. The loss must continue as in the training without
migration.

It takes less than two minutes on an idle machine. Other load on the same CPUs affects both columns, and not equally.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.slices import program_on, require_success, slice_offers
from trainfare.app.profiling.profile import profile
from trainfare.app.recommending.workload import TrainingLength, Workload, build_workload
from trainfare.clouds import driver
from trainfare.estimator.cost.checkpoints import checkpoints_of
from trainfare.estimator.cost.migration import MigrationEnd, migration_between
from trainfare.estimator.cost.timing import PROGRAM_STARTUP_PHASES
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.program import Program
from trainfare.model.split import Migration
from trainfare.settings import Settings
from trainfare.units import format_duration

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = ("pytorch_cnn.py", "pytorch_resume.py")
SLICES = {"one": (1.0, 0.045), "half": (0.5, 0.020)}
"""CPUs and invented hourly prices."""
BATCH_SIZE = 64

_EPOCH = re.compile(rb"epoch (\d+): loss ([\d.]+), .*, at ([\d.]+)")
_RESTORED = re.compile(rb"restored epoch (\d+) in ([\d.]+) s")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One start of the program: when it began and ended, and the loss and the end of each epoch."""

    started: float
    ended: float
    epochs: dict[int, tuple[float, float]]
    restored_seconds: float | None

    @property
    def losses(self) -> dict[int, float]:
        return {number: loss for number, (loss, _) in self.epochs.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One part of the training, predicted and measured."""

    part: str
    predicted: Interval
    measured: float

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--after", type=int, default=3, help="epochs on the first slice")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "program"
        program.mkdir()
        for file in FILES:
            shutil.copy(EXAMPLES / file, program / file)
        workload = _workload(folder, program, options.epochs)
        segments = [
            _segment(workload, "one", options.after),
            _segment(workload, "half", options.epochs - options.after),
        ]
        migration = _migration(workload, *segments)
        machines = folder / "machines"
        single = _run(machines, "one", program, options.epochs)
        first = _run(machines, "one", program, options.epochs, until=options.after, save_to=folder / "saved")
        shutil.copy(folder / "saved" / "checkpoint.pt", program / "checkpoint.pt")
        second = _run(machines, "half", program, options.epochs)
    rows = _rows(segments, migration, first, second, options.after)
    difference = max(abs(single.losses[n] - loss) for run in (first, second) for n, loss in run.losses.items())
    _show(rows, difference, second, options)


def _workload(folder: Path, program: Path, epochs: int) -> Workload:
    """The workload of a profile of two epochs on each slice."""
    machines = folder / "machines.toml"
    machines.write_text(
        "".join(f"[{n}]\nslice = true\nvcpus = {cpus}\nusd_per_hour = {usd}\n" for n, (cpus, usd) in SLICES.items())
    )
    settings = Settings(
        store=str(folder / "history.db"),
        machines=str(machines),
        prices=str(folder / "prices"),
        logs=str(folder / "logs"),
    )
    command = (sys.executable, "pytorch_resume.py", "--batch-size", str(BATCH_SIZE))
    profiles = [
        profile(command, directory=program, on=f"local/{name}", settings=settings, epochs=2, trace_operations=False)
        for name in SLICES
    ]
    return build_workload(
        profiles,
        decide=lambda _profile, _iterations: TrainingLength(epochs=epochs),
        iterations_per_epoch=None,
        overheads=None,
        settings=settings,
    )


def _segment(workload: Workload, name: str, epochs: int) -> Estimate:
    offer = next(offer for offer in workload.catalog.offers if offer.vm_type.key == f"local/{name}")
    (estimate,) = workload.estimate([Candidate(offer=offer, nodes=1, batch_size=BATCH_SIZE)], epochs)
    return estimate


def _migration(workload: Workload, first: Estimate, second: Estimate) -> Migration:
    profile = next(p for p in workload.predictor.profiles if p.id == first.profile_id)
    ends = (
        MigrationEnd(candidate=e.candidate, terms=workload.charges.terms(e.candidate.offer)) for e in (first, second)
    )
    checkpoints = checkpoints_of(profile, iterations_per_epoch=workload.leading.iterations_per_epoch)
    return migration_between(*ends, profile=profile, checkpoints=checkpoints)


def _run(
    machines: Path, name: str, program: Path, epochs: int, *, until: int | None = None, save_to: Path | None = None
) -> MeasuredRun:
    """A run to the end, or until an epoch is done and its checkpoint is copied to `save_to`; then it is killed."""
    command = (sys.executable, "pytorch_resume.py", "--batch-size", str(BATCH_SIZE), "--epochs", str(epochs))
    offer, run_id = slice_offers(SLICES)[name], f"migration-{os.getpid()}-{name}"
    started = time.time()
    with program_on(offer, Program(command=command, directory=str(program)), folder=machines, run_id=run_id) as shell:
        while driver.results(shell) is None and until not in _epochs(shell.read("output")):
            time.sleep(0.02)
        if driver.results(shell) is not None:
            require_success(shell)
        output = shell.read("output")
        if save_to is not None:
            digest = shell.run(["sha256sum", "work/checkpoint.pt"]).output.split()[0].decode()
            shell.fetch("work", save_to, files={"checkpoint.pt": digest})
        restored = _RESTORED.search(output)
        return MeasuredRun(
            started=started,
            ended=time.time(),
            epochs={n: found for n, found in _epochs(output).items() if until is None or n <= until},
            restored_seconds=float(restored[2]) if restored else None,
        )


def _epochs(output: bytes) -> dict[int, tuple[float, float]]:
    return {int(found[1]): (float(found[2]), float(found[3])) for found in _EPOCH.finditer(output)}


def _rows(
    segments: list[Estimate], migration: Migration, first: MeasuredRun, second: MeasuredRun, after: int
) -> list[Row]:
    """The transfer lasts from the end of the last epoch on the first slice to the start on the second."""
    ends = [end for _, end in second.epochs.values()]
    epoch_seconds = (ends[-1] - ends[0]) / (len(ends) - 1)
    restored = second.restored_seconds or 0.0
    starting = ends[0] - second.started - epoch_seconds - restored
    done = first.epochs[after][1]
    transfer = second.started - done
    start = _phases(segments[1], PROGRAM_STARTUP_PHASES)
    iteration = segments[1].iteration_seconds  # a later epoch has an ordinary iteration in place of the first one
    return [
        Row(part=f"{after} epochs on one CPU", predicted=segments[0].seconds, measured=done - first.started),
        Row(
            part="copy the checkpoint",
            predicted=migration.upload.seconds + migration.download.seconds,
            measured=transfer,
        ),
        Row(part="load it", predicted=migration.restore.seconds, measured=restored),
        Row(part="start the program", predicted=start, measured=starting + iteration.value),
        Row(
            part="migration and start",
            predicted=migration.seconds + start,
            measured=transfer + restored + starting + iteration.value,
        ),
        Row(
            part=f"{len(ends)} epochs on half a CPU",
            predicted=segments[1].seconds,
            measured=ends[-1] - second.started - restored,
        ),
        Row(
            part="total",
            predicted=segments[0].seconds + migration.seconds + segments[1].seconds,
            measured=ends[-1] - first.started,
        ),
    ]


def _phases(estimate: Estimate, names: Collection[str]) -> Interval:
    """The sum of the named phases."""
    total = Interval.exactly(0.0)
    for phase in estimate.phases:
        if phase.name in names:
            total = total + phase.seconds
    return total


def _show(rows: list[Row], difference: float, second: MeasuredRun, options: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    if options.json:
        print(
            json.dumps(
                {
                    "rows": [
                        {
                            "part": row.part,
                            "predicted": row.predicted.value,
                            "low": row.predicted.low,
                            "high": row.predicted.high,
                            "measured": row.measured,
                            "inside": row.inside,
                        }
                        for row in rows
                    ],
                    "largest_difference_of_loss": difference,
                    "load": load,
                },
                indent=2,
            )
        )
        return
    print(f"{'':<24}{'predicted':>12}{'90% interval':>22}{'measured':>12}")
    for row in rows:
        ends = f"{format_duration(row.predicted.low)} – {format_duration(row.predicted.high)}"
        inside = "" if row.inside else "  outside"
        print(
            f"{row.part:<24}{format_duration(row.predicted.value):>12}{ends:>22}{format_duration(row.measured):>12}{inside}"
        )
    last = max(second.losses)
    print(
        f"loss of epoch {last}: {second.losses[last]:.6f}; it differs by at most {difference:.1e} from the training "
        "without a migration"
    )
    print(f"load at the end: {load:.1f}")


if __name__ == "__main__":
    main()
