"""The coverage of 90% intervals, and the noise coefficients in `estimator/step/repeats.py`.

    python -m benchmarks.coverage --fit DIR                  public repeats: DIR/cnn_on_ec2/latency.csv.gz
    python -m benchmarks.coverage --here N [--runs FILE]     N runs of two example programs on this machine
    python -m benchmarks.coverage --runs FILE                runs that were saved before

Public repeats: 883 settings (ten CNNs, image sizes, batch sizes, four EC2 types), nine runs each. S, β and ν₀ of the
formula are fitted without a family of networks, or without a machine type; each run of the group that was left out is
then predicted from one, two, three or eight of its other runs.

On this machine: two complete programs. From the first iterations of some runs the time and the cost of another run are
estimated, as by `trainfare estimate`, and compared with that run.
"""

import argparse
import csv
import gzip
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.estimator.step.repeats import ITERATION_NOISE, RunNoise, repeat_interval
from trainfare.model.bill import Billing, Overheads, Terms
from trainfare.model.interval import Interval
from trainfare.model.machine import Host, VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.units import format_percent

FAMILIES = {
    "AlexNet": "AlexNet",
    "InceptionResNetV2": "Inception",
    "ResNet18": "ResNet",
    "ResNet34": "ResNet",
    "VGG11": "VGG",
    "VGG13": "VGG",
    "VGG19": "VGG",
    "LeNet5": "small",
    "MNIST_CNN": "small",
    "CIFAR10_CNN": "small",
}
SCALE_MARGIN = 1.15
"""The shipped scale over the maximum likelihood estimate."""
KNOWN = (1, 2, 3, 8)
EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = {
    "pytorch_cnn.py": ("--batch-size", "32", "--epochs", "4"),
    "keras_mlp.py": ("--epochs", "9"),
}
ITERATIONS = {"pytorch_cnn.py": 120, "keras_mlp.py": 200}
PER_EPOCH = 45
"""Iterations per epoch of both programs at these batch sizes."""
PROFILED_ITERATIONS = 60
"""Iterations that the estimate uses."""
DRAWS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One program on one machine type, and the seconds of an iteration in each of its runs."""

    family: str
    machine: str
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The share of `n` true values inside their intervals, and the median factor of the intervals."""

    of: str
    known: int
    n: int
    inside: float
    factor: float


def read_settings(folder: Path) -> list[Setting]:
    runs: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with gzip.open(folder / "cnn_on_ec2" / "latency.csv.gz", "rt") as file:
        for line in csv.DictReader(file):
            key = tuple(line[name] for name in ("model", "instance_name", "dataset", "optimizer", "batchsize"))
            if line["batch_latency"]:
                runs[key].append(float(line["batch_latency"]))
    return [
        Setting(family=FAMILIES[key[0]], machine=key[1], seconds=tuple(found))
        for key, found in runs.items()
        if len(found) > max(KNOWN)
    ]


def fit(settings: list[Setting]) -> RunNoise:
    """The maximum likelihood estimate of S, β and ν₀: the variance of k runs over s₀² follows F(k − 1, ν₀)."""
    from scipy.optimize import minimize
    from scipy.stats import f

    logs = np.log(np.array([setting.seconds for setting in settings]))
    variance = logs.var(axis=1, ddof=1)
    middle = np.median(logs, axis=1) - math.log(0.1)

    def negative_log_likelihood(p: NDArray[np.float64]) -> float:
        log_s0 = p[0] + p[1] * middle
        ratio = variance / np.exp(2 * log_s0)
        return -float(np.sum(f.logpdf(ratio, logs.shape[1] - 1, np.exp(p[2])) - 2 * log_s0))

    found = minimize(negative_log_likelihood, [-4.4, -0.3, 1.0], method="Nelder-Mead").x
    return RunNoise(
        scale=SCALE_MARGIN * math.exp(found[0]),
        exponent=float(found[1]),
        degrees=math.exp(found[2]),
        persistent_share=ITERATION_NOISE.persistent_share,
    )


def measure_coverage(of: str, settings: list[Setting], noise: RunNoise, known: int, rng: np.random.Generator) -> Row:
    inside, widths = [], []
    for setting in settings:
        for i, truth in enumerate(setting.seconds):
            others = rng.permutation([t for j, t in enumerate(setting.seconds) if j != i])[:known]
            found = repeat_interval([[float(t)] for t in others], noise=noise)
            inside.append(found.low <= truth <= found.high)
            widths.append(math.sqrt(found.high / found.low))
    return Row(of=of, known=known, n=len(inside), inside=fmean(inside), factor=median(widths))


def left_out(settings: list[Setting], group: Callable[[Setting], str]) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for known in KNOWN:
        rows = []
        for name in sorted({group(setting) for setting in settings}):
            noise = fit([setting for setting in settings if group(setting) != name])
            rows.append(measure_coverage(name, [s for s in settings if group(s) == name], noise, known, rng))
        yield from rows
        n = sum(row.n for row in rows)
        yield Row(
            of="all",
            known=known,
            n=n,
            inside=sum(row.inside * row.n for row in rows) / n,
            factor=median(row.factor for row in rows),
        )


def run_here(count: int, file: Path) -> None:
    """Append one line per run to the file."""
    for _ in range(count):
        for program, arguments in PROGRAMS.items():
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "trainfare.cli.main", "profile", "--no-operations", "--json"]
                command += ["--iterations", str(ITERATIONS[program]), "--store", f"{folder}/history.db", "--"]
                done = subprocess.run(
                    [*command, sys.executable, program, *arguments],
                    cwd=EXAMPLES,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            found = json.loads(done.stdout)
            fields = ("init_seconds", "iteration_seconds", "validation_seconds")
            with file.open("a") as lines:
                lines.write(json.dumps({"program": program} | {name: found[name] for name in fields}) + "\n")


def coverage_on_this_machine(file: Path) -> Iterator[Row]:
    runs: dict[str, list[Profile]] = defaultdict(list)
    for number, line in enumerate(file.read_text().splitlines()):
        run = json.loads(line)
        runs[run["program"]].append(_profile(f"p{number}", run))
    rng = np.random.default_rng(0)
    for known in (1, 2, 3, 5):
        found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
        for program, profiles in runs.items():
            for i, truth in enumerate(profiles):
                for _ in range(DRAWS):
                    others = [p for j, p in enumerate(profiles) if j != i]
                    chosen = [others[k] for k in rng.permutation(len(others))[:known]]
                    for what, (inside, width) in _compare([_beginning(p) for p in chosen], truth).items():
                        found[f"{program}: {what}"].append((inside, width))
                        found[f"both: {what}"].append((inside, width))
        for of, answers in sorted(found.items()):
            yield Row(
                of=of,
                known=known,
                n=len(answers),
                inside=fmean(inside for inside, _ in answers),
                factor=median(width for _, width in answers),
            )


MACHINE = VmType(provider="own", name="here", gpu=None, gpus=0, vcpus=None, memory_gib=None)
OFFER = Offer(
    vm_type=MACHINE, region="here", market="own", usd_per_hour=1.0, seen_on=date(2026, 11, 16), source="a benchmark"
)


def _profile(id_: str, run: dict[str, list[float]]) -> Profile:
    return Profile(
        id=id_,
        program=Program(command=("python", "train.py"), directory="here"),
        host=Host(name="here", vm_type=MACHINE.key),
        measured_at=datetime.now(UTC),
        framework="any",
        micro_batch_size=32,
        iterations_per_epoch=PER_EPOCH,
        init_seconds=run["init_seconds"],  # type: ignore[arg-type] # the one number among the lists
        iteration_seconds=tuple(run["iteration_seconds"]),
        validation_seconds=tuple(run["validation_seconds"]),
    )


def _beginning(profile: Profile) -> Profile:
    """The profile after its first iterations."""
    return replace(
        profile,
        iteration_seconds=profile.iteration_seconds[:PROFILED_ITERATIONS],
        validation_seconds=profile.validation_seconds[: PROFILED_ITERATIONS // PER_EPOCH],
    )


def _compare(known: list[Profile], truth: Profile) -> dict[str, tuple[bool, float]]:
    """Coverage and width of the intervals of iteration, time and cost, for the complete epochs of the other run."""
    epochs = len(truth.iteration_seconds) // PER_EPOCH
    complete = truth.iteration_seconds[: epochs * PER_EPOCH]
    seconds = (truth.init_seconds or 0.0) + sum(complete) + sum(truth.validation_seconds[:epochs])
    billing = Billing(increment_seconds=1.0)
    terms = Terms(provider="own", billing=billing, boot_seconds=Interval.exactly(0.0))
    (found,) = estimate_all(
        StepTimePredictor(known),
        [Candidate(offer=OFFER, nodes=1, batch_size=32)],
        iterations_per_epoch=PER_EPOCH,
        epochs=epochs,
        charges=Charges(terms=lambda _: terms, overheads=Overheads(disk_gib=0, results_gib=0)),
    )
    truths = {
        "iteration": (found.iteration_seconds, fmean(complete[1:])),
        "time": (found.seconds, seconds),
        "cost": (found.usd, billing.billed_seconds(seconds) / 3600),
    }
    return {
        what: (interval.low <= true <= interval.high, math.sqrt(interval.high / interval.low))
        for what, (interval, true) in truths.items()
    }


def _print(title: str, rows: list[Row]) -> None:
    print(f"\n{title:32}{'known runs':>11}{'n':>7}{'inside':>9}{'factor':>8}")
    for row in rows:
        print(f"{row.of:32}{row.known:11}{row.n:7}{format_percent(round(row.inside, 3)):>9}   {row.factor:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fit", type=Path, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--here", type=int, metavar="N", help="run the two programs N times each")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="file of these runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, list[Row]] = {}
    if options.fit:
        settings = read_settings(options.fit)
        noise = fit(settings)
        print(f"coefficients: {noise}", file=sys.stderr)
        result["family left out"] = list(left_out(settings, lambda s: s.family))
        result["machine left out"] = list(left_out(settings, lambda s: s.machine))
    with tempfile.TemporaryDirectory() as folder:
        file = options.runs or Path(folder) / "runs.jsonl"
        if options.here:
            run_here(options.here, file)
        if file.exists():
            result["on this machine"] = list(coverage_on_this_machine(file))
    if not result:
        parser.error("pass --fit, --here or --runs")
    if options.json:
        print(json.dumps({title: [asdict(row) for row in rows] for title, rows in result.items()}, indent=2))
        return
    for title, rows in result.items():
        _print(title, rows)


if __name__ == "__main__":
    main()
