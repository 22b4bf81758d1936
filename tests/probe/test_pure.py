"""Which functions of a program may be called unasked."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainfare.probe.pure import computes

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


def remembers(epoch: int, seen: list[int] = []) -> float:  # noqa: B006 # what it is about
    seen.append(epoch)
    return 0.1


def tells(epoch: int) -> float:
    print(epoch)  # noqa: T201 # what it is about
    return 0.1


class Counter:
    def __call__(self, epoch: int) -> float:
        return 0.1


@pytest.mark.parametrize("function", [halved, cosine, by_numpy, of(0.9)])
def test_what_only_reckons_may_be_called(function: Callable[..., float]) -> None:
    assert computes(function)


HELD: Any = Counter()


@pytest.mark.parametrize("function", [counts, remembers, draws, writes, tells, HELD, HELD.__call__, of(HELD), len])
def test_what_does_or_holds_anything_else_may_not(function: Callable[..., float]) -> None:
    assert not computes(function)
