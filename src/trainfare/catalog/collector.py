"""Rows of a price table in another format → offers: the part that all readers share."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import date

from trainfare.catalog.cpu_facts import cpu_of_machine
from trainfare.catalog.gpu_boards import find_board
from trainfare.catalog.networks import network_gb_per_second
from trainfare.model.catalog import ImportedTable
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Market, Offer

Row = Mapping[str, str | None]

_ROUNDING = 0.9999
"""Tables round the two prices of a machine differently, in the fifth digit."""


class OfferCollector:
    """Collects the cheapest offer of each machine, region and market, and counts the rows that are left out."""

    def __init__(
        self,
        *,
        gpus: Mapping[str, Gpu],
        seen_on: date,
        source: str,
        cpu_machines: Mapping[tuple[str, str], VmType] | None = None,
    ) -> None:
        """`cpu_machines` are the machines without a GPU whose prices are of interest, by machine and region: providers
        list tens of thousands of others."""
        self.without_gpu = 0
        self.without_price = 0
        self.without_host = 0
        self._unknown_gpus: Counter[str] = Counter()
        self._offers: dict[tuple[str, str, Market], Offer] = {}
        self._gpus, self._seen_on, self._source = gpus, seen_on, source
        self._cpu_machines = cpu_machines or {}

    def cpu_machine(self, *, provider: str, name: str, region: str) -> VmType | None:
        """The machine of a row without a GPU. None, and counted, if it is not of interest."""
        found = self._cpu_machines.get((f"{provider}/{name}", region))
        if found is None:
            self.without_gpu += 1
        return found

    def vm_type(
        self,
        *,
        provider: str,
        name: str,
        accelerator: str,
        count: float | None,
        gpu_memory_gib: float | None = None,
        vcpus: float | None,
        memory_gib: float | None,
    ) -> VmType | None:
        """The machine of a row. None, and counted, if its GPU, or the share of a GPU that it has, is unknown."""
        board = find_board(provider=provider, machine=name, accelerator=accelerator, memory_gib=gpu_memory_gib)
        if board is None and accelerator in self._gpus:
            board = accelerator
        is_share = board is not None and "/" in board
        # Tables give a share as 0 GPUs or as a fraction of one: software sees one small GPU.
        gpus = 1.0 if is_share else count or 0.0
        if board is None or gpus < 1 or not gpus.is_integer():
            self.count_unknown(accelerator if board is None else f"a share of {accelerator}")
            return None
        return VmType(
            provider=provider,
            name=name,
            gpu=self._gpus[board],
            gpus=int(gpus),
            vcpus=vcpus,
            memory_gib=memory_gib,
            network_gb_per_second=network_gb_per_second(provider, name),
            cpu=cpu_of_machine(provider, name),
        )

    def add(self, vm_type: VmType, region: str, market: Market, usd_per_hour: float | None) -> None:
        """Add an offer if it has a price, and no cheaper one of the same key is there."""
        if usd_per_hour is None:
            return
        offer = Offer(
            vm_type=vm_type,
            region=region,
            market=market,
            usd_per_hour=usd_per_hour,
            seen_on=self._seen_on,
            source=self._source,
        )
        known = self._offers.get(offer.key)
        if known is None or usd_per_hour < known.usd_per_hour:
            self._offers[offer.key] = offer

    def count_unknown(self, accelerator: str) -> None:
        """Count a row with an unknown GPU."""
        # tpu-v6e-8, tpu-v6e-16, … are sizes of one accelerator.
        family = "-".join(accelerator.split("-")[:2]) if accelerator.startswith("tpu-") else accelerator
        self._unknown_gpus[family] += 1

    def table(self, rows: int) -> ImportedTable:
        """The collected contents of a table of `rows` rows."""
        return ImportedTable(
            offers=tuple(offer for _, offer in sorted(self._offers.items()) if self._is_offered(offer)),
            rows=rows,
            without_gpu=self.without_gpu,
            without_price=self.without_price,
            without_host=self.without_host,
            unknown_gpus=dict(self._unknown_gpus.most_common()),
        )

    def _is_offered(self, offer: Offer) -> bool:
        """True if the offer exists: a spot price that is not below the price on demand means that there is none."""
        on_demand = self._offers.get((offer.vm_type.key, offer.region, "on_demand"))
        return offer.market != "spot" or on_demand is None or offer.usd_per_hour < on_demand.usd_per_hour * _ROUNDING


def cell_text(row: Row, key: str) -> str:
    """The text of a cell; blank if the column is missing or the row is truncated."""
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def cell_number(row: Row, key: str) -> float | None:
    """The number in a cell; None if it is blank, zero, negative or not a number: none of them is a price or a size."""
    try:
        value = float(cell_text(row, key))
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
