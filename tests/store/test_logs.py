"""The output of profiled programs: one file a profile."""

import stat
from pathlib import Path

from trainfare.store.logs import read_log, remove_log, save_log


def test_a_log_is_read_as_it_was_saved_until_it_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    assert read_log(folder, "p1") is None
    assert save_log(folder, "p1", "épôque 1\r\nloss 0.1\n")
    assert read_log(folder, "p1") == "épôque 1\nloss 0.1\n"
    remove_log(folder, "p1")
    remove_log(folder, "p1")
    assert read_log(folder, "p1") is None


def test_only_the_owner_can_read_a_log(tmp_path: Path) -> None:
    save_log(tmp_path, "p1", "token: 123")
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    assert not save_log(tmp_path / "logs", "p1", "lost")
    assert read_log(tmp_path / "logs", "p1") is None
