"""Queues of logged jobs: the first jobs of each trace, with the measured throughputs of their models.

    load = Σ_j min_k frac_k·t_jk / (N · time over which jobs are submitted)

The time of a trace is stretched or compressed until the load on N nodes is the requested one: bursts stay bursts, and
times and deadlines, counted from submission, stay the same. (Choosing N instead is no alternative: three of the traces
keep one node of eight GPUs busy.) A trace whose jobs are all submitted at once has no load and is skipped.

Policies see the true times, or the estimator's predictions from one GPU (`predictions`), in both modes.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.schedule.cases import REAL, BenchmarkOptions
from benchmarks.schedule.predictions import PROFILED_GPU, models_by_job, predict_ratios, with_predictions
from benchmarks.schedule.run import Case
from trainfare.measurements.job_traces import TraceOptions, read_job_trace
from trainfare.model.queue import Delays, Instance
from trainfare.scheduler.tables import min_node_seconds

POLICIES = ("fifo", "edf", "greedy", "path_relinking", "trainfare")
LOADS = (0.8, 1.1)
NODES = (4,)
JOBS = 100
MODES = {"paper": Delays(), "real": REAL}
THROUGHPUT, TRACES = "throughput.csv", "job_traces/*.trace"


def traces(options: BenchmarkOptions) -> Iterator[Case]:
    """Each trace at each load in both modes, with true and with predicted times."""
    if options.traces is None:
        return
    predictions = predict_ratios(options.traces.parent)
    for trace in sorted(options.traces.glob(TRACES)):
        models = models_by_job(trace)
        for seed in range(options.seeds):
            found = read_job_trace(
                trace, options.traces / THROUGHPUT, TraceOptions(jobs=options.jobs, seed=seed)
            ).instance
            if not found.jobs[-1].submitted_seconds:
                print(f"  {trace.name} is skipped: its jobs are all submitted at once", file=sys.stderr)
                break
            for nodes in options.nodes:
                for load in options.loads:
                    known = at_load(found, load, nodes)
                    queues = {
                        "true times": known,
                        f"from one {PROFILED_GPU}": with_predictions(known, models, predictions),
                    }
                    yield from _cases(
                        options, f"{trace.stem}, {len(known.jobs)} jobs, load {load:g}", queues, nodes, seed
                    )


def _cases(options: BenchmarkOptions, name: str, queues: dict[str, Instance], nodes: int, seed: int) -> Iterator[Case]:
    for mode, delays in MODES.items():
        for times, queue in queues.items():
            for policy in options.policies or POLICIES:
                yield Case(
                    setting=f"{name}, {mode}, {times}",
                    policy=policy,
                    nodes=nodes,
                    seed=seed,
                    given=queue,
                    delays=delays,
                )


def at_load(instance: Instance, load: float, nodes: int) -> Instance:
    """The queue with its submissions stretched or compressed; the time from submission to deadline stays the same."""
    last = instance.jobs[-1].submitted_seconds
    scale = min_node_seconds(instance) / (load * nodes * last)
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


def has_traces(folder: Path | None) -> bool:
    return folder is not None and (folder / THROUGHPUT).is_file() and any(folder.glob(TRACES))
