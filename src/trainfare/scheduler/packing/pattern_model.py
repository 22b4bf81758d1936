"""The linear model of jobs on nodes that are counted by pattern, with its prices and its bound.

A pattern p divides the GPUs of a node of type v among slots: a_pk of its parts are slot k. A gang is a pattern too: n_p
complete nodes with one part. With m_p nodes (gangs) of each pattern and y_jk = 1 where job j has slot k:

    minimise   Σ_jk usd_jk y_jk + Σ_j wait_j (1 - Σ_k y_jk) + Σ_p usd_p m_p
    job j      Σ_k y_jk ≤ 1                     slot k    Σ_j y_jk ≤ Σ_p a_pk m_p      (= where it must be filled)
    nodes      Σ_p n_p m_p ≤ N                  type v    Σ_{p of v} n_p m_p ≤ max_v
    user u     Σ_{j of u, k} GPUs_k y_jk ≤ quota_u

Only m must be integer: for fixed m the rows of jobs and slots are those of a transportation problem, whose vertices are
integer. Quotas break this, so the y of their users are integer columns too. A part may stay empty, so only patterns to
which no part can be added are needed: 5 for four GPUs, 22 for eight.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet
from trainfare.scheduler.highs import LinearModel
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Pattern:
    """A division of the GPUs of a node into slots, or several complete nodes for one job."""

    type: int
    """The index of its type in `Fleet.types`."""
    parts: tuple[tuple[int, int], ...]
    """(index in `Fleet.slots`, number of parts)."""
    nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packing:
    """The slot of each job, and the number of nodes of each pattern."""

    slots: "NDArray[np.int64]"
    """For each job the index of its slot in `Fleet.slots`, or -1 if it waits. In role r the index is r times the number
    of slots larger."""
    nodes: tuple[tuple[Pattern, int], ...]
    """Each pattern with its number of nodes, or gangs; every one is used."""
    usd: float
    bound_usd: float
    """No packing costs less."""


@lru_cache(maxsize=32)
def node_patterns(fleet: Fleet) -> tuple[Pattern, ...]:
    """All divisions of a node of each type to which no part can be added, and all gangs."""
    found = []
    for index, node_type in enumerate(fleet.types):
        slots = [(number, slot) for number, slot in enumerate(fleet.slots) if slot.type == node_type.name]
        single = sorted(((slot.gpus, number) for number, slot in slots if slot.nodes == 1), reverse=True)
        for parts in _divisions(node_type.gpus, tuple(gpus for gpus, _ in single)):
            counted = tuple((number, parts.count(gpus)) for gpus, number in single if gpus in parts)
            found.append(Pattern(index, counted))
        found += [Pattern(index, ((number, 1),), slot.nodes) for number, slot in slots if slot.nodes > 1]
    return tuple(found)


def _divisions(gpus: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The multisets of the sizes (falling) with sum ≤ gpus to which no size can be added."""

    def grow(left: int, first: int, parts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for number in range(first, len(sizes)):
            if sizes[number] <= left:
                yield from grow(left - sizes[number], number, (*parts, sizes[number]))
        if parts and left < sizes[-1]:
            yield parts

    if sizes:
        yield from grow(gpus, 0, ())


class PatternModel:
    """The model above. Its rows are jobs, slots, nodes, types, users. Column (j, k) has the number j · K + k.

    `patterns` and `job_usd` may list the slots of the fleet several times, in different roles: each role has as many
    columns as the fleet has slots. `filled` marks the slots that must not have empty parts.
    """

    def __init__(
        self,
        fleet: Fleet,
        patterns: Sequence[Pattern],
        *,
        job_usd: "NDArray[np.float64]",
        wait_usd: "NDArray[np.float64]",
        pattern_usd: "NDArray[np.float64]",
        users: Sequence[str] = (),
        filled: "NDArray[np.bool_] | None" = None,
    ) -> None:
        self.fleet, self.patterns = fleet, tuple(patterns)
        self.wait_usd, self.pattern_usd = wait_usd, pattern_usd
        self.jobs, self.slots = job_usd.shape
        self.gain = wait_usd[:, None] - job_usd
        self.filled = np.zeros(self.slots, dtype=bool) if filled is None else filled
        self.pattern_type = np.array([each.type for each in self.patterns])
        self.pattern_nodes = np.array([float(each.nodes) for each in self.patterns])
        self.parts = np.zeros((self.slots, len(self.patterns)))
        for number, pattern in enumerate(self.patterns):
            for slot, count in pattern.parts:
                self.parts[slot, number] = count
        self.max_nodes = np.array(
            [float(fleet.nodes if each.max_nodes is None else min(each.max_nodes, fleet.nodes)) for each in fleet.types]
        )
        self._limit(users)

    def _limit(self, users: Sequence[str]) -> None:
        """Sets the quotas, and the columns that can lower the cost and are within the limits on their own."""
        table = slot_table(self.fleet)
        roles = self.slots // len(self.fleet.slots)
        self.slot_gpus = np.tile((table.gpus * table.nodes).astype(float), roles)
        quotas = dict(self.fleet.quotas)
        if len(users) != self.jobs and (users or quotas):
            raise ValueError(f"each of the {self.jobs} jobs needs a user where there are quotas, got {len(users)}")
        index = {user: number for number, user in enumerate(quotas)}
        self.quotas = np.array([float(gpus) for gpus in quotas.values()])
        self.user = np.array([index.get(user, -1) for user in users] or [-1] * self.jobs, dtype=np.int64)
        self.limited = self.user >= 0
        job_quota = np.append(self.quotas, math.inf)[self.user]  # -1, no quota: the last
        exists = np.tile(table.nodes <= self.max_nodes[table.type], roles) & self.parts.any(axis=1)
        fits = exists[None, :] & (self.slot_gpus <= job_quota[:, None])
        useful = (self.gain > 0) | (self.filled[None, :] & np.isfinite(self.gain))
        self.columns = np.flatnonzero(useful & fits)

    def model(self, columns: "NDArray[np.int64]", *, integer: bool = False, min_nodes: int = 0) -> LinearModel:
        """The model with these columns of y, then all of m; `integer`: with the integer columns declared."""
        job, slot = np.divmod(columns, self.slots)
        count, patterns = len(columns), np.arange(len(self.patterns))
        at_slot, at_part = self.jobs, np.nonzero(self.parts)
        at_nodes = at_slot + self.slots
        at_type, at_user = at_nodes + 1, at_nodes + 1 + len(self.max_nodes)
        limited = np.flatnonzero(self.limited[job])
        rows = (
            job,
            at_slot + slot,
            at_slot + at_part[0],
            np.full(len(patterns), at_nodes),
            at_type + self.pattern_type,
        )
        entry_columns = (np.arange(count), np.arange(count), count + at_part[1], count + patterns, count + patterns)
        weights = (np.ones(count), np.ones(count), -self.parts[at_part], self.pattern_nodes, self.pattern_nodes)
        high = np.concatenate([np.ones(self.jobs), np.zeros(self.slots), self.limits()])
        low = np.full(len(high), -math.inf)
        low[at_slot:at_nodes][self.filled] = 0.0
        low[at_nodes] = min_nodes
        return LinearModel(
            usd=np.concatenate([-self.gain[job, slot], self.pattern_usd]),
            low=np.zeros(count + len(patterns)),
            high=np.concatenate([np.ones(count), self.max_pattern_counts()]),
            row_low=low,
            row_high=high,
            rows=np.concatenate([*rows, at_user + self.user[job[limited]]]),
            columns=np.concatenate([*entry_columns, limited]),
            coefficients=np.concatenate([*weights, self.slot_gpus[slot[limited]]]),
            integer=np.concatenate([self.limited[job], np.ones(len(patterns), dtype=bool)]) if integer else None,
            constant_usd=float(self.wait_usd.sum()),
        )

    def limits(self) -> "NDArray[np.float64]":
        """The right-hand sides of nodes, types and users."""
        return np.concatenate([[float(self.fleet.nodes)], self.max_nodes, self.quotas])

    def max_pattern_counts(self) -> "NDArray[np.float64]":
        """The largest possible m of each pattern."""
        largest: NDArray[np.float64] = np.floor(self.max_nodes[self.pattern_type] / self.pattern_nodes)
        return largest

    def lagrange(self, duals: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], float]":
        """The reduced cost of every y (jobs × slots, infinite where there is no such column), and a lower bound. The
        prices are -duals of all rows except those of jobs:

            reduced_jk = usd_jk - wait_j + λ_k + θ_u GPUs_k        reduced_p = usd_p + n_p (ν + μ_v) - Σ_k λ_k a_pk
            bound = Σ_j wait_j + Σ_j min(0, min_k reduced_jk) + Σ_p min(0, reduced_p) max m_p
                    - ν N - Σ_v μ_v max_v - Σ_u θ_u quota_u

        The bound holds for any prices ≥ 0, whether or not their LP had all columns, wherever parts may stay empty. A
        slot without a column in the LP has no price there: each λ_k is raised as long as no reduced_p falls below 0,
        which can only raise the bound.
        """
        price = np.maximum(0.0, -duals[self.jobs :])
        slot, nodes = price[: self.slots], price[self.slots]
        types, users = np.split(price[self.slots + 1 :], [len(self.max_nodes)])
        pattern = self.pattern_usd + self.pattern_nodes * (nodes + types[self.pattern_type]) - slot @ self.parts
        for number, parts in enumerate(self.parts):
            has = parts > 0
            if not has.any():
                continue
            more = max(0.0, float((pattern[has] / parts[has]).min()))
            slot[number] += more
            pattern -= more * parts
        quota = np.append(users, 0.0)[self.user]  # -1, no quota: the last
        reduced = np.full((self.jobs, self.slots), math.inf)
        priced = slot[None, :] - self.gain + quota[:, None] * self.slot_gpus[None, :]
        reduced.ravel()[self.columns] = priced.ravel()[self.columns]
        best = float(np.minimum(0.0, reduced.min(axis=1, initial=0.0)).sum())
        least = float(np.minimum(0.0, pattern) @ self.max_pattern_counts()) - float(price[self.slots :] @ self.limits())
        return reduced, float(self.wait_usd.sum()) + best + least

    def packing(self, columns: "NDArray[np.int64]", values: "NDArray[np.float64]", bound_usd: float) -> Packing:
        """The packing of integer y and m, in the order of `model`, without nodes that no job uses."""
        y, m = values[: len(columns)], np.round(values[len(columns) :])
        job, slot = np.divmod(columns[y > 0.5], self.slots)
        slots = np.full(self.jobs, -1)
        slots[job] = slot
        room = self.parts @ m - np.bincount(slot, minlength=self.slots)
        for number in np.argsort(-self.pattern_usd, kind="stable"):
            has = self.parts[:, number] > 0
            spare = min(m[number], np.floor((room[has] / self.parts[has, number]).min()))
            m[number] -= spare
            room -= spare * self.parts[:, number]
        usd = float(self.wait_usd.sum() - self.gain[job, slot].sum() + m @ self.pattern_usd)
        nodes = tuple((self.patterns[number], int(m[number])) for number in np.flatnonzero(m))
        return Packing(slots=slots, nodes=nodes, usd=usd, bound_usd=min(bound_usd, usd))
