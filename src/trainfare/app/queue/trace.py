"""A queue from a trace of jobs and a table of measured throughputs."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainfare.app.queue.folder import require_free, write_queue
from trainfare.app.queue.limits import require_error, require_seed
from trainfare.errors import UsageError
from trainfare.measurements.job_traces import read_job_trace
from trainfare.model.queue import Instance
from trainfare.scheduler.tables import slot_table


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceImport:
    """The queue of a trace, and a sentence for each job of it that cannot be scheduled."""

    instance: Instance
    left_out: tuple[str, ...]

    @property
    def last_seconds(self) -> float:
        """When the last job is submitted."""
        return self.instance.jobs[-1].submitted_seconds

    @property
    def nodes(self) -> int:
        """The fewest nodes whose load is at most 1; of jobs that all come at once, a node for each.

        A job that runs on gangs alone needs as many nodes as its smallest.
        """
        jobs, slots = self.instance.jobs, self.instance.slots
        widest = max(
            min(slot.nodes for slot, seconds in zip(slots, job.seconds, strict=True) if seconds < math.inf)
            for job in jobs
        )
        by_load = math.ceil(least_node_seconds(self.instance) / self.last_seconds) if self.last_seconds else len(jobs)
        return min(max(by_load, widest, 1), max(len(jobs), widest))

    @property
    def load(self) -> float | None:
        """On that many nodes; None where all jobs come at once."""
        return least_node_seconds(self.instance) / (self.nodes * self.last_seconds) if self.last_seconds else None


def least_node_seconds(instance: Instance) -> float:
    """Σ_j min_k frac_k·t_jk, frac_k the part of a node that slot k takes: load = this / (N · time that jobs come)."""
    fraction = slot_table(instance.fleet(1)).fraction
    true = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    return float(sum((fraction * np.array(seconds)).min() for seconds in true))


def import_trace(
    trace: str | Path,
    throughputs: str | Path,
    *,
    into: str | Path | None = None,
    jobs: int | None = None,
    gangs: bool = False,
    asked_gpus: bool = False,
    seed: int = 0,
    error: float = 0.0,
    force: bool = False,
) -> TraceImport:
    """The queue of a trace in gavel's form, its first `jobs` alone where wanted; with `into`, written there too.

    True times are steps / measured steps a second. Machines, their prices, deadlines and what lateness costs are those
    of `measurements.job_traces`, the latter two from the seed. With `gangs` a job may go over several machines of one
    GPU; with `asked_gpus` it runs on as many GPUs as its author asked for and on no others. `error` is the standard
    deviation of log(true/predicted).
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} jobs are no queue: give --jobs 1 or more.")
    require_seed(seed)
    require_error(error)
    if into is not None:
        require_free(Path(into), force=force)
    read = read_job_trace(
        Path(trace),
        Path(throughputs),
        jobs=jobs,
        gangs=gangs,
        asked_only=asked_gpus,
        log_error=error,
        seed=seed,
    )
    if not read.instance.jobs:
        raise UsageError(f"there are no jobs in {trace}: name a file with a job a line.")
    if into is not None:
        write_queue(Path(into), read.instance)
    return TraceImport(instance=read.instance, left_out=read.left_out)
