"""Sentences about a profile."""

from tests.makers import make_profile
from trainfare.model.machine import Host
from trainfare.views.profile import busy_sentence


def test_a_busy_machine_is_named() -> None:
    assert busy_sentence(make_profile(cpu_queue_share=0.4)) == (
        "the machine was busy: the program waited for a CPU 40% of the time; profile it again on an idle machine for "
        "certain times"
    )


def test_an_idle_machine_is_not_mentioned() -> None:
    assert busy_sentence(make_profile(cpu_queue_share=0.02)) is None


def test_a_slice_waits_for_its_quota() -> None:
    assert busy_sentence(make_profile(cpu_queue_share=0.5, host=Host(name="h", vm_type="local/half"))) is None
