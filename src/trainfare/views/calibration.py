"""JSON records of calibrations."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.corrections import LearnedCorrections
from trainfare.estimator.calibration.fit import HeldOutError


def fitted_calibration_record(
    name: str | None,
    calibration: Calibration,
    *,
    left_out: Sequence[HeldOutError],
    learned: LearnedCorrections,
    changes: Sequence[str],
) -> dict[str, Any]:
    """A new calibration: its errors on held-out rows, the corrections from profiles, and what it changed."""
    return {
        "name": name,
        "fingerprint": calibration.fingerprint,
        "rows": dict(calibration.rows),
        "left_out": [asdict(part) for part in left_out],
        "history": {
            "rows": learned.rows,
            "error_before": learned.error_before,
            "error_after": learned.error_after,
            "taken": learned.helps,
            "set_aside": [{"profile": one.run.profile_id, "why": one.reason} for one in learned.rejected],
        },
        "changes": list(changes),
    }


def stored_calibration_record(name: str, calibration: Calibration, *, in_use: bool) -> dict[str, Any]:
    """One of the stored calibrations."""
    return {
        "name": name,
        "in_use": in_use,
        "made_at": calibration.made_at.isoformat(),
        "command": calibration.command,
        "fingerprint": calibration.fingerprint,
        "rows": dict(calibration.rows),
        "profiles": calibration.learned_from,
    }
