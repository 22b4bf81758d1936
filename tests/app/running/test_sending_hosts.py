"""Environments and data on a host that is reached by a real ssh: made and sent once, used by the next run."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.app.running.wheels import make_wheel
from tests.rigs.fixtures import fresh_rig, needs_hosts
from tests.rigs.hosts import HostRig
from trainfare.app.running.run import RunOptions, agree, attend, start_run
from trainfare.app.running.status import read_output
from trainfare.cli.main import app
from trainfare.errors import UsageError
from trainfare.settings import Settings

__all__ = ["fresh_rig"]

pytestmark = needs_hosts

MAIN = """
import os, sys, tiny
print(sys.prefix, tiny.VALUE, open("digits/train/a").read(), os.listdir(os.environ["TRAINFARE_DATA"]))
open("model.pt", "w").write("weights")
"""


def test_the_second_run_of_a_wheel_finds_its_environment_and_data_on_the_host(
    fresh_rig: HostRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = fresh_rig.add("h1")
    settings = Settings(
        store=str(tmp_path / "h.db"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
        runs=str(tmp_path / "runs"),
    )
    wheel = make_wheel(
        tmp_path,
        name="trainer-1.0-py3-none-any.whl",
        **{
            "requirements.txt": "--no-index\n--find-links ./wheels\ntiny==1.0\n",
            "main.py": MAIN,
        },
    )
    _add_file(wheel, "wheels/tiny-1.0-py3-none-any.whl", make_wheel(tmp_path / "w").read_bytes())
    (tmp_path / "digits" / "train").mkdir(parents=True)
    (tmp_path / "digits" / "train" / "a").write_text("seven")
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    printed = []
    for _ in range(2):
        options = RunOptions(on="ssh/h1", data=(str(tmp_path / "digits"),))
        run = agree([str(wheel)], options, settings=settings)
        start_run(run, settings=settings)
        ended = attend(run.id, settings=settings, poll_seconds=0.1)
        printed.append(read_output(run.id, settings=settings).decode())
        assert ended.life.outcome == "succeeded", printed[-1]
    first, second = (text.splitlines()[-1] for text in printed)
    assert first == second
    assert first.startswith("/srv/home/.cache/trainfare/environments/")
    assert first.endswith(" 42 seven ['digits']")
    assert "was made in" in printed[0]
    assert printed[1].count("is there already") == 2
    assert (tmp_path / "home" / "model.pt").read_text() == "weights"
    assert host.run("ls", "-A", "/srv/home/.trainfare") == b""


def _add_file(archive: Path, name: str, content: bytes) -> None:
    import zipfile

    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(name, content)


def test_what_is_kept_on_a_host_is_listed_and_cleaned(
    fresh_rig: HostRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = fresh_rig.add("h1")
    (tmp_path / "machines.toml").write_text('[box]\nssh = "h1"\n[off]\nssh = "nowhere"\n')
    monkeypatch.setenv("TRAINFARE_MACHINES", str(tmp_path / "machines.toml"))
    monkeypatch.setenv("TRAINFARE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("TRAINFARE_CACHE", str(tmp_path / "cache"))
    place = "/srv/home/.cache/trainfare/data/0123456789abcdef"
    script = (
        'mkdir -p "$1" && head -c 3000000 /dev/zero > "$1/content" && echo \'{"source": "digits"}\' > "$1/complete"'
    )
    host.run("sh", "-c", script, "sh", place)
    listed = CliRunner().invoke(app, ["hosts", "list"])
    assert "ssh/box: 0.00 GB\n  data digits (01234567), 0.00 GB, unused for" in listed.output
    assert "ssh/off: ssh cannot connect to nowhere" in listed.output
    assert "local/here: 0.00 GB" in listed.output
    kept = CliRunner().invoke(app, ["hosts", "clean", "ssh/box"])
    assert kept.output == "ssh/box: nothing to remove\n"
    cleaned = json.loads(CliRunner().invoke(app, ["hosts", "clean", "ssh/box", "--keep", "0.001", "--json"]).output)
    assert [each["name"] for each in cleaned[0]["places"]] == ["digits"]
    assert cleaned[0]["bytes"] >= 3_000_000
    assert b"0123456789abcdef\n" not in host.run("ls", "/srv/home/.cache/trainfare/data")
    refused = CliRunner().invoke(app, ["hosts", "clean", "aws/p3.2xlarge"])
    assert isinstance(refused.exception, UsageError)
