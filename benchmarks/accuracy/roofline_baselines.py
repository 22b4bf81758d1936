"""Baselines that predict an iteration from its operations, fitted to the same rows as our model.

peak FLOPs                  F / peak
one utilisation             k · F / peak
roofline                    R = Σ max(F / peak, B / bandwidth)
one factor on the roofline  k · R
per-class NNLS              Σ k_class · R_class + c · launches, k ≥ 0, least squares of relative errors
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks.accuracy.judged import Array
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation

KINDS = (
    "convolution", "matmul", "attention", "norm", "pointwise", "reduction", "embedding", "rnn", "optimizer", "copy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Baselines:
    """The fitted k of each baseline."""

    utilisation: float
    factor: float
    classes: Array

    @classmethod
    def fitted(cls, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> "Baselines":
        seconds = np.array([row.seconds for row in rows])
        peak, classes = _columns(rows, gpus)
        factors, _ = nnls(classes / seconds[:, None], np.ones(len(rows)))
        return cls(
            utilisation=float(np.median(seconds / peak)),
            factor=float(np.median(seconds / classes[:, :-1].sum(axis=1))),
            classes=factors,
        )

    def predicted(self, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> dict[str, Array]:
        peak, classes = _columns(rows, gpus)
        roofline = classes[:, :-1].sum(axis=1)
        return {
            "peak FLOPs": peak,
            "one utilisation": self.utilisation * peak,
            "roofline": roofline,
            "one factor on the roofline": self.factor * roofline,
            "per-class NNLS": classes @ self.classes,
        }


def _columns(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> tuple[Array, Array]:
    """The time of the FLOPs at peak, and the roofline by kind with the number of launches as last column."""
    known: dict[tuple[int, str], tuple[float, Array]] = {}
    for row in rows:
        key = id(row.operations), row.gpu
        if key not in known:
            known[key] = _program_columns(row.operations, gpus[row.gpu])
    found = [known[id(row.operations), row.gpu] for row in rows]
    return np.array([peak for peak, _ in found]), np.array([columns for _, columns in found])


def _program_columns(operations: Sequence[Operation], gpu: Gpu) -> tuple[float, Array]:
    peak, columns = 0.0, np.zeros(len(KINDS) + 1)
    for op in operations:
        dtype = "tf32" if op.dtype == "float32" and op.kind == "convolution" else op.dtype
        arithmetic = op.flops / gpu.peak_flops_per_second(dtype)
        peak += op.count * arithmetic
        columns[KINDS.index(op.kind)] += op.count * max(arithmetic, op.bytes / (gpu.memory_gb_per_second * 1e9))
        columns[-1] += op.count * 1e-6
    return peak, columns
