"""Archives from anywhere: good ones are unpacked, bad ones leave nothing, inside or outside."""

import os
import random
import stat
import struct
import zipfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from trainfare.clouds.archives import UnpackLimits, unpack
from trainfare.errors import UsageError

Entry = tuple[str, bytes, int]
"""A name, a content, and the mode that the archive states."""

FILE = stat.S_IFREG | 0o644


def make_zip(path: Path, entries: Sequence[Entry], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content, mode in entries:
            entry = zipfile.ZipInfo(name)
            entry.filename = name  # as it is: the constructor would repair it
            entry.external_attr = mode << 16
            entry.compress_type = compression
            archive.writestr(entry, content)
    return path


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def test_a_zip_is_unpacked_with_its_scripts_executable(tmp_path: Path) -> None:
    entries = [("main.py", b"1", FILE), ("pkg/", b"", stat.S_IFDIR | 0o755), ("pkg/run.sh", b"2", stat.S_IFREG | 0o755)]
    folder = unpack(make_zip(tmp_path / "a.zip", entries), tmp_path / "places")
    assert files_below(folder) == ["main.py", "pkg/run.sh"]
    assert os.access(folder / "pkg" / "run.sh", os.X_OK)
    assert not os.access(folder / "main.py", os.X_OK)


def test_an_archive_is_unpacked_once_for_its_content(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("main.py", b"1", 0)])
    first = unpack(archive, tmp_path / "places")
    assert unpack(archive, tmp_path / "places") == first
    make_zip(archive, [("main.py", b"2", 0)])
    assert (unpack(archive, tmp_path / "places") / "main.py").read_bytes() == b"2"


def test_the_only_folder_of_a_zip_is_the_program(tmp_path: Path) -> None:
    entries = [("project/main.py", b"", 0), ("project/lib/a.py", b"", 0)]
    assert files_below(unpack(make_zip(tmp_path / "a.zip", entries), tmp_path / "p")) == ["lib/a.py", "main.py"]


def test_a_wheel_is_unpacked_as_it_would_be_installed(tmp_path: Path) -> None:
    names = ("pkg/a.py", "x-1.data/scripts/main.py", "x-1.data/purelib/b.py", "x-1.dist-info/METADATA")
    folder = unpack(make_zip(tmp_path / "x-1.whl", [(name, b"", 0) for name in names]), tmp_path / "places")
    assert files_below(folder) == ["b.py", "main.py", "pkg/a.py", "x-1.dist-info/METADATA"]


BAD: dict[str, Entry] = {
    "parent": ("../out", b"x", FILE),
    "deep parent": ("a/b/../../../out", b"x", FILE),
    "absolute": ("/tmp/out", b"x", FILE),
    "backslashes": ("..\\out", b"x", FILE),
    "drive": ("C:out", b"x", FILE),
    "link": ("link", b"/etc/passwd", stat.S_IFLNK | 0o777),
    "link to a folder above": ("link", b"..", stat.S_IFLNK | 0o777),
    "character device": ("device", b"", stat.S_IFCHR | 0o666),
    "block device": ("device", b"", stat.S_IFBLK | 0o666),
    "pipe": ("pipe", b"", stat.S_IFIFO | 0o666),
    "socket": ("socket", b"", stat.S_IFSOCK | 0o666),
    "no name": (".", b"x", FILE),
    "zero byte": ("a\0b", b"x", FILE),
    "control characters": ("a\nb", b"x", FILE),
    "long name": ("x" * 2000, b"x", FILE),
    "device of a wheel": ("x-1.data/scripts/../../../out", b"x", FILE),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_entry_is_named_and_nothing_is_unpacked(tmp_path: Path, kind: str) -> None:
    archive = make_zip(tmp_path / "a.zip", [("main.py", b"1", FILE), BAD[kind]])
    with pytest.raises(UsageError, match=r"refused|cannot be unpacked"):
        unpack(archive, tmp_path / "places")
    assert files_below(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_two_entries_of_one_name_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.warns(UserWarning, match="Duplicate") if names == ("a", "a") else nullcontext():
        archive = make_zip(tmp_path / "a.zip", [(name, b"", FILE) for name in names])
    with pytest.raises(UsageError, match="one name"):
        unpack(archive, tmp_path / "places")
    assert files_below(tmp_path) == ["a.zip"]


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("zeros", bytes(20_000_000), FILE)], zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match=r"grows .*-fold"):
        unpack(archive, tmp_path / "places")


def test_too_many_and_too_large_are_refused(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [(str(number), b"12345", FILE) for number in range(5)])
    with pytest.raises(UsageError, match="5 entries; at most 4"):
        unpack(archive, tmp_path / "places", UnpackLimits(entries=4))
    with pytest.raises(UsageError, match="25B of files; at most 24B"):
        unpack(archive, tmp_path / "places", UnpackLimits(bytes=24))


def test_a_table_that_lies_about_a_size_is_noticed(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("zeros", bytes(100_000), FILE)], zipfile.ZIP_DEFLATED)
    content = archive.read_bytes()
    archive.write_bytes(content.replace(struct.pack("<L", 100_000), struct.pack("<L", 10)))
    with pytest.raises(UsageError, match=r"a\.zip"):
        unpack(archive, tmp_path / "places")
    assert files_below(tmp_path) == ["a.zip"]


def test_no_byte_of_generated_archives_is_written_outside(tmp_path: Path) -> None:
    """Archives of random entries, good and bad, some of them damaged: each is unpacked inside, or refused."""
    draw = random.Random(1)
    parts = ["a", "b", "..", ".", "", "/", "c:", "\\", "~", "a" * 300, "é", "main.py", "x.data", "scripts", "\x7f"]
    modes = [0, FILE, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777, stat.S_IFCHR, stat.S_IFIFO]
    (tmp_path / "canary").write_text("alive")
    refused = 0
    for number in range(200):
        home = tmp_path / f"home{number}"
        home.mkdir()
        names = {"/".join(draw.choices(parts, k=draw.randint(1, 5))) or "x" for _ in range(draw.randint(1, 4))}
        archive = make_zip(
            home / draw.choice(["a.zip", "a.whl"]),
            [(name, draw.choice([b"", b"x", b"../../canary", b"/"]), draw.choice(modes)) for name in sorted(names)],
        )
        if draw.random() < 0.3:
            content = bytearray(archive.read_bytes())
            for _ in range(3):
                content[draw.randrange(len(content))] = draw.randrange(256)
            archive.write_bytes(content)
        try:
            unpack(archive, home / "places")
        except UsageError:
            refused += 1
            assert files_below(home) == [archive.name]
        assert not [path for path in home.rglob("*") if path.is_symlink()]
        assert {path.name for path in home.iterdir()} <= {archive.name, "places"}
    assert (tmp_path / "canary").read_text() == "alive"
    assert 0 < refused < 200
    assert {path.name for path in tmp_path.iterdir()} == {"canary", *(f"home{number}" for number in range(200))}
