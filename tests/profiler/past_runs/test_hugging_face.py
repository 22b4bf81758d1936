"""trainer_state.json of the Trainer of Hugging Face."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.hugging_face import read
from trainfare.profiler.past_runs.run_log import RunOverrides


def imported(path: Path, **overrides: Any) -> Profile:
    return profile_from_log(read(path), RunOverrides(**overrides), id="p1")[0]


def changed(tmp_path: Path, **changes: Any) -> Path:
    state = json.loads((SAMPLES / "hf" / "trainer_state.json").read_text()) | changes
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    return tmp_path


def test_state_of_a_complete_run() -> None:
    profile = imported(SAMPLES / "hf")
    assert profile.framework == "transformers"
    assert (profile.micro_batch_size, profile.epochs, profile.iterations_per_epoch) == (8, 3, 13)
    assert profile.run_iterations == 39
    assert profile.run_seconds is not None
    assert profile.ending == "finished"
    assert profile.iteration_seconds == ()
    assert len(profile.validation_seconds) == 3
    assert [i for i, loss in enumerate(profile.loss) if loss is not None] == [4, 9, 14, 19, 24, 29, 34]
    assert [rate is not None for rate in profile.learning_rate].count(True) == 7
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3]
    assert all(epoch.metrics.keys() == {"eval_loss"} for epoch in profile.curve)


def test_checkpoint_has_no_run_time() -> None:
    profile = imported(SAMPLES / "hf" / "checkpoint-26")
    assert (profile.run_seconds, profile.run_iterations) == (None, 26)
    assert len(profile.curve) == 2
    assert (profile.epochs, profile.iterations_per_epoch, profile.ending) == (3, 13, "enough")


def test_last_checkpoint_of_a_folder_is_read(tmp_path: Path) -> None:
    for number in (9, 26, 100):
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        changed(folder, global_step=number)
    log = read(tmp_path)
    assert (log.run_iterations, log.source) == (100, tmp_path)
    assert log.notes == ()


def test_newest_of_two_runs_is_read_and_the_other_is_noted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "checkpoint-5").mkdir(parents=True)
        changed(tmp_path / name / "checkpoint-5")
    assert "2 runs were found" in read(tmp_path).notes[0]


def test_nan_losses_are_none(tmp_path: Path) -> None:
    rows = [{"step": n, "epoch": n / 10, "loss": loss} for n, loss in ((1, 1.0), (2, float("nan")), (3, "nan"))]
    assert imported(changed(tmp_path, log_history=rows)).loss == (1.0,)
    assert imported(changed(tmp_path, log_history=[*rows, {"step": 4, "loss": 0.5}])).loss == (1.0, None, None, 0.5)


def test_limit_in_steps_does_not_change_the_length_of_an_epoch(tmp_path: Path) -> None:
    """max_steps=20 of epochs with 13 iterations; the Trainer then counts two epochs."""
    path = changed(tmp_path, max_steps=20, num_train_epochs=2, global_step=20, epoch=20 / 13)
    assert read(path).iterations_per_epoch == 13


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "no log_history"),
        ('{"log_history": 3}', "no log_history"),
        ("\0\1\2", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_file_that_is_not_a_state_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "trainer_state.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        read(tmp_path)


def test_invalid_rows_are_skipped(tmp_path: Path) -> None:
    rows = [3, None, {"step": "x"}, {"loss": 1.0}, {"step": 1, "loss": [1]}, {"step": 2, "loss": 0.5}]
    assert read(changed(tmp_path, log_history=rows)).by_step.keys() == {"loss"}


def test_empty_folder_is_refused_with_the_expected_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contain trainer_state\.json"):
        read(tmp_path)
