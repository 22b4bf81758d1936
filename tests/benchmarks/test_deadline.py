from benchmarks.accuracy.choice.deadline import LATEST, take_in_time, take_surely

PRICE = {"fast": 8.0, "slow": 1.0}


def test_a_machine_that_is_surely_late_is_not_taken_because_the_fastest_is_in_doubt() -> None:
    # The fastest turns out to be better than thought; to take the cheap one would be to pay for both.
    truth = {"fast": 1.0, "slow": 4.0}
    predicted, high = {"fast": 2.0, "slow": 4.0}, {"fast": 4.0, "slow": 4.4}
    assert take_in_time(predicted, high, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_a_cheap_machine_that_is_probably_in_time_is_worth_the_chance() -> None:
    truth = {"fast": 1.0, "slow": 1.4}
    predicted, high = {"fast": 1.0, "slow": 1.4}, {"fast": 1.1, "slow": 1.4 * 1.2}
    assert take_in_time(predicted, high, truth, PRICE) == truth["slow"] * PRICE["slow"]
    assert take_surely(predicted, high, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_where_none_is_in_time_by_the_word_of_all_the_fastest_is_taken() -> None:
    truth = {"fast": 1.0, "slow": 4.0}
    predicted = {"fast": 10 * LATEST, "slow": 40.0}
    assert take_in_time(predicted, {}, truth, PRICE) == truth["fast"] * PRICE["fast"]


def test_one_that_is_late_is_paid_for_beside_the_cheapest_in_time() -> None:
    truth = {"fast": 1.0, "slow": 4.0}
    wrong = {"fast": 10.0, "slow": 1.0}
    assert take_in_time(wrong, {}, truth, PRICE) == 4.0 * PRICE["slow"] + 1.0 * PRICE["fast"]
