"""Which machine to measure next: the belief, what a measurement saves, when to stop."""

import math
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.model.plan import Goal
from trainfare.recommender.probing.next_probe import (
    DOUBT,
    GPU_FACTS,
    NOISE,
    OUR_MODELS,
    Belief,
    Option,
    Underway,
    Worth,
    believed_best,
    contenders,
    covariance,
    gains,
    next_measurement,
    saving_together,
    worth_of,
)


def make_option(machine: str = "a", **changes: object) -> Option:
    fields: dict[str, object] = {
        "machine": machine,
        "gpu": machine,
        "usd_per_second": 1.0 / 3600,
        "start_seconds": 90.0,
        "probe_seconds": 30.0,
    }
    return Option(**(fields | changes))  # type: ignore[arg-type] # fields by name


def believed(hours: Sequence[float], deviation: float = 0.3, **changes: object) -> Belief:
    """Machines of a dollar an hour that err independently of one another."""
    options = [make_option(f"m{i}", **changes) for i in range(len(hours))]
    return Belief.of(options, np.log(np.array(hours) * 3600), deviation**2 * np.eye(len(hours)))


CHEAPEST = Worth()


@given(
    hours=st.lists(st.floats(0.1, 100), min_size=2, max_size=8),
    deviation=st.floats(0.01, 0.8),
    shared=st.floats(0.0, 0.9),
)
@settings(max_examples=50, deadline=None)
def test_to_know_more_is_never_expected_to_cost_more(hours: list[float], deviation: float, shared: float) -> None:
    belief = believed(hours, deviation)
    sigma = deviation**2 * (shared + (1 - shared) * np.eye(len(hours)))
    belief = Belief.of(belief.options, belief.mean, sigma)
    for gain in gains(belief, CHEAPEST):
        assert gain.saving >= 0
        assert gain.price == pytest.approx(120 / 3600)
    usd, _ = saving_together(belief, CHEAPEST, range(len(hours)))
    assert usd >= -0.01 * min(hours)


def test_the_saving_is_that_of_a_thousand_draws() -> None:
    belief = believed([10.0, 11.0, 12.0], 0.3, start_seconds=0.0, probe_seconds=0.0)
    draw = np.random.default_rng(7)
    shown = belief.mean[1] + math.sqrt(0.09 + NOISE**2) * draw.standard_normal(200_000)
    kept = 0.09 / (0.09 + NOISE**2)
    then = np.exp(belief.mean[1] + kept * (shown - belief.mean[1]) + 0.09 * (1 - kept) / 2) / 3600
    others = np.exp(belief.mean[[0, 2]] + 0.045).min() / 3600
    now = np.exp(belief.mean + 0.045).min() / 3600
    found = next(gain for gain in gains(belief, CHEAPEST) if gain.index == 1)
    assert found.saving == pytest.approx(now - np.minimum(then, others).mean(), rel=0.03)


def test_what_is_sure_is_not_measured() -> None:
    assert next_measurement(believed([10.0, 11.0], deviation=1e-4), CHEAPEST) is None


def test_a_probe_that_costs_more_than_the_training_could_save_is_not_made() -> None:
    assert next_measurement(believed([0.01, 0.011], 0.3), CHEAPEST) is None
    assert next_measurement(believed([100.0, 110.0], 0.3), CHEAPEST) is not None


def test_a_machine_that_could_hardly_win_is_not_measured() -> None:
    gain = next_measurement(believed([10.0, 10.5, 300.0], 0.3), CHEAPEST)
    assert gain is not None
    assert gain.index in (0, 1)
    assert set(contenders(believed([10.0, 10.5, 300.0], 0.3), CHEAPEST)) == {0, 1}


def test_a_measurement_moves_what_is_alike_and_leaves_the_rest() -> None:
    options = [make_option("a", gpu="T4"), make_option("b", gpu="T4"), make_option("c", gpu="V100")]
    belief = Belief.of(options, np.log([3600.0] * 3), covariance(options, GPU_FACTS))
    after = belief.given(0, 7200.0)
    assert after.mean[0] == pytest.approx(math.log(7200), abs=0.01)
    assert after.mean[0] > after.mean[1] > after.mean[2] > belief.mean[2]
    assert after.covariance[0, 0] < NOISE**2
    assert (np.diag(after.covariance) < np.diag(belief.covariance)).all()


def test_the_same_machine_at_another_price_is_measured_with_it() -> None:
    options = [make_option("a", usd_per_second=3.0), make_option("a", usd_per_second=1.0), make_option("b")]
    belief = Belief.of(options, np.log([3600.0] * 3), covariance(options, OUR_MODELS)).given(0, 1800.0)
    assert belief.mean[1] == pytest.approx(belief.mean[0])
    assert {gain.index for gain in gains(belief, CHEAPEST)} == {2}


def test_a_belief_that_was_too_sure_is_widened_by_its_surprises() -> None:
    options = [make_option(name) for name in "abc"]
    belief = Belief.of(options, np.log([3600.0] * 3), 0.01 * np.eye(3))
    expected = belief.given(0, 3600.0).given(1, 3600.0)
    surprised = belief.given(0, 7200.0).given(1, 1800.0)
    assert expected.covariance[2, 2] == pytest.approx(0.01)
    assert surprised.covariance[2, 2] > 0.05


def test_what_was_measured_before_is_as_sure_as_its_interval_and_the_rest_a_little_less_than_its_own() -> None:
    options = [make_option("a", measured=True), make_option("b"), make_option("c")]
    sigma = covariance(options, OUR_MODELS, [0.03, 0.3, None])
    assert sigma[0, 0] == pytest.approx(0.03**2)
    assert sigma[1, 1] == pytest.approx(0.3**2 + DOUBT**2)
    assert np.linalg.eigvalsh(sigma).min() > -1e-12
    assert 0.2 < sigma[1, 2] / math.sqrt(sigma[1, 1] * sigma[2, 2]) < 0.6


def test_the_training_that_runs_is_left_only_for_more_than_what_it_has_done() -> None:
    belief = believed([10.0, 9.0], 0.01)
    assert believed_best(belief, CHEAPEST) == 1
    assert believed_best(belief, CHEAPEST, Underway(running=0)) == 1
    assert believed_best(belief, CHEAPEST, Underway(running=0, done_seconds=2 * 3600)) == 0


def test_who_keeps_checkpoints_may_leave_later() -> None:
    belief = believed([10.0, 5.0], 0.01)
    far = Underway(running=0, done_seconds=6 * 3600)
    assert believed_best(belief, CHEAPEST, far) == 0
    assert believed_best(belief, CHEAPEST, Underway(running=0, done_seconds=6 * 3600, kept=1.0)) == 1


def test_a_machine_that_is_up_pays_no_second_boot() -> None:
    belief = believed([10.0, 10.01], 1e-3, start_seconds=3600.0)
    assert believed_best(belief, CHEAPEST) == 0
    assert believed_best(belief, CHEAPEST, up=1) == 1


def test_a_deadline_makes_worth_measuring_what_is_cheap_and_not_surely_in_time() -> None:
    options = [make_option("sure", usd_per_second=10 / 3600, measured=True), make_option("cheap")]
    sigma = np.diag([1e-6, 0.3**2])
    belief = Belief.of(options, np.log([5 * 3600.0, 9 * 3600.0]), sigma)
    worth = worth_of(Goal(deadline_seconds=10 * 3600.0), belief)
    assert believed_best(belief, worth) == 0
    gain = next_measurement(belief, worth)
    assert gain is not None
    assert gain.index == 1
    assert gain.saving_usd > 10
    assert believed_best(belief.given(1, 8 * 3600.0), worth) == 1
    assert believed_best(belief.given(1, 12 * 3600.0), worth) == 0


def test_who_wants_to_be_fast_pays_for_time_and_not_for_money() -> None:
    options = [make_option("fast", usd_per_second=10 / 3600), make_option("cheap", usd_per_second=1 / 3600)]
    belief = Belief.of(options, np.log([3600.0, 7200.0]), 0.01 * np.eye(2))
    assert believed_best(belief, worth_of(Goal(kind="fastest"), belief)) == 0
    assert believed_best(belief, worth_of(Goal(), belief)) == 1
    assert believed_best(belief, worth_of(Goal(kind="weighted", weight_time=1.0), belief)) == 0
    assert believed_best(belief, worth_of(Goal(kind="weighted", weight_time=0.0), belief)) == 1


def test_more_epochs_make_more_worth_measuring() -> None:
    belief = believed([1.0, 1.2], 0.3)
    few = gains(belief, Worth())[0].saving
    assert gains(belief, Worth(epochs_deviation=1.0))[0].saving > few


def test_two_hundred_machines_take_no_time_to_think_about() -> None:
    options = [make_option(f"m{i}", gpu=f"g{i % 20}", gpus=1 + i % 8) for i in range(200)]
    belief = Belief.of(options, np.log(np.linspace(3600, 7200, 200)), covariance(options, OUR_MODELS))
    next_measurement(belief, CHEAPEST)
    took = []
    for _ in range(5):
        started = time.process_time()
        next_measurement(belief, CHEAPEST)
        took.append(time.process_time() - started)
    assert min(took) < 0.1
