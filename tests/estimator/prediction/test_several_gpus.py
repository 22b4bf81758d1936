"""Several GPUs that synchronise their gradients."""

import math

import pytest

from tests.estimator.prediction.test_predictor import GPUS, on_gpu
from tests.makers import shipped_coefficients
from trainfare.estimator.parallel.links import ClusterPredictor
from trainfare.estimator.prediction.iteration import PredictedIteration, combine_errors
from trainfare.estimator.prediction.several_gpus import fit_own_ring, predict_several_gpus
from trainfare.estimator.step.measured import measured_times
from trainfare.model.interval import Interval

SINGLE = PredictedIteration(
    seconds=Interval.within_factor(0.1, 1.2), basis="measured", profile=on_gpu("V100"), limited_by="compute"
)


def cluster(gradient_bytes: float, *, gpus: int = 4, nodes: int = 1) -> ClusterPredictor:
    return ClusterPredictor(
        gradient_bytes=gradient_bytes,
        gpu=GPUS["V100"],
        network_gb_per_second=1.25,
        gpus_per_node=gpus,
        nodes=nodes,
        fit=shipped_coefficients().links,
    )


def predict(gradient_bytes: float, *, gpus: int = 4, nodes: int = 1) -> PredictedIteration:
    predictor = cluster(gradient_bytes, gpus=gpus, nodes=nodes)
    return predict_several_gpus(SINGLE, predictor, None, nodes=nodes, gpus=gpus, samples_per_gpu=16)


def test_several_gpus_are_scaled_even_if_one_was_measured() -> None:
    assert predict(1e8).basis == "scaled"


def test_synchronisation_is_a_part_limited_by_the_network() -> None:
    part = predict(1e8).parts[-1]
    assert part.limited_by == "network"
    assert part.seconds > 0


def test_more_gradient_bytes_never_take_less_time() -> None:
    small, large = predict(1e6), predict(1e10)
    assert SINGLE.seconds.value <= small.seconds.value <= large.seconds.value
    assert large.limited_by == "network"


def test_interval_is_at_least_as_wide_as_that_of_one_gpu() -> None:
    found = predict(1e8, nodes=2).seconds
    assert found.high / found.low >= SINGLE.seconds.high / SINGLE.seconds.low


def test_own_ring_needs_one_and_several_gpus() -> None:
    one, four = on_gpu("V100", 0.1, 16), on_gpu("V100", 0.15, 16, id="pfour", world_size=4)
    times = {profile.id: measured_times(profile) for profile in (one, four)}
    assert fit_own_ring([one], times) is None
    assert fit_own_ring([four], times) is None
    assert fit_own_ring([one, four], times) is not None


def test_independent_errors_add_up_as_squares() -> None:
    found = combine_errors(1.0, Interval.within_factor(5.0, math.exp(0.3)), Interval.within_factor(7.0, math.exp(0.4)))
    assert found.low == pytest.approx(math.exp(-0.5))
    assert found.high == pytest.approx(math.exp(0.5))


def test_exact_interval_adds_no_error() -> None:
    one = Interval.within_factor(2.0, 1.5)
    assert combine_errors(2.0, one, Interval.exactly(9.0)).high == pytest.approx(one.high)
