"""Imports a queue from a trace of jobs and a table of measured throughputs."""

from pathlib import Path

from trainfare.app.queue.folder import require_free_folder, write_queue
from trainfare.errors import UsageError
from trainfare.measurements.job_traces import TraceOptions, read_job_trace
from trainfare.scheduler.limits import require_error, require_seed
from trainfare.scheduler.simulation.trace_import import TraceImport


def import_trace(
    trace: str | Path,
    throughputs: str | Path,
    options: TraceOptions | None = None,
    *,
    into: str | Path | None = None,
    force: bool = False,
) -> TraceImport:
    """The queue of a trace in gavel's format; with `into` it is also written there, over another one only with `force`.

    True times are steps / measured steps a second. Machines, their prices, deadlines and the cost of lateness are those
    of `measurements.job_traces`, the latter two drawn from the seed.
    """
    options = options or TraceOptions()
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"a queue needs at least one job, got {options.jobs}.", field="jobs")
    require_seed(options.seed)
    require_error(options.error)
    if into is not None:
        require_free_folder(Path(into), force=force)
    read = read_job_trace(Path(trace), Path(throughputs), options)
    if not read.instance.jobs:
        raise UsageError(f"{trace} contains no jobs: name a file with one job per line.", field="trace")
    if into is not None:
        write_queue(Path(into), read.instance)
    return TraceImport(instance=read.instance, excluded=read.excluded)
