"""Checkpoints come home in small steps that any process can continue, and only whole ones get a name."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainfare.app.running.checkpoints import CheckpointFetch, copy_to_results, keep_newest, parcels_back
from trainfare.clouds import snapshots
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.sending import Sending
from trainfare.errors import ExternalError
from trainfare.model.run import Checkpoint
from trainfare.runner.checkpoints import SavedCheckpoint

CONTENT = os.urandom(5 << 20)


@pytest.fixture
def machine(tmp_path: Path) -> LocalShell:
    work = tmp_path / "machine" / "work" / "out"
    work.mkdir(parents=True)
    (work / "last.pt").write_bytes(CONTENT)
    return LocalShell(folder=tmp_path / "machine")


def make_fetch(home: Path, **changes: Any) -> CheckpointFetch:
    saved = SavedCheckpoint(
        number=7,
        paths=("out/last.pt",),
        path="out/last.pt",
        saved_at=datetime.now(UTC),
        save_seconds=0.1,
        iteration=40,
    )
    fields: dict[str, Any] = {"folder": home, "attempt": 2, "saved": saved}
    return CheckpointFetch(**(fields | changes))


def finish(fetch: CheckpointFetch, machine: LocalShell, *, seconds: float = 60.0) -> tuple[Checkpoint, int]:
    """The checkpoint, and the number of steps that it took."""
    give_up = time.monotonic() + 600
    for steps in range(1, 1000):
        found = fetch.advance({0: machine}, seconds=seconds)
        if found is not None:
            return found, steps
        assert time.monotonic() < give_up
    raise AssertionError("it does not end")


def test_a_checkpoint_comes_home_step_by_step_and_gets_its_name_when_it_is_whole(
    machine: LocalShell, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    fetch = make_fetch(home, _chunk=1 << 19)
    while fetch.advance({0: machine}, seconds=0.0) is None and not list(home.glob(".arriving-*/out/last.pt")):
        assert not (home / "2-7").exists()
    found, steps = finish(fetch, machine, seconds=0.0)
    assert steps > 1, "a chunk a step"
    assert (found.name, found.path, found.files, found.bytes) == ("2-7", "out/last.pt", ("out/last.pt",), len(CONTENT))
    assert (found.iteration, found.save_seconds) == (40, 0.1)
    assert found.fetch_seconds > 0
    assert (home / "2-7" / "out" / "last.pt").read_bytes() == CONTENT
    assert [each.name for each in home.iterdir()] == ["2-7"]


def test_another_process_continues_and_nothing_is_fetched_twice(
    machine: LocalShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, first = tmp_path / "home", make_fetch(tmp_path / "home", _chunk=1 << 18)
    while not list(home.glob(".arriving-*/out/last.pt")):
        first.advance({0: machine}, seconds=0.0)
    arrived = (home / ".arriving-2-7" / "out" / "last.pt").stat().st_size
    assert 0 < arrived < len(CONTENT)
    offsets: list[int] = []
    read = LocalShell.read

    def noting(shell: LocalShell, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        offsets.extend([offset] if path.endswith("last.pt") else [])
        return read(shell, path, offset=offset, limit=limit)

    monkeypatch.setattr(LocalShell, "read", noting)
    found, _ = finish(make_fetch(home), machine)
    assert min(offsets) == arrived
    assert (home / found.name / "out" / "last.pt").read_bytes() == CONTENT
    assert finish(make_fetch(home), machine)[0].name == "2-7", "one that is at home already is not fetched again"


def test_a_damaged_part_is_fetched_again_and_never_replaces_a_whole_checkpoint(
    machine: LocalShell, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    part = home / ".arriving-2-7" / "out" / "last.pt"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"damaged" + CONTENT[7:-9])
    fetch = make_fetch(home)
    with pytest.raises(ExternalError, match="damaged"):
        finish(fetch, machine)
    assert not (home / "2-7").exists()
    assert finish(fetch, machine)[0].name == "2-7"
    assert (home / "2-7" / "out" / "last.pt").read_bytes() == CONTENT


def test_a_snapshot_that_vanishes_is_made_again(machine: LocalShell, tmp_path: Path) -> None:
    fetch = make_fetch(tmp_path / "home", _chunk=1 << 18)
    while fetch.seconds == 0.0:
        fetch.advance({0: machine}, seconds=0.0)
    snapshots.remove_snapshot(machine, 7)
    with pytest.raises(ExternalError, match="ended early"):
        finish(fetch, machine)
    assert finish(fetch, machine)[0].bytes == len(CONTENT)


def test_the_last_two_are_kept_and_one_is_put_back_or_given_to_the_user(machine: LocalShell, tmp_path: Path) -> None:
    home = tmp_path / "home"
    found = finish(make_fetch(home), machine)[0]
    for name in ("1-3", "1-9", ".arriving-2-8"):
        (home / name).mkdir()
    before = Checkpoint(name="1-9", path="a", files=(), bytes=0, saved_at=datetime.now(UTC))
    keep_newest(home, found, before)
    assert sorted(each.name for each in home.iterdir()) == [".arriving-2-8", "1-9", "2-7"]
    (machine.folder / "work" / "out" / "last.pt").unlink()
    sending = Sending(parcels=parcels_back(home, found, 0))
    assert sending.advance(machine, seconds=60.0)
    assert sending.bytes == len(CONTENT)
    assert (machine.folder / "work" / "out" / "last.pt").read_bytes() == CONTENT
    copy_to_results(home, found, tmp_path / "results")
    assert (tmp_path / "results" / "out" / "last.pt").read_bytes() == CONTENT
    with pytest.raises(ExternalError, match="not complete"):
        parcels_back(home, Checkpoint(name="1-9", path="a", files=("a",), bytes=1, saved_at=found.saved_at), 0)
