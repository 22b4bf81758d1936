"""`trainfare probe`: the plan on the screen and as JSON, and a probe as it goes."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.app.recommending.test_probe import LOCAL, probed, settings  # noqa: F401 # fixtures
from trainfare.cli.probe import probe
from trainfare.errors import UsageError
from trainfare.settings import Settings

app = typer.Typer()
app.command()(probe)


@pytest.fixture(autouse=True)
def here(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    for name in ("store", "machines", "logs"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", str(getattr(settings, name)))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--only", f"provider={LOCAL.providers[0]}"])


def test_the_plan_says_where_to_begin_and_when_to_stop(probed: list[str]) -> None:  # noqa: F811
    result = run("--plan", "--epochs", "500")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Begin on  local two")
    assert "stop" in result.output
    assert probed == []


def test_the_plan_as_json_has_every_number(probed: list[str]) -> None:  # noqa: F811
    found = json.loads(run("--plan", "--epochs", "500", "--json").stdout)
    assert found["profiles"] == ["pfirst"]
    assert found["start"]["machine"] == "local/two"
    assert {"probes", "stop_when", "expected_usd", "unprobed_usd", "unreached", "sentences"} <= set(found)
    assert probed == []


def test_each_step_is_told_and_the_recommendation_ends_it(probed: list[str]) -> None:  # noqa: F811
    result = run("--epochs", "500", "--quiet")
    assert result.exit_code == 0, result.output
    assert "probing local two: it is expected to be best" in result.output
    assert "profile ptwo stored" in result.output
    assert "Train on  local one" in result.output
    assert probed[0] == "local/two"


def test_the_short_help_fits_a_line() -> None:
    assert probe.__doc__ is not None
    assert len(probe.__doc__.splitlines()[0]) <= 60


def test_it_changes_nothing_in_the_folder(probed: list[str], tmp_path: Path) -> None:  # noqa: F811
    before = sorted(path.name for path in tmp_path.iterdir())
    run("--plan", "--epochs", "500")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert probed == []


def test_a_time_that_is_none_is_said(probed: list[str]) -> None:  # noqa: F811
    result = run("--epochs", "500", "--max-time", "soon")
    assert isinstance(result.exception, UsageError)
    assert result.exception.field == "max_time"
    assert probed == []
