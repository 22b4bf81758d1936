"""Our policy: a pattern MILP priced by look-ahead.

1. Times are corrected by the observed progress of each job; a job without progress is planned at e^(0.5 σ) of its
   prediction.
2. Greedy's decision is the first candidate; F is its first end.
3. Capacity prices and value functions give the cost of waiting and of every slot from the next event on (lookahead.py).
4. The packing with the least score at F, then waiting jobs on free nodes, smaller types, idle GPUs given away
   (`greedy.complete_plans`): a candidate with an F of its own. This is repeated with that F, at most `PASSES` times.
   Where types are limited, jobs may wait for these instead (profitable_nodes.py).
5. The candidate with the least score, each scored with its own F, is the decision: by this score never worse than
   Greedy.
6. Planned nodes are matched to rented ones so that running jobs stay where they are (arrange.py, matching.py).

With more than `MANY_JOBS` jobs something ends soon whatever is decided: there is one pass, and all candidates are
scored with Greedy's F. With delays the idle time of jobs is part of every cost (available_slots.py), types are those of
the packing, and idle GPUs go only to jobs that gain more than a restart.

The certificate: let F be the one that the decision is scored with. If the next event were min(Exp(λ_a), F) whatever is
decided, no decision would have a score below `bound_usd`; this one has the score `usd`. It certifies the packing of the
decision, not the prediction of the future.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.highs import SolverError
from trainfare.scheduler.packing.arrange import arrange_nodes
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.pack import pack
from trainfare.scheduler.packing.pattern_model import Packing
from trainfare.scheduler.policies.greedy import complete_plans, fill_free_gpus, give_idle_gpus, greedy_plans
from trainfare.scheduler.pricing.available_slots import available_slots, feasible_seconds, seconds_until_end
from trainfare.scheduler.pricing.lookahead import DecisionCosts, LookAhead
from trainfare.scheduler.pricing.periods import limited_types
from trainfare.scheduler.pricing.profitable_nodes import drop_unprofitable_nodes
from trainfare.scheduler.pricing.reclaims import expected_seconds_with_reclaims, reclaims_per_second
from trainfare.scheduler.pricing.score import CandidatePlan, candidate_plan
from trainfare.scheduler.tables import corrected_remaining_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASSES = 3
MANY_JOBS = 150
GAP = 1e-3
CAUTION = 0.5
"""The times of jobs without progress are planned at this many standard deviations above the prediction."""


def trainfare(state: State) -> Decision:
    """The decision for this state. A job waits if the limits of types or its user's quota leave it no slot.

    If prices or times differ so much that the solver fails, Greedy decides, and nothing is certified.
    """
    remaining = feasible_seconds(state, corrected_remaining_seconds(state, quantile=CAUTION))
    can_run = np.asarray(np.isfinite(remaining).any(axis=1))
    if not can_run.any():
        return Decision(nodes=(), usd=0.0, bound_usd=0.0)
    runnable = replace(state, jobs=tuple(each for each, can in zip(state.jobs, can_run.tolist(), strict=True) if can))
    try:
        search = _CandidateSearch(runnable, remaining[can_run])
        best = min(search.candidates(), key=lambda each: each.usd)
        bound_usd = search.bound_usd(best.first_end_seconds)
    except SolverError:
        return Decision(nodes=match_to_rented_nodes(state, greedy_plans(runnable, remaining[can_run])))
    return Decision(
        nodes=match_to_rented_nodes(state, best.plan.nodes), usd=best.usd, bound_usd=min(best.usd, bound_usd)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredCandidate:
    """A candidate, and its score with F = `first_end_seconds`."""

    plan: CandidatePlan
    usd: float
    first_end_seconds: float


class _CandidateSearch:
    """The candidates for one decision, and the bounds that were proven on the way."""

    def __init__(self, state: State, remaining: "NDArray[np.float64]") -> None:
        self.state = state
        self.remaining = remaining
        self.limited = bool(limited_types(state.fleet))
        self.expected = expected_seconds_with_reclaims(remaining, reclaims_per_second(state.fleet), state.delays)
        self.available = available_slots(state)
        self.ends = seconds_until_end(self.available, self.remaining)
        self.look_ahead = LookAhead(state, self.available, self.remaining)
        self.users = [each.job.user for each in state.jobs]
        self._bounds: dict[float, float] = {}

    def candidates(self) -> list[ScoredCandidate]:
        """Greedy's candidate, then that of each pass."""
        plan = self._plan(greedy_plans(self.state, self.remaining))
        if len(self.state.jobs) > MANY_JOBS:
            first_end = plan.first_end_seconds(self.ends)
            return [self._score(each, first_end) for each in (plan, self._packed_plan(first_end))]
        found: list[ScoredCandidate] = []
        while math.isfinite(first_end := plan.first_end_seconds(self.ends)):
            found.append(self._score(plan, first_end))
            if first_end in self._bounds or len(found) > PASSES:
                break
            plan = self._packed_plan(first_end)
        return found

    def bound_usd(self, first_end: float) -> float:
        if first_end not in self._bounds:
            self._packed_plan(first_end)
        return self._bounds[first_end]

    def _score(self, plan: CandidatePlan, first_end: float) -> ScoredCandidate:
        return ScoredCandidate(
            plan=plan, usd=plan.score_usd(self.look_ahead.costs(first_end)), first_end_seconds=first_end
        )

    def _packed_plan(self, first_end: float) -> CandidatePlan:
        costs = self.look_ahead.costs(first_end)
        packing = self._pack(costs)
        self._bounds[first_end] = packing.bound_usd
        if self.limited and not packing.nodes:  # a boot costs the same now and later
            packing = self._pack(costs, min_nodes=1)
        packed = arrange_nodes(self.state, self.available, packing)
        plan = self._plan(self._completed(packed))
        if not self.limited:
            return plan
        profitable = drop_unprofitable_nodes(self.state, self.remaining, plan, costs, packed=len(packed))
        return self._plan(profitable) if profitable else plan

    def _pack(self, costs: DecisionCosts, *, min_nodes: int = 0) -> Packing:
        return pack(
            self.available.fleet,
            costs.job_usd,
            costs.wait_usd,
            costs.node_usd,
            users=self.users,
            gap=GAP,
            min_nodes=min_nodes,
        )

    def _completed(self, nodes: Sequence[NodePlan]) -> list[NodePlan]:
        if not self.available.separates_new_nodes:
            return complete_plans(self.state, nodes, self.expected)
        # on rented nodes: a job that keeps its slot continues, one that changes it restarts
        until_end = self.available.idle_seconds[:, : self.remaining.shape[1]] + self.expected
        return give_idle_gpus(self.state, fill_free_gpus(self.state, nodes, until_end), until_end)

    def _plan(self, nodes: Sequence[NodePlan]) -> CandidatePlan:
        matched = match_to_rented_nodes(self.state, nodes) if self.available.separates_new_nodes else tuple(nodes)
        return candidate_plan(self.state, self.available, matched)
