"""The cells of one number of a published table: as printed, as recomputed, and the difference."""

from trainfare.papers.row import Row
from trainfare.units import format_change


def published_text(row: Row) -> str:
    """The published number with the digits of the page."""
    return (row.printed if row.printed is not None else _number(row.published)) or "?"


def computed_text(row: Row) -> str:
    """The recomputed number, with one digit more than the page has."""
    if row.ours is None:
        return "–"
    if isinstance(row.ours, str) or not row.printed:
        return _number(row.ours)
    _, point, decimals = row.printed.partition(".")
    return f"{row.ours:.{len(decimals) + 1 if point else 1}f}" if "E" not in row.printed else _number(row.ours)


def difference_text(row: Row) -> str:
    """The relative difference from the published number; empty if there is none."""
    return "" if row.difference is None else format_change(row.difference)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
