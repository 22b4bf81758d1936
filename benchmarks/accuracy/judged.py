"""The result of a task that is scored: the truth, our predictions, and every baseline on the same rows.

A task is a module with

    def judge(fit: Path, test: Path | None) -> Iterator[Judged]

With `test` None it holds out parts of `fit` (complete models, families, GPUs, curves). With a `test` folder of the same
layout everything is fitted to `fit`, without the rows of the tested programs and, for unseen GPUs, of the tested GPU;
the given facts of a task (the measured machine, the smaller batches, the start of a curve) come from `test`.
A missing table is a `FileNotFoundError`.
"""

import math
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainfare.model.interval import Interval
from trainfare.units import format_duration

Array = NDArray[np.float64]
Scores = dict[str, float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One key `<task>/<data>[/<part>]`, with one entry per row. A row that we refuse is NaN in `ours`."""

    key: str
    truth: Array
    ours: Array
    low: Array | None = None
    high: Array | None = None
    baselines: Mapping[str, Array] = field(default_factory=dict)
    regret: bool = False
    """True if the numbers are the costs of a choice, and `truth` those of the best choice."""
    note: str = ""
    """Remarks for readers of the table: left-out rows, given facts."""

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
                raise ValueError(f"{key}: {found.shape} answers for {np.shape(truth)} rows")
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

    @classmethod
    def of_intervals(
        cls,
        key: str,
        truth: ArrayLike,
        ours: Sequence[Interval | None],
        *,
        baselines: Mapping[str, ArrayLike] | None = None,
        note: str = "",
    ) -> "Judged":
        """The same for predictions with 90% intervals; None is a row that we refuse."""
        value, low, high = (
            [math.nan if one is None else getattr(one, end) for one in ours] for end in ("value", "low", "high")
        )
        return cls.of(key, truth, value, low, high, baselines=baselines, note=note)

    def scores(self) -> dict[str, object]:
        """The record of `--json`: absolute errors (regrets of a choice) in percent of the truth."""
        return {
            "n": len(self.truth),
            "ours": {**_errors(self.truth, self.ours), **self._interval()},
            "baselines": {name: _errors(self.truth, values) for name, values in self.baselines.items()},
            **({"note": self.note} if self.note else {}),
        }

    def _interval(self) -> Scores:
        """Coverage in percent, and width: the median factor √(high/low)."""
        if self.low is None or self.high is None:
            return {"coverage": None, "width": None}
        answered = np.isfinite(self.low) & np.isfinite(self.high)
        low, high, truth = self.low[answered], self.high[answered], self.truth[answered]
        if not answered.any():
            return {"coverage": None, "width": None}
        width = float(np.median(np.sqrt(high / np.maximum(low, 1e-300))))
        return {
            "coverage": float(100 * np.mean((low <= truth) & (truth <= high))),
            "width": width if np.isfinite(width) else None,
        }


def format_interval(seconds: Interval) -> str:
    """A predicted time as a line of a table shows it: `12 ms (10 ms – 14 ms)`."""
    return f"{format_duration(seconds.value)} ({format_duration(seconds.low)} – {format_duration(seconds.high)})"


def format_against(predicted: Interval, truth: float) -> str:
    """A predicted time and the measured one: `12 ms (10 ms – 14 ms), measured 13 ms`."""
    inside = "" if predicted.low <= truth <= predicted.high else "   outside"
    return f"{format_interval(predicted)}, measured {format_duration(truth)}{inside}"


def _errors(truth: Array, answers: Array) -> Scores:
    answered = np.isfinite(answers)
    if not answered.any():
        return {"mape": None, "median": None, "p90": None, "refused": len(truth)}
    errors = 100 * np.abs(answers[answered] / np.maximum(truth[answered], 1e-300) - 1)
    found: Scores = {
        "mape": float(np.mean(errors)),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
    }
    return found if answered.all() else {**found, "refused": int((~answered).sum())}


def judge_tables(package: str, tables: Sequence[str], fit: Path, test: Path | None) -> Iterator[Judged]:
    """A task on several tables, one module each.

    A missing table is reported and skipped; a table that fails fails the task after the others.
    """
    failed = []
    for table in tables:
        try:
            yield from import_module(f"{package}.{table}").judge(fit, test)
        except FileNotFoundError as error:
            print(f"{package.rpartition('.')[2]}/{table}: skipped: {error}", file=sys.stderr)
        except Exception:  # noqa: BLE001 # the others continue, and the error is raised at the end
            failed.append(table)
            traceback.print_exc()
    if failed:
        raise RuntimeError(f"failed on {', '.join(failed)}")
