"""The cheapest packing of jobs on nodes, given the cost of every job on every slot.

The model is that of `pattern_model.py` with a cost for each node whatever runs on it. Up to `EXACT_JOBS` jobs, m is
found by branch and bound. With more jobs, the LP is solved, m is rounded by largest remainder, and the LP is solved
again from there with m fixed. With hundreds of jobs that loses almost nothing, and the bound of the LP shows it; where
it loses more than the requested gap, branch and bound continues from there, over the columns that can still matter.

With more than `ALL_COLUMNS_JOBS` jobs the LP has only the best columns of each job by price, usd_jk + λ_k, where λ_k is
the price of slot k in an LP of a sample of the jobs on the same fraction of the nodes. The Lagrangian bound over all
columns shows whether columns that are left out are missing; in that case more are added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet
from trainfare.scheduler.highs import LinearModel, Solution, Solver, solve
from trainfare.scheduler.packing.pattern_model import Packing, PatternModel, node_patterns

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT_JOBS = 150
"""Up to this many jobs, m is found by branch and bound."""
ALL_COLUMNS_JOBS = 400
"""Up to this many jobs, the LP has all columns."""
COLUMNS_PER_JOB = 4
ROUNDS = 4
"""The most rounds in which columns are added before the bound is accepted."""
PRICING_SAMPLE_JOBS = 400
"""The size of the sample of jobs whose LP prices the slots before columns are left out."""
INTEGER_TOLERANCE = 1e-6


def pack(
    fleet: Fleet,
    job_usd: "NDArray[np.float64]",
    wait_usd: "NDArray[np.float64]",
    node_usd: "NDArray[np.float64]",
    *,
    users: Sequence[str] = (),
    gap: float = 1e-6,
    seconds: float | None = None,
    min_nodes: int = 0,
) -> Packing:
    """The packing in which job j costs job_usd[j, k] in slot k (infinite: it cannot run there) and wait_usd[j] while it
    waits (finite), and a node of type v costs node_usd[v] (not negative) whatever runs on it, each node of a gang too.

    A slot that is no better than waiting is never used. `users` names the user of each job if there are quotas.
    `seconds` limits branch and bound: the gap may then be wider than requested, and the bound shows it. Up to
    `EXACT_JOBS` jobs at least `min_nodes` are rented, without those that no job uses in the end.
    """
    if not np.isfinite(wait_usd).all() or (node_usd < 0).any():
        raise ValueError("wait_usd must be finite and node_usd must not be negative")
    patterns = node_patterns(fleet)
    pattern_usd = np.array([node_usd[each.type] * each.nodes for each in patterns])
    problem = PatternModel(fleet, patterns, job_usd=job_usd, wait_usd=wait_usd, pattern_usd=pattern_usd, users=users)
    return (
        _pack_by_rounding(problem, gap=gap, seconds=seconds)
        if problem.jobs > EXACT_JOBS
        else pack_exactly(problem, gap=gap, seconds=seconds, min_nodes=min_nodes)
    )


def pack_exactly(
    problem: PatternModel, *, gap: float = 1e-6, seconds: float | None = None, min_nodes: int = 0
) -> Packing:
    """The packing by branch and bound over m, and over the jobs with a quota."""
    model = problem.model(problem.columns, integer=True, min_nodes=min_nodes)
    best = solve(model, gap=gap, seconds=seconds)
    return problem.packing(problem.columns, _integral_values(model, best), best.bound_usd)


def _integral_values(model: LinearModel, best: Solution) -> "NDArray[np.float64]":
    """The values with all columns integral.

    With the integer columns fixed the rest is a transportation problem. It is solved once more, because branch and
    bound may leave a job split between slots of equal cost.
    """
    integers = np.flatnonzero(np.zeros(0) if model.integer is None else model.integer)
    solver = Solver(replace(model, integer=None))
    solver.fix(integers, np.round(best.values[integers]))
    return solver.solve().values


def _pack_by_rounding(problem: PatternModel, *, gap: float, seconds: float | None) -> Packing:
    """The packing by LP, rounding of m and a second LP; by branch and bound if the gap is too wide."""
    relaxed = _solve_relaxation(problem, gap=gap)
    columns, values = relaxed.columns, relaxed.solution.values
    patterns = np.arange(len(columns), len(values))
    relaxed.solver.fix(patterns, _round_by_largest_remainder(problem, values[patterns]))
    values = relaxed.solver.solve().values
    if problem.limited.any():
        values = _resolve_split_jobs(problem, columns, values)
    packing = problem.packing(columns, values, relaxed.bound_usd)
    if packing.usd - relaxed.bound_usd <= gap * abs(packing.usd):
        return packing
    return _improve_by_branching(problem, relaxed, values, packing.usd, gap=gap, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Relaxation:
    """The LP with some of the columns, and the bound over all columns that follows from its prices."""

    columns: "NDArray[np.int64]"
    solver: Solver
    solution: Solution
    reduced: "NDArray[np.float64]"
    """The reduced cost of every column, jobs × slots."""
    bound_usd: float


def _solve_relaxation(problem: PatternModel, *, gap: float) -> _Relaxation:
    """The LP over all columns, or over the best of each job until the omitted ones are known not to matter."""
    if problem.jobs <= ALL_COLUMNS_JOBS:
        return _relaxation(problem, problem.columns)
    columns = _best_columns(problem, problem.lagrange(_sampled_duals(problem))[0])
    relaxed = _relaxation(problem, columns)
    for _ in range(ROUNDS):
        if relaxed.solution.usd - relaxed.bound_usd <= gap / 2 * abs(relaxed.solution.usd):
            break
        columns = np.union1d(columns, _best_columns(problem, relaxed.reduced))
        relaxed = _relaxation(problem, columns)
    return relaxed


def _relaxation(problem: PatternModel, columns: "NDArray[np.int64]") -> _Relaxation:
    solver = Solver(problem.model(columns))
    found = solver.solve()
    reduced, bound_usd = problem.lagrange(_duals(found))
    return _Relaxation(columns=columns, solver=solver, solution=found, reduced=reduced, bound_usd=bound_usd)


def _improve_by_branching(
    problem: PatternModel,
    relaxed: _Relaxation,
    values: "NDArray[np.float64]",
    usd: float,
    *,
    gap: float,
    seconds: float | None,
) -> Packing:
    """The packing by branch and bound, starting from one that costs `usd`, over the columns that a better one can have.

    Using column (j, k) adds reduced_jk - min(0, min_k reduced_jk) to the bound. If the result exceeds `usd`, no better
    packing has the column, so the bound found without it holds.
    """
    excess = relaxed.reduced - np.minimum(0.0, relaxed.reduced.min(axis=1, keepdims=True))
    slack = usd - relaxed.bound_usd + 1e-9 * abs(usd)
    chosen = relaxed.columns[values[: len(relaxed.columns)] > 0.5]
    columns = np.union1d(problem.columns[excess.ravel()[problem.columns] <= slack], chosen)
    start = np.concatenate([np.isin(columns, chosen), values[len(relaxed.columns) :]])
    model = problem.model(columns, integer=True)
    best = solve(model, gap=gap / 2, seconds=seconds, start=start)
    return problem.packing(columns, _integral_values(model, best), max(best.bound_usd, relaxed.bound_usd))


def _sampled_duals(problem: PatternModel) -> "NDArray[np.float64]":
    """The prices of nodes and slots when every s-th job is packed on N/s nodes, used as prices for all jobs."""
    step = math.ceil(problem.jobs / PRICING_SAMPLE_JOBS)
    model = problem.model(problem.columns[problem.columns // problem.slots % step == 0])
    high = model.row_high.copy()
    high[problem.jobs + problem.slots :] /= step
    return _duals(solve(replace(model, row_high=high)))


def _duals(solution: Solution) -> "NDArray[np.float64]":
    if solution.duals is None:
        raise ValueError("a model with integer columns has no duals")
    return solution.duals


def _best_columns(problem: PatternModel, reduced: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """The columns of each job with the smallest reduced costs."""
    usable = np.full(problem.jobs * problem.slots, math.inf)
    usable[problem.columns] = reduced.ravel()[problem.columns]
    count = min(COLUMNS_PER_JOB, problem.slots)
    slot = np.argpartition(usable.reshape(problem.jobs, problem.slots), count - 1, axis=1)[:, :count]
    columns = (np.arange(problem.jobs)[:, None] * problem.slots + slot).ravel()
    best: NDArray[np.int64] = columns[np.isfinite(usable[columns])]
    return best


def _round_by_largest_remainder(problem: PatternModel, m: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """m rounded down, then one more of each in the order of the remainders, while nodes of its type are left."""
    rounded = np.floor(m + INTEGER_TOLERANCE)
    total = math.ceil(float(m @ problem.pattern_nodes) - INTEGER_TOLERANCE)
    left = min(total, problem.fleet.nodes) - float(rounded @ problem.pattern_nodes)
    left_of_type = problem.max_nodes.copy()
    np.subtract.at(left_of_type, problem.pattern_type, rounded * problem.pattern_nodes)
    for number in np.argsort(rounded - m, kind="stable"):
        nodes, node_type = problem.pattern_nodes[number], problem.pattern_type[number]
        if m[number] > rounded[number] + INTEGER_TOLERANCE and nodes <= min(left, left_of_type[node_type]):
            rounded[number] += 1
            left -= nodes
            left_of_type[node_type] -= nodes
    return rounded


def _resolve_split_jobs(
    problem: PatternModel, columns: "NDArray[np.int64]", values: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """The values with every job on one slot: quotas split a few jobs, and only these are decided again."""
    job = columns // problem.slots
    split = np.zeros(problem.jobs, dtype=bool)
    split[job[np.abs(values - np.round(values))[: len(columns)] > INTEGER_TOLERANCE]] = True
    if not split.any():
        return values
    free = np.append(split[job], np.zeros(len(problem.patterns), dtype=bool))
    model, held = problem.model(columns), np.round(values)
    low, high = np.where(free, model.low, held), np.where(free, model.high, held)
    return solve(replace(model, low=low, high=high, integer=free)).values
