"""The JSON record of a report on epochs."""

import math
from dataclasses import asdict
from typing import Any

from trainfare.estimator.epochs.profile_epochs import EpochsReport, ProfileEpochs
from trainfare.model.epochs import EpochsAnswer

CONFIDENCE = 0.9
"""The confidence of the interval of every answer that is not a refusal."""


def epochs_record(report: EpochsReport) -> dict[str, Any]:
    """The requested number of epochs, and what each profile contributes to it."""
    return {"answer": _answer_record(report.answer), "profiles": [_profile_record(found) for found in report.profiles]}


def _answer_record(answer: EpochsAnswer) -> dict[str, Any]:
    return {
        "epochs": answer.rounded,
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "confidence": None if answer.refused else CONFIDENCE,
        "refused": answer.refused,
        "rule": answer.rule,
        "why": answer.why,
        "batch_size": answer.batch_size,
        "guess": answer.is_guess,
        "warnings": list(answer.warnings),
    }


def _profile_record(found: ProfileEpochs) -> dict[str, Any]:
    curve = found.curve
    return {
        "profile": found.profile_id,
        "program": found.program,
        "batch_size": found.batch_size,
        "declared": found.declared,
        "trains": _answer_record(found.trains),
        "needed": _answer_record(found.needed),
        "by_schedule": _answer_record(found.by_schedule),
        "by_curve": _answer_record(found.by_curve),
        "schedule": found.shape,
        "metric": curve and curve.metric,
        "higher_is_better": curve and curve.higher,
        # JSON has no NaN.
        "values": [value if math.isfinite(value) else None for value in curve.values] if curve else [],
        "fits": [asdict(fit) for fit in found.fits],
        "stabilised": found.converged and asdict(found.converged),
    }
