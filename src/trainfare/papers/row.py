"""One published number, our number and the verdict."""

from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["equal", "misprint", "not-recomputable", "differs"]
"""Equal within the rounding of the printed inputs; a misprint with a known reason; not recomputable, because its inputs
are not printed; or an unexplained difference."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number: `table` as in `malta-4.1`, `row` names the number in it."""

    table: str
    row: str
    published: float | str
    ours: float | str | None
    verdict: Verdict
    why: str
    """The calculation of our number from the printed ones, or why there is none."""
    printed: str | None = None
    """The digits of the page, including trailing zeros that `published` loses."""

    def __post_init__(self) -> None:
        if (self.ours is None) != (self.verdict == "not-recomputable"):
            raise ValueError(f"{self.table}, {self.row}: only a number that cannot be recomputed has no number of ours")

    @property
    def difference(self) -> float | None:
        """The relative difference of our number from the published one; None if one of them is a text or missing."""
        if isinstance(self.published, str) or self.ours is None or isinstance(self.ours, str) or not self.published:
            return None
        return self.ours / self.published - 1


def row_record(row: Row) -> dict[str, float | str | None]:
    """The JSON record of a row."""
    return {
        "table": row.table,
        "row": row.row,
        "published": row.published,
        "ours": row.ours,
        "verdict": row.verdict,
        "why": row.why,
    }
