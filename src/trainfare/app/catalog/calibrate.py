"""Fit the coefficients anew: to tables of measurements, to the user's own profiles, or to both; keep the old ones."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.catalog.calibrations import calibration_in_use, read_calibration
from trainfare.app.catalog.offers import open_catalog
from trainfare.catalog.calibrations import Calibrations
from trainfare.catalog.catalog import Catalog
from trainfare.errors import UsageError
from trainfare.estimator.calibration.calibration import Calibration, HeldOutError, fit_calibration, to_json
from trainfare.estimator.calibration.corrections import Corrections, LearnedCorrections, ObservedRun, learn_corrections
from trainfare.estimator.gpu.physics import step_seconds
from trainfare.estimator.step.measured import measured_times
from trainfare.measurements.read import TABLES, fingerprint, read_measurements
from trainfare.model.measurement import Measurements
from trainfare.model.profile import Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationResult:
    """What was fitted, what it changed, and what that is worth."""

    name: str | None
    """Under which it is kept; None where nothing came of it."""
    calibration: Calibration
    left_out: tuple[HeldOutError, ...]
    """By tables; empty where none were given."""
    learned: LearnedCorrections
    """By the user's profiles."""
    changes: tuple[str, ...]
    """What is different from before, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration:
    """One of the calibrations there are."""

    name: str
    in_use: bool
    calibration: Calibration


def calibrate(
    *,
    data: Path | None = None,
    try_only: bool = False,
    on_progress: Tell = lambda _: None,
    settings: Settings | None = None,
) -> CalibrationResult:
    """Refit from the tables in `data`, if given, and from every profile in history that was taken on a GPU.

    The result is kept and used from now on, unless `try_only`, or unless nothing has changed. Corrections by the user's
    profiles are taken only where they make the error smaller on programs left out.
    """
    settings = settings or read_settings()
    now = datetime.now(UTC)
    catalog, before = open_catalog(settings), calibration_in_use(settings)
    fitted, left_out = before, tuple[HeldOutError, ...]()
    if data is not None:
        fitted, left_out = _fitted(data, catalog, before, now, on_progress)
    on_progress("your own profiles")
    with open_history(settings.store) as history:
        seen = tuple(_seen(history.profiles.all(), catalog, fitted))
    learned = learn_corrections(seen)
    corrections = learned.corrections if learned.helps else Corrections()
    fitted = replace(fitted, corrections=corrections, learned_from=learned.rows if learned.helps else 0)
    changes = tuple(_changes(before, fitted))
    name = None
    if changes and not try_only:
        name = f"{now:%Y%m%d-%H%M%S}"
        Calibrations(Path(settings.calibrations)).add(name, to_json(replace(fitted, made_at=now)))
    return CalibrationResult(name=name, calibration=fitted, left_out=left_out, learned=learned, changes=changes)


def list_calibrations(settings: Settings | None = None) -> tuple[StoredCalibration, ...]:
    """The newest first, the shipped one last."""
    settings = settings or read_settings()
    kept = Calibrations(Path(settings.calibrations))
    current = kept.current()
    return tuple(
        StoredCalibration(name=name, in_use=name == current, calibration=read_calibration(kept, name)) for name in kept.names()
    )


def use_calibration(name: str, settings: Settings | None = None) -> Calibration:
    """From now on; `shipped` is the one that came with trainfare."""
    settings = settings or read_settings()
    kept = Calibrations(Path(settings.calibrations))
    found = read_calibration(kept, name)
    kept.use(name)
    return found


def _fitted(
    data: Path, catalog: Catalog, before: Calibration, now: datetime, on_progress: Tell
) -> tuple[Calibration, tuple[HeldOutError, ...]]:
    measurements = _tables(data)
    try:
        return fit_calibration(
            measurements,
            catalog.gpus,
            made_at=now,
            command=f"trainfare calibrate --data {data.name}",
            fingerprint=fingerprint(data),
            before=before,
            on_progress=on_progress,
        )
    except ValueError as error:
        raise UsageError(f"nothing can be fitted to the tables in {data}: {error}") from error


def _tables(folder: Path) -> Measurements:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of measurements.")
    try:
        found = read_measurements(folder)
    except (ValueError, KeyError, OSError, EOFError, zlib.error) as error:
        raise UsageError(f"a table in {folder} cannot be read: {type(error).__name__}: {error}") from error
    if not found.traced:
        raise UsageError(
            f"{folder} holds no iterations with their operations, which everything else stands on. It needs "
            f"{' or '.join(list(TABLES)[:2])}; docs/calibration.md says what is in them."
        )
    return found


def _seen(profiles: Sequence[Profile], catalog: Catalog, calibration: Calibration) -> Iterator[ObservedRun]:
    """Of every profile on one GPU with operations: what the model gives, and what was measured, data apart."""
    for profile in profiles:
        gpu = catalog.find_gpu(profile.host.gpu) if profile.device == "cuda" and profile.host.gpu else None
        if gpu is None or not profile.operations or not profile.steady_iteration_seconds or profile.world_size > 1:
            continue
        observed = measured_times(profile).later.value - profile.median_data_wait_seconds
        predicted = step_seconds(profile.operations, [gpu], calibration.physics)[0].seconds
        if observed > 0 and predicted > 0:
            yield ObservedRun(
                profile_id=profile.id,
                program=profile.program.name,
                gpu=gpu.name,
                predicted_seconds=predicted,
                observed_seconds=observed,
            )


NOTABLE = 0.1
"""A coefficient that moved by less is not worth a sentence."""


def _changes(before: Calibration, after: Calibration) -> Iterator[str]:
    if before.fingerprint != after.fingerprint:
        yield f"fitted to {sum(after.rows.values())} rows of other tables than before ({after.fingerprint})"
    yield from _moved("kernel", before.physics.coefficients, after.physics.coefficients)
    yield from _moved("larger batch", asdict(before.larger_batch.growth), asdict(after.larger_batch.growth))
    for gpu in sorted(after.physics.gpus.keys() - before.physics.gpus.keys()):
        yield f"{gpu} is now among the GPUs that were measured"
    for name, old, new in (
        ("moving a time to another GPU", before.scaled_factor, after.scaled_factor),
        ("a new program on a known GPU", before.physics.factor_new_program, after.physics.factor_new_program),
        ("a GPU that nobody measured", before.physics.factor_new_gpu, after.physics.factor_new_gpu),
    ):
        if abs(new / old - 1) > 0.01:
            yield f"90 % interval of {name}: ×/÷ {old:.2f} → ×/÷ {new:.2f}"
    was_learned, is_learned = before.corrections, after.corrections
    for kind, was, now in (
        ("on", was_learned.gpus, is_learned.gpus),
        ("of", was_learned.programs, is_learned.programs),
    ):
        for name in sorted(was.keys() | now.keys()):
            a, b = Corrections(gpus=was).factor(name), Corrections(gpus=now).factor(name)
            if abs(b / a - 1) > 0.005:
                yield f"predictions {kind} {name}: × {a:.2f} → × {b:.2f}, by your own profiles"


def _moved(kind: str, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
    for name in sorted(after.keys() & before.keys()):
        a, b = before[name], after[name]
        if abs(b - a) > NOTABLE * max(a, b, 1e-12):
            yield f"{kind} coefficient {name}: {a:.3g} → {b:.3g}"
