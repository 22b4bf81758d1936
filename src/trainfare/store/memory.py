"""A history that ends with the process, for tests and notebooks."""

from collections.abc import Mapping
from typing import Any, Generic

from trainfare.errors import NotFoundError
from trainfare.model.estimate import Estimate
from trainfare.store.history import AlreadyStoredError, History
from trainfare.store.kinds import PLAN, PROFILE, RUN, SUBMISSION, N, NounKind
from trainfare.store.memory_runs import MemoryFacts, MemoryLeases, MemoryObservations


class MemoryTable(Generic[N]):
    """The nouns of one kind. `tables` holds the tables of a history by the names of their kinds."""

    def __init__(self, kind: NounKind[N], tables: "Mapping[str, MemoryTable[Any]]") -> None:
        self._kind, self._tables = kind, tables
        self._nouns: dict[str, N] = {}
        self._removed: set[str] = set()

    def add(self, noun: N) -> None:
        if noun.id in self._nouns:
            if not (self._kind.restorable and noun.id in self._removed and noun == self._nouns[noun.id]):
                raise AlreadyStoredError(self._kind.name, noun.id)
            self._removed.remove(noun.id)
            return
        for reference in self._kind.references(noun):
            if not self._tables[reference.kind].has_stored(reference.id):
                raise ValueError(f"{self._kind.name} {noun.id} refers to {reference}, which is not in history")
        self._nouns[noun.id] = noun

    def get(self, name: str) -> N:
        if name not in self._nouns or name in self._removed:
            known = [noun.id for noun in self.all()]
            raise NotFoundError(self._kind.name, name, known, listed_by=self._kind.list_command)
        return self._nouns[name]

    def all(self) -> tuple[N, ...]:
        nouns = [noun for name, noun in self._nouns.items() if name not in self._removed]
        return tuple(sorted(nouns, key=lambda n: (self._kind.moment(n), n.id), reverse=self._kind.newest_first))

    def remove(self, name: str) -> None:
        self._removed.add(self.get(name).id)

    def has_stored(self, name: str) -> bool:
        """True if the noun was ever added, removed or not."""
        return name in self._nouns


class MemoryHistory(History):
    """Every table of a history, as dictionaries."""

    def __init__(self) -> None:
        tables: dict[str, MemoryTable[Any]] = {}
        self.profiles = tables["profile"] = MemoryTable(PROFILE, tables)
        self.plans = tables["plan"] = MemoryTable(PLAN, tables)
        self.runs = tables["run"] = MemoryTable(RUN, tables)
        self.submissions = tables["submission"] = MemoryTable(SUBMISSION, tables)
        self.leases = MemoryLeases()
        self.estimates = _Estimates(tables["plan"])
        self.facts = MemoryFacts(tables["run"], self.leases)
        self.observations = MemoryObservations(tables["run"])

    @property
    def damaged(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


class _Estimates:
    def __init__(self, plans: MemoryTable[Any]) -> None:
        self._plans = plans

    def of(self, owner_id: str) -> tuple[Estimate, ...]:
        every = (estimate for plan in self._plans.all() for estimate in (plan.chosen, *plan.runners_up))
        return tuple(estimate for estimate in every if estimate.profile_id == owner_id)
