"""One number of a published table beside ours."""

from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["equal", "misprint", "not-recomputable", "differs"]
"""Equal within the rounding of the printed inputs; printed wrongly, with the reason; its inputs are not printed;
or nobody can explain it yet."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`table` as in `malta-4.1`; `row` says which number of it, as a reader would point to it."""

    table: str
    row: str
    published: float | str
    ours: float | str | None
    verdict: Verdict
    why: str
    """How ours follows from what is printed, or why it does not."""
    printed: str | None = None
    """The digits of the page, where `published` has lost a zero."""

    def __post_init__(self) -> None:
        if (self.ours is None) != (self.verdict == "not-recomputable"):
            raise ValueError(f"{self.table}, {self.row}: only what cannot be recomputed has no number of ours")

    @property
    def difference(self) -> float | None:
        """Ours less the published, relative to the published; None where one of them is a word or nothing."""
        if isinstance(self.published, str) or self.ours is None or isinstance(self.ours, str) or not self.published:
            return None
        return self.ours / self.published - 1


def row_record(row: Row) -> dict[str, float | str | None]:
    """As `--json` prints it."""
    return {
        "table": row.table,
        "row": row.row,
        "published": row.published,
        "ours": row.ours,
        "verdict": row.verdict,
        "why": row.why,
    }
