"""Offers: the age of a price, and prices that change by the hour."""

from datetime import date

from tests.makers import make_offer, make_vm_type


def test_the_age_of_a_price_is_counted_from_the_day_it_was_seen() -> None:
    offer = make_offer(seen_on=date(2026, 8, 22))
    assert offer.age_days(date(2026, 8, 22)) == 0
    assert offer.age_days(date(2026, 11, 16)) == 86


def test_a_price_that_is_dated_later_than_today_is_new() -> None:
    """The clock of another machine may be ahead by a day."""
    assert make_offer(seen_on=date(2026, 8, 22)).age_days(date(2026, 8, 21)) == 0


def test_marketplaces_are_known_by_their_provider() -> None:
    assert make_offer(vm_type=make_vm_type(provider="vast")).is_marketplace
    assert not make_offer(vm_type=make_vm_type(provider="aws")).is_marketplace
