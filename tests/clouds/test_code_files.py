"""The files that are sent: the folder without what is ignored, links that lead out of it, and too much of it."""

import subprocess
from pathlib import Path

import pytest

from trainfare.clouds.code_files import list_code_files
from trainfare.errors import UsageError


def make(folder: Path, *names: str, size: int = 0) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x" * size)


def test_ignored_files_are_not_sent(tmp_path: Path) -> None:
    make(tmp_path, "train.py", "out/model.pt", "data/keep.csv", "data/big.bin", ".env")
    (tmp_path / ".gitignore").write_text("out/\n.env\n")
    (tmp_path / "data" / ".trainfareignore").write_text("*.bin\n")
    assert list_code_files(tmp_path).files == (
        ".gitignore",
        "data/.trainfareignore",
        "data/keep.csv",
        "train.py",
    )


def test_the_same_files_as_those_that_git_knows(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c.log", "a/b/keep.log", "a/x.py", "logs/y", "z.log", "a/logs/q")
    (tmp_path / ".gitignore").write_text("*.log\n/logs\n")
    (tmp_path / "a" / "b" / ".gitignore").write_text("!keep.log\n")
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    listed = subprocess.run(
        ("git", "ls-files", "-co", "--exclude-standard"), cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert sorted(list_code_files(tmp_path).files) == sorted(listed)


def test_environments_and_caches_are_never_sent(tmp_path: Path) -> None:
    make(tmp_path, ".venv/pyvenv.cfg", "__pycache__/x.pyc", "sub/node_modules/m.js", "train.py")
    assert list_code_files(tmp_path).files == ("train.py",)


def test_a_link_out_of_the_folder_is_reported_and_not_sent(tmp_path: Path) -> None:
    project = tmp_path / "project"
    make(project, "train.py")
    make(tmp_path / "elsewhere", "data.csv")
    (project / "data").symlink_to(tmp_path / "elsewhere")
    (project / "inside").symlink_to("train.py")
    found = list_code_files(project)
    assert (found.files, found.outside_links) == (("inside", "train.py"), ("data",))


def test_a_folder_that_is_too_large_is_refused_with_its_largest_parts(tmp_path: Path) -> None:
    make(tmp_path, "train.py", "data/a", "data/b", "other/c", size=5000)
    with pytest.raises(UsageError, match=r"too large to send.*data \(10kB\).*\.trainfareignore"):
        list_code_files(tmp_path, max_bytes=9000)
