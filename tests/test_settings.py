from pathlib import Path

import pytest

from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import read_settings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, with a folder in it."""
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_user_file(home: Path, text: str) -> None:
    file = home / "config" / "trainfare" / "settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_defaults_are_in_the_folders_of_the_user(home: Path) -> None:
    settings = read_settings()
    assert settings.store == str(home / "data" / "trainfare" / "history.db")
    assert settings.machines == str(home / "config" / "trainfare" / "machines.toml")
    assert (settings.iterations, settings.goal, settings.origins) == (None, "cheapest", {})


def test_flag_beats_environment_beats_project_file_beats_user_file(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_user_file(home, "iterations = 11\ngoal = 'fastest'\nstall_seconds = '2min'")
    assert (read_settings().iterations, read_settings().stall_seconds) == (11, 120)
    (here / "trainfare.toml").write_text("iterations = 12")
    assert read_settings().iterations == 12
    monkeypatch.setenv("TRAINFARE_ITERATIONS", "13")
    assert read_settings().iterations == 13
    settings = read_settings({"iterations": 14, "store": None})
    assert (settings.iterations, settings.goal) == (14, "fastest")
    assert settings.origins["iterations"] == "flag"
    assert settings.origins["goal"].endswith("settings.toml")


def test_the_project_file_is_found_from_a_folder_below_and_its_paths_are_relative_to_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "trainfare.toml").write_text('store = "team.db"\nmachines = "/etc/machines.toml"')
    monkeypatch.chdir(here / "deep" / "down")
    assert read_settings().store == str(here / "team.db")
    assert read_settings().machines == "/etc/machines.toml"


def test_a_database_url_is_not_a_path(here: Path) -> None:
    (here / "trainfare.toml").write_text('store = "postgresql://db.example/trainfare"')
    assert read_settings().store == "postgresql://db.example/trainfare"


def test_a_store_in_memory_is_not_a_path(here: Path) -> None:
    (here / "trainfare.toml").write_text('store = "memory:"')
    assert read_settings().store == "memory:"


def test_an_invalid_argument_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError) as caught:
        read_settings({"iterations": "many"})
    assert caught.value.field == "iterations"


def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_GOAL", "")
    assert read_settings().goal == "cheapest"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations = 1", "at least 2"),
        ("iterations = 2.5", "whole number"),
        ("iterations = true", "whole number"),
        ("iterations = 'many'", "whole number"),
        ("stall_seconds = '-3s'", "duration"),
        ("goal = 'best'", "cheapest or fastest"),
        ("store = 3", "must be text"),
        ("= 3", "cannot be read"),
        ("store = '\xff'", "cannot be read"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_source(here: Path, text: str, message: str) -> None:
    (here / "trainfare.toml").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=message) as error:
        read_settings()
    assert "trainfare.toml" in str(error.value)


def test_a_mistyped_setting_names_the_nearest(here: Path) -> None:
    (here / "trainfare.toml").write_text("iteration = 5")
    with pytest.raises(NotFoundError, match="Did you mean iterations"):
        read_settings()
