"""What the user states about a training, in place of what was measured."""

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.predict import predict
from trainfare.app.stated import StatedLength
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def save(profile: Profile) -> Profile:
    with open_history(read_settings().store) as history:
        history.profiles.add(profile)
    return profile


def test_steps_are_exact_and_their_last_epoch_incomplete() -> None:
    profile = make_profile(iterations_per_epoch=100)
    length = decide_epochs(StatedLength(steps=250), profile, 100)
    assert (length.epochs, length.iterations) == (3, 250)


def test_one_and_a_half_epochs_are_not_two() -> None:
    length = decide_epochs(StatedLength(epochs=1.5), make_profile(), 100)
    assert (length.epochs, length.iterations) == (2, 150)
    assert decide_epochs(StatedLength(epochs=2.0), make_profile(), 100).iterations is None


def test_tokens_are_steps_of_the_profiled_batch() -> None:
    profile = make_profile(micro_batch_size=8, accumulation_steps=2, tokens_per_sample=1024)
    length = decide_epochs(StatedLength(tokens=8 * 2 * 1024 * 500), profile, 100)
    assert length.iterations == 500


def test_steps_at_another_batch_size_train_as_many_samples() -> None:
    leading, larger = make_profile(micro_batch_size=64), make_profile(micro_batch_size=128)
    assert StatedLength(steps=1000).steps_of(larger, leading) == 500


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        ({"epochs": 3, "steps": 100}, "steps"),
        ({"steps": 100, "tokens": 1e6}, "tokens"),
        ({"steps": 0}, "steps"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": float("nan")}, "epochs"),
        ({"tokens": float("inf")}, "tokens"),
        ({"samples": 10, "iterations_per_epoch": 10}, "samples"),
        ({"profiled_batch_size": 0}, "profiled_batch_size"),
    ],
)
def test_wrong_combinations_are_refused(stated: dict[str, float], field: str) -> None:
    with pytest.raises(UsageError) as error:
        StatedLength(**stated)  # type: ignore[arg-type] # the wrong argument is what is tested
    assert error.value.field == field


def test_a_stated_batch_size_replaces_the_measured_one() -> None:
    profile = make_profile(micro_batch_size=35, accumulation_steps=2, tokens_per_sample=20, samples=None)
    (found,) = StatedLength(profiled_batch_size=40, samples=4000).apply([profile])
    assert (found.micro_batch_size, found.effective_batch_size) == (20, 40)
    assert found.tokens_per_iteration == profile.tokens_per_iteration
    assert (found.samples, found.iterations_per_epoch) == (4000, 100)
    assert found.sources["micro_batch_size"] == found.sources["samples"] == "you"


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(UsageError, match="2 equal parts"):
        StatedLength(profiled_batch_size=41).apply([make_profile(micro_batch_size=20, accumulation_steps=2)])


def test_what_is_missing_is_named() -> None:
    unknown = make_profile(micro_batch_size=None, samples=None, tokens_per_sample=None)
    with pytest.raises(UsageError) as samples:
        StatedLength(samples=100).apply([unknown])
    assert samples.value.remedies[0].arguments == {"profiled_batch_size": "B"}
    with pytest.raises(UsageError) as tokens:
        StatedLength(tokens=1e9).apply([unknown])
    assert tokens.value.remedies[0].arguments == {"steps": "N"}


def test_steps_are_enough_where_the_length_of_an_epoch_is_unknown() -> None:
    save(make_profile(iterations_per_epoch=None, samples=None, micro_batch_size=None, epochs=None))
    with pytest.raises(UsageError):
        estimate(on="aws/p3.2xlarge", epochs=3)
    found = estimate(on="aws/p3.2xlarge", steps=777).estimate
    assert found.iterations == 777


def test_another_batch_size_needs_the_profiled_one() -> None:
    profile = save(make_profile(micro_batch_size=None, samples=None))
    for ask in (predict, estimate):
        with pytest.raises(UsageError) as error:
            ask(on="aws/p3.2xlarge", batch_size=256)
        assert error.value.field == "batch_size"
        assert error.value.remedies[0].arguments == {"profiled_batch_size": "B"}
    stated = predict(on="aws/p3.2xlarge", batch_size=256, profiled_batch_size=64).prediction
    profiled = predict(on="aws/p3.2xlarge", profiled_batch_size=64).prediction
    assert profiled.samples_per_second is not None
    assert stated.iteration_seconds.value > profiled.iteration_seconds.value
    assert predict(on="aws/p3.2xlarge").prediction.samples_per_second is None
    assert profile.effective_batch_size is None


def test_a_language_model_has_tokens_per_second() -> None:
    save(make_profile(micro_batch_size=8, tokens_per_sample=1024))
    prediction = predict(on="aws/p3.2xlarge").prediction
    assert prediction.samples_per_second is not None
    assert prediction.tokens_per_second == pytest.approx(1024 * prediction.samples_per_second.value)
    found = estimate(on="aws/p3.2xlarge", steps=100).estimate
    assert found.samples_per_second is not None
    assert found.tokens_per_second == pytest.approx(1024 * found.samples_per_second)


def test_a_log_that_does_not_say_its_tokens_has_those_of_the_leading_profile() -> None:
    leading = make_profile(micro_batch_size=8, tokens_per_sample=100)
    log = make_profile(id="log", micro_batch_size=16, tokens_per_sample=None)
    found = StatedLength(tokens=80_000).apply([leading, log])
    assert [profile.planned_iterations for profile in found] == [100, 50]
