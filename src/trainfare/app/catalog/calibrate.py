"""Fit the coefficients again, to tables of measurements, to the user's own profiles or to both; earlier ones stay."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.catalog.calibrations import calibration_in_use, read_calibration
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.starts import MachineStarts, observed_starts, starts_by_machine
from trainfare.catalog.calibrations import CalibrationFolder
from trainfare.catalog.catalog import Catalog
from trainfare.errors import UsageError
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.corrections import (
    Corrections,
    LearnedCorrections,
    ObservedRun,
    learn_corrections,
)
from trainfare.estimator.calibration.document import to_json
from trainfare.estimator.calibration.fit import HeldOutError, fit_calibration
from trainfare.estimator.gpu.physics import on_other_hosts, step_seconds
from trainfare.estimator.step.measured import measured_times
from trainfare.measurements.read import TABLES, fingerprint, read_measurements
from trainfare.model.measurement import Measurements
from trainfare.model.profile import Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history
from trainfare.units import format_count, format_number, format_ratio

OnProgress = Callable[[str], None]

MIN_CHANGE = 0.1
"""A coefficient that changed by a smaller share is not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationResult:
    """The fitted calibration, its errors, and what it changed."""

    name: str | None
    """The name it was stored under; None if nothing was stored."""
    calibration: Calibration
    left_out: tuple[HeldOutError, ...]
    """The errors of the fit to tables on held-out rows; empty without tables."""
    learned: LearnedCorrections
    """The corrections from the user's profiles."""
    changes: tuple[str, ...]
    """The differences from the calibration before, one sentence each."""
    starts: tuple[MachineStarts, ...] = ()
    """The start-up times of the user's machines by their runs, which estimates use without a calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration:
    """One of the stored calibrations."""

    name: str
    in_use: bool
    calibration: Calibration


def calibrate(
    *,
    data: Path | None = None,
    try_only: bool = False,
    on_progress: OnProgress = lambda _: None,
    settings: Settings | None = None,
) -> CalibrationResult:
    """Fit to the tables in `data`, if given, and learn corrections from every profile in history taken on a GPU, those
    of runs included.

    The result is stored and used from now on, unless `try_only` is set or nothing changed. Corrections by the user's
    profiles are used only if they reduce the error on held-out programs.
    """
    settings = settings or read_settings()
    now = datetime.now(UTC)
    catalog, before = open_catalog(settings), calibration_in_use(settings)
    fitted, left_out = before, tuple[HeldOutError, ...]()
    if data is not None:
        fitted, left_out = _fit_tables(data, catalog, before, now, on_progress)
    on_progress("your own profiles")
    with open_existing_history(settings.store) as history:
        runs = tuple(_observed_runs(history.profiles.all(), catalog, fitted))
        starts = starts_by_machine(observed_starts(history))
    learned = learn_corrections(runs)
    corrections = learned.corrections if learned.helps else Corrections()
    fitted = replace(fitted, corrections=corrections, learned_from=learned.rows if learned.helps else 0)
    changes = tuple(_changes(before, fitted))
    name = None
    if changes and not try_only:
        name = f"{now:%Y%m%d-%H%M%S}"
        CalibrationFolder(Path(settings.calibrations)).add(name, to_json(replace(fitted, made_at=now)))
    return CalibrationResult(
        name=name, calibration=fitted, left_out=left_out, learned=learned, changes=changes, starts=starts
    )


def list_calibrations(settings: Settings | None = None) -> tuple[StoredCalibration, ...]:
    """Every calibration, the newest first and the shipped one last."""
    settings = settings or read_settings()
    folder = CalibrationFolder(Path(settings.calibrations))
    current = folder.current()
    return tuple(
        StoredCalibration(name=name, in_use=name == current, calibration=read_calibration(folder, name))
        for name in folder.names()
    )


def use_calibration(name: str, settings: Settings | None = None) -> Calibration:
    """Use a stored calibration from now on; `shipped` is the one that came with trainfare."""
    settings = settings or read_settings()
    folder = CalibrationFolder(Path(settings.calibrations))
    found = read_calibration(folder, name)
    folder.use(name)
    return found


def _fit_tables(
    data: Path, catalog: Catalog, before: Calibration, now: datetime, on_progress: OnProgress
) -> tuple[Calibration, tuple[HeldOutError, ...]]:
    measurements = _read_tables(data)
    try:
        return fit_calibration(
            measurements,
            catalog.gpus,
            made_at=now,
            command=f"trainfare calibrate, on {data.name}",
            fingerprint=fingerprint(data),
            before=before,
            on_progress=on_progress,
        )
    except ValueError as error:
        raise UsageError(f"The tables in {data} cannot be fitted: {error}.", field="data") from error


def _read_tables(folder: Path) -> Measurements:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of measurements.", field="data")
    try:
        found = read_measurements(folder)
    except (ValueError, KeyError, OSError, EOFError, zlib.error) as error:
        raise UsageError(
            f"A table in {folder} cannot be read: {type(error).__name__}: {error}.", field="data"
        ) from error
    if not found.traced:
        raise UsageError(
            f"{folder} has no iterations with their operations, which every fit needs. Add "
            f"{' or '.join(list(TABLES)[:2])}; docs/calibration.md describes the tables.",
            field="data",
        )
    return found


def _observed_runs(profiles: Sequence[Profile], catalog: Catalog, calibration: Calibration) -> Iterator[ObservedRun]:
    """The predicted and the measured iteration of every profile on one GPU with operations, without waits for data."""
    physics = on_other_hosts(calibration.physics)
    for profile in profiles:
        gpu = catalog.find_gpu(profile.host.gpu) if profile.device == "cuda" and profile.host.gpu else None
        if gpu is None or not profile.operations or not profile.steady_iteration_seconds or profile.world_size > 1:
            continue
        observed = measured_times(profile).later.value - profile.median_data_wait_seconds
        predicted = step_seconds(profile.operations, [gpu], physics)[0].seconds
        if observed > 0 and predicted > 0:
            yield ObservedRun(
                profile_id=profile.id,
                program=profile.program.name,
                gpu=gpu.name,
                predicted_seconds=predicted,
                observed_seconds=observed,
            )


def _changes(before: Calibration, after: Calibration) -> Iterator[str]:
    if before.fingerprint != after.fingerprint:
        rows = format_count(sum(after.rows.values()))
        yield f"fitted to {rows} rows of other tables than before (fingerprint {after.fingerprint})"
    yield from _coefficient_changes("kernel", before.physics.coefficients, after.physics.coefficients)
    yield from _coefficient_changes(
        "larger batch", asdict(before.larger_batch.growth), asdict(after.larger_batch.growth)
    )
    for gpu in sorted(after.physics.gpus.keys() - before.physics.gpus.keys()):
        yield f"{gpu} is now among the measured GPUs"
    for name, old, new in (
        ("a time scaled to another GPU", before.scaled_factor, after.scaled_factor),
        ("a new program on a measured GPU", before.physics.factor_new_program, after.physics.factor_new_program),
        ("a GPU without measurements", before.physics.factor_new_gpu, after.physics.factor_new_gpu),
    ):
        if abs(new / old - 1) > 0.01:
            yield f"90% interval of {name}: ×/÷ {format_number(old)} → ×/÷ {format_number(new)}"
    for kind, was, now in (
        ("on", before.corrections.gpus, after.corrections.gpus),
        ("of", before.corrections.programs, after.corrections.programs),
    ):
        for name in sorted(was.keys() | now.keys()):
            a, b = Corrections(gpus=was).factor(name), Corrections(gpus=now).factor(name)
            if abs(b / a - 1) > 0.005:
                yield f"predictions {kind} {name}: {format_ratio(a)} → {format_ratio(b)}, by your own profiles"


def _coefficient_changes(kind: str, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
    for name in sorted(after.keys() & before.keys()):
        a, b = before[name], after[name]
        if abs(b - a) > MIN_CHANGE * max(a, b, 1e-12):
            yield f"{kind} coefficient {name}: {format_number(a)} → {format_number(b)}"
