"""`trainfare probe`: the printed plan, its JSON, and a probe that runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.app.slice_makers import LOCAL, profile_at_once, slice_settings
from trainfare.cli.commands.probe import probe
from trainfare.errors import UsageError
from trainfare.settings import Settings

app = typer.Typer()
app.command()(probe)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return slice_settings(tmp_path)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> list[str]:
    """The slices that were probed."""
    return profile_at_once(monkeypatch, settings, tmp_path)


@pytest.fixture(autouse=True)
def here(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("store", "machines", "logs"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", str(getattr(settings, name)))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--only", f"provider={LOCAL.providers[0]}", "--exclude", "here"])


def test_the_plan_names_the_first_machine_and_when_to_stop(probed: list[str]) -> None:
    result = run("--plan", "--epochs", "500")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Start on  local two")
    assert "stop" in result.output
    assert probed == []


def test_the_plan_as_json_has_every_number(probed: list[str]) -> None:
    found = json.loads(run("--plan", "--epochs", "500", "--json").stdout)
    assert found["profiles"] == ["pfirst"]
    assert found["start"]["machine"] == "local/two"
    assert {"probes", "stop_when", "expected_usd", "unprobed_usd", "unreached", "sentences"} <= set(found)
    assert probed == []


def test_each_probe_is_printed_and_then_the_recommendation(probed: list[str]) -> None:
    result = run("--epochs", "500", "--quiet")
    assert result.exit_code == 0, result.output
    assert "probing local two: it is expected to be best" in result.output
    assert "profile ptwo stored" in result.output
    assert "Train on  local one" in result.output
    assert probed[0] == "local/two"


def test_the_short_help_fits_a_line() -> None:
    assert probe.__doc__ is not None
    assert len(probe.__doc__.splitlines()[0]) <= 60


def test_a_plan_changes_nothing_in_the_folder(probed: list[str], tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    run("--plan", "--epochs", "500")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert probed == []


def test_an_invalid_time_is_an_error(probed: list[str]) -> None:
    result = run("--epochs", "500", "--max-time", "soon")
    assert isinstance(result.exception, UsageError)
    assert result.exception.field == "max_time"
    assert probed == []
