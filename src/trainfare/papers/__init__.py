"""The published tables of the underlying documents, recomputed from their printed inputs, with a verdict per number."""

from collections.abc import Iterable
from importlib import import_module

from trainfare.errors import NotFoundError
from trainfare.figures.chart import Chart
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
"""The tables of each document, in order; a document is the module of its name with a function `rows`."""


def reproduce(tables: Iterable[str] = ()) -> tuple[Row, ...]:
    """Every number of the named tables, or of all tables; `malta` names all tables of that document.

    An unknown table raises NotFoundError with the nearest known one.
    """
    found: dict[str, list[Row]] = {name: [] for name in select_tables(tables)}
    for document, names in DOCUMENTS.items():
        if any(name in found for name in names):
            for row in import_module(f"{__name__}.{document}").rows():
                if row.table in found:
                    found[row.table].append(row)
    return tuple(row for rows in found.values() for row in rows)


def figures() -> tuple[Chart, ...]:
    """Every figure of the documents that shows numbers; those that cannot be drawn say why in their note."""
    from trainfare.papers.malta.figures import figures

    return figures()


def select_tables(tables: Iterable[str]) -> tuple[str, ...]:
    """The full names of tables, in the order of `DOCUMENTS`, each once."""
    every = [name for names in DOCUMENTS.values() for name in names]
    spelled = {name.lower(): name for name in every}
    selected: set[str] = set()
    for requested in tables:
        name = requested.strip().lower()
        if name in DOCUMENTS:
            selected.update(DOCUMENTS[name])
        elif name in spelled:
            selected.add(spelled[name])
        else:
            raise NotFoundError("table", requested, [*DOCUMENTS, *every], listed_by=LISTED_BY, field="tables")
    return tuple(name for name in every if not selected or name in selected)
