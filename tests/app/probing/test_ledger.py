"""The money of probes: nothing is claimed twice, and what is left can be claimed by others."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.app.probing.ledger import Ledger


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_a_budget_every_claim_is_granted(clock: Clock) -> None:
    ledger = Ledger(None, clock)
    assert ledger.claim("a", 100.0, seconds=900.0, least=60.0) == 900.0
    clock.now = 36.0
    assert ledger.settle("a") == pytest.approx(1.0)
    assert ledger.spent_usd == pytest.approx(1.0)


def test_a_free_machine_needs_no_money(clock: Clock) -> None:
    ledger = Ledger(0.0, clock)
    assert ledger.claim("a", 0.0, seconds=900.0, least=60.0) == 900.0


def test_a_claim_lasts_as_long_as_the_money(clock: Clock) -> None:
    ledger = Ledger(1.0, clock)
    assert ledger.claim("a", 3.6, seconds=3600.0, least=60.0) == pytest.approx(1000.0)


def test_a_probe_that_would_exceed_the_budget_is_refused(clock: Clock) -> None:
    assert Ledger(0.05, clock).claim("a", 3.6, seconds=900.0, least=60.0) is None


def test_a_smaller_claim_leaves_money_to_others(clock: Clock) -> None:
    ledger = Ledger(1.0, clock)
    ledger.claim("a", 3.6, seconds=900.0, least=60.0)
    assert ledger.claim("b", 3.6, seconds=900.0, least=60.0) == pytest.approx(100.0)
    assert ledger.change("a", 100.0) == 100.0
    assert ledger.change("b", 900.0) == pytest.approx(900.0)
    assert ledger.change("a", 900.0) == pytest.approx(100.0)


def test_who_cannot_be_paid_yet_waits_for_the_end_of_others(clock: Clock) -> None:
    ledger, granted = Ledger(1.0, clock), []
    ledger.claim("a", 3.6, seconds=1000.0, least=60.0)
    waiting = threading.Thread(target=lambda: granted.append(ledger.claim("b", 3.6, seconds=900.0, least=60.0)))
    waiting.start()
    clock.now = 400.0
    ledger.settle("a")
    waiting.join(60.0)
    assert granted == [pytest.approx(1000.0)]


@given(
    st.floats(0.01, 10.0),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.0, 20.0), st.floats(0.0, 500.0)), max_size=40),
)
def test_all_that_can_be_spent_is_never_more_than_the_budget(
    budget: float, steps: list[tuple[str, float, float]]
) -> None:
    """Each probe is ended at the latest when its claim ends, as its machine does by itself."""
    clock = Clock()
    ledger = Ledger(budget, clock)
    claimed: dict[str, float] = {}
    for name, price, seconds in steps:
        clock.now += seconds / 10
        for each in [each for each, until in claimed.items() if until <= clock.now]:
            now, clock.now = clock.now, claimed.pop(each)
            ledger.settle(each)
            clock.now = now
        if name in claimed:
            claimed[name] = ledger.change(name, clock.now + seconds)
        elif not claimed and (until := ledger.claim(name, price, seconds=seconds, least=1.0)) is not None:
            claimed[name] = until
    for name, until in claimed.items():
        clock.now = max(until, 0.0)
        ledger.settle(name)
    assert ledger.spent_usd <= budget * (1 + 1e-9)
