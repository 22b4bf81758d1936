"""Reads the calibration that predictions use."""

from functools import lru_cache
from pathlib import Path

from trainfare.catalog.calibrations import SHIPPED, CalibrationFolder
from trainfare.errors import Remedy, StoreError
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.document import from_json
from trainfare.settings import Settings


def calibration_in_use(settings: Settings) -> Calibration:
    """The calibration that the user chose, or the shipped one."""
    folder = CalibrationFolder(Path(settings.calibrations))
    return read_calibration(folder, folder.current())


def read_calibration(folder: CalibrationFolder, name: str) -> Calibration:
    """A stored calibration. It is parsed once: a hundred kilobytes take longer than the rest of a prediction."""
    return _parse(name, folder.read(name))


@lru_cache(maxsize=4)
def _parse(name: str, document: bytes) -> Calibration:
    try:
        return from_json(document)
    except ValueError as error:
        raise StoreError(
            f"Calibration {name} cannot be used: {error}. Go back to the shipped one.",
            remedies=[Remedy({"use": SHIPPED}, command="calibrate")],
        ) from error
