"""Results come home in parts: large files in pieces that another process continues, small ones together."""

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainfare.clouds import receiving
from trainfare.clouds.driver import ResultFile
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.receiving import Receiving, Wanted
from trainfare.errors import ExternalError

LARGE = os.urandom(1_000_003)
NAMES = ("small0", "small1", "deep/large", "small2", "small3", "small4")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalShell:
    monkeypatch.setattr(receiving, "LARGEST_PART", 1 << 18)
    work = tmp_path / "machine" / "work"
    (work / "deep").mkdir(parents=True)
    (work / "deep" / "large").write_bytes(LARGE)
    (work / "deep" / "large").chmod(0o750)
    for number in range(5):
        (work / f"small{number}").write_text("x" * number)
    return LocalShell(folder=tmp_path / "machine")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def begin(machine: LocalShell, home: Path) -> Receiving:
    contents = {name: (machine.folder / "work" / name).read_bytes() for name in NAMES}
    files = {name: ResultFile(bytes=len(c), sha256=hashlib.sha256(c).hexdigest()) for name, c in contents.items()}
    return Receiving(folder=home, key="r1-1", files={name: Wanted(0, file) for name, file in files.items()})


def finish(current: Receiving, machine: LocalShell) -> None:
    assert current.advance({0: machine}, seconds=60.0)
    current.settle()


def are_home(machine: LocalShell, home: Path) -> bool:
    assert not list(home.glob(".trainfare-*"))
    return all((home / name).read_bytes() == (machine.folder / "work" / name).read_bytes() for name in NAMES)


@contextmanager
def full_disk(largest: int) -> Iterator[None]:
    """Files cannot grow beyond a size, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_each_call_does_a_part_and_nothing_has_its_name_before_all_is_whole(machine: LocalShell, home: Path) -> None:
    current, calls, seen = begin(machine, home), 1, []
    while not current.advance({0: machine}, seconds=0.0):
        calls += 1
        seen.append(current.whole_bytes)
        assert not [path for path in home.iterdir() if not path.name.startswith(".trainfare-arriving-")]
    assert calls >= 5
    assert seen == sorted(seen)
    current.settle()
    assert are_home(machine, home)
    assert current.bytes == current.whole_bytes == len(LARGE) + 10
    assert current.seconds > 0
    there, here = (folder / "deep" / "large" for folder in (machine.folder / "work", home))
    assert (here.stat().st_mode, here.stat().st_mtime_ns) == (there.stat().st_mode, there.stat().st_mtime_ns)


def test_another_process_continues_in_the_middle_of_a_file_and_receives_nothing_twice(
    machine: LocalShell, home: Path
) -> None:
    first = begin(machine, home)
    while first.bytes < 300_000:
        assert not first.advance({0: machine}, seconds=0.0)
    second = begin(machine, home)
    finish(second, machine)
    assert first.bytes + second.bytes == len(LARGE) + 10
    assert are_home(machine, home)
    third = begin(machine, home)
    finish(third, machine)
    assert third.bytes == 0


def test_a_process_that_is_killed_while_files_get_their_names_is_continued(machine: LocalShell, home: Path) -> None:
    first = begin(machine, home)
    assert first.advance({0: machine}, seconds=60.0)
    (first.arriving / "small3").rename(home / "small3")
    second = begin(machine, home)
    finish(second, machine)
    assert second.bytes == 0
    assert are_home(machine, home)


@pytest.mark.parametrize("name", ["small3", "deep/large"])
def test_a_file_that_changed_on_the_machine_is_left_out_and_the_others_come_home(
    machine: LocalShell, home: Path, name: str
) -> None:
    current = begin(machine, home)
    (machine.folder / "work" / name).write_bytes(b"y" * (machine.folder / "work" / name).stat().st_size)
    for _ in range(3):
        with pytest.raises(ExternalError, match=name):
            current.advance({0: machine}, seconds=60.0)
    assert current.missing == (name,)
    current.settle()
    assert {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} == set(NAMES) - {name}


def test_a_file_that_became_shorter_on_the_machine_is_said(machine: LocalShell, home: Path) -> None:
    current = begin(machine, home)
    (machine.folder / "work" / "deep" / "large").write_bytes(LARGE[:1000])
    with pytest.raises(ExternalError, match=r"deep/large is shorter"):
        current.advance({0: machine}, seconds=60.0)


def test_a_full_disk_at_home_is_said_and_what_has_arrived_is_used_when_there_is_room(
    machine: LocalShell, home: Path
) -> None:
    current = begin(machine, home)
    with full_disk(700_000):
        for _ in range(2):
            with pytest.raises(ExternalError, match=r"home cannot be written: File too large"):
                current.advance({0: machine}, seconds=60.0)
    assert current.bytes > 400_000
    finish(current, machine)
    assert current.bytes == len(LARGE) + 10
    assert are_home(machine, home)
