"""Which coefficients the predictions are made with."""

from functools import lru_cache
from pathlib import Path

from trainfare.catalog.calibrations import Calibrations
from trainfare.errors import StoreError
from trainfare.estimator.calibration.calibration import Calibration, from_json
from trainfare.settings import Settings


def calibration_in_use(settings: Settings) -> Calibration:
    kept = Calibrations(Path(settings.calibrations))
    return read_calibration(kept, kept.current())


def read_calibration(kept: Calibrations, name: str) -> Calibration:
    """Parsed once: a hundred kilobytes take longer than all the rest of an answer."""
    return _parsed(name, kept.read(name))


@lru_cache(maxsize=4)
def _parsed(name: str, document: bytes) -> Calibration:
    try:
        return from_json(document)
    except ValueError as error:
        raise StoreError(
            f"calibration {name} cannot be used: {error}. Go back with: trainfare calibrate --use shipped"
        ) from error
