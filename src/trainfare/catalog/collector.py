"""Rows of a foreign price table → offers: what every reader of one needs."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from trainfare.catalog.gpu_boards import board_of
from trainfare.catalog.networks import network_gb_per_second
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Market, Offer

Row = Mapping[str, str | None]

_ROUNDING = 0.9999
"""Tables round the two prices of a machine differently, in the fifth digit."""


@dataclass(slots=True)
class Reading:
    """What a foreign table held: the offers, and why the other rows are not among them."""

    offers: list[Offer] = field(default_factory=list)
    rows: int = 0
    without_gpu: int = 0
    without_price: int = 0
    """Blank, zero, or not a price at all."""
    without_host: int = 0
    """A GPU of GCP in a zone that has no machine to put it in."""
    unknown_gpus: Counter[str] = field(default_factory=Counter)


class Collector:
    """Keeps the cheapest offer of each machine, region and market, and counts what is left out."""

    def __init__(self, *, gpus: Mapping[str, Gpu], seen_on: date, source: str) -> None:
        self.reading = Reading()
        self._offers: dict[tuple[str, str, Market], Offer] = {}
        self._gpus, self._seen_on, self._source = gpus, seen_on, source

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
        """None, and counted, where the GPU is unknown, or a share of one that nobody has described."""
        board = board_of(provider=provider, machine=name, accelerator=accelerator, memory_gib=gpu_memory_gib)
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
        )

    def add(self, vm_type: VmType, region: str, market: Market, usd_per_hour: float | None) -> None:
        """Nothing where there is no price."""
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
        # tpu-v6e-8, tpu-v6e-16, … are sizes of one thing.
        family = "-".join(accelerator.split("-")[:2]) if accelerator.startswith("tpu-") else accelerator
        self.reading.unknown_gpus[family] += 1

    def finished(self, rows: int) -> Reading:
        self.reading.rows = rows
        self.reading.offers = [offer for _, offer in sorted(self._offers.items()) if self._is_offered(offer)]
        return self.reading

    def _is_offered(self, offer: Offer) -> bool:
        """A spot price that is not below the price on demand means that none is offered."""
        on_demand = self._offers.get((offer.vm_type.key, offer.region, "on_demand"))
        return offer.market != "spot" or on_demand is None or offer.usd_per_hour < on_demand.usd_per_hour * _ROUNDING


def text(row: Row, key: str) -> str:
    """Blank where the column is missing or the row is cut off."""
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def number(row: Row, key: str) -> float | None:
    """None for what is blank, zero, negative or no number: none of them is a price or a size."""
    try:
        value = float(text(row, key))
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
