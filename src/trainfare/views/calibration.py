"""JSON records of calibrations, and of start-up times that runs have measured."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.corrections import LearnedCorrections
from trainfare.estimator.calibration.fit import HeldOutError
from trainfare.model.bill import MeasuredStart, MeasuredTime
from trainfare.units import format_duration
from trainfare.views.estimates import spread


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


def start_record(machine: str, measured: MeasuredStart, rates: Mapping[str, float]) -> dict[str, Any]:
    """The start-up times of a machine, each with its interval and the number of runs, and the bytes a second at which
    files are sent and fetched."""
    times = {name: _time_record(time) for name, time in _times(measured).items()}
    return {
        "machine": machine,
        **times,
        **{f"{name}_bytes_per_second": rates.get(name) for name in ("sent", "fetched")},
    }


def start_sentence(machine: str, measured: MeasuredStart, rates: Mapping[str, float]) -> str:
    """`ssh/big: boot 60 ms (40 ms to 90 ms), setup 2 s (1.2 s to 3.4 s), files sent at 11 MB/s; measured in 3 runs`."""
    known = [(name, time) for name, time in _times(measured).items() if time is not None]
    parts = ", ".join(f"{name} {_range(time)}" for name, time in known)
    parts += "".join(f", files {name} at {rate / 1e6:.3g} MB/s" for name, rate in rates.items())
    return f"{machine}: {parts}; {known[0][1].source}" if known else f"{machine}: nothing has ended"


def _times(measured: MeasuredStart) -> dict[str, MeasuredTime | None]:
    return {"boot": measured.boot, "setup": measured.setup, "collecting": measured.collecting}


def _time_record(time: MeasuredTime | None) -> dict[str, Any] | None:
    return None if time is None else {**spread("seconds", time.seconds), "runs": time.runs, "other_runs": time.others}


def _range(time: MeasuredTime) -> str:
    seconds = time.seconds
    return f"{format_duration(seconds.value)} ({format_duration(seconds.low)} to {format_duration(seconds.high)})"
