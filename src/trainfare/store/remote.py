"""The history of a server, read over its API: what it stores comes as documents, so the use cases that read answer the
same there as at home.

What writes is asked of the server by its use cases, where it checks who may do it. Only profiles and submissions can be
removed here, since the server has the same request for it.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Generic, NoReturn

from trainfare.errors import ExternalError, UsageError
from trainfare.model.document import from_document
from trainfare.model.estimate import Estimate
from trainfare.model.lease import Lease
from trainfare.model.run import Fact, Observation, ObservationKind
from trainfare.store.history import History
from trainfare.store.kinds import PLAN, PROFILE, RUN, SUBMISSION, N, NounKind
from trainfare.store.server import Record, ServerConnection, quoted, read_token

_PAGE = 200


class RemoteHistory(History):
    """The history of a server."""

    def __init__(self, url: str) -> None:
        self._server = ServerConnection(url, read_token(url))
        self._damaged: list[str] = []
        self.facts = RemoteFacts(self._server)
        self.profiles = RemoteTable(PROFILE, "profiles", self, removed_at="/profiles")
        self.plans = RemoteTable(PLAN, "plans", self)
        self.runs = RemoteTable(RUN, "runs", self)
        self.submissions = RemoteTable(SUBMISSION, "submissions", self, removed_at="/queue")
        self.estimates = _RemoteEstimates(self.plans)
        self.observations = RemoteObservations(self._server)
        self.leases = self.tokens = self.tasks = self.task_events = _Refused()

    @property
    def damaged(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._damaged))

    @property
    def server(self) -> ServerConnection:
        return self._server

    def note(self, page: Record) -> None:
        """Remember what a page says of damaged nouns, and the facts that came with its runs."""
        self._damaged += page.get("damaged", [])
        self.facts.remember(page.get("facts", {}))

    def close(self) -> None:
        self._server.close()


class RemoteTable(Generic[N]):
    """The nouns of one kind."""

    def __init__(self, kind: NounKind[N], name: str, history: RemoteHistory, *, removed_at: str | None = None) -> None:
        self._kind, self._path, self._history = kind, f"/history/{name}", history
        self._removed_at = removed_at

    def add(self, noun: N) -> None:
        _refuse(f"{self._kind.name} {noun.id}")

    def get(self, name: str) -> N:
        return self._noun(self._history.server.record("GET", f"{self._path}/{quoted(name)}"))

    def all(self) -> tuple[N, ...]:
        found: list[N] = []
        for page in self._history.server.pages(self._path, {"limit": _PAGE}):
            self._history.note(page)
            found += map(self._noun, page["items"])
        return tuple(found)

    def page(self, *, limit: int, after: str | None = None) -> tuple[N, ...]:
        asked = {"limit": min(limit, _PAGE)} | ({} if after is None else {"cursor": after})
        page = self._history.server.record("GET", self._path, params=asked)
        self._history.note(page)
        return tuple(map(self._noun, page["items"]))

    def remove(self, name: str) -> None:
        if self._removed_at is None:
            _refuse(f"{self._kind.name} {name}")
        self._history.server.send("DELETE", f"{self._removed_at}/{quoted(name)}")

    def _noun(self, document: Record) -> N:
        found: N = _read(self._kind.noun_type, document)
        return found


class RemoteFacts:
    """The facts of runs. Those that came with a list of runs are not asked for again, once."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self._listed: dict[str, tuple[Fact, ...]] = {}

    def remember(self, facts: dict[str, list[Record]]) -> None:
        self._listed |= {run_id: tuple(_read(Fact, each) for each in found) for run_id, found in facts.items()}

    def of(self, run_id: str) -> tuple[Fact, ...]:
        if run_id in self._listed:
            return self._listed.pop(run_id)
        found = self._server.record("GET", f"/history/runs/{quoted(run_id)}/facts")["items"]
        return tuple(_read(Fact, each) for each in found)

    def of_each(self, run_ids: Collection[str]) -> dict[str, tuple[Fact, ...]]:
        return {run_id: self.of(run_id) for run_id in run_ids}

    def append(self, fact: Fact, *, lease: Lease | None) -> Fact:  # noqa: ARG002 # as in every history
        _refuse(f"a fact of {fact.run_id}")

    def unended_runs(self) -> tuple[str, ...]:
        _refuse("the supervision of its runs")

    def ended_runs(self, *, limit: int | None = None) -> tuple[str, ...]:
        found = self._server.record("GET", "/history/ended", params={} if limit is None else {"limit": limit})
        return tuple(found["items"])

    def refusals(self, *, since: datetime) -> tuple[Fact, ...]:  # noqa: ARG002 # as in every history
        return ()


class RemoteObservations:
    """The observations of runs."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    def add_all(self, observations: Iterable[Observation]) -> None:  # noqa: ARG002 # as in every history
        _refuse("observations")

    def of(
        self,
        run_id: str,
        *,
        kinds: Collection[ObservationKind] | None = None,
        attempt: int | None = None,
        node: int | None = None,
        after: int = 0,
    ) -> tuple[Observation, ...]:
        asked = {"kind": None if kinds is None else list(kinds), "attempt": attempt, "node": node, "after": after}
        given = {name: value for name, value in asked.items() if value is not None}
        found = self._server.record("GET", f"/history/runs/{quoted(run_id)}/observations", params=given)["items"]
        return tuple(_read(Observation, each) for each in found)

    def last_number(self, run_id: str, *, attempt: int, node: int) -> int:
        return max((each.number for each in self.of(run_id, attempt=attempt, node=node)), default=0)


class _RemoteEstimates:
    def __init__(self, plans: RemoteTable[Any]) -> None:
        self._plans = plans

    def of(self, owner_id: str) -> tuple[Estimate, ...]:
        every = (estimate for plan in self._plans.all() for estimate in (plan.chosen, *plan.runners_up))
        return tuple(estimate for estimate in every if estimate.profile_id == owner_id)


class _Refused:
    """Tables that only the processes of a server use."""

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(f"`{name}`")


def _refuse(what: str) -> NoReturn:
    raise UsageError(f"The store is that of a server, which alone can write or use {what}.", field="server")


def _read(noun_type: type[Any], document: Record) -> Any:
    try:
        return from_document(noun_type, document)
    except ValueError as error:
        raise ExternalError(f"The answer of the server cannot be read: {error}. Is its version another one?") from error
