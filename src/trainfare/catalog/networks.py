"""The network bandwidth of machine types: `networks.csv`, every figure with its source.

For a machine that may send faster for a while, the table has the sustained bandwidth. Other machines are unknown.
"""

from collections.abc import Mapping
from functools import cache

from trainfare.catalog.gpu_facts import bundled_rows

_GB_PER_GBIT = 1 / 8


def network_gb_per_second(provider: str, machine: str) -> float | None:
    """The bandwidth between machines of this type; None if unknown."""
    return _networks().get((provider, machine))


@cache
def _networks() -> Mapping[tuple[str, str], float]:
    return {
        (row["provider"], row["machine"]): float(row["gbit_per_second"]) * _GB_PER_GBIT
        for row in bundled_rows("networks.csv")
    }
