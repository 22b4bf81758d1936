import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.batch.step_time import batch_line, time_at

seconds = st.floats(1e-4, 1e3)
batches = st.integers(1, 4096)
curves = st.dictionaries(batches, seconds, min_size=1, max_size=6).map(lambda known: list(known.items()))


def line(a: float, b: float, *known: int) -> list[tuple[float, float]]:
    return [(batch, a + b * batch) for batch in known]


def test_a_line_is_found_again() -> None:
    found = batch_line(line(0.02, 0.001, 16, 64, 256))
    assert found.fixed_seconds == pytest.approx(0.02)
    assert found.seconds_per_sample == pytest.approx(0.001)


def test_throughput_reaches_nine_tenths_where_nine_tenths_of_the_time_is_samples() -> None:
    found = batch_line(line(0.02, 0.001, 16, 64))
    saturated = found.saturating_batch()
    assert saturated == pytest.approx(180)
    assert saturated is not None
    assert saturated / found.seconds(saturated) == pytest.approx(0.9 / found.seconds_per_sample)


def test_a_time_that_never_grows_saturates_nowhere() -> None:
    assert batch_line([(16, 0.1), (64, 0.09)]).saturating_batch() is None


def test_a_line_needs_two_batch_sizes() -> None:
    with pytest.raises(ValueError, match="two batch sizes"):
        batch_line([(16, 0.1), (16, 0.2)])


@given(st.dictionaries(batches, seconds, min_size=2, max_size=6))
def test_neither_end_of_a_line_is_negative(known: dict[int, float]) -> None:
    found = batch_line(list(known.items()))
    assert found.fixed_seconds >= 0
    assert found.seconds_per_sample >= 0


@pytest.mark.parametrize("asked", [8, 24, 48, 512])
def test_on_a_line_the_answer_is_near_and_inside(asked: int) -> None:
    truth = 0.02 + 0.001 * asked
    found = time_at(line(0.02, 0.001, 16, 32, 64), asked)
    assert found.value == pytest.approx(truth, rel=0.06)
    assert found.low <= truth <= found.high


@pytest.mark.parametrize("known", [[(64, 0.1)], [(32, 0.06), (64, 0.1)], [(64, 0.11), (64, 0.1), (64, 0.09)]])
def test_what_was_measured_is_told(known: list[tuple[float, float]]) -> None:
    assert time_at(known, 64).value == pytest.approx(0.1)


def test_one_batch_goes_with_the_model_within_physics() -> None:
    assert time_at([(64, 0.1)], 128, modelled=lambda b: 64 + b).value == pytest.approx(0.15)
    assert time_at([(64, 0.1)], 128, modelled=lambda b: b**3).value == pytest.approx(0.2)
    assert time_at([(64, 0.1)], 128, modelled=lambda b: 1 / b).value == pytest.approx(0.1)


def test_nothing_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        time_at([], 64)


@given(curves, batches)
def test_further_than_was_measured_nothing_gets_faster(known: list[tuple[float, float]], more: int) -> None:
    """Nor does a sample take longer than in the largest batch that is known."""
    last = max(known)
    asked = last[0] + more
    found = time_at(known, asked)
    assert last[1] * (1 - 1e-9) <= found.value <= last[1] * asked / last[0] * (1 + 1e-9)
    assert found.low <= found.value <= found.high


@given(curves, batches, batches)
def test_each_doubling_beyond_is_less_sure(known: list[tuple[float, float]], more: int, further: int) -> None:
    last = max(known)[0]
    near, far = time_at(known, last + more), time_at(known, last + more + further)
    assert far.high / far.low >= near.high / near.low * (1 - 1e-9)
