"""Where coefficients are kept: the shipped ones in the package, the user's own in a folder, none ever overwritten.

FOLDER/20261116-143000.json     one calibration a file, named by when it was made
FOLDER/current                  the name of the one in use; without it the shipped ones are
"""

import os
from importlib.resources import files
from pathlib import Path

from trainfare.errors import NotFoundError, StoreError

SHIPPED = "shipped"


def shipped_calibration() -> bytes:
    return files("trainfare.catalog").joinpath("data", "calibration.json").read_bytes()


class Calibrations:
    """The folder; it need not exist until something is added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        """The newest first, the shipped one last."""
        own = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True) if self._folder.is_dir() else []
        return (*own, SHIPPED)

    def current(self) -> str:
        try:
            name = (self._folder / "current").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return SHIPPED
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{self._folder / 'current'} cannot be read: {error}. Mend or remove it.") from error
        return name or SHIPPED

    def read(self, name: str) -> bytes:
        if name == SHIPPED:
            return shipped_calibration()
        if name not in self.names():
            raise NotFoundError("calibration", name, self.names(), listed_by="trainfare calibrate --list")
        try:
            return (self._folder / f"{name}.json").read_bytes()
        except OSError as error:
            raise StoreError(f"calibration {name} cannot be read: {error}") from error

    def add(self, name: str, document: bytes) -> None:
        """Kept, and in use from now on; a name that is taken is a `ValueError`."""
        if name in self.names():
            raise ValueError(f"calibration {name} is already kept")
        self._write(f"{name}.json", document)
        self.use(name)

    def use(self, name: str) -> None:
        if name not in self.names():
            raise NotFoundError("calibration", name, self.names(), listed_by="trainfare calibrate --list")
        self._write("current", name.encode())

    def _write(self, name: str, content: bytes) -> None:
        """All of it or nothing, whatever happens meanwhile."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = self._folder / f".{name}.{os.getpid()}"
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._folder / name)
        except OSError as error:
            raise StoreError(f"{self._folder / name} cannot be written: {error}") from error
