import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.batch.step_time import batch_line, predict_batch_time

seconds = st.floats(1e-4, 1e3)
batches = st.integers(1, 4096)
curves = st.dictionaries(batches, seconds, min_size=1, max_size=6).map(lambda known: list(known.items()))


def line(a: float, b: float, *known: int) -> list[tuple[float, float]]:
    return [(batch, a + b * batch) for batch in known]


def test_line_is_recovered_from_points_on_it() -> None:
    found = batch_line(line(0.02, 0.001, 16, 64, 256))
    assert found.fixed_seconds == pytest.approx(0.02)
    assert found.seconds_per_sample == pytest.approx(0.001)


def test_throughput_reaches_90_percent_where_90_percent_of_the_time_is_samples() -> None:
    found = batch_line(line(0.02, 0.001, 16, 64))
    saturated = found.saturating_batch()
    assert saturated == pytest.approx(180)
    assert saturated is not None
    assert saturated / found.seconds(saturated) == pytest.approx(0.9 / found.seconds_per_sample)


def test_time_that_never_grows_has_no_saturating_batch() -> None:
    assert batch_line([(16, 0.1), (64, 0.09)]).saturating_batch() is None


def test_a_line_needs_two_batch_sizes() -> None:
    with pytest.raises(ValueError, match="two batch sizes"):
        batch_line([(16, 0.1), (16, 0.2)])


@given(st.dictionaries(batches, seconds, min_size=2, max_size=6))
def test_line_has_no_negative_coefficient(known: dict[int, float]) -> None:
    found = batch_line(list(known.items()))
    assert found.fixed_seconds >= 0
    assert found.seconds_per_sample >= 0


@pytest.mark.parametrize("batch_size", [8, 24, 48, 512])
def test_prediction_is_near_the_line_and_covers_it(batch_size: int) -> None:
    truth = 0.02 + 0.001 * batch_size
    predicted = predict_batch_time(line(0.02, 0.001, 16, 32, 64), batch_size)
    assert predicted.value == pytest.approx(truth, rel=0.06)
    assert predicted.low <= truth <= predicted.high


@pytest.mark.parametrize("known", [[(64, 0.1)], [(32, 0.06), (64, 0.1)], [(64, 0.11), (64, 0.1), (64, 0.09)]])
def test_prediction_at_a_measured_size_is_the_measured_time(known: list[tuple[float, float]]) -> None:
    assert predict_batch_time(known, 64).value == pytest.approx(0.1)


def test_prediction_from_one_size_follows_the_model_within_physical_bounds() -> None:
    assert predict_batch_time([(64, 0.1)], 128, modelled=lambda b: 64 + b).value == pytest.approx(0.15)
    assert predict_batch_time([(64, 0.1)], 128, modelled=lambda b: b**3).value == pytest.approx(0.2)
    assert predict_batch_time([(64, 0.1)], 128, modelled=lambda b: 1 / b).value == pytest.approx(0.1)


def test_prediction_without_known_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        predict_batch_time([], 64)


@given(curves, batches)
def test_larger_batch_is_not_faster_and_not_slower_per_sample(known: list[tuple[float, float]], more: int) -> None:
    last = max(known)
    batch_size = last[0] + more
    predicted = predict_batch_time(known, batch_size)
    assert last[1] * (1 - 1e-9) <= predicted.value <= last[1] * batch_size / last[0] * (1 + 1e-9)
    assert predicted.low <= predicted.value <= predicted.high


@given(curves, batches, batches)
def test_interval_widens_with_each_doubling(known: list[tuple[float, float]], more: int, further: int) -> None:
    last = max(known)[0]
    near, far = predict_batch_time(known, last + more), predict_batch_time(known, last + more + further)
    assert far.high / far.low >= near.high / near.low * (1 - 1e-9)
