"""What is run: the programs, the slices of this machine with invented prices, and each measurement as a line of JSON.

Every measurement is appended to a file as it ends, so that an interrupted benchmark goes on where it stopped.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.slices import slice_offers
from trainfare.app.profiling.profile import profile
from trainfare.clouds.local import LocalDoor
from trainfare.model.document import from_document, to_document
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.settings import Settings

PROGRAMS = Path(__file__).parent / "programs"
FRAMEWORKS = {"PyTorch": "pytorch_cnn.py", "Keras": "keras_mlp.py", "JAX": "jax_mlp.py"}
BATCH_SIZES = (32, 64, 128, 256)
SAMPLES = 4311

SLICES = {"half": (0.5, 0.020), "one": (1.0, 0.045), "two": (2.0, 0.120)}
"""CPUs, and dollars an hour, invented: twice the CPUs cost more than twice as much, as with GPUs."""
CHEAPEST = "half"

What = Literal["until stable", "two epochs", "iterations", "whole"]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to run."""

    what: What
    framework: str
    batch_size: int
    slice: str
    epochs: int | None = None
    """Of a whole run."""


@dataclass(frozen=True, slots=True)
class Done:
    task: Task
    seconds: float
    """Wall time of all of it, as it would be paid."""
    profile: Profile | None


def first_tasks() -> list[Task]:
    """What the two methods measure. Those on the cheapest slice come first: they say how many epochs are enough."""
    until = [Task("until stable", f, b, CHEAPEST) for f in FRAMEWORKS for b in BATCH_SIZES]
    rest = [Task("two epochs", f, b, s) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES if s != CHEAPEST]
    rest += [Task("iterations", f, b, s) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES]
    return until + _mixed(rest)


def whole_tasks(epochs: dict[tuple[str, int], int]) -> list[Task]:
    """Everything, to the end."""
    return _mixed([Task("whole", f, b, s, epochs[f, b]) for f in FRAMEWORKS for b in BATCH_SIZES for s in SLICES])


def _mixed(tasks: list[Task]) -> list[Task]:
    """In an order in which a slow minute of the machine hits no slice or framework alone; the same at every run."""
    return random.Random(0).sample(tasks, len(tasks))  # noqa: S311 # an order, not a secret


def read_done(path: Path) -> Iterator[Done]:
    for line in path.read_text().splitlines() if path.exists() else ():
        fields = json.loads(line)
        kept = fields["profile"]
        yield Done(Task(**fields["task"]), fields["seconds"], from_document(Profile, kept) if kept else None)


def run(task: Task, path: Path) -> Done:
    program = Program(
        command=(
            sys.executable,
            FRAMEWORKS[task.framework],
            *("--batch-size", str(task.batch_size)),
            *(("--epochs", str(task.epochs)) if task.epochs else ()),
        ),
        directory=str(PROGRAMS),
    )
    done = _run_whole(task, program, path.parent) if task.what == "whole" else _profiled(task, program, path.parent)
    line = {
        "task": asdict(task),
        "seconds": done.seconds,
        "profile": to_document(done.profile) if done.profile else None,
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return done


def _profiled(task: Task, program: Program, folder: Path) -> Done:
    """Through the door that a user takes: `trainfare profile --on local/half -- …`."""
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
    return Done(task, time.monotonic() - started, found)


def _run_whole(task: Task, program: Program, folder: Path) -> Done:
    """Without the probe, through the door by which a run would be started."""
    offer = slice_offers(SLICES)[task.slice]
    door = LocalDoor(folder / "machines", [offer])
    run_id = f"{task.framework}-{task.batch_size}-{task.slice}".lower()
    (machine,) = door.launch(Candidate(offer=offer, nodes=1, batch_size=task.batch_size), run_id=run_id)
    try:
        door.start(machine, program)
        while (activity := door.observe(machine)).state != "ended":
            time.sleep(0.2)
        if activity.exit_code != 0 or activity.seconds is None:
            raise SystemExit(f"{run_id} failed:\n{door.output(machine).decode(errors='replace')}")
        return Done(task, activity.seconds, None)
    finally:
        door.terminate(run_id)
