"""One program at several batch sizes, with real programs and a real store."""

from pathlib import Path
from typing import Any

import pytest

from tests.pythons import python_with
from trainfare.app.profiling.series import Trial, profile_series
from trainfare.errors import UsageError
from trainfare.settings import Settings
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "history.db"), iterations=4, stall_seconds=60)


def series(settings: Settings, **options: Any) -> tuple[Trial, ...]:
    command = (python_with("torch"), "batches.py", "--batch-size", "8")
    return profile_series(command, settings=settings, directory=PROGRAMS, trace_operations=False, **options)


def test_each_batch_size_has_a_profile_and_a_failure_does_not_end_the_series(settings: Settings) -> None:
    shown: list[Trial] = []
    trials = series(settings, batch_sizes=[4, 512, 16], batch_flag="--batch-size {}", on_trial=shown.append)
    assert [trial.batch_size for trial in trials] == [4, 512, 16]
    assert [trial.profile and trial.profile.micro_batch_size for trial in trials] == [4, None, 16]
    assert trials[1].failure is not None
    assert "out of memory" in trials[1].failure
    assert tuple(shown) == trials
    with open_history(settings.store) as history:
        assert len(history.profiles.all()) == 2


def test_each_repeat_has_its_own_profile(settings: Settings) -> None:
    trials = series(settings, repeat=2)
    assert [trial.repeat for trial in trials] == [1, 2]
    assert len({trial.profile.id for trial in trials if trial.profile}) == 2


def test_ignored_batch_size_is_remarked(settings: Settings) -> None:
    trials = series(settings, batch_sizes=[4], batch_flag="--other {}")
    assert trials[0].remark == "batch size 4 was requested, the program used 8"


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        ({"batch_sizes": [4]}, "batch_sizes", "the option of the command that sets its batch size is needed"),
        ({"batch_sizes": [0], "batch_flag": "-b {}"}, "batch_sizes", "at least 1, got 0"),
        ({"batch_sizes": [4], "batch_flag": "-b"}, "batch_flag", "must be an option with one {}"),
        ({"batch_flag": "-b {}"}, "batch_flag", "only used with batch sizes"),
        (
            {"batch_sizes": [4], "batch_flag": "-b {}", "batch_size": 4},
            "profiled_batch_size",
            "where several are measured",
        ),
        ({"repeat": 0}, "repeat", "at least 1, got 0"),
        ({"repeat": 2, "epochs": 0}, "epochs", "at least 1, got 0"),
    ],
)
def test_invalid_options_are_refused_before_anything_runs(
    settings: Settings, options: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refusal:
        series(settings, **options)
    assert refusal.value.field == field
