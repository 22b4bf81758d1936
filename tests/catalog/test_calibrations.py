from pathlib import Path

import pytest

from trainfare.catalog.calibrations import SHIPPED, CalibrationFolder
from trainfare.errors import NotFoundError, StoreError


def test_without_a_folder_the_shipped_ones_are_in_use(tmp_path: Path) -> None:
    kept = CalibrationFolder(tmp_path / "none")
    assert kept.current() == SHIPPED
    assert kept.names() == (SHIPPED,)


def test_the_newest_is_in_use_and_the_old_ones_stay(tmp_path: Path) -> None:
    kept = CalibrationFolder(tmp_path)
    kept.add("20261116-100000", b"one")
    kept.add("20261116-110000", b"two")
    assert kept.current() == "20261116-110000"
    assert kept.names() == ("20261116-110000", "20261116-100000", SHIPPED)
    assert kept.read("20261116-100000") == b"one"


def test_going_back_is_a_choice_that_lasts(tmp_path: Path) -> None:
    CalibrationFolder(tmp_path).add("20261116-100000", b"one")
    CalibrationFolder(tmp_path).use(SHIPPED)
    assert CalibrationFolder(tmp_path).current() == SHIPPED


def test_what_is_kept_is_never_overwritten(tmp_path: Path) -> None:
    kept = CalibrationFolder(tmp_path)
    kept.add("20261116-100000", b"one")
    with pytest.raises(ValueError, match="already exists"):
        kept.add("20261116-100000", b"two")
    assert kept.read("20261116-100000") == b"one"


def test_a_name_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    kept = CalibrationFolder(tmp_path)
    kept.add("20261116-100000", b"one")
    with pytest.raises(NotFoundError, match="Did you mean 20261116-100000"):
        kept.use("20261116-10000")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        CalibrationFolder(tmp_path / "file").add("20261116-100000", b"one")


def test_nothing_half_written_is_ever_listed(tmp_path: Path) -> None:
    kept = CalibrationFolder(tmp_path)
    (tmp_path / ".20261116-100000.json.77").write_bytes(b"ha")
    assert kept.names() == (SHIPPED,)
