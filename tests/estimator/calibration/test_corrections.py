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


def seen(ratio: float, *, gpu: str = "T4", program: str = "train.py", profile_id: str = "p1") -> ObservedRun:
    return ObservedRun(profile_id=profile_id, program=program, gpu=gpu, predicted_seconds=0.1, observed_seconds=0.1 * ratio)


def test_nothing_seen_corrects_nothing() -> None:
    assert learn_corrections([]).corrections.factor("T4", "train.py") == 1
    assert not learn_corrections([]).helps


def test_one_row_moves_a_gpu_a_part_of_the_way() -> None:
    assert 1 < fit_corrections([seen(1.5)]).factor("T4") < 1.5


def test_programs_that_agree_on_a_gpu_are_believed_of_it() -> None:
    found = learn_corrections([seen(1.4, program=f"p{i}.py") for i in range(8)])
    assert found.corrections.factor("T4") == pytest.approx(1.4, rel=0.05)
    assert found.helps
    assert found.corrections.remaining_deviation["T4"] < 0.5


def test_a_program_slow_everywhere_is_not_blamed_on_the_gpus() -> None:
    found = fit_corrections([seen(1.4, program="odd.py", gpu=gpu) for gpu in ("T4", "V100", "A100", "L4", "A10G")])
    assert found.programs["odd.py"] > abs(found.gpus["T4"])


def test_corrections_that_do_not_help_programs_left_out_say_so() -> None:
    assert not learn_corrections([seen(1.6, program="a.py"), seen(1 / 1.6, program="b.py")]).helps


def test_absurd_rows_are_set_aside_and_change_nothing() -> None:
    honest = [seen(1.2, program=f"p{i}.py") for i in range(4)]
    found = learn_corrections([*honest, seen(80.0, program="evil.py", profile_id="p666")])
    assert [rejected.run.profile_id for rejected in found.rejected] == ["p666"]
    assert "Check that it was measured on T4" in found.rejected[0].reason
    assert found.corrections == learn_corrections(honest).corrections


def test_a_row_unlike_all_others_on_its_gpu_is_set_aside() -> None:
    rows = [seen(1.2 + 0.01 * i, program=f"p{i}.py") for i in range(6)]
    believed, aside = reject_implausible_runs([*rows, seen(3.0, program="busy.py")])
    assert len(believed) == 6
    assert "the other profiles on T4" in aside[0].reason


def test_repeating_a_row_gives_it_no_more_weight() -> None:
    once = [seen(1.1, program="a.py"), seen(1.3, program="b.py")]
    often = [*once, *[seen(1.3, program="b.py")] * 20]
    assert learn_corrections(often).corrections == learn_corrections(once).corrections


@given(st.lists(st.floats(0.25, 4), min_size=1, max_size=12))
def test_a_correction_never_leaves_what_was_seen(ratios: list[float]) -> None:
    found = fit_corrections([seen(ratio, program=f"p{i}") for i, ratio in enumerate(ratios)])
    low, high = min(1, *ratios), max(1, *ratios)
    assert low - 1e-9 <= math.exp(found.gpus["T4"]) <= high + 1e-9


def test_unknown_gpus_and_programs_keep_one() -> None:
    assert Corrections().factor("H100", "new.py") == 1
