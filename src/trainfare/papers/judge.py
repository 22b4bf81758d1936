"""The verdict on one published number, by ranges and a list of known misprints."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from trainfare.papers.printed import PrintedNumber
from trainfare.papers.row import Row, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Misprint:
    """The reason why a printed number contradicts its printed inputs."""

    why: str
    recomputed: PrintedNumber | None = None
    """The number that follows from the reason, if that is a calculation; it must agree with the printed one."""


Misprints = Mapping[tuple[str, str], Misprint]
"""Misprints by table and row. A test finds listed misprints that agree after all."""


def judge_number(table: str, row: str, printed: str, ours: PrintedNumber, *, method: str, misprints: Misprints) -> Row:
    """`equal` if the ranges touch, else `misprint` if the reason is known, else `differs`."""
    published = PrintedNumber.read(printed)
    verdict: Verdict = "equal"
    if published.agrees_with(ours):
        if not published.agrees_with(PrintedNumber.exactly(ours.value)):
            method = f"{method}; the rounding of its inputs allows {ours.low:.4g} to {ours.high:.4g}"
    else:
        known = misprints.get((table, row))
        verdict = "misprint" if known else "differs"
        method = f"{method}. {known.why}" if known else method
    return Row(
        table=table,
        row=row,
        published=published.value,
        ours=float(f"{ours.value:.6g}"),
        verdict=verdict,
        why=method,
        printed=printed,
    )


def judge_text(table: str, row: str, printed: str, ours: str, *, method: str, misprints: Misprints) -> Row:
    """The verdict on a published text: `equal` if ours is the same."""
    known = None if ours == printed else misprints.get((table, row))
    verdict: Verdict = "equal" if ours == printed else "misprint" if known else "differs"
    why = f"{method}. {known.why}" if known else method
    return Row(table=table, row=row, published=printed, ours=ours, verdict=verdict, why=why, printed=printed)


def not_recomputable(table: str, row: str, printed: str, why: str) -> Row:
    """A number whose inputs are not printed. It is empty if it is missing from the text of the document."""
    published: float | str = printed
    with suppress(ArithmeticError):  # a text
        published = PrintedNumber.read(printed).value
    return Row(
        table=table, row=row, published=published, ours=None, verdict="not-recomputable", why=why, printed=printed
    )
