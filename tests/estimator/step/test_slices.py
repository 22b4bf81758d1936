"""From one slice of a machine to another: what must hold of every program, and what two profiles settle."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.estimator.step.slices import SliceMeasurement, CpuSlice, predict_iteration, slice_measurements, predict_step_times
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Profile

HALF, ONE, TWO, FOUR = (CpuSlice.of_cores(cores) for cores in (0.5, 1.0, 2.0, 4.0))
CORES = {"local/half": 0.5, "local/one": 1.0, "local/two": 2.0}


def seen(where: CpuSlice, *, work: float = 0.1, share: float = 0.6, spin: float = 0.5, wait: float = 0.0) -> SliceMeasurement:
    """What a program shows that follows the formula to the letter."""
    taken = work * (1 - share + share / where.threads + wait)
    burnt = work + spin * (where.threads * taken - work) if where.threads > 1 else work
    seconds = max(burnt / where.cores, taken)
    return SliceMeasurement(slice=where, seconds=Interval.within_factor(seconds, 1.04), cpu_use=burnt / seconds)


programs = st.fixed_dictionaries(
    {"work": st.floats(1e-4, 10), "share": st.floats(0, 0.9), "spin": st.floats(0, 1), "wait": st.floats(0, 0.1)}
)
slices = st.sampled_from([HALF, CpuSlice.of_cores(0.75), ONE, TWO, FOUR])


@given(programs, slices, slices)
@settings(max_examples=40, deadline=None)
def test_what_follows_the_formula_lies_within_the_interval(
    program: dict[str, float], known: CpuSlice, asked: CpuSlice
) -> None:
    found, truth = predict_iteration(asked, [seen(known, **program)]), seen(asked, **program).seconds.value
    assert found.low <= truth <= found.high


@given(programs, slices)
@settings(max_examples=20, deadline=None)
def test_the_slice_that_was_measured_takes_what_was_measured(program: dict[str, float], known: CpuSlice) -> None:
    measured = seen(known, **(program | {"wait": 0.0}))
    assert predict_iteration(known, [measured]).value == pytest.approx(measured.seconds.value, rel=0.1)


@given(programs, st.floats(0.01, 100))
@settings(max_examples=20, deadline=None)
def test_a_program_that_takes_longer_takes_longer_everywhere(program: dict[str, float], times: float) -> None:
    short = predict_iteration(TWO, [seen(ONE, **program)])
    long = predict_iteration(TWO, [seen(ONE, **(program | {"work": program["work"] * times}))])
    assert long.value / short.value == pytest.approx(times, rel=1e-6)


@given(programs)
@settings(max_examples=15, deadline=None)
def test_more_whole_cores_are_never_said_to_be_slower(program: dict[str, float]) -> None:
    times = [predict_iteration(asked, [seen(ONE, **program)]).value for asked in (HALF, ONE, TWO, FOUR)]
    assert times == sorted(times, reverse=True)


@given(st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_a_share_of_a_core_is_no_faster_than_its_share_of_the_work(cores: float) -> None:
    found = predict_iteration(CpuSlice.of_cores(cores), [seen(ONE)])
    assert found.value == pytest.approx(0.1 / cores, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_a_second_number_of_threads_settles_how_much_runs_on_all(share: float) -> None:
    truth = seen(FOUR, share=share, spin=0.5).seconds.value
    one = predict_iteration(FOUR, [seen(ONE, share=share)])
    both = predict_iteration(FOUR, [seen(ONE, share=share), seen(TWO, share=share, spin=0.5)])
    assert abs(math.log(both.value / truth)) < 0.25
    assert both.high / both.low < one.high / one.low


def test_threads_that_spin_are_not_taken_for_work() -> None:
    """Two threads of a serial program keep two cores busy, and one core would do."""
    spinning = predict_iteration(ONE, [seen(ONE, share=0.0), seen(TWO, share=0.0, spin=1.0)])
    assert spinning.value == pytest.approx(0.1, rel=0.1)


def test_what_waits_for_the_disk_is_not_slowed_by_half_a_core() -> None:
    waits = SliceMeasurement(slice=ONE, seconds=Interval.within_factor(0.1, 1.02), cpu_use=0.2, data_wait=0.8)
    assert predict_iteration(HALF, [waits]).value == pytest.approx(0.1, rel=0.1)


def test_a_machine_that_was_busy_may_be_idle_next_time() -> None:
    busy = SliceMeasurement(slice=ONE, seconds=Interval.within_factor(0.2, 1.05), cpu_use=0.5)
    found = predict_iteration(ONE, [busy])
    assert found.low < 0.11
    assert found.high > 0.19


def test_without_a_word_on_the_cpu_the_answer_is_less_sure() -> None:
    told = seen(TWO)
    silent = SliceMeasurement(slice=told.slice, seconds=told.seconds)
    sure, unsure = (predict_iteration(HALF, [each]) for each in (told, silent))
    assert unsure.high / unsure.low > sure.high / sure.low


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
def test_what_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"slice|time|share"):
        wrong()


def on_slice(name: str | None, **changes: Any) -> Profile:
    threads = math.ceil(CORES.get(f"local/{name}", 2.0))
    host = Host(name=changes.pop("at", "here"), cpu="Xeon", cores=threads, vm_type=f"local/{name}" if name else None)
    return make_profile(host=host, cpu_use=changes.pop("cpu_use", 0.99), **changes)


def test_profiles_of_one_machine_are_taken_together_and_repeats_are_one() -> None:
    one, again, half = on_slice("one"), on_slice("one", id="pagain"), on_slice("half", id="phalf", cpu_use=0.5)
    found = slice_measurements([one, again, half, on_slice("two", at="elsewhere")], CORES.get)
    assert [(profile.id, on.slice) for profile, on in found] == [("p7k2", ONE), ("phalf", HALF)]


def test_a_profile_that_names_no_machine_was_taken_on_all_of_it() -> None:
    ((_, on),) = slice_measurements([on_slice(None)], CORES.get)
    assert on.slice == TWO


def test_profiles_of_gpus_and_of_slices_that_nobody_knows_say_nothing() -> None:
    assert slice_measurements([on_slice("one", device="cuda"), on_slice("gone"), make_profile()], CORES.get) == ()


def test_all_times_of_a_training_move_with_the_slice() -> None:
    times = predict_step_times(HALF, slice_measurements([on_slice("one")], CORES.get))
    assert times.later.value == pytest.approx(0.2, rel=0.1)
    assert times.init.value == pytest.approx(4.0, rel=0.1)
    assert times.first.value == pytest.approx(0.2 + 1.8, rel=0.1)
    assert times.first_validation is not None
    assert times.first_validation.value == pytest.approx(0.6, rel=0.1)


def test_starting_is_the_work_of_one_thread() -> None:
    times = predict_step_times(TWO, slice_measurements([on_slice("one")], CORES.get))
    assert times.init.value == pytest.approx(2.0, rel=0.05)
    assert times.init.low < 2.0 < times.init.high
    assert times.later.value < 0.1
