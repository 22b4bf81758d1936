"""Predictions from one CPU slice of a machine to another, for programs that follow the formula."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.estimator.step.slices import (
    CpuSlice,
    SliceMeasurement,
    predict_iteration,
    predict_step_times,
    slice_measurements,
)
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Profile

HALF, ONE, TWO, FOUR = (CpuSlice.of_cores(cores) for cores in (0.5, 1.0, 2.0, 4.0))
CORES = {"local/half": 0.5, "local/one": 1.0, "local/two": 2.0}


def measure(
    where: CpuSlice, *, work: float = 0.1, share: float = 0.6, spin: float = 0.5, wait: float = 0.0
) -> SliceMeasurement:
    """The measurement of a program that follows the formula exactly."""
    elapsed = work * (1 - share + share / where.threads + wait)
    used = work + spin * (where.threads * elapsed - work) if where.threads > 1 else work
    seconds = max(used / where.cores, elapsed)
    return SliceMeasurement(slice=where, seconds=Interval.within_factor(seconds, 1.04), cpu_use=used / seconds)


programs = st.fixed_dictionaries(
    {"work": st.floats(1e-4, 10), "share": st.floats(0, 0.9), "spin": st.floats(0, 1), "wait": st.floats(0, 0.1)}
)
slices = st.sampled_from([HALF, CpuSlice.of_cores(0.75), ONE, TWO, FOUR])


@given(programs, slices, slices)
@settings(max_examples=40, deadline=None)
def test_program_that_follows_the_formula_lies_within_the_interval(
    program: dict[str, float], known: CpuSlice, target: CpuSlice
) -> None:
    predicted = predict_iteration(target, [measure(known, **program)])
    assert predicted.low <= measure(target, **program).seconds.value <= predicted.high


@given(programs, slices)
@settings(max_examples=20, deadline=None)
def test_prediction_for_the_measured_slice_is_its_measured_time(program: dict[str, float], known: CpuSlice) -> None:
    measured = measure(known, **(program | {"wait": 0.0}))
    assert predict_iteration(known, [measured]).value == pytest.approx(measured.seconds.value, rel=0.1)


@given(programs, st.floats(0.01, 100))
@settings(max_examples=20, deadline=None)
def test_prediction_is_proportional_to_the_work(program: dict[str, float], times: float) -> None:
    short = predict_iteration(TWO, [measure(ONE, **program)])
    long = predict_iteration(TWO, [measure(ONE, **(program | {"work": program["work"] * times}))])
    assert long.value / short.value == pytest.approx(times, rel=1e-6)


@given(programs)
@settings(max_examples=15, deadline=None)
def test_more_cores_are_never_predicted_to_be_slower(program: dict[str, float]) -> None:
    times = [predict_iteration(target, [measure(ONE, **program)]).value for target in (HALF, ONE, TWO, FOUR)]
    assert times == sorted(times, reverse=True)


@given(st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_part_of_a_core_takes_proportionally_longer(cores: float) -> None:
    predicted = predict_iteration(CpuSlice.of_cores(cores), [measure(ONE)])
    assert predicted.value == pytest.approx(0.1 / cores, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_second_number_of_threads_identifies_the_parallel_share(share: float) -> None:
    truth = measure(FOUR, share=share, spin=0.5).seconds.value
    one = predict_iteration(FOUR, [measure(ONE, share=share)])
    both = predict_iteration(FOUR, [measure(ONE, share=share), measure(TWO, share=share, spin=0.5)])
    assert abs(math.log(both.value / truth)) < 0.25
    assert both.high / both.low < one.high / one.low


def test_spinning_threads_do_not_count_as_work() -> None:
    """Two threads of a serial program keep two cores busy, although one core would be as fast."""
    spinning = predict_iteration(ONE, [measure(ONE, share=0.0), measure(TWO, share=0.0, spin=1.0)])
    assert spinning.value == pytest.approx(0.1, rel=0.1)


def test_program_that_waits_for_the_disk_is_not_slowed_by_half_a_core() -> None:
    waits = SliceMeasurement(slice=ONE, seconds=Interval.within_factor(0.1, 1.02), cpu_use=0.2, data_wait=0.8)
    assert predict_iteration(HALF, [waits]).value == pytest.approx(0.1, rel=0.1)


def test_interval_allows_for_a_busy_machine_to_be_idle_next_time() -> None:
    busy = SliceMeasurement(slice=ONE, seconds=Interval.within_factor(0.2, 1.05), cpu_use=0.5)
    predicted = predict_iteration(ONE, [busy])
    assert predicted.low < 0.11
    assert predicted.high > 0.19


def test_without_cpu_use_the_interval_is_wider() -> None:
    with_use = measure(TWO)
    without_use = SliceMeasurement(slice=with_use.slice, seconds=with_use.seconds)
    narrow, wide = (predict_iteration(HALF, [each]) for each in (with_use, without_use))
    assert wide.high / wide.low > narrow.high / narrow.low


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: CpuSlice(cores=0.0, threads=1),
        lambda: CpuSlice(cores=1.0, threads=0),
        lambda: SliceMeasurement(slice=ONE, seconds=Interval.exactly(0.0)),
        lambda: SliceMeasurement(slice=ONE, seconds=Interval.exactly(1.0), data_wait=1.5),
        lambda: predict_iteration(ONE, []),
        lambda: predict_step_times(ONE, []),
    ],
)
def test_impossible_slices_and_measurements_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"slice|time|share"):
        wrong()


def on_slice(name: str | None, **changes: Any) -> Profile:
    threads = math.ceil(CORES.get(f"local/{name}", 2.0))
    host = Host(name=changes.pop("at", "here"), cpu="Xeon", cores=threads, vm_type=f"local/{name}" if name else None)
    return make_profile(host=host, cpu_use=changes.pop("cpu_use", 0.99), **changes)


def test_profiles_of_one_machine_are_combined_and_repeats_are_one_measurement() -> None:
    one, again, half = on_slice("one"), on_slice("one", id="pagain"), on_slice("half", id="phalf", cpu_use=0.5)
    found = slice_measurements([one, again, half, on_slice("two", at="elsewhere")], CORES)
    assert [(profile.id, on.slice) for profile, on in found] == [("p7k2", ONE), ("phalf", HALF)]


def test_profile_without_a_machine_type_was_taken_on_the_whole_machine() -> None:
    ((_, on),) = slice_measurements([on_slice(None)], CORES)
    assert on.slice == TWO


def test_profiles_of_gpus_and_of_unknown_slices_are_ignored() -> None:
    assert slice_measurements([on_slice("one", device="cuda"), on_slice("gone"), make_profile()], CORES) == ()


def test_all_times_of_a_training_scale_with_the_slice() -> None:
    times = predict_step_times(HALF, slice_measurements([on_slice("one")], CORES))
    assert times.later.value == pytest.approx(0.2, rel=0.1)
    assert times.init.value == pytest.approx(4.0, rel=0.1)
    assert times.first.value == pytest.approx(0.2 + 1.8, rel=0.1)
    assert times.first_validation is not None
    assert times.first_validation.value == pytest.approx(0.6, rel=0.1)


def test_initialisation_is_single_threaded() -> None:
    times = predict_step_times(TWO, slice_measurements([on_slice("one")], CORES))
    assert times.init.value == pytest.approx(2.0, rel=0.05)
    assert times.init.low < 2.0 < times.init.high
    assert times.later.value < 0.1
