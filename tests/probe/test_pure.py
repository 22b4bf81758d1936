"""Functions of a program that are pure, and functions that are not."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainfare.probe.pure import is_pure

FACTOR = 0.5
calls: list[int] = []


def halved(epoch: int, rate: float) -> float:
    return rate * FACTOR if epoch % 10 == 0 else rate


def cosine(epoch: int) -> float:
    return max(1e-6, 0.5 * (1 + math.cos(math.pi * min(epoch, 90) / 90)))


def by_numpy(epoch: int) -> float:
    return float(np.exp(-epoch))


def power_of(step: float) -> Callable[[int], float]:
    return lambda epoch: step**epoch


def appends(epoch: int) -> float:
    calls.append(epoch)
    return 0.1


def draws(epoch: int) -> float:
    return float(np.random.uniform())


def writes(epoch: int) -> float:
    global FACTOR  # noqa: PLW0603 # the side effect under test
    FACTOR = 0.4
    return FACTOR


def remembers(epoch: int, seen: list[int] = []) -> float:  # noqa: B006 # the side effect under test
    seen.append(epoch)
    return 0.1


def prints(epoch: int) -> float:
    print(epoch)  # noqa: T201 # the side effect under test
    return 0.1


class Counter:
    def __call__(self, epoch: int) -> float:
        return 0.1


@pytest.mark.parametrize("function", [halved, cosine, by_numpy, power_of(0.9)])
def test_function_that_only_computes_is_pure(function: Callable[..., float]) -> None:
    assert is_pure(function)


CALLABLE: Any = Counter()


@pytest.mark.parametrize(
    "function", [appends, remembers, draws, writes, prints, CALLABLE, CALLABLE.__call__, power_of(CALLABLE), len]
)
def test_function_with_side_effects_or_unknown_values_is_not_pure(function: Callable[..., float]) -> None:
    assert not is_pure(function)
