"""The cheapest packing of jobs on nodes where every place has its price.

The model is that of `pattern_model.py` with a price for each node whatever stands on it. Up to `WHOLE_UP_TO` jobs m is
found by branch and bound. Beyond, the LP is solved, m rounded by largest remainder, and the LP solved again from there
with m fixed. With hundreds of jobs that loses next to nothing, and the bound of the LP shows it; where it loses more
than the gap that is asked for, branch and bound goes on from there, over the columns that can still matter.

Beyond `ALL_COLUMNS_UP_TO` jobs the LP has only the best columns of each by price, usd_jk + λ_k, where λ_k is what slot
k is worth in an LP of some of the jobs on as large a part of the nodes. The bound of Lagrange over all columns says
whether those left out are missed; where they are, more are taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet
from trainfare.scheduler.highs import Model, Solution, Solver, solve
from trainfare.scheduler.packing.pattern_model import Packing, PatternModel, patterns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE_UP_TO = 150
"""Jobs."""
ALL_COLUMNS_UP_TO = 400
"""Jobs."""
COLUMNS_A_JOB = 4
ROUNDS = 4
"""How often columns are brought back before the bound is taken as it is."""
PRICED_JOBS = 400
"""How many jobs the LP has that prices slots before columns are left out."""
NEARLY_WHOLE = 1e-6


def pack(
    fleet: Fleet,
    job_usd: "NDArray[np.float64]",
    wait_usd: "NDArray[np.float64]",
    node_usd: "NDArray[np.float64]",
    *,
    users: Sequence[str] = (),
    gap: float = 1e-6,
    seconds: float | None = None,
    least_nodes: int = 0,
) -> Packing:
    """Job j costs job_usd[j, k] in slot k (infinite: it cannot run there) and wait_usd[j] while it waits (finite), and
    a node of type v costs node_usd[v] (not negative) whatever stands on it, each node of a gang too.

    A slot that is no better than waiting is never used. `users` says whose each job is, where there are quotas.
    `seconds` limits branch and bound: the gap may then be wider than asked for, and the bound shows it. Up to
    `WHOLE_UP_TO` jobs at least `least_nodes` are rented, though those on which nothing gains are left out in the end.
    """
    if not np.isfinite(wait_usd).all() or (node_usd < 0).any():
        raise ValueError("waiting has a finite cost, and a node none below zero")
    patterns = patterns_of(fleet)
    pattern_usd = np.array([node_usd[each.type] * each.nodes for each in patterns])
    problem = PatternModel(fleet, patterns, job_usd=job_usd, wait_usd=wait_usd, pattern_usd=pattern_usd, users=users)
    return (
        _rounded(problem, gap=gap, seconds=seconds)
        if problem.jobs > WHOLE_UP_TO
        else exactly(problem, gap=gap, seconds=seconds, least_nodes=least_nodes)
    )


def exactly(problem: PatternModel, *, gap: float = 1e-6, seconds: float | None = None, least_nodes: int = 0) -> Packing:
    """By branch and bound over m, and over the jobs with a quota."""
    model = problem.model(problem.columns, whole=True, least_nodes=least_nodes)
    best = solve(model, gap=gap, seconds=seconds)
    return problem.packing(problem.columns, _untorn(model, best), best.bound_usd)


def _untorn(model: Model, best: Solution) -> "NDArray[np.float64]":
    """What had to be whole is; where all others then stand is a transportation problem. It is solved once more, since
    branch and bound may leave a job torn between places that cost the same."""
    whole = np.flatnonzero(np.zeros(0) if model.whole is None else model.whole)
    solver = Solver(replace(model, whole=None))
    solver.fix(whole, np.round(best.values[whole]))
    return solver.solve().values


def _rounded(problem: PatternModel, *, gap: float, seconds: float | None) -> Packing:
    """LP, m rounded by largest remainder, LP from there; branch and bound if that lost too much."""
    relaxed = _relaxed(problem, gap=gap)
    columns, values = relaxed.columns, relaxed.solution.values
    patterns = np.arange(len(columns), len(values))
    relaxed.solver.fix(patterns, _whole_nodes(problem, values[patterns]))
    values = relaxed.solver.solve().values
    if problem.limited.any():
        values = _settled(problem, columns, values)
    packing = problem.packing(columns, values, relaxed.bound_usd)
    if packing.usd - relaxed.bound_usd <= gap * abs(packing.usd):
        return packing
    return _improved(problem, relaxed, values, packing.usd, gap=gap, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Relaxed:
    """The LP with some columns, and by its prices a bound with all of them."""

    columns: "NDArray[np.int64]"
    solver: Solver
    solution: Solution
    reduced: "NDArray[np.float64]"
    """Of every column, jobs × slots."""
    bound_usd: float


def _relaxed(problem: PatternModel, *, gap: float) -> _Relaxed:
    """The LP over all columns, or over the best of each job until those left out are known not to matter."""
    if problem.jobs <= ALL_COLUMNS_UP_TO:
        return _priced(problem, problem.columns)
    columns = _best_columns(problem, problem.lagrange(_sampled_duals(problem))[0])
    relaxed = _priced(problem, columns)
    for _ in range(ROUNDS):
        if relaxed.solution.usd - relaxed.bound_usd <= gap / 2 * abs(relaxed.solution.usd):
            break
        columns = np.union1d(columns, _best_columns(problem, relaxed.reduced))
        relaxed = _priced(problem, columns)
    return relaxed


def _priced(problem: PatternModel, columns: "NDArray[np.int64]") -> _Relaxed:
    solver = Solver(problem.model(columns))
    found = solver.solve()
    reduced, bound_usd = problem.lagrange(_duals(found))
    return _Relaxed(columns=columns, solver=solver, solution=found, reduced=reduced, bound_usd=bound_usd)


def _improved(
    problem: PatternModel,
    relaxed: _Relaxed,
    values: "NDArray[np.float64]",
    usd: float,
    *,
    gap: float,
    seconds: float | None,
) -> Packing:
    """Branch and bound from a packing that costs `usd`, over the columns that a better one can have.

    To use column (j, k) adds reduced_jk - min(0, min_k reduced_jk) to the bound: where that comes to more than `usd`,
    the column is in no better packing. So the bound found without it holds.
    """
    excess = relaxed.reduced - np.minimum(0.0, relaxed.reduced.min(axis=1, keepdims=True))
    room = usd - relaxed.bound_usd + 1e-9 * abs(usd)
    chosen = relaxed.columns[values[: len(relaxed.columns)] > 0.5]
    columns = np.union1d(problem.columns[excess.ravel()[problem.columns] <= room], chosen)
    start = np.concatenate([np.isin(columns, chosen), values[len(relaxed.columns) :]])
    model = problem.model(columns, whole=True)
    best = solve(model, gap=gap / 2, seconds=seconds, start=start)
    return problem.packing(columns, _untorn(model, best), max(best.bound_usd, relaxed.bound_usd))


def _sampled_duals(problem: PatternModel) -> "NDArray[np.float64]":
    """What nodes and slots are worth when every s-th job is packed on N/s nodes, as prices for all jobs."""
    step = math.ceil(problem.jobs / PRICED_JOBS)
    model = problem.model(problem.columns[problem.columns // problem.slots % step == 0])
    high = model.row_high.copy()
    high[problem.jobs + problem.slots :] /= step
    return _duals(solve(replace(model, row_high=high)))


def _duals(solution: Solution) -> "NDArray[np.float64]":
    if solution.duals is None:
        raise ValueError("a model with whole columns has no prices")
    return solution.duals


def _best_columns(problem: PatternModel, reduced: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """The columns of each job with the least reduced cost."""
    usable = np.full(problem.jobs * problem.slots, math.inf)
    usable[problem.columns] = reduced.ravel()[problem.columns]
    count = min(COLUMNS_A_JOB, problem.slots)
    slot = np.argpartition(usable.reshape(problem.jobs, problem.slots), count - 1, axis=1)[:, :count]
    columns = (np.arange(problem.jobs)[:, None] * problem.slots + slot).ravel()
    best: NDArray[np.int64] = columns[np.isfinite(usable[columns])]
    return best


def _whole_nodes(problem: PatternModel, m: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """m rounded down, then one more of each in the order of what was cut off, as long as nodes of its type are left."""
    whole = np.floor(m + NEARLY_WHOLE)
    wanted = math.ceil(float(m @ problem.pattern_nodes) - NEARLY_WHOLE)
    left = min(wanted, problem.fleet.nodes) - float(whole @ problem.pattern_nodes)
    most = problem.most.copy()
    np.subtract.at(most, problem.kind, whole * problem.pattern_nodes)
    for number in np.argsort(whole - m, kind="stable"):
        nodes, kind = problem.pattern_nodes[number], problem.kind[number]
        if m[number] > whole[number] + NEARLY_WHOLE and nodes <= min(left, most[kind]):
            whole[number] += 1
            left -= nodes
            most[kind] -= nodes
    return whole


def _settled(
    problem: PatternModel, columns: "NDArray[np.int64]", values: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Quotas leave a few jobs torn between places: these are decided, all others stay where they are."""
    job = columns // problem.slots
    torn = np.zeros(problem.jobs, dtype=bool)
    torn[job[np.abs(values - np.round(values))[: len(columns)] > NEARLY_WHOLE]] = True
    if not torn.any():
        return values
    free = np.append(torn[job], np.zeros(len(problem.patterns), dtype=bool))
    model, held = problem.model(columns), np.round(values)
    low, high = np.where(free, model.low, held), np.where(free, model.high, held)
    return solve(replace(model, low=low, high=high, whole=free)).values
