"""What runs cost by day, and caps: what another run may spend, and when it is refused."""

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_fact, make_machine, make_offer, make_run
from trainfare.model.bill import Billing
from trainfare.model.run import Fact, RunLimits
from trainfare.runner.caps import Allowance, Caps, allowance, refusal
from trainfare.runner.charges import Charge, charges_of, group_charges, reserved_charge, usd_by_day

CANDIDATE = make_candidate(offer=make_offer(usd_per_hour=3.0))
RUN = make_run(candidate=CANDIDATE, owner="ada@laptop/1")


def charge(
    hours: float = 1.0, *, since: datetime = NOON, usd: float | None = None, owner: str = "ada@laptop/1"
) -> Charge:
    run = make_run(candidate=CANDIDATE, owner=owner)
    until = since + timedelta(hours=hours)
    return Charge(run=run, candidate=CANDIDATE, since=since, until=until, usd=3.0 * hours if usd is None else usd)


def life(*steps: tuple[str, float]) -> list[Fact]:
    """Facts of these kinds, so many hours after noon."""
    return [
        make_fact(
            number=number,
            kind=kind,
            seen_at=NOON + timedelta(hours=hours),
            attempt=1,
            **({"candidate": CANDIDATE} if kind == "launch intended" else {}),
            **({"machines": (make_machine(),)} if kind == "machines seen" else {}),
            **({"outcome": "succeeded"} if kind == "run ended" else {}),
            **({"text": "done"} if kind in ("run ended", "machines lost") else {}),
        )
        for number, (kind, hours) in enumerate(steps)
    ]


ENDED = (
    ("launch intended", 0.0),
    ("machines seen", 0.1),
    ("machines lost", 2.0),
    ("termination intended", 2.0),
    ("terminated", 2.5),
)


def test_a_run_is_charged_from_its_request_to_its_termination() -> None:
    facts = life(*ENDED)
    (found,) = charges_of(RUN, facts, billing=Billing(), now=NOON + timedelta(days=9))
    assert (found.since, found.until) == (NOON, NOON + timedelta(hours=2.5))
    assert found.usd == pytest.approx(7.5)


def test_a_run_that_has_not_ended_is_charged_until_now() -> None:
    (found,) = charges_of(RUN, life(("launch intended", 0)), billing=Billing(), now=NOON + timedelta(hours=4))
    assert found.usd == pytest.approx(12.0)


def test_the_billing_rule_of_the_provider_counts() -> None:
    (found,) = charges_of(RUN, life(*ENDED), billing=Billing(increment_seconds=3600.0), now=NOON)
    assert found.usd == pytest.approx(9.0)


@given(
    st.floats(0.001, 2000.0),
    st.integers(-12, 14),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),  # noqa: DTZ001 # the zone follows
)
def test_days_add_up_to_the_charge(hours: float, offset: int, since: datetime) -> None:
    whole = charge(hours, since=since.replace(tzinfo=UTC), usd=17.0)
    zone = timezone(timedelta(hours=offset))
    parts = list(whole.by_day(zone))
    assert sum(part.usd for part in parts) == pytest.approx(17.0)
    assert all(part.since.date() == (part.until - timedelta(microseconds=1)).date() for part in parts)
    assert len({part.since.date() for part in parts}) == len(parts)


def test_a_night_is_divided_at_midnight_of_the_zone() -> None:
    night = charge(4.0, since=datetime(2026, 11, 17, 22, tzinfo=UTC))
    assert usd_by_day([night], UTC) == {date(2026, 11, 17): 6.0, date(2026, 11, 18): 6.0}
    assert usd_by_day([night], timezone(timedelta(hours=1))) == {date(2026, 11, 17): 3.0, date(2026, 11, 18): 9.0}


def test_groups_have_the_most_expensive_first_and_days_in_their_order() -> None:
    charges = [charge(1.0), charge(2.0, since=NOON - timedelta(days=2), owner="bo@desk/2")]
    assert [(row.name, row.usd) for row in group_charges(charges, "user", zone=UTC)] == [("bo", 6.0), ("ada", 3.0)]
    days = group_charges(charges, "day", zone=UTC)
    assert [row.name for row in days] == sorted(row.name for row in days)
    assert [row.usd for row in group_charges(charges, "day", zone=UTC, since=NOON.date())] == [3.0]


def test_a_run_reserves_its_budget_and_nothing_after_its_end() -> None:
    budgeted = make_run(candidate=CANDIDATE, limits=RunLimits(budget_usd=12.0))
    left = reserved_charge(budgeted, life(("launch intended", 0)), paid_usd=3.0, now=NOON)
    assert left is not None
    assert (left.usd, left.until - left.since) == (9.0, timedelta(hours=3))
    ended = life(
        ("launch intended", 0), ("machines seen", 0), ("termination intended", 1), ("terminated", 1), ("run ended", 1)
    )
    assert reserved_charge(budgeted, ended, paid_usd=3.0, now=NOON) is None


def allowed(caps: Caps, spent: dict[date, float] | None = None, *, own: dict[date, float] | None = None) -> Allowance:
    return allowance(caps, 3.0, NOON, everyone=spent or {}, own=own or {})


TODAY, TOMORROW = NOON.date(), NOON.date() + timedelta(days=1)


def test_without_a_cap_that_it_breaks_a_run_may_cost_anything() -> None:
    assert allowed(Caps(day_usd=72.0)).usd == math.inf
    assert allowance(Caps(run_usd=1.0), 0.0, NOON, everyone={}, own={}).usd == math.inf


def test_a_cap_of_a_run() -> None:
    assert allowed(Caps(run_usd=100.0)).usd == pytest.approx(100.0)


def test_a_cap_of_a_day_counts_what_is_spent_on_it() -> None:
    found = allowed(Caps(day_usd=30.0), {TODAY: 10.0})
    assert found.usd == pytest.approx(20.0)
    assert (found.cap, found.day) == ("day", TODAY)


def test_a_cap_of_a_day_that_holds_until_midnight_may_be_broken_tomorrow() -> None:
    """12 hours of today cost $36, and a whole day $72."""
    found = allowed(Caps(day_usd=50.0))
    assert found.usd == pytest.approx(36.0 + 50.0)
    assert (found.cap, found.day) == ("day", TOMORROW)


def test_a_cap_of_a_month_and_of_a_user() -> None:
    assert allowed(Caps(month_usd=40.0), {TODAY.replace(day=1): 15.0}).usd == pytest.approx(25.0)
    assert allowed(Caps(user_month_usd=40.0), {TODAY: 39.0}, own={TODAY: 1.0}).usd == pytest.approx(39.0)


caps = st.one_of(st.none(), st.floats(0.5, 500.0))


@given(st.builds(Caps, run_usd=caps, day_usd=caps, month_usd=caps, user_month_usd=caps), st.floats(0.0, 100.0))
def test_a_run_within_its_allowance_breaks_no_cap(some: Caps, spent: float) -> None:
    found = allowance(some, 3.0, NOON, everyone={TODAY: spent}, own={})
    if not math.isfinite(found.usd):
        return
    run = charge(found.usd / 3.0)
    by_day = usd_by_day([run], UTC)
    slack = 1e-6
    assert found.usd <= (some.run_usd or math.inf) + slack
    for day, usd in by_day.items():
        before = spent if day == TODAY else 0.0
        assert usd + before <= max(before, some.day_usd or math.inf) + slack
    month = sum(usd for day, usd in by_day.items() if day.month == TODAY.month)
    assert month + spent <= max(spent, some.month_usd or math.inf) + slack


def test_a_refusal_has_the_figures() -> None:
    some = Caps(day_usd=30.0)
    assert refusal(some, allowed(some, {TODAY: 10.0}), 25.0) == (
        f"The cap of {TODAY} is $30.00; $20.00 of it can be used, and this run is predicted to cost $25.00."
    )
    assert refusal(some, allowed(some, {TODAY: 10.0}), 15.0) is None
    assert refusal(some, allowed(some, {TODAY: 10.0}), None) is None
    spent = refusal(some, allowed(some, {TODAY: 31.0}), None)
    assert spent == f"The cap of {TODAY} is $30.00, and all of it is spent or reserved by runs that have not ended."


@pytest.mark.parametrize("usd", [0.0, -1.0, math.nan])
def test_a_cap_is_positive(usd: float) -> None:
    with pytest.raises(ValueError, match="day_usd"):
        Caps(day_usd=usd)
