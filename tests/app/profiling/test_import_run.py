"""A past run is imported and saved as a profile."""

from pathlib import Path
from typing import get_args

import pytest

from tests.makers import make_profile
from tests.profiler.past_runs.samples import SAMPLES
from trainfare.app.profiling.import_run import KINDS, Kind, import_run, missing_facts
from trainfare.app.profiling.profiles import show_profile
from trainfare.app.recommending.recommend import recommend
from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import Origin
from trainfare.settings import Settings, read_settings

SOURCES: dict[Kind, Path] = {
    "tensorboard": SAMPLES / "lightning",
    "hf": SAMPLES / "hf",
    "keras-csv": SAMPLES / "keras.csv",
    "spark": SAMPLES / "spark",
    "mlflow": SAMPLES / "mlruns",
    "wandb": SAMPLES / "wandb",
    "csv": SAMPLES / "keras.csv",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"store": str(tmp_path / "history.db")})


def test_every_kind_is_an_origin_and_has_a_sample() -> None:
    assert set(KINDS) == set(SOURCES) == set(get_args(Origin)) - {"probe", "code", "run"}


@pytest.mark.parametrize("kind", KINDS)
def test_returned_profile_is_the_stored_one(kind: Kind, settings: Settings) -> None:
    profile = import_run(kind, SOURCES[kind], settings=settings)
    assert profile.origin == kind
    assert show_profile(profile.id, settings=settings) == profile


def test_recommendation_from_an_import_is_measured_there_and_scaled_to_other_gpus(settings: Settings) -> None:
    profile = import_run("tensorboard", SOURCES["tensorboard"], on="aws/g4dn.xlarge", epochs=20, settings=settings)
    assert not any(fact.is_required for fact in missing_facts(profile))
    estimates = recommend([profile.id], settings=settings).estimates
    basis = {estimate.candidate.offer.vm_type.key: estimate.basis for estimate in estimates}
    assert basis.pop("aws/g4dn.xlarge") == "measured"
    assert len(basis) > 10
    assert set(basis.values()) == {"scaled"}


def test_run_on_a_machine_with_one_gpu_used_it(settings: Settings) -> None:
    profile = import_run("csv", SOURCES["csv"], on="aws/g4dn.xlarge", steps_are="epochs", settings=settings)
    assert (profile.device, profile.host.gpu) == ("cuda", "T4")


def test_run_on_a_machine_with_several_gpus_may_have_used_any_number(settings: Settings) -> None:
    profile = import_run("csv", SOURCES["csv"], on="aws/g4dn.12xlarge", steps_are="epochs", settings=settings)
    assert (profile.device, profile.host.gpu) == (None, None)


def test_missing_facts_have_the_arguments_that_add_them(settings: Settings) -> None:
    profile = import_run("tensorboard", SAMPLES / "torch", settings=settings)
    missing = {fact.name: [dict(remedy.arguments) for remedy in fact.remedies] for fact in missing_facts(profile)}
    assert missing == {
        "machine it ran on": [{"on": "aws/g5.xlarge"}],
        "batch size": [{"batch_size": "N"}],
        "iterations per epoch": [{"iterations_per_epoch": "N"}, {"samples": "N"}],
        "epochs to train": [{"epochs": "N"}],
        "program": [{"command": "python train.py"}],
        "framework": [{"framework": "pytorch"}],
    }
    required = {fact.name for fact in missing_facts(profile) if fact.is_required}
    assert required == {"machine it ran on", "iterations per epoch"}
    complete = import_run(
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
    assert missing_facts(complete) == ()
    assert complete.program.command == ("python", "train.py", "--lr", "0.1")
    assert complete.framework == "pytorch"


def test_run_without_times_needs_a_measurement() -> None:
    rented = Host(name="x", vm_type="aws/g5.xlarge")
    profile = make_profile(origin="hf", iteration_seconds=(), data_wait_seconds=(), host=rented)
    (time,) = [fact for fact in missing_facts(profile) if fact.name == "time of an iteration"]
    assert [remedy.command for remedy in time.remedies] == ["profile"]


@pytest.mark.parametrize("kind", ["tensorboard", "hf"])
def test_current_folder_has_a_name(kind: Kind, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SOURCES[kind])
    assert import_run(kind, ".", settings=settings).program.name in ("version_0", "hf")


def test_notes_are_passed_on(settings: Settings) -> None:
    notes: list[str] = []
    import_run("tensorboard", SAMPLES, on_note=notes.append, settings=settings)
    assert "runs were found" in notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "aws/p3.2xlage"}, "there is no machine"),
        ({"batch_size": 0}, "at least 1, got 0"),
        ({"iterations_per_epoch": -1}, "at least 1, got -1"),
        ({"command": "python 'train"}, "cannot be split into words"),
        ({"command": " "}, "is empty"),
        ({"framework": " "}, "is empty"),
        ({"step_column": "n"}, "only for runs of kind csv, not for tensorboard"),
        ({"run": "n"}, "only for runs of kind mlflow"),
        ({"loss": "lozz"}, "has no 'lozz'; it has"),
    ],
)
def test_invalid_option_is_refused_and_nothing_is_saved(
    options: dict[str, object], message: str, settings: Settings
) -> None:
    with pytest.raises(UsageError, match=message) as refusal:
        import_run("tensorboard", SAMPLES / "torch", settings=settings, **options)  # type: ignore[arg-type] # the wrong argument is what is tested
    assert refusal.value.field in (None, *options)
    assert not Path(settings.store).exists(), "nothing is stored"


def test_unknown_kind_is_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="there are tensorboard, hf"):
        import_run("comet", SAMPLES, settings=settings)  # type: ignore[arg-type] # the wrong argument is what is tested


def test_losses_that_overflow_are_refused(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,epoch,loss\n" + "".join(f"{n},0,1.7e308\n" for n in range(4)))
    with pytest.raises(UsageError, match="cannot be imported"):
        import_run("csv", path, settings=settings)
