"""The papers' decision (Jahani et al. 2019; Filippini et al.), solved to optimality with nodes counted by pattern.

The cost is that of `objective.py`. A node pays until the first job on it ends: one part of each pattern is the payer's.

    m_pq     nodes divided as p whose part q is the payer's
    y_jk1    job j has slot k and pays for the node:      ω_j · late_jk + c_v · t_jk
    y_jk0    job j has slot k of a node that another pays:  ω_j · late_jk

    Σ_j y_jk1 = Σ_p m_pk            every node has its payer
    Σ_j y_jk0 ≤ Σ_pq (a_pk - [q = k]) m_pq

Whichever job pays, the node costs no less than c_v · min t of its jobs, and the optimum lets that one pay: so the
optimum is exactly the papers', and it does not matter with which jobs a payer shares its node. A gang pays for all its
nodes. Otherwise the model is that of `pattern_model.py`, with its limits: only m is integer.

With this cost waiting may be free, and the optimum may be to rent nothing: without another event, for ever. So at least
one node is rented while a job can run.
"""

from dataclasses import replace

import numpy as np

from trainfare.model.queue import Decision, Fleet, State
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.pack import pack_exactly
from trainfare.scheduler.packing.pattern_model import Pattern, PatternModel, node_patterns
from trainfare.scheduler.packing.pattern_plans import plans_from_packing
from trainfare.scheduler.pricing.objective import decision_usd, late_usd, postponed_usd
from trainfare.scheduler.tables import remaining_seconds, slot_table


def patterns(state: State, *, gap: float = 1e-6, seconds: float | None = None) -> Decision:
    """The cheapest decision by `decision_usd` among those that run a job; `seconds` limits branch and bound."""
    if not state.jobs:
        return Decision(nodes=(), usd=0.0, bound_usd=0.0)
    remaining = remaining_seconds(state)
    late = late_usd(state, remaining)
    rent = np.where(np.isfinite(remaining), remaining * slot_table(state.fleet).usd_per_second[None, :], np.inf)
    problem = PatternModel(
        state.fleet,
        paying := _with_payer(state.fleet),
        job_usd=np.hstack([late + rent, late]),
        wait_usd=postponed_usd(state, remaining),
        pattern_usd=np.zeros(len(paying)),
        users=[each.job.user for each in state.jobs],
        filled=np.arange(2 * remaining.shape[1]) < remaining.shape[1],
    )
    can_run = bool((problem.columns % problem.slots < remaining.shape[1]).any())
    packing = pack_exactly(problem, gap=gap, seconds=seconds, min_nodes=int(can_run))
    nodes = match_to_rented_nodes(state, plans_from_packing(state, packing))
    usd = decision_usd(state, nodes)
    return Decision(nodes=nodes, usd=usd, bound_usd=min(packing.bound_usd, usd))


def _with_payer(fleet: Fleet) -> tuple[Pattern, ...]:
    """Each pattern once for each part that can be the payer's: slot q for the payer, K + k for the others."""
    slots = len(fleet.slots)
    return tuple(
        replace(
            pattern,
            parts=(
                (payer, 1),
                *((slots + k, count - (k == payer)) for k, count in pattern.parts if count > (k == payer)),
            ),
        )
        for pattern in node_patterns(fleet)
        for payer, _ in pattern.parts
    )
