"""The computing time of a decision as the fleet grows.

Four and a half jobs per node are queued at once (the papers: 100 nodes, 450 jobs, 7 s; at 1000 nodes 4000), and the
queue runs for some events: the timed decisions are those on a full queue with most nodes busy.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from trainfare.model.queue import Decision, State
from trainfare.scheduler.policies.registry import Policy, load_policy
from trainfare.scheduler.simulation.generate import QueueSetting, generate
from trainfare.scheduler.simulation.simulate import simulate

DECISIONS = 40
PAPERS_NODES, PAPERS_JOBS, PAPERS_SECONDS = 100, 450, 7.0
TARGET_NODES, TARGET_SECONDS, TARGET_GAP = 1000, 1.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTimes:
    policy: str
    nodes: int
    jobs: int
    decisions: int
    p50_seconds: float
    p99_seconds: float
    p99_cpu_seconds: float
    """The CPU time of the one core that a decision uses: p99 on an otherwise idle machine."""
    worst_gap: float | None


class _StopSimulationError(Exception):
    pass


def scale(nodes: Sequence[int], policies: Sequence[str]) -> list[DecisionTimes]:
    return [_time_decisions(each, name) for each in nodes for name in policies]


def _time_decisions(nodes: int, name: str) -> DecisionTimes:
    jobs = min(round(4.5 * nodes), 4 * nodes if nodes >= TARGET_NODES else 5 * nodes)
    instance = generate(QueueSetting(nodes=nodes, jobs=jobs + DECISIONS, mean_gap_seconds=1.0), seed=0)
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    gaps: list[float] = []
    decide = _timed_on_full_queue(load_policy(name), jobs, seconds, cpu_seconds, gaps)
    with suppress(_StopSimulationError):
        simulate(instance, decide, name=name, nodes=nodes)
    return DecisionTimes(
        policy=name,
        nodes=nodes,
        jobs=jobs,
        decisions=len(seconds),
        p50_seconds=float(np.percentile(seconds, 50)),
        p99_seconds=float(np.percentile(seconds, 99)),
        p99_cpu_seconds=float(np.percentile(cpu_seconds, 99)),
        worst_gap=max(gaps, default=None),
    )


def _timed_on_full_queue(
    decide: Policy, jobs: int, seconds: list[float], cpu_seconds: list[float], gaps: list[float]
) -> Policy:
    """A policy that starts nothing until `jobs` are submitted, then decides `DECISIONS` times and records the times."""

    def timed(state: State) -> Decision:
        if not seconds and len(state.jobs) < jobs:
            return Decision(nodes=())
        if len(seconds) == DECISIONS:
            raise _StopSimulationError
        start, cpu_start = time.perf_counter(), time.process_time()
        decision = decide(state)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
        if decision.usd is not None and decision.bound_usd:
            gaps.append(decision.usd / decision.bound_usd - 1)
        return decision

    return timed


def print_scale(found: Sequence[DecisionTimes], *, as_json: bool, plot: Path | None) -> None:
    if plot:
        _draw(found, plot)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    head = {"policy": -16, "nodes": 7, "queued": 8, "decisions": 11, "p50 s": 9, "p99 s": 9, "p99 CPU s": 11, "gap": 9}
    print("".join(f"{name:{'<' if width < 0 else '>'}{abs(width)}}" for name, width in head.items()))
    for each in found:
        gap = "" if each.worst_gap is None else f"{each.worst_gap:.2%}"
        print(
            f"{each.policy:16}{each.nodes:>7}{each.jobs:>8}{each.decisions:>11}{each.p50_seconds:>9.3f}"
            f"{each.p99_seconds:>9.3f}{each.p99_cpu_seconds:>11.3f}{gap:>9}"
        )
    print(f"the papers: {PAPERS_NODES} nodes, {PAPERS_JOBS} jobs, under {PAPERS_SECONDS:g} s; "
          f"target: {TARGET_NODES} nodes under {TARGET_SECONDS:g} s with a gap ≤ {TARGET_GAP:.0%}")  # fmt: skip


def _draw(found: Sequence[DecisionTimes], plot: Path) -> None:
    from trainfare.app.figures import save_figure
    from trainfare.figures.chart import Chart, Series, chart_figure

    names = list(dict.fromkeys(each.policy for each in found))
    ours = max((each for each in found if each.policy == names[-1]), key=lambda each: each.nodes)
    chart = Chart(
        name="schedule-scale",
        title=f"{ours.nodes} nodes and {ours.jobs} queued jobs are decided in {ours.p99_seconds:.2g} s",
        subtitle="seconds that 99 % of decisions take at most, with 4 to 4.5 jobs a node queued",
        x="nodes",
        y="seconds",
        log_x=True,
        log_y=True,
        y_from_zero=False,
        series=tuple(
            Series(
                label=name,
                points=tuple((float(each.nodes), each.p99_seconds) for each in found if each.policy == name),
                chosen=name == ours.policy,
            )
            for name in names
        ),
    )
    save_figure(chart_figure(chart), plot)
