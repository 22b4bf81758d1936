"""The programs, the slices of this machine with invented prices, and the measurements as lines of JSON.

Every measurement is appended to a file as it ends, so that an interrupted benchmark continues where it stopped.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.slices import program_on, require_success, slice_offers
from trainfare.app.profiling.profile import profile
from trainfare.clouds import driver
from trainfare.model.document import from_document, to_document
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.settings import Settings

PROGRAMS = Path(__file__).parent / "programs"
FRAMEWORKS = {"PyTorch": "pytorch_cnn.py", "Keras": "keras_mlp.py", "JAX": "jax_mlp.py"}
BATCH_SIZES = (32, 64, 128, 256)
SAMPLES = 4311

SLICES = {"half": (0.5, 0.020), "one": (1.0, 0.045), "two": (2.0, 0.120)}
"""CPUs and invented dollars per hour: twice the CPUs cost more than twice as much, as with GPUs."""
CHEAPEST = "half"

TaskKind = Literal["until stable", "two epochs", "iterations", "complete"]


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement to run."""

    what: TaskKind
    framework: str
    batch_size: int
    slice: str
    epochs: int | None = None
    """Epochs of a complete run."""


@dataclass(frozen=True, slots=True)
class Measurement:
    task: Task
    seconds: float
    """Wall time of the measurement, which would be paid."""
    profile: Profile | None


def first_tasks() -> list[Task]:
    """The measurements of the two methods; those on the cheapest slice come first and give the number of epochs."""
    until = [Task("until stable", f, b, CHEAPEST) for f in FRAMEWORKS for b in BATCH_SIZES]
    rest = [Task("two epochs", f, b, s) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES if s != CHEAPEST]
    rest += [Task("iterations", f, b, s) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES]
    return until + _shuffled(rest)


def complete_tasks(epochs: dict[tuple[str, int], int]) -> list[Task]:
    """Complete runs of everything."""
    return _shuffled([Task("complete", f, b, s, epochs[f, b]) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES])


def _shuffled(tasks: list[Task]) -> list[Task]:
    """The tasks in a fixed random order, so that a slow minute does not affect one slice or framework alone."""
    return random.Random(0).sample(tasks, len(tasks))


def read_measurements(path: Path) -> Iterator[Measurement]:
    for line in path.read_text().splitlines() if path.exists() else ():
        fields = json.loads(line)
        document = fields["profile"]
        yield Measurement(
            Task(**fields["task"]), fields["seconds"], from_document(Profile, document) if document else None
        )


def run(task: Task, path: Path) -> Measurement:
    program = Program(
        command=(
            sys.executable,
            FRAMEWORKS[task.framework],
            *("--batch-size", str(task.batch_size)),
            *(("--epochs", str(task.epochs)) if task.epochs else ()),
        ),
        directory=str(PROGRAMS),
    )
    done = (
        _run_complete(task, program, path.parent) if task.what == "complete" else _profiled(task, program, path.parent)
    )
    line = {
        "task": asdict(task),
        "seconds": done.seconds,
        "profile": to_document(done.profile) if done.profile else None,
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return done


def _profiled(task: Task, program: Program, folder: Path) -> Measurement:
    """Profile as a user would: `trainfare profile --on local/half -- …`."""
    machines = folder / "machines.toml"
    machines.write_text(
        "".join(f"[{n}]\nslice = true\nvcpus = {cpus}\nusd_per_hour = {usd}\n" for n, (cpus, usd) in SLICES.items())
    )
    started = time.monotonic()
    found = profile(
        program.command,
        directory=PROGRAMS,
        on=f"local/{task.slice}",
        settings=Settings(store=str(folder / "history.db"), machines=str(machines)),
        until_stable=task.what == "until stable",
        epochs=2 if task.what == "two epochs" else None,
    )
    return Measurement(task, time.monotonic() - started, found)


def _run_complete(task: Task, program: Program, folder: Path) -> Measurement:
    """Run without the probe, through the door of the product."""
    run_id = f"{task.framework}-{task.batch_size}-{task.slice}".lower()
    offer = slice_offers(SLICES)[task.slice]
    with program_on(offer, program, folder=folder / "machines", run_id=run_id) as shell:
        while driver.results(shell) is None:
            time.sleep(0.2)
        return Measurement(task, require_success(shell)["seconds"], None)
