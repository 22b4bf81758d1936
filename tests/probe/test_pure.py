"""Which functions of a program may be called unasked."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from trainfare.probe.pure import is_arithmetic

FACTOR = 0.5
calls: list[int] = []


def halved(epoch: int, rate: float) -> float:
    return rate * FACTOR if epoch % 10 == 0 else rate


def cosine(epoch: int) -> float:
    return max(1e-6, 0.5 * (1 + math.cos(math.pi * min(epoch, 90) / 90)))


def by_numpy(epoch: int) -> float:
    return float(np.exp(-epoch))


def of(step: float) -> Callable[[int], float]:
    return lambda epoch: step**epoch


def counts(epoch: int) -> float:
    calls.append(epoch)
    return 0.1


def draws(epoch: int) -> float:
    return float(np.random.uniform())


def writes(epoch: int) -> float:
    global FACTOR  # noqa: PLW0603 # what it is about
    FACTOR = 0.4
    return FACTOR


def tells(epoch: int) -> float:
    print(epoch)  # noqa: T201 # what it is about
    return 0.1


class Counter:
    def __call__(self, epoch: int) -> float:
        return 0.1


@pytest.mark.parametrize("function", [halved, cosine, by_numpy, of(0.9)])
def test_what_only_reckons_may_be_called(function: Callable[..., float]) -> None:
    assert is_arithmetic(function)


@pytest.mark.parametrize("function", [counts, draws, writes, tells, Counter(), Counter().__call__, of([1]), len])  # type: ignore[arg-type]  # what it is about
def test_what_does_or_holds_anything_else_may_not(function: Callable[..., float]) -> None:
    assert not is_arithmetic(function)
