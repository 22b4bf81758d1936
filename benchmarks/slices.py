"""Offers of slices of this machine at invented prices."""

from collections.abc import Mapping
from datetime import UTC, datetime

from trainfare.model.machine import VmType
from trainfare.model.offer import Offer


def slice_offers(slices: Mapping[str, tuple[float, float]]) -> dict[str, Offer]:
    """Offers by name, from the cores and the dollars per hour of each slice."""
    today = datetime.now(UTC).date()
    return {
        name: Offer(
            vm_type=VmType(provider="local", name=name, gpu=None, gpus=0, vcpus=cpus, memory_gib=None),
            region="here",
            market="own",
            usd_per_hour=usd,
            seen_on=today,
            source="invented",
        )
        for name, (cpus, usd) in slices.items()
    }
