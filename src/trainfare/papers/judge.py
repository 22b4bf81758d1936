"""The verdict on one number: ours against the page, by ranges and a list of known misprints, never by taste."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from trainfare.papers.printed import Printed
from trainfare.papers.row import Row, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Misprint:
    """Why the page has another number than its own inputs give."""

    why: str
    instead: Printed | None = None
    """What the reason gives, where it is a calculation: it must agree with the page, or the reason is none."""


Misprints = Mapping[tuple[str, str], Misprint]
"""By table and row. One that in fact agrees is never looked up, and a test says so."""


def judged(table: str, row: str, printed: str, ours: Printed, *, how: str, misprints: Misprints) -> Row:
    """`equal` where the ranges touch; else `misprint` where the reason is known, else `differs`."""
    published = Printed.read(printed)
    verdict: Verdict = "equal"
    if published.agrees_with(ours):
        if not published.agrees_with(Printed.exactly(ours.value)):
            how = f"{how}; the rounding of what it is made from leaves {ours.low:.4g} to {ours.high:.4g}"
    else:
        known = misprints.get((table, row))
        verdict = "misprint" if known else "differs"
        how = f"{how}. {known.why}" if known else how
    return Row(
        table=table,
        row=row,
        published=published.value,
        ours=float(f"{ours.value:.6g}"),
        verdict=verdict,
        why=how,
        printed=printed,
    )


def judged_words(table: str, row: str, printed: str, ours: str, *, how: str, misprints: Misprints) -> Row:
    """The same for what is said in words: `equal` where they are the same."""
    known = None if ours == printed else misprints.get((table, row))
    verdict: Verdict = "equal" if ours == printed else "misprint" if known else "differs"
    why = f"{how}. {known.why}" if known else how
    return Row(table=table, row=row, published=printed, ours=ours, verdict=verdict, why=why, printed=printed)


def not_recomputable(table: str, row: str, printed: str, why: str) -> Row:
    """A number whose inputs are not printed; one that is empty is on the page and not in its text."""
    published: float | str = printed
    with suppress(ArithmeticError):  # a word
        published = Printed.read(printed).value
    return Row(
        table=table, row=row, published=published, ours=None, verdict="not-recomputable", why=why, printed=printed
    )
