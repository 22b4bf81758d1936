"""The hooks into PyTorch and the CUDA clock; tests/profiler/test_measure.py tests what the hooks record."""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.pythons import python_with
from trainfare.probe.clocks import CudaClock
from trainfare.profiler.events import parse_events
from trainfare.profiler.measure import PROBE_SITE

BREAK = """
import sys
import torch
hooks = sys.modules["_trainfare_probe.torch_hooks"]
hooks.TorchListener._write_model = lambda self: 1 / 0
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(4):
    weight.square().sum().backward()
    optimizer.step()
print("trained")
"""


def test_failing_hook_is_recorded_and_does_not_break_the_program(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.touch()
    environment = {
        "PYTHONPATH": str(PROBE_SITE),
        "TRAINFARE_PROBE_EVENTS": str(events),
        "TRAINFARE_PROBE_ITERATIONS": "10",
    }
    result = subprocess.run(
        [python_with("torch"), "-c", BREAK], env=environment, check=True, capture_output=True, text=True
    )
    assert (result.stdout, result.stderr) == ("trained\n", "")
    troubles = [event for event in parse_events(events.read_bytes()) if event["event"] == "trouble"]
    assert ["ZeroDivisionError" in trouble["what"] for trouble in troubles] == [True]


def test_probe_does_nothing_without_a_profiler(tmp_path: Path) -> None:
    check = "import sys; print([name for name in sys.modules if 'trainfare' in name and 'boot' not in name])"
    environment = {"PYTHONPATH": str(PROBE_SITE)}
    result = subprocess.run(
        [sys.executable, "-c", check], env=environment, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "_trainfare_probe.recorder" not in result.stdout
    assert result.stderr == ""


class Stream:
    """A simulated CUDA stream: events get their moment when the work before them is done."""

    def __init__(self) -> None:
        self.milliseconds = 0.0
        self.waiting: list[Any] = []
        self.done()

    def done(self) -> None:
        for event in self.waiting:
            event.at = self.milliseconds
        self.waiting = []

    def torch(self) -> Any:
        torch = ModuleType("torch")
        stream = self

        class Event:
            at: float | None = None

            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                stream.waiting.append(self)

            def query(self) -> bool:
                return self.at is not None

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

        torch.cuda = SimpleNamespace(Event=Event, synchronize=self.done)  # type: ignore[attr-defined] # a module has no fixed attributes
        return torch


def test_moment_on_a_gpu_is_known_once_the_gpu_has_reached_it() -> None:
    stream = Stream()
    before = time.monotonic()
    clock = CudaClock(stream.torch())
    stream.done()
    marks = []
    for _ in range(2):
        mark = clock.mark()
        assert clock.seconds(mark) is None
        stream.milliseconds += 250
        stream.done()
        marks.append(mark)
    first, second = (clock.seconds(mark) for mark in marks)
    assert first is not None
    assert second is not None
    assert 0.25 <= first - before < 1
    assert second - first == 0.25
    assert clock.seconds(marks[0]) == first
    assert clock.seconds(before) == before
