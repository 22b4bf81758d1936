"""The data of a program, as the user names it."""

from pathlib import Path

import pytest

from trainfare.app.programs.data import read_data
from trainfare.clouds.data_files import DataFiles
from trainfare.errors import UsageError
from trainfare.model.supplies import DataSource
from trainfare.settings import Settings

SHA = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's folder, with data in it and next to it."""
    for path in ("project/data/train/a", "cifar/b", "cifar/sub/c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def read(folder: Path, *texts: str, allow_private: bool = False) -> tuple[DataSource, ...]:
    return read_data(texts, folder, allow_private=allow_private, settings=Settings(runs=str(folder.parent / "runs")))


def test_each_form_of_a_source(folder: Path) -> None:
    found = read(
        folder,
        "images=../cifar",
        "../cifar/b",
        "data/train",
        f"https://example.org/files/x.tar?key=1#sha256={SHA}",
        "val/set=http://example.org/",
        "machine:/mnt/imagenet",
        "home=machine:~/data",
    )
    assert [(each.name, each.kind) for each in found] == [
        ("images", "sent"),
        ("b", "sent"),
        ("data/train", "sent"),
        ("x.tar", "fetched"),
        ("val/set", "fetched"),
        ("imagenet", "there"),
        ("home", "there"),
    ]
    assert (found[0].bytes, found[3].sha256) == (len("cifar/b") + len("cifar/sub/c"), SHA)
    assert found[3].source == "https://example.org/files/x.tar?key=1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nowhere", "no such file"),
        ("x=", "no such file"),
        (".", "sent with its code"),
        ("..", "sent with its code"),
        ("s3://bucket/x", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("https:///x", "no host"),
        ("https://example.org/", "names no file"),
        ("https://me:pass@example.org/x", "has a password"),
        ("https://example.org/x#md5=1", "only sha256="),
        ("https://example.org/x#sha256=1", "64 digits"),
        ("machine:data", "begins with /"),
        ("../x=../cifar", "no such file|relative path"),
        ("x/../y=../cifar", "relative path"),
    ],
)
def test_what_is_not_a_source_is_said(folder: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read(folder, text)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1",
            "localhost",
            "a.localhost",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.1",
        ),
        *("[::1]", "[fd00:ec2::254]", "[fe80::1]", "metadata.google.internal", "printer.local", "100.64.0.1"),
    ],
)
def test_private_addresses_are_refused_unless_they_are_allowed(folder: Path, host: str) -> None:
    with pytest.raises(UsageError, match="not a public address"):
        read(folder, f"http://{host}/x")
    assert read(folder, f"http://{host}/x", allow_private=True)[0].allow_private


def test_two_sources_of_one_name_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="the name x"):
        read(folder, "x=../cifar", "x=data/train")
    with pytest.raises(UsageError, match="the name x"):
        read(folder, "x=../cifar", "x/y=data/train")


def test_the_hash_follows_the_content_and_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []

    def counted(files: DataFiles, original: object = DataFiles.digest) -> str:
        computed.append(files.path)
        return str(original(files))  # type: ignore[operator] # it is the method

    monkeypatch.setattr(DataFiles, "digest", counted)
    first = read(folder, "../cifar")[0].sha256
    assert read(folder, "../cifar")[0].sha256 == first
    assert len(computed) == 1
    (folder.parent / "cifar" / "b").write_text("cifar/x")
    assert read(folder, "../cifar")[0].sha256 != first


def test_links_to_folders_are_refused_because_their_content_would_be_missing(folder: Path) -> None:
    (folder.parent / "cifar" / "more").symlink_to(folder)
    with pytest.raises(UsageError, match="link to a folder"):
        read(folder, "../cifar")
