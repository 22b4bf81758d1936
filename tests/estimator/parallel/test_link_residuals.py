import math
import random
from dataclasses import replace

import msgspec
import pytest

from trainfare.estimator.parallel.link_residuals import (
    NO_CORRECTIONS,
    Residual,
    ResidualFit,
    correct_step,
    fit_residuals,
    predict_ring_step,
    ring_residuals,
)
from trainfare.estimator.parallel.ring import GpuPlacement, MeasuredStep, RingFit

FOUR, EIGHT = GpuPlacement(nodes=1, gpus=4), GpuPlacement(nodes=1, gpus=8)
RING = RingFit(
    on_one_gpu=((32.0, 0.1),), gamma=1.5, crowding=0.0, inside_seconds=0.05, between_seconds=0.2, crossing_seconds=0.1
)


def make_residuals(
    machine: str = "m", *, log_residual: float = 0.2, noise: float = 0.0, families: int = 10
) -> list[Residual]:
    """Half of every step is sending, and eight GPUs take e^log_residual times as long as by the formula."""
    rng = random.Random(1)
    return [
        Residual(
            program=f"{family} {i}",
            family=f"{family}",
            machine=machine,
            placement=EIGHT,
            sync_share=0.5,
            gradient_share=0.1,
            log_residual=log_residual + rng.gauss(0, noise),
        )
        for family in range(families)
        for i in range(4)
    ]


def test_residual_of_other_programs_on_a_machine_is_expected_of_the_next() -> None:
    fit = fit_residuals(make_residuals())
    assert fit.log_correction("m", EIGHT, 0.5, 0.1) == pytest.approx(0.2, abs=0.03)


def test_step_without_sending_is_not_corrected() -> None:
    assert fit_residuals(make_residuals()).log_correction("m", EIGHT, 0.0, 0.0) == 0


def test_unknown_gradient_is_not_a_zero_gradient() -> None:
    known, unknown = make_residuals(), [replace(residual, gradient_share=0.0) for residual in make_residuals()[:4]]
    assert all(one.on_gradient for one in fit_residuals(known).machines["m"])
    fit = fit_residuals([*known, *unknown])
    assert not any(one.on_gradient for one in fit.machines["m"])
    assert fit.log_correction("m", EIGHT, 0.5, 0.0) == pytest.approx(0.2, abs=0.03)


def test_other_machines_and_distant_placements_are_not_corrected() -> None:
    fit = fit_residuals(make_residuals())
    assert fit.log_correction("another", EIGHT, 0.5, 0.1) == 0
    assert fit.log_correction("m", FOUR, 0.5, 0.1) == 0


def test_correction_is_at_most_a_factor_of_two() -> None:
    fit = fit_residuals(make_residuals(log_residual=0.6))
    assert fit.log_correction("m", EIGHT, 1.0, 10.0) == 0.7


def test_one_family_gives_no_corrections() -> None:
    assert fit_residuals(make_residuals(families=1)) == NO_CORRECTIONS
    assert fit_residuals([]) == NO_CORRECTIONS


def test_without_penalties_only_the_interval_is_learned() -> None:
    fit = fit_residuals(make_residuals(log_residual=0.0, noise=0.1, families=40), penalties=())
    assert fit.machines == {}
    assert fit.log_spread("m", 0.5) == pytest.approx(0.17, abs=0.06), "nine of ten of a normal of 0.1"


def test_machine_with_larger_errors_has_a_wider_interval() -> None:
    fit = fit_residuals(
        make_residuals("quiet", log_residual=0, noise=0.02) + make_residuals("noisy", log_residual=0, noise=0.3)
    )
    assert fit.log_spread("noisy", 0.5) > 4 * fit.log_spread("quiet", 0.5)
    assert fit.log_spread("quiet", 0.5) < fit.log_spread("unknown", 0.5) < fit.log_spread("noisy", 0.5)


def test_penalty_is_chosen_for_each_machine_by_its_own_programs() -> None:
    steady, erratic = (
        make_residuals("steady", families=12),
        make_residuals("erratic", log_residual=0.0, noise=0.5, families=12),
    )
    alone, both = fit_residuals(steady), fit_residuals([*steady, *erratic])
    assert both.log_correction("steady", EIGHT, 0.5, 0.1) == alone.log_correction("steady", EIGHT, 0.5, 0.1)
    assert abs(both.log_correction("erratic", EIGHT, 0.5, 0.1)) < 0.1


def test_step_that_computes_has_a_narrower_interval_than_one_that_sends() -> None:
    fit = fit_residuals(make_residuals(noise=0.1))
    assert fit.log_spread("m", 0.0) < fit.log_spread("m", 1.0) == pytest.approx(fit.spread * fit.relative_errors["m"])


def test_residual_of_a_ring_and_its_prediction_without_corrections() -> None:
    steps = [MeasuredStep(placement=EIGHT, batch_size=32.0, seconds=2 * RING.seconds(EIGHT, 32.0))]
    (residual,) = ring_residuals(RING, steps, program="p", family="f", machine="m", gradient_seconds=0.01)
    assert residual.log_residual == pytest.approx(math.log(2))
    assert residual.sync_share == RING.sync_share(EIGHT, 32.0)
    step = predict_ring_step(RING, EIGHT, 32.0, machine="m", gradient_seconds=0.01, residuals=NO_CORRECTIONS)
    assert step.seconds == RING.seconds(EIGHT, 32.0)
    assert step.low < step.seconds < step.high


def test_correction_shifts_the_interval() -> None:
    fit = fit_residuals(make_residuals())
    step = correct_step(1.0, EIGHT, 0.5, machine="m", gradient_seconds=0.1, residuals=fit)
    assert step.seconds == pytest.approx(math.exp(0.2), rel=0.05)
    assert math.sqrt(step.low * step.high) == pytest.approx(step.seconds)


def test_fit_survives_json() -> None:
    fit = fit_residuals(make_residuals(noise=0.1))
    assert msgspec.json.decode(msgspec.json.encode(fit), type=ResidualFit) == fit
