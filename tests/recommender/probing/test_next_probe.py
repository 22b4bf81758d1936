"""Which machine to measure next: the times, what a measurement saves, when to stop."""

import math
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.model.plan import Goal
from trainfare.recommender.probing.next_probe import (
    EXTRA_DEVIATION,
    GPU_FACTS_PRIOR,
    MODEL_PRIOR,
    NOISE,
    ProbeObjective,
    ProbeOption,
    RunningTraining,
    TimeDistribution,
    best_option,
    build_covariance,
    build_objective,
    contenders,
    joint_saving,
    measurement_gains,
    next_measurement,
)


def make_option(machine: str = "a", **changes: object) -> ProbeOption:
    fields: dict[str, object] = {
        "machine": machine,
        "gpu": machine,
        "usd_per_second": 1.0 / 3600,
        "start_seconds": 90.0,
        "probe_seconds": 30.0,
    }
    return ProbeOption(**(fields | changes))  # type: ignore[arg-type] # fields by name, of several types


def make_times(hours: Sequence[float], deviation: float = 0.3, **changes: object) -> TimeDistribution:
    """Machines at a dollar an hour whose errors are independent."""
    options = [make_option(f"m{i}", **changes) for i in range(len(hours))]
    return TimeDistribution.prior(options, np.log(np.array(hours) * 3600), deviation**2 * np.eye(len(hours)))


CHEAPEST = ProbeObjective()


@given(
    hours=st.lists(st.floats(0.1, 100), min_size=2, max_size=8),
    deviation=st.floats(0.01, 0.8),
    shared=st.floats(0.0, 0.9),
)
@settings(max_examples=50, deadline=None)
def test_the_expected_saving_of_a_measurement_is_never_negative(
    hours: list[float], deviation: float, shared: float
) -> None:
    times = make_times(hours, deviation)
    sigma = deviation**2 * (shared + (1 - shared) * np.eye(len(hours)))
    times = TimeDistribution.prior(times.options, times.mean, sigma)
    for gain in measurement_gains(times, CHEAPEST):
        assert gain.saving >= 0
        assert gain.price == pytest.approx(120 / 3600)
    usd, _ = joint_saving(times, CHEAPEST, range(len(hours)))
    assert usd >= -0.01 * min(hours)


def test_the_expected_saving_agrees_with_random_draws() -> None:
    times = make_times([10.0, 11.0, 12.0], 0.3, start_seconds=0.0, probe_seconds=0.0)
    draw = np.random.default_rng(7)
    measured = times.mean[1] + math.sqrt(0.09 + NOISE**2) * draw.standard_normal(200_000)
    weight = 0.09 / (0.09 + NOISE**2)
    then = np.exp(times.mean[1] + weight * (measured - times.mean[1]) + 0.09 * (1 - weight) / 2) / 3600
    others = np.exp(times.mean[[0, 2]] + 0.045).min() / 3600
    now = np.exp(times.mean + 0.045).min() / 3600
    found = next(gain for gain in measurement_gains(times, CHEAPEST) if gain.index == 1)
    assert found.saving == pytest.approx(now - np.minimum(then, others).mean(), rel=0.03)


def test_nothing_is_measured_if_the_times_are_certain() -> None:
    assert next_measurement(make_times([10.0, 11.0], deviation=1e-4), CHEAPEST) is None


def test_a_probe_that_costs_more_than_it_can_save_is_not_made() -> None:
    assert next_measurement(make_times([0.01, 0.011], 0.3), CHEAPEST) is None
    assert next_measurement(make_times([100.0, 110.0], 0.3), CHEAPEST) is not None


def test_a_machine_that_can_hardly_win_is_not_measured() -> None:
    gain = next_measurement(make_times([10.0, 10.5, 300.0], 0.3), CHEAPEST)
    assert gain is not None
    assert gain.index in (0, 1)
    assert set(contenders(make_times([10.0, 10.5, 300.0], 0.3), CHEAPEST)) == {0, 1}


def test_a_measurement_updates_machines_with_the_same_gpu_more_than_others() -> None:
    options = [make_option("a", gpu="T4"), make_option("b", gpu="T4"), make_option("c", gpu="V100")]
    times = TimeDistribution.prior(options, np.log([3600.0] * 3), build_covariance(options, GPU_FACTS_PRIOR))
    after = times.given(0, 7200.0)
    assert after.mean[0] == pytest.approx(math.log(7200), abs=0.01)
    assert after.mean[0] > after.mean[1] > after.mean[2] > times.mean[2]
    assert after.covariance[0, 0] < NOISE**2
    assert (np.diag(after.covariance) < np.diag(times.covariance)).all()


def test_the_same_machine_at_another_price_shares_the_measurement() -> None:
    options = [make_option("a", usd_per_second=3.0), make_option("a", usd_per_second=1.0), make_option("b")]
    times = TimeDistribution.prior(options, np.log([3600.0] * 3), build_covariance(options, MODEL_PRIOR)).given(
        0, 1800.0
    )
    assert times.mean[1] == pytest.approx(times.mean[0])
    assert {gain.index for gain in measurement_gains(times, CHEAPEST)} == {2}


def test_surprising_measurements_widen_an_overconfident_prior() -> None:
    options = [make_option(name) for name in "abc"]
    times = TimeDistribution.prior(options, np.log([3600.0] * 3), 0.01 * np.eye(3))
    expected = times.given(0, 3600.0).given(1, 3600.0)
    surprised = times.given(0, 7200.0).given(1, 1800.0)
    assert expected.covariance[2, 2] == pytest.approx(0.01)
    assert surprised.covariance[2, 2] > 0.05


def test_measured_options_keep_their_deviation_and_others_get_an_extra_one() -> None:
    options = [make_option("a", measured=True), make_option("b"), make_option("c")]
    sigma = build_covariance(options, MODEL_PRIOR, [0.03, 0.3, None])
    assert sigma[0, 0] == pytest.approx(0.03**2)
    assert sigma[1, 1] == pytest.approx(0.3**2 + EXTRA_DEVIATION**2)
    assert np.linalg.eigvalsh(sigma).min() > -1e-12
    assert 0.2 < sigma[1, 2] / math.sqrt(sigma[1, 1] * sigma[2, 2]) < 0.6


def test_a_running_training_is_left_only_if_the_gain_exceeds_the_work_done() -> None:
    times = make_times([10.0, 9.0], 0.01)
    assert best_option(times, CHEAPEST) == 1
    assert best_option(times, CHEAPEST, RunningTraining(option=0)) == 1
    assert best_option(times, CHEAPEST, RunningTraining(option=0, done_seconds=2 * 3600)) == 0


def test_with_checkpoints_a_running_training_can_be_left_later() -> None:
    times = make_times([10.0, 5.0], 0.01)
    late = RunningTraining(option=0, done_seconds=6 * 3600)
    assert best_option(times, CHEAPEST, late) == 0
    assert best_option(times, CHEAPEST, RunningTraining(option=0, done_seconds=6 * 3600, kept_share=1.0)) == 1


def test_a_started_machine_pays_no_second_boot() -> None:
    times = make_times([10.0, 10.01], 1e-3, start_seconds=3600.0)
    assert best_option(times, CHEAPEST) == 0
    assert best_option(times, CHEAPEST, started=1) == 1


def test_within_a_deadline_a_cheap_but_uncertain_machine_is_worth_measuring() -> None:
    options = [make_option("certain", usd_per_second=10 / 3600, measured=True), make_option("cheap")]
    sigma = np.diag([1e-6, 0.3**2])
    times = TimeDistribution.prior(options, np.log([5 * 3600.0, 9 * 3600.0]), sigma)
    objective = build_objective(Goal(deadline_seconds=10 * 3600.0), times)
    assert best_option(times, objective) == 0
    gain = next_measurement(times, objective)
    assert gain is not None
    assert gain.index == 1
    assert gain.saving_usd > 10
    assert best_option(times.given(1, 8 * 3600.0), objective) == 1
    assert best_option(times.given(1, 12 * 3600.0), objective) == 0


def test_the_goal_sets_the_prices_of_time_and_money() -> None:
    options = [make_option("fast", usd_per_second=10 / 3600), make_option("cheap", usd_per_second=1 / 3600)]
    times = TimeDistribution.prior(options, np.log([3600.0, 7200.0]), 0.01 * np.eye(2))
    assert best_option(times, build_objective(Goal(kind="fastest"), times)) == 0
    assert best_option(times, build_objective(Goal(), times)) == 1
    assert best_option(times, build_objective(Goal(kind="weighted", weight_time=1.0), times)) == 0
    assert best_option(times, build_objective(Goal(kind="weighted", weight_time=0.0), times)) == 1


def test_uncertain_epochs_increase_the_saving() -> None:
    times = make_times([1.0, 1.2], 0.3)
    few = measurement_gains(times, ProbeObjective())[0].saving
    assert measurement_gains(times, ProbeObjective(epochs_deviation=1.0))[0].saving > few


def test_two_hundred_machines_take_less_than_a_tenth_of_a_second() -> None:
    options = [make_option(f"m{i}", gpu=f"g{i % 20}", gpus=1 + i % 8) for i in range(200)]
    times = TimeDistribution.prior(
        options, np.log(np.linspace(3600, 7200, 200)), build_covariance(options, MODEL_PRIOR)
    )
    next_measurement(times, CHEAPEST)
    took = []
    for _ in range(5):
        started = time.process_time()
        next_measurement(times, CHEAPEST)
        took.append(time.process_time() - started)
    assert min(took) < 0.1
