"""The catalog: list offers, show a machine or a GPU, list commitments, import and update prices."""

from trainfare.app.catalog.commitments import list_commitments as commitments
from trainfare.app.catalog.import_prices import import_prices as import_prices
from trainfare.app.catalog.offers import list_gpus as gpus
from trainfare.app.catalog.offers import list_offers as offers
from trainfare.app.catalog.offers import show_gpu as gpu
from trainfare.app.catalog.offers import show_machine as machine
from trainfare.app.catalog.update_prices import update_prices as update_prices

__all__ = [
    "commitments",
    "gpu",
    "gpus",
    "import_prices",
    "machine",
    "offers",
    "update_prices",
]
