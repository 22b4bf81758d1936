"""Tables 3.1 to 3.4 of 2021 and table 1 of 2019: machines and their prices.

A price holds for its day. It can only be compared with another source: the price table that is bundled with the
catalog, whose prices were not taken from these documents.
"""

from collections.abc import Callable

from trainfare.catalog.bundled import load_offers
from trainfare.model.offer import Offer
from trainfare.papers.judge import judge_number, not_recomputable
from trainfare.papers.malta.page import cell_name, table
from trainfare.papers.printed import PrintedNumber
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
    "malta-3.2": "a price of SageMaker of February 2021; no other price list of that day is available",
    "malta-3.4": "a price of Google of February 2021, of the accelerator alone; no other list of that day is available",
}


def rows() -> tuple[Row, ...]:
    found = []
    for name in ("malta-3.1", "malta-3.2", "malta-3.3", "malta-3.4", "malta-2019-1"):
        for cell in table(name).cells.values():
            row = cell_name(cell.row, cell.column)
            # SageMaker's machines are those of EC2 at another price (section 3.1.2).
            machine = cell.row.removeprefix("ml.") if cell.column != "$/h" else cell.row
            offer = _cheapest_region(CATALOG_NAMES.get(machine))
            value = READ[cell.column](offer) if offer else None
            if offer is None or value is None:
                found.append(not_recomputable(name, row, cell.printed, NOT_LISTED[name]))
            else:
                method = f"{offer.vm_type.key} in the catalog, in {offer.region}, seen on {offer.seen_on}"
                ours = PrintedNumber.exactly(value)
                found.append(judge_number(name, row, cell.printed, ours, method=method, misprints={}))
    return tuple(found)


def _cheapest_region(key: str | None) -> Offer | None:
    """The offer in the cheapest region, which a price page shows first; the documents name no region."""
    offers = [offer for offer in load_offers() if offer.vm_type.key == key and offer.market == "on_demand"]
    return min(offers, key=lambda offer: offer.usd_per_hour, default=None)
