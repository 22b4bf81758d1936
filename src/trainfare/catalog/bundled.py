"""The price tables that are shipped: today's machines as they were last seen, and the prices of documents."""

from functools import cache

from trainfare.catalog.gpus import bundled_rows, load_gpus
from trainfare.catalog.table import offers_of
from trainfare.model.offer import Offer


@cache
def load_offers() -> tuple[Offer, ...]:
    """Machines of providers, those that they have retired included, at the last price seen."""
    return tuple(offers_of(bundled_rows("offers.csv"), load_gpus()))


@cache
def load_history() -> tuple[Offer, ...]:
    """Prices that documents quote. Each is retired from the day it was seen: it is listed, never recommended."""
    return tuple(offers_of(bundled_rows("history.csv"), load_gpus()))
