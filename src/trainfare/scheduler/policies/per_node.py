"""The papers' decision (Jahani et al. 2019; Filippini et al.), solved to optimality with columns for every node.

    w_n      node n is on                       x_jnk   job j has slot k = (v, g) on node n
    y_nv     it is of type v                    z_jnk   and is the first to end there: the node is paid until then
    q_jk     job j has the gang k               u_jnk   and node n is one of its nodes

    minimise   Σ_jnk (ω_j late_jk x_jnk + c_v t_jk z_jnk) + Σ_jk (ω_j late_jk + n_k c_v t_jk) q_jk
               + Σ_j 100 ω_j worst_j waits_j
    job j      Σ_nk x_jnk + Σ_k q_jk + waits_j = 1              gang      Σ_n u_jnk = n_k q_jk
    node n     Σ_v y_nv = w_n      Σ_jk z_jnk + Σ_jk u_jnk = w_n      z_jnk ≤ x_jnk
    GPUs       Σ_{j, k of v} g_k x_jnk + G_v u_jnk ≤ G_v y_nv      for each n and v
    limits     Σ_n y_nv ≤ max_v,   Σ_{j of u} GPUs_k (x_jnk + q_jk) ≤ quota_u,   1 ≤ Σ_n w_n

No constraint says which job on a node is the first to end: the optimum takes the shortest t. z is integer by itself.
The optimum may be to rent nothing and wait for ever, since waiting may be free with this cost; so one node is on.

Nodes are interchangeable, and their N! orders are the same decision. Σ_v v·y_nv must not grow with n (closed nodes, 0,
are last): any decision can be ordered this way, so the optimum stays. Even so, branch and bound ends within seconds
only up to about six nodes and twelve jobs; `patterns.py` finds the same optimum for a hundred nodes. At the time limit
the answer is the best found, with its bound (0 while nothing is proven); the search begins with the decision of
`greedy.py`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.highs import LinearModel, solve
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.policies.greedy import greedy
from trainfare.scheduler.pricing.objective import assigned_slots, decision_usd, late_usd, postponed_usd
from trainfare.scheduler.tables import SlotTable, remaining_seconds, slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def per_node(state: State, *, gap: float = 1e-6, seconds: float = 10.0) -> Decision:
    """The cheapest decision by `decision_usd` among those that run a job, or the best found within `seconds`."""
    if not state.jobs:
        return Decision(nodes=(), usd=0.0, bound_usd=0.0)
    columns = _PerNodeColumns.of(state)
    if not len(columns.x) and not len(columns.q):  # quotas or limits leave no slot for any job
        usd = decision_usd(state, ())
        return Decision(nodes=(), usd=usd, bound_usd=usd)
    found = solve(_model(state, columns), gap=gap, seconds=seconds, start=_start(state, columns))
    nodes = match_to_rented_nodes(state, _plans(state, columns, found.values))
    usd = decision_usd(state, nodes)
    return Decision(nodes=nodes, usd=usd, bound_usd=min(max(found.bound_usd, 0.0), usd))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PerNodeColumns:
    """The columns w, y, x, z, q, u, in this order.

    x and u are listed as (job, node, slot), q as (job, slot); z goes with x.
    """

    nodes: int
    types: int
    x: "NDArray[np.int64]"
    q: "NDArray[np.int64]"
    u: "NDArray[np.int64]"

    @staticmethod
    def of(state: State) -> "_PerNodeColumns":
        slots, fleet = slot_table(state.fleet), state.fleet
        max_nodes = np.array(
            [fleet.nodes if each.max_nodes is None else min(each.max_nodes, fleet.nodes) for each in fleet.types]
        )
        quotas = dict(fleet.quotas)
        quota = np.array([quotas.get(each.job.user, np.inf) for each in state.jobs])
        fits = np.isfinite(remaining_seconds(state)) & (slots.nodes <= max_nodes[slots.type])[None, :]
        fits &= (slots.gpus * slots.nodes)[None, :] <= quota[:, None]
        single = np.argwhere(np.repeat((fits & (slots.nodes == 1))[:, None, :], fleet.nodes, axis=1))
        gang = fits & (slots.nodes > 1)
        spread = np.argwhere(np.repeat(gang[:, None, :], fleet.nodes, axis=1))
        return _PerNodeColumns(nodes=fleet.nodes, types=len(fleet.types), x=single, q=np.argwhere(gang), u=spread)

    @property
    def starts(self) -> tuple[int, int, int, int, int, int]:
        """The first columns of y, x, z, q and u, and the number of columns."""
        counts = (self.nodes, self.nodes * self.types, len(self.x), len(self.x), len(self.q), len(self.u))
        y, x, z, q, u, end = np.cumsum(counts).tolist()
        return y, x, z, q, u, end


class _RowBuilder:
    """Collects the rows of a model, block by block."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.int64]] = []
        self.columns: list[NDArray[np.int64]] = []
        self.coefficients: list[NDArray[np.float64]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def block(self, count: int, low: float, high: "float | NDArray[np.float64]") -> int:
        """Adds `count` rows with these bounds, and returns the index of the first."""
        first = len(self.low)
        self.low += [low] * count
        self.high += np.broadcast_to(high, (count,)).tolist()
        return first

    def add(
        self, rows: "NDArray[np.int64]", columns: "NDArray[np.int64]", weight: "float | NDArray[np.float64]"
    ) -> None:
        self.rows.append(rows)
        self.columns.append(columns)
        self.coefficients.append(np.broadcast_to(np.asarray(weight, dtype=np.float64), rows.shape))


def _model(state: State, columns: _PerNodeColumns) -> LinearModel:
    slots = slot_table(state.fleet)
    rows = _RowBuilder()
    _add_job_and_gang_rows(state, columns, slots, rows)
    _add_node_rows(columns, slots, rows)
    _add_limit_rows(state, columns, slots, rows)
    end = columns.starts[-1]
    integer = np.ones(end, dtype=bool)
    integer[columns.starts[2] : columns.starts[3]] = False  # z
    remaining = remaining_seconds(state)
    wait, late = postponed_usd(state, remaining), late_usd(state, remaining)
    rent = remaining * slots.usd_per_second[None, :]
    usd = np.zeros(end)
    _, x, z, q, u, _ = columns.starts
    job, _, slot = columns.x.T
    usd[x:z], usd[z:q] = late[job, slot] - wait[job], rent[job, slot]
    job, slot = columns.q.T
    usd[q:u] = late[job, slot] + rent[job, slot] - wait[job]
    return LinearModel(
        usd=usd,
        low=np.zeros(end),
        high=np.ones(end),
        row_low=np.array(rows.low),
        row_high=np.array(rows.high),
        rows=np.concatenate(rows.rows),
        columns=np.concatenate(rows.columns),
        coefficients=np.concatenate(rows.coefficients),
        integer=integer,
        constant_usd=float(wait.sum()),
    )


def _add_job_and_gang_rows(state: State, columns: _PerNodeColumns, slots: SlotTable, rows: _RowBuilder) -> None:
    """A job has at most one slot; the first to end is on the node; a gang has all its nodes."""
    _, x, z, q, u, end = columns.starts
    one = rows.block(len(state.jobs), -np.inf, 1.0)
    rows.add(one + columns.x[:, 0], np.arange(x, z), 1)
    rows.add(one + columns.q[:, 0], np.arange(q, u), 1)
    first = rows.block(len(columns.x), -np.inf, 0.0)
    rows.add(first + np.arange(len(columns.x)), np.arange(z, q), 1)
    rows.add(first + np.arange(len(columns.x)), np.arange(x, z), -1)
    gang = rows.block(len(columns.q), 0.0, 0.0)
    number = {(int(job), int(slot)): index for index, (job, slot) in enumerate(columns.q)}
    which = np.array([number[int(job), int(slot)] for job, _, slot in columns.u], dtype=np.int64)
    rows.add(gang + which, np.arange(u, end), 1)
    rows.add(gang + np.arange(len(columns.q)), np.arange(q, u), -slots.nodes[columns.q[:, 1]].astype(float))


def _add_node_rows(columns: _PerNodeColumns, slots: SlotTable, rows: _RowBuilder) -> None:
    """A node that is on has a type, a job that ends first, and gives no more GPUs than it has; types fall with n."""
    y, x, z, q, u, end = columns.starts
    nodes, types = columns.nodes, columns.types
    on, typed = np.arange(nodes), np.arange(nodes * types)
    has_type = rows.block(nodes, 0.0, 0.0)
    rows.add(has_type + typed // types, y + typed, 1)
    rows.add(has_type + on, on, -1)
    has_first = rows.block(nodes, 0.0, 0.0)
    rows.add(has_first + columns.x[:, 1], np.arange(z, q), 1)
    rows.add(has_first + columns.u[:, 1], np.arange(u, end), 1)
    rows.add(has_first + on, on, -1)
    gpus = rows.block(nodes * types, -np.inf, 0.0)
    type_gpus = np.zeros(types)
    type_gpus[slots.type] = slots.type_gpus
    for triples, begin, stop in ((columns.x, x, z), (columns.u, u, end)):
        slot = triples[:, 2]
        rows.add(
            gpus + triples[:, 1] * types + slots.type[slot], np.arange(begin, stop), slots.gpus[slot].astype(float)
        )
    rows.add(gpus + typed, y + typed, -type_gpus[typed % types])
    falls = rows.block(nodes - 1, 0.0, np.inf)
    early, late = typed[:-types], typed[types:]
    rank = (typed % types + 1).astype(np.float64)
    rows.add(falls + early // types, y + early, rank[:-types])
    rows.add(falls + early // types, y + late, -rank[types:])


def _add_limit_rows(state: State, columns: _PerNodeColumns, slots: SlotTable, rows: _RowBuilder) -> None:
    """There is at least one node; types and users stay within their limits."""
    y, x, z, q, u, _ = columns.starts
    rows.add(np.full(columns.nodes, rows.block(1, 1.0, np.inf)), np.arange(columns.nodes), 1)
    for number, node_type in enumerate(state.fleet.types):
        if node_type.max_nodes is not None:
            of_type = y + np.arange(columns.nodes) * columns.types + number
            rows.add(np.full(columns.nodes, rows.block(1, -np.inf, node_type.max_nodes)), of_type, 1)
    gpus = (slots.gpus * slots.nodes).astype(float)
    users = np.array([each.job.user for each in state.jobs])
    for user, quota in state.fleet.quotas:
        row = rows.block(1, -np.inf, quota)
        for job, slot, indices in (
            (columns.x[:, 0], columns.x[:, 2], np.arange(x, z)),
            (columns.q[:, 0], columns.q[:, 1], np.arange(q, u)),
        ):
            of_user = users[job] == user
            rows.add(np.full(int(of_user.sum()), row), indices[of_user], gpus[slot[of_user]])


def _start(state: State, columns: _PerNodeColumns) -> "NDArray[np.float64]":
    """Greedy's decision as values of the columns, with nodes in the order that the model requires."""
    remaining = remaining_seconds(state)
    type_index = {node_type.name: index for index, node_type in enumerate(state.fleet.types)}
    rows = {each.job.id: row for row, each in enumerate(state.jobs)}
    plans = sorted((plan for plan in greedy(state).nodes if plan.jobs), key=lambda plan: -type_index[plan.type])
    assigned = assigned_slots(state, plans)
    triples = {(rows[job], node, assigned[job]) for node, plan in enumerate(plans) for job, _ in plan.jobs}
    firsts = set()
    for node, plan in enumerate(plans):
        first = min((job for job, _ in plan.jobs), key=lambda job: remaining[rows[job], assigned[job]])
        firsts.add((rows[first], node, assigned[first]))
    values = np.zeros(columns.starts[-1])
    y, x, z, q, u, end = columns.starts
    values[: len(plans)] = 1
    values[[y + node * columns.types + type_index[plan.type] for node, plan in enumerate(plans)]] = 1
    values[x:z] = [tuple(each) in triples for each in columns.x.tolist()]
    values[z:q] = [tuple(each) in firsts for each in columns.x.tolist()]
    values[q:u] = [
        any((job, node, slot) in triples for node in range(columns.nodes)) for job, slot in columns.q.tolist()
    ]
    values[u:end] = [tuple(each) in triples for each in columns.u.tolist()]
    return values


def _plans(state: State, columns: _PerNodeColumns, values: "NDArray[np.float64]") -> tuple[NodePlan, ...]:
    y, x, z, _, u, end = columns.starts
    jobs_on: dict[int, list[tuple[str, int]]] = {}
    for triples, chosen in ((columns.x, values[x:z]), (columns.u, values[u:end])):
        for job, node, slot in triples[chosen > 0.5].tolist():
            jobs_on.setdefault(node, []).append((state.jobs[job].job.id, state.fleet.slots[slot].gpus))
    node_type = values[y:x].reshape(columns.nodes, columns.types).argmax(axis=1)
    return tuple(
        NodePlan(type=state.fleet.types[node_type[node]].name, jobs=tuple(jobs)) for node, jobs in jobs_on.items()
    )
