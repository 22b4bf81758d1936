"""The step time of a program that was never measured, on a measured GPU, from its operations: `vision_models_rtx3090`.

Complete families are left out together (`ResNet50` nearly determines `ResNet101`); in the part `known_family` only the
program itself is left out, and the same network under other names. With a test folder the fit has all but the tested
programs; `known_family` are those with a relative in it, and `family_left_out` leaves these relatives out as well.

The table has times of about three hundred further models. We traced their operations ourselves, after the model was
designed: they are used in the fit, and `further` are these models with their families left out.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.judged import Array, Judged
from benchmarks.accuracy.roofline_baselines import Baselines
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.physics import interval_factor, step_seconds
from trainfare.estimator.gpu.physics_fit import fit_physics
from trainfare.measurements.traced_models import read_image_models, read_own_image_traces, read_torchvision
from trainfare.model.measurement import MeasuredIteration

KEY = "unseen_model/vision_models_rtx3090"
FOLDS = 12
Rows = Sequence[MeasuredIteration]


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    further = read_own_image_traces(fit)
    learned = [*read_image_models(fit), *further, *_on_other_gpus(fit)]
    judged = read_image_models(fit if test is None else test)
    by_family = _folds(judged, [row.family for row in judged], learned, family=True)
    by_program = _folds(judged, [row.program for row in judged], learned, family=False)
    if test is None:
        yield _judged(KEY, by_family, "families left out")
        yield _judged(f"{KEY}/known_family", by_program, "programs left out, their families known")
        if further:
            also = _folds(further, [row.family for row in further], learned, family=True)
            yield _judged(f"{KEY}/further", also, "operations traced by us; families left out")
        return
    rest = _without(judged, learned, family=False)
    families = {row.family for row in rest}
    known = [row for row in judged if row.family in families]
    yield _judged(KEY, [(judged, rest)], f"{len(judged) - len(known)} of families that are not in the fit")
    if known:
        yield _judged(f"{KEY}/known_family", [(known, rest)], "")
        yield _judged(f"{KEY}/family_left_out", by_family, "")


def _on_other_gpus(folder: Path) -> list[MeasuredIteration]:
    """The rows of the other table, if the folder has it."""
    try:
        return [row for row in read_torchvision(folder) if row.gpus == 1]
    except FileNotFoundError:
        return []


def _folds(judged: Rows, groups: Sequence[str], learned: Rows, *, family: bool) -> list[tuple[Rows, Rows]]:
    """Folds of groups, each with the rows to learn from: without its programs, or without their families."""
    names = sorted(set(groups))
    found: list[tuple[Rows, Rows]] = []
    for start in range(min(FOLDS, len(names))):
        taken = set(names[start::FOLDS])
        own = [row for row, group in zip(judged, groups, strict=True) if group in taken]
        found.append((own, _without(own, learned, family=family)))
    return found


def _without(own: Rows, learned: Rows, *, family: bool) -> Rows:
    """The rows without these programs; a network with the same operations is the same program, whatever its name."""
    programs, networks = {row.program for row in own}, {row.operations for row in own}
    families = {row.family for row in own} if family else set()
    return [
        row
        for row in learned
        if row.program not in programs and row.operations not in networks and row.family not in families
    ]


def _judged(key: str, folds: Sequence[tuple[Rows, Rows]], note: str) -> Judged:
    gpus = load_gpus()
    truth: list[float] = []
    ours: list[float] = []
    factors: list[float] = []
    baselines: dict[str, list[Array]] = {}
    for rows, rest in folds:
        fit = fit_physics(rest, gpus)
        for row in rows:
            (step,) = step_seconds(row.operations, [gpus[row.gpu]], fit)
            truth.append(row.seconds)
            ours.append(step.seconds)
            factors.append(interval_factor(step, row.gpu, fit))
        same_gpus = [row for row in rest if row.gpu in {row.gpu for row in rows}] or rest
        for name, values in Baselines.fitted(same_gpus, gpus).predicted(rows, gpus).items():
            baselines.setdefault(name, []).append(values)
    low, high = np.array(ours) / factors, np.array(ours) * factors
    together = {name: np.concatenate(values) for name, values in baselines.items()}
    return Judged.of(key, truth, ours, low, high, baselines=together, note=note)
