"""A program with what it needs, sent to a machine: its environment, its data, and what happens to bad ones."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.test_fetching import Site, site
from tests.app.running.wheels import make_wheel
from tests.app.running.worlds import World, make_world
from tests.needs import need
from trainfare.app.running import supervise
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.last_lines import last_lines
from trainfare.app.running.run import attend
from trainfare.app.running.status import read_output
from trainfare.clouds import sending
from trainfare.clouds.fake import Faults
from trainfare.model.run import Fact
from trainfare.runner.status import RunStatus
from trainfare.store.open import open_history

__all__ = ["site"]

PROGRAM = "import sys, tiny; print(sys.prefix, tiny.VALUE)"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setenv("TRAINFARE_CACHE", str(tmp_path / "cache"))
    made = make_world(tmp_path)
    (tmp_path / "project").mkdir()
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


def outputs(world: World, source: str, **options: object) -> list[str]:
    """The lines that a run prints, which must succeed."""
    run = world.start(source, **options)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    lines = read_output(run.id, settings=world.settings).decode().splitlines()
    assert status.life.outcome == "succeeded", lines
    return lines


def test_requirements_are_installed_once_and_used_again(world: World) -> None:
    make_wheel(world.folder / "project" / "wheels")
    (world.folder / "project" / "requirements.txt").write_text("--no-index\n--find-links ./wheels\ntiny==1.0\n")
    first = outputs(world, PROGRAM)
    assert first[-1].startswith(str(world.folder / "cache" / "environments"))
    assert first[-1].endswith(" 42")
    assert "was made in" in first[-2]
    second = outputs(world, PROGRAM + "  # changed")
    assert "is there already" in second[0]
    assert second[-1] == first[-1]


def test_a_lock_of_uv_is_installed_and_the_code_of_the_project_is_that_of_the_run(world: World) -> None:
    uv = need("uv").find_uv_bin()
    project = world.folder / "project"
    make_wheel(world.folder / "wheels")
    (project / "src" / "mine").mkdir(parents=True)
    (project / "src" / "mine" / "__init__.py").write_text("NAME = 'first'")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.8"\ndependencies = ["tiny"]\n'
        f'[tool.uv]\nfind-links = ["{world.folder / "wheels"}"]\nno-index = true\noffline = true\n'
    )
    subprocess.run([uv, "lock", "--quiet"], cwd=project, check=True, env={**os.environ, "UV_OFFLINE": "1"})
    source = "import tiny, mine; print(mine.NAME, tiny.VALUE)"
    assert outputs(world, source)[-1] == "first 42"
    (project / "src" / "mine" / "__init__.py").write_text("NAME = 'second'")
    again = outputs(world, source)
    assert "is there already" in again[0]
    assert again[-1] == "second 42"


def test_requirements_that_cannot_be_installed_fail_the_run_with_the_reason(world: World) -> None:
    (world.folder / "project" / "requirements.txt").write_text("--no-index\nno-such-package\n")
    (world.folder / "project" / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = []\n')
    run = world.start(PROGRAM)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    text = read_output(run.id, settings=world.settings).decode()
    assert status.life.outcome == "failed"
    assert "what requirements.txt names could not be installed" in text
    assert world.door.machines() == ()


@pytest.mark.loopback
def test_data_is_sent_once_fetched_on_the_machine_and_left_out_of_the_code(world: World, site: Site) -> None:
    project = world.folder / "project"
    (project / "images").mkdir()
    (project / "images" / "a").write_text("pixels")
    (world.folder / "mounted").write_text("there")
    options = {
        "data": (
            str(project / "images"),
            f"labels/train={site.url('/labels')}",
            f"big=machine:{world.folder / 'mounted'}",
        ),
        "allow_private": True,
        "variables": {"NAME": "labels/train"},
    }
    source = (
        "import os, pathlib; root = pathlib.Path(os.environ['TRAINFARE_DATA'])\n"
        "size = (root / os.environ['NAME']).stat().st_size\n"
        "print(pathlib.Path('images/a').read_text(), size, (root / 'big').read_text())\n"
        "print(pathlib.Path('images').is_symlink())\n"
        "pathlib.Path('images/new').write_text('no result')\n"
    )
    first = outputs(world, source, **options)
    assert first[-2:] == ["pixels 6000 there", "True"]
    assert outputs(world, source, **options)[0].startswith("trainfare: the data images is there already")
    assert not world.home.exists() or not list(world.home.iterdir())


def test_data_that_is_not_on_the_machine_fails_the_run_before_the_program(world: World) -> None:
    """Nothing is installed either, because the user says so."""
    (world.folder / "project" / "requirements.txt").write_text("--no-index\nno-such-package\n")
    run = world.start("print('started')", data=("machine:/nowhere/set",), install="none")
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert status.life.outcome == "failed"
    assert last_lines(status, settings=world.settings) == [
        "trainfare: the data set is not on this machine: there is no /nowhere/set."
    ]
    assert not (world.folder / "cache" / "environments").exists()
    assert world.door.machines() == ()


def test_a_program_whose_folder_or_secret_is_gone_when_it_is_sent_fails_and_leaves_no_machine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret-value")
    run = world.start("print('started')", secrets=("TOKEN",))
    monkeypatch.delenv("TOKEN")
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.message) == (
        "failed",
        "The program could not be sent: The secret TOKEN is not set in the process that sends the program.",
    )
    gone = world.start("print('started')")
    (world.folder / "project").rename(world.folder / "elsewhere")
    status = attend(gone.id, settings=world.settings, poll_seconds=0.02)
    assert status.life.outcome == "failed"
    assert "project cannot be read: No such file or directory" in (status.life.message or "")
    assert world.door.machines() == ()


def start_with_large_data(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run whose data takes some forty steps of its supervisor to be sent."""
    monkeypatch.setattr(sending, "LARGEST_PART", 1 << 16)
    monkeypatch.setattr(supervise, "PART_SECONDS", 0.0)
    (world.folder / "images").write_bytes(os.urandom(1 << 20))
    source = "import pathlib; print(pathlib.Path('images').stat().st_size)"
    return world.start(source, data=(str(world.folder / "images"),), install="none").id


def test_large_data_is_sent_in_parts_and_the_next_process_continues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, looks = start_with_large_data(world, monkeypatch), []

    def give_up(status: RunStatus) -> None:
        looks.append(status.life.state)
        if looks.count("setting up") == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attend(run_id, settings=world.settings, poll_seconds=0.01, on_status=give_up)
    machine = world.folder / "provider" / "machines" / f"{run_id}-1" / "0"
    (part,) = (machine / "arriving").glob("*/*")
    arrived = part.stat().st_size
    assert 0 < arrived < 1 << 20
    status = attend(run_id, settings=world.settings, poll_seconds=0.01)
    assert status.life.outcome == "succeeded"
    assert read_output(run_id, settings=world.settings).decode().endswith(f"{1 << 20}\n")
    (sent,) = [fact for fact in status.facts if fact.kind == "program sent"]
    assert sent.sent_bytes is not None
    assert sent.sent_bytes < (1 << 20) - arrived + 500_000, "what had arrived was not sent again"
    assert sent.transfer_seconds is not None
    assert sent.transfer_seconds > 0


def test_a_run_is_stopped_while_its_data_is_being_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id, looks = start_with_large_data(world, monkeypatch), []

    def stop(status: RunStatus) -> None:
        looks.append(status.life.state)
        if looks[-1] == "setting up" and looks.count("setting up") == 12:
            fact = Fact(run_id=run_id, number=0, seen_at=status.now, kind="stop asked", stop_reason="user")
            with open_history(world.settings.store) as history:
                history.facts.append(fact, lease=None)

    status = attend(run_id, settings=world.settings, poll_seconds=0.01, on_status=stop)
    assert (status.life.outcome, status.life.starts) == ("stopped", 0)
    assert looks.count("setting up") <= 14
    assert world.door.machines() == ()
