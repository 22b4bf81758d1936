import math
import random
from dataclasses import replace

import msgspec
import pytest

from trainfare.estimator.parallel.link_residuals import (
    NOTHING_KNOWN,
    Residual,
    ResidualFit,
    corrected,
    fit_residuals,
    foretell,
    residuals_of,
)
from trainfare.estimator.parallel.ring import MeasuredStep, Placement, RingFit

FOUR, EIGHT = Placement(nodes=1, gpus=4), Placement(nodes=1, gpus=8)
RING = RingFit(
    alone=((32.0, 0.1),), gamma=1.5, crowding=0.0, inside_seconds=0.05, between_seconds=0.2, crossing_seconds=0.1
)


def misses(machine: str = "m", *, log_miss: float = 0.2, noise: float = 0.0, families: int = 10) -> list[Residual]:
    """Half of every step is sending, and eight GPUs take e^log_miss times as long as the formula has it."""
    rng = random.Random(1)  # noqa: S311 not for secrets
    return [
        Residual(
            program=f"{family} {i}",
            family=f"{family}",
            machine=machine,
            placement=EIGHT,
            sync_share=0.5,
            gradient_share=0.1,
            log_miss=log_miss + rng.gauss(0, noise),
        )
        for family in range(families)
        for i in range(4)
    ]


def test_what_others_show_on_a_machine_is_expected_of_the_next() -> None:
    fit = fit_residuals(misses())
    assert fit.log_correction("m", EIGHT, 0.5, 0.1) == pytest.approx(0.2, abs=0.03)


def test_a_step_that_sends_nothing_is_left_alone() -> None:
    assert fit_residuals(misses()).log_correction("m", EIGHT, 0.0, 0.0) == 0


def test_an_unknown_gradient_is_not_an_empty_one() -> None:
    known, unknown = misses(), [replace(miss, gradient_share=0.0) for miss in misses()[:4]]
    assert all(one.on_gradient for one in fit_residuals(known).machines["m"])
    fit = fit_residuals([*known, *unknown])
    assert not any(one.on_gradient for one in fit.machines["m"])
    assert fit.log_correction("m", EIGHT, 0.5, 0.0) == pytest.approx(0.2, abs=0.03)


def test_other_machines_and_far_placements_are_left_alone() -> None:
    fit = fit_residuals(misses())
    assert fit.log_correction("another", EIGHT, 0.5, 0.1) == 0
    assert fit.log_correction("m", FOUR, 0.5, 0.1) == 0


def test_no_correction_is_larger_than_twice() -> None:
    fit = fit_residuals(misses(log_miss=0.6))
    assert fit.log_correction("m", EIGHT, 1.0, 10.0) == 0.7


def test_nothing_is_learnt_from_one_family() -> None:
    assert fit_residuals(misses(families=1)) == NOTHING_KNOWN
    assert fit_residuals([]) == NOTHING_KNOWN


def test_without_pulls_only_the_interval_is_learnt() -> None:
    fit = fit_residuals(misses(log_miss=0.0, noise=0.1, families=40), pulls=())
    assert fit.machines == {}
    assert fit.log_spread("m", 0.5) == pytest.approx(0.17, abs=0.06), "nine of ten of a normal of 0.1"


def test_a_machine_that_is_all_over_the_place_has_a_wider_interval() -> None:
    fit = fit_residuals(misses("calm", log_miss=0, noise=0.02) + misses("wild", log_miss=0, noise=0.3))
    assert fit.log_spread("wild", 0.5) > 4 * fit.log_spread("calm", 0.5)
    assert fit.log_spread("calm", 0.5) < fit.log_spread("unheard of", 0.5) < fit.log_spread("wild", 0.5)


def test_each_machine_is_corrected_as_firmly_as_its_own_programs_bear_out() -> None:
    steady, erratic = misses("steady", families=12), misses("erratic", log_miss=0.0, noise=0.5, families=12)
    alone, both = fit_residuals(steady), fit_residuals([*steady, *erratic])
    assert both.log_correction("steady", EIGHT, 0.5, 0.1) == alone.log_correction("steady", EIGHT, 0.5, 0.1)
    assert abs(both.log_correction("erratic", EIGHT, 0.5, 0.1)) < 0.1


def test_a_step_that_computes_is_surer_than_one_that_sends() -> None:
    fit = fit_residuals(misses(noise=0.1))
    assert fit.log_spread("m", 0.0) < fit.log_spread("m", 1.0) == pytest.approx(fit.spread * fit.unrest["m"])


def test_a_ring_is_told_with_what_it_misses() -> None:
    steps = [MeasuredStep(placement=EIGHT, batch_size=32.0, seconds=2 * RING.seconds(EIGHT, 32.0))]
    (miss,) = residuals_of(RING, steps, program="p", family="f", machine="m", gradient_seconds=0.01)
    assert miss.log_miss == pytest.approx(math.log(2))
    assert miss.sync_share == RING.sync_share(EIGHT, 32.0)
    told = foretell(RING, EIGHT, 32.0, machine="m", gradient_seconds=0.01, missed=NOTHING_KNOWN)
    assert told.seconds == RING.seconds(EIGHT, 32.0)
    assert told.low < told.seconds < told.high


def test_a_correction_moves_the_interval_along() -> None:
    fit = fit_residuals(misses())
    told = corrected(1.0, EIGHT, 0.5, machine="m", gradient_seconds=0.1, missed=fit)
    assert told.seconds == pytest.approx(math.exp(0.2), rel=0.05)
    assert math.sqrt(told.low * told.high) == pytest.approx(told.seconds)


def test_a_fit_is_kept_as_json() -> None:
    fit = fit_residuals(misses(noise=0.1))
    assert msgspec.json.decode(msgspec.json.encode(fit), type=ResidualFit) == fit
