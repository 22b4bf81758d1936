"""A Trainer goes on from the checkpoint of an earlier attempt, unless the program says where it goes on from."""

from pathlib import Path
from typing import Any

import pytest

from trainfare.probe.resuming import checkpoint_path, resume_by_argument


class Trainer:
    """Records what its training goes on from."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def train(self, model: str = "", resume: Any = None) -> None:
        self.seen.append((model, resume))


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "work" / "out" / "checkpoint-5"
    path.mkdir(parents=True)
    monkeypatch.setenv("TRAINFARE_LAUNCH", str(tmp_path))
    monkeypatch.setenv("TRAINFARE_RESUME_FROM", "out/checkpoint-5")
    return str(path)


def trained(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Any]:
    trainer, train = Trainer(), resume_by_argument(Trainer.train, "resume", 2)
    for args, options in calls:
        train(trainer, *args, **options)
    return trainer.seen


def test_the_first_training_of_the_process_goes_on(saved: str) -> None:
    assert trained(((), {}), ((), {})) == [("", saved), ("", None)]
    assert trained((("m", None), {})) == [("m", saved)]
    assert trained((("m",), {"resume": None})) == [("m", saved)]


@pytest.mark.usefixtures("saved")
def test_a_program_that_says_where_it_goes_on_from_is_left_alone() -> None:
    assert trained(((), {"resume": "mine"})) == [("", "mine")]
    assert trained((("m", True), {})) == [("m", True)]


def test_there_is_nothing_to_go_on_from_outside_of_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRAINFARE_RESUME_FROM", raising=False)
    assert checkpoint_path() is None
    monkeypatch.setenv("TRAINFARE_LAUNCH", str(tmp_path))
    monkeypatch.setenv("TRAINFARE_RESUME_FROM", "removed.ckpt")
    assert checkpoint_path() is None
