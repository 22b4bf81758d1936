"""Queues of logged jobs: the first of each trace, with the throughputs that were measured for its models.

    load = Σ_j min_k frac_k·t_jk / (N · time that jobs come)

An hour of a trace is made longer or shorter until the load is the one wanted on N nodes: bursts stay bursts, and times
and deadlines, counted from submission, stay as they are. (Choosing N instead leaves no choice: three of the traces keep
one node of eight GPUs busy.) A trace whose jobs all come at once has no load and is passed over.

Policies are told the true times, or what the estimator says from one GPU (`predicted`), in both modes.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.schedule.games import REAL, Asked
from benchmarks.schedule.play import Game
from benchmarks.schedule.predicted import PROFILED, guesses, kinds_of, with_predictions
from trainfare.app.queue.trace import least_node_seconds
from trainfare.measurements.job_traces import read_job_trace
from trainfare.model.queue import Delays, Instance

POLICIES = ("fifo", "edf", "greedy", "path_relinking", "trainfare")
LOADS = (0.8, 1.1)
NODES = (4,)
JOBS = 100
MODES = {"paper": Delays(), "real": REAL}
THROUGHPUT, TRACES = "throughput.csv", "job_traces/*.trace"


def traces(asked: Asked) -> Iterator[Game]:
    """Each trace at each load in both modes, with times that are known and with times that are predicted."""
    if asked.traces is None:
        return
    told = guesses(asked.traces.parent)
    for trace in sorted(asked.traces.glob(TRACES)):
        kinds = kinds_of(trace)
        for seed in range(asked.seeds):
            found = read_job_trace(trace, asked.traces / THROUGHPUT, jobs=asked.jobs, seed=seed).instance
            if not found.jobs[-1].submitted_seconds:
                print(f"  {trace.name} is passed over: its jobs come at once", file=sys.stderr)
                break
            for nodes in asked.nodes:
                for load in asked.loads:
                    known = at_load(found, load, nodes)
                    queues = {"true times": known, f"from one {PROFILED}": with_predictions(known, kinds, told)}
                    yield from _games(
                        asked, f"{trace.stem}, {len(known.jobs)} jobs, load {load:g}", queues, nodes, seed
                    )


def _games(asked: Asked, name: str, queues: dict[str, Instance], nodes: int, seed: int) -> Iterator[Game]:
    for mode, delays in MODES.items():
        for times, queue in queues.items():
            for policy in asked.policies or POLICIES:
                yield Game(
                    setting=f"{name}, {mode}, {times}",
                    policy=policy,
                    nodes=nodes,
                    seed=seed,
                    given=queue,
                    delays=delays,
                )


def at_load(instance: Instance, load: float, nodes: int) -> Instance:
    """The clock of submissions runs faster or slower; each job has as long from its own as before."""
    last = instance.jobs[-1].submitted_seconds
    scale = least_node_seconds(instance) / (load * nodes * last)
    return replace(
        instance,
        jobs=tuple(
            replace(
                job,
                submitted_seconds=job.submitted_seconds * scale,
                deadline_seconds=job.deadline_seconds + job.submitted_seconds * (scale - 1),
            )
            for job in instance.jobs
        ),
    )


def is_of_traces(folder: Path | None) -> bool:
    return folder is not None and (folder / THROUGHPUT).is_file() and any(folder.glob(TRACES))
