"""Malta's two methods for real, on slices of this machine: `python -m benchmarks.method_on_this_machine [--json]`.

Three programs (PyTorch, Keras, JAX) × four batch sizes × three slices (half a CPU, one, two) at invented prices. The
first method trains each batch size until it is stable on the cheapest slice and two epochs on the others; the second
profiles some iterations everywhere. Then everything is run to the end, without the probe, for the number of epochs that
the first method found, and the methods are judged: error of the time, whether the best was named, and what asking cost.
Needs both CPUs for itself for about half an hour. What is measured is appended to `--folder`, so that it can be
interrupted and goes on where it was; a new folder starts anew.
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

from benchmarks.method_on_this_machine.judging import Judged, by_epochs, by_iterations, epochs_needed, judge
from benchmarks.method_on_this_machine.measuring import (
    FRAMEWORKS,
    SLICES,
    Done,
    Task,
    first_tasks,
    read_done,
    run,
    whole_tasks,
)
from trainfare.profiler.host import this_host

AIM = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description="Malta's two methods on slices of this machine.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "method_on_this_machine")
    parser.add_argument("--anew", action="store_true", help="forget what the folder holds")
    arguments = parser.parse_args()
    if arguments.anew:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    done = measured(arguments.folder / "done.jsonl")
    judged = [
        judge(framework, method, [d for d in of if d.task.what == "whole"])
        for framework in FRAMEWORKS
        for of in [[d for d in done if d.task.framework == framework]]
        for method in (by_epochs(of), by_iterations(of, _epochs(of)))
    ]
    if arguments.json:
        print(json.dumps([asdict(each) | {"median_error": each.median_error} for each in judged], indent=2))
    else:
        print("\n".join(page(judged, done)))


def measured(path: Path) -> list[Done]:
    """Whatever is not yet in the file is run."""
    done = {each.task: each for each in read_done(path)}
    _run_missing(first_tasks(), done, path)
    _run_missing(whole_tasks(epochs_needed(done.values())), done, path)
    return list(done.values())


def _run_missing(tasks: list[Task], done: dict[Task, Done], path: Path) -> None:
    missing = [task for task in tasks if task not in done]
    for number, task in enumerate(missing, start=1):
        done[task] = run(task, path)
        words = f"{task.framework} at {task.batch_size} on {task.slice}: {task.what}, {done[task].seconds:.1f} s"
        print(f"{number} of {len(missing)}  {words}", file=sys.stderr, flush=True)


def _epochs(of: list[Done]) -> dict[int, int]:
    return {batch_size: epochs for (_, batch_size), epochs in epochs_needed(of).items()}


def page(judged: list[Judged], done: list[Done]) -> list[str]:
    host = this_host(vm_type=None, gpu=None, gpus=0)
    slices = ", ".join(f"{name} ({cpus:g} CPU, {usd:g} $/h)" for name, (cpus, usd) in SLICES.items())
    epochs = {f: _epochs([d for d in done if d.task.framework == f]) for f in FRAMEWORKS}
    lines = [
        f"{datetime.now(UTC).date()}, {host.cpu}, {host.cores} cores, Python {platform.python_version()}; {slices}.",
        "",
        "| program | method | error of the time: median, worst | within 90 % | fastest: named, lost "
        "| cheapest: named, lost | asking cost, took (of running everything) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {each.framework} | {each.method} | {each.median_error:.1%}, {max(each.errors):.1%} | "
        f"{each.inside} of {len(each.errors)} | {_named(each.fastest, each.lost_seconds)} | "
        f"{_named(each.cheapest, each.lost_usd)} | {each.spent:.0%}, {each.spent_time:.0%} |"
        for each in judged
    ]
    lines += ["", "Epochs until stable, by batch size:", ""]
    for framework, found in epochs.items():
        lines.append(f"- {framework}: " + ", ".join(f"{size}: {count}" for size, count in sorted(found.items())))
    return lines


def _named(named_and_true: tuple[tuple[int, str], tuple[int, str]], lost: float) -> str:
    named, true = named_and_true
    if named == true:
        return f"{named[1]} at {named[0]}, right"
    return f"{named[1]} at {named[0]}, {lost:.1%} off {true[1]} at {true[0]}"


if __name__ == "__main__":
    main()
