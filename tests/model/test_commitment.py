"""Commitments: the price of an hour, and the use from which they pay off."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_offer
from trainfare.model.document import from_json, to_json
from trainfare.model.offer import HOURS_PER_MONTH, Commitment, Offer

commitments = st.builds(
    Commitment,
    months=st.integers(1, 120),
    upfront_usd=st.floats(0, 1e6),
    usd_per_hour=st.floats(1e-3, 100),
    held=st.booleans(),
    on_demand_usd_per_hour=st.floats(1e-3, 100),
)


def reserved(commitment: Commitment, **changes: Any) -> Offer:
    price = commitment.effective_usd_per_hour
    return make_offer(**({"market": "reserved", "usd_per_hour": price, "commitment": commitment} | changes))


@given(commitments)
def test_the_total_is_the_effective_price_of_every_hour_of_the_term(commitment: Commitment) -> None:
    paid = commitment.upfront_usd + commitment.usd_per_hour * commitment.hours
    assert commitment.effective_usd_per_hour * commitment.hours == pytest.approx(paid)
    assert commitment.total_usd == pytest.approx(paid)


@given(commitments)
def test_at_the_break_even_a_month_costs_the_same_on_demand(commitment: Commitment) -> None:
    hours, on_demand = commitment.break_even_hours, commitment.on_demand_usd_per_hour
    assert hours is not None
    assert on_demand is not None
    assert hours * on_demand == pytest.approx(commitment.total_usd / commitment.months)
    if commitment.effective_usd_per_hour != pytest.approx(on_demand, rel=1e-12):
        assert (hours < HOURS_PER_MONTH) == (commitment.effective_usd_per_hour < on_demand)


def test_a_year_paid_by_the_hour_at_37_percent_off_pays_off_above_63_percent_of_the_time() -> None:
    commitment = Commitment(months=12, usd_per_hour=0.63, on_demand_usd_per_hour=1.0)
    assert commitment.break_even_hours == pytest.approx(0.63 * 730)


def test_without_a_price_on_demand_the_break_even_is_unknown() -> None:
    assert Commitment(months=12, usd_per_hour=1.0).break_even_hours is None


@given(commitments)
def test_an_offer_is_read_back_with_its_commitment(commitment: Commitment) -> None:
    offer = reserved(commitment)
    assert from_json(Offer, to_json(offer)) == offer


def test_a_reserved_offer_requires_a_commitment_unless_it_is_held() -> None:
    held, bought = (reserved(Commitment(months=12, usd_per_hour=1.0, held=held)) for held in (True, False))
    assert (held.held, held.requires_commitment) == (True, False)
    assert (bought.held, bought.requires_commitment) == (False, True)
    assert not make_offer().requires_commitment


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"months": 0, "usd_per_hour": 1.0}, "months must be positive, got 0"),
        ({"months": 12, "usd_per_hour": -1.0}, "usd_per_hour must not be negative"),
        ({"months": 12, "upfront_usd": -1.0}, "upfront_usd must not be negative"),
        ({"months": 12, "usd_per_hour": float("nan")}, "usd_per_hour must not be negative"),
        ({"months": 12}, "must cost something"),
        ({"months": 12, "usd_per_hour": 1.0, "on_demand_usd_per_hour": 0.0}, "on_demand_usd_per_hour must be positive"),
    ],
)
def test_an_invalid_commitment_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Commitment(**fields)


def test_the_price_of_an_offer_is_that_of_its_commitment() -> None:
    commitment = Commitment(months=12, upfront_usd=876.0, usd_per_hour=0.3)
    assert reserved(commitment).usd_per_hour == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"costs 0\.4"):
        reserved(commitment, usd_per_hour=0.3)
    with pytest.raises(ValueError, match="belongs to the market reserved, not to spot"):
        reserved(commitment, market="spot")
