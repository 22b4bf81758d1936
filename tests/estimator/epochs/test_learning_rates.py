import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainfare.estimator.epochs.learning_rates import classify_schedule, epoch_at_share, epochs_by_schedule, planned_end

EXPONENTIAL = [0.1 * 0.0133 ** (k / 100) for k in range(100)]
COSINE = [0.05 * (1 + math.cos(math.pi * k / 50)) for k in range(50)]
THIRDS = [0.1 * 0.1 ** (k // 30) for k in range(90)]
ONE_CYCLE = [0.01 * k for k in range(1, 31)] + [0.3 * (1 + math.cos(math.pi * k / 70)) / 2 for k in range(70)]
PLATEAU = [min(0.5, 0.1 + 0.04 * k) for k in range(30)]

plans = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=120)


@pytest.mark.parametrize(
    ("plan", "shape"),
    [
        ([0.1] * 50, "constant"),
        ([0.02, 0.06, *[0.1] * 48], "constant"),
        (EXPONENTIAL, "smooth"),
        (COSINE, "smooth"),
        ([0.02, 0.06, *COSINE], "smooth"),
        (THIRDS, "steps"),
        ([1.0] * 4 + [0.2] * 3 + [0.04] * 3, "steps"),
        ([max(0.0, 1 - k / 50) for k in range(300)], "smooth"),
        ([0.1, 0.1, 0.01], "steps"),
        (ONE_CYCLE, "one-cycle"),
        ([*COSINE, *COSINE], "restarts"),
        ([0.0] * 5, "constant"),
        ([], "constant"),
    ],
)
def test_shape_of_a_plan(plan: list[float], shape: str) -> None:
    assert classify_schedule(plan).shape == shape


def test_drop_is_counted_by_the_last_epoch_before_it() -> None:
    assert classify_schedule(THIRDS).drops == (30, 60)


def test_95_percent_of_an_exponential_by_hand() -> None:
    """(1 − q^E)/(1 − q^100) ≥ 0.95 with q^100 = 0.0133: q^E ≤ 0.0626, E ≥ 64.1."""
    assert epochs_by_schedule(EXPONENTIAL).value == 65


def test_90_percent_of_a_constant_rate_is_90_percent_of_the_run() -> None:
    assert epoch_at_share([0.3] * 50, 0.9) == 45


@given(plans, st.floats(0.01, 1), st.sampled_from([1e-6, 0.1, 3.0, 1e5]))
def test_scale_of_the_rate_does_not_matter(plan: list[float], share: float, scale: float) -> None:
    total = math.fsum(plan)
    # Where a sum lies on the share itself, rounding may decide.
    assume(all(abs(math.fsum(plan[:k]) / total - share) > 1e-6 for k in range(len(plan) + 1)))
    assert epoch_at_share([rate * scale for rate in plan], share) == epoch_at_share(plan, share)


@given(plans, st.floats(0.01, 1), st.floats(0.01, 1))
def test_larger_share_never_comes_earlier(plan: list[float], a: float, b: float) -> None:
    assert epoch_at_share(plan, min(a, b)) <= epoch_at_share(plan, max(a, b))


@given(st.lists(st.floats(1e-6, 1e3), min_size=0, max_size=120), st.lists(st.floats(-10, 10), max_size=60))
def test_answer_lies_in_its_interval_and_in_the_run(plan: list[float], values: list[float]) -> None:
    answer = epochs_by_schedule(plan, values=values[: len(plan)], higher=True)
    if not answer.refused:
        assert answer.value is not None
        assert answer.low is not None
        assert answer.high is not None
        assert 1 <= answer.low <= answer.value <= answer.high <= len(plan)


def test_before_the_first_drop_the_interval_spans_all_drops() -> None:
    answer = epochs_by_schedule(THIRDS, values=[0.1 + 0.01 * k for k in range(20)], higher=True)
    assert answer.low == 31
    assert answer.value == pytest.approx(61, abs=1)
    assert answer.high is not None
    assert 61 <= answer.high < 70


def test_after_a_large_gain_the_next_drop_is_expected() -> None:
    seen = [*PLATEAU, *[0.7] * 10]
    assert epochs_by_schedule(THIRDS, values=seen, higher=True).value == 61


def test_after_a_small_gain_the_model_has_settled() -> None:
    seen = [*PLATEAU, *[0.52] * 10]
    assert epochs_by_schedule(THIRDS, values=seen, higher=True).value == 31


def test_after_the_last_drop_the_model_settles() -> None:
    seen = [*PLATEAU, *[0.7] * 30, *[0.75] * 5]
    assert epochs_by_schedule(THIRDS, values=seen, higher=True).value == 61


def test_one_drop_needs_no_curve() -> None:
    assert epochs_by_schedule([0.1] * 40 + [0.01] * 20).value == 41


def test_constant_rate_is_refused() -> None:
    answer = epochs_by_schedule([0.1] * 30)
    assert answer.refused
    assert "stays the same" in answer.why


def test_smooth_decay_of_unknown_length_is_refused() -> None:
    answer = epochs_by_schedule(EXPONENTIAL, complete=False)
    assert answer.refused
    assert "the number of epochs is not known" in answer.why


def test_steps_need_no_known_length() -> None:
    assert not epochs_by_schedule(THIRDS, complete=False).refused


def test_restarts_have_a_warning() -> None:
    assert epochs_by_schedule([*COSINE, *COSINE]).warnings


@pytest.mark.parametrize(
    ("plan", "end"),
    [
        ([0.05 * (1 + math.cos(math.pi * k / 40)) for k in range(300)], 38),
        ([max(0.0, 1 - k / 50) for k in range(300)], 50),
        ([0.1] * 300, None),
        ([0.1 * 0.1 ** (k // 30) for k in range(90)], None),
        (EXPONENTIAL, None),
        ([], None),
    ],
)
def test_vanishing_rate_shows_the_end_of_the_run(plan: list[float], end: int | None) -> None:
    assert planned_end(plan) == end
