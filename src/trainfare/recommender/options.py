"""Candidates to choose from: thousands are compared in columns, and only those that are read become objects.

Options are rows of a table of times and costs, in some order. Ranking, limits and the Pareto front take columns and
return rows of the same table, so a choice among thousands makes no objects. Estimates are options too: their columns
are read from them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, overload

from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer

if TYPE_CHECKING:
    from numpy import bool_, float64, intp
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Mask = NDArray[bool_]
    Rows = NDArray[intp]

Quantity = Literal["seconds", "usd"]


class Rankable(Protocol):
    """A candidate with its time and cost."""

    @property
    def candidate(self) -> Candidate: ...
    @property
    def seconds(self) -> Interval: ...
    @property
    def usd(self) -> Interval: ...


class RankableWithFit(Rankable, Protocol):
    """A candidate with its time and cost, and whether it fits in memory."""

    @property
    def fits(self) -> bool | None: ...


T = TypeVar("T", bound=Rankable)
E = TypeVar("E", bound=RankableWithFit)
T_co = TypeVar("T_co", bound=Rankable, covariant=True)


class OptionTable(Protocol[T_co]):
    """Times and costs in columns with one row per candidate."""

    @property
    def candidates(self) -> Sequence[Candidate]: ...
    @property
    def offers(self) -> Sequence[Offer]:
        """The offers of the candidates, each once."""
        ...

    @property
    def offer_rows(self) -> "Rows":
        """For each candidate, the place of its offer in `offers`."""
        ...

    @property
    def fits(self) -> "Mask":
        """False if it does not fit in memory."""
        ...

    def __getitem__(self, row: int) -> T_co: ...
    def values(self, quantity: Quantity) -> "Floats":
        """The expected time or cost."""
        ...

    def upper_bounds(self, quantity: Quantity, confidence: float) -> "Floats":
        """`Interval.upper_bound` of the time or cost."""
        ...


class Options(Sequence[T_co]):
    """Rows of a table, in some order."""

    def __init__(self, table: OptionTable[T_co], rows: "Rows") -> None:
        self.table = table
        self.rows = rows
        """The places in the table."""

    @classmethod
    def all_of(cls, table: OptionTable[T_co]) -> "Options[T_co]":
        """All rows of a table."""
        import numpy as np

        return cls(table, np.arange(len(table.candidates)))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> T_co: ...
    @overload
    def __getitem__(self, place: slice) -> "Options[T_co]": ...
    def __getitem__(self, place: int | slice) -> "T_co | Options[T_co]":
        found = self.rows[place]
        return Options(self.table, found) if isinstance(place, slice) else self.table[int(found)]

    def __iter__(self) -> Iterator[T_co]:
        return map(self.table.__getitem__, self.rows.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment] # equal to any sequence of the same items, such as a list

    @property
    def candidates(self) -> list[Candidate]:
        known = self.table.candidates
        return [known[row] for row in self.rows.tolist()]

    @cached_property
    def seconds(self) -> "Floats":
        """The expected times."""
        return self.table.values("seconds")[self.rows]

    @cached_property
    def usd(self) -> "Floats":
        """The expected costs."""
        return self.table.values("usd")[self.rows]

    def upper_bounds(self, quantity: Quantity, confidence: float) -> "Floats":
        """The times or costs that are not exceeded with this confidence."""
        return self.table.upper_bounds(quantity, confidence)[self.rows]

    @property
    def fits(self) -> "Mask":
        """False if it does not fit in memory."""
        return self.table.fits[self.rows]

    @property
    def offers(self) -> list[Offer]:
        """The offers of the options, each once."""
        import numpy as np

        occurs = np.zeros(len(self.table.offers), dtype=np.bool_)
        occurs[self.table.offer_rows[self.rows]] = True
        return [self.table.offers[place] for place in np.flatnonzero(occurs).tolist()]

    def of_offers(self, read: Callable[[Offer], Any]) -> "NDArray[Any]":
        """A property of the offer of each option, which is read once for all options of an offer."""
        import numpy as np

        return np.array([read(offer) for offer in self.table.offers])[self.table.offer_rows[self.rows]]

    def take(self, places: "Rows | Sequence[int]") -> "Options[T_co]":
        """The options at these places, in this order."""
        import numpy as np

        return Options(self.table, self.rows[np.asarray(places, dtype=np.intp)])

    def sorted_by(self, column: "Floats") -> "Options[T_co]":
        """The options in ascending order of a column; equal ones in the order given."""
        import numpy as np

        return self.take(np.argsort(column, kind="stable"))

    def where(self, mask: "Mask | Sequence[bool]") -> "Options[T_co]":
        """The options for which the mask is true, in the order given."""
        import numpy as np

        return Options(self.table, self.rows[np.asarray(mask, dtype=np.bool_)])

    def where_offer(self, is_wanted: Callable[[Offer], bool]) -> "Options[T_co]":
        return self.where(self.of_offers(is_wanted)) if len(self) else self

    def where_candidate(self, is_wanted: Callable[[Candidate], bool]) -> "Options[T_co]":
        return self.where([is_wanted(candidate) for candidate in self.candidates])

    def among(self, others: "Options[T_co]") -> "Options[T_co]":
        """The options that are also among others of the same table."""
        import numpy as np

        return self.where(np.isin(self.rows, self._rows_of(others)))

    def without(self, others: "Options[T_co]") -> "Options[T_co]":
        """The options that are not among others of the same table."""
        import numpy as np

        return self.where(np.isin(self.rows, self._rows_of(others), invert=True)) if len(others) else self

    def followed_by(self, others: "Options[T_co]") -> "Options[T_co]":
        """These, then others of the same table."""
        import numpy as np

        return Options(self.table, np.concatenate((self.rows, self._rows_of(others))))

    def _rows_of(self, others: "Options[T_co]") -> "Rows":
        if others.table is not self.table:
            raise ValueError("the rows of another table are other candidates")
        return others.rows

    def matching(self, candidate: Candidate) -> "Options[T_co]":
        """The options with this candidate: one, or none."""
        same_offer = self.where_offer(lambda offer: offer == candidate.offer)
        return same_offer.where_candidate(lambda one: one == candidate)


def as_options(estimates: Iterable[T]) -> Options[T]:
    """Estimates as options."""
    return estimates if isinstance(estimates, Options) else Options.all_of(_EstimateTable(tuple(estimates)))


class _EstimateTable(Generic[T]):
    """Columns that are read from objects."""

    def __init__(self, estimates: Sequence[T]) -> None:
        self._estimates = estimates

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        return [each.candidate for each in self._estimates]

    @property
    def offers(self) -> Sequence[Offer]:
        return [candidate.offer for candidate in self.candidates]

    @property
    def offer_rows(self) -> "Rows":
        import numpy as np

        return np.arange(len(self._estimates))

    @property
    def fits(self) -> "Mask":
        import numpy as np

        return np.array([getattr(each, "fits", None) is not False for each in self._estimates], dtype=np.bool_)

    def __getitem__(self, row: int) -> T:
        return self._estimates[row]

    def values(self, quantity: Quantity) -> "Floats":
        return _floats(getattr(each, quantity).value for each in self._estimates)

    def upper_bounds(self, quantity: Quantity, confidence: float) -> "Floats":
        return _floats(getattr(each, quantity).upper_bound(confidence) for each in self._estimates)


def _floats(numbers: Iterable[float]) -> "Floats":
    import numpy as np

    return np.fromiter(numbers, dtype=np.float64)
