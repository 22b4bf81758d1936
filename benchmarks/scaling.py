"""How well the time of a step on many GPUs follows from steps on few.

    python -m benchmarks.scaling --data DIR [--json]

DIR holds public measurements: `data_parallel_t4/` (4 programs, 1–64 T4s on up to 16 nodes),
`seven_models_k80_p100_v100/` (steps a second on 1–8 GPUs on one server or spread over many) and
`published_scaling_1_to_16/` (throughputs that NVIDIA publishes). Everything with more GPUs than the limit is held out
and judged; a program is fitted by its own steps only. The one figure that programs share, the latency share λ, is
chosen on data_parallel_t4 by the *other* programs, over the counts that are held out here; elsewhere it is the one
that ships. Errors are mean absolute percentage errors of the time of a step; over the programs of data_parallel_t4
they are averaged, elsewhere over all held-out steps.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from trainfare.estimator.parameter_server import ServedStep, fit_served
from trainfare.estimator.scaling import (
    LATENCY_SHARE,
    MeasuredStep,
    Placement,
    StepModel,
    fit_ring,
    linear_scaling,
)

PUBLISHED = 13.8
"""Mean of the 21 errors that Ardagna's slides print for extrapolation on the number of GPUs."""

SHARES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16)
ERRATIC = "v100, one server"
"""Steps there take longer on 4 GPUs than on 8 for most programs: no law of the number of GPUs follows them."""

Steps = list[MeasuredStep]
Fit = Callable[[Steps], StepModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """Sanghvi's form, asked for the batch of one GPU as the others are."""

    model: object

    def seconds(self, placement: Placement, batch_size: float) -> float:
        return self.model.seconds(gpus=placement.gpus, batch_size=batch_size * placement.gpus)  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastKnown:
    """The step is as long as on the largest measured count: linear scaling from there on."""

    steps: tuple[MeasuredStep, ...]

    def seconds(self, placement: Placement, batch_size: float) -> float:  # noqa: ARG002 # as the others are called
        same = [s for s in self.steps if s.batch_size == batch_size] or self.steps
        largest = max(s.placement.gpus for s in same)
        return median(s.seconds for s in same if s.placement.gpus == largest)


def served(steps: Steps) -> StepModel:
    totals = [
        ServedStep(gpus=s.placement.gpus, batch_size=s.batch_size * s.placement.gpus, seconds=s.seconds) for s in steps
    ]
    return _Served(model=fit_served(totals))


def ring(share: float) -> Fit:
    return lambda steps: fit_ring(steps, latency_share=share)


METHODS: dict[str, Fit] = {
    "linear from one GPU": linear_scaling,
    "linear from the largest": lambda steps: _LastKnown(steps=tuple(steps)),
    "α0·M/g + α1·g + α2": served,
    "ring, λ = 0": ring(0.0),
    "ring, λ shipped": ring(LATENCY_SHARE),
}


def data_parallel_t4(folder: Path) -> dict[str, Steps]:
    found: dict[str, Steps] = {}
    for program in sorted(path for path in (folder / "data_parallel_t4").iterdir() if path.is_dir()):
        steps = found.setdefault(program.name, [])
        for row in rows(program / "placements.csv"):
            on_each = [int(digit) for digit in row["placement"]]
            steps.append(step(len(on_each), sum(on_each), row["local_bsz"], float(row["step_time"])))
        steps += [
            step(int(row["num_nodes"]), int(row["num_replicas"]), row["local_bsz"], float(row["step_time"]))
            for row in rows(program / "scalability.csv")
        ]
    return found


def seven_models(folder: Path) -> dict[str, Steps]:
    """The table gives steps a second summed over workers; "many" says nothing of how many, so one GPU a server."""
    found: dict[str, Steps] = defaultdict(list)
    for row in rows(folder / "seven_models_k80_p100_v100" / "throughput.csv"):
        gpus, one = int(row["gpus"]), row["servers"] == "one"
        seconds = gpus / float(row["steps_per_second_summed_over_workers"])
        key = f"{row['gpu']}, {'one server' if one else 'many servers'}: {row['model']}"
        found[key].append(step(1 if one else gpus, gpus, row["batch_size_per_gpu"] or "1", seconds))
    return with_one_gpu(found)


def published_scaling(folder: Path) -> dict[str, Steps]:
    """One value at each count, up to the 16 GPUs of one machine. The unit cancels: work on K GPUs over throughput."""
    groups: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(folder / "published_scaling_1_to_16" / "throughput.csv"):
        key = " | ".join(row[name] for name in ("model", "system_section", "column", "batch"))
        groups[key][int(row["gpus"])].append(float(row["throughput"]))
    return {
        key: [step(1, gpus, "1", gpus / values[0]) for gpus, values in counts.items() if gpus <= 16]
        for key, counts in groups.items()
        if 1 in counts and all(len(values) == 1 for gpus, values in counts.items() if gpus <= 16)
    }


def step(nodes: int, gpus: int, batch: str, seconds: float) -> MeasuredStep:
    return MeasuredStep(placement=Placement(nodes=nodes, gpus=gpus), batch_size=float(batch), seconds=seconds)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def with_one_gpu(programs: Mapping[str, Steps]) -> dict[str, Steps]:
    """Only the batch sizes that were also measured on one GPU."""
    known = {name: {s.batch_size for s in steps if s.placement.gpus == 1} for name, steps in programs.items()}
    return {name: [s for s in steps if s.batch_size in known[name]] for name, steps in programs.items()}


def errors(steps: Steps, most: int, fit: Fit) -> list[float]:
    """In percent, of every step on more than `most` GPUs; none where there is nothing to fit or to judge."""
    seen = [s for s in steps if s.placement.gpus <= most]
    held_out = [s for s in steps if s.placement.gpus > most]
    if not held_out or not any(s.placement.gpus > 1 for s in seen):
        return []
    model = fit(seen)
    return [100 * abs(model.seconds(s.placement, s.batch_size) / s.seconds - 1) for s in held_out]


def share_of_the_others(programs: Mapping[str, Steps], most: int) -> dict[str, float]:
    """For each program the λ with which all the other programs come out best."""
    table = {
        (name, share): fmean(errors(steps, most, ring(share))) for name, steps in programs.items() for share in SHARES
    }
    return {
        name: min(SHARES, key=lambda share: sum(table[other, share] for other in programs if other != name))
        for name in programs
    }


def by_program(programs: Mapping[str, Steps], most: int) -> dict[str, dict[str, list[float]]]:
    found = {
        method: {name: errors(steps, most, fit) for name, steps in programs.items()}
        for method, fit in METHODS.items()
        if method != "ring, λ shipped"
    }
    shares = share_of_the_others(programs, most)
    found["ring, λ of the other programs"] = {
        f"{name} (λ {shares[name]})": errors(steps, most, ring(shares[name])) for name, steps in programs.items()
    }
    return found


def pooled(programs: Mapping[str, Steps], most: int) -> dict[str, list[float]]:
    return {
        method: [error for steps in programs.values() for error in errors(steps, most, fit)]
        for method, fit in METHODS.items()
    }


def measure(folder: Path) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []

    def add(data: str, most: int, method: str, groups: Mapping[str, Sequence[float]]) -> None:
        means = {name: fmean(values) for name, values in groups.items()}
        lines.append(
            {
                "data": data,
                "fitted_on_at_most": most,
                "method": method,
                "n": sum(len(values) for values in groups.values()),
                "mean": fmean(means.values()),
                "median": median(error for values in groups.values() for error in values),
                "by_program": means,
            }
        )

    t4 = data_parallel_t4(folder)
    for most in (4, 8):
        for method, groups in by_program(t4, most).items():
            add("data_parallel_t4", most, method, groups)
    seven = seven_models(folder)
    calm = {name: steps for name, steps in seven.items() if not name.startswith(ERRATIC)}
    for most in (2, 4):
        for name, programs in (("seven_models", seven), (f"seven_models without {ERRATIC}", calm)):
            for method, values in pooled(programs, most).items():
                add(name, most, method, {"all": values})
    for most in (4, 8):
        for method, values in pooled(published_scaling(folder), most).items():
            add("published_scaling", most, method, {"all": values})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (options.data / "data_parallel_t4").is_dir():
        parser.error(f"{options.data} does not hold data_parallel_t4/")
    lines = measure(options.data)
    if options.json:
        print(json.dumps(lines, indent=2, ensure_ascii=False))
        return
    heading = None
    for line in lines:
        if heading != (heading := (line["data"], line["fitted_on_at_most"])):
            print(f"\n{line['data']}: fitted on ≤ {line['fitted_on_at_most']} GPUs, judged on more")
            print(f"  {'':34}{'n':>5}{'mean':>9}{'median':>9}")
        each = line["by_program"]
        assert isinstance(each, dict)
        apart = "   " + ", ".join(f"{k} {v:.1f}" for k, v in each.items()) if len(each) > 1 else ""
        print(f"  {line['method']:34}{line['n']:>5}{line['mean']:7.1f} %{line['median']:7.1f} %{apart}")
    print(f"\npublished (Ardagna, number of GPUs, other programs and GPUs): {PUBLISHED} %")


if __name__ == "__main__":
    main()
