"""The catalog: list offers, show a machine or a GPU, list commitments, import price tables."""

from trainfare.app.catalog.commitments import list_commitments as commitments
from trainfare.app.catalog.offers import import_prices as import_prices
from trainfare.app.catalog.offers import list_gpus as gpus
from trainfare.app.catalog.offers import list_offers as offers
from trainfare.app.catalog.offers import show_gpu as gpu
from trainfare.app.catalog.offers import show_machine as machine

__all__ = [
    "commitments",
    "gpu",
    "gpus",
    "import_prices",
    "machine",
    "offers",
]
