"""Malta's two methods on CPU slices of this machine: `python -m benchmarks.method_on_this_machine [--json]`.

Three programs (PyTorch, Keras, JAX) × four batch sizes × three slices (half a CPU, one, two) at invented prices. The
first method trains each batch size until it is stable on the cheapest slice and two epochs on the others; the second
profiles some iterations on all of them. Then everything is run to the end, without the probe, for the number of epochs
that the first method found, and the methods are compared: the error of the time, the choice of the best configuration,
and the cost of measuring. It needs both CPUs for itself for about half an hour. Measurements are appended to
`--folder`, so that an interrupted benchmark continues; a new folder starts anew.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.method_on_this_machine.judging import MethodResult, by_epochs, by_iterations, epochs_needed, judge
from benchmarks.method_on_this_machine.measuring import (
    FRAMEWORKS,
    SLICES,
    Measurement,
    Task,
    complete_tasks,
    first_tasks,
    read_measurements,
    run,
)
from trainfare.profiler.host import this_host

AIM = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description="Malta's two methods on slices of this machine.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "method_on_this_machine")
    parser.add_argument("--anew", action="store_true", help="discard the measurements in the folder")
    arguments = parser.parse_args()
    if arguments.anew:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    done = measure_all(arguments.folder / "done.jsonl")
    judged = [
        judge(framework, method, [d for d in of if d.task.what == "complete"])
        for framework in FRAMEWORKS
        for of in [[d for d in done if d.task.framework == framework]]
        for method in (by_epochs(of), by_iterations(of, _epochs(of)))
    ]
    if arguments.json:
        print(json.dumps([asdict(each) | {"median_error": each.median_error} for each in judged], indent=2))
    else:
        print("\n".join(page(judged, done)))


def measure_all(path: Path) -> list[Measurement]:
    """All measurements; those that are not yet in the file are run."""
    done = {each.task: each for each in read_measurements(path)}
    _run_missing(first_tasks(), done, path)
    _run_missing(complete_tasks(epochs_needed(done.values())), done, path)
    return list(done.values())


def _run_missing(tasks: list[Task], done: dict[Task, Measurement], path: Path) -> None:
    missing = [task for task in tasks if task not in done]
    for number, task in enumerate(missing, start=1):
        done[task] = run(task, path)
        description = f"{task.framework} at {task.batch_size} on {task.slice}: {task.what}, {done[task].seconds:.1f} s"
        print(f"{number} of {len(missing)}  {description}", file=sys.stderr, flush=True)


def _epochs(of: list[Measurement]) -> dict[int, int]:
    return {batch_size: epochs for (_, batch_size), epochs in epochs_needed(of).items()}


def page(judged: list[MethodResult], done: list[Measurement]) -> list[str]:
    host = this_host(vm_type=None, gpu=None, gpus=0)
    slices = ", ".join(f"{name} ({cpus:g} CPU, ${usd:g}/h)" for name, (cpus, usd) in SLICES.items())
    epochs = {f: _epochs([d for d in done if d.task.framework == f]) for f in FRAMEWORKS}
    lines = [
        f"{datetime.now(UTC).date()}, {host.cpu}, {host.cores} cores, Python {platform.python_version()}; {slices}.",
        "",
        "| program | method | error of the time: median, worst | within the 90% interval | fastest: chosen, loss "
        "| cheapest: chosen, loss | cost and time of measuring (relative to running everything) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {each.framework} | {each.method} | {each.median_error:.1%}, {max(each.errors):.1%} | "
        f"{each.inside} of {len(each.errors)} | {_choice(each.fastest, each.lost_seconds)} | "
        f"{_choice(each.cheapest, each.lost_usd)} | {each.measuring_cost_share:.0%}, {each.measuring_time_share:.0%} |"
        for each in judged
    ]
    lines += ["", "Epochs until stable, by batch size:", ""]
    for framework, found in epochs.items():
        lines.append(f"- {framework}: " + ", ".join(f"{size}: {count}" for size, count in sorted(found.items())))
    return lines


def _choice(chosen_and_best: tuple[tuple[int, str], tuple[int, str]], loss: float) -> str:
    chosen, best = chosen_and_best
    if chosen == best:
        return f"{chosen[1]} at {chosen[0]}, correct"
    return f"{chosen[1]} at {chosen[0]}, {loss:.1%} worse than {best[1]} at {best[0]}"


if __name__ == "__main__":
    main()
