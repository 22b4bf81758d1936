import math
import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.estimator.parallel.ring import (
    DEFAULT_RING_SETTINGS,
    GpuPlacement,
    MeasuredStep,
    RingFit,
    ScalingModel,
    choose_settings,
    fit_ring,
    interpolate,
    linear_scaling,
    overlapped_seconds,
    ring_seconds,
    sharded_seconds,
)

seconds = st.floats(0, 1e3)
bandwidths = st.floats(1e3, 1e12)


def measured(nodes: int, gpus: int, batch_size: float, took: float) -> MeasuredStep:
    return MeasuredStep(placement=GpuPlacement(nodes=nodes, gpus=gpus), batch_size=batch_size, seconds=took)


FIT = RingFit(
    on_one_gpu=((32.0, 0.1), (64.0, 0.16), (128.0, 0.3)),
    gamma=1.5,
    crowding=0.0,
    inside_seconds=0.02,
    between_seconds=0.1,
    crossing_seconds=0.05,
)


def mean_error(model: ScalingModel, held_out: list[MeasuredStep]) -> float:
    """The mean absolute error in percent."""
    return 100 * fmean(abs(model.seconds(s.placement, s.batch_size) / s.seconds - 1) for s in held_out)


def steps_of(truth: RingFit, most: int, *, noise: float = 0.0, seed: int = 1) -> list[MeasuredStep]:
    rng = random.Random(seed)
    return [
        measured(
            nodes,
            gpus,
            batch,
            truth.seconds(GpuPlacement(nodes=nodes, gpus=gpus), batch) * math.exp(rng.gauss(0, noise)),
        )
        for gpus in range(1, most + 1)
        for nodes in range(1, gpus + 1)
        if gpus % nodes == 0
        for batch in (32.0, 64.0, 128.0)
    ]


@given(st.integers(1, 100), st.floats(0, 1e12), bandwidths)
def test_sharded_weights_send_three_parts_where_a_gradient_sends_two(n: int, size: float, bandwidth: float) -> None:
    plain = ring_seconds(size, gpus=n, bytes_per_second=bandwidth)
    assert sharded_seconds(size, gpus=n, bytes_per_second=bandwidth) == pytest.approx(1.5 * plain)


@given(st.floats(0, 1e12), bandwidths, seconds)
def test_ring_is_free_on_one_gpu(gradient: float, bandwidth: float, latency: float) -> None:
    assert ring_seconds(gradient, gpus=1, bytes_per_second=bandwidth, latency_seconds=latency) == 0


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0, 1e12), bandwidths, seconds)
def test_longer_ring_never_takes_less_time(a: int, b: int, gradient: float, bandwidth: float, latency: float) -> None:
    fewer, more = sorted((a, b))
    times = [ring_seconds(gradient, gpus=n, bytes_per_second=bandwidth, latency_seconds=latency) for n in (fewer, more)]
    assert times[0] <= times[1] * (1 + 1e-12)


def test_ring_by_hand() -> None:
    """400 MB over 8 GPUs at 10 GB/s and 1 ms a hop: 14 hops, and 7/4 of the gradient."""
    assert ring_seconds(4e8, gpus=8, bytes_per_second=1e10, latency_seconds=1e-3) == pytest.approx(0.014 + 1.75 * 0.04)


@given(seconds, seconds, st.floats(1, 10))
def test_overlapped_time_lies_between_the_longer_and_the_sum(grad: float, sync: float, gamma: float) -> None:
    both = overlapped_seconds(grad, sync, gamma)
    assert max(grad, sync) * (1 - 1e-12) <= both <= (grad + sync) * (1 + 1e-12)


@given(seconds, seconds, st.floats(1, 10), st.floats(1, 10))
def test_more_overlap_never_takes_longer(grad: float, sync: float, a: float, b: float) -> None:
    less, more = sorted((a, b))
    assert overlapped_seconds(grad, sync, more) <= overlapped_seconds(grad, sync, less) * (1 + 1e-9)


@pytest.mark.parametrize("gamma", [0.99, 10.1])
def test_gamma_outside_its_bounds_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="between 1 and 10"):
        overlapped_seconds(1.0, 1.0, gamma)


@given(st.integers(1, 200), st.integers(1, 200), st.booleans())
def test_more_nodes_never_lower_communication_time(a: int, b: int, spread: bool) -> None:
    """One GPU per node, or all on one; with several per node, measured programs did get faster from two to three."""
    fewer, more = (FIT.sync_seconds(GpuPlacement(nodes=n if spread else 1, gpus=n)) for n in sorted((a, b)))
    assert fewer <= more * (1 + 1e-12)


def test_step_on_one_gpu_is_the_measured_one() -> None:
    assert FIT.seconds(GpuPlacement(nodes=1, gpus=1), 64) == 0.16
    assert FIT.sync_seconds(GpuPlacement(nodes=1, gpus=1)) == 0


def test_times_are_interpolated_linearly_by_batch_size() -> None:
    points = ((32.0, 0.1), (64.0, 0.2))
    assert interpolate(points, 48) == pytest.approx(0.15)
    assert interpolate(points, 128) == pytest.approx(0.4)
    assert interpolate(points, 1) == pytest.approx(0.05), "never below half of the nearest"


@pytest.mark.parametrize("gamma", [1.2, 2.5])
def test_fit_on_few_gpus_predicts_many(gamma: float) -> None:
    truth = replace(FIT, gamma=gamma, crossing_seconds=0.08, straggling=DEFAULT_RING_SETTINGS.straggling)
    held_out = [s for s in steps_of(truth, 32) if s.placement.gpus > 4]
    fit = fit_ring(steps_of(truth, 4, noise=0.01))
    assert mean_error(fit, held_out) < 6
    assert mean_error(fit, held_out) < mean_error(linear_scaling(steps_of(truth, 4)), held_out) / 5


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_fit_has_no_negative_coefficient_and_gamma_within_bounds(seed: int) -> None:
    rng = random.Random(seed)
    random_steps = [
        measured(nodes, gpus, 32, rng.uniform(0.01, 1)) for nodes, gpus in ((1, 1), (1, 2), (2, 2), (2, 4), (1, 4))
    ]
    fit = fit_ring(random_steps)
    assert 1 <= fit.gamma <= 10
    assert min(fit.crowding, fit.inside_seconds, fit.between_seconds, fit.crossing_seconds) >= 0


def test_half_of_the_residual_at_the_largest_count_is_applied_to_larger_ones() -> None:
    """Four GPUs took 1.5x as long as the ring explains; the fit applies half of that, in logs, from there on."""
    steps = [measured(1, 1, 32, 1.0), *[measured(1, 2, 32, 1.0)] * 9, measured(1, 4, 32, 1.5)]
    fit = fit_ring(steps)
    four = GpuPlacement(nodes=1, gpus=4)
    bare = replace(fit, residual_factors=()).seconds(four, 32)
    assert fit.seconds(four, 32) == pytest.approx(math.sqrt(bare * 1.5))
    assert fit.seconds(GpuPlacement(nodes=1, gpus=8), 32) > replace(fit, residual_factors=()).seconds(
        GpuPlacement(nodes=1, gpus=8), 32
    )


def test_straggling_does_not_slow_one_gpu() -> None:
    fit = fit_ring(steps_of(replace(FIT, straggling=0.05), 4))
    assert fit.seconds(GpuPlacement(nodes=1, gpus=1), 64) == pytest.approx(0.16)


@given(st.integers(1, 16), st.integers(1, 8), st.sampled_from([32.0, 64.0, 128.0]))
def test_sync_share_is_the_elasticity_of_the_step(nodes: int, q: int, batch: float) -> None:
    placement = GpuPlacement(nodes=nodes, gpus=nodes * q)
    share = FIT.sync_share(placement, batch)
    assert 0 <= share <= 1
    slower = replace(
        FIT,
        inside_seconds=FIT.inside_seconds * 1.001,
        between_seconds=FIT.between_seconds * 1.001,
        crossing_seconds=FIT.crossing_seconds * 1.001,
    )
    grown = slower.seconds(placement, batch) / FIT.seconds(placement, batch) - 1
    assert grown == pytest.approx(0.001 * share, abs=1e-6)


def test_network_of_a_program_on_one_node_comes_from_the_settings() -> None:
    alone = [step for step in steps_of(FIT, 4) if step.placement.nodes == 1]
    fit = fit_ring(alone, replace(DEFAULT_RING_SETTINGS, between=5.0, crossing=0.5))
    assert (fit.max_measured_nodes, fit.max_gpus_on_one_node) == (1, max(step.placement.gpus for step in alone))
    assert fit.between_seconds / fit.inside_seconds == pytest.approx(5.0, rel=0.05)
    assert fit.crossing_seconds / fit.between_seconds == pytest.approx(0.5, rel=0.05)


def test_settings_are_learned_from_other_programs() -> None:
    truth = replace(FIT, latency_share=0.06)
    programs = {name: steps_of(truth, 16, noise=0.01, seed=seed) for seed, name in enumerate("ab")}
    found = choose_settings(programs, most=4, latency_shares=(0.0, 0.06), stragglings=(0.0,))
    assert found.latency_share == 0.06
    assert found.between == pytest.approx(5.0, rel=0.3)


def test_programs_on_few_gpus_are_ignored_in_the_choice_of_settings() -> None:
    assert choose_settings({"a": steps_of(FIT, 4)}, most=4) == DEFAULT_RING_SETTINGS
    assert choose_settings({}, most=4) == DEFAULT_RING_SETTINGS


def test_fit_needs_one_gpu_and_at_least_two() -> None:
    with pytest.raises(ValueError, match="at least two GPUs"):
        fit_ring([measured(1, 1, 32, 1.0)])
    with pytest.raises(ValueError, match="one GPU is needed"):
        fit_ring([measured(1, 2, 32, 1.0)])


def test_placement_needs_a_gpu_on_every_node() -> None:
    with pytest.raises(ValueError, match="as many GPUs"):
        GpuPlacement(nodes=4, gpus=3)
