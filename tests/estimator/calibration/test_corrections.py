"""Corrections of the model by the user's own profiles."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.calibration.corrections import (
    Corrections,
    ObservedRun,
    fit_corrections,
    learn_corrections,
    reject_implausible_runs,
)


def observed(ratio: float, *, gpu: str = "T4", program: str = "train.py", profile_id: str = "p1") -> ObservedRun:
    return ObservedRun(
        profile_id=profile_id, program=program, gpu=gpu, predicted_seconds=0.1, observed_seconds=0.1 * ratio
    )


def test_no_runs_correct_nothing() -> None:
    assert learn_corrections([]).corrections.factor("T4", "train.py") == 1
    assert not learn_corrections([]).helps


def test_one_run_corrects_a_gpu_part_of_the_way() -> None:
    assert 1 < fit_corrections([observed(1.5)]).factor("T4") < 1.5


def test_agreeing_programs_correct_their_gpu() -> None:
    found = learn_corrections([observed(1.4, program=f"p{i}.py") for i in range(8)])
    assert found.corrections.factor("T4") == pytest.approx(1.4, rel=0.05)
    assert found.helps
    assert found.corrections.remaining_deviation["T4"] < 0.5


def test_program_slow_on_every_gpu_is_corrected_itself() -> None:
    found = fit_corrections([observed(1.4, program="odd.py", gpu=gpu) for gpu in ("T4", "V100", "A100", "L4", "A10G")])
    assert found.programs["odd.py"] > abs(found.gpus["T4"])


def test_corrections_that_do_not_help_held_out_programs_are_reported() -> None:
    assert not learn_corrections([observed(1.6, program="a.py"), observed(1 / 1.6, program="b.py")]).helps


def test_implausible_runs_are_rejected_and_change_nothing() -> None:
    honest = [observed(1.2, program=f"p{i}.py") for i in range(4)]
    found = learn_corrections([*honest, observed(80.0, program="wrong.py", profile_id="p666")])
    assert [rejected.run.profile_id for rejected in found.rejected] == ["p666"]
    assert "Check that it was measured on T4" in found.rejected[0].reason
    assert found.corrections == learn_corrections(honest).corrections


def test_outlier_on_its_gpu_is_rejected() -> None:
    rows = [observed(1.2 + 0.01 * i, program=f"p{i}.py") for i in range(6)]
    plausible, rejected = reject_implausible_runs([*rows, observed(3.0, program="busy.py")])
    assert len(plausible) == 6
    assert "the other profiles on T4" in rejected[0].reason


def test_repeating_a_run_gives_it_no_more_weight() -> None:
    once = [observed(1.1, program="a.py"), observed(1.3, program="b.py")]
    often = [*once, *[observed(1.3, program="b.py")] * 20]
    assert learn_corrections(often).corrections == learn_corrections(once).corrections


@given(st.lists(st.floats(0.25, 4), min_size=1, max_size=12))
def test_correction_stays_within_the_observed_ratios(ratios: list[float]) -> None:
    found = fit_corrections([observed(ratio, program=f"p{i}") for i, ratio in enumerate(ratios)])
    low, high = min(1, *ratios), max(1, *ratios)
    assert low - 1e-9 <= math.exp(found.gpus["T4"]) <= high + 1e-9


def test_unknown_gpus_and_programs_keep_the_factor_one() -> None:
    assert Corrections().factor("H100", "new.py") == 1
