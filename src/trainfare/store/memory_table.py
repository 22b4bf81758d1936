"""A table of nouns that ends with the process."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Generic

from trainfare.errors import NotFoundError
from trainfare.store.history import AlreadyStoredError
from trainfare.store.kinds import N, NounKind


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

    def page(self, *, limit: int, after: str | None = None) -> tuple[N, ...]:
        if after is None:
            return self.all()[:limit]
        if after not in self._nouns:
            return ()
        last = (self._kind.moment(self._nouns[after]), after)
        places = ((self._kind.moment(noun), noun.id, noun) for noun in self.all())
        sign = -1 if self._kind.newest_first else 1
        following = (noun for moment, name, noun in places if sign * _compare((moment, name), last) > 0)
        return tuple(islice(following, limit))

    def remove(self, name: str) -> None:
        self._removed.add(self.get(name).id)

    def has_stored(self, name: str) -> bool:
        """True if the noun was ever added, removed or not."""
        return name in self._nouns


def _compare(one: tuple[datetime, str], other: tuple[datetime, str]) -> int:
    return (one > other) - (one < other)
