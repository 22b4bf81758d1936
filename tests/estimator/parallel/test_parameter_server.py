import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.parallel.parameter_server import (
    ServedStep,
    ServedTraining,
    any_k_seconds,
    apart_seconds,
    first_k_seconds,
    fit_served,
    gpu_seconds,
    in_step_seconds,
    served_seconds,
    speed_up,
    synchronous_seconds,
    transfer_seconds,
)

RESNET = ServedTraining(
    forward_seconds_per_sample=0.001,
    backward_seconds=0.05,
    gradient_bytes=1e8,
    server_bytes_per_second=1e9,
    aggregation_seconds=0.01,
    overhead_seconds_per_gpu=0.002,
)


def test_the_formula_by_hand() -> None:
    """256/4 × 1 ms + 50 ms + 2 × 0.1 GB / (1 GB/s / 4) + 10 ms + 4 × 2 ms."""
    assert gpu_seconds(RESNET, batch_size=256, gpus=4) == pytest.approx(0.064 + 0.05 + 0.8 + 0.01 + 0.008)


def test_servers_of_their_own_share_nothing() -> None:
    assert gpu_seconds(RESNET, batch_size=256, gpus=4, gpus_at_server=1) == pytest.approx(0.064 + 0.05 + 0.2 + 0.018)


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0, 1e12), st.floats(1, 1e12))
def test_more_gpus_at_a_server_never_lower_its_transfer(a: int, b: int, gradient: float, bandwidth: float) -> None:
    fewer, more = (transfer_seconds(gradient, gpus_at_server=n, bytes_per_second=bandwidth) for n in sorted((a, b)))
    assert fewer <= more


def test_the_slowest_gpu_decides() -> None:
    assert synchronous_seconds([0.1, 0.3, 0.2]) == 0.3


@given(st.integers(1, 64), st.data(), st.floats(1e-3, 10), st.floats(0, 10))
def test_waiting_for_fewer_never_takes_longer(gpus: int, data: st.DataObject, took: float, jitter: float) -> None:
    fewer, more = sorted(data.draw(st.lists(st.integers(1, gpus), min_size=2, max_size=2)))
    for waits in (first_k_seconds, any_k_seconds):
        times = [waits(took, jitter_seconds=jitter, gpus=gpus, k=k) for k in (fewer, more)]
        assert times[0] <= times[1]


@given(st.integers(1, 64), st.floats(1e-3, 10), st.floats(0, 10))
def test_without_jitter_the_first_k_come_together(gpus: int, took: float, jitter: float) -> None:
    assert first_k_seconds(took, jitter_seconds=0, gpus=gpus, k=gpus) == took
    assert any_k_seconds(took, jitter_seconds=jitter, gpus=gpus, k=gpus) == pytest.approx(took + jitter)


def test_the_last_of_three_exponential_delays_by_hand() -> None:
    assert first_k_seconds(1.0, jitter_seconds=0.6, gpus=3, k=3) == pytest.approx(1 + 0.6 * (1 + 1 / 2 + 1 / 3))
    assert first_k_seconds(1.0, jitter_seconds=0.6, gpus=3, k=1) == pytest.approx(1 + 0.6 / 3)


@pytest.mark.parametrize("k", [0, 5])
def test_a_server_waits_for_some_of_its_gpus(k: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 4"):
        first_k_seconds(1.0, jitter_seconds=0.1, gpus=4, k=k)


def test_scaling_efficiency_of_the_document_is_the_speed_up() -> None:
    """Table I: 87 s on one K80, 55 s on two."""
    assert speed_up(87, 55) == pytest.approx(1.58, abs=0.005)


def test_the_fit_finds_what_the_formula_made_and_holds_on_other_counts() -> None:
    steps = [
        ServedStep(gpus=g, batch_size=m, seconds=0.002 * m / g + 0.01 * g + 0.05) for g in (1, 2, 4) for m in (64, 256)
    ]
    fit = fit_served(steps)
    assert [fit.a0, fit.a1, fit.a2] == pytest.approx([0.002, 0.01, 0.05])
    assert fit.seconds(gpus=16, batch_size=1024) == pytest.approx(0.128 + 0.16 + 0.05)


def test_no_coefficient_is_negative_where_a_line_would_have_one() -> None:
    fit = fit_served([ServedStep(gpus=g, batch_size=64, seconds=1 / g**2) for g in (1, 2, 4)])
    assert min(fit.a0, fit.a1, fit.a2) >= 0


def test_one_point_fits_nothing() -> None:
    with pytest.raises(ValueError, match="two numbers of GPUs"):
        fit_served([ServedStep(gpus=1, batch_size=64, seconds=1.0)] * 3)


def test_the_knee_is_where_each_direction_of_the_servers_network_is_always_busy() -> None:
    """100 ms of computing and 50 MB at 10 GB/s, 5 ms each way: 110 ms hold 22 of them."""
    found = served_seconds(0.1, gradient_bytes=5e7, workers=21, server_bytes_per_second=1e10)
    assert found.knee == pytest.approx(22)
    assert not found.saturated
    assert served_seconds(0.1, gradient_bytes=5e7, workers=22, server_bytes_per_second=1e10).saturated


def test_far_beyond_the_knee_each_more_worker_takes_a_transfer_more() -> None:
    many, more = (served_seconds(0.1, gradient_bytes=5e7, workers=n, server_bytes_per_second=1e10) for n in (400, 500))
    assert more.asynchronous - many.asynchronous == pytest.approx(100 * 0.005, rel=0.01)


@given(st.floats(0.01, 10), st.floats(0, 1), st.integers(1, 64))
def test_even_sharing_is_sanghvis_term_and_one_after_the_other_is_the_least(t: float, d: float, n: int) -> None:
    even = in_step_seconds(t, d, n, evenness=1.0)
    assert even == pytest.approx(t + transfer_seconds(d, gpus_at_server=n, bytes_per_second=1.0))
    assert in_step_seconds(t, d, n, evenness=0.0) == pytest.approx(t + (n + 1) * d)
    assert in_step_seconds(t, d, n, evenness=0.0) <= in_step_seconds(t, d, n) <= even * (1 + 1e-9)


@given(st.floats(0.01, 10), st.floats(1e-4, 1), st.integers(1, 64))
def test_workers_apart_are_held_up_by_the_network_or_by_themselves(t: float, d: float, n: int) -> None:
    """The bounds of every closed network, and the balanced one without computing."""
    found = apart_seconds(t, d, n)
    assert max(t + 2 * d, n * d) * (1 - 1e-9) <= found <= (t + (n + 1) * d) * (1 + 1e-9)
    assert apart_seconds(0.0, d, n) == pytest.approx((n + 1) * d)


def test_one_worker_is_the_same_in_step_and_apart() -> None:
    one = served_seconds(0.1, gradient_bytes=5e7, workers=1, server_bytes_per_second=1e10)
    assert one.synchronous == one.asynchronous == pytest.approx(0.11)


@pytest.mark.parametrize("evenness", [-0.1, 1.1])
def test_evenness_is_a_share(evenness: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        in_step_seconds(0.1, 0.01, 2, evenness=evenness)


def test_a_program_without_gradient_never_fills_the_network() -> None:
    alone = served_seconds(0.1, gradient_bytes=0, workers=1000, server_bytes_per_second=1e9)
    assert alone.synchronous == alone.asynchronous == 0.1
    assert not alone.saturated


@given(st.floats(1e-3, 10), st.floats(0, 1e10), st.integers(1, 500), st.integers(1, 500), st.floats(1e6, 1e12))
def test_more_workers_never_shorten_a_step_and_waiting_never_does(
    took: float, gradient: float, a: int, b: int, bandwidth: float
) -> None:
    fewer, more = (
        served_seconds(took, gradient_bytes=gradient, workers=n, server_bytes_per_second=bandwidth)
        for n in sorted((a, b))
    )
    assert fewer.synchronous <= more.synchronous
    assert fewer.asynchronous <= more.asynchronous
    assert more.asynchronous <= more.synchronous * (1 + 1e-9)


@given(st.floats(1e6, 1e12), st.floats(1e6, 1e12), st.floats(1e6, 1e12))
def test_a_slow_network_of_their_own_never_makes_workers_faster(a: float, b: float, server: float) -> None:
    slow, fast = (
        served_seconds(0.1, gradient_bytes=1e8, workers=4, server_bytes_per_second=server, worker_bytes_per_second=own)
        for own in sorted((a, b))
    )
    assert fast.synchronous <= slow.synchronous
    assert fast.asynchronous <= slow.asynchronous
