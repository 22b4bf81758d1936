"""The number of epochs that a program needs, from stored profiles."""

from typing import Any

import pytest

from tests.estimator.epochs.test_profile_epochs import EXPONENTIAL, halving_curve, make_curve
from tests.makers import make_profile, make_program
from trainfare.app.recommending.epochs import epochs
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history
from trainfare.views.epochs import epochs_record


def store(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def spread(answer: EpochsAnswer) -> float:
    """The high end of an answer's range, as a multiple of its low end."""
    assert answer.low is not None
    assert answer.high is not None
    return answer.high / answer.low


def test_the_newest_profile_is_used_if_none_is_named() -> None:
    store(make_profile(id="p1", epochs=100, learning_rate_plan=EXPONENTIAL))
    report = epochs()
    assert (report.answer.rule, report.answer.value) == ("schedule", 65)
    assert report.profiles[0].trains.value == 100


def test_a_metric_can_be_named() -> None:
    store(make_profile(id="p1", epochs=100, curve=make_curve(20)))
    assert [epochs(["p1"], metric=name).profiles[0].curve for name in ("val_accuracy", "loss")] != [None, None]
    found = epochs(["p1"], metric="val_accuracy").profiles[0].curve
    assert found is not None
    assert found.higher
    loss = epochs(["p1"], metric="loss").profiles[0].curve
    assert loss is not None
    assert (loss.metric, loss.values[0]) == ("training loss", 2.3)


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones() -> None:
    store(make_profile(id="p1", curve=make_curve(20)))
    with pytest.raises(
        NotFoundError, match=r"no metric val_los\. Did you mean val_loss\?.*val_accuracy, val_loss, loss"
    ):
        epochs(["p1"], metric="val_los")


def test_a_metric_of_a_profile_without_epochs_advises_to_profile_some() -> None:
    store(make_profile(id="p1"))
    with pytest.raises(UsageError, match="has no complete epoch") as raised:
        epochs(["p1"], metric="val_loss")
    (remedy,) = raised.value.remedies
    assert (remedy.command, remedy.arguments) == ("profile", {"epochs": 5})


def test_the_curve_can_be_limited_to_its_first_epochs() -> None:
    store(make_profile(id="p1", epochs=100, curve=make_curve(40)))
    found = epochs(["p1"], seen=7).profiles[0].curve
    assert found is not None
    assert len(found.values) == 7


def complete_run(size: int, settles: float, **changes: Any) -> Profile:
    """A profile of a complete run."""
    return make_profile(
        id=f"p{size}",
        micro_batch_size=size,
        epochs=80,
        samples=50_000,
        curve=halving_curve(80, round(settles / 6)),
        **changes,
    )


def test_another_batch_size_is_predicted_from_the_profiled_ones() -> None:
    store(complete_run(64, 24), complete_run(128, 30))
    report = epochs(["p64", "p128"], batch_size=256)
    needed = [found.needed.value for found in report.profiles]
    assert report.answer.rule == "other batch sizes"
    assert report.answer.value is not None
    assert max(value for value in needed if value) < report.answer.value < 2 * max(value for value in needed if value)
    assert report.answer.batch_size == 256


def test_one_profiled_size_leaves_a_guess_at_another() -> None:
    store(complete_run(64, 24))
    record = epochs_record(epochs(["p64"], batch_size=128))
    assert record["answer"]["guess"] is True
    assert record["profiles"][0]["needed"]["guess"] is False


def test_the_noise_of_the_gradient_is_used() -> None:
    store(complete_run(64, 24, gradient_noise=40.0))
    assert epochs(["p64"], batch_size=128).answer.rule == "gradient noise"


def test_a_profiled_batch_size_is_answered_by_its_profile() -> None:
    store(complete_run(64, 24), complete_run(128, 30))
    report = epochs(["p64", "p128"], batch_size=128)
    assert report.answer == report.profiles[1].needed


def test_another_batch_size_is_less_certain_than_the_profiled_one() -> None:
    store(make_profile(id="p1", micro_batch_size=64, epochs=100, samples=50_000, learning_rate_plan=EXPONENTIAL))
    report = epochs(["p1"], batch_size=128)
    needed, answer = report.profiles[0].needed, report.answer
    assert spread(answer) > spread(needed)


def test_a_batch_larger_than_the_data_set_is_refused() -> None:
    store(complete_run(64, 24))
    answer = epochs(["p64"], batch_size=60_000).answer
    assert answer.refused
    assert "data set of 50000 samples" in answer.why


def test_another_batch_size_without_any_information_is_refused_with_the_reason() -> None:
    store(make_profile(id="p1"))
    answer = epochs(["p1"], batch_size=256).answer
    assert answer.refused
    assert "no epoch was seen" in answer.why


def test_profiles_of_two_programs_are_not_mixed() -> None:
    store(make_profile(id="p1"), make_profile(id="p2", program=make_program(command=("python", "other.py"))))
    with pytest.raises(UsageError, match="2 programs"):
        epochs(["p1", "p2"])


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"seen": -1}])
def test_numbers_below_one_are_refused(wrong: dict[str, Any]) -> None:
    store(make_profile(id="p1"))
    with pytest.raises(UsageError, match=r"at least 1|greater than 0") as raised:
        epochs(["p1"], **wrong)
    assert raised.value.field in wrong


def test_without_a_profile_the_error_advises_to_make_one() -> None:
    with pytest.raises(UsageError, match="no profile yet") as raised:
        epochs()
    assert [remedy.command for remedy in raised.value.remedies] == ["profile"]


def test_the_record_has_every_number() -> None:
    store(complete_run(64, 24))
    record = epochs_record(epochs(["p64"]))
    (profile,) = record["profiles"]
    assert record["answer"]["epochs"] == profile["needed"]["epochs"] == profile["stabilised"]["settled"]
    assert {fit["form"] for fit in profile["fits"]} <= {"optimus", "pow3", "vapour"}
    assert len(profile["values"]) == 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"target": float("nan")}, "finite number"), ({"target": 0.5, "batch_size": 256}, "another batch size")],
)
def test_an_impossible_target_is_refused(arguments: dict[str, Any], message: str) -> None:
    store(complete_run(64, 24))
    with pytest.raises(UsageError, match=message) as raised:
        epochs(["p64"], **arguments)
    assert raised.value.field == "target"
