"""What counts as an iteration, a wait and a validation, on a clock that the test sets."""

import json
from typing import Any

import pytest

from trainfare.probe.loop import DataPass, Loop
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

    def synchronize(self) -> None:
        pass


class Loader:
    pass


class Iterator:
    pass


class Training:
    """A simulated training program; each action takes a second unless it says otherwise."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.recorder = Recorder("/dev/null")
        self.loop = Loop(self.recorder, self.clock, float)
        self.iterators: list[Iterator] = []

    def start_pass(self, loader: Loader, **facts: int) -> DataPass:
        iterator = Iterator()
        self.iterators.append(iterator)
        data_pass = DataPass(iterator, loader, self.clock.now, facts)
        self.loop.pass_started(data_pass)
        return data_pass

    def take_batch(self, data_pass: DataPass, seconds: float = 1.0) -> None:
        self.loop.batch_asked(data_pass)
        self.clock.now += seconds
        self.loop.batch_given(data_pass, seconds)

    def run_backward_and_step(self, loss: float = 0.5) -> None:
        self.clock.now += 1
        self.loop.backward_started(loss)
        self.loop.step_started()
        self.clock.now += 1
        self.loop.step_ended()

    def train(self, data_pass: DataPass, iterations: int) -> None:
        for _ in range(iterations):
            self.take_batch(data_pass)
            self.run_backward_and_step()

    def validate(self, loader: Loader, batches: int = 2) -> None:
        data_pass = self.start_pass(loader)
        for _ in range(batches):
            self.take_batch(data_pass)
        self.loop.pass_ended(data_pass)

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


def test_iterations_are_contiguous_from_the_first_batch_on(program: Training, data: Loader) -> None:
    program.clock.now = 10
    program.train(program.start_pass(data), 2)
    assert program.spans("iteration") == [(10, 13), (13, 16)]
    assert [event["wait"] for event in program.events("iteration")] == [1, 1]


def test_first_iteration_without_a_loader_starts_when_gradients_are_cleared(program: Training) -> None:
    program.clock.now = 10
    program.loop.gradients_cleared()
    program.run_backward_and_step()
    assert program.spans("iteration") == [(10, 12)]
    assert program.events("iteration")[0]["batches"] == 0


def test_pass_over_another_loader_is_a_validation(program: Training, data: Loader, other: Loader) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    program.loop.pass_ended(data_pass)
    program.validate(other, batches=2)
    program.train(program.start_pass(data), 1)
    assert program.spans("window") == [(3, 5)]


def test_validation_runs_from_eval_to_train(program: Training, data: Loader, other: Loader) -> None:
    program.train(program.start_pass(data), 1)
    program.loop.mode_changed(training=False)
    program.clock.now += 1
    program.validate(other, batches=2)
    program.clock.now += 1
    program.loop.mode_changed(training=True)
    assert program.spans("window") == [(3, 7)]


def test_validation_in_the_middle_of_an_epoch_ends_when_training_goes_on(
    program: Training, data: Loader, other: Loader
) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    unfinished = program.start_pass(other)
    program.take_batch(unfinished)
    program.clock.now += 1
    program.train(data_pass, 1)
    assert program.spans("window") == [(3, 5)]


def test_validation_before_training_does_not_count(program: Training, data: Loader, other: Loader) -> None:
    program.loop.mode_changed(training=False)
    program.validate(other)
    program.loop.mode_changed(training=True)
    program.train(program.start_pass(data), 1)
    assert program.spans("window") == []
    assert program.spans("iteration") == [(2, 5)]


def test_new_loader_for_every_epoch_is_not_a_validation(program: Training) -> None:
    for loader in (Loader(), Loader()):
        data_pass = program.start_pass(loader)
        program.train(data_pass, 2)
        program.loop.pass_ended(data_pass)
    assert program.spans("window") == []
    assert program.spans("iteration")[2] == (6, 9)


def test_pass_over_training_data_without_a_step_is_a_validation(program: Training, data: Loader) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    program.loop.pass_ended(data_pass)
    program.validate(data, batches=3)
    again = program.start_pass(data)
    program.train(again, 1)
    assert program.spans("window") == [(3, 6)]
    assert [event["wait"] for event in program.events("iteration")] == [1, 1]


def test_eval_followed_by_a_step_is_not_a_validation(program: Training, data: Loader) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    program.loop.mode_changed(training=False)
    program.run_backward_and_step()
    assert program.spans("window") == []


def test_eval_without_train_ends_with_the_pass(program: Training, data: Loader, other: Loader) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    program.loop.pass_ended(data_pass)
    program.loop.mode_changed(training=False)
    program.validate(other, batches=2)
    program.train(program.start_pass(data), 1)
    assert program.spans("window") == [(3, 5)]


def test_last_validation_is_recorded_although_nothing_follows(program: Training, data: Loader, other: Loader) -> None:
    program.train(program.start_pass(data), 1)
    program.loop.mode_changed(training=False)
    program.validate(other, batches=2)
    assert program.spans("window") == [(3, 5)]


def test_two_loaders_used_together_both_train(program: Training, data: Loader, other: Loader) -> None:
    for _ in range(2):
        left, right = program.start_pass(data), program.start_pass(other)
        for _ in range(2):
            program.take_batch(left)
            program.take_batch(right)
            program.run_backward_and_step()
        program.loop.pass_ended(left)
        program.loop.pass_ended(right)
    assert program.spans("window") == []
    assert [event["wait"] for event in program.events("iteration")] == [2, 2, 2, 2]


def test_batches_of_an_accumulated_step_are_counted_together(program: Training, data: Loader) -> None:
    data_pass = program.start_pass(data)
    for _ in range(2):
        for _ in range(4):
            program.take_batch(data_pass)
            program.loop.backward_started(0.5)
        program.run_backward_and_step()
    assert [event["batches"] for event in program.events("iteration")] == [4, 4]


def test_losses_are_in_order_and_missing_ones_are_none(program: Training) -> None:
    program.run_backward_and_step(loss=3.0)
    program.loop.step_ended()
    program.run_backward_and_step(loss=1.0)
    assert program.events("losses")[0]["values"] == [3.0, None, 1.0]


def test_last_batch_of_a_pass_is_known_in_advance(program: Training, data: Loader) -> None:
    data_pass = program.start_pass(data, length=3)
    program.train(data_pass, 1)
    assert not program.loop.near_pass_end
    program.train(data_pass, 1)
    assert program.loop.near_pass_end


def test_validation_is_recorded_if_its_end_is_never_requested(program: Training, data: Loader) -> None:
    """A framework that counts batches does not run the iterator to its end."""
    data_pass = program.start_pass(data)
    program.train(data_pass, 2)
    program.loop.mode_changed(training=False)
    program.take_batch(program.start_pass(Loader(), samples=30))
    program.loop.mode_changed(training=True)
    program.train(data_pass, 1)
    assert [event["samples"] for event in program.events("validation")] == [30]


def test_first_iteration_starts_after_an_earlier_validation(program: Training, data: Loader) -> None:
    """Lightning validates two batches before training and keeps their iterator alive."""
    program.loop.mode_changed(training=False)
    program.take_batch(program.start_pass(Loader()))
    program.loop.mode_changed(training=True)
    begun = program.clock.now
    program.train(program.start_pass(data), 1)
    assert program.spans("iteration")[0][0] == begun
    assert program.spans("window") == []


def test_checkpoint_is_recorded_as_its_own_span(program: Training, data: Loader) -> None:
    data_pass = program.start_pass(data)
    program.train(data_pass, 1)
    begun = program.clock.now
    program.clock.now += 5
    program.loop.checkpoint_saved(begun)
    program.train(data_pass, 1)
    assert program.spans("checkpoint") == [(begun, begun + 5)]


def test_checkpoint_before_training_is_not_recorded(program: Training) -> None:
    program.loop.checkpoint_saved(program.clock.now)
    program.run_backward_and_step()
    assert program.events("checkpoint") == []


def test_start_of_every_training_pass_and_its_end_are_recorded(program: Training, data: Loader) -> None:
    first = program.start_pass(data)
    program.train(first, 2)
    program.loop.pass_ended(first)
    program.validate(Loader())
    second_start = program.clock.now
    program.train(program.start_pass(data), 1)
    assert [start for start, _ in program.spans("pass")] == [0.0, second_start]
    assert len(program.spans("pass_end")) == 1


def test_backward_pass_without_a_loss_keeps_the_previous_loss(program: Training) -> None:
    program.loop.backward_started(2.0)
    program.loop.backward_started(None)
    program.loop.step_ended()
    assert program.events("losses")[0]["values"] == [2.0]
