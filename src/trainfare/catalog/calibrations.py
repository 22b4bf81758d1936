"""Stored calibrations: the shipped one in the package, the user's own in a folder; none is ever overwritten.

FOLDER/20261116-143000.json     one calibration per file, named after the time it was made
FOLDER/current                  the name of the one in use; without it the shipped one is used
"""

import os
from importlib.resources import files
from pathlib import Path

from trainfare.errors import NotFoundError, StoreError

SHIPPED = "shipped"


def shipped_calibration() -> bytes:
    """The document of the calibration that the package ships."""
    return files("trainfare.catalog").joinpath("data", "calibration.json").read_bytes()


class CalibrationFolder:
    """The folder of the user's calibrations; it is created when the first one is added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        """The newest first, the shipped one last."""
        own = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True) if self._folder.is_dir() else []
        return (*own, SHIPPED)

    def current(self) -> str:
        """The name of the calibration in use."""
        path = self._folder / "current"
        try:
            name = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return SHIPPED
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{path} cannot be read: {error}. Repair or remove it.") from error
        return name or SHIPPED

    def read(self, name: str) -> bytes:
        """The document of a stored calibration."""
        if name == SHIPPED:
            return shipped_calibration()
        self._require_known(name)
        try:
            return (self._folder / f"{name}.json").read_bytes()
        except OSError as error:
            raise StoreError(f"Calibration {name} cannot be read: {error}.") from error

    def add(self, name: str, document: bytes) -> None:
        """Stores a calibration and uses it from now on; a name that exists is a `ValueError`."""
        if name in self.names():
            raise ValueError(f"calibration {name} already exists")
        self._write(f"{name}.json", document)
        self.use(name)

    def use(self, name: str) -> None:
        """Uses a stored calibration from now on."""
        self._require_known(name)
        self._write("current", name.encode())

    def _require_known(self, name: str) -> None:
        if name not in self.names():
            raise NotFoundError("calibration", name, self.names())

    def _write(self, name: str, content: bytes) -> None:
        """Writes the file completely or not at all."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = self._folder / f".{name}.{os.getpid()}"
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._folder / name)
        except OSError as error:
            raise StoreError(f"{self._folder / name} cannot be written: {error}.") from error
