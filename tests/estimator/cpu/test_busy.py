"""Times that were measured on a machine with other work."""

import pytest

from tests.makers import make_profile
from trainfare.estimator.cpu.busy import idle_factor, on_idle_machine, queue_share
from trainfare.model.interval import Interval


def test_a_program_that_waited_for_a_cpu_was_on_a_busy_machine() -> None:
    assert queue_share(make_profile(cpu_queue_share=0.4)) == 0.4


def test_a_short_wait_for_a_cpu_does_not_count() -> None:
    assert queue_share(make_profile(cpu_queue_share=0.05)) == 0
    assert queue_share(make_profile()) == 0


def test_busy_cores_tell_it_where_the_wait_was_not_measured() -> None:
    assert queue_share(make_profile(cpu_use=0.4)) == pytest.approx(0.6)
    assert queue_share(make_profile(cpu_use=1.0)) == 0


def test_a_wait_for_workers_is_no_wait_for_a_cpu() -> None:
    waits = {"iteration_seconds": (0.1,) * 5, "data_wait_seconds": (0.06,) * 5, "cpu_use": 0.4}
    assert queue_share(make_profile(loader_workers=2, **waits)) == 0
    assert queue_share(make_profile(loader_workers=0, **waits)) == pytest.approx(0.6)


def test_a_gpu_program_may_leave_its_host_idle() -> None:
    assert queue_share(make_profile(device="cuda", cpu_use=0.2)) == 0


def test_several_threads_wait_for_each_other() -> None:
    seconds = Interval.exactly(1.0)
    assert on_idle_machine(seconds, 0.5).value == 0.5
    assert on_idle_machine(seconds, 0.5, threads=2).value == 0.25
    assert on_idle_machine(seconds, 0.5, threads=2).high == 1.0
    assert on_idle_machine(seconds, 0.0, threads=2) is seconds


def test_the_share_of_a_time_that_remains_without_other_work() -> None:
    assert idle_factor(make_profile(cpu_queue_share=0.5, threads=2)) == 0.25
    assert idle_factor(make_profile(cpu_queue_share=0.5, threads=1)) == 0.5
    assert idle_factor(make_profile(cpu_queue_share=0.05, threads=2)) == 1


def test_programs_on_a_gpu_are_not_corrected() -> None:
    assert idle_factor(make_profile(cpu_queue_share=0.5, device="cuda")) == 1
