"""The forms in which a program is given."""

from pathlib import Path

import pytest

from tests.app.running.wheels import make_wheel
from trainfare.app.programs.sources import read_program
from trainfare.clouds.recipes import read_recipe
from trainfare.errors import UsageError
from trainfare.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Settings(runs=str(tmp_path / "runs"))


def command(settings: Settings, *words: str) -> tuple[str, ...]:
    return read_program(words, settings).program.command


def test_a_command_is_started_in_this_folder_or_in_another(settings: Settings, tmp_path: Path) -> None:
    assert read_program(["python", "train.py"], settings).program.directory == str(tmp_path / "here")
    (tmp_path / "there").mkdir()
    found = read_program(["python", "train.py"], settings, folder=Path("../there"))
    assert Path(found.program.directory).resolve() == tmp_path / "there"
    assert found.results == Path(found.program.directory)
    with pytest.raises(UsageError, match="no folder nowhere"):
        read_program(["python"], settings, folder=Path("nowhere"))


def test_a_wheel_runs_its_main_script(settings: Settings, tmp_path: Path) -> None:
    parts = {"tiny-1.0.data/scripts/main.py": "", "pkg/train.py": "", "pkg/sub/fit.py": "", "other/fit.py": ""}
    wheel = str(make_wheel(tmp_path, **parts))
    assert command(settings, wheel) == ("python3", "main.py")
    assert command(settings, wheel, "--", "--lr", "3") == ("python3", "main.py", "--lr", "3")
    assert command(settings, wheel, "train.py", "--lr", "3") == ("python3", "pkg/train.py", "--lr", "3")
    assert command(settings, wheel, "-m", "pkg.train") == ("python3", "-m", "pkg.train")
    assert command(settings, wheel, "--", "torchrun", "main.py") == ("torchrun", "main.py")
    found = read_program([wheel], settings)
    assert (found.results, Path(found.program.directory).parent) == (tmp_path / "here", tmp_path / "runs" / "programs")
    with pytest.raises(UsageError, match=r"no script fitt\.py: name one of main\.py"):
        command(settings, wheel, "fitt.py")
    with pytest.raises(UsageError, match=r"several scripts fit\.py: name one of other/fit\.py, pkg/sub/fit\.py"):
        command(settings, wheel, "fit.py")


def test_a_wheel_has_the_requirements_of_its_metadata(settings: Settings, tmp_path: Path) -> None:
    metadata = (
        "Name: tiny\nVersion: 1.0\nRequires-Dist: torch>=2\nRequires-Dist: tqdm; python_version >= '3.8'\n"
        "Requires-Dist: pytest; extra == 'dev'\n\nRequires-Dist: not-a-header\n"
    )
    wheel = make_wheel(tmp_path, **{"tiny-1.0.dist-info/METADATA": metadata, "main.py": ""})
    recipe = read_recipe(Path(read_program([str(wheel)], settings).program.directory))
    assert recipe is not None
    assert recipe.arguments == ("torch>=2", "tqdm; python_version >= '3.8'")


def test_archives_that_are_missing_or_of_another_kind_are_said(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no archive model\.whl"):
        command(settings, "model.whl")
    (tmp_path / "here" / "model.tar.gz").touch()
    with pytest.raises(UsageError, match="make a zip or a wheel"):
        command(settings, "model.tar.gz")
    (tmp_path / "here" / "model.zip").write_text("no zip")
    with pytest.raises(UsageError, match="cannot be unpacked"):
        command(settings, "model.zip")
