"""The step time on another EC2 machine type, from operator times and step time on one: `cnn_on_ec2`.

Each row is one step, profiled on the first machine and predicted on the second. Complete families are left out of the
fit (VGG, ResNet, Inception; AlexNet, LeNet5 and the two small CNNs each separately), and with `/model` one program at a
time while its siblings stay, which is optimistic: VGG11 predicts VGG13.

Baselines use the same programs on the same pair of machines:
peak FP32        the ratio of the peaks
constant ratio   the mean ratio of the other programs
ridge            log latency from log latency, batch and pixels
PROFET           our implementation of Lee et al. 2022: the median of a linear regression, a random forest and a neural
                 network on operator times. Operators are grouped by class instead of by similar names, and the network
                 is smaller and bounded; needs scikit-learn
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.accuracy.ec2_rows import TransferRow, folds, predicted_rows, unknown_types
from benchmarks.accuracy.judged import Array, Judged
from trainfare.estimator.gpu.operator_classes import CLASSES, OTHER, seconds_by_class
from trainfare.measurements.cnn_on_ec2 import TABLE
from trainfare.model.interval import Interval
from trainfare.model.measurement import OperatorProfile

KEY = f"other_vm/{TABLE}"
Baseline = Callable[[Sequence[tuple[OperatorProfile, float]], Sequence[TransferRow]], Array]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    left_out = unknown_types(test or fit)
    note = f"types without known GPU skipped: {', '.join(left_out)}" if left_out else ""
    rows, answers = predicted_rows(fit, test, "family")
    if not rows:
        return
    baselines = baseline_answers(fit, test, "family", {**BASELINES, **_profet()})
    yield _judged(KEY, rows, answers, baselines, note)
    for pair in sorted({(row.profile.vm_type, row.to) for row in rows}):
        chosen = [i for i, row in enumerate(rows) if (row.profile.vm_type, row.to) == pair]
        part = {name: values[chosen] for name, values in baselines.items()}
        yield _judged(f"{KEY}/{pair[0]}-{pair[1]}", [rows[i] for i in chosen], [answers[i] for i in chosen], part, "")
    if test is None:
        simple = baseline_answers(fit, test, "program", BASELINES)
        yield _judged(f"{KEY}/model", *predicted_rows(fit, test, "program"), simple, "siblings stay in the fit")


def _judged(
    key: str, rows: Sequence[TransferRow], answers: Sequence[Interval], baselines: Mapping[str, Array], note: str
) -> Judged:
    return Judged.of_intervals(key, [row.seconds for row in rows], answers, baselines=baselines, note=note)


def baseline_answers(fit: Path, test: Path | None, by: str, baselines: Mapping[str, Baseline]) -> dict[str, Array]:
    """The answers of the baselines, in the order of `predicted_rows`."""
    found: dict[str, list[Array]] = defaultdict(list)
    for known, asked in folds(fit, test, by=by):
        for name, baseline in baselines.items():
            found[name].append(pair_by_pair(baseline, known, asked))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def pair_by_pair(baseline: Baseline, known: Sequence[OperatorProfile], asked: Sequence[TransferRow]) -> Array:
    """Answers for each pair of machine types from the other programs on that pair."""
    at = {(p.program, p.image_side, p.batch_size, p.vm_type): p for p in known}
    answers = np.full(len(asked), np.nan)
    for source, to in sorted({(row.profile.vm_type, row.to) for row in asked}):
        both = [
            (p, at[p.program, p.image_side, p.batch_size, to].seconds)
            for p in known
            if p.vm_type == source and (p.program, p.image_side, p.batch_size, to) in at
        ]
        chosen = [i for i, row in enumerate(asked) if (row.profile.vm_type, row.to) == (source, to)]
        answers[chosen] = baseline(both, [asked[i] for i in chosen])
    return answers


def by_peak(_: Sequence[tuple[OperatorProfile, float]], asked: Sequence[TransferRow]) -> Array:
    return np.array([row.profile.seconds * row.source.fp32_tflops / row.target.fp32_tflops for row in asked])


def by_constant_ratio(both: Sequence[tuple[OperatorProfile, float]], asked: Sequence[TransferRow]) -> Array:
    if not both:
        return np.full(len(asked), np.nan)
    ratio = float(np.mean([there / here.seconds for here, there in both]))
    return np.array([row.profile.seconds * ratio for row in asked])


def by_ridge(both: Sequence[tuple[OperatorProfile, float]], asked: Sequence[TransferRow]) -> Array:
    if len(both) < 5:
        return np.full(len(asked), np.nan)

    def columns(profiles: Sequence[OperatorProfile]) -> Array:
        return np.array([[1, np.log(p.seconds), np.log(p.batch_size), np.log(p.image_side)] for p in profiles])

    x, y = columns([here for here, _ in both]), np.log([there for _, there in both])
    w = np.linalg.solve(x.T @ x + 1e-2 * np.eye(4), x.T @ y)
    return np.asarray(np.exp(columns([row.profile for row in asked]) @ w))


def by_profet(both: Sequence[tuple[OperatorProfile, float]], asked: Sequence[TransferRow]) -> Array:
    linear = import_module("sklearn.linear_model").LinearRegression()
    forest = import_module("sklearn.ensemble").RandomForestRegressor(n_estimators=50, random_state=0)
    net = import_module("sklearn.neural_network").MLPRegressor(
        hidden_layer_sizes=(32, 16), max_iter=300, random_state=0
    )
    if len(both) < 5:
        return np.full(len(asked), np.nan)

    def columns(profiles: Sequence[OperatorProfile]) -> Array:
        found = []
        for profile in profiles:
            classes = seconds_by_class(profile.device_seconds)
            found.append([*(classes.get(kind, 0.0) for kind in (*CLASSES, OTHER)), profile.seconds])
        return 1e3 * np.array(found)

    x, y = columns([here for here, _ in both]), np.array([there for _, there in both])
    asked_x, lowest = columns([row.profile for row in asked]), y.min() / 2
    by_line, by_forest = linear.fit(x, y).predict(asked_x), forest.fit(x, y).predict(asked_x)
    middle, spread = np.log1p(x).mean(axis=0), np.log1p(x).std(axis=0) + 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge
        net.fit((np.log1p(x) - middle) / spread, np.log(y))
    # Bounded by the measurements: one diverging row of the network would dominate its mean error.
    bounded = np.clip(net.predict((np.log1p(asked_x) - middle) / spread), np.log(lowest), np.log(4 * y.max()))
    return np.asarray(np.median([np.maximum(by_line, lowest), by_forest, np.exp(bounded)], axis=0))


BASELINES: Mapping[str, Baseline] = {
    "peak FP32": by_peak,
    "constant ratio": by_constant_ratio,
    "ridge": by_ridge,
}


def _profet() -> dict[str, Baseline]:
    return {"PROFET": by_profet} if find_spec("sklearn") else {}
