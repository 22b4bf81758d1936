"""A commitment is a fact about an offer: what an hour of it costs, and when it is worth it."""

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
def test_every_hour_of_the_term_at_its_price_is_all_that_is_paid(commitment: Commitment) -> None:
    paid = commitment.upfront_usd + commitment.usd_per_hour * commitment.hours
    assert commitment.effective_usd_per_hour * commitment.hours == pytest.approx(paid)
    assert commitment.total_usd == pytest.approx(paid)


@given(commitments)
def test_at_the_break_even_on_demand_costs_as_much_a_month(commitment: Commitment) -> None:
    hours, on_demand = commitment.break_even_hours, commitment.on_demand_usd_per_hour
    assert hours is not None
    assert on_demand is not None
    assert hours * on_demand == pytest.approx(commitment.total_usd / commitment.months)
    if commitment.effective_usd_per_hour != pytest.approx(on_demand, rel=1e-12):
        assert (hours < HOURS_PER_MONTH) == (commitment.effective_usd_per_hour < on_demand)


def test_a_year_paid_by_the_hour_at_37_percent_off_pays_off_above_63_percent_of_the_time() -> None:
    commitment = Commitment(months=12, usd_per_hour=0.63, on_demand_usd_per_hour=1.0)
    assert commitment.break_even_hours == pytest.approx(0.63 * 730)


def test_without_a_price_on_demand_nobody_knows_when_it_pays_off() -> None:
    assert Commitment(months=12, usd_per_hour=1.0).break_even_hours is None


@given(commitments)
def test_an_offer_keeps_its_commitment_as_a_document(commitment: Commitment) -> None:
    offer = reserved(commitment)
    assert from_json(Offer, to_json(offer)) == offer


def test_only_what_is_held_needs_no_decision() -> None:
    held, bought = (reserved(Commitment(months=12, usd_per_hour=1.0, held=held)) for held in (True, False))
    assert (held.held, held.requires_commitment) == (True, False)
    assert (bought.held, bought.requires_commitment) == (False, True)
    assert not make_offer().requires_commitment


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"months": 0, "usd_per_hour": 1.0}, "months must be positive, got 0"),
        ({"months": 12, "usd_per_hour": -1.0}, "usd_per_hour must not be negative"),
        ({"months": 12, "upfront_usd": -1.0}, "upfront_usd must not be negative"),
        ({"months": 12, "usd_per_hour": float("nan")}, "usd_per_hour must not be negative"),
        ({"months": 12}, "must cost something"),
        ({"months": 12, "usd_per_hour": 1.0, "on_demand_usd_per_hour": 0.0}, "on_demand_usd_per_hour must be positive"),
    ],
)
def test_a_commitment_cannot_be_made_wrong(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Commitment(**fields)


def test_the_price_of_an_offer_is_that_of_its_commitment() -> None:
    commitment = Commitment(months=12, upfront_usd=876.0, usd_per_hour=0.3)
    assert reserved(commitment).usd_per_hour == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"costs 0\.4"):
        reserved(commitment, usd_per_hour=0.3)
    with pytest.raises(ValueError, match="of the market reserved, not of spot"):
        reserved(commitment, market="spot")
