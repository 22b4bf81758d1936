"""Events are written as JSON lines, and nothing that the recorder does disturbs the program."""

import json
from pathlib import Path

import pytest

from trainfare.probe.recorder import Recorder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.touch()
    return path


def test_events_are_written_as_lines(path: Path) -> None:
    recorder = Recorder(str(path))
    recorder.add("one", value=1)
    recorder.add("two", rows=[(1.5, None)])
    recorder.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["one", "two"]
    assert lines[1]["rows"] == [[1.5, None]]


def test_nan_and_infinity_become_null(path: Path) -> None:
    recorder = Recorder(str(path))
    recorder.add("losses", values=[0.5, float("nan"), float("inf")])
    recorder.flush()
    assert json.loads(path.read_text())["values"] == [0.5, None, None]


def test_trouble_is_recorded_once_per_place(path: Path) -> None:
    recorder = Recorder(str(path))
    for _ in range(3):
        try:
            raise ValueError("no")
        except ValueError:
            recorder.trouble("here")
    lines = path.read_text().splitlines()
    assert len(lines) == 1
    assert "ValueError: no" in json.loads(lines[0])["what"]


def test_missing_event_file_is_not_created(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "nowhere" / "events.jsonl"))
    recorder.add("one")
    recorder.flush()
    assert not (tmp_path / "nowhere").exists()


def test_forked_child_drops_the_unwritten_events_of_its_parent(path: Path) -> None:
    recorder = Recorder(str(path))
    recorder.add("one")
    recorder.forget()
    recorder.flush()
    assert path.read_text() == ""
