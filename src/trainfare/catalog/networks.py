"""How fast machines of a type send to each other: `networks.csv`, every figure with its source.

Of a machine that may send faster for a while the table has what lasts. A machine that is not in it is not known.
"""

from collections.abc import Mapping
from functools import cache

from trainfare.catalog.gpus import bundled_rows

_GB_OF_GBIT = 1 / 8


def network_gb_per_second(provider: str, machine: str) -> float | None:
    return _networks().get((provider, machine))


@cache
def _networks() -> Mapping[tuple[str, str], float]:
    return {
        (row["provider"], row["machine"]): float(row["gbit_per_second"]) * _GB_OF_GBIT
        for row in bundled_rows("networks.csv")
    }
