"""Transfer rates of machines, and start-up times that are converted to the size of another program."""

import pytest

from trainfare.app.catalog.starts import ObservedStarts, measured_start, starts_by_machine
from trainfare.estimator.cost.start_times import StartTime, Transfer
from trainfare.estimator.cost.transfer_rates import bytes_per_second, times_for_program
from trainfare.model.bill import Billing, Terms
from trainfare.model.interval import Interval

OWN = Terms(provider="ssh", billing=Billing(), boot_seconds=Interval.exactly(0.0))
MEGABYTE = 1_000_000


def sent(machine: str, megabytes: float, seconds: float) -> Transfer:
    return Transfer(machine=machine, bytes=round(megabytes * MEGABYTE), seconds=seconds)


def setup(program: str, transfer: Transfer, *, rest: float = 2.0) -> StartTime:
    return StartTime(machine=transfer.machine, program=program, seconds=transfer.seconds + rest, transfer=transfer)


def test_the_rate_is_that_of_large_transfers() -> None:
    known = [sent("ssh/a", 30, 3), sent("ssh/a", 10, 1), sent("ssh/a", 0.001, 2), sent("ssh/b", 5, 5)]
    assert bytes_per_second(known, "ssh/a") == 10 * MEGABYTE
    assert bytes_per_second(known[2:3], "ssh/a") is None
    assert bytes_per_second(known, "ssh/c") is None


def test_a_program_with_much_data_is_expected_to_take_as_long_as_its_data_on_a_host_with_a_slow_link() -> None:
    fast, slow = sent("ssh/fast", 1000, 10), sent("ssh/slow", 4, 4)
    times = (setup("large.py", fast), setup("small.py", slow))
    starts = ObservedStarts(setup=times, sent=(fast, slow))
    found = measured_start(starts, "ssh/slow", "large.py", OWN).setup
    assert found is not None
    assert found.seconds.value == pytest.approx(1000 + 2, rel=0.05), "1 GB at 1 MB/s, not the 6 s of the other program"
    unknown = measured_start(ObservedStarts(setup=times), "ssh/slow", "large.py", OWN).setup
    assert unknown is not None
    assert unknown.seconds.value < 20, "without the rates it was taken for about as long as the others"


def test_runs_of_the_same_program_on_the_same_machine_stay_as_they_were() -> None:
    first, second = sent("ssh/a", 100, 10), sent("ssh/a", 0.4, 0.1)
    times = (setup("p", first), setup("p", second))
    assert times_for_program(times, (first, second), "ssh/a", "p") == times, "the data is there since the first one"
    assert times_for_program(times, (first, second), "ssh/a", "new") == times, "the size of a new program is unknown"


def test_rates_are_listed_by_machine() -> None:
    starts = ObservedStarts(setup=(setup("p", sent("ssh/a", 8, 2)),), sent=(sent("ssh/a", 8, 2),))
    (found,) = starts_by_machine(starts)
    assert found.rates == {"sent": 4 * MEGABYTE}
