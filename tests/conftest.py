"""Every test has a home and a terminal of its own: none depends on the settings or the window of whoever runs it."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    for variable, folder in {"HOME": "", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}.items():
        monkeypatch.setenv(variable, str(home / folder))
    for variable in os.environ:
        if variable.startswith("TRAINFARE_") and not variable.startswith("TRAINFARE_TEST_"):
            monkeypatch.delenv(variable)
    for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    return home
