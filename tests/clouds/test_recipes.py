"""The environment that a folder defines."""

from pathlib import Path

import pytest

from trainfare.clouds.recipes import (
    EnvironmentRecipe,
    command_in_environment,
    read_recipe,
    runs_in_environment,
    uninstalled_definition,
)
from trainfare.errors import UsageError

PROJECT = '[project]\nname = "p"\nversion = "1"\ndependencies = ["tiny>=1"]\n[project.scripts]\nfit = "p.main:run"\n'


def recipe(folder: Path, **files: str) -> EnvironmentRecipe:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    found = read_recipe(folder)
    assert found is not None
    return found


def test_a_folder_without_any_of_the_files_has_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert read_recipe(tmp_path) is None


def test_requirements_are_installed_as_they_are(tmp_path: Path) -> None:
    found = recipe(tmp_path, requirements_txt="tiny==1.0\n")
    assert (found.named_by, found.arguments, found.reusable) == ("requirements.txt", ("-r", "requirements.txt"), True)


def test_a_project_is_its_dependencies_and_its_sources(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    found = recipe(tmp_path, pyproject_toml=PROJECT)
    assert (found.arguments, found.source_roots) == (("tiny>=1",), ("src", "."))
    assert (found.scripts, found.reusable) == ({"fit": "p.main:run"}, True)


def test_a_lock_comes_before_requirements(tmp_path: Path) -> None:
    lock = '[[package]]\nname = "p"\nsource = { virtual = "." }\n'
    found = recipe(tmp_path, pyproject_toml=PROJECT, uv_lock=lock, requirements_txt="other\n")
    assert (found.named_by, found.locked, found.reusable) == ("uv.lock", True, True)


@pytest.mark.parametrize(
    "files",
    [
        {"requirements_txt": "-e .\n"},
        {"requirements_txt": "--editable ./sub[extra]\n"},
        {"requirements_txt": "-r more.txt\n", "more_txt": "--editable=.\n"},
        {"pyproject_toml": '[project]\nname = "p"\ndynamic = ["version", "dependencies"]\n'},
        {"pyproject_toml": '[tool.poetry]\nname = "p"\n'},
        {"pyproject_toml": PROJECT, "uv_lock": '[[package]]\nname = "q"\nsource = { editable = "q" }\n'},
    ],
)
def test_an_environment_that_refers_to_the_folder_is_not_reused(tmp_path: Path, files: dict[str, str]) -> None:
    assert not recipe(tmp_path, **files).reusable


@pytest.mark.parametrize("changed", ["requirements.txt", "more/base.txt", "wheels/tiny.whl", "limits.txt"])
def test_each_file_that_defines_the_environment_is_part_of_its_digest(tmp_path: Path, changed: str) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "tiny.whl").write_text("1")
    before = recipe(
        tmp_path,
        requirements_txt="-r more/base.txt  # all\n-climits.txt\n--find-links=wheels\n",
        more__base_txt="tiny\n",
        limits_txt="tiny<2\n",
    )
    (tmp_path / "train.py").write_text("code is no part of it")
    assert read_recipe(tmp_path) == before
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n")
    assert read_recipe(tmp_path) != before


def test_definitions_of_other_tools_are_named(tmp_path: Path) -> None:
    assert uninstalled_definition(tmp_path) is None
    (tmp_path / "environment.yml").touch()
    assert uninstalled_definition(tmp_path) == "environment.yml"


def test_files_that_include_each_other_do_not_hang(tmp_path: Path) -> None:
    assert recipe(tmp_path, requirements_txt="-r requirements.txt\n/elsewhere/x.whl\n-r ../x.txt\n").digest


@pytest.mark.parametrize("content", ["[project", '[project]\ndependencies = "tiny"\n'])
def test_a_project_file_that_cannot_be_read_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        read_recipe(tmp_path)


def test_programs_of_an_environment_at_home_are_those_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    for given, there in {
        "python": "python",
        "python3.12": "python",
        "torchrun": "torchrun",
        "/usr/bin/python3.11": "python",
        ".venv/bin/python": "python",
        ".venv/bin/torchrun": "torchrun",
        f"{tmp_path}/.venv/bin/accelerate": "accelerate",
        "./train.sh": "./train.sh",
        "/opt/tool": "/opt/tool",
    }.items():
        assert command_in_environment((given, "x"), tmp_path) == (there, "x")
    assert not runs_in_environment(("uv", "run", "train.py"))
    assert runs_in_environment(("/usr/bin/python", "train.py"))
