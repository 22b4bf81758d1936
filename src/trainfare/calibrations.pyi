"""Coefficients of the predictions: fit them to your own measurements, list them, choose one."""

from trainfare.app.catalog.calibrate import calibrate as fit
from trainfare.app.catalog.calibrate import list_calibrations as all
from trainfare.app.catalog.calibrate import use_calibration as use

__all__ = [
    "all",
    "fit",
    "use",
]
