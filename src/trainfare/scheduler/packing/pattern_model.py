"""Jobs on nodes that are counted by pattern, not one by one: the linear model, its prices and its bound.

A pattern p divides the GPUs of a node of type v among slots: a_pk of its parts are slot k. A gang is a pattern too: n_p
whole nodes with one part. With m_p nodes (gangs) of each pattern and y_jk = 1 where job j has slot k:

    minimise   Σ_jk usd_jk y_jk + Σ_j wait_j (1 - Σ_k y_jk) + Σ_p usd_p m_p
    job j      Σ_k y_jk ≤ 1                     slot k    Σ_j y_jk ≤ Σ_p a_pk m_p      (= where it must be filled)
    nodes      Σ_p n_p m_p ≤ N                  type v    Σ_{p of v} n_p m_p ≤ most_v
    user u     Σ_{j of u, k} GPUs_k y_jk ≤ quota_u

Only m need be whole: for fixed m the rows of jobs and slots are those of a transportation problem, whose vertices are
whole. Quotas break this: the y of their users are whole columns then. A part may stay empty, so only patterns to
which no part can be added are needed: 5 for four GPUs, 22 for eight.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet
from trainfare.scheduler.highs import Model
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Pattern:
    """How the GPUs of a node are divided; or that several whole nodes go to one job."""

    type: int
    """The place of its type in `Fleet.types`."""
    parts: tuple[tuple[int, int], ...]
    """(place in `Fleet.slots`, how many)."""
    nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packing:
    """Which slot each job has, and the nodes that carry them."""

    slots: "NDArray[np.int64]"
    """Per job the place of its slot in `Fleet.slots` (in another role, so many times their number later), or -1: it
    waits."""
    nodes: tuple[tuple[Pattern, int], ...]
    """Pattern and how many nodes, or gangs, are of it; every one is used."""
    usd: float
    bound_usd: float
    """No packing costs less."""


@lru_cache(maxsize=32)
def patterns_of(fleet: Fleet) -> tuple[Pattern, ...]:
    """Every way to divide a node of each type to which no part can be added, and every gang."""
    found = []
    for place, kind in enumerate(fleet.types):
        own = [(number, slot) for number, slot in enumerate(fleet.slots) if slot.type == kind.name]
        single = sorted(((slot.gpus, number) for number, slot in own if slot.nodes == 1), reverse=True)
        for parts in _divisions(kind.gpus, tuple(gpus for gpus, _ in single)):
            counted = tuple((number, parts.count(gpus)) for gpus, number in single if gpus in parts)
            found.append(Pattern(place, counted))
        found += [Pattern(place, ((number, 1),), slot.nodes) for number, slot in own if slot.nodes > 1]
    return tuple(found)


def _divisions(gpus: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Multisets of the sizes (falling) of sum ≤ gpus to which none of them can be added."""

    def grow(left: int, first: int, parts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for number in range(first, len(sizes)):
            if sizes[number] <= left:
                yield from grow(left - sizes[number], number, (*parts, sizes[number]))
        if parts and left < sizes[-1]:
            yield parts

    if sizes:
        yield from grow(gpus, 0, ())


class PatternModel:
    """The model above. Its rows: jobs, slots, nodes, types, users. Column (j, k) is the number j · K + k.

    The slots of `patterns` and of `job_usd` may be those of the fleet several times over, in different roles: a role is
    as many columns as the fleet has slots. `filled` are the slots without empty parts.
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
        self.kind = np.array([each.type for each in self.patterns])
        self.pattern_nodes = np.array([float(each.nodes) for each in self.patterns])
        self.parts = np.zeros((self.slots, len(self.patterns)))
        for number, pattern in enumerate(self.patterns):
            for slot, count in pattern.parts:
                self.parts[slot, number] = count
        self.most = np.array(
            [float(fleet.nodes if each.most is None else min(each.most, fleet.nodes)) for each in fleet.types]
        )
        self._limit(users)

    def _limit(self, users: Sequence[str]) -> None:
        """Whose jobs have a quota, and the columns that are worth having and within the limits by themselves."""
        table = slot_table(self.fleet)
        roles = self.slots // len(self.fleet.slots)
        self.slot_gpus = np.tile((table.gpus * table.nodes).astype(float), roles)
        quotas = dict(self.fleet.quotas)
        if len(users) != self.jobs and (users or quotas):
            raise ValueError(f"whose are these {self.jobs} jobs? There are quotas, and {len(users)} users")
        places = {user: place for place, user in enumerate(quotas)}
        self.quotas = np.array([float(most) for most in quotas.values()])
        self.user = np.array([places.get(user, -1) for user in users] or [-1] * self.jobs, dtype=np.int64)
        self.limited = self.user >= 0
        most_gpus = np.append(self.quotas, math.inf)[self.user]  # -1, no quota: the last
        there = np.tile(table.nodes <= self.most[table.type], roles) & self.parts.any(axis=1)
        fits = there[None, :] & (self.slot_gpus <= most_gpus[:, None])
        useful = (self.gain > 0) | (self.filled[None, :] & np.isfinite(self.gain))
        self.columns = np.flatnonzero(useful & fits)

    def model(self, columns: "NDArray[np.int64]", *, whole: bool = False, least_nodes: int = 0) -> Model:
        """The model with these columns of y, then all of m; `whole`: what must be whole is."""
        job, slot = np.divmod(columns, self.slots)
        count, patterns = len(columns), np.arange(len(self.patterns))
        at_slot, at_part = self.jobs, np.nonzero(self.parts)
        at_nodes = at_slot + self.slots
        at_type, at_user = at_nodes + 1, at_nodes + 1 + len(self.most)
        limited = np.flatnonzero(self.limited[job])
        rows = (job, at_slot + slot, at_slot + at_part[0], np.full(len(patterns), at_nodes), at_type + self.kind)
        places = (np.arange(count), np.arange(count), count + at_part[1], count + patterns, count + patterns)
        weights = (np.ones(count), np.ones(count), -self.parts[at_part], self.pattern_nodes, self.pattern_nodes)
        high = np.concatenate([np.ones(self.jobs), np.zeros(self.slots), self.limits()])
        low = np.full(len(high), -math.inf)
        low[at_slot:at_nodes][self.filled] = 0.0
        low[at_nodes] = least_nodes
        return Model(
            usd=np.concatenate([-self.gain[job, slot], self.pattern_usd]),
            low=np.zeros(count + len(patterns)),
            high=np.concatenate([np.ones(count), self.most_of()]),
            row_low=low,
            row_high=high,
            rows=np.concatenate([*rows, at_user + self.user[job[limited]]]),
            columns=np.concatenate([*places, limited]),
            coefficients=np.concatenate([*weights, self.slot_gpus[slot[limited]]]),
            whole=np.concatenate([self.limited[job], np.ones(len(patterns), dtype=bool)]) if whole else None,
            constant_usd=float(self.wait_usd.sum()),
        )

    def limits(self) -> "NDArray[np.float64]":
        """The right-hand sides of nodes, types and users."""
        return np.concatenate([[float(self.fleet.nodes)], self.most, self.quotas])

    def most_of(self) -> "NDArray[np.float64]":
        """How often each pattern can be taken."""
        most: NDArray[np.float64] = np.floor(self.most[self.kind] / self.pattern_nodes)
        return most

    def lagrange(self, duals: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], float]":
        """The reduced cost of every y (jobs × slots, infinite where there is no such column), and a bound. Prices are
        -duals, of all rows but those of jobs:

            reduced_jk = usd_jk - wait_j + λ_k + θ_u GPUs_k        reduced_p = usd_p + n_p (ν + μ_v) - Σ_k λ_k a_pk
            bound = Σ_j wait_j + Σ_j min(0, min_k reduced_jk) + Σ_p min(0, reduced_p) max m_p
                    - ν N - Σ_v μ_v most_v - Σ_u θ_u quota_u

        It holds for any prices ≥ 0, whether the LP that made them had all columns or not, and wherever parts may stay
        empty. A slot for which the LP had no column has no price there: each λ_k is raised as long as no reduced_p
        falls below 0, which only lifts the bound.
        """
        price = np.maximum(0.0, -duals[self.jobs :])
        slot, nodes = price[: self.slots], price[self.slots]
        types, users = np.split(price[self.slots + 1 :], [len(self.most)])
        pattern = self.pattern_usd + self.pattern_nodes * (nodes + types[self.kind]) - slot @ self.parts
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
        least = float(np.minimum(0.0, pattern) @ self.most_of()) - float(price[self.slots :] @ self.limits())
        return reduced, float(self.wait_usd.sum()) + best + least

    def packing(self, columns: "NDArray[np.int64]", values: "NDArray[np.float64]", bound_usd: float) -> Packing:
        """From whole y and m, in the order of `model`. Nodes on which nothing stands are left out."""
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
