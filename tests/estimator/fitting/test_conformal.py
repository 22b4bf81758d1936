import math
import random

import pytest

from trainfare.estimator.fitting.conformal import MIN_GROUPS, conformal_factor, typical_factor


def test_new_groups_are_covered_at_the_stated_confidence() -> None:
    draw = random.Random(1)

    def group() -> list[float]:
        shift = draw.gauss(0, 0.2)
        return [shift + draw.gauss(0, 0.05) for _ in range(10)]

    inside = total = 0
    for _ in range(150):
        seen = [group() for _ in range(25)]
        errors = [e for own in seen for e in own]
        factor = conformal_factor(errors, [i for i, own in enumerate(seen) for _ in own])
        new = group()
        inside += sum(abs(e) <= math.log(factor) for e in new)
        total += len(new)
    assert 0.86 <= inside / total <= 0.95


def test_group_of_many_rows_weighs_no_more_than_one_of_few() -> None:
    few = [0.1] * 19
    assert conformal_factor([*few, *[0.5] * 1000], [*range(19), *["crowd"] * 1000]) == pytest.approx(math.exp(0.1))


def test_too_few_groups_give_the_factor_of_the_worst_group() -> None:
    errors = [0.01 * i for i in range(1, 11)] + [0.1 * i for i in range(1, 11)]
    assert conformal_factor(errors, ["small"] * 10 + ["large"] * 10) == pytest.approx(math.exp(0.9))


def test_each_error_needs_its_group() -> None:
    with pytest.raises(ValueError, match="needs its group"):
        conformal_factor([0.1], [])


def test_typical_factor_covers_90_percent_of_the_known_groups() -> None:
    errors = [0.01 * i for i in range(1, 11)]
    assert typical_factor(errors, list(range(10))) == pytest.approx(math.exp(0.09))
    assert conformal_factor(errors, list(range(10))) == pytest.approx(math.exp(0.10))


def test_typical_factor_of_very_few_groups_is_that_of_the_worst() -> None:
    small = [(0.1, group) for group in range(MIN_GROUPS - 2) for _ in range(10)]
    errors, groups = zip(*[*small, *[(0.5, "large")] * 10], strict=True)
    assert typical_factor(errors, groups) == pytest.approx(math.exp(0.5))


def test_typical_factor_of_many_groups_covers_new_ones_about_as_often() -> None:
    draw = random.Random(2)

    def group() -> list[float]:
        shift = draw.gauss(0, 0.2)
        return [shift + draw.gauss(0, 0.05) for _ in range(10)]

    inside = total = 0
    for _ in range(300):
        seen = [group() for _ in range(12)]
        factor = typical_factor([e for own in seen for e in own], [i for i, own in enumerate(seen) for _ in own])
        new = group()
        inside += sum(abs(e) <= math.log(factor) for e in new)
        total += len(new)
    assert 0.84 <= inside / total <= 0.93
