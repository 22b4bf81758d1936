"""Files are sent in parts: large ones in pieces that another process continues, small ones together."""

import os
from pathlib import Path
from typing import Any

import pytest

from trainfare.clouds import sending
from trainfare.clouds.door import Completed
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.sending import Parcel, Sending
from trainfare.errors import ExternalError, UsageError

LARGE = os.urandom(1_000_003)


@pytest.fixture
def machine(tmp_path: Path) -> LocalShell:
    (tmp_path / "machine").mkdir()
    return LocalShell(folder=tmp_path / "machine")


@pytest.fixture
def parcel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parcel:
    monkeypatch.setattr(sending, "LARGEST_PART", 1 << 18)
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "large").write_bytes(LARGE)
    (home / "deep" / "large").chmod(0o750)
    for number in range(5):
        (home / f"small{number}").write_text("x" * number)
    return Parcel(folder=home, path="work", files=("small0", "small1", "deep/large", "small2", "small3", "small4"))


def begin(parcel: Parcel) -> Sending:
    return Sending(parcels=(parcel,), _part=1 << 18)


def arrived(machine: LocalShell, parcel: Parcel) -> bool:
    there = machine.folder / "work"
    return all((there / name).read_bytes() == (parcel.folder / name).read_bytes() for name in parcel.files)


def test_each_call_does_a_part_and_files_get_their_names_when_they_are_whole(
    machine: LocalShell, parcel: Parcel
) -> None:
    current, calls = begin(parcel), 1
    while not current.advance(machine, seconds=0.0):
        calls += 1
        large = machine.folder / "work" / "deep" / "large"
        assert not large.exists() or large.stat().st_size == len(LARGE)
    assert calls >= 5
    assert arrived(machine, parcel)
    assert current.bytes == len(LARGE) + 10
    assert current.seconds > 0
    assert (machine.folder / "work" / "deep" / "large").stat().st_mode & 0o777 == 0o750
    assert sorted(p.name for p in (machine.folder / "work" / "deep").iterdir()) == ["large"]


def test_another_process_continues_in_the_middle_of_a_file_and_sends_nothing_twice(
    machine: LocalShell, parcel: Parcel
) -> None:
    first = begin(parcel)
    while first.bytes < 300_000:
        assert not first.advance(machine, seconds=0.0)
    second = begin(parcel)
    assert second.advance(machine, seconds=60.0)
    assert first.bytes + second.bytes == len(LARGE) + 10
    assert arrived(machine, parcel)
    third = begin(parcel)
    assert third.advance(machine, seconds=60.0)
    assert third.bytes == 0


def test_a_piece_that_did_not_arrive_whole_is_asked_for_and_sent_again(machine: LocalShell, parcel: Parcel) -> None:
    class Cut(LocalShell):
        """A connection that breaks in the middle of the second piece, once."""

        def run(self, command: Any, *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
            breaks = len(given) == 1 << 18 and (self.folder / "work" / "deep" / "large.trainfare-part").exists()
            if breaks and not (self.folder / "broken").exists():
                (self.folder / "broken").touch()
                LocalShell.run(self, command, given=given[:1000], timeout_seconds=timeout_seconds)
                raise ExternalError("the connection was lost")
            return LocalShell.run(self, command, given=given, timeout_seconds=timeout_seconds)

    current, shell = begin(parcel), Cut(folder=machine.folder)
    with pytest.raises(ExternalError, match="lost"):
        current.advance(shell, seconds=60.0)
    assert current.advance(shell, seconds=60.0)
    assert arrived(machine, parcel)


def test_a_file_that_changed_at_home_replaces_what_was_sent(machine: LocalShell, parcel: Parcel) -> None:
    assert begin(parcel).advance(machine, seconds=60.0)
    (parcel.folder / "deep" / "large").write_bytes(LARGE[:700_000][::-1])
    os.utime(parcel.folder / "deep" / "large", (1_000_000_000, 1_000_000_000))
    assert begin(parcel).advance(machine, seconds=60.0)
    assert arrived(machine, parcel)


def test_a_file_that_is_gone_is_an_error_of_the_user(machine: LocalShell, parcel: Parcel) -> None:
    (parcel.folder / "small3").unlink()
    with pytest.raises(UsageError, match=r"small3 cannot be read: No such file"):
        begin(parcel).advance(machine, seconds=60.0)
