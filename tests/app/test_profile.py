"""Measuring and keeping, with real programs and a real store."""

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainfare.app.profile import ProfilingFailed, profile
from trainfare.errors import AskedWrongly, NotFound, StoreFailed
from trainfare.settings import Settings
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "history.db"), iterations=20, stall_seconds=60)


def test_profile_is_kept_as_it_was_measured(settings: Settings) -> None:
    found = profile(
        (sys.executable, "plain.py", "--sleep", "0"), settings=settings, directory=PROGRAMS, on="aws/p3.2xlarge"
    )
    assert found.ending == "enough"
    assert found.host.vm_type == "aws/p3.2xlarge"
    assert found.program.name == "plain.py"
    with open_history(settings.store) as history:
        assert history.profiles() == (found,)


def test_program_that_ends_early_has_a_profile(settings: Settings) -> None:
    found = profile(
        (sys.executable, "plain.py", "--epochs", "1", "--sleep", "0"), settings=settings, directory=PROGRAMS
    )
    assert found.ending == "finished"
    assert len(found.iteration_seconds) == 11
    assert len(found.validation_seconds) == 1


def test_program_that_crashes_keeps_what_it_showed(settings: Settings) -> None:
    command = (sys.executable, "plain.py", "--crash-at", "5")
    with pytest.raises(ProfilingFailed, match="failed after 4 iterations with exit code 1") as failure:
        profile(command, settings=settings, directory=PROGRAMS)
    kept = failure.value.profile
    assert kept is not None
    assert (kept.ending, len(kept.iteration_seconds)) == ("failed", 4)
    assert kept.id in str(failure.value)
    assert "RuntimeError: the data is spoilt" in str(failure.value)


def test_crash_after_one_iteration_keeps_nothing(settings: Settings) -> None:
    with pytest.raises(ProfilingFailed, match="failed after 1 iteration") as failure:
        profile((sys.executable, "plain.py", "--crash-at", "2"), settings=settings, directory=PROGRAMS)
    assert failure.value.profile is None
    with open_history(settings.store) as history:
        assert history.profiles() == ()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ((sys.executable, "numpy_loop.py"), "imported no framework that is listened to"),
        ((sys.executable, "-c", "import torch"), "imported PyTorch, but no optimizer took a step"),
        (("true",), "The probe never got into it"),
        (("env", "-u", "PYTHONPATH", sys.executable, "-c", "print(1)"), "The probe never got into it"),
    ],
)
def test_program_that_does_not_train_is_told_what_was_seen(
    settings: Settings, command: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ProfilingFailed, match="ran to its end without one training iteration") as failure:
        profile(command, settings=settings, directory=PROGRAMS)
    assert why in str(failure.value)


def test_program_that_trains_with_something_unknown_is_told_its_name(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("__version__ = '0.10'")
    (tmp_path / "train.py").write_text("import jax")
    with pytest.raises(ProfilingFailed, match="It imported jax, which is not listened to yet"):
        profile((sys.executable, "train.py"), settings=settings, directory=tmp_path)


def test_folder_that_is_not_there(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="there is no folder"):
        profile(("true",), settings=settings, directory=tmp_path / "nowhere")


def test_store_that_cannot_be_written_is_known_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(store=str(tmp_path / "file" / "history.db"))
    with pytest.raises(StoreFailed):
        profile(("touch", str(tmp_path / "ran")), settings=settings, directory=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_host_with_the_name_of_an_own_machine_is_that_machine(tmp_path: Path, settings: Settings) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text(f'["{socket.gethostname()}"]\nusd_per_hour = 0.1\n')
    found = profile(
        (sys.executable, "plain.py", "--sleep", "0"),
        settings=replace(settings, machines=str(machines)),
        directory=PROGRAMS,
        trace_operations=False,
    )
    assert found.host.vm_type == f"own/{socket.gethostname()}"


def test_a_machine_that_is_in_no_catalog_is_refused_before_the_program_runs(settings: Settings) -> None:
    with pytest.raises(NotFound, match=r"there is no machine aws/g5\.xlage\. Did you mean aws/g5\.xlarge"):
        profile(("does-not-exist",), settings=settings, on="aws/g5.xlage")
