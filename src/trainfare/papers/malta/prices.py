"""Tables 3.1 to 3.4 of 2021 and table 1 of 2019: machines and what they cost.

A price is a fact of its day. What can be checked is whether another source has the same: the price table that is
bundled with the catalog, whose prices were not taken from these documents.
"""

from collections.abc import Callable

from trainfare.catalog.bundled import load_offers
from trainfare.model.offer import Offer
from trainfare.papers.judge import judged, not_recomputable
from trainfare.papers.malta.page import table, where
from trainfare.papers.printed import Printed
from trainfare.papers.row import Row

CATALOG_NAMES = {
    **{name: f"aws/{name}" for name in ("p2.xlarge", "p2.8xlarge", "p2.16xlarge")},
    **{name: f"aws/{name}" for name in ("p3.2xlarge", "p3.8xlarge", "p3.16xlarge")},
    **{name: f"azure/Standard_{name}" for name in ("NC6", "NC12", "NC24")},
}

READ: dict[str, Callable[[Offer], float | None]] = {
    "GPUs": lambda offer: offer.vm_type.gpus,
    "$/h": lambda offer: offer.usd_per_hour,
    "vCPUs": lambda offer: offer.vm_type.vcpus,
    "memory (GiB)": lambda offer: offer.vm_type.memory_gib,
    "GPU memory (GiB)": lambda offer: offer.vm_type.gpu.memory_gib if offer.vm_type.gpu else None,
}

NOT_LISTED = {
    "malta-3.2": "a price of SageMaker of February 2021; no other price list of that day is at hand",
    "malta-3.4": "a price of Google of February 2021, of the accelerator alone; no other list of that day is at hand",
}


def rows() -> tuple[Row, ...]:
    found = []
    for name in ("malta-3.1", "malta-3.2", "malta-3.3", "malta-3.4", "malta-2019-1"):
        for cell in table(name).cells.values():
            row = where(cell.row, cell.column)
            # SageMaker's machines are EC2's at another price, says section 3.1.2.
            machine = cell.row.removeprefix("ml.") if cell.column != "$/h" else cell.row
            offer = _cheapest_region(CATALOG_NAMES.get(machine))
            value = READ[cell.column](offer) if offer else None
            if offer is None or value is None:
                found.append(not_recomputable(name, row, cell.printed, NOT_LISTED[name]))
            else:
                how = f"the catalog's {offer.vm_type.key} in {offer.region}, seen on {offer.seen_on}"
                ours = Printed.exactly(value)
                found.append(judged(name, row, cell.printed, ours, how=how, misprints={}))
    return tuple(found)


def _cheapest_region(key: str | None) -> Offer | None:
    """The documents name no region; the cheapest is the one a price page shows first."""
    offers = [offer for offer in load_offers() if offer.vm_type.key == key and offer.market == "on_demand"]
    return min(offers, key=lambda offer: offer.usd_per_hour, default=None)
