"""Every test has a home of its own: none reads or writes the settings, store or prices of whoever runs it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    for variable, folder in {"HOME": "", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}.items():
        monkeypatch.setenv(variable, str(home / folder))
    for variable in ("TRAINFARE_STORE", "TRAINFARE_MACHINES", "TRAINFARE_PRICES"):
        monkeypatch.delenv(variable, raising=False)
    return home
