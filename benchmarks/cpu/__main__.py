"""Predictions for other CPU machines from a CPU profile, compared with measured and published times.

    python -m benchmarks.cpu [slices|cores|published|fc2] [--keep FILE] [--prefix WORDS] [--iterations N] [--json]

slices      small PyTorch programs are profiled on half a core, one core and two of this machine, and each slice is
            predicted from every other one by `estimator/cpu`, and also by `estimator/step/slices.py`, which
            `recommend` uses for slices, and by the ratio of the cores
cores       the same without half a core, whose quota does not apply to programs with a real-time priority
published   five Keras examples are profiled on this machine, and their published epochs on 8 to 64 vCPUs of a Skylake
            CPU predicted: from the profile here, and from the published epoch on 8 vCPUs
fc2         the network of FC2 is profiled on this machine, and the ranges that its recommendations imply for one
            worker are compared with the predicted step

With `--keep FILE` profiles are appended to FILE and not measured again. `--prefix` are words before each command, such
as a command that raises its priority on a busy machine.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.accuracy.judged import Judged, format_against, format_interval
from benchmarks.accuracy.page import score_table
from benchmarks.cpu.published import CPU, EPOCHS, machine
from trainfare.app.profiling.profile import profile
from trainfare.catalog.cpu_facts import cpu_for, load_cpus
from trainfare.estimator.prediction.other_cpu import OtherCpuPredictor
from trainfare.estimator.prediction.profile_index import ProfileIndex
from trainfare.estimator.prediction.scaled import predict_on_other_slice
from trainfare.model.document import from_json, to_json
from trainfare.model.interval import Interval
from trainfare.model.machine import Host, VmType
from trainfare.model.profile import Profile
from trainfare.papers.fc2 import bandwidths
from trainfare.settings import Settings
from trainfare.units import format_duration

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SLICES = {"half": 0.5, "one": 1.0, "two": 2.0}
SLICE_CORES = {f"local/{name}": cores for name, cores in SLICES.items()}
TORCH = (("mlp", 64), ("mlp", 512), ("cnn", 64), ("transformer", 64))
FC2_BATCHES = (64, 128, 512)
FC2_TYPES = {
    "t2.xlarge": (4, "Xeon E5-2686 v4"),
    "m4.xlarge": (4, "Xeon E5-2686 v4"),
    "c4.xlarge": (4, "Xeon E5-2666 v3"),
    "c4.8xlarge": (36, "Xeon E5-2666 v3"),
}
"""vCPUs and CPU of the workers without a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prediction, its truth and its baselines."""

    task: str
    what: str
    predicted: Interval
    truth: float
    baselines: dict[str, float]


class Profiles:
    """Profiles of programs on slices of this machine, measured once and kept in a file."""

    def __init__(self, keep: Path | None, prefix: Sequence[str], iterations: int) -> None:
        self._keep, self._prefix, self._iterations = keep, tuple(prefix), iterations
        lines = keep.read_text().splitlines() if keep and keep.exists() else []
        self._found = {_key(each): each for each in (from_json(Profile, line) for line in lines)}

    def of(self, program: Path, *words: str, on: str) -> Profile:
        command = (sys.executable, program.name, *words)
        key = (command[1:], f"local/{on}")
        if key not in self._found:
            print(f"profiling {' '.join(command[1:])} on {on}", file=sys.stderr, flush=True)
            self._found[key] = self._measure(command, program.parent, on)
        return self._found[key]

    def _measure(self, command: tuple[str, ...], folder: Path, on: str) -> Profile:
        with tempfile.TemporaryDirectory() as temporary:
            machines = Path(temporary) / "machines.toml"
            slices = (f"[{name}]\nslice = true\nvcpus = {cpus}\nusd_per_hour = 1\n" for name, cpus in SLICES.items())
            machines.write_text("".join(slices))
            found = profile(
                (*self._prefix, *command),
                directory=folder,
                on=f"local/{on}",
                settings=Settings(store=str(Path(temporary) / "history.db"), machines=str(machines)),
                iterations=self._iterations,
                in_place=True,
            )
        found = replace(found, program=replace(found.program, command=command))
        if self._keep:
            with self._keep.open("a") as file:
                file.write(to_json(found) + "\n")
        return found


def _key(found: Profile) -> tuple[tuple[str, ...], str | None]:
    return tuple(found.program.command[1:]), found.host.vm_type


def _index(profiles: Sequence[Profile]) -> ProfileIndex:
    names = {each.host.cpu for each in profiles if each.host.cpu}
    cpus = {name: cpu for name in names if (cpu := cpu_for(name)) is not None}
    return ProfileIndex.build(profiles, gpus={}, slice_cores=SLICE_CORES, cpus=cpus)


def _slice(name: str) -> VmType:
    return VmType(provider="local", name=name, gpu=None, gpus=0, vcpus=SLICES[name], memory_gib=None)


def slices(profiles: Profiles, skipped: Sequence[str] = ()) -> Iterator[Row]:
    cores = len(os.sched_getaffinity(0))
    names = [name for name, count in SLICES.items() if count <= cores and name not in skipped]
    programs: list[tuple[Path, tuple[str, ...]]] = [
        (PROGRAMS / "torch_networks.py", (network, "--batch-size", str(size))) for network, size in TORCH
    ]
    programs.append((ROOT / "examples" / "pytorch_cnn.py", ("--batch-size", "64", "--epochs", "1000")))
    for program, words in programs:
        name = words[0] if program.parent == PROGRAMS else program.stem
        size = words[words.index("--batch-size") + 1]
        on = {each: profiles.of(program, *words, on=each) for each in names}
        for asked in names:
            others = [each for each in names if each != asked]
            for known in [(each,) for each in others] + ([tuple(others)] if len(others) > 1 else []):
                index = _index([on[each] for each in known])
                found = OtherCpuPredictor(index).predict(_slice(asked), None)
                by_slices = predict_on_other_slice(index, _slice(asked), None)
                if found is None or by_slices is None:
                    continue
                near = min(known, key=lambda each: abs(math.log(SLICES[each] / SLICES[asked])))
                seconds = index.times[on[near].id].later.value
                truth = _index([on[asked]]).times[on[asked].id].later.value
                yield Row(
                    task=f"slices/{'from one' if len(known) == 1 else 'from the others'}",
                    what=f"{name} at {size}: {'+'.join(known)} → {asked}",
                    predicted=found.seconds,
                    truth=truth,
                    baselines={
                        "slices.py": by_slices.seconds.value,
                        "as there": seconds,
                        "by cores": seconds * SLICES[near] / SLICES[asked],
                    },
                )


def published(profiles: Profiles) -> Iterator[Row]:
    for name, epochs in EPOCHS.items():
        here = profiles.of(PROGRAMS / "keras_networks.py", name, on="two")
        here = replace(here, micro_batch_size=epochs.batch_size)
        from_here = OtherCpuPredictor(_index([here]))
        seconds = epochs.seconds[8] / epochs.iterations
        there = replace(
            here,
            host=Host(name="n1", cpu=CPU, cores=8, physical_cores=4),
            iteration_seconds=(seconds,) * 20,
            data_wait_seconds=(),
            cpu_use=None,
            cpu_queue_share=0.0,
            loss=(),
            learning_rate=(),
            threads=None,
        )
        from_there = OtherCpuPredictor(_index([there]))
        for vcpus, truth in epochs.seconds.items():
            for task, predictor, known, start in (
                ("published/from this machine", from_here, 2.0, _index([here]).times[here.id].later.value),
                ("published/from 8 vCPUs", from_there, 4.0, seconds),
            ):
                if vcpus == 8 and predictor is from_there:
                    continue
                found = predictor.predict(machine(vcpus), epochs.batch_size)
                if found is not None:
                    yield Row(
                        task=task,
                        what=f"{name} on {vcpus} vCPUs",
                        predicted=found.seconds * epochs.iterations,
                        truth=truth,
                        baselines={
                            "as there": start * epochs.iterations,
                            "by cores": start * epochs.iterations * known / (vcpus / 2),
                        },
                    )


def fc2(profiles: Profiles) -> Iterator[str]:
    """Each range of a worker's traffic as a range of its step, which sends its gradients once. The step is at least the
    computing, and at most the computing and then sending gradients and weights at the bandwidth that FC2 measured."""
    ranges = bandwidths()
    for batch in FC2_BATCHES:
        here = profiles.of(PROGRAMS / "torch_networks.py", "fc2", "--batch-size", str(batch), on="two")
        predictor = OtherCpuPredictor(_index([here]))
        megabits = 8e-6 * (here.gradient_bytes or 0)
        for name, (vcpus, cpu) in FC2_TYPES.items():
            implied = ranges.get((name, batch))
            if implied is None:
                continue
            kind = VmType(
                provider="aws", name=name, gpu=None, gpus=0, vcpus=vcpus, memory_gib=None, cpu=load_cpus()[cpu]
            )
            found = predictor.predict(kind, batch)
            if found is None:
                continue
            sending = 2 * megabits / (450.0 if vcpus == 4 else 1000.0)
            low, high = megabits / implied.high, megabits / implied.low if implied.low else math.inf
            computing = found.seconds
            agrees = computing.high + sending >= low and computing.low <= high
            upper = "" if math.isinf(high) else f" and at most {format_duration(high)}"
            verdict = "agrees" if agrees else "disagrees"
            yield (
                f"{name:11} batch {batch:4}: computing {format_interval(computing)}, sending up to "
                f"{format_duration(sending)}; implied at least {format_duration(low)}{upper}: {verdict}"
            )


def judge(rows: Sequence[Row]) -> Iterator[Judged]:
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        yield Judged.of_intervals(
            f"cpu/{task}",
            [row.truth for row in own],
            [row.predicted for row in own],
            baselines={name: [row.baselines[name] for row in own] for name in own[0].baselines},
        )


def _line(row: Row) -> str:
    return f"{row.task:28} {row.what:40} {format_against(row.predicted, row.truth)}"


TASKS: dict[str, Callable[[Profiles], Iterator[Row]]] = {
    "slices": slices,
    "cores": lambda profiles: slices(profiles, skipped=("half",)),
    "published": published,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("task", nargs="*", help="slices, published or fc2; all of them by default")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--prefix", default="", metavar="WORDS")
    parser.add_argument("--iterations", type=int, default=30, metavar="N", help="iterations of each profile")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tasks = options.task or ["slices", "published", "fc2"]
    profiles = Profiles(options.keep, options.prefix.split(), options.iterations)
    load = os.getloadavg()[0]
    rows = [row for name in tasks if name in TASKS for row in TASKS[name](profiles)]
    scores = {judged.key: judged.scores() for judged in judge(rows)}
    ranges = list(fc2(profiles)) if "fc2" in tasks else []
    if options.json:
        print(json.dumps({"tasks": scores, "fc2": ranges}, indent=2, ensure_ascii=False))
        return
    for line in (*map(_line, rows), *ranges):
        print(line)
    print(f"\n{score_table(scores)}\nload {load:.1f} before, {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
