"""The price tables that are shipped: current machines at their last known price, and the prices that papers quote."""

from functools import cache

from trainfare.catalog.gpu_facts import bundled_rows, load_gpus
from trainfare.catalog.price_table import parse_offers
from trainfare.model.offer import Offer


@cache
def load_offers() -> tuple[Offer, ...]:
    """The machines of providers, retired ones included, at the last price seen: those with GPUs, then the others."""
    tables = ("offers.csv", "cpu_offers.csv")
    return tuple(offer for name in tables for offer in parse_offers(bundled_rows(name), load_gpus()))


@cache
def load_historical_offers() -> tuple[Offer, ...]:
    """Prices that papers quote. Each counts as retired from the day it was seen: it is listed, never recommended."""
    return tuple(parse_offers(bundled_rows("history.csv"), load_gpus()))
