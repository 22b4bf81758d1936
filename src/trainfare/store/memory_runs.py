"""What belongs to runs in a history that ends with the process: facts, observations and leases."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from threading import RLock
from typing import Protocol

from trainfare.model.lease import Lease
from trainfare.model.run import Fact, Observation, ObservationKind, Run
from trainfare.store.fact_rules import LastFact, next_fact, require_author
from trainfare.store.history import StaleLeaseError


class StoredRuns(Protocol):
    """The runs of the same history."""

    def all(self) -> tuple[Run, ...]: ...

    def has_stored(self, name: str) -> bool: ...


class MemoryLeases:
    """Leases, by name. `lock` is held while something depends on a lease."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._leases: dict[str, Lease] = {}
        self._tokens: dict[str, int] = {}

    def take(self, name: str, *, holder: str, seconds: float, now: datetime) -> Lease | None:
        with self.lock:
            last = self._leases.get(name)
            if last is not None and last.holder != holder and not last.has_run_out(now):
                return None
            token = self._tokens.get(name, 0) + 1
            lease = Lease(name=name, holder=holder, token=token, expires_at=now + timedelta(seconds=seconds))
            self._leases[name], self._tokens[name] = lease, token
            return lease

    def renew(self, lease: Lease, seconds: float, now: datetime) -> Lease:
        with self.lock:
            self.require_current(lease)
            self._leases[lease.name] = renewed = replace(lease, expires_at=now + timedelta(seconds=seconds))
            return renewed

    def release(self, lease: Lease) -> None:
        with self.lock:
            last = self._leases.get(lease.name)
            if last is not None and last.token == lease.token:
                del self._leases[lease.name]

    def current(self, name: str) -> Lease | None:
        return self._leases.get(name)

    def require_current(self, lease: Lease) -> None:
        """`StaleLeaseError` unless the lease is the current one."""
        last = self._leases.get(lease.name)
        if last is None or (last.holder, last.token) != (lease.holder, lease.token):
            raise StaleLeaseError(lease, current_holder=last.holder if last else None)


class MemoryFacts:
    """Facts, by run."""

    def __init__(self, runs: StoredRuns, leases: MemoryLeases) -> None:
        self._runs, self._leases = runs, leases
        self._by_run: dict[str, tuple[Fact, ...]] = {}

    def of(self, run_id: str) -> tuple[Fact, ...]:
        return self._by_run.get(run_id, ())

    def of_each(self, run_ids: Collection[str]) -> dict[str, tuple[Fact, ...]]:
        return {run_id: self.of(run_id) for run_id in run_ids}

    def append(self, fact: Fact, *, lease: Lease | None) -> Fact:
        require_author(fact, lease)
        with self._leases.lock:
            if not self._runs.has_stored(fact.run_id):
                raise ValueError(f"a fact refers to run {fact.run_id}, which is not in history")
            if lease is not None:
                self._leases.require_current(lease)
            facts = self.of(fact.run_id)
            last = LastFact(facts[-1].number, facts[-1].kind) if facts else None
            stored = next_fact(fact, last=last, lease=lease)
            self._by_run[fact.run_id] = (*facts, stored)
        return stored

    def unended_runs(self) -> tuple[str, ...]:
        return tuple(run.id for run in reversed(self._runs.all()) if not self._has_ended(run.id))

    def refusals(self, *, since: datetime) -> tuple[Fact, ...]:
        every = (fact for facts in self._by_run.values() for fact in facts)
        found = [fact for fact in every if fact.is_refusal and fact.seen_at >= since]
        return tuple(sorted(found, key=lambda fact: fact.seen_at, reverse=True))

    def ended_runs(self, *, limit: int | None = None) -> tuple[str, ...]:
        return tuple(run.id for run in self._runs.all() if self._has_ended(run.id))[:limit]

    def _has_ended(self, run_id: str) -> bool:
        return any(fact.kind == "run ended" for fact in self.of(run_id))


class MemoryObservations:
    """Observations, by run."""

    def __init__(self, runs: StoredRuns) -> None:
        self._runs = runs
        self._by_run: dict[str, dict[tuple[int, int, int], Observation]] = {}

    def add_all(self, observations: Iterable[Observation]) -> None:
        new = tuple(observations)
        for each in new:
            if not self._runs.has_stored(each.run_id):
                raise ValueError(f"an observation refers to run {each.run_id}, which is not in history")
        for each in new:
            self._by_run.setdefault(each.run_id, {}).setdefault((each.attempt, each.node, each.number), each)

    def of(
        self,
        run_id: str,
        *,
        kinds: Collection[ObservationKind] | None = None,
        attempt: int | None = None,
        node: int | None = None,
        after: int = 0,
    ) -> tuple[Observation, ...]:
        of_run = self._by_run.get(run_id, {})
        return tuple(
            of_run[key]
            for key in sorted(of_run)
            if (kinds is None or of_run[key].kind in kinds)
            and attempt in (None, key[0])
            and node in (None, key[1])
            and key[2] > after
        )

    def last_number(self, run_id: str, *, attempt: int, node: int) -> int:
        numbers = (key[2] for key in self._by_run.get(run_id, {}) if key[:2] == (attempt, node))
        return max(numbers, default=0)
