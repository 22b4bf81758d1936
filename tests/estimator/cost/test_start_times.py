"""Start-up times: the user's runs replace the assumption, and the interval narrows with each of them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from tests.makers import make_offer, make_vm_type
from trainfare.app.catalog.starts import ObservedStarts, terms_with_starts
from trainfare.catalog.terms import find_terms
from trainfare.estimator.cost.bill import SETUP_SECONDS, expected_boot, expected_setup, starting_phases
from trainfare.estimator.cost.start_times import (
    StartTime,
    _student_quantile,
    predict_boot,
    predict_for_program,
)
from trainfare.model.bill import MeasuredTime, Overheads
from trainfare.model.interval import Interval

ASSUMED = Interval.within_factor(180.0, 3.0)
NOTHING = Interval.exactly(0.0)


def times(machine: str, *seconds: float, program: str = "train.py") -> list[StartTime]:
    return [StartTime(machine=machine, program=program, seconds=each) for each in seconds]


def width(found: MeasuredTime | None) -> float:
    assert found is not None
    return found.seconds.high / found.seconds.low


def test_no_run_on_the_provider_says_nothing() -> None:
    assert predict_boot(times("gcp/a", 60.0), "aws/a", assumed=ASSUMED) is None


def test_one_run_moves_the_assumption_most_of_the_way() -> None:
    found = predict_boot(times("aws/a", 60.0), "aws/a", assumed=ASSUMED)
    assert found is not None
    assert 60 < found.seconds.value < 75
    assert found.source == "measured in 1 run"
    assert width(found) < ASSUMED.high / ASSUMED.low


@given(st.floats(0.01, 2000.0), st.integers(1, 30))
def test_each_further_run_narrows_the_interval_around_what_was_seen(seconds: float, runs: int) -> None:
    fewer, more = (predict_boot(times("aws/a", *[seconds] * n), "aws/a", assumed=ASSUMED) for n in (runs, runs + 1))
    assert width(more) < width(fewer)
    assert fewer is not None
    assert more is not None
    assert abs(math.log(more.seconds.value / seconds)) <= abs(math.log(fewer.seconds.value / seconds)) + 1e-9


def test_another_machine_of_the_provider_counts_less_than_the_machine_itself() -> None:
    there, elsewhere = (
        predict_boot(times("aws/a", 60.0, 61.0), machine, assumed=ASSUMED) for machine in ("aws/a", "aws/b")
    )
    assert there is not None
    assert elsewhere is not None
    assert there.seconds.value < elsewhere.seconds.value < ASSUMED.value
    assert width(there) < width(elsewhere) < ASSUMED.high / ASSUMED.low
    assert elsewhere.source == "measured in 2 runs on other machines of the provider"


def test_an_own_machine_has_no_assumption_to_return_to() -> None:
    found = predict_boot(times("ssh/a", 0.5), "ssh/a", assumed=NOTHING)
    assert found is not None
    assert found.seconds.value == pytest.approx(0.5)


def test_the_setup_of_the_same_program_counts_more_than_that_of_another() -> None:
    seen = [*times("ssh/a", 100.0, 100.0, program="large.py"), *times("ssh/a", 2.0, 2.0, program="small.py")]
    large, small, new = (
        predict_for_program(seen, "ssh/a", program, assumed=NOTHING) for program in ("large.py", "small.py", "new.py")
    )
    assert large is not None
    assert small is not None
    assert new is not None
    assert large.seconds.value == pytest.approx(100, rel=0.3)
    assert small.seconds.value == pytest.approx(2, rel=0.3)
    assert 5 < new.seconds.value < 40
    assert width(new) > width(large)


def test_runs_that_differ_widen_the_interval() -> None:
    steady, varying = (
        predict_boot(times("aws/a", *seen), "aws/a", assumed=ASSUMED) for seen in ([60.0] * 6, [20.0, 180.0] * 3)
    )
    assert width(varying) > width(steady)


def test_ninety_percent_of_further_runs_are_inside() -> None:
    """Machines and runs drawn from the model itself."""
    random.seed(7)
    inside = drawn = 0
    for _ in range(400):
        machine = math.log(180) + random.gauss(0, math.sqrt((math.log(3) / 1.645) ** 2 - 0.25**2))
        seen = [math.exp(machine + random.gauss(0, 0.25)) for _ in range(random.choice((2, 3, 5, 9)))]
        found = predict_boot(times("aws/a", *seen[1:]), "aws/a", assumed=ASSUMED)
        assert found is not None
        inside += found.seconds.low <= seen[0] <= found.seconds.high
        drawn += 1
    assert 0.86 <= inside / drawn <= 0.97


@pytest.mark.parametrize("degrees", [3.0, 4.0, 7.5, 30.0])
def test_the_quantile_is_that_of_student(degrees: float) -> None:
    assert _student_quantile(degrees) == pytest.approx(stdtrit(degrees, 0.95), rel=3e-3)


def test_an_estimate_says_that_its_start_was_measured() -> None:
    vm_type = make_vm_type(provider="ssh", name="big")
    offer = make_offer(vm_type=vm_type, market="own")
    starts = ObservedStarts(
        boot=tuple(times("ssh/big", 0.5)), setup=tuple(times("ssh/big", 20.0)), collecting=tuple(times("ssh/big", 4.0))
    )
    terms = terms_with_starts(find_terms, starts, "train.py")
    phases = {phase.name: phase for phase in starting_phases(offer, terms(offer), Overheads())}
    assert list(phases) == ["boot", "setup", "collecting"]
    assert phases["setup"].seconds.value == pytest.approx(20, rel=0.01)
    assert "measured in 1 run" in (phases["setup"].how or "")
    assert terms(offer) is terms(offer), "estimates share the terms of a machine"
    stated = starting_phases(offer, terms(offer), Overheads(setup_seconds=7.0))
    assert [phase.seconds.value for phase in stated if phase.name == "setup"] == [7.0]
    assert expected_boot(terms(offer)).value == pytest.approx(0.5)
    assert expected_setup(terms(offer)).value == pytest.approx(20, rel=0.01)
    rented = make_offer()
    assert (expected_boot(terms(rented)), expected_setup(terms(rented))) == (
        find_terms(rented).boot_seconds,
        SETUP_SECONDS,
    )
    assert terms(rented) is find_terms(rented), "nothing was learned about this provider"
