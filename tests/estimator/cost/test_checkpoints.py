import pytest

from tests.makers import make_profile
from trainfare.estimator.cost.checkpoints import UNKNOWN_SECONDS, checkpoint_bytes, checkpoints_of, daly_interval


def test_checkpoint_contains_weights_and_optimiser_state() -> None:
    assert checkpoint_bytes(make_profile(gradient_bytes=400, optimizer_bytes=800)) == 1200
    assert checkpoint_bytes(make_profile(gradient_bytes=None, parameters=100)) == 400
    assert checkpoint_bytes(make_profile(gradient_bytes=None, parameters=None)) is None


def test_checkpoints_are_counted_per_epoch() -> None:
    profile = make_profile(iteration_seconds=(0.1,) * 50, loss=(), checkpoint_seconds=(1.0, 3.0))
    found = checkpoints_of(profile, iterations_per_epoch=23)
    assert (found.seconds.value, found.per_epoch) == (2.0, 1.0)


def test_checkpoints_within_an_epoch_are_counted_per_iteration() -> None:
    profile = make_profile(iteration_seconds=(0.1,) * 50, loss=(), checkpoint_seconds=(1.0,))
    assert checkpoints_of(profile, iterations_per_epoch=1000).per_epoch == 20


def test_time_of_an_unseen_checkpoint_follows_from_its_size() -> None:
    found = checkpoints_of(make_profile(gradient_bytes=10**9, optimizer_bytes=10**9), iterations_per_epoch=23)
    assert (found.seconds.value, found.per_epoch) == (16.0, 0)
    unknown = make_profile(gradient_bytes=None, parameters=None)
    assert checkpoints_of(unknown, iterations_per_epoch=23).seconds.value == UNKNOWN_SECONDS


def test_rarer_interruptions_need_fewer_checkpoints() -> None:
    assert daly_interval(20.0, per_second=1 / 4000) == pytest.approx(400)
    assert daly_interval(20.0, per_second=1 / 16000) == pytest.approx(800)
