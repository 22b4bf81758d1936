"""Predictions for one CPU slice of this machine from others, compared with measurements.

    python -m benchmarks.accuracy.this_machine [--json] [--repeat N] [--seconds S] [--within S] [--keep FILE]

Small programs in PyTorch, Keras and JAX are profiled as by `trainfare profile --on local/half`, on half a core, one
core and two (as many as there are). Then each slice is predicted from each other one by `estimator/step/slices.py`, and
from all others together. The truth is the mean iteration of the profile that was left out. It takes about two minutes
on an idle machine of two cores; on a busy one the truth itself varies with the load, which is printed.

Baselines: `as there`, the time does not change; `by cores`, it is inversely proportional to the cores.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.judged import Judged, format_against
from benchmarks.accuracy.page import score_table
from trainfare.app.profiling.profile import profile
from trainfare.estimator.step.slices import SliceMeasurement, predict_step_times, slice_measurements
from trainfare.model.document import from_json, to_json
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile
from trainfare.settings import Settings

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "PyTorch": ROOT / "examples" / "pytorch_cnn.py",
    "Keras": ROOT / "benchmarks" / "method_on_this_machine" / "programs" / "keras_mlp.py",
    "JAX": ROOT / "benchmarks" / "method_on_this_machine" / "programs" / "jax_mlp.py",
}
BATCH_SIZES = (32, 256)
"""Batch sizes of each program: threads gain little with small batches, and more with large ones."""
SLICES = {"half": 0.5, "one": 1.0, "two": 2.0}
SLICE_CORES = {f"local/{name}": cores for name, cores in SLICES.items()}
WHAT = ("iteration", "initialisation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    framework: str
    batch_size: int
    slice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prediction, its truth and its baselines."""

    what: str
    program: str
    known: tuple[str, ...]
    asked: str
    predicted: Interval
    truth: float
    as_there: float
    by_cores: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="profiles of each program and slice")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="longest time of one profile")
    parser.add_argument(
        "--within", type=float, default=200.0, metavar="S", help="start no further profile after this time"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="append the profiles to FILE, and use all of its profiles"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    profiles = measure_profiles(options.repeat, options.seconds, options.within, options.keep)
    rows = list(predictions(profiles))
    busy = f"{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} at the end"
    scores = {judged.key: judged.scores() for judged in judge(rows, note=busy)}
    if options.json:
        print(json.dumps({"tasks": scores, "rows": [_record(row) for row in rows]}, indent=2, ensure_ascii=False))
        return
    print("\n".join(map(_line, rows)))
    print(f"\n{score_table(scores)}\n{busy}")


def measure_profiles(repeat: int, seconds: float, within: float, keep: Path | None) -> list[Profile]:
    """Profile all slices of a program one after the other, so that the load of the machine is similar."""
    found = [from_json(Profile, line) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        machines = Path(folder) / "machines.toml"
        machines.write_text(
            "".join(f"[{n}]\nslice = true\nvcpus = {cpus}\nusd_per_hour = 1\n" for n, cpus in SLICES.items())
        )
        settings = Settings(store=str(Path(folder) / "history.db"), machines=str(machines))
        for tasks in programs(repeat):
            if time.monotonic() - began > within:
                print(f"stopped after {time.monotonic() - began:.0f} s", file=sys.stderr)
                break
            for task in tasks:
                found.append(_profiled(task, settings, seconds))
                print(f"{task.framework} at {task.batch_size} on {task.slice}", file=sys.stderr, flush=True)
                if keep:
                    with keep.open("a") as file:
                        file.write(to_json(found[-1]) + "\n")
    return found


def programs(repeat: int) -> Iterator[list[Task]]:
    """The tasks of each program and batch size on all slices, in a random order that is always the same."""
    cores = len(os.sched_getaffinity(0))
    slices = [name for name, count in SLICES.items() if count <= cores]
    order = random.Random(0)
    for _ in range(repeat):
        for size in BATCH_SIZES:
            for framework in PROGRAMS:
                shuffled = order.sample(slices, len(slices))
                yield [Task(framework=framework, batch_size=size, slice=name) for name in shuffled]


def _profiled(task: Task, settings: Settings, seconds: float) -> Profile:
    program = PROGRAMS[task.framework]
    return profile(
        (sys.executable, program.name, "--batch-size", str(task.batch_size), "--epochs", "1000"),
        directory=program.parent,
        on=f"local/{task.slice}",
        settings=settings,
        max_seconds=seconds,
        trace_operations=False,
    )


def predictions(profiles: Sequence[Profile]) -> Iterator[Row]:
    """Predict each slice from each other one, and from all others together if there are several."""
    by_program: dict[tuple[str, int | None], list[Profile]] = {}
    for each in profiles:
        by_program.setdefault((each.framework, each.micro_batch_size), []).append(each)
    for (framework, size), its in by_program.items():
        seen = {p.host.vm_type or "": (p, on) for p, on in slice_measurements(its, SLICE_CORES)}
        for asked, (truth, there) in seen.items():
            others = [name for name in seen if name != asked]
            sets = [(name,) for name in others] + ([tuple(others)] if len(others) > 1 else [])
            for known in sets:
                yield from _rows(f"{framework} at {size}", [seen[name] for name in known], truth, there)


def _rows(
    program: str, known: Sequence[tuple[Profile, SliceMeasurement]], truth: Profile, there: SliceMeasurement
) -> Iterator[Row]:
    times = predict_step_times(there.slice, known)
    nearest, its = min(known, key=lambda k: abs(k[1].slice.cores - there.slice.cores))
    ratio = its.slice.cores / there.slice.cores
    for what, predicted, true, near in (
        (WHAT[0], times.later, there.seconds.value, its.seconds.value),
        (WHAT[1], times.init, truth.init_seconds or 0.0, nearest.init_seconds or 0.0),
    ):
        yield Row(
            what=what,
            program=program,
            known=tuple(_name(p) for p, _ in known),
            asked=_name(truth),
            predicted=predicted,
            truth=true,
            as_there=near,
            by_cores=near * ratio,
        )


def judge(rows: Sequence[Row], *, note: str) -> Iterator[Judged]:
    for what in WHAT:
        for several, part in ((False, "from one"), (True, "from the others")):
            own = [row for row in rows if row.what == what and (len(row.known) > 1) == several and row.truth > 0]
            if own:
                yield Judged.of_intervals(
                    f"this_machine/{what}/{part}",
                    [row.truth for row in own],
                    [row.predicted for row in own],
                    baselines={
                        "as there": [row.as_there for row in own],
                        "by cores": [row.by_cores for row in own],
                    },
                    note=note,
                )


def _name(profile: Profile) -> str:
    return (profile.host.vm_type or "").removeprefix("local/")


def _line(row: Row) -> str:
    asked = f"{row.what:14} {row.program:16} {'+'.join(row.known):>8} → {row.asked:4}"
    return f"{asked}  {format_against(row.predicted, row.truth)}"


def _record(row: Row) -> dict[str, object]:
    return {
        "what": row.what,
        "program": row.program,
        "known": list(row.known),
        "asked": row.asked,
        "predicted": row.predicted.value,
        "low": row.predicted.low,
        "high": row.predicted.high,
        "measured": row.truth,
    }


if __name__ == "__main__":
    main()
