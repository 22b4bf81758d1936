"""Columns with one row per candidate, of which thousands are computed at once."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from numpy import float64, intp
    from numpy.typing import NDArray

T = TypeVar("T")
U = TypeVar("U")


class Repeated(Generic[T]):
    """One object per row, of which few are different: what follows from an object is computed once."""

    def __init__(self, objects: Sequence[T], rows: "NDArray[intp]") -> None:
        self.objects = objects
        """Each object once."""
        self.rows = rows
        """For each row, the place of its object."""

    @classmethod
    def of(cls, objects: Iterable[T], key: Callable[[T], Hashable] = id) -> "Repeated[T]":
        """The objects of all rows; those with the same key are the same, by default those that are one object."""
        given = list(objects)
        return cls.with_keys(given, list(map(key, given)))

    @classmethod
    def with_keys(cls, objects: Sequence[T], keys: Sequence[Hashable]) -> "Repeated[T]":
        """The objects of all rows, each with its key."""
        import numpy as np

        once = dict(zip(keys, objects, strict=True))
        places = dict(zip(once, range(len(once)), strict=True))
        rows = np.fromiter(map(places.__getitem__, keys), dtype=np.intp, count=len(keys))
        return cls(list(once.values()), rows)

    def __getitem__(self, row: int) -> T:
        return self.objects[int(self.rows[row])]

    def take(self, rows: "NDArray[intp]") -> "Repeated[T]":
        """The objects of some of the rows."""
        return Repeated(self.objects, self.rows[rows])

    def map(self, compute: Callable[[T], U]) -> "Repeated[U]":
        """One result per row, computed from its object."""
        return self.replaced([compute(each) for each in self.objects])

    def replaced(self, objects: Sequence[U]) -> "Repeated[U]":
        """Other objects, one in the place of each of these."""
        found = Repeated.of(objects)
        return Repeated(found.objects, found.rows[self.rows])

    def paired(self, others: "Repeated[U]") -> "Repeated[tuple[T, U]]":
        """The objects of each row in both; every pair that occurs, once."""
        import numpy as np

        width = len(others.objects)
        numbers = self.rows * width + others.rows
        occurs = np.zeros(len(self.objects) * width, dtype=np.bool_)  # np.unique would import all of numpy.ma
        occurs[numbers] = True
        places = (divmod(number, width) for number in np.flatnonzero(occurs).tolist())
        rows = (np.cumsum(occurs) - 1)[numbers]
        return Repeated([(self.objects[one], others.objects[other]) for one, other in places], rows)

    def columns(self, read: Callable[[T], tuple[float, ...]], count: int) -> "NDArray[float64]":
        """The `count` numbers of each object, one row of the result per number and one column per row."""
        import numpy as np

        numbers = np.array([read(each) for each in self.objects], dtype=np.float64).reshape(-1, count)
        return numbers.T[:, self.rows]


def present(column: "Repeated[T | None]") -> "tuple[Repeated[T], NDArray[intp]]":
    """The rows that have an object, and their places in the column."""
    import numpy as np

    has_object = np.array([each is not None for each in column.objects], dtype=np.bool_)
    places = np.flatnonzero(has_object[column.rows])
    rows = (np.cumsum(has_object) - 1)[column.rows[places]]
    return Repeated([each for each in column.objects if each is not None], rows), places
