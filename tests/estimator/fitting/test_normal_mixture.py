import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.fitting.normal_mixture import NormalPart, mixture_quantile

part = st.tuples(st.floats(0.01, 1), st.floats(-20, 20), st.floats(0.05, 3))
probabilities = st.floats(0.03, 0.97)


def normalised(parts: list[tuple[float, float, float]]) -> list[NormalPart]:
    total = sum(weight for weight, _, _ in parts)
    return [NormalPart(weight / total, mean, deviation) for weight, mean, deviation in parts]


@given(st.lists(part, min_size=1, max_size=6), probabilities)
def test_distribution_function_at_the_quantile_is_the_probability(
    parts: list[tuple[float, float, float]], probability: float
) -> None:
    mixture = normalised(parts)
    x = mixture_quantile(mixture, probability)
    below = sum(p.weight * math.erfc((p.mean - x) / (p.deviation * math.sqrt(2))) / 2 for p in mixture)
    assert below == pytest.approx(probability, abs=1e-9)


@given(st.floats(-20, 20), st.floats(0.05, 3), probabilities)
def test_one_part_has_the_quantile_of_a_normal_distribution(mean: float, deviation: float, probability: float) -> None:
    from scipy.special import ndtri

    found = mixture_quantile([NormalPart(1.0, mean, deviation)], probability)
    assert found == pytest.approx(mean + deviation * float(ndtri(probability)), rel=1e-9, abs=1e-9)
