"""A queue worked off by a policy, event by event.

The policy is asked when jobs are submitted, jobs end, a node is reclaimed, and when H = `tick_seconds` have passed
since it was asked last; whatever happens at one moment is one decision. That a node is ready needs none: from when a
job gets on there is known as it is put there. Without delays and H this is how the papers count.

Luck: the n-th node that is rented stays for an exponential time with its type's `reclaims_per_hour`, drawn from the
seed and n alone, so that two policies that rent alike meet the same luck.
"""

import math
from collections.abc import Callable

import numpy as np

from trainfare.model.checks import require_positive
from trainfare.model.queue import Decision, Delays, Instance, RentedNode, State
from trainfare.model.schedule import Schedule
from trainfare.scheduler.legal import decision_violations
from trainfare.scheduler.policies.registry import Policy
from trainfare.scheduler.execution import Execution, time_tolerance_seconds

IN_VAIN = 1000
"""After so many decisions in a row in which no job came, ended, or got further than it had ever been, it is given up:
nodes are reclaimed before anything is saved, or a policy moves jobs faster than they are restored."""


class UnfinishedJobsError(ValueError):
    """A policy and a queue that do not come to an end."""

    def __init__(self, policy: str, why: str, floor: Execution) -> None:
        names = floor.unfinished()
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(f"{policy} leaves jobs unfinished for ever: {shown}; {why}")


class PolicyError(ValueError):
    """A policy that fails, or decides what cannot be done: its own fault."""


Watch = Callable[[float, int, int, int], None]
"""(now, waiting, running, ended), after each decision."""


def simulate(
    instance: Instance,
    policy: Policy,
    *,
    name: str,
    nodes: int,
    delays: Delays = Delays(),  # noqa: B008 - frozen
    tick_seconds: float | None = None,
    seed: int = 0,
    clock: Callable[[], float] | None = None,
    watch: Watch | None = None,
) -> Schedule:
    """What comes of the queue when `policy` decides, on at most `nodes` nodes.

    `clock` times the decisions; without it they are not timed. A decision that cannot be made, or not be carried out,
    is PolicyError. Jobs that would never end are UnfinishedJobsError.
    """
    require_positive(tick_seconds=tick_seconds)
    fleet = instance.fleet(nodes)
    truth = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    floor = Execution(fleet, delays, {job.id: times for job, times in zip(instance.jobs, truth, strict=True)})
    events = _Events(instance, floor, tick_seconds=tick_seconds, seed=seed)
    took: list[float] = []
    gaps: list[float] = []
    while (now := events.next_seconds()) is not None:
        events.happen(now)
        if events.over:
            break
        state = floor.state(now)
        begun = clock() if clock else 0.0
        decision = decided(policy, state, name)
        if clock:
            took.append(clock() - begun)
        if wrong := decision_violations(state, decision):
            raise PolicyError(f"{name} decided at {now:g} s what cannot be done: {'; '.join(wrong)}")
        events.decided(now, floor.carry_out(decision, now))
        if events.in_vain > IN_VAIN:
            raise UnfinishedJobsError(name, f"{IN_VAIN} decisions up to {now:g} s brought none of them further", floor)
        gaps.extend(_gap(decision))
        if watch:
            running = len(floor.placements)
            watch(now, len(floor.unfinished()) - running, running, len(floor.ended))
    if not events.over:
        raise UnfinishedJobsError(name, f"after {events.now:g} s nothing would happen any more", floor)
    floor.close(events.now)
    return Schedule(
        policy=name,
        fleet=fleet,
        jobs=instance.jobs,
        true_seconds=truth,
        delays=delays,
        rentals=tuple(sorted(floor.rentals, key=lambda rental: rental.node)),
        allocations=tuple(sorted(floor.allocations, key=lambda allocation: allocation.start_seconds)),
        ended_seconds=tuple(floor.ended),
        decision_seconds=tuple(took),
        gaps=tuple(gaps),
    )


def decided(policy: Policy, state: State, name: str) -> Decision:
    """What the policy says; that it fails, as over numbers that no model bears, is PolicyError."""
    try:
        return policy(state)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise PolicyError(f"{name} cannot decide at {state.now_seconds:g} s: {error}") from error


def _gap(decision: Decision) -> tuple[float, ...]:
    """usd / bound - 1, where there is a bound that can be divided by."""
    if decision.usd is None or decision.bound_usd is None or decision.bound_usd <= 0:
        return ()
    return (decision.usd / decision.bound_usd - 1,)


class _Events:
    """What happens next, and what then becomes of the floor."""

    def __init__(self, instance: Instance, floor: Execution, *, tick_seconds: float | None, seed: int) -> None:
        self.now = 0.0
        self._floor = floor
        self._to_come = instance.jobs
        self._submitted = 0
        self._tick_seconds = math.inf if tick_seconds is None else tick_seconds
        self._last_decision = -math.inf
        self._seed = seed
        self.in_vain = 0
        """How many decisions it is since something came or got further."""
        self._last_progress = (0, 0.0)
        self._reclaims: dict[int, float] = {}
        self._rates = {each.name: each.reclaims_per_hour / 3600 for each in instance.types}

    @property
    def over(self) -> bool:
        return not self._floor.unfinished() and self._submitted == len(self._to_come)

    def next_seconds(self) -> float | None:
        """The next moment at which something happens; None: nothing ever will."""
        floor = self._floor
        moments = [placement.end_seconds for placement in floor.placements.values()]
        if self._submitted < len(self._to_come):
            moments.append(self._to_come[self._submitted].submitted_seconds)
        moments.extend(self._reclaims.values())
        if floor.unfinished() or floor.nodes:
            moments.append(self._last_decision + self._tick_seconds)
        soonest = min(moments, default=math.inf)
        return max(soonest, self.now) if math.isfinite(soonest) else None

    def happen(self, now: float) -> None:
        """Ends come before reclaims: a job that ends as its node goes has ended."""
        self.now = now
        self._floor.end_jobs(now)
        latest = now + time_tolerance_seconds(now)
        for node in [node for node, moment in self._reclaims.items() if moment <= latest]:
            del self._reclaims[node]
            self._floor.reclaim(node, now)
        first = self._submitted
        while self._submitted < len(self._to_come) and self._to_come[self._submitted].submitted_seconds <= now:
            self._submitted += 1
        self._floor.submit(self._to_come[first : self._submitted])

    def decided(self, now: float, fresh: tuple[RentedNode, ...]) -> None:
        self._last_decision = now
        progress = (self._submitted, self._floor.furthest)
        self.in_vain = self.in_vain + 1 if progress == self._last_progress else 0
        self._last_progress = progress
        self._reclaims = {node: moment for node, moment in self._reclaims.items() if node in self._floor.nodes}
        for node in fresh:
            if rate := self._rates[node.type]:
                stays = float(np.random.default_rng((self._seed, node.id)).exponential())
                self._reclaims[node.id] = now + stays / rate
