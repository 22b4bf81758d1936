import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.parallel.parameter_server import (
    MeasuredServerStep,
    ServerTraining,
    any_k_seconds,
    asynchronous_step_seconds,
    first_k_seconds,
    fit_parameter_server,
    gpu_seconds,
    parameter_server_seconds,
    speed_up,
    synchronous_seconds,
    synchronous_step_seconds,
    transfer_seconds,
)

RESNET = ServerTraining(
    forward_seconds_per_sample=0.001,
    backward_seconds=0.05,
    gradient_bytes=1e8,
    server_bytes_per_second=1e9,
    aggregation_seconds=0.01,
    overhead_seconds_per_gpu=0.002,
)


def test_formula_by_hand() -> None:
    """256/4 × 1 ms + 50 ms + 2 × 0.1 GB / (1 GB/s / 4) + 10 ms + 4 × 2 ms."""
    assert gpu_seconds(RESNET, batch_size=256, gpus=4) == pytest.approx(0.064 + 0.05 + 0.8 + 0.01 + 0.008)


def test_gpus_with_their_own_servers_share_no_bandwidth() -> None:
    assert gpu_seconds(RESNET, batch_size=256, gpus=4, gpus_at_server=1) == pytest.approx(0.064 + 0.05 + 0.2 + 0.018)


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0, 1e12), st.floats(1, 1e12))
def test_more_gpus_at_a_server_never_shorten_a_transfer(a: int, b: int, gradient: float, bandwidth: float) -> None:
    fewer, more = (transfer_seconds(gradient, gpus_at_server=n, bytes_per_second=bandwidth) for n in sorted((a, b)))
    assert fewer <= more


def test_slowest_gpu_decides_a_synchronous_step() -> None:
    assert synchronous_seconds([0.1, 0.3, 0.2]) == 0.3


@given(st.integers(1, 64), st.data(), st.floats(1e-3, 10), st.floats(0, 10))
def test_waiting_for_fewer_gradients_never_takes_longer(
    gpus: int, data: st.DataObject, took: float, jitter: float
) -> None:
    fewer, more = sorted(data.draw(st.lists(st.integers(1, gpus), min_size=2, max_size=2)))
    for waits in (first_k_seconds, any_k_seconds):
        times = [waits(took, jitter_seconds=jitter, gpus=gpus, k=k) for k in (fewer, more)]
        assert times[0] <= times[1]


@given(st.integers(1, 64), st.floats(1e-3, 10), st.floats(0, 10))
def test_waiting_for_all_gpus_is_the_synchronous_server(gpus: int, took: float, jitter: float) -> None:
    assert first_k_seconds(took, jitter_seconds=0, gpus=gpus, k=gpus) == took
    assert any_k_seconds(took, jitter_seconds=jitter, gpus=gpus, k=gpus) == pytest.approx(took + jitter)


def test_last_of_three_exponential_delays_by_hand() -> None:
    assert first_k_seconds(1.0, jitter_seconds=0.6, gpus=3, k=3) == pytest.approx(1 + 0.6 * (1 + 1 / 2 + 1 / 3))
    assert first_k_seconds(1.0, jitter_seconds=0.6, gpus=3, k=1) == pytest.approx(1 + 0.6 / 3)


@pytest.mark.parametrize("k", [0, 5])
def test_server_waits_for_at_least_one_and_at_most_all_gpus(k: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 4"):
        first_k_seconds(1.0, jitter_seconds=0.1, gpus=4, k=k)


def test_scaling_efficiency_of_the_document_is_the_speed_up() -> None:
    """Table I: 87 s on one K80, 55 s on two."""
    assert speed_up(87, 55) == pytest.approx(1.58, abs=0.005)


def test_fit_recovers_the_formula_and_predicts_other_numbers_of_gpus() -> None:
    steps = [
        MeasuredServerStep(gpus=g, batch_size=m, seconds=0.002 * m / g + 0.01 * g + 0.05)
        for g in (1, 2, 4)
        for m in (64, 256)
    ]
    fit = fit_parameter_server(steps)
    assert [fit.a0, fit.a1, fit.a2] == pytest.approx([0.002, 0.01, 0.05])
    assert fit.seconds(gpus=16, batch_size=1024) == pytest.approx(0.128 + 0.16 + 0.05)


def test_coefficients_are_not_negative() -> None:
    fit = fit_parameter_server([MeasuredServerStep(gpus=g, batch_size=64, seconds=1 / g**2) for g in (1, 2, 4)])
    assert min(fit.a0, fit.a1, fit.a2) >= 0


def test_one_point_is_not_enough_for_a_fit() -> None:
    with pytest.raises(ValueError, match="two numbers of GPUs"):
        fit_parameter_server([MeasuredServerStep(gpus=1, batch_size=64, seconds=1.0)] * 3)


def test_knee_is_where_the_servers_network_is_always_busy() -> None:
    """100 ms of computing and 50 MB at 10 GB/s, 5 ms each way: 110 ms contain 22 transfers."""
    found = parameter_server_seconds(0.1, gradient_bytes=5e7, workers=21, server_bytes_per_second=1e10)
    assert found.knee == pytest.approx(22)
    assert not found.saturated
    assert parameter_server_seconds(0.1, gradient_bytes=5e7, workers=22, server_bytes_per_second=1e10).saturated


def test_far_above_the_knee_each_worker_adds_one_transfer() -> None:
    many, more = (
        parameter_server_seconds(0.1, gradient_bytes=5e7, workers=n, server_bytes_per_second=1e10) for n in (400, 500)
    )
    assert more.asynchronous - many.asynchronous == pytest.approx(100 * 0.005, rel=0.01)


@given(st.floats(0.01, 10), st.floats(0, 1), st.integers(1, 64))
def test_even_sharing_is_sanghvis_term_and_serving_in_turn_is_the_shortest(t: float, d: float, n: int) -> None:
    even = synchronous_step_seconds(t, d, n, evenness=1.0)
    assert even == pytest.approx(t + transfer_seconds(d, gpus_at_server=n, bytes_per_second=1.0))
    assert synchronous_step_seconds(t, d, n, evenness=0.0) == pytest.approx(t + (n + 1) * d)
    assert synchronous_step_seconds(t, d, n, evenness=0.0) <= synchronous_step_seconds(t, d, n) <= even * (1 + 1e-9)


@given(st.floats(0.01, 10), st.floats(1e-4, 1), st.integers(1, 64))
def test_asynchronous_step_lies_within_the_bounds_of_a_closed_network(t: float, d: float, n: int) -> None:
    """Without computing it is a balanced network, whose step is known exactly."""
    found = asynchronous_step_seconds(t, d, n)
    assert max(t + 2 * d, n * d) * (1 - 1e-9) <= found <= (t + (n + 1) * d) * (1 + 1e-9)
    assert asynchronous_step_seconds(0.0, d, n) == pytest.approx((n + 1) * d)


def test_one_worker_has_the_same_synchronous_and_asynchronous_step() -> None:
    one = parameter_server_seconds(0.1, gradient_bytes=5e7, workers=1, server_bytes_per_second=1e10)
    assert one.synchronous == one.asynchronous == pytest.approx(0.11)


@pytest.mark.parametrize("evenness", [-0.1, 1.1])
def test_evenness_is_a_share(evenness: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        synchronous_step_seconds(0.1, 0.01, 2, evenness=evenness)


def test_program_without_gradient_never_saturates_the_network() -> None:
    alone = parameter_server_seconds(0.1, gradient_bytes=0, workers=1000, server_bytes_per_second=1e9)
    assert alone.synchronous == alone.asynchronous == 0.1
    assert not alone.saturated


@given(st.floats(1e-3, 10), st.floats(0, 1e10), st.integers(1, 500), st.integers(1, 500), st.floats(1e6, 1e12))
def test_more_workers_never_shorten_a_step_and_asynchronous_is_never_slower(
    took: float, gradient: float, a: int, b: int, bandwidth: float
) -> None:
    fewer, more = (
        parameter_server_seconds(took, gradient_bytes=gradient, workers=n, server_bytes_per_second=bandwidth)
        for n in sorted((a, b))
    )
    assert fewer.synchronous <= more.synchronous
    assert fewer.asynchronous <= more.asynchronous
    assert more.asynchronous <= more.synchronous * (1 + 1e-9)


@given(st.floats(1e6, 1e12), st.floats(1e6, 1e12), st.floats(1e6, 1e12))
def test_slower_network_of_the_workers_never_shortens_a_step(a: float, b: float, server: float) -> None:
    slow, fast = (
        parameter_server_seconds(
            0.1, gradient_bytes=1e8, workers=4, server_bytes_per_second=server, worker_bytes_per_second=own
        )
        for own in sorted((a, b))
    )
    assert fast.synchronous <= slow.synchronous
    assert fast.asynchronous <= slow.asynchronous
