"""Nothing but one GPU measured, or one node: steps on more, from facts of the links and what other programs showed."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import Answers, Halves, baselines, judged_of
from benchmarks.accuracy.more_gpus.programs import (
    Program,
    seven_programs,
    t4_programs,
    weakly_published_programs,
)
from trainfare.estimator.parallel.links import ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.estimator.parallel.ring import DEFAULT_RING_SETTINGS, RingFit

FOLDS = 4

Read = Callable[[Path], Sequence[Program]]


def steps_of(folder: Path, tables: Sequence[Read]) -> list[ClusterStep]:
    """Of all tables that the folder has."""
    found: list[ClusterStep] = []
    for read in tables:
        try:
            found += [step for program in read(folder) for step in program.cluster_steps()]
        except FileNotFoundError:
            continue
    return found


@cache
def steps_in_step(folder: Path) -> tuple[ClusterStep, ...]:
    """Of all programs with a process for each GPU, whatever their table."""
    return tuple(steps_of(folder, [t4_programs, seven_programs, weakly_published_programs]))


def judge_from_one(key: str, known: Sequence[ClusterStep], asked: Sequence[Program], *, note: str = "") -> list[Judged]:
    """Each family is asked with a fit to the others."""
    answers = [(program, _answers(program.cluster_steps(), fit)) for program, fit in _fits(known, asked)]
    return [judged_of(f"{key}/from_one", answers, note)] if answers else []


def judge_one_node(key: str, known: Sequence[ClusterStep], asked: Sequence[Program]) -> list[Judged]:
    """Several nodes are told from one GPU and facts, and half of what facts miss on one node goes on to them."""
    answers: list[tuple[Program, Answers]] = []
    for program, fit in _fits(known, asked):
        half = Halves.of(program, lambda row: row.nodes == 1)
        if half is not None:
            steps = [step for step in program.cluster_steps() if step.nodes > 1]
            answers.append((program, {**_answers(steps, fit, half.ring(DEFAULT_RING_SETTINGS)), **baselines(half)}))
    return [judged_of(key, answers, "from the GPUs of one node to several nodes")] if answers else []


def _fits(known: Sequence[ClusterStep], asked: Sequence[Program]) -> list[tuple[Program, ScalingFit]]:
    groups: dict[str, list[Program]] = defaultdict(list)
    for program in asked:
        groups[program.family].append(program)
    found = []
    for family, group in groups.items():
        others = [step for step in known if step.family != family]
        if others:
            fit = fit_links(others, folds=FOLDS)
            found += [(program, fit) for program in group]
    return found


def _answers(steps: Sequence[ClusterStep], fit: ScalingFit, measured: RingFit | None = None) -> Answers:
    told = [predict_cluster_step(step, fit, measured) for step in steps]
    return {
        "truth": [step.seconds for step in steps],
        "ours": [one.seconds for one in told],
        "low": [one.low for one in told],
        "high": [one.high for one in told],
        "linear scaling": [step.single_gpu_seconds for step in steps],
    }
