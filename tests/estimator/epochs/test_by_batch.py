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


def test_the_law_is_found_again_from_three_sizes() -> None:
    """E = 20·(1 + B/1000) at 1024, from 128, 512 and 2048."""
    pairs = [(size, 20 * (1 + size / 1000)) for size in (128, 512, 2048)]
    answer = at(1024, *pairs)
    assert answer.value == pytest.approx(20 * 2.024, rel=0.05)


def test_where_epochs_do_not_grow_they_nearly_stay() -> None:
    """The prior expects some growth, and three sizes do not quite talk it out of that."""
    assert at(512, (64, 30.0), (128, 30.0), (256, 30.0)).value == pytest.approx(30, rel=0.1)


def test_more_known_sizes_make_it_surer() -> None:
    pairs = [(size, 20 * (1 + size / 1000)) for size in (128, 256, 512)]
    one, three = (at(1024, *pairs[-count:]) for count in (1, 3))
    assert width(three) < width(one)


def test_smooth_epochs_are_foretold_more_surely_than_rough_ones() -> None:
    smooth = at(512, (64, 30.0), (128, 30.6), (256, 32.0))
    rough = at(512, (64, 30.0), (128, 22.0), (256, 36.0))
    assert width(smooth) < width(rough)


def test_the_fewer_steps_a_program_takes_the_more_a_larger_batch_costs() -> None:
    """A hundred steps cannot become fifty, where a million can become half as many."""
    few, many = (
        epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=30.0)], samples=samples).value
        for samples in (2_000, 20_000_000)
    )
    assert few is not None
    assert many is not None
    assert few > many
    assert many == pytest.approx(30, rel=0.03)


def test_a_count_of_few_whole_epochs_is_less_sure_than_a_mean() -> None:
    mean, count = (
        epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=3.0, counted=step)]) for step in (0.0, 1.0)
    )
    assert mean.high is not None
    assert count.high is not None
    assert count.high > mean.high


def test_the_mean_of_many_runs_is_surer_than_one() -> None:
    widths = []
    for runs in (1, 10, 100):
        answer = epochs_at_batch_size(128, [KnownEpochs(batch_size=64, epochs=30.0, runs=runs)])
        assert answer.low is not None
        assert answer.high is not None
        widths.append(answer.high / answer.low)
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_the_noise_of_the_gradient_gives_the_critical_batch_size() -> None:
    """φ = 8 at batch 128: B_c = 1024, so E(256)/E(128) = (8 + 2)/(8 + 1), but for the skew of log a."""
    answer = at(256, (128, 90.0), noise=(8.0,))
    assert answer.rule == "gradient noise"
    assert answer.value == pytest.approx(100, rel=0.02)


def test_with_the_noise_it_is_surer_than_without() -> None:
    told, untold = at(512, (128, 90.0), noise=(50.0,)), at(512, (128, 90.0))
    assert told.high is not None
    assert untold.high is not None
    assert told.high < untold.high


@pytest.mark.parametrize(("size", "told"), [(32, True), (31, False), (512, True), (513, False)])
def test_beyond_four_times_only_the_range_is_told(size: int, told: bool) -> None:
    answer = at(size, (128, 30.0))
    assert not answer.refused
    assert (answer.value is not None) == told
    assert told or "only a range" in answer.why


def test_larger_batches_are_said_to_lose_accuracy() -> None:
    assert any("accuracy" in warning for warning in at(256, (128, 30.0)).warnings)
    assert not at(64, (128, 30.0)).warnings


def test_a_batch_larger_than_the_data_set_is_refused() -> None:
    answer = epochs_at_batch_size(2000, [KnownEpochs(batch_size=1000, epochs=3)], samples=1500)
    assert answer.refused
    assert "larger than the data set of 1500 samples" in answer.why


def test_nothing_known_is_refused() -> None:
    assert epochs_at_batch_size(64, []).refused


@settings(deadline=None, max_examples=30)
@given(st.lists(known_epochs, min_size=1, max_size=3), sizes, sizes)
def test_epochs_never_fall_with_the_batch(known: list[KnownEpochs], a: int, b: int) -> None:
    smaller, larger = (epochs_at_batch_size(size, known, farthest=math.inf) for size in sorted((a, b)))
    for one, other in ((smaller.low, larger.low), (smaller.value, larger.value), (smaller.high, larger.high)):
        assert one is not None
        assert other is not None
        assert one <= other * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(st.lists(known_epochs, min_size=1, max_size=3), sizes, st.floats(0.01, 100))
def test_epochs_of_another_length_scale_the_answer(known: list[KnownEpochs], size: int, unit: float) -> None:
    scaled = [
        KnownEpochs(batch_size=k.batch_size, epochs=k.epochs * unit, gradient_noise=k.gradient_noise) for k in known
    ]
    plain, other = (epochs_at_batch_size(size, points, farthest=math.inf) for points in (known, scaled))
    assert plain.value is not None
    assert other.value == pytest.approx(plain.value * unit, rel=1e-6)


@pytest.mark.parametrize("changes", [{"batch_size": 0}, {"epochs": 0.0}, {"gradient_noise": (0.0,)}])
def test_a_known_point_must_be_positive(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        KnownEpochs(**({"batch_size": 64, "epochs": 3.0} | changes))  # type: ignore[arg-type] # what it is about


def told(value: float, low: float | None = None, high: float | None = None) -> EpochsAnswer:
    return EpochsAnswer(rule="you", why="you said so", value=value, low=low or value, high=high or value)


def known_at(batch_size: int, answer: EpochsAnswer) -> KnownEpochs:
    known = KnownEpochs.of(answer, batch_size)
    assert known is not None
    return known


def test_at_a_size_that_was_told_it_is_what_was_told() -> None:
    answers = epochs_at_batches([known_at(64, told(30.0))], [64, 128])
    assert answers[64] == EpochsAnswer(rule="you", why="you said so", value=30.0, low=30.0, high=30.0, batch_size=64)
    assert answers[128].rule == "other batch sizes"


def test_the_doubt_of_what_was_told_passes_through() -> None:
    sure, unsure = (
        epochs_at_batches([known_at(64, answer)], [128])[128] for answer in (told(30.0), told(30.0, 15.0, 60.0))
    )
    assert sure.value == unsure.value
    assert sure.low is not None
    assert sure.high is not None
    assert unsure.low is not None
    assert unsure.high is not None
    assert sure.low > unsure.low > 15
    assert sure.high < unsure.high


def test_told_epochs_that_fall_with_the_batch_share_their_mean() -> None:
    answers = epochs_at_batches([known_at(64, told(40.0)), known_at(128, told(10.0)), known_at(256, told(60.0))], [64])
    assert answers[64].value == pytest.approx(20.0)


def test_what_gives_no_number_is_not_known() -> None:
    assert KnownEpochs.of(EpochsAnswer(rule="curve", why="too few epochs"), 64) is None
    assert epochs_at_batches([], [64])[64].refused


def test_of_several_sizes_those_beyond_have_a_range_and_those_beyond_the_data_none() -> None:
    answers = epochs_at_batches([known_at(64, told(30.0))], [2048, 1024, 256], samples=1500)
    assert list(answers) == [256, 1024, 2048]
    assert answers[256].value is not None
    assert answers[1024].value is None
    assert not answers[1024].refused
    assert answers[2048].refused


answers_told = st.tuples(st.floats(1, 1e3), st.floats(1, 3), st.floats(1, 3)).map(
    lambda t: told(t[0], t[0] / t[1], t[0] * t[2])
)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(sizes, answers_told, min_size=1, max_size=3), st.sets(sizes, min_size=2, max_size=6))
def test_of_several_sizes_epochs_never_fall(said: dict[int, EpochsAnswer], asked: set[int]) -> None:
    known = [known_at(size, answer) for size, answer in said.items()]
    answers = list(epochs_at_batches(known, asked | said.keys(), farthest=math.inf).values())
    for smaller, larger in pairwise(answers):
        for one, other in ((smaller.low, larger.low), (smaller.value, larger.value), (smaller.high, larger.high)):
            assert one is not None
            assert other is not None
            assert one <= other * (1 + 1e-9)
