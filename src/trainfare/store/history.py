"""The contract of every history, whether it is stored in memory, in SQLite or in PostgreSQL: one table a noun."""

from types import TracebackType
from typing import Protocol, Self, TypeVar

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Observation, Run
from trainfare.model.submission import Submission

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AlreadyStoredError(ValueError):
    """The id is taken: what is stored is never overwritten."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} is already in history")
        self.kind, self.name = kind, name


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


class ChildTable(Index[T], Protocol[T]):
    """An index to which nouns can be added one by one."""

    def add(self, noun: T) -> None:
        """Append a noun. `AlreadyStoredError` if its owner has one of this number; a plain `ValueError` if the owner
        is not in history."""
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
    observations: ChildTable[Observation]
    """The observations of a run by the id of the run, in the order of their numbers."""

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
