"""Snapshots of checkpoints: complete and unchanged, or an error; never a mixture of two saves."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from trainfare.agent import snapshot
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.snapshots import NoSnapshotError, Snapshot, read_snapshot, remove_snapshot, take_snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def put(folder: Path, name: str, text: str, age: float) -> Path:
    """A file of the program that was written so many seconds ago."""
    path = folder / "work" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def taken(folder: Path, *paths: Path, saved: float, seconds: str = "0.1") -> dict[str, Any]:
    snapshot.make(folder, "7", saved, seconds, list(paths))
    return dict(json.loads((folder / "snapshots" / "7.json").read_text()))


def test_a_snapshot_stays_as_it_is_when_the_program_overwrites_its_checkpoint(folder: Path) -> None:
    path = put(folder, "out/last.pt", "first", 30)
    answer = taken(folder, path, saved=time.time() - 30)
    assert answer == {"files": {"out/last.pt": {"bytes": 5, "sha256": hashlib.sha256(b"first").hexdigest()}}}
    path.write_text("second")
    assert (folder / "snapshots/7/out/last.pt").read_text() == "first"


def test_folders_names_with_a_prefix_and_small_files_next_to_them_belong_to_a_checkpoint(folder: Path) -> None:
    put(folder, "run/checkpoint-5/model.safetensors", "w", 20)
    put(folder, "run/checkpoint-5/deep/rng.pth", "r", 20)
    put(folder, "run/latest", "checkpoint-5", 19)
    put(folder, "run/log.csv", "still written", 0)
    put(folder, "run/old.json", "before", 500)
    put(folder, "tf/ckpt-3.index", "i", 20)
    put(folder, "tf/ckpt-3.data-0", "d", 20)
    put(folder, "tf/ckpt-2.index", "o", 400)
    work = folder / "work"
    answer = taken(folder, work / "run/checkpoint-5", work / "tf/ckpt-3", saved=time.time() - 20)
    assert sorted(answer["files"]) == [
        "run/checkpoint-5/deep/rng.pth",
        "run/checkpoint-5/model.safetensors",
        "run/latest",
        "tf/ckpt-3.data-0",
        "tf/ckpt-3.index",
    ]


def test_a_checkpoint_outside_of_the_program_s_folder_gets_a_place_in_it(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere" / "ck"
    outside.mkdir(parents=True)
    (outside / "a.pt").write_text("a")
    answer = taken(folder, outside, saved=time.time())
    assert list(answer["files"]) == [".trainfare-checkpoint/ck/a.pt"]


def test_one_that_was_overwritten_counts_when_it_has_not_changed_for_a_while(folder: Path) -> None:
    path = put(folder, "last.pt", "later", 5)
    assert "files" in taken(folder, path, saved=time.time() - 60, seconds="2")


def test_one_that_is_written_to_all_the_time_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LONGEST_WAIT_SECONDS", 0.3)
    path = put(folder, "last.pt", "half", -1)
    assert taken(folder, path, saved=time.time() - 60) == {"error": "it was written to all the time"}


def test_of_a_killed_program_only_what_is_known_to_be_complete_counts(folder: Path) -> None:
    path = put(folder, "last.pt", "maybe half", 5)
    assert "killed" in taken(folder, path, saved=time.time() - 60, seconds="killed")["error"]
    (folder / "snapshots" / "7.json").unlink()
    assert "files" in taken(folder, path, saved=time.time() - 5, seconds="killed")


def test_without_room_for_a_copy_the_files_are_linked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(folder, "last.pt", "much", 5)
    monkeypatch.setattr(snapshot, "ROOM", 1 << 60)
    assert "files" in taken(folder, path, saved=time.time() - 5)
    assert (folder / "snapshots/7/last.pt").samefile(path)


def asked(shell: LocalShell, number: int, path: str) -> Snapshot:
    while True:
        found = take_snapshot(shell, number, paths=[path], saved=time.time() - 5, save_seconds=0.1)
        if found is not None:
            return found


def test_a_snapshot_is_asked_for_through_a_shell_and_removed(folder: Path) -> None:
    put(folder, "last.pt", "weights", 5)
    shell = LocalShell(folder=folder)
    found = asked(shell, 3, "last.pt")
    assert (found.bytes, list(found.files)) == (7, ["last.pt"])
    assert read_snapshot(shell, 3, "last.pt", offset=2, limit=3) == b"igh"
    remove_snapshot(shell, 3)
    assert not (folder / "snapshots" / "3").exists()
    with pytest.raises(NoSnapshotError, match="was removed"):
        asked(shell, 4, "gone.pt")
