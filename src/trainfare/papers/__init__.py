"""The tables of the documents this grew out of, recomputed from what they print: a row a number, and a verdict."""

from collections.abc import Iterable
from importlib import import_module

from trainfare.errors import NotFoundError
from trainfare.papers.figure import Figure
from trainfare.papers.row import Row

LISTED_BY = "trainfare reproduce"

DOCUMENTS: dict[str, tuple[str, ...]] = {
    "malta": (
        *(f"malta-3.{number}" for number in range(1, 5)),
        *(f"malta-4.{number}" for number in range(1, 6)),
        *(f"malta-5.{number}" for number in range(1, 15)),
        *(f"malta-A.{number}" for number in range(1, 4)),
        *(f"malta-B.{number}" for number in range(1, 5)),
        "malta-2019-1",
        "malta-2019-2",
    ),
    "sanghvi": ("sanghvi-I", "sanghvi-prediction"),
    "fc2": ("fc2-1", "fc2-2", "fc2-recommendations", "fc2-savings"),
    "ardagna": ("ardagna-prototype",),
}
"""The register: each document is the module of its name with a function `rows`, and has these tables in this order."""


def reproduce(tables: Iterable[str] = ()) -> tuple[Row, ...]:
    """Every number of the tables named, of all tables where none is; `malta` names all of that document.

    An unknown table is a NotFoundError with the nearest that there is.
    """
    wanted = selected(tables)
    found: dict[str, list[Row]] = {name: [] for name in wanted}
    for document, names in DOCUMENTS.items():
        if any(name in found for name in names):
            for row in import_module(f"{__name__}.{document}").rows():
                if row.table in found:
                    found[row.table].append(row)
    return tuple(row for rows in found.values() for row in rows)


def figures() -> tuple[Figure, ...]:
    """Every figure of the documents that shows numbers; those that cannot be made say why."""
    from trainfare.papers.malta.figures import figures

    return figures()


def selected(tables: Iterable[str]) -> tuple[str, ...]:
    """The names of tables, in the order of the register, each once."""
    every = [name for names in DOCUMENTS.values() for name in names]
    spelled = {name.lower(): name for name in every}
    wanted: set[str] = set()
    for asked in tables:
        name = asked.strip().lower()
        if name in DOCUMENTS:
            wanted.update(DOCUMENTS[name])
        elif name in spelled:
            wanted.add(spelled[name])
        else:
            raise NotFoundError("table", asked, [*DOCUMENTS, *every], listed_by=LISTED_BY)
    return tuple(name for name in every if not wanted or name in wanted)
