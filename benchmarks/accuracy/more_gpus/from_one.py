"""Steps on several GPUs or nodes from one GPU or one node, by facts of the links and steps of other programs."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.few_to_many import Answers, GivenAndAsked, baselines, judged_of
from benchmarks.accuracy.more_gpus.programs import (
    ScaledProgram,
    seven_programs,
    t4_programs,
    weakly_published_programs,
)
from trainfare.estimator.parallel.links import ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.estimator.parallel.ring import DEFAULT_RING_SETTINGS, RingFit

FOLDS = 4

Read = Callable[[Path], Sequence[ScaledProgram]]


def read_steps(folder: Path, tables: Sequence[Read]) -> list[ClusterStep]:
    """The steps of all tables that the folder has."""
    found: list[ClusterStep] = []
    for read in tables:
        try:
            found += [step for program in read(folder) for step in program.cluster_steps()]
        except FileNotFoundError:
            continue
    return found


@cache
def multi_process_steps(folder: Path) -> tuple[ClusterStep, ...]:
    """The steps of all programs with one process per GPU, from all tables."""
    return tuple(read_steps(folder, [t4_programs, seven_programs, weakly_published_programs]))


def judge_from_one(
    key: str, known: Sequence[ClusterStep], asked: Sequence[ScaledProgram], *, note: str = ""
) -> list[Judged]:
    """Each family is predicted with a fit to the others."""
    answers = [(program, _answers(program.cluster_steps(), fit)) for program, fit in _fits(known, asked)]
    return [judged_of(f"{key}/from_one", answers, note)] if answers else []


def judge_one_node(key: str, known: Sequence[ClusterStep], asked: Sequence[ScaledProgram]) -> list[Judged]:
    """Several nodes are predicted from one GPU and facts, with half of the residual on one node."""
    answers: list[tuple[ScaledProgram, Answers]] = []
    for program, fit in _fits(known, asked):
        split = GivenAndAsked.of(program, lambda row: row.nodes == 1)
        if split is not None:
            steps = [step for step in program.cluster_steps() if step.nodes > 1]
            answers.append((program, {**_answers(steps, fit, split.ring(DEFAULT_RING_SETTINGS)), **baselines(split)}))
    return [judged_of(key, answers, "from the GPUs of one node to several nodes")] if answers else []


def _fits(known: Sequence[ClusterStep], asked: Sequence[ScaledProgram]) -> list[tuple[ScaledProgram, ScalingFit]]:
    groups: dict[str, list[ScaledProgram]] = defaultdict(list)
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
    predicted = [predict_cluster_step(step, fit, measured) for step in steps]
    return {
        "truth": [step.seconds for step in steps],
        "ours": [step.seconds for step in predicted],
        "low": [step.low for step in predicted],
        "high": [step.high for step in predicted],
        "linear scaling": [step.single_gpu_seconds for step in steps],
    }
