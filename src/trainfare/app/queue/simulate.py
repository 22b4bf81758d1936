"""A queue of jobs on rented nodes: what a policy would make of it, what others would, and what no schedule is below."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import numpy as np

from trainfare.app.queue.clock import start_seconds
from trainfare.app.queue.folder import require_free, write_queue
from trainfare.app.queue.limits import (
    LONGEST_SECONDS,
    MOST_JOBS,
    MOST_NODES,
    policies_may_fail,
    require_error,
    require_nodes,
    require_seed,
    require_tick,
    schedulable,
)
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.measurements.instances import read_instance
from trainfare.model.queue import Delays, Instance
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.scheduler.bounds.lower_bound import LowerBound, lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies.registry import DEFAULT_POLICY, POLICIES, Policy, canonical_policy_name
from trainfare.scheduler.policies.registry import policy as policy_of
from trainfare.scheduler.simulation.generate import QueueSetting, generate, with_prediction_error
from trainfare.scheduler.simulation.simulate import simulate

if TYPE_CHECKING:
    from trainfare.app.figures import Figure
    from trainfare.settings import Settings

Queue = Instance | str | Path | None
"""An instance, a folder that holds one, or None: what waits in the store."""

Mode = Literal["paper", "real"]
"""As the papers count: a node is there at once, and a job moves in no time. Or not."""

REAL = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60, checkpoint_every_seconds=600)

SMALL_NODES = 8
"""per_node has a variable for each job on each node: with more nodes than this it runs only when asked for."""
SPOT_DISCOUNT = 0.6
"""Spot costs a third to a half of on demand."""
GANG_NODES = (2, 4)
REFERENCE = "greedy"
"""Drawn beside the best."""


class Circumstances(TypedDict, total=False):
    """What else a simulation depends on."""

    mode: Mode
    boot_seconds: float | None
    checkpoint_seconds: float | None
    restart_seconds: float | None
    checkpoint_every_seconds: float | None
    """These four only in the mode `real`; None is its default."""
    tick_seconds: float | None
    """The policy is asked again after so long without an event; None: at events only."""
    seed: int
    """Of spot nodes being reclaimed, and of the error."""
    error: float | None
    """True times are put off the predicted ones by a factor of so large a standard deviation of its logarithm."""
    settings: "Settings | None"
    """Where the store is, from which a queue is taken that is given by no folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationProgress:
    """How far a simulation is."""

    policy: str
    now_seconds: float
    waiting: int
    running: int
    ended: int
    jobs: int


Watch = Callable[[SimulationProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """What one policy made of a queue."""

    schedule: Schedule
    outcome: ScheduleOutcome
    mode: Mode
    bound: LowerBound
    """No schedule of this queue costs less."""
    left_out: tuple[str, ...]
    """A sentence for each job of the folder that could not be read."""

    @property
    def gap(self) -> float | None:
        """total / bound - 1; None of a queue that may cost nothing."""
        return self.outcome.total_usd / self.bound.usd - 1 if self.bound.usd > 0 else None

    def figure(self) -> "Figure":
        """A lane a node, a bar a job; of many nodes, their GPUs in sum."""
        from trainfare.app.figures import Figure
        from trainfare.figures.gantt import gantt_figure
        from trainfare.figures.look import NARROW, WIDE

        wide, narrow = (
            gantt_figure(self.schedule, self.outcome, bound_usd=self.bound.usd, width=width) for width in (WIDE, NARROW)
        )
        return Figure(spec=wide, narrow=narrow)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """What several policies made of one queue, the cheapest first."""

    simulated: tuple[SimulationReport, ...]
    skipped: tuple[tuple[str, str], ...]
    """(policy, why it was not run)"""

    def figure(self, policies: Sequence[str] = ()) -> "Figure":
        """What each costs; below, the schedules of these policies, else of the cheapest and of greedy."""
        from trainfare.app.figures import Figure
        from trainfare.figures.look import NARROW, WIDE
        from trainfare.figures.schedule_costs import policies_figure

        wanted = [canonical_policy_name(name) for name in policies] or [self.simulated[0].outcome.policy, REFERENCE]
        drawn = [each for each in self.simulated if each.outcome.policy in wanted]
        wide, narrow = (
            policies_figure(
                [each.outcome for each in self.simulated],
                [(each.schedule, each.outcome) for each in drawn],
                bound_usd=self.simulated[0].bound.usd,
                width=width,
            )
            for width in (WIDE, NARROW)
        )
        return Figure(spec=wide, narrow=narrow)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundReport:
    """What no schedule of a queue is below."""

    bound: LowerBound
    jobs: int
    nodes: int
    left_out: tuple[str, ...]


def simulate_queue(
    instance: Queue = None,
    *,
    nodes: int,
    policy: str = DEFAULT_POLICY,
    watch: Watch | None = None,
    **circumstances: Unpack[Circumstances],
) -> SimulationReport:
    """What `policy` makes of the queue in a folder, of an instance, or of the store, on at most `nodes` nodes."""
    decide = policy_of(policy)
    queue = _queue(instance, nodes, circumstances)
    return _simulated(queue, canonical_policy_name(policy), decide, lower_bound(queue.instance, nodes), watch)


def compare_policies(
    instance: Queue = None,
    *,
    nodes: int,
    policies: Sequence[str] = (),
    watch: Watch | None = None,
    on_finished: Callable[[SimulationReport], None] = lambda _: None,
    **circumstances: Unpack[Circumstances],
) -> PolicyComparison:
    """The same queue under each of these policies, all when none is named; `on_finished` hears of each at once."""
    names = list(dict.fromkeys(canonical_policy_name(name) for name in policies)) or list(POLICIES)
    skipped = []
    if not policies and nodes > SMALL_NODES:
        names.remove("per_node")
        why = f"a variable for each job on each node takes too long beyond {SMALL_NODES} nodes; --policy per_node asks"
        skipped.append(("per_node", why))
    deciders = {name: policy_of(name) for name in names}
    queue = _queue(instance, nodes, circumstances)
    bound = lower_bound(queue.instance, nodes)
    found = []
    for name, decide in deciders.items():
        try:
            found.append(_simulated(queue, name, decide, bound, watch))
        except InfeasibleError as failed:
            skipped.append((name, str(failed).rstrip(".")))
            continue
        on_finished(found[-1])
    if not found:
        raise InfeasibleError(f"no policy works this queue off. {skipped[-1][1]}.")
    return compared(found, skipped)


def compared(found: Sequence[SimulationReport], skipped: Sequence[tuple[str, str]] = ()) -> PolicyComparison:
    return PolicyComparison(
        simulated=tuple(sorted(found, key=lambda each: each.outcome.total_usd)),
        skipped=tuple(skipped),
    )


def bound_queue(instance: Queue = None, *, nodes: int, settings: "Settings | None" = None) -> BoundReport:
    """What no schedule of the queue on at most `nodes` nodes is below."""
    queue = _queue(instance, nodes, {"settings": settings})
    return BoundReport(
        bound=lower_bound(queue.instance, nodes),
        jobs=len(queue.instance.jobs),
        nodes=nodes,
        left_out=queue.left_out,
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
    """A queue by the rule of Jahani et al. 2019; with `into`, written there too, over another one only with `force`.

    Unless said, ten jobs a node at a load of 1; `mean_arrival_seconds` between submissions instead of a load. With
    `spot` every machine type has a twin that costs 60 % less and is taken back; with `gangs` jobs may take two whole
    nodes, or four.
    """
    if load is not None and mean_arrival_seconds is not None:
        raise UsageError("--load and --mean-arrival both say how fast jobs come: give one of them.")
    if quota_gpus is not None and quota_gpus < 1:
        raise UsageError(f"with a quota of {quota_gpus} GPUs no job can run: give --quota 1 or more.")
    if quota_gpus is not None and not users:
        raise UsageError("--quota is of each user, and there are none: give --users 4, or leave --quota out.")
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} jobs are no queue: give --jobs 1 or more.")
    if nodes > MOST_NODES or (jobs or 0) > MOST_JOBS:
        raise UsageError(f"no such queue can be made: at most {MOST_NODES} nodes and {MOST_JOBS} jobs.")
    require_seed(seed)
    require_error(error)
    if into is not None:
        require_free(Path(into), force=force)
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
    except ValueError as wrong:
        raise UsageError(f"no such queue can be made: {wrong}.") from wrong
    instance = _generated(setting, seed)
    if into is not None:
        write_queue(Path(into), instance)
    return instance


def _generated(setting: QueueSetting, seed: int) -> Instance:
    """Made, if its last job comes within times that can be reckoned with."""
    try:
        with np.errstate(over="ignore"):
            instance = generate(setting, seed)
    except ValueError:  # no number is so large
        instance = None
    if instance is None or instance.jobs[-1].submitted_seconds > LONGEST_SECONDS:
        raise UsageError("no such queue can be made: its jobs come too seldom. Give a larger --load, as 0.7.")
    return instance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queue:
    """What is simulated, whatever the policy."""

    instance: Instance
    """Its second 0 is the start of the queue."""
    start_seconds: float
    """By the clock of the queue."""
    nodes: int
    mode: Mode
    delays: Delays
    tick_seconds: float | None
    seed: int
    left_out: tuple[str, ...]


def _queue(instance: Queue, nodes: int, circumstances: Circumstances) -> _Queue:
    require_nodes(nodes)
    mode = circumstances.get("mode", "paper")
    _require_mode(mode, circumstances)
    seed = circumstances.get("seed", 0)
    require_seed(seed)
    left_out: tuple[str, ...] = ()
    usual = REAL
    if instance is None:
        instance, usual, left_out = _stored(nodes, circumstances.get("settings"))
    elif not isinstance(instance, Instance):
        read = read_instance(Path(instance))
        instance, left_out = read.instance, read.left_out
    delays = replace(usual, **_stated(circumstances)) if mode == "real" else Delays()
    if not instance.jobs:
        raise UsageError("there are no jobs in this queue: add some to its jobs.csv, and their times to times.csv.")
    if (error := circumstances.get("error")) is not None:
        require_error(error)
        instance = with_prediction_error(instance, error, seed)
    instance, too_much = schedulable(instance, nodes)
    tick = circumstances.get("tick_seconds")
    require_tick(tick, instance, nodes)
    start = start_seconds(instance.jobs)
    return _Queue(
        instance=instance.relative_to(start),
        start_seconds=start,
        nodes=nodes,
        mode=mode,
        delays=delays,
        tick_seconds=tick,
        seed=seed,
        left_out=(*left_out, *too_much),
    )


def _stored(nodes: int, settings: "Settings | None") -> tuple[Instance, Delays, tuple[str, ...]]:
    """What waits in the store on a handful of machines that suit it, what moving costs there, and who is left out."""
    from trainfare.app.queue.times import queue_table

    table = queue_table(nodes=nodes, settings=settings)
    return table.from_now(), table.delays, tuple(f"{each.submission.id}: {each.why}" for each in table.unplanned)


def _stated(circumstances: Circumstances) -> dict[str, float]:
    """The delays that were given."""
    asked: dict[str, float | None] = {
        "boot_seconds": circumstances.get("boot_seconds"),
        "checkpoint_seconds": circumstances.get("checkpoint_seconds"),
        "restart_seconds": circumstances.get("restart_seconds"),
        "checkpoint_every_seconds": circumstances.get("checkpoint_every_seconds"),
    }
    return {name: seconds for name, seconds in asked.items() if seconds is not None}


def _require_mode(mode: str, circumstances: Circumstances) -> None:
    if mode not in ("paper", "real"):
        raise NotFoundError("mode", mode, ("paper", "real"))
    stated = _stated(circumstances)
    if mode == "paper" and stated:
        flags = ", ".join(f"--{name.removesuffix('_seconds').replace('_', '-')}" for name in stated)
        raise UsageError(f"in the mode paper boots and moves take no time: {flags} needs --mode real.")
    try:
        replace(REAL, **stated)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    for name, seconds in stated.items():
        if seconds > LONGEST_SECONDS and name != "checkpoint_every_seconds":
            raise UsageError(f"{name} of {seconds:g} s is longer than can be reckoned with: give a time, as 2min.")


def _simulated(queue: _Queue, name: str, decide: Policy, bound: LowerBound, watch: Watch | None) -> SimulationReport:
    jobs = len(queue.instance.jobs)

    def tell(now: float, waiting: int, running: int, ended: int) -> None:
        if watch is not None:
            watch(
                SimulationProgress(
                    policy=name, now_seconds=now, waiting=waiting, running=running, ended=ended, jobs=jobs
                )
            )

    with policies_may_fail():
        schedule = simulate(
            queue.instance,
            decide,
            name=name,
            nodes=queue.nodes,
            delays=queue.delays,
            tick_seconds=queue.tick_seconds,
            seed=queue.seed,
            clock=time.perf_counter,
            watch=tell,
        )
    return SimulationReport(
        schedule=schedule.relative_to(-queue.start_seconds),
        outcome=evaluate(schedule),
        mode=queue.mode,
        bound=bound,
        left_out=queue.left_out,
    )
