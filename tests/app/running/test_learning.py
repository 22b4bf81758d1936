"""A second estimate knows the machine: start-up times and iterations of an ended run, its accuracy, its results."""

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from tests.app.running.worlds import make_world
from tests.clouds.contract import wait_until
from tests.makers import NOON, make_candidate, make_profile, make_program
from tests.needs import need_installed
from trainfare.app.learning.accuracy import accuracy
from trainfare.app.recommending.estimate import Estimation, estimate
from trainfare.app.running import leftovers
from trainfare.app.running.doors import FAKE_FOLDER, open_doors
from trainfare.app.running.results import fetch_results, result_files
from trainfare.app.running.run import RunOptions, agree, attend, owner_name, start_run, stop_run
from trainfare.cli.main import app
from trainfare.clouds.door import Launch
from trainfare.errors import ExternalError, NotFoundError
from trainfare.model.run import Run
from trainfare.profiler.host import this_host
from trainfare.settings import Settings
from trainfare.store.open import open_history

TRAINING = """
import pathlib, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=4)
for epoch in range(2):
    for (batch,) in data:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
pathlib.Path("out").mkdir()
pathlib.Path("out/notes.txt").write_text("done")
"""


@dataclass(frozen=True)
class Learned:
    """A store in which one run has ended, and the estimates before and after it."""

    settings: Settings
    run: Run
    before: Estimation
    after: Estimation


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    need_installed("torch")
    folder = tmp_path_factory.mktemp("learning")
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAINING)
    settings = Settings(
        store=str(folder / "history.db"),
        runs=str(folder / "runs"),
        machines=str(folder / "machines.toml"),
        prices=str(folder / "prices"),
    )
    profile = make_profile(
        program=make_program(command=(sys.executable, "train.py"), directory=str(project)),
        host=replace(this_host(vm_type=None, gpu=None, gpus=0), gpu=None, gpus=0),
        micro_batch_size=4,
        samples=80,
        iterations_per_epoch=20,
        epochs=2,
        validation_seconds=(),
    )
    with open_history(settings.store) as history:
        history.profiles.add(profile)
    before = estimate(on="local/here", settings=settings)
    options = RunOptions(profile_id=profile.id, on="local/here", results=folder / "home")
    run = agree(None, options, settings=settings)
    start_run(run, settings=settings)
    status = attend(run.id, settings=settings, poll_seconds=0.05)
    assert status.life.outcome == "succeeded"
    return Learned(settings, run, before, estimate(on="local/here", settings=settings))


def test_the_second_estimate_knows_how_long_the_machine_takes_to_start(learned: Learned) -> None:
    assert not {"boot", "setup", "collecting"} & {phase.name for phase in learned.before.estimate.phases}
    phases = {phase.name: phase for phase in learned.after.estimate.phases}
    for name in ("boot", "setup", "collecting"):
        assert "measured in 1 run" in (phases[name].how or "")
        assert phases[name].seconds.low < phases[name].seconds.value < phases[name].seconds.high
    assert learned.after.estimate.phases[-1].name == "collecting"


def test_the_iterations_of_the_run_are_a_profile_of_the_machine(learned: Learned) -> None:
    with open_history(learned.settings.store) as history:
        profile = history.profiles.get(f"p{learned.run.id}")
    assert (profile.origin, profile.run_iterations, len(profile.checkpoint_seconds)) == ("run", 40, 2)
    assert len(profile.iteration_seconds) == 40
    assert (profile.init_seconds or 0) > 0.1, "importing PyTorch takes longer"
    assert learned.after.estimate.basis == "measured"
    assert learned.after.estimate.iteration_seconds.value < learned.before.estimate.iteration_seconds.value / 2, (
        "the profile that was made up says 0.1 s, the program needs about 1 ms"
    )


def test_the_accuracy_has_each_line_of_the_run(learned: Learned) -> None:
    found = accuracy(settings=learned.settings)
    (run,) = found.runs
    lines = {line.line: line for line in run.lines}
    assert {"boot", "setup", "sending", "first iteration", "steady iterations", "collecting", "in all"} <= lines.keys()
    assert lines["boot"].predicted_seconds is None
    assert lines["steady iterations"].is_inside is False
    assert lines["in all"].error is not None
    assert {one.line for one in found.summaries} == {
        "initialisation",
        "first iteration",
        "steady iterations",
        "in all",
    }


def test_accuracy_prints_a_table_a_record_and_a_figure(learned: Learned, tmp_path: Path) -> None:
    store = ["--store", learned.settings.store]
    shown = CliRunner().invoke(app, ["accuracy", *store, "--plot", str(tmp_path / "accuracy.json")])
    assert shown.exit_code == 0, shown.output
    assert "steady iterations" in shown.output
    figure = json.loads((tmp_path / "accuracy.json").read_text())
    assert "Predicted and observed" in figure["title"]["text"][0]
    record = json.loads(CliRunner().invoke(app, ["accuracy", *store, "--json"]).output)
    assert record["runs"][0]["run"] == learned.run.id
    assert {"line", "of", "runs", "mean_absolute_error", "bias", "share_inside"} == record["summary"][0].keys()


def test_results_that_are_at_home_are_copied_and_verified(learned: Learned, tmp_path: Path) -> None:
    files = result_files(learned.run.id, settings=learned.settings)
    assert sorted(files) == ["model.pt", "out/notes.txt"]
    found = fetch_results(learned.run.id, tmp_path / "copy", settings=learned.settings)
    assert found.complete
    for name, file in files.items():
        assert hashlib.sha256((tmp_path / "copy" / name).read_bytes()).hexdigest() == file.sha256
    notes = Path(learned.run.results_directory) / "out/notes.txt"
    notes.write_text("changed")
    try:
        with pytest.raises(ExternalError, match="not all of them are there as they were"):
            fetch_results(learned.run.id, tmp_path / "again", settings=learned.settings)
    finally:
        notes.write_text("done")


def test_results_of_a_program_that_runs_are_fetched_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    world = make_world(tmp_path)
    run = world.start("import time\nopen('half.txt', 'w').write('so far')\nprint('ready', flush=True)\ntime.sleep(600)")
    attend(run.id, settings=world.settings, until_started=True, poll_seconds=0.02)
    shell = world.door.shell(world.door.machines()[0])
    wait_until(lambda: shell.read("output") == b"ready\n", "the first file")
    found = fetch_results(run.id, tmp_path / "now", settings=world.settings)
    assert (sorted(found.files), found.complete) == (["half.txt"], False)
    assert (tmp_path / "now" / "half.txt").read_text() == "so far"
    assert stop_run(run.id, settings=world.settings).life.outcome == "stopped"
    assert sorted(result_files(run.id, settings=world.settings)) == ["half.txt"]
    with pytest.raises(NotFoundError):
        fetch_results("r0", tmp_path, settings=world.settings)


def test_a_program_that_cannot_be_predicted_on_a_machine_can_be_run_there(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "history.db"), runs=str(tmp_path / "runs"))
    once = make_profile(program=make_program(directory=str(tmp_path)), iteration_seconds=(1.0,))
    with open_history(settings.store) as history:
        history.profiles.add(once)
    run = agree(None, RunOptions(profile_id=once.id, on="local/here"), settings=settings)
    assert (run.program, run.estimate) == (once.program, None)


def test_without_a_run_accuracy_says_how_to_start(tmp_path: Path) -> None:
    store = str(tmp_path / "history.db")
    open_history(store).close()
    shown = CliRunner().invoke(app, ["accuracy", "--store", store])
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "No run has ended yet" in shown.stderr


def test_what_no_run_needs_is_ended_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        store=str(tmp_path / "history.db"),
        runs=str(tmp_path / "runs"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
    )
    open_history(settings.store).close()
    Path(settings.machines).write_text("[broken")
    assert leftovers.end_leftovers(settings) == leftovers.Leftovers(), "other commands report that file"
    Path(settings.machines).unlink()
    door = open_doors(settings)["local"]
    for owner in (owner_name(settings), "eve@elsewhere/0"):
        run_id = "r0" if owner == owner_name(settings) else "r1"
        candidate = replace(make_candidate(), offer=door.offers()[0])
        door.launch(Launch(owner=owner, run_id=run_id, attempt=1, candidate=candidate, expires_at=NOON))
    for name in ("store", "runs", "machines", "prices"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", getattr(settings, name))
    assert "note: ended what no run needs: r0-1\n" in CliRunner().invoke(app, ["runs", "list"]).stderr
    assert [machine.run_id for machine in door.machines()] == ["r1"]
    monkeypatch.setattr(type(door), "terminate", lambda _door, _key: Event().wait(20))
    door.launch(Launch(owner=owner_name(settings), run_id="r2", attempt=1, candidate=candidate, expires_at=NOON))
    assert leftovers.end_leftovers(settings, within_seconds=0.05).pending == ("r2-1",), (
        "a silent host is not waited for"
    )
