"""The papers' decision (Jahani et al. 2019; Filippini et al.), to optimality, with columns for every node: as written.

    w_n      node n is on                       x_jnk   job j has slot k = (v, g) on node n
    y_nv     it is of type v                    z_jnk   and is the first to end there: the node is paid until then
    q_jk     job j has the gang k               u_jnk   and node n is one of its nodes

    minimise   Σ_jnk (ω_j late_jk x_jnk + c_v t_jk z_jnk) + Σ_jk (ω_j late_jk + n_k c_v t_jk) q_jk
               + Σ_j 100 ω_j worst_j waits_j
    job j      Σ_nk x_jnk + Σ_k q_jk + waits_j = 1              gang      Σ_n u_jnk = n_k q_jk
    node n     Σ_v y_nv = w_n      Σ_jk z_jnk + Σ_jk u_jnk = w_n      z_jnk ≤ x_jnk
    GPUs       Σ_{j, k of v} g_k x_jnk + G_v u_jnk ≤ G_v y_nv      for each n and v
    limits     Σ_n y_nv ≤ most_v,   Σ_{j of u} GPUs_k (x_jnk + q_jk) ≤ quota_u,   1 ≤ Σ_n w_n

Which of its jobs is the first to end need not be said: the least solution takes the shortest t. z is whole by itself.
The optimum may be to rent nothing and wait for ever, since waiting may be free by this cost; so one node is on.

Nodes are alike, and N! orders of them the same decision. Σ_v v·y_nv must not grow with n (closed nodes, 0, are last):
any decision can be so ordered, so the optimum stays. Even so branch and bound ends within seconds only up to about six
nodes and twelve jobs; `patterns.py` finds the same optimum for a hundred nodes. When the seconds run out, the answer is
the best found, with its bound (0 while nothing is proved); the search begins with the decision of `greedy.py`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.highs import LinearModel, solve
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.policies.greedy import greedy
from trainfare.scheduler.pricing.objective import decision_usd, late_usd, postponed_usd, assigned_slots
from trainfare.scheduler.tables import SlotTable, remaining_seconds, slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def per_node(state: State, *, gap: float = 1e-6, seconds: float = 10.0) -> Decision:
    """The cheapest decision by `decision_usd` among those that run a job at all; the best found when time is up."""
    if not state.jobs:
        return Decision(nodes=(), usd=0.0, bound_usd=0.0)
    columns = _Columns.of(state)
    if not len(columns.x) and not len(columns.q):  # quotas or limits leave no place for anybody
        usd = decision_usd(state, ())
        return Decision(nodes=(), usd=usd, bound_usd=usd)
    found = solve(_model(state, columns), gap=gap, seconds=seconds, start=_start(state, columns))
    nodes = match_to_rented_nodes(state, _plans(state, columns, found.values))
    usd = decision_usd(state, nodes)
    return Decision(nodes=nodes, usd=usd, bound_usd=min(max(found.bound_usd, 0.0), usd))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Columns:
    """The columns w, y, x, z, q, u, in this order.

    x and u are listed as (job, node, slot), q as (job, slot); z goes with x.
    """

    nodes: int
    types: int
    x: "NDArray[np.int64]"
    q: "NDArray[np.int64]"
    u: "NDArray[np.int64]"

    @staticmethod
    def of(state: State) -> "_Columns":
        slots, fleet = slot_table(state.fleet), state.fleet
        most = np.array(
            [fleet.nodes if each.max_nodes is None else min(each.max_nodes, fleet.nodes) for each in fleet.types]
        )
        quotas = dict(fleet.quotas)
        quota = np.array([quotas.get(each.job.user, np.inf) for each in state.jobs])
        fits = np.isfinite(remaining_seconds(state)) & (slots.nodes <= most[slots.type])[None, :]
        fits &= (slots.gpus * slots.nodes)[None, :] <= quota[:, None]
        single = np.argwhere(np.repeat((fits & (slots.nodes == 1))[:, None, :], fleet.nodes, axis=1))
        gang = fits & (slots.nodes > 1)
        spread = np.argwhere(np.repeat(gang[:, None, :], fleet.nodes, axis=1))
        return _Columns(nodes=fleet.nodes, types=len(fleet.types), x=single, q=np.argwhere(gang), u=spread)

    @property
    def starts(self) -> tuple[int, int, int, int, int, int]:
        """Of y, x, z, q, u, and the end."""
        counts = (self.nodes, self.nodes * self.types, len(self.x), len(self.x), len(self.q), len(self.u))
        y, x, z, q, u, end = np.cumsum(counts).tolist()
        return y, x, z, q, u, end


class _Rows:
    """Rows of a model as they are written down: entries of a block of rows at a time."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.int64]] = []
        self.columns: list[NDArray[np.int64]] = []
        self.coefficients: list[NDArray[np.float64]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def block(self, count: int, low: float, high: "float | NDArray[np.float64]") -> int:
        """So many more rows; where they begin."""
        begin = len(self.low)
        self.low += [low] * count
        self.high += np.broadcast_to(high, (count,)).tolist()
        return begin

    def add(
        self, rows: "NDArray[np.int64]", columns: "NDArray[np.int64]", weight: "float | NDArray[np.float64]"
    ) -> None:
        self.rows.append(rows)
        self.columns.append(columns)
        self.coefficients.append(np.broadcast_to(np.asarray(weight, dtype=np.float64), rows.shape))


def _model(state: State, columns: _Columns) -> LinearModel:
    slots = slot_table(state.fleet)
    rows = _Rows()
    _jobs_and_gangs(state, columns, slots, rows)
    _nodes(columns, slots, rows)
    _limits(state, columns, slots, rows)
    end = columns.starts[-1]
    whole = np.ones(end, dtype=bool)
    whole[columns.starts[2] : columns.starts[3]] = False  # z
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
        whole=whole,
        constant_usd=float(wait.sum()),
    )


def _jobs_and_gangs(state: State, columns: _Columns, slots: SlotTable, rows: _Rows) -> None:
    """A job stands in one place at most; the first to end is on the node; a gang has all its nodes."""
    _, x, z, q, u, end = columns.starts
    one = rows.block(len(state.jobs), -np.inf, 1.0)
    rows.add(one + columns.x[:, 0], np.arange(x, z), 1)
    rows.add(one + columns.q[:, 0], np.arange(q, u), 1)
    first = rows.block(len(columns.x), -np.inf, 0.0)
    rows.add(first + np.arange(len(columns.x)), np.arange(z, q), 1)
    rows.add(first + np.arange(len(columns.x)), np.arange(x, z), -1)
    gang = rows.block(len(columns.q), 0.0, 0.0)
    number = {(int(job), int(slot)): place for place, (job, slot) in enumerate(columns.q)}
    which = np.array([number[int(job), int(slot)] for job, _, slot in columns.u], dtype=np.int64)
    rows.add(gang + which, np.arange(u, end), 1)
    rows.add(gang + np.arange(len(columns.q)), np.arange(q, u), -slots.nodes[columns.q[:, 1]].astype(float))


def _nodes(columns: _Columns, slots: SlotTable, rows: _Rows) -> None:
    """A node that is on has a type, somebody who ends first, and gives away no more GPUs than it has; types fall."""
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
    for stands, begin, stop in ((columns.x, x, z), (columns.u, u, end)):
        slot = stands[:, 2]
        rows.add(gpus + stands[:, 1] * types + slots.type[slot], np.arange(begin, stop), slots.gpus[slot].astype(float))
    rows.add(gpus + typed, y + typed, -type_gpus[typed % types])
    falls = rows.block(nodes - 1, 0.0, np.inf)
    early, late = typed[:-types], typed[types:]
    rank = (typed % types + 1).astype(np.float64)
    rows.add(falls + early // types, y + early, rank[:-types])
    rows.add(falls + early // types, y + late, -rank[types:])


def _limits(state: State, columns: _Columns, slots: SlotTable, rows: _Rows) -> None:
    """One node at least; no more of a type and for a user than they may have."""
    y, x, z, q, u, _ = columns.starts
    rows.add(np.full(columns.nodes, rows.block(1, 1.0, np.inf)), np.arange(columns.nodes), 1)
    for number, kind in enumerate(state.fleet.types):
        if kind.max_nodes is not None:
            of_type = y + np.arange(columns.nodes) * columns.types + number
            rows.add(np.full(columns.nodes, rows.block(1, -np.inf, kind.max_nodes)), of_type, 1)
    gpus = (slots.gpus * slots.nodes).astype(float)
    users = np.array([each.job.user for each in state.jobs])
    for user, most in state.fleet.quotas:
        row = rows.block(1, -np.inf, most)
        for job, slot, places in (
            (columns.x[:, 0], columns.x[:, 2], np.arange(x, z)),
            (columns.q[:, 0], columns.q[:, 1], np.arange(q, u)),
        ):
            his = users[job] == user
            rows.add(np.full(int(his.sum()), row), places[his], gpus[slot[his]])


def _start(state: State, columns: _Columns) -> "NDArray[np.float64]":
    """Greedy's decision as values of the columns, nodes in the order that the model wants."""
    remaining, places = remaining_seconds(state), {kind.name: place for place, kind in enumerate(state.fleet.types)}
    rows = {each.job.id: row for row, each in enumerate(state.jobs)}
    plans = sorted((plan for plan in greedy(state).nodes if plan.jobs), key=lambda plan: -places[plan.type])
    assigned = assigned_slots(state, plans)
    stands = {(rows[job], node, assigned[job]) for node, plan in enumerate(plans) for job, _ in plan.jobs}
    firsts = set()
    for node, plan in enumerate(plans):
        first = min((job for job, _ in plan.jobs), key=lambda job: remaining[rows[job], assigned[job]])
        firsts.add((rows[first], node, assigned[first]))
    values = np.zeros(columns.starts[-1])
    y, x, z, q, u, end = columns.starts
    values[: len(plans)] = 1
    values[[y + node * columns.types + places[plan.type] for node, plan in enumerate(plans)]] = 1
    values[x:z] = [tuple(each) in stands for each in columns.x.tolist()]
    values[z:q] = [tuple(each) in firsts for each in columns.x.tolist()]
    values[q:u] = [
        any((job, node, slot) in stands for node in range(columns.nodes)) for job, slot in columns.q.tolist()
    ]
    values[u:end] = [tuple(each) in stands for each in columns.u.tolist()]
    return values


def _plans(state: State, columns: _Columns, values: "NDArray[np.float64]") -> tuple[NodePlan, ...]:
    y, x, z, _, u, end = columns.starts
    here: dict[int, list[tuple[str, int]]] = {}
    for stands, chosen in ((columns.x, values[x:z]), (columns.u, values[u:end])):
        for job, node, slot in stands[chosen > 0.5].tolist():
            here.setdefault(node, []).append((state.jobs[job].job.id, state.fleet.slots[slot].gpus))
    kind = values[y:x].reshape(columns.nodes, columns.types).argmax(axis=1)
    return tuple(NodePlan(type=state.fleet.types[kind[node]].name, jobs=tuple(jobs)) for node, jobs in here.items())
