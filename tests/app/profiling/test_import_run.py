"""A past run becomes a profile that is kept."""

from pathlib import Path
from typing import get_args

import pytest

from tests.makers import make_profile
from tests.profiler.past_runs.samples import SAMPLES
from trainfare.app.profiling.import_run import KINDS, NEEDED, Kind, import_run, not_known
from trainfare.app.profiling.profiles import list_profiles, show_profile
from trainfare.app.recommending.recommend import recommend
from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import Origin
from trainfare.settings import Settings, read_settings

SOURCES: dict[Kind, Path] = {
    "tensorboard": SAMPLES / "lightning",
    "hf": SAMPLES / "hf",
    "keras-csv": SAMPLES / "keras.csv",
    "mlflow": SAMPLES / "mlruns",
    "wandb": SAMPLES / "wandb",
    "csv": SAMPLES / "keras.csv",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"store": str(tmp_path / "history.db")})


def test_every_kind_is_an_origin_and_has_a_sample() -> None:
    assert set(KINDS) == set(SOURCES) == set(get_args(Origin)) - {"probe", "code"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_returned_is_what_is_kept(kind: Kind, settings: Settings) -> None:
    profile = import_run(kind, SOURCES[kind], settings=settings)
    assert profile.origin == kind
    assert show_profile(profile.id, settings=settings) == profile


def test_an_import_can_be_recommended_from_where_it_was_measured(settings: Settings) -> None:
    profile = import_run("tensorboard", SOURCES["tensorboard"], on="aws/g4dn.xlarge", epochs=20, settings=settings)
    assert not set(not_known(profile)) & set(NEEDED)
    chosen = recommend([profile.id], settings=settings).plan.chosen
    assert chosen.candidate.offer.vm_type.key == "aws/g4dn.xlarge"
    assert chosen.basis == "measured"


def test_what_is_not_known_is_named_with_the_flag_that_adds_it(settings: Settings) -> None:
    profile = import_run("tensorboard", SAMPLES / "torch", settings=settings)
    assert not_known(profile) == {
        "machine it ran on": "--on aws/g5.xlarge",
        "batch size": "--batch-size N",
        "iterations an epoch": "--iterations-per-epoch N, or --samples N",
        "epochs to train": "--epochs N",
        "program": '--command "python train.py"',
        "framework": "--framework pytorch",
    }
    stated = import_run(
        "tensorboard",
        SAMPLES / "torch",
        on="aws/g5.xlarge",
        batch_size=64,
        samples=640,
        epochs=3,
        command="python train.py --lr 0.1",
        framework="PyTorch",
        settings=settings,
    )
    assert not_known(stated) == {}
    assert stated.program.command == ("python", "train.py", "--lr", "0.1")
    assert stated.framework == "pytorch"


def test_a_run_without_times_says_that_only_a_measurement_helps() -> None:
    rented = Host(name="x", vm_type="aws/g5.xlarge")
    profile = make_profile(origin="hf", iteration_seconds=(), data_wait_seconds=(), host=rented)
    assert "trainfare profile" in not_known(profile)["time of an iteration"]


@pytest.mark.parametrize("kind", ["tensorboard", "hf"])
def test_the_folder_one_stands_in_has_a_name_too(
    kind: Kind, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SOURCES[kind])
    assert import_run(kind, ".", settings=settings).program.name in ("version_0", "hf")


def test_notes_are_told(settings: Settings) -> None:
    notes: list[str] = []
    import_run("tensorboard", SAMPLES, on_note=notes.append, settings=settings)
    assert "runs were found" in notes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on": "aws/p3.2xlage"}, "there is no machine"),
        ({"batch_size": 0}, "--batch-size 0"),
        ({"iterations_per_epoch": -1}, "--iterations-per-epoch -1"),
        ({"command": "python 'train"}, "cannot be taken apart"),
        ({"command": " "}, "--command is empty"),
        ({"framework": " "}, "--framework is empty"),
        ({"step_column": "n"}, "--step-column is for trainfare import csv, not for tensorboard"),
        ({"run": "n"}, "--run is for trainfare import mlflow"),
        ({"loss": "lozz"}, "has no 'lozz'; it has"),
    ],
)
def test_what_was_asked_wrongly_is_said_and_nothing_is_kept(
    options: dict[str, object], said: str, settings: Settings
) -> None:
    with pytest.raises(UsageError, match=said):
        import_run("tensorboard", SAMPLES / "torch", settings=settings, **options)  # type: ignore[arg-type]  # on purpose
    assert list_profiles(settings=settings).profiles == ()


def test_a_kind_that_is_none_is_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="there are tensorboard, hf"):
        import_run("comet", SAMPLES, settings=settings)  # type: ignore[arg-type]  # on purpose


def test_losses_beyond_all_bounds_are_refused(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,epoch,loss\n" + "".join(f"{n},0,1.7e308\n" for n in range(4)))
    with pytest.raises(UsageError, match="cannot be imported"):
        import_run("csv", path, settings=settings)
