from benchmarks.accuracy.choice.deadline import DEADLINE_RATIO, take_in_time, take_reliable

PRICE = {"fast": 8.0, "slow": 1.0}


def test_certainly_late_machine_is_not_chosen_when_the_fastest_is_uncertain() -> None:
    # The fastest is better than predicted; choosing the cheap one would mean paying for both.
    truth = {"fast": 1.0, "slow": 4.0}
    predicted, high = {"fast": 2.0, "slow": 4.0}, {"fast": 4.0, "slow": 4.4}
    assert take_in_time(predicted, high, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_cheap_machine_that_is_probably_in_time_is_chosen() -> None:
    truth = {"fast": 1.0, "slow": 1.4}
    predicted, high = {"fast": 1.0, "slow": 1.4}, {"fast": 1.1, "slow": 1.4 * 1.2}
    assert take_in_time(predicted, high, truth, PRICE) == truth["slow"] * PRICE["slow"]
    assert take_reliable(predicted, high, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_machine_is_reliable_with_90_percent_though_its_interval_ends_late() -> None:
    # 1.3 · 1.2^0.779 = 1.4985 is in time, 1.3 · 1.2 = 1.56 is not: 5% lie above the interval, less than 10% above 1.5.
    truth = {"fast": 1.0, "slow": 1.3}
    predicted, high = {"fast": 1.0, "slow": 1.3}, {"fast": 1.1, "slow": 1.3 * 1.2}
    assert take_reliable(predicted, high, truth, PRICE) == truth["slow"] * PRICE["slow"]


def test_fastest_machine_is_chosen_if_none_is_predicted_in_time() -> None:
    truth = {"fast": 1.0, "slow": 4.0}
    predicted = {"fast": 10 * DEADLINE_RATIO, "slow": 40.0}
    assert take_in_time(predicted, {}, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_late_machine_is_paid_for_in_addition_to_the_cheapest_in_time() -> None:
    truth = {"fast": 1.0, "slow": 4.0}
    wrong = {"fast": 10.0, "slow": 1.0}
    assert take_in_time(wrong, {}, truth, PRICE) == 4.0 * PRICE["slow"] + 1.0 * PRICE["fast"]
