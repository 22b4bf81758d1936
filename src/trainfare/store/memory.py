"""A history that ends with the process, for tests and notebooks."""

from typing import Any

from trainfare.model.estimate import Estimate
from trainfare.store.history import History
from trainfare.store.kinds import PLAN, PROFILE, RUN, SUBMISSION, TASK, TOKEN
from trainfare.store.memory_runs import MemoryFacts, MemoryLeases, MemoryObservations
from trainfare.store.memory_table import MemoryTable
from trainfare.store.memory_tasks import MemoryTaskEvents, MemoryTokens


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
        self.tokens = MemoryTokens(TOKEN, tables)
        self.tasks = MemoryTable(TASK, tables)
        self.task_events = MemoryTaskEvents(self.tasks, self.leases)

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
