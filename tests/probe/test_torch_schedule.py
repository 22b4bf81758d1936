"""Schedulers replayed, in the same process as the schedulers that they were copied from."""

import argparse
import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from trainfare.probe.torch_schedule import MAX_STEPS, SchedulerReplay, _rate_after, _steps_per_epoch

SEEN: list[int] = []
FACTOR = 0.9


def make_optimizer() -> torch.optim.Optimizer:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    groups: list[dict[str, Any]] = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.01}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def sequential(optimizer: torch.optim.Optimizer) -> Any:
    warmup = schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=50)
    return schedulers.SequentialLR(optimizer, [warmup, schedulers.CosineAnnealingLR(optimizer, 400)], milestones=[50])


KINDS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "step": lambda o: schedulers.StepLR(o, 30, 0.1),
    "multistep": lambda o: schedulers.MultiStepLR(o, [30, 200], 0.1),
    "exponential": lambda o: schedulers.ExponentialLR(o, 0.99),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, 450),
    "polynomial": lambda o: schedulers.PolynomialLR(o, 400, 2.0),
    "one_cycle": lambda o: schedulers.OneCycleLR(o, 0.4, total_steps=500),
    "lambda": lambda o: schedulers.LambdaLR(o, lambda step: 1 / (1 + step)),
    "restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 30, 2),
    "sequential": sequential,
}


@pytest.mark.parametrize("kind", KINDS)
def test_computed_rate_equals_the_rate_after_stepping(kind: str) -> None:
    optimizer = make_optimizer()
    real, replayed = KINDS[kind](optimizer), SchedulerReplay(KINDS[kind](make_optimizer()))._copy
    optimizer.step()
    for steps in range(1, 450):
        real.step()
        if steps % 7 == 0:
            assert _rate_after(replayed, steps) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9, abs=1e-12)


def test_long_schedule_is_computed_by_its_formula() -> None:
    optimizer = make_optimizer()
    total = 90 * 5000
    schedule = SchedulerReplay(schedulers.OneCycleLR(optimizer, 0.4, total_steps=total))
    assert total > MAX_STEPS
    rates = schedule.rates(steps=19, iterations=19, passes=0, length=5000, epochs=None)
    assert len(rates) == 90
    assert max(rates) == pytest.approx(0.4, rel=1e-3)


def test_replay_does_not_change_the_original() -> None:
    optimizer = make_optimizer()
    scheduler = KINDS["sequential"](optimizer)
    before, groups = repr(scheduler.state_dict()), repr(optimizer.param_groups)
    SchedulerReplay(scheduler).rates(steps=0, iterations=10, passes=0, length=None, epochs=100)
    assert (repr(scheduler.state_dict()), repr(optimizer.param_groups)) == (before, groups)


def test_schedule_ends_before_a_negative_rate() -> None:
    schedule = SchedulerReplay(schedulers.LambdaLR(make_optimizer(), lambda epoch: 1 - epoch / 10))
    rates = schedule.rates(steps=0, iterations=10, passes=0, length=None, epochs=None)
    assert rates == pytest.approx([0.1 * (1 - n / 10) for n in range(11)])


def remembers(epoch: int) -> float:
    SEEN.append(epoch)
    return 1.0


def prints(epoch: int) -> float:
    print(epoch)  # noqa: T201 # what a program might do
    return 1.0


def calls_another(epoch: int) -> float:
    return remembers(epoch)


class Counts:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _epoch: int) -> float:
        self.calls += 1
        return 1.0


OPTIONS = argparse.Namespace(decay=0.5, hook=print)


@pytest.mark.parametrize(
    "factor",
    [
        remembers,
        prints,
        calls_another,
        Counts(),
        lambda epoch: OPTIONS.hook(epoch) or 1.0,
        lambda epoch: float(torch.rand(1)) * epoch,
        functools.partial(prints),
    ],
)
def test_function_that_is_not_pure_is_not_replayed(factor: Any) -> None:
    scheduler = schedulers.LambdaLR(make_optimizer(), lambda _: 1.0)
    scheduler.lr_lambdas = [factor] * 2
    assert SchedulerReplay(scheduler).rates(steps=0, iterations=10, passes=0, length=None, epochs=9) == []


@pytest.mark.parametrize(
    "factor",
    [
        lambda epoch: FACTOR**epoch,
        lambda epoch: OPTIONS.decay**epoch,
        lambda epoch: 0.5 * (1 + math.cos(math.pi * min(epoch, 9) / 9)),
        lambda epoch: max(sum(FACTOR for _ in range(epoch)), 0.1),
        functools.partial(lambda epoch, rate: rate**epoch, rate=0.5),
    ],
)
def test_pure_function_is_replayed(factor: Any) -> None:
    schedule = SchedulerReplay(schedulers.LambdaLR(make_optimizer(), factor))
    rates = schedule.rates(steps=0, iterations=10, passes=0, length=None, epochs=9)
    assert rates == pytest.approx([0.1 * factor(n) for n in range(9)])


@pytest.mark.parametrize(
    ("steps", "iterations", "passes", "found"),
    [
        (0, 24, 0, 1),  # not stepped yet
        (2, 24, 2, 1),  # at the end of each epoch
        (1, 24, 2, 1),  # the last epoch not yet
        (24, 24, 2, 12),  # with each iteration
        (23, 24, 0, 12),
        (12, 24, 0, 6),  # with every second iteration
    ],
)
def test_steps_per_epoch_follow_the_steps_of_the_program(steps: int, iterations: int, passes: int, found: int) -> None:
    assert _steps_per_epoch(steps, iterations, passes, 12) == found


def test_steps_per_epoch_are_unknown_without_the_length_of_an_epoch() -> None:
    assert _steps_per_epoch(24, 24, 0, None) is None
