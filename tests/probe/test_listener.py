"""What the listeners of Keras, TensorFlow and JAX share, without any of them."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from trainfare.probe.clocks import ReadyClock
from trainfare.probe.keras_hooks import _Mean
from trainfare.probe.listener import loss_in, spread


class Result:
    """A number on a device, ready when it is told."""

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
    clock.settle()
    seconds = clock.seconds(mark)
    assert seconds is not None
    assert seconds - mark.called >= 0.02
    assert mark.value == 2.5


def test_result_that_was_given_away_was_ready() -> None:
    clock = ReadyClock()
    mark = clock.when_ready("deleted")
    clock.settle()
    assert clock.seconds(mark) is not None
    assert mark.value is None


def test_clock_gives_the_marks_that_were_put() -> None:
    clock = ReadyClock()
    clock.put(1.0, 2.0)
    assert [clock.mark(), clock.mark()] == [1.0, 2.0]
    assert clock.mark() == pytest.approx(time.monotonic(), abs=1)


def test_steps_of_one_call_last_equally_long() -> None:
    assert spread(1.0, 3.0, 4) == [1.5, 2.0, 2.5, 3.0]
    assert spread(1.0, 3.0, 1) == [3.0]


def test_loss_of_a_batch_is_had_from_two_means() -> None:
    first = _Mean(2.0, 10, None)
    second = _Mean(3.0, 10, first)
    third = _Mean(2.8, 5, second)
    assert [mean.of_last(float) for mean in (first, second, third)] == pytest.approx([2.0, 4.0, 2.0])


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
def test_loss_is_a_number_with_a_fraction_among_what_a_step_returns(result: Any, found: bool) -> None:
    assert (loss_in(result) is not None) == found
