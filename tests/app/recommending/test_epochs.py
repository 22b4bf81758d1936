"""How many epochs, from profiles that are kept."""

from typing import Any

import pytest

from tests.makers import make_profile, make_program
from trainfare.app.recommending.epochs import epochs, epochs_record, expected_epochs, profile_epochs
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.profile import EarlyStopping, Epoch, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

EXPONENTIAL = tuple(0.1 * 0.0133 ** (k / 100) for k in range(100))


def curve(count: int) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(number=k, seconds=1.0, loss=2 / k + 0.3, metrics={"val_loss": 1 / k + 0.2, "val_accuracy": 1 - 0.5 / k})
        for k in range(1, count + 1)
    )


def halving(count: int, epochs: int) -> tuple[Epoch, ...]:
    """Settles in about 6 of 60 epochs for each halving."""
    return tuple(Epoch(number=k, seconds=1.0, metrics={"val_loss": 0.5 ** (k / epochs)}) for k in range(1, count + 1))


def keep(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def test_the_newest_profile_is_asked_when_none_is_named() -> None:
    keep(make_profile(id="p1", epochs=100, learning_rate_plan=EXPONENTIAL))
    report = epochs()
    assert (report.answer.rule, report.answer.value) == ("schedule", 65)
    assert report.profiles[0].trains.value == 100


def test_declared_iterations_are_declared_epochs() -> None:
    found = profile_epochs(make_profile(planned_iterations=230, iterations_per_epoch=23))
    assert (found.declared, found.trains.rule, found.trains.value) == (10, "program", 10)


def test_what_you_say_goes_before_what_the_program_says() -> None:
    answer = expected_epochs(make_profile(epochs=90), epochs=30)
    assert (answer.rule, answer.value, answer.low, answer.high) == ("you", 30, 30, 30)


def test_a_program_that_says_so_trains_so_many() -> None:
    answer = expected_epochs(make_profile(epochs=90, learning_rate_plan=EXPONENTIAL[:90]))
    assert (answer.rule, answer.value) == ("program", 90)


def test_early_stopping_adds_its_patience_and_ends_at_the_declared_run() -> None:
    stopping = EarlyStopping(metric="val_loss", patience=7)
    profile = make_profile(epochs=100, learning_rate_plan=EXPONENTIAL, early_stopping=stopping)
    answer = expected_epochs(profile)
    assert (answer.rule, answer.value, answer.high) == ("early stopping", 72, 100)


def test_early_stopping_with_nothing_seen_ends_at_the_latest_as_declared() -> None:
    answer = expected_epochs(make_profile(epochs=40, early_stopping=EarlyStopping(metric=None, patience=3)))
    assert (answer.value, answer.low, answer.high) == (40, 4, 40)


def test_where_nobody_says_it_trains_what_it_needs() -> None:
    answer = expected_epochs(make_profile(curve=halving(40, 2)))
    assert answer.rule == "settled"
    assert answer.value is not None
    assert 10 < answer.value < 15


def test_where_nothing_is_known_the_answer_is_a_refusal() -> None:
    answer = expected_epochs(make_profile())
    assert answer.refused
    assert "no epoch was seen" in answer.why


def test_a_learning_rate_that_goes_says_how_long_the_run_is() -> None:
    line = tuple(max(0.0, 1 - k / 50) for k in range(300))
    found = profile_epochs(make_profile(learning_rate_plan=line))
    assert (found.declared, found.needed.rule, found.trains.refused) == (50, "schedule", True)
    assert found.needed.value == pytest.approx(39, abs=1)


def test_a_schedule_that_waits_for_the_metric_plans_nothing() -> None:
    profile = make_profile(
        epochs=100, learning_rate_plan=EXPONENTIAL, learning_rate_schedule="ReduceLROnPlateau", curve=curve(30)
    )
    assert profile_epochs(profile).needed.rule == "curve"


def test_the_learning_rates_of_a_past_run_are_its_plan() -> None:
    rates = tuple(rate for rate in EXPONENTIAL for _ in range(2))
    profile = make_profile(epochs=100, learning_rate=rates, iterations_per_epoch=2)
    assert profile_epochs(profile).needed.value == 65


def test_a_metric_may_be_named() -> None:
    keep(make_profile(id="p1", epochs=100, curve=curve(20)))
    assert [epochs(["p1"], metric=name).profiles[0].curve for name in ("val_accuracy", "loss")] != [None, None]
    found = epochs(["p1"], metric="val_accuracy").profiles[0].curve
    assert found is not None
    assert found.higher
    loss = epochs(["p1"], metric="loss").profiles[0].curve
    assert loss is not None
    assert (loss.metric, loss.values[0]) == ("training loss", 2.3)


def test_a_metric_that_is_not_there_names_those_that_are() -> None:
    keep(make_profile(id="p1", curve=curve(20)))
    with pytest.raises(
        NotFoundError, match=r"no metric val_los\. Did you mean val_loss\?.*val_accuracy, val_loss, loss"
    ):
        epochs(["p1"], metric="val_los")


def test_a_metric_of_a_profile_without_epochs_says_how_to_see_some() -> None:
    keep(make_profile(id="p1"))
    with pytest.raises(UsageError, match="trainfare profile --epochs"):
        epochs(["p1"], metric="val_loss")


def test_only_the_first_epochs_are_looked_at_when_asked() -> None:
    keep(make_profile(id="p1", epochs=100, curve=curve(40)))
    found = epochs(["p1"], seen=7).profiles[0].curve
    assert found is not None
    assert len(found.values) == 7


def test_epochs_without_validation_lie_on_a_line() -> None:
    every_third = tuple(Epoch(number=k, seconds=1.0, metrics={"val_loss": 10.0 - k}) for k in (3, 6, 9))
    found = profile_epochs(make_profile(curve=every_third)).curve
    assert found is not None
    assert found.values == (7.0, 7.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)


def test_a_loss_that_is_no_number_any_more_is_refused_whatever_the_schedule_says() -> None:
    profile = make_profile(epochs=100, learning_rate_plan=EXPONENTIAL, loss=(2.0, 9.0, None, None, None))
    answer = profile_epochs(profile).needed
    assert answer.refused
    assert "from iteration 3 on" in answer.why


def test_an_epoch_whose_loss_is_no_number_is_refused() -> None:
    broken = (*(Epoch(number=k, seconds=1.0, loss=1 / k) for k in range(1, 6)), Epoch(number=6, seconds=1.0))
    answer = profile_epochs(make_profile(curve=broken, epochs=50)).needed
    assert answer.refused
    assert "epoch 6 is not a number" in answer.why


def known(size: int, settles: float, **changes: Any) -> Profile:
    """A run that was seen whole."""
    return make_profile(
        id=f"p{size}",
        micro_batch_size=size,
        epochs=80,
        samples=50_000,
        curve=halving(80, round(settles / 6)),
        **changes,
    )


def test_another_batch_size_is_told_from_those_that_are_known() -> None:
    keep(known(64, 24), known(128, 30))
    report = epochs(["p64", "p128"], batch_size=256)
    needed = [found.needed.value for found in report.profiles]
    assert report.answer.rule == "other batch sizes"
    assert report.answer.value is not None
    assert max(value for value in needed if value) < report.answer.value < 2 * max(value for value in needed if value)
    assert report.answer.batch_size == 256


def test_the_noise_of_the_gradient_is_used() -> None:
    keep(known(64, 24, gradient_noise=40.0))
    assert epochs(["p64"], batch_size=128).answer.rule == "gradient noise"


def test_a_batch_size_that_was_profiled_is_answered_by_its_profile() -> None:
    keep(known(64, 24), known(128, 30))
    report = epochs(["p64", "p128"], batch_size=128)
    assert report.answer == report.profiles[1].needed


def test_what_is_not_sure_at_one_batch_size_is_less_sure_at_another() -> None:
    keep(make_profile(id="p1", micro_batch_size=64, epochs=100, samples=50_000, learning_rate_plan=EXPONENTIAL))
    report = epochs(["p1"], batch_size=128)
    needed, answer = report.profiles[0].needed, report.answer
    assert None not in (needed.low, needed.high, answer.low, answer.high)
    assert answer.high / answer.low > needed.high / needed.low  # type: ignore[operator] # no refusals


def test_a_batch_larger_than_the_data_set_is_refused() -> None:
    keep(known(64, 24))
    answer = epochs(["p64"], batch_size=60_000).answer
    assert answer.refused
    assert "data set of 50000 samples" in answer.why


def test_another_batch_size_with_nothing_known_says_why() -> None:
    keep(make_profile(id="p1"))
    answer = epochs(["p1"], batch_size=256).answer
    assert answer.refused
    assert "no epoch was seen" in answer.why


def test_profiles_of_two_programs_are_not_mixed() -> None:
    keep(make_profile(id="p1"), make_profile(id="p2", program=make_program(command=("python", "other.py"))))
    with pytest.raises(UsageError, match="2 programs"):
        epochs(["p1", "p2"])


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"seen": -1}])
def test_numbers_below_one_are_refused(wrong: dict[str, Any]) -> None:
    keep(make_profile(id="p1"))
    with pytest.raises(UsageError, match="at least 1"):
        epochs(["p1"], **wrong)


def test_no_profile_says_how_to_make_one() -> None:
    with pytest.raises(UsageError, match="trainfare profile"):
        epochs()


def test_the_record_has_every_number_that_the_card_shows() -> None:
    keep(known(64, 24))
    record = epochs_record(epochs(["p64"]))
    (profile,) = record["profiles"]
    assert record["answer"]["epochs"] == profile["needed"]["epochs"] == profile["stabilised"]["settled"]
    assert {fit["form"] for fit in profile["fits"]} <= {"optimus", "pow3", "vapour"}
    assert len(profile["values"]) == 80
