"""The copy of the folder in which a program runs."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trainfare.profiler import workspace as module
from trainfare.profiler.workspace import Workspace, workspace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    (folder / "package" / "inner").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)")
    (folder / "package" / "inner" / "code.py").write_text("x = 1")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("main")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "train.pyc").write_text("")
    (tmp_path / "home" / "data").mkdir()
    (tmp_path / "home" / "data" / "train.csv").write_text("1,2")
    return folder


def make_large(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(module.MAX_COPIED_FILE_BYTES + 1)
    return path


def test_files_are_copied_and_large_data_is_linked(project: Path) -> None:
    make_large(project / "images.bin")
    make_large(project / "model.pt")
    (project / "env").mkdir()
    (project / "env" / "pyvenv.cfg").touch()
    with workspace(project) as place:
        assert place.is_copy
        copy = place.directory
        assert (copy / "package" / "inner" / "code.py").read_text() == "x = 1"
        assert not (copy / "train.py").is_symlink()
        assert not (copy / "model.pt").is_symlink()
        assert not (copy / "__pycache__").exists()
        for name in (".git", "images.bin", "env"):
            assert (copy / name).is_symlink()
            assert (copy / name).resolve() == (project / name).resolve()
    assert not copy.exists()
    assert (project / "images.bin").stat().st_size == module.MAX_COPIED_FILE_BYTES + 1


def test_neighbours_of_the_folder_are_found_by_their_relative_path(project: Path) -> None:
    code = "import os; print(open('../data/train.csv').read(), os.listdir('../..') != [])"
    with workspace(project) as place:
        command = [sys.executable, "-c", code]
        run = subprocess.run(command, cwd=place.directory, capture_output=True, text=True, check=False)
        assert run.stdout.split() == ["1,2", "True"], run.stderr
        assert place.directory.parts[-2:] == project.parts[-2:]


def test_links_have_the_same_target_in_the_copy(project: Path) -> None:
    (project / "same.py").symlink_to("train.py")
    (project / "far.csv").symlink_to("../data/train.csv")
    (project / "whole").symlink_to(project / "package")
    (project / "broken").symlink_to("nowhere")
    with workspace(project) as place:
        assert (place.directory / "same.py").resolve() == (place.directory / "train.py").resolve()
        assert (place.directory / "far.csv").read_text() == "1,2"
        assert (place.directory / "whole" / "inner").is_dir()
        assert (place.directory / "broken").is_symlink()


def test_written_files_are_listed(project: Path) -> None:
    (project / "unchanged.txt").write_text("as it was")
    with workspace(project) as place:
        (place.directory / "train.py").write_text("print(2)")
        (place.directory / "out").mkdir()
        (place.directory / "out" / "log.txt").write_text("12345")
        (place.directory / "package" / "__pycache__").mkdir()
        (place.directory / "package" / "__pycache__" / "code.pyc").write_text("")
    assert place.changes.written == ("out/log.txt", "train.py")
    assert place.changes.written_bytes == 5 + 8
    assert place.changes.linked_changed == ()
    assert (project / "train.py").read_text() == "print(1)"


def test_large_file_overwritten_through_its_link_is_listed(project: Path) -> None:
    make_large(project / "images.bin")
    with workspace(project) as place:
        (place.directory / "images.bin").write_text("gone")
    assert place.changes.linked_changed == ("images.bin",)


def test_large_file_that_is_replaced_leaves_the_original_unchanged(project: Path) -> None:
    make_large(project / "images.bin")
    with workspace(project) as place:
        (place.directory / "new").write_text("new")
        (place.directory / "new").replace(place.directory / "images.bin")
    assert place.changes.written == ("images.bin",)
    assert place.changes.linked_changed == ()
    assert (project / "images.bin").stat().st_size == module.MAX_COPIED_FILE_BYTES + 1


def test_folder_with_too_many_files_is_not_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COPIED_FILES", 3)
    with workspace(project) as place:
        assert (place.directory, place.is_copy) == (project, False)
        assert place.reason_in_place == "it contains more than 3 files"


def test_folder_with_too_many_bytes_is_not_copied(project: Path) -> None:
    with (project / "checkpoint.pt").open("wb") as file:
        file.truncate(module.MAX_COPIED_BYTES + 1)
    with workspace(project) as place:
        assert not place.is_copy
        assert place.reason_in_place == "it contains more than 200 MB of files that it might overwrite"


def test_unreadable_files_sockets_and_pipes_are_ignored(project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "secret").write_text("x")
    (project / "secret").chmod(0)
    with workspace(project) as place:
        assert place.is_copy
        assert not (place.directory / "pipe").exists()


def test_folder_is_not_copied_without_a_temporary_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nowhere")
    with workspace(project) as place:
        assert not place.is_copy
        assert place.reason_in_place is not None
        assert place.reason_in_place.startswith("it cannot be copied")


def test_in_place_and_missing_folders_are_not_copied(project: Path, tmp_path: Path) -> None:
    with workspace(project, in_place=True) as place:
        assert place == Workspace(directory=project, is_copy=False)
    with workspace(tmp_path / "nowhere") as place:
        assert place == Workspace(directory=tmp_path / "nowhere", is_copy=False)


def test_copy_is_deleted_even_if_the_run_fails(project: Path) -> None:
    with pytest.raises(RuntimeError), workspace(project) as place:
        raise RuntimeError("failed")
    assert not place.directory.exists()
    assert project.exists()
