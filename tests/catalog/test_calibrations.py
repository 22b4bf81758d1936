"""The folder of stored calibrations."""

from pathlib import Path

import pytest

from trainfare.catalog.calibrations import SHIPPED, CalibrationFolder
from trainfare.errors import NotFoundError, StoreError


def test_shipped_calibration_is_used_without_a_folder(tmp_path: Path) -> None:
    folder = CalibrationFolder(tmp_path / "none")
    assert folder.current() == SHIPPED
    assert folder.names() == (SHIPPED,)


def test_newest_is_used_and_older_ones_stay(tmp_path: Path) -> None:
    folder = CalibrationFolder(tmp_path)
    folder.add("20261116-100000", b"one")
    folder.add("20261116-110000", b"two")
    assert folder.current() == "20261116-110000"
    assert folder.names() == ("20261116-110000", "20261116-100000", SHIPPED)
    assert folder.read("20261116-100000") == b"one"


def test_chosen_calibration_stays_in_use(tmp_path: Path) -> None:
    CalibrationFolder(tmp_path).add("20261116-100000", b"one")
    CalibrationFolder(tmp_path).use(SHIPPED)
    assert CalibrationFolder(tmp_path).current() == SHIPPED


def test_stored_calibration_is_never_overwritten(tmp_path: Path) -> None:
    folder = CalibrationFolder(tmp_path)
    folder.add("20261116-100000", b"one")
    with pytest.raises(ValueError, match="already exists"):
        folder.add("20261116-100000", b"two")
    assert folder.read("20261116-100000") == b"one"


def test_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    folder = CalibrationFolder(tmp_path)
    folder.add("20261116-100000", b"one")
    with pytest.raises(NotFoundError, match="Did you mean 20261116-100000"):
        folder.use("20261116-10000")


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        CalibrationFolder(tmp_path / "file").add("20261116-100000", b"one")


def test_unfinished_file_is_not_listed(tmp_path: Path) -> None:
    folder = CalibrationFolder(tmp_path)
    (tmp_path / ".20261116-100000.json.77").write_bytes(b"ha")
    assert folder.names() == (SHIPPED,)
