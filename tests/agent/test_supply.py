"""The environment of a launch: made once on a host, complete or absent."""

import ast
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from trainfare.agent import supply

UV = """#!/bin/sh
echo "$@" >> "$CALLS"
[ -n "$FAILING" ] && exit 2
mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"
ln -s "$PYTHON" "$UV_PROJECT_ENVIRONMENT/bin/python"
"""
"""A program of this name that notes how it was called."""


class Launch:
    """The folder of a launch, on a host with its own cache and its own uv."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.calls = folder, folder / "calls"
        (folder / "programs").mkdir()
        (folder / "programs" / "uv").write_text(UV)
        (folder / "programs" / "uv").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder / 'programs'}:/usr/bin:/bin")
        monkeypatch.setenv("TRAINFARE_CACHE", str(folder / "cache"))
        monkeypatch.setenv("CALLS", str(self.calls))
        monkeypatch.setenv("PYTHON", sys.executable)

    def supply(self, name: str, **environment: Any) -> dict[str, Any]:
        """Supply a launch of this name; returns what it was supplied with."""
        recipe = {"named_by": "uv.lock", "digest": "d", "arguments": [], "locked": True, "reusable": True}
        launch = self.folder / name
        (launch / "work").mkdir(parents=True, exist_ok=True)
        (launch / "supply.json").write_text(
            json.dumps({"environment": {**recipe, "source_roots": ["src"], "scripts": {}, **environment}})
        )
        supply.supply(launch)
        return json.loads((launch / "supplied.json").read_text())  # type: ignore[no-any-return] # written above

    @property
    def times_made(self) -> int:
        return len(self.calls.read_text().splitlines())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    return Launch(tmp_path, monkeypatch)


def test_it_is_written_in_python_3_8() -> None:
    ast.parse(Path(supply.__file__).read_text(), feature_version=(3, 8))


def test_launches_that_need_the_same_environment_share_it(host: Launch) -> None:
    first, second = host.supply("a"), host.supply("b")
    assert (first["PATH"], first["VIRTUAL_ENV"]) == (second["PATH"], second["VIRTUAL_ENV"])
    assert second["PYTHONPATH"] == [str(host.folder / "b" / "work" / "src")]
    assert host.times_made == 1
    assert host.supply("c", digest="another")["PATH"] != first["PATH"]


def test_an_environment_that_was_not_completed_is_made_anew(host: Launch) -> None:
    place = Path(host.supply("a")["VIRTUAL_ENV"])
    (place / "complete").unlink()
    (place / "half").touch()
    host.supply("b")
    assert host.times_made == 2
    assert not (place / "half").exists()


def test_a_failed_installation_is_said_and_leaves_nothing_that_counts(
    host: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILING", "1")
    with pytest.raises(supply.SupplyError, match=r"what uv\.lock locks could not be installed.*exit code 2"):
        host.supply("a")
    monkeypatch.delenv("FAILING")
    assert Path(host.supply("a")["VIRTUAL_ENV"], "complete").exists()


def test_an_environment_of_one_launch_is_in_its_folder(host: Launch) -> None:
    assert host.supply("a", reusable=False)["VIRTUAL_ENV"] == str(host.folder / "a" / "environment")


def test_two_launches_at_once_make_it_once(host: Launch) -> None:
    code = "import sys; from pathlib import Path; from trainfare.agent import supply; supply.supply(Path(sys.argv[1]))"
    for name in ("a", "b"):
        host.supply(name, digest=name)
        (host.folder / name / "supply.json").write_text(
            (host.folder / name / "supply.json").read_text().replace(f'"digest": "{name}"', '"digest": "same"')
        )
    started = [subprocess.Popen([sys.executable, "-c", code, str(host.folder / name)]) for name in ("a", "b")]
    assert [process.wait(60) for process in started] == [0, 0]
    assert host.times_made == 3


def test_scripts_of_the_project_are_commands(host: Launch) -> None:
    (host.folder / "a" / "work" / "src").mkdir(parents=True)
    (host.folder / "a" / "work" / "src" / "fit.py").write_text("class Fit:\n    def run(): return 7\n")
    supplied = host.supply("a", scripts={"fit": "fit:Fit.run"})
    environment = {"PYTHONPATH": supplied["PYTHONPATH"][0]}
    assert subprocess.run([supplied["PATH"][0] + "/fit"], env=environment, check=False).returncode == 7


def test_a_machine_that_can_make_no_environment_says_what_to_install(
    host: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "has_ensurepip", lambda: False)
    monkeypatch.setattr(supply, "has_pip", lambda: False)
    (host.folder / "programs" / "uv").unlink()
    with pytest.raises(supply.SupplyError, match="apt install python3-venv"):
        host.supply("a", locked=False, arguments=["tiny"])


def age(host: Launch, key: str, days: float) -> None:
    """Let a place look as if it was last used so many days ago."""
    for users in (host.folder / "cache").glob(f"*/{key}.users"):
        os.utime(users, (time.time() - days * 86400,) * 2)


def end(host: Launch, *names: str) -> None:
    """Remove the folders of launches, as their termination does."""
    for name in names:
        shutil.rmtree(host.folder / name)


def test_what_a_launch_uses_is_never_removed_and_the_rest_by_its_age(host: Launch) -> None:
    used, old, new = (Path(host.supply(name, digest=name)["VIRTUAL_ENV"]) for name in ("used", "old", "new"))
    end(host, "old", "new")
    for place, days in ((used, 100), (old, 40), (new, 2)):
        age(host, place.name, days)
    listed = {each["key"]: each for each in supply.cached()}
    assert [listed[place.name]["in_use"] for place in (used, old, new)] == [True, False, False]
    assert listed[old.name]["name"] == "uv.lock"
    assert [each["key"] for each in supply.clean(30 * 86400, math.inf)] == [old.name]
    assert [each["key"] for each in supply.clean(0, 0)] == [new.name]
    assert used.exists()
    assert not old.exists()
    assert Path(host.supply("again", digest="old")["VIRTUAL_ENV"]).exists(), "it is made anew"


def test_the_longest_unused_goes_first_when_there_is_too_much(host: Launch) -> None:
    places = [Path(host.supply(name, digest=name)["VIRTUAL_ENV"]) for name in "abc"]
    end(host, *"abc")
    for place, days in zip(places, (1, 3, 2), strict=True):
        age(host, place.name, days)
        (place / "large").write_bytes(bytes(1 << 20))
        record = json.loads((place / "complete").read_text())
        (place / "complete").write_text(json.dumps({**record, "size": 1 << 20}))
    removed = supply.clean(math.inf, 2 << 20)
    assert [each["key"] for each in removed] == [places[1].name]


def test_a_place_that_is_just_being_made_is_left_alone(host: Launch) -> None:
    place = Path(host.supply("a")["VIRTUAL_ENV"])
    end(host, "a")
    with supply.locked(place.with_name(place.name + ".lock")):
        assert supply.clean(0, 0) == []
    assert [each["key"] for each in supply.clean(0, 0)] == [place.name]


def test_each_launch_keeps_the_cache_within_its_bounds(host: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    old = Path(host.supply("a")["VIRTUAL_ENV"])
    end(host, "a")
    age(host, old.name, 100)
    host.supply("b", digest="another")
    assert not old.exists()
    assert "removed uv.lock" in capsys.readouterr().out
