"""The contract of every history, whether it is stored in memory, in SQLite or in PostgreSQL: one table a noun."""

from collections.abc import Collection, Iterable
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TypeVar

from trainfare.errors import ExternalError, TrainfareError
from trainfare.model.access import Token
from trainfare.model.estimate import Estimate
from trainfare.model.lease import Lease
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Fact, Observation, ObservationKind, Run
from trainfare.model.submission import Submission
from trainfare.model.task import Task, TaskEvent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AlreadyStoredError(ValueError):
    """The id is taken: what is stored is never overwritten."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} is already in history")
        self.kind, self.name = kind, name


class RunEndedError(ValueError):
    """The run has ended: no fact can follow."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} has ended: no fact can follow")
        self.run_id = run_id


class StaleLeaseError(TrainfareError):
    """The lease was taken over by another process, or released: its holder must stop acting under it.

    It is no ExternalError: a supervisor that waits for a door or a store to work again must not wait for this to pass.
    """

    exit_code = ExternalError.exit_code

    def __init__(self, lease: Lease, *, current_holder: str | None) -> None:
        ended = f"taken over by {current_holder}" if current_holder else "released"
        super().__init__(
            f"the lease {lease.name} of {lease.holder} was {ended}, so nothing was written. "
            "Only one process supervises a run at a time."
        )
        self.lease, self.current_holder = lease, current_holder


class Table(Protocol[T]):
    """The nouns of one kind."""

    def add(self, noun: T) -> None:
        """Append a noun. `AlreadyStoredError` if its id is taken, also by a removed noun; a plain `ValueError` if it
        refers to a noun that is not in history."""
        ...

    def get(self, name: str) -> T:
        """The noun of this id. `NotFoundError` if there is none or it has been removed."""
        ...

    def all(self) -> tuple[T, ...]:
        """Every noun that has not been removed: the newest first; submissions, which form a queue, oldest first."""
        ...

    def page(self, *, limit: int, after: str | None = None) -> tuple[T, ...]:
        """At most `limit` nouns in the order of `all`, from the one that follows the noun `after` on, whether or not
        that was removed. Empty if there is no such noun. Only these are read, and the file is not checked as a whole;
        damaged nouns are left out and reported in `damaged`, so a page may have fewer before the last."""
        ...


class RemovableTable(Table[T], Protocol[T]):
    """A table whose nouns can be taken off the list.

    A profile that is added again, unchanged, after its removal is restored; a submission stays withdrawn.
    """

    def remove(self, name: str) -> None:
        """Record that the noun is removed; a damaged one can be removed too. Its facts stay, because other nouns
        refer to them. `NotFoundError` as for `get`."""
        ...


class Index(Protocol[T_co]):
    """Nouns that are found by the id of the noun that they belong to."""

    def of(self, owner_id: str) -> tuple[T_co, ...]:
        """Every noun of this owner; empty if there is none."""
        ...


class FactTable(Protocol):
    """The facts of runs. Those of one run are numbered from 0 without a gap, and the last one may be `run ended`."""

    def of(self, run_id: str) -> tuple[Fact, ...]:
        """Every fact of a run in order; empty if there is none.

        `StoreError` if one is damaged or missing: the state of a run follows from all of its facts, and a wrong state
        would hide a machine that costs. The error is reported in `damaged` too.
        """
        ...

    def of_each(self, run_ids: Collection[str]) -> dict[str, tuple[Fact, ...]]:
        """The facts of several runs, read at once. A run with a damaged or missing fact is left out and reported in
        `damaged`; the file is not checked as a whole."""
        ...

    def append(self, fact: Fact, *, lease: Lease | None) -> Fact:
        """Append a fact in one transaction, and return it as it is stored.

        Under the lease of the run, the fact must have the next number: what was decided without knowing a fact that
        came meanwhile must be decided again. `AlreadyStoredError` if that is so: read the facts and decide anew. Each
        refusal means that another process stored a fact, so it does not go on for ever. `StaleLeaseError` if the lease
        is not the current one; a lease that has run out stays the current one until another process takes it over.

        Without a lease, only a fact of the kinds `REMARKS` is accepted, and it gets the next number whatever number
        it has: a user may ask for the end of a run that another process supervises.

        `RunEndedError` if the last fact is `run ended`; a plain `ValueError` if the run is not in history.
        """
        ...

    def unended_runs(self) -> tuple[str, ...]:
        """The ids of all runs without the fact `run ended`, the oldest first; damaged runs are included."""
        ...

    def refusals(self, *, since: datetime) -> tuple[Fact, ...]:
        """The facts of all runs since a moment that machines were not given, the newest first; damaged ones are left
        out and reported in `damaged`."""
        ...

    def ended_runs(self, *, limit: int | None = None) -> tuple[str, ...]:
        """The ids of all runs with the fact `run ended`, or of so many, the newest first; damaged runs are
        included."""
        ...


class ObservationTable(Protocol):
    """The observations of runs, each stored once."""

    def add_all(self, observations: Iterable[Observation]) -> None:
        """Append all observations in one transaction, but for those whose run, attempt, node and number are there
        already: an entry of a journal never changes, so a journal can be read twice. `ValueError` if a run is not in
        history."""
        ...

    def of(
        self,
        run_id: str,
        *,
        kinds: Collection[ObservationKind] | None = None,
        attempt: int | None = None,
        node: int | None = None,
        after: int = 0,
    ) -> tuple[Observation, ...]:
        """The observations of a run, of some kinds or all, of one attempt or all, of one node or all, with numbers
        after one; in the order of attempt, node and number. The newest of a long journal are found without reading the
        others, if attempt and node are named."""
        ...

    def last_number(self, run_id: str, *, attempt: int, node: int) -> int:
        """The highest number that is stored of one journal; 0 if there is none."""
        ...


class LeaseTable(Protocol):
    """Leases by their names. They are no facts: a lease is overwritten by the next one of its name.

    Whether a lease has run out is judged by `now`, the clock of the caller. Where the clocks of two hosts differ, the
    one that is fast takes a lease over too early, by as much as they differ, and the one that is slow too late. That
    wastes work, but two processes never write under one name: the token decides that, not the clock.
    """

    def take(self, name: str, *, holder: str, seconds: float, now: datetime) -> Lease | None:
        """A lease with a new token. None if another holder's lease has not run out. A holder that has the lease gets a
        new one, and its old one becomes stale."""
        ...

    def renew(self, lease: Lease, seconds: float, now: datetime) -> Lease:
        """The same lease, which runs out `seconds` from now; one that has run out can be renewed until another process
        takes it over. `StaleLeaseError` if it was taken over or released."""
        ...

    def release(self, lease: Lease) -> None:
        """Let others take the lease at once. Nothing happens if it is not the current one."""
        ...

    def current(self, name: str) -> Lease | None:
        """The lease that was taken last, whether or not it has run out; None if there is none or it was released."""
        ...


class TokenTable(RemovableTable[Token], Protocol):
    """Tokens; a removed one is revoked."""

    def find(self, secret_sha256: str) -> Token | None:
        """The token with this digest of its secret; None if there is none or it is revoked."""
        ...


class TaskEventTable(Protocol):
    """The events of tasks. Those of one task are numbered from 0 without a gap."""

    def of(self, task_id: str) -> tuple[TaskEvent, ...]:
        """Every event of a task in order."""
        ...

    def append(self, event: TaskEvent, *, lease: Lease | None) -> TaskEvent:
        """Append an event with the next number, and return it as it is stored. After the last one it changes nothing
        and returns the last one. `StaleLeaseError` if the lease is not the current one."""
        ...

    def unended_tasks(self) -> tuple[str, ...]:
        """The ids of all tasks that have not come to their end, the oldest first."""
        ...


class History(Protocol):
    """Facts and predictions, appended and never overwritten.

    What `add` has returned from is there after a crash of the process or of the machine. Each `add` is one
    transaction: all of the noun is stored or nothing.

    A noun that cannot be read back as it was written is damaged. `get` raises `StoreError` for it; lists leave it
    out, continue with the others, and report it in `damaged`.
    """

    profiles: RemovableTable[Profile]
    plans: Table[Plan]
    """Each plan is stored with its estimates."""
    runs: Table[Run]
    submissions: RemovableTable[Submission]
    """The queue: submissions that have not been withdrawn."""
    estimates: Index[Estimate]
    """The estimates of stored plans by the id of their profile: those of the newest plan first and, within a plan,
    the chosen one first."""
    facts: FactTable
    observations: ObservationTable
    leases: LeaseTable
    tokens: TokenTable
    tasks: Table[Task]
    task_events: TaskEventTable

    @property
    def damaged(self) -> tuple[str, ...]:
        """One sentence for each noun that lists have left out since the history was opened, for the user."""
        ...

    def close(self) -> None:
        """Close the connections to the database. A closed history is not used again."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
