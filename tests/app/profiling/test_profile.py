"""Measuring and saving, with real programs and a real store."""

import json
import shutil
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pythons import python_with
from trainfare.app.profiling.failures import ProfilingError
from trainfare.app.profiling.profile import profile
from trainfare.errors import NotFoundError, StoreError, UsageError
from trainfare.settings import Settings
from trainfare.store.open import open_history

pytestmark = pytest.mark.heavy

if TYPE_CHECKING:
    from trainfare.profiler.workspace import Workspace

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "history.db"), iterations=20, stall_seconds=60)


def test_profile_is_saved_as_measured(settings: Settings) -> None:
    found = profile(
        (sys.executable, "plain.py", "--sleep", "0"), settings=settings, directory=PROGRAMS, on="aws/p3.2xlarge"
    )
    assert found.ending == "enough"
    assert found.host.vm_type == "aws/p3.2xlarge"
    assert found.program.name == "plain.py"
    with open_history(settings.store) as history:
        assert history.profiles.all() == (found,)


def test_program_that_ends_early_has_a_profile(settings: Settings) -> None:
    found = profile(
        (python_with("torch"), "plain.py", "--epochs", "1", "--sleep", "0"), settings=settings, directory=PROGRAMS
    )
    assert found.ending == "finished"
    assert len(found.iteration_seconds) == 11
    assert len(found.validation_seconds) == 1


def test_iterations_before_a_crash_are_saved(settings: Settings) -> None:
    command = (python_with("torch"), "plain.py", "--crash-at", "5")
    with pytest.raises(ProfilingError, match="failed after 4 iterations with exit code 1") as failure:
        profile(command, settings=settings, directory=PROGRAMS)
    saved = failure.value.profile
    assert saved is not None
    assert (saved.ending, len(saved.iteration_seconds)) == ("failed", 4)
    assert saved.id in str(failure.value)
    assert "RuntimeError: the data is corrupt" in str(failure.value)


def test_crash_after_one_iteration_saves_nothing(settings: Settings) -> None:
    with pytest.raises(ProfilingError, match="failed after 1 iteration") as failure:
        profile((python_with("torch"), "plain.py", "--crash-at", "2"), settings=settings, directory=PROGRAMS)
    assert failure.value.profile is None
    with open_history(settings.store) as history:
        assert history.profiles.all() == ()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ((sys.executable, "numpy_loop.py"), "imported no supported framework"),
        ((sys.executable, "-c", "import torch"), "imported PyTorch, but there was neither a step"),
        (("true",), "The probe was not loaded"),
        (("env", "-u", "PYTHONPATH", sys.executable, "-c", "print(1)"), "The probe was not loaded"),
    ],
)
def test_error_of_a_program_that_does_not_train_gives_the_reason(
    settings: Settings, command: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ProfilingError, match="ended without a training iteration") as failure:
        profile(command, settings=settings, directory=PROGRAMS)
    assert reason in str(failure.value)


def test_unsupported_framework_is_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "paddle.py").write_text("__version__ = '3.0'")
    (tmp_path / "train.py").write_text("import paddle")
    with pytest.raises(ProfilingError, match="It imported paddle, which is not supported yet"):
        profile((sys.executable, "train.py"), settings=settings, directory=tmp_path)


def test_missing_folder_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        profile(("true",), settings=settings, directory=tmp_path / "nowhere")


def test_unwritable_store_is_reported_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(store=str(tmp_path / "file" / "history.db"))
    with pytest.raises(StoreError):
        profile(("touch", str(tmp_path / "ran")), settings=settings, directory=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_host_with_the_name_of_an_own_machine_is_that_machine(tmp_path: Path, settings: Settings) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text(f'["{socket.gethostname()}"]\nusd_per_hour = 0.1\n')
    found = profile(
        (python_with("torch"), "plain.py", "--sleep", "0"),
        settings=replace(settings, machines=str(machines)),
        directory=PROGRAMS,
        trace_operations=False,
    )
    assert found.host.vm_type == f"own/{socket.gethostname()}"


def test_unknown_machine_is_refused_before_the_program_runs(settings: Settings) -> None:
    with pytest.raises(NotFoundError, match=r"there is no machine aws/g5\.xlage\. Did you mean aws/g5\.xlarge"):
        profile(("does-not-exist",), settings=settings, on="aws/g5.xlage")


def test_without_a_number_it_measures_until_steady_and_traces_one_more(settings: Settings) -> None:
    found = profile(
        (python_with("torch"), "plain.py", "--epochs", "100000"),  # on a busy machine times are steady later
        settings=replace(settings, iterations=None),
        directory=PROGRAMS,
    )
    assert found.ending == "enough"
    assert 11 <= len(found.iteration_seconds) < 100_000
    assert found.validation_seconds != ()
    assert found.operations != ()


def test_times_of_complete_epochs_agree_with_the_program(settings: Settings, tmp_path: Path) -> None:
    for name in ("plain.py", "without_compiler.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    output: list[bytes] = []
    command = (python_with("torch"), "plain.py", "--epochs", "30", "--sleep", "0.02")
    found = profile(command, settings=settings, directory=tmp_path, epochs=2, on_output=output.append)
    assert found.ending == "enough"
    assert [epoch.number for epoch in found.curve][:2] == [1, 2]
    assert len(found.curve) < 10
    own = json.loads(next(line for line in b"".join(output).splitlines() if line.startswith(b"{")))
    second = sum(own["iteration_seconds"][11:22]) + own["validations"][1]
    # Between its iterations the program also starts loaders; the probe writes; and this machine is shared.
    assert found.curve[1].seconds == pytest.approx(second, rel=0.15)
    assert found.curve[1].loss == pytest.approx(sum(own["losses"][11:22]) / 11)


def test_last_epoch_of_a_finished_program_is_complete(settings: Settings) -> None:
    command = (python_with("torch"), "plain.py", "--epochs", "2", "--sleep", "0")
    found = profile(command, settings=settings, directory=PROGRAMS, epochs=2)
    assert found.ending == "finished"
    assert [epoch.number for epoch in found.curve] == [1, 2]
    assert found.operations != ()


def test_training_goes_on_until_the_loss_stops_improving(settings: Settings) -> None:
    found = profile((python_with("torch"), "settles.py"), settings=settings, directory=PROGRAMS, until_stable=True)
    assert found.ending == "enough"
    losses = [epoch.loss for epoch in found.curve]
    assert 12 < len(losses) < 40
    assert losses[11] == losses[-1] == 0.5


def test_time_limit_ends_a_training_that_is_never_stable(settings: Settings) -> None:
    command = (sys.executable, "ticks.py", "--obedient")
    found = profile(command, settings=settings, directory=PROGRAMS, until_stable=True, patience=10_000, max_seconds=2.0)
    assert found.ending == "time_limit"
    assert sum(found.iteration_seconds) < 30


WRITER = """
import pathlib, torch
pathlib.Path("notes.txt").write_text("overwritten")
pathlib.Path("runs").mkdir(exist_ok=True)
print(pathlib.Path("../neighbour.txt").read_text(), pathlib.Path("big.csv").stat().st_size)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
try:
    for _ in range(1000):
        (weight**2).sum().backward()
        optimizer.step()
finally:
    torch.save({"weight": weight}, "runs/model.pt")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "neighbour.txt").write_text("found")
    (project / "train.py").write_text(WRITER)
    (project / "notes.txt").write_text("mine")
    with (project / "big.csv").open("wb") as file:
        file.truncate(30_000_000)
    return project


def test_program_does_not_change_its_folder(settings: Settings, project: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    places: list[Workspace] = []
    found = profile(
        (python_with("torch", "torch._dynamo"), "train.py"),
        settings=settings,
        directory=project,
        on_workspace=places.append,
    )
    assert found.program.directory == str(project)
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before
    assert places[0].changes.written == ("notes.txt", "runs/model.pt")
    assert places[0].changes.written_bytes > 1000
    assert not places[0].directory.exists()


def test_program_in_place_writes_to_its_folder(settings: Settings, project: Path) -> None:
    profile((python_with("torch", "torch._dynamo"), "train.py"), settings=settings, directory=project, in_place=True)
    assert (project / "notes.txt").read_text() == "overwritten"
    assert (project / "runs" / "model.pt").exists()


def test_copy_with_written_files_can_be_kept(settings: Settings, project: Path) -> None:
    places: list[Workspace] = []
    profile(
        (python_with("torch", "torch._dynamo"), "train.py"),
        settings=settings,
        directory=project,
        keep_files=True,
        on_workspace=places.append,
    )
    assert (places[0].directory / "runs" / "model.pt").exists()
    shutil.rmtree(places[0].directory.parents[len(project.parts) - 2])


def test_path_of_the_copy_in_a_traceback_is_explained(settings: Settings, project: Path) -> None:
    (project / "train.py").write_text("import os; raise RuntimeError(os.getcwd())")
    with pytest.raises(ProfilingError, match=f"It ran in a copy: .* in its output is your {project}"):
        profile((sys.executable, "train.py"), settings=settings, directory=project)


def test_missing_temporary_folder_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nowhere")
    with pytest.raises(UsageError, match=r"no folder for temporary files .* TMPDIR"):
        profile(("true",), settings=settings, directory=PROGRAMS)


def test_program_on_a_slice_has_only_the_cores_of_the_slice(settings: Settings, tmp_path: Path) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text("[one]\nslice = true\nusd_per_hour = 0.05\nvcpus = 1\n")
    code = (
        "import os; print(len(os.sched_getaffinity(0))); import runpy; runpy.run_path('plain.py', run_name='__main__')"
    )
    printed: list[bytes] = []
    found = profile(
        (sys.executable, "-c", code),
        settings=replace(settings, machines=str(machines)),
        directory=PROGRAMS,
        on="local/one",
        on_output=printed.append,
    )
    assert b"".join(printed).startswith(b"1\n")
    assert (found.host.vm_type, found.host.cores) == ("local/one", 1)


def test_what_the_user_states_is_stored_with_what_was_measured(settings: Settings) -> None:
    found = profile(
        (python_with("torch"), "batches.py"),
        settings=settings,
        directory=PROGRAMS,
        iterations=4,
        trace_operations=False,
        steps=600,
        samples=4096,
        batch_size=8,
    )
    assert (found.planned_iterations, found.samples, found.iterations_per_epoch) == (600, 4096, 512)
    assert found.sources["planned_iterations"] == found.sources["samples"] == "you"
    with pytest.raises(UsageError, match="What was measured is stored as p"):
        profile(
            (python_with("torch"), "batches.py"),
            settings=settings,
            directory=PROGRAMS,
            iterations=4,
            trace_operations=False,
            tokens=1e9,
        )
    with open_history(settings.store) as history:
        assert len(history.profiles.all()) == 2
