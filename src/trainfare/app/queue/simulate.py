"""Simulates a queue under policies, compares them, bounds the cost, and generates queues."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from trainfare.app.queue.folder import require_free_folder, write_queue
from trainfare.app.queue.policy_errors import translate_policy_errors
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.queue.table import instance_from_now, queue_table
from trainfare.errors import InfeasibleError, Remedy, UsageError
from trainfare.measurements.instances import read_instance
from trainfare.model.queue import Delays, ExcludedJob, Instance, start_seconds
from trainfare.model.reason import Reason, text_reason
from trainfare.scheduler.bounds.lower_bound import LowerBound, lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.limits import (
    MAX_JOBS,
    MAX_NODES,
    MAX_SECONDS,
    exclude_impossible_jobs,
    require_error,
    require_nodes,
    require_seed,
    require_tick,
)
from trainfare.scheduler.policies.registry import (
    DEFAULT_POLICY,
    POLICIES,
    Policy,
    canonical_policy_name,
    load_policy,
)
from trainfare.scheduler.simulation.generate import QueueSetting, generate, with_prediction_error
from trainfare.scheduler.simulation.options import REAL_DELAYS, SimulationOptions
from trainfare.scheduler.simulation.report import (
    BoundReport,
    PolicyComparison,
    SimulationReport,
    SkippedPolicy,
    rank_reports,
)
from trainfare.scheduler.simulation.simulate import ProgressCallback, simulate
from trainfare.settings import Settings
from trainfare.units import format_count
from trainfare.views.schedule import excluded_sentence, skipped_sentence

QueueSource = Instance | str | Path | None
"""An instance, a folder that contains one, or None for the stored queue."""

SMALL_NODES = 8
"""per_node has a variable for each job on each node: with more nodes it runs only if it is named."""
SPOT_DISCOUNT = 0.6
"""Spot costs a third to a half of on demand."""
GANG_NODES = (2, 4)


def simulate_queue(
    instance: QueueSource = None,
    *,
    nodes: int,
    policy: str = DEFAULT_POLICY,
    options: SimulationOptions | None = None,
    on_progress: ProgressCallback | None = None,
    settings: Settings | None = None,
) -> SimulationReport:
    """The schedule of `policy` for the queue in a folder, of an instance, or of the store, on at most `nodes` nodes."""
    function = load_policy(policy)
    queue = _prepare_queue(instance, nodes, options or SimulationOptions(), settings)
    bound = lower_bound(queue.instance, nodes)
    return _simulate(queue, canonical_policy_name(policy), function, bound, on_progress)


def compare_policies(
    instance: QueueSource = None,
    *,
    nodes: int,
    policies: Sequence[str] = (),
    options: SimulationOptions | None = None,
    on_progress: ProgressCallback | None = None,
    on_finished: Callable[[SimulationReport], None] = lambda _: None,
    settings: Settings | None = None,
) -> PolicyComparison:
    """The same queue under each of these policies, or under all; `on_finished` is called after each simulation."""
    names = list(dict.fromkeys(canonical_policy_name(name) for name in policies)) or list(POLICIES)
    skipped: list[SkippedPolicy] = []
    if not policies and nodes > SMALL_NODES:
        names.remove("per_node")
        reason = Reason(topic="why", code="too_many_variables", values={"nodes": SMALL_NODES})
        skipped.append(SkippedPolicy(policy="per_node", reason=reason))
    functions = {name: load_policy(name) for name in names}
    queue = _prepare_queue(instance, nodes, options or SimulationOptions(), settings)
    bound = lower_bound(queue.instance, nodes)
    reports = []
    for name, function in functions.items():
        try:
            reports.append(_simulate(queue, name, function, bound, on_progress))
        except InfeasibleError as error:
            reason = text_reason("why", error.message.rstrip("."))
            skipped.append(SkippedPolicy(policy=name, reason=reason))
            continue
        on_finished(reports[-1])
    if not reports:
        raise InfeasibleError(f"no policy finishes this queue: {skipped_sentence(skipped[-1])}.")
    return rank_reports(reports, skipped)


def bound_queue(instance: QueueSource = None, *, nodes: int, settings: Settings | None = None) -> BoundReport:
    """The lower bound on the cost of every schedule of the queue on at most `nodes` nodes."""
    queue = _prepare_queue(instance, nodes, SimulationOptions(), settings)
    return BoundReport(
        bound=lower_bound(queue.instance, nodes),
        jobs=len(queue.instance.jobs),
        nodes=nodes,
        excluded=queue.excluded,
    )


def generate_instance(
    *,
    nodes: int,
    into: str | Path | None = None,
    jobs: int | None = None,
    load: float | None = None,
    mean_arrival_seconds: float | None = None,
    arrivals: Literal["exponential", "poisson"] = "exponential",
    seed: int = 0,
    error: float = 0.0,
    spot: bool = False,
    gangs: bool = False,
    users: int = 0,
    quota_gpus: int | None = None,
    force: bool = False,
) -> Instance:
    """A queue by the rule of Jahani et al. 2019; with `into` also written there, over another one only with `force`.

    By default it has ten jobs per node at a load of 1; `mean_arrival_seconds` between submissions replaces the load.
    With `spot` every machine type also exists on spot, 60 % cheaper and reclaimed; with `gangs` jobs can take two or
    four complete nodes.
    """
    if load is not None and mean_arrival_seconds is not None:
        raise UsageError("give a load or a mean time between arrivals, not both.", field="mean_arrival_seconds")
    if quota_gpus is not None and quota_gpus < 1:
        raise UsageError(f"with a quota of {quota_gpus} GPUs no job can run: give 1 or more.", field="quota_gpus")
    if quota_gpus is not None and not users:
        raise UsageError(
            "a quota applies to each user, and the queue has none: give users too, or no quota.",
            field="quota_gpus",
            remedies=[Remedy({"users": 4})],
        )
    if jobs is not None and jobs < 1:
        raise UsageError(f"a queue needs at least one job, got {jobs}.", field="jobs")
    if nodes < 1:
        raise UsageError(f"a queue needs at least one node, got {nodes}.", field="nodes")
    if load is not None and not load > 0:
        raise UsageError(f"must be a positive number, got {load:g}.", field="load")
    if nodes > MAX_NODES or (jobs or 0) > MAX_JOBS:
        raise UsageError(
            f"a generated queue has at most {format_count(MAX_NODES)} nodes and {format_count(MAX_JOBS)} jobs.",
            field="nodes" if nodes > MAX_NODES else "jobs",
        )
    require_seed(seed)
    require_error(error)
    if into is not None:
        require_free_folder(Path(into), force=force)
    try:
        setting = QueueSetting(
            nodes=nodes,
            jobs=jobs,
            load=1.0 if load is None else load,
            mean_gap_seconds=mean_arrival_seconds,
            arrivals=arrivals,
            log_error=error,
            users=users,
            quota_gpus=quota_gpus,
            gang_nodes=tuple(number for number in GANG_NODES if gangs and number <= nodes),
            spot_discount=SPOT_DISCOUNT if spot else 0.0,
        )
    except ValueError as invalid:
        raise UsageError(f"this queue cannot be generated: {invalid}.") from invalid
    instance = _generate(setting, seed)
    if into is not None:
        write_queue(Path(into), instance)
    return instance


def _generate(setting: QueueSetting, seed: int) -> Instance:
    """The generated queue, if its last job is submitted within the supported range of times."""
    try:
        with np.errstate(over="ignore"):
            instance = generate(setting, seed)
    except ValueError:  # a time exceeds the largest number
        instance = None
    if instance is None or instance.jobs[-1].submitted_seconds > MAX_SECONDS:
        raise UsageError(
            "this queue cannot be generated: its jobs are submitted too rarely.", remedies=[Remedy({"load": 0.7})]
        )
    return instance


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedQueue:
    """The queue to simulate under any policy."""

    instance: Instance
    """Its second 0 is the start of the queue."""
    start_seconds: float
    """The start on the queue's own clock."""
    nodes: int
    delays: Delays
    options: SimulationOptions
    excluded: tuple[ExcludedJob, ...]


def _prepare_queue(
    source: QueueSource, nodes: int, options: SimulationOptions, settings: Settings | None
) -> _PreparedQueue:
    require_nodes(nodes)
    instance, default_delays, excluded = _read_queue(source, nodes, settings)
    if not instance.jobs:
        raise UsageError("this queue has no jobs: add some to its jobs.csv, and their times to times.csv.")
    if options.error is not None:
        instance = with_prediction_error(instance, options.error, options.seed)
    instance, impossible = exclude_impossible_jobs(instance, nodes)
    if not instance.jobs:
        raise InfeasibleError(f"no job of this queue can run: {excluded_sentence(impossible[0])}.")
    if options.tick_seconds is not None:
        require_tick(options.tick_seconds, instance, nodes)
    start = start_seconds(instance.jobs)
    return _PreparedQueue(
        instance=instance.relative_to(start),
        start_seconds=start,
        nodes=nodes,
        delays=options.delays(default_delays),
        options=options,
        excluded=(*excluded, *impossible),
    )


def _read_queue(
    source: QueueSource, nodes: int, settings: Settings | None
) -> tuple[Instance, Delays, tuple[ExcludedJob, ...]]:
    """The queue, its default delays, and the jobs that could not be read."""
    if source is None:
        table = queue_table(QueueQuestion(nodes=nodes), settings=settings)
        unplanned = tuple(ExcludedJob(job=each.submission.id, reason=each.reason) for each in table.unplanned)
        return instance_from_now(table), table.delays, unplanned
    if isinstance(source, Instance):
        return source, REAL_DELAYS, ()
    read = read_instance(Path(source))
    return read.instance, REAL_DELAYS, read.excluded


def _simulate(
    queue: _PreparedQueue, name: str, policy: Policy, bound: LowerBound, on_progress: ProgressCallback | None
) -> SimulationReport:
    with translate_policy_errors():
        schedule = simulate(
            queue.instance,
            policy,
            name=name,
            nodes=queue.nodes,
            delays=queue.delays,
            tick_seconds=queue.options.tick_seconds,
            seed=queue.options.seed,
            clock=time.perf_counter,
            on_progress=on_progress,
        )
    return SimulationReport(
        schedule=schedule.relative_to(-queue.start_seconds),
        outcome=evaluate(schedule),
        mode=queue.options.mode,
        bound=bound,
        excluded=queue.excluded,
    )
