"""What counts as an iteration, a wait and a validation, on a clock that the test turns."""

import json
from typing import Any

import pytest

from trainfare.probe.loop import Loop, Pass
from trainfare.probe.recorder import Recorder
from trainfare.profiler.events import parse_events

Span = tuple[float, float]


class Clock:
    immediate = False

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> float:
        return self.now

    def seconds(self, mark: float) -> float:
        return mark

    def settle(self) -> None:
        pass


class Loader:
    pass


class Iterator:
    pass


class Training:
    """A training program told in words; each takes a second unless it says otherwise."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.recorder = Recorder("/dev/null")
        self.loop = Loop(self.recorder, self.clock, float)
        self.iterators: list[Iterator] = []

    def starts_pass(self, loader: Loader, **facts: int) -> Pass:
        iterator = Iterator()
        self.iterators.append(iterator)
        one = Pass(iterator, loader, self.clock.now, facts)
        self.loop.pass_started(one)
        return one

    def takes_batch(self, one: Pass, seconds: float = 1.0) -> None:
        self.loop.batch_asked(one)
        self.clock.now += seconds
        self.loop.batch_given(one, seconds)

    def goes_back_and_steps(self, loss: float = 0.5) -> None:
        self.clock.now += 1
        self.loop.backward_started(loss)
        self.loop.step_started()
        self.clock.now += 1
        self.loop.step_ended()

    def trains(self, one: Pass, iterations: int) -> None:
        for _ in range(iterations):
            self.takes_batch(one)
            self.goes_back_and_steps()

    def validates(self, loader: Loader, batches: int = 2) -> None:
        one = self.starts_pass(loader)
        for _ in range(batches):
            self.takes_batch(one)
        self.loop.pass_ended(one)

    def spans(self, kind: str) -> list[Span]:
        return [(event["start"], event["end"]) for event in self.events(kind)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        self.loop.finish()
        events = parse_events("\n".join(map(json.dumps, self.recorder._events)).encode())
        return [event for event in events if event["event"] == kind]


@pytest.fixture
def program() -> Training:
    return Training()


@pytest.fixture
def data() -> Loader:
    return Loader()


@pytest.fixture
def other() -> Loader:
    return Loader()


def test_iterations_follow_each_other_from_the_first_batch_on(program: Training, data: Loader) -> None:
    program.clock.now = 10
    program.trains(program.starts_pass(data), 2)
    assert program.spans("iteration") == [(10, 13), (13, 16)]
    assert [event["wait"] for event in program.events("iteration")] == [1, 1]


def test_first_iteration_without_a_loader_starts_when_gradients_are_cleared(program: Training) -> None:
    program.clock.now = 10
    program.loop.gradients_cleared()
    program.goes_back_and_steps()
    assert program.spans("iteration") == [(10, 12)]
    assert program.events("iteration")[0]["batches"] == 0


def test_pass_over_another_loader_is_a_validation(program: Training, data: Loader, other: Loader) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    program.loop.pass_ended(one)
    program.validates(other, batches=2)
    program.trains(program.starts_pass(data), 1)
    assert program.spans("window") == [(3, 5)]


def test_validation_runs_from_eval_to_train(program: Training, data: Loader, other: Loader) -> None:
    program.trains(program.starts_pass(data), 1)
    program.loop.mode_changed(training=False)
    program.clock.now += 1
    program.validates(other, batches=2)
    program.clock.now += 1
    program.loop.mode_changed(training=True)
    assert program.spans("window") == [(3, 7)]


def test_validation_in_the_middle_of_an_epoch_ends_when_training_goes_on(
    program: Training, data: Loader, other: Loader
) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    unfinished = program.starts_pass(other)
    program.takes_batch(unfinished)
    program.clock.now += 1
    program.trains(one, 1)
    assert program.spans("window") == [(3, 5)]


def test_what_is_validated_before_training_does_not_count(program: Training, data: Loader, other: Loader) -> None:
    program.loop.mode_changed(training=False)
    program.validates(other)
    program.loop.mode_changed(training=True)
    program.trains(program.starts_pass(data), 1)
    assert program.spans("window") == []
    assert program.spans("iteration") == [(2, 5)]


def test_new_loader_for_every_epoch_is_not_a_validation(program: Training) -> None:
    for loader in (Loader(), Loader()):
        one = program.starts_pass(loader)
        program.trains(one, 2)
        program.loop.pass_ended(one)
    assert program.spans("window") == []
    assert program.spans("iteration")[2] == (6, 9)


def test_training_data_seen_without_a_step_is_a_validation(program: Training, data: Loader) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    program.loop.pass_ended(one)
    program.validates(data, batches=3)
    again = program.starts_pass(data)
    program.trains(again, 1)
    assert program.spans("window") == [(3, 6)]
    assert [event["wait"] for event in program.events("iteration")] == [1, 1]


def test_eval_of_a_frozen_part_is_not_a_validation(program: Training, data: Loader) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    program.loop.mode_changed(training=False)
    program.goes_back_and_steps()
    assert program.spans("window") == []


def test_eval_that_is_never_undone_ends_with_the_pass(program: Training, data: Loader, other: Loader) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    program.loop.pass_ended(one)
    program.loop.mode_changed(training=False)
    program.validates(other, batches=2)
    program.trains(program.starts_pass(data), 1)
    assert program.spans("window") == [(3, 5)]


def test_last_validation_is_seen_although_nothing_follows(program: Training, data: Loader, other: Loader) -> None:
    program.trains(program.starts_pass(data), 1)
    program.loop.mode_changed(training=False)
    program.validates(other, batches=2)
    assert program.spans("window") == [(3, 5)]


def test_two_loaders_side_by_side_both_train(program: Training, data: Loader, other: Loader) -> None:
    for _ in range(2):
        left, right = program.starts_pass(data), program.starts_pass(other)
        for _ in range(2):
            program.takes_batch(left)
            program.takes_batch(right)
            program.goes_back_and_steps()
        program.loop.pass_ended(left)
        program.loop.pass_ended(right)
    assert program.spans("window") == []
    assert [event["wait"] for event in program.events("iteration")] == [2, 2, 2, 2]


def test_batches_of_an_accumulated_step_are_counted_together(program: Training, data: Loader) -> None:
    one = program.starts_pass(data)
    for _ in range(2):
        for _ in range(4):
            program.takes_batch(one)
            program.loop.backward_started(0.5)
        program.goes_back_and_steps()
    assert [event["batches"] for event in program.events("iteration")] == [4, 4]


def test_losses_come_in_order_and_gaps_are_none(program: Training) -> None:
    program.goes_back_and_steps(loss=3.0)
    program.loop.step_ended()
    program.goes_back_and_steps(loss=1.0)
    assert program.events("losses")[0]["values"] == [3.0, None, 1.0]


def test_end_of_an_epoch_is_no_place_to_trace(program: Training, data: Loader) -> None:
    one = program.starts_pass(data, length=3)
    program.trains(one, 1)
    assert not program.loop.between_passes
    program.trains(one, 1)
    assert program.loop.between_passes


def test_validation_is_told_though_nobody_asked_for_its_end(program: Training, data: Loader) -> None:
    """A framework that counts batches leaves the iterator where it is."""
    one = program.starts_pass(data)
    program.trains(one, 2)
    program.loop.mode_changed(training=False)
    program.takes_batch(program.starts_pass(Loader(), samples=30))
    program.loop.mode_changed(training=True)
    program.trains(one, 1)
    assert [event["samples"] for event in program.events("validation")] == [30]


def test_first_iteration_starts_after_what_was_validated_before_it(program: Training, data: Loader) -> None:
    """Lightning tries two batches of the validation before training, and keeps their iterator alive."""
    program.loop.mode_changed(training=False)
    program.takes_batch(program.starts_pass(Loader()))
    program.loop.mode_changed(training=True)
    begun = program.clock.now
    program.trains(program.starts_pass(data), 1)
    assert program.spans("iteration")[0][0] == begun
    assert program.spans("window") == []


def test_checkpoint_is_recorded_apart(program: Training, data: Loader) -> None:
    one = program.starts_pass(data)
    program.trains(one, 1)
    begun = program.clock.now
    program.clock.now += 5
    program.loop.saved(begun)
    program.trains(one, 1)
    assert program.spans("checkpoint") == [(begun, begun + 5)]


def test_checkpoint_before_training_is_none(program: Training) -> None:
    program.loop.saved(program.clock.now)
    program.goes_back_and_steps()
    assert program.events("checkpoint") == []


def test_start_of_every_pass_that_trains_is_told_and_its_end_where_it_came(program: Training, data: Loader) -> None:
    first = program.starts_pass(data)
    program.trains(first, 2)
    program.loop.pass_ended(first)
    program.validates(Loader())
    second_start = program.clock.now
    program.trains(program.starts_pass(data), 1)
    assert [start for start, _ in program.spans("pass")] == [0.0, second_start]
    assert len(program.spans("pass_end")) == 1


def test_backward_pass_without_a_loss_leaves_the_one_before(program: Training) -> None:
    program.loop.backward_started(2.0)
    program.loop.backward_started(None)
    program.loop.step_ended()
    assert program.events("losses")[0]["values"] == [2.0]
