import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import NOON
from trainfare.model.bill import Bill, Billing, BillLine, Overheads, Terms
from trainfare.model.interval import Interval

times = st.floats(0, 1e8)
billings = st.builds(
    Billing, increment_seconds=st.sampled_from([1e-6, 1.0, 60.0, 3600.0]), minimum_seconds=st.sampled_from([0.0, 60.0])
)


@given(billings, times)
def test_the_charged_time_is_at_least_the_time_and_at_most_one_increment_more(rule: Billing, seconds: float) -> None:
    billed = rule.billed_seconds(seconds)
    assert billed >= seconds
    assert billed >= rule.minimum_seconds
    if seconds > rule.minimum_seconds:
        assert billed - seconds <= rule.increment_seconds * (1 + 1e-6) + 1e-6


@given(billings, times, times)
def test_a_longer_time_is_never_charged_less(rule: Billing, a: float, b: float) -> None:
    shorter, longer = sorted((a, b))
    assert rule.billed_seconds(shorter) <= rule.billed_seconds(longer)


@pytest.mark.parametrize(
    ("increment", "minimum", "seconds", "billed"),
    [(1, 60, 3.2, 60), (1, 60, 61.2, 62), (60, 0, 61, 120), (60, 0, 120.0000000001, 120), (3600, 0, 1, 3600)],
)
def test_time_is_charged_in_whole_increments(increment: float, minimum: float, seconds: float, billed: float) -> None:
    rule = Billing(increment_seconds=increment, minimum_seconds=minimum)
    assert rule.billed_seconds(seconds) == pytest.approx(billed)


def test_a_rule_is_described_in_words() -> None:
    assert Billing(minimum_seconds=60).description == "by the second, at least 1 min"
    assert Billing(increment_seconds=60).description == "by the minute"
    assert Billing(increment_seconds=5).description == "in steps of 5 s"


def line(usd: float) -> BillLine:
    return BillLine(name="boot", usd=Interval.exactly(usd), how="90 s")


def test_the_lines_of_a_bill_add_up() -> None:
    fields = {"billing": Billing(), "billed_seconds": 3.0, "usd_per_hour": 1.0, "prices_seen_on": NOON.date()}
    bill = Bill(lines=(line(1.0), line(2.0)), usd=Interval.exactly(3.0), **fields)  # type: ignore[arg-type] # fields by name, of several types
    assert bill.usd.value == 3
    with pytest.raises(ValueError, match="add up to 3"):
        Bill(lines=(line(1.0), line(2.0)), usd=Interval.exactly(4.0), **fields)  # type: ignore[arg-type] # fields by name, of several types


def test_negative_amounts_and_unexplained_lines_are_refused() -> None:
    with pytest.raises(ValueError, match="setup_seconds"):
        Overheads(setup_seconds=-1)
    with pytest.raises(ValueError, match="egress"):
        Terms(provider="aws", billing=Billing(), boot_seconds=Interval.exactly(1), egress_usd_per_gib=-0.1)
    with pytest.raises(ValueError, match="explanation"):
        BillLine(name="boot", usd=Interval.exactly(1), how="")
