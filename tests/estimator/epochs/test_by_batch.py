import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.estimator.epochs.by_batch import KnownEpochs, epochs_at_batches
from trainfare.model.epochs import EpochsAnswer

sizes = st.integers(1, 100_000)
known_epochs = st.builds(
    KnownEpochs,
    batch_size=sizes,
    epochs=st.floats(0.1, 1e4),
    gradient_noise=st.just(()) | st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=4).map(tuple),
)


def epochs_at_batch_size(batch_size: int, known: Sequence[KnownEpochs], **options: Any) -> EpochsAnswer:
    return epochs_at_batches(known, [batch_size], **options)[batch_size]


def at(batch_size: int, *pairs: tuple[int, float], noise: tuple[float, ...] = ()) -> EpochsAnswer:
    known = [KnownEpochs(batch_size=size, epochs=epochs, gradient_noise=noise) for size, epochs in pairs]
    return epochs_at_batch_size(batch_size, known)


def width(answer: EpochsAnswer) -> float:
    assert answer.low is not None
    assert answer.high is not None
    return answer.high / answer.low


def test_law_is_recovered_from_three_batch_sizes() -> None:
    """E = 20·(1 + B/1000) at 1024, from 128, 512 and 2048."""
    pairs = [(size, 20 * (1 + size / 1000)) for size in (128, 512, 2048)]
    answer = at(1024, *pairs)
    assert answer.value == pytest.approx(20 * 2.024, rel=0.05)


def test_constant_epochs_stay_nearly_constant() -> None:
    """The prior expects some growth, which three batch sizes do not rule out completely."""
    assert at(512, (64, 30.0), (128, 30.0), (256, 30.0)).value == pytest.approx(30, rel=0.1)


def test_more_known_sizes_narrow_the_interval() -> None:
    pairs = [(size, 20 * (1 + size / 1000)) for size in (128, 256, 512)]
    one, three = (at(1024, *pairs[-count:]) for count in (1, 3))
    assert width(three) < width(one)


def test_smooth_epochs_have_narrower_intervals_than_rough_ones() -> None:
    smooth = at(512, (64, 30.0), (128, 30.6), (256, 32.0))
    rough = at(512, (64, 30.0), (128, 22.0), (256, 36.0))
    assert width(smooth) < width(rough)


def test_larger_batch_needs_more_epochs_where_the_program_takes_fewer_steps() -> None:
    """Two thousand steps cannot become a thousand, but ten million can become half as many."""
    few, many = (
        epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=30.0)], samples=samples).value
        for samples in (5_000, 20_000_000)
    )
    assert few is not None
    assert many is not None
    assert few > 1.1 * many
    assert many == pytest.approx(30, rel=0.03)


def test_stated_epochs_of_fine_tuning_stay_the_same() -> None:
    """Three epochs of 500 samples at batch size 2 are 750 steps; a batch size of 8 does not make them seven epochs."""
    answer = epochs_at_batches([known_at(2, answer_of(3.0))], [8], samples=500)[8]
    assert answer.value == pytest.approx(3.0)
    assert answer.is_guess
    assert "is a guess" in answer.why
    assert answer.high is not None
    assert answer.high > 3.3


@pytest.mark.parametrize("samples", [500, 100_000, None])
def test_stated_epochs_stay_the_same_whatever_the_number_of_samples(samples: int | None) -> None:
    answers = epochs_at_batches([known_at(16, answer_of(10.0))], [8, 32, 64], samples=samples)
    assert [answer.value for answer in answers.values()] == pytest.approx([10.0, 10.0, 10.0])
    assert all(answer.is_guess for answer in answers.values())


def test_measured_epochs_of_few_steps_stay_the_same() -> None:
    answer = epochs_at_batch_size(8, [KnownEpochs(batch_size=2, epochs=3.0)], samples=500)
    assert answer.value == pytest.approx(3.0)
    assert answer.is_guess


def test_one_measured_size_is_a_guess_elsewhere() -> None:
    assert epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=30.0)], samples=50_000).is_guess


def test_two_measured_sizes_or_the_gradient_noise_are_evidence() -> None:
    assert not at(256, (64, 30.0), (128, 31.0)).is_guess
    assert not at(256, (64, 30.0), noise=(8.0,)).is_guess


def test_a_size_with_an_answer_of_its_own_is_not_a_guess() -> None:
    assert not epochs_at_batches([known_at(64, answer_of(30.0))], [64])[64].is_guess


def test_same_number_stated_at_two_sizes_is_no_evidence() -> None:
    known = [known_at(size, answer_of(10.0)) for size in (64, 128)]
    answer = epochs_at_batches(known, [256])[256]
    assert answer.is_guess
    assert answer.value == pytest.approx(10.0)


def test_different_numbers_stated_at_two_sizes_are_evidence() -> None:
    known = [known_at(64, answer_of(10.0)), known_at(128, answer_of(12.0))]
    answer = epochs_at_batches(known, [256])[256]
    assert not answer.is_guess
    assert answer.value is not None
    assert answer.value > 12.0


@pytest.mark.parametrize("unit", [1.0, 0.05, 0.02])
def test_few_epochs_count_as_much_as_many(unit: float) -> None:
    """A program of two epochs whose sizes lie on a line is predicted by that line, though epochs are counted whole."""
    known = [
        KnownEpochs(batch_size=size, epochs=unit * 40 * (1 + size / 1000), resolution=1.0) for size in (128, 256, 512)
    ]
    answer = epochs_at_batch_size(1024, known, samples=round(50_000 / unit))
    assert answer.value == pytest.approx(unit * 40 * 2.024, rel=0.1)


def test_flat_epochs_stay_flat_whatever_the_number_of_steps() -> None:
    for samples in (1_000, 100_000, 10_000_000):
        known = [KnownEpochs(batch_size=size, epochs=2.0, resolution=1.0) for size in (12, 24, 48)]
        assert epochs_at_batch_size(192, known, samples=samples).value == pytest.approx(2.0, rel=0.1)


@settings(deadline=None, max_examples=30)
@given(st.lists(known_epochs, min_size=1, max_size=3), known_epochs, sizes)
def test_value_lies_in_its_interval(known: list[KnownEpochs], other: KnownEpochs, size: int) -> None:
    answer = epochs_at_batch_size(size, [*known, other], max_ratio=math.inf)
    assert answer.low is not None
    assert answer.value is not None
    assert answer.high is not None
    assert answer.low <= answer.value <= answer.high


@settings(deadline=None, max_examples=30)
@given(st.floats(1, 100), st.floats(200, 1e5), st.integers(1, 4))
def test_another_known_size_on_the_law_never_widens_much(epochs: float, critical: float, count: int) -> None:
    pairs = [(size, epochs * (1 + size / critical)) for size in (128, 64, 32, 16, 8)]
    fewer, more = (at(256, *pairs[:n]) for n in (count, count + 1))
    assert width(more) <= 1.25 * width(fewer)


def test_count_of_few_epochs_is_less_certain_than_a_mean() -> None:
    mean, count = (
        epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=3.0, resolution=step)]) for step in (0.0, 1.0)
    )
    assert mean.high is not None
    assert count.high is not None
    assert count.high > mean.high


def test_mean_of_many_runs_has_a_narrower_interval_than_one_run() -> None:
    widths = []
    for runs in (1, 10, 100):
        answer = epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=30.0, runs=runs)])
        assert answer.low is not None
        assert answer.high is not None
        widths.append(answer.high / answer.low)
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_gradient_noise_gives_the_critical_batch_size() -> None:
    """φ = 8 at batch 128: B_c = 1024, so E(256)/E(128) = (8 + 2)/(8 + 1), but for the skew of log a."""
    answer = at(256, (128, 90.0), noise=(8.0,))
    assert answer.rule == "gradient noise"
    assert answer.value == pytest.approx(100, rel=0.02)


def test_gradient_noise_narrows_the_interval() -> None:
    with_noise, without = at(512, (128, 90.0), noise=(50.0,)), at(512, (128, 90.0))
    assert with_noise.high is not None
    assert without.high is not None
    assert with_noise.high < without.high


@pytest.mark.parametrize(("size", "has_value"), [(32, True), (31, False), (512, True), (513, False)])
def test_more_than_four_times_away_the_answer_is_a_range(size: int, has_value: bool) -> None:
    answer = at(size, (128, 30.0))
    assert not answer.refused
    assert (answer.value is not None) == has_value
    assert has_value or "only a range" in answer.why


def test_larger_batches_have_an_accuracy_warning() -> None:
    assert any("accuracy" in warning for warning in at(256, (128, 30.0)).warnings)
    assert not at(64, (128, 30.0)).warnings


def test_batch_larger_than_the_data_set_is_refused() -> None:
    answer = epochs_at_batch_size(2000, [KnownEpochs(batch_size=1000, epochs=3)], samples=1500)
    assert answer.refused
    assert "larger than the data set of 1500 samples" in answer.why


def test_without_known_epochs_the_answer_is_a_refusal() -> None:
    assert epochs_at_batch_size(64, []).refused


@settings(deadline=None, max_examples=30)
@given(st.lists(known_epochs, min_size=1, max_size=3), sizes, sizes)
def test_epochs_never_fall_with_the_batch(known: list[KnownEpochs], a: int, b: int) -> None:
    smaller, larger = (epochs_at_batch_size(size, known, max_ratio=math.inf) for size in sorted((a, b)))
    for one, other in ((smaller.low, larger.low), (smaller.value, larger.value), (smaller.high, larger.high)):
        assert one is not None
        assert other is not None
        assert one <= other * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(st.lists(known_epochs, min_size=1, max_size=3), sizes, st.floats(0.01, 100))
def test_answer_scales_with_the_known_epochs(known: list[KnownEpochs], size: int, unit: float) -> None:
    scaled = [
        KnownEpochs(batch_size=k.batch_size, epochs=k.epochs * unit, gradient_noise=k.gradient_noise) for k in known
    ]
    plain, other = (epochs_at_batch_size(size, points, max_ratio=math.inf) for points in (known, scaled))
    assert plain.value is not None
    assert other.value == pytest.approx(plain.value * unit, rel=1e-6)


@pytest.mark.parametrize("changes", [{"batch_size": 0}, {"epochs": 0.0}, {"gradient_noise": (0.0,)}])
def test_known_point_must_be_positive(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        KnownEpochs(**({"batch_size": 64, "epochs": 3.0} | changes))  # type: ignore[arg-type] # the test passes wrong values


def answer_of(value: float, low: float | None = None, high: float | None = None) -> EpochsAnswer:
    return EpochsAnswer(rule="you", why="you stated it", value=value, low=low or value, high=high or value)


def known_at(batch_size: int, answer: EpochsAnswer) -> KnownEpochs:
    known = KnownEpochs.from_answer(answer, batch_size)
    assert known is not None
    return known


def test_batch_size_with_an_answer_keeps_it() -> None:
    answers = epochs_at_batches([known_at(64, answer_of(30.0))], [64, 128])
    assert answers[64] == EpochsAnswer(rule="you", why="you stated it", value=30.0, low=30.0, high=30.0, batch_size=64)
    assert answers[128].rule == "other batch sizes"


def test_interval_of_a_known_answer_widens_the_others() -> None:
    exact, uncertain = (
        epochs_at_batches([known_at(64, answer)], [128])[128]
        for answer in (answer_of(30.0), answer_of(30.0, 15.0, 60.0))
    )
    assert exact.value == uncertain.value
    assert exact.low is not None
    assert exact.high is not None
    assert uncertain.low is not None
    assert uncertain.high is not None
    assert exact.low > uncertain.low >= 15
    assert exact.high < uncertain.high


def test_known_epochs_that_fall_with_the_batch_share_their_mean() -> None:
    answers = epochs_at_batches(
        [known_at(64, answer_of(40.0)), known_at(128, answer_of(10.0)), known_at(256, answer_of(60.0))], [64]
    )
    assert answers[64].value == pytest.approx(20.0)


def test_refusal_is_not_a_known_number() -> None:
    assert KnownEpochs.from_answer(EpochsAnswer(rule="curve", why="too few epochs"), 64) is None
    assert epochs_at_batches([], [64])[64].refused


def test_distant_sizes_have_a_range_and_sizes_above_the_data_set_are_refused() -> None:
    answers = epochs_at_batches([known_at(64, answer_of(30.0))], [2048, 1024, 256], samples=1500)
    assert list(answers) == [256, 1024, 2048]
    assert answers[256].value is not None
    assert answers[1024].value is None
    assert not answers[1024].refused
    assert answers[2048].refused


answers = st.tuples(st.floats(1, 1e3), st.floats(1, 3), st.floats(1, 3)).map(
    lambda t: answer_of(t[0], t[0] / t[1], t[0] * t[2])
)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(sizes, answers, min_size=1, max_size=3), st.sets(sizes, min_size=2, max_size=6))
def test_epochs_of_several_sizes_never_fall(by_size: dict[int, EpochsAnswer], sizes: set[int]) -> None:
    known = [known_at(size, answer) for size, answer in by_size.items()]
    found = list(epochs_at_batches(known, sizes | by_size.keys(), max_ratio=math.inf).values())
    for smaller, larger in pairwise(found):
        for one, other in ((smaller.low, larger.low), (smaller.value, larger.value), (smaller.high, larger.high)):
            assert one is not None
            assert other is not None
            assert one <= other * (1 + 1e-9)
