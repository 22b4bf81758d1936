"""The parts that the listeners of Keras, TensorFlow and JAX share, without these frameworks."""

import io
import multiprocessing
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainfare.probe.clocks import ReadyClock
from trainfare.probe.keras_facts import RunningMean
from trainfare.probe.listener import (
    common_folder,
    evenly_spaced_ends,
    find_loss,
    queued_seconds,
    saved_path,
    worker_reading_due,
    worker_seconds,
)
from trainfare.probe.recorder import FLUSH_SECONDS


class Result:
    """A number on a device, ready when the test sets `ready`."""

    shape = ()

    def __init__(self, value: float) -> None:
        self.value = value
        self.ready = threading.Event()

    def block_until_ready(self) -> None:
        self.ready.wait(5)

    def __float__(self) -> float:
        return self.value


def number(dtype: str = "float32", shape: tuple[int, ...] = ()) -> Any:
    return SimpleNamespace(shape=shape, dtype=dtype)


def test_mark_is_the_moment_at_which_the_result_was_ready() -> None:
    clock, result = ReadyClock(), Result(2.5)
    mark = clock.when_ready(result)
    assert clock.seconds(mark) is None
    assert not clock.idle
    time.sleep(0.02)
    result.ready.set()
    clock.synchronize()
    seconds = clock.seconds(mark)
    assert seconds is not None
    assert seconds - mark.called >= 0.02
    assert mark.value == 2.5


def test_deleted_result_counts_as_ready() -> None:
    clock = ReadyClock()
    mark = clock.when_ready("deleted")
    clock.synchronize()
    assert clock.seconds(mark) is not None
    assert mark.value is None


def test_clock_returns_the_marks_that_were_put_first() -> None:
    clock = ReadyClock()
    clock.put(1.0, 2.0)
    assert [clock.mark(), clock.mark()] == [1.0, 2.0]
    assert clock.mark() == pytest.approx(time.monotonic(), abs=1)


def test_steps_of_one_call_have_equal_lengths() -> None:
    assert evenly_spaced_ends(1.0, 3.0, 4) == [1.5, 2.0, 2.5, 3.0]
    assert evenly_spaced_ends(1.0, 3.0, 1) == [3.0]


def test_loss_of_a_batch_follows_from_two_running_means() -> None:
    first = RunningMean(2.0, 10, None)
    second = RunningMean(3.0, 10, first)
    third = RunningMean(2.8, 5, second)
    assert [mean.last_batch_loss(float) for mean in (first, second, third)] == pytest.approx([2.0, 4.0, 2.0])


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (number(), True),
        (number("int32"), False),
        (number(shape=(3,)), False),
        (({"w": number(shape=(3,))}, number()), True),
        (({"w": number()}, {"loss": number()}), True),
        ({"accuracy": number()}, False),
        ((number(shape=(2,)), (number(), number())), True),
        (None, False),
    ],
)
def test_loss_is_a_scalar_float_in_the_result_of_a_step(result: Any, found: bool) -> None:
    assert (find_loss(result) is not None) == found


def test_workers_are_read_at_the_first_writes_and_then_once_a_second() -> None:
    assert worker_reading_due(0, 0.0)
    assert worker_reading_due(1, FLUSH_SECONDS)
    assert not worker_reading_due(5, FLUSH_SECONDS)
    assert worker_reading_due(5, 1.0)


def _use_cpu(seconds: float, ready: Any, done: Any) -> None:
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass
    ready.set()
    done.wait(60)


def test_cpu_time_of_workers_is_read_while_they_run() -> None:
    context = multiprocessing.get_context("spawn")  # this process may hold threads of a framework
    ready, done = context.Event(), context.Event()
    worker = context.Process(target=_use_cpu, args=(0.2, ready, done))
    worker.start()
    ready.wait(60)
    running = worker_seconds()["workers"]
    done.set()
    worker.join()
    assert running >= 0.15


def test_a_program_without_workers_has_no_cpu_time_of_workers() -> None:
    for child in multiprocessing.active_children():
        child.join(1)
    assert worker_seconds() == {}


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count it")
def test_time_without_a_cpu_grows() -> None:
    assert queued_seconds()["queued"] >= 0


def test_the_path_of_a_checkpoint_is_the_argument_after_what_is_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "model.pt")
    assert saved_path(({}, path), {}) == path
    assert saved_path(({},), {"filepath": Path(path)}) == path
    with Path(path).open("wb") as file:
        assert saved_path(({}, file), {}) == path
    assert saved_path(({}, "model.pt"), {}) == str(Path.cwd() / "model.pt")


def test_a_checkpoint_in_memory_or_under_an_automatic_name_has_no_path() -> None:
    assert saved_path(({}, io.BytesIO()), {}) is None
    assert saved_path((object(), object(), None), {}) is None


def test_a_save_of_several_files_is_in_their_folder() -> None:
    assert common_folder(["/out/checkpoint-5/optimizer.pt", None, "/out/checkpoint-5/rank/0.pt"]) == "/out/checkpoint-5"
    assert common_folder([None]) is None
