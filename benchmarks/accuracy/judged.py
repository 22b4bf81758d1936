"""What a task hands over to be scored: the truth, ours, and every baseline on the same rows.

A task is a module with

    def judge(fit: Path, test: Path | None) -> Iterator[Judged]

With `test` None it holds out parts of `fit` (whole models, families, GPUs, curves). With a `test` folder of the same
layout everything fitted comes from `fit`, less the rows of the very programs and, for unseen GPUs, of the GPU that is
tested; what the task is given (the measured machine, the smaller batches, the start of a curve) comes from `test`.
A table that a folder lacks is a `FileNotFoundError`.
"""

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Scores = dict[str, float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """`<task>/<data>[/<part>]`, with one entry a row. A row that ours refuses to answer is NaN in `ours`."""

    key: str
    truth: Array
    ours: Array
    low: Array | None = None
    high: Array | None = None
    baselines: Mapping[str, Array] = field(default_factory=dict)
    regret: bool = False
    """The numbers are what a choice cost, and `truth` what the best would have cost."""
    note: str = ""
    """What a reader of the table must know: how many were left out, what was given."""

    @classmethod
    def of(
        cls,
        key: str,
        truth: ArrayLike,
        ours: ArrayLike,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        *,
        baselines: Mapping[str, ArrayLike] | None = None,
        regret: bool = False,
        note: str = "",
    ) -> "Judged":
        def array(values: ArrayLike) -> Array:
            found = np.asarray(values, dtype=np.float64)
            if found.shape != np.shape(truth):
                raise ValueError(f"{key}: {found.shape} answers to {np.shape(truth)} rows")
            return found

        return cls(
            key=key,
            truth=array(truth),
            ours=array(ours),
            low=None if low is None else array(low),
            high=None if high is None else array(high),
            baselines={name: array(values) for name, values in (baselines or {}).items()},
            regret=regret,
            note=note,
        )

    def scores(self) -> dict[str, object]:
        """As `--json` prints it: absolute errors (of a choice: regrets) in percent of the truth."""
        return {
            "n": len(self.truth),
            "ours": {**_errors(self.truth, self.ours), **self._interval()},
            "baselines": {name: _errors(self.truth, values) for name, values in self.baselines.items()},
            **({"note": self.note} if self.note else {}),
        }

    def _interval(self) -> Scores:
        """Width is the factor up and down: the middle √(high/low)."""
        if self.low is None or self.high is None:
            return {"coverage": None, "width": None}
        told = np.isfinite(self.low) & np.isfinite(self.high)
        low, high, truth = self.low[told], self.high[told], self.truth[told]
        if not told.any():
            return {"coverage": None, "width": None}
        width = float(np.median(np.sqrt(high / np.maximum(low, 1e-300))))
        return {
            "coverage": float(100 * np.mean((low <= truth) & (truth <= high))),
            "width": width if np.isfinite(width) else None,
        }


def _errors(truth: Array, answers: Array) -> Scores:
    told = np.isfinite(answers)
    if not told.any():
        return {"mape": None, "median": None, "p90": None, "refused": len(truth)}
    errors = 100 * np.abs(answers[told] / np.maximum(truth[told], 1e-300) - 1)
    found: Scores = {
        "mape": float(np.mean(errors)),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
    }
    return found if told.all() else {**found, "refused": int((~told).sum())}


def judge_tables(package: str, tables: Sequence[str], fit: Path, test: Path | None) -> Iterator[Judged]:
    """A task on several tables, one module each; a table that is not there is said and passed over, and one that fails
    fails the task after the others."""
    failed = []
    for table in tables:
        try:
            yield from import_module(f"{package}.{table}").judge(fit, test)
        except FileNotFoundError as error:
            print(f"{package.rpartition('.')[2]}/{table}: not judged: {error}", file=sys.stderr)
        except Exception:  # noqa: BLE001 # told at the end
            failed.append(table)
            traceback.print_exc()
    if failed:
        raise RuntimeError(f"failed on {', '.join(failed)}")
