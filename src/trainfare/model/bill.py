"""A provider's charges: the rules by which it counts time, and the lines that add up to a price."""

import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.interval import Interval
from trainfare.units import format_duration, plural

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Numbers = float | NDArray[float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """Time is charged in full increments, and never less than the minimum."""

    increment_seconds: float = 1.0
    minimum_seconds: float = 0.0

    def __post_init__(self) -> None:
        require_positive(increment_seconds=self.increment_seconds)
        require_not_negative(minimum_seconds=self.minimum_seconds)

    def billed_seconds(self, seconds: float) -> float:
        """The time that is charged: at least `seconds`, and never less for a longer time."""
        return float(billed_seconds(seconds, increment=self.increment_seconds, minimum=self.minimum_seconds))

    @property
    def description(self) -> str:
        """The rule in words: `by the second, at least 1 min`."""
        unit = {1.0: "second", 60.0: "minute", 3600.0: "hour"}.get(self.increment_seconds)
        counted = f"by the {unit}" if unit else f"in steps of {format_duration(self.increment_seconds)}"
        return f"{counted}, at least {format_duration(self.minimum_seconds)}" if self.minimum_seconds else counted


def billed_seconds(seconds: "Numbers", *, increment: "Numbers", minimum: "Numbers") -> "Numbers":
    """The time that is charged, of one training or of a column of them."""
    import numpy as np

    # 60.000000001 s are one minute: the rest is the rounding error of adding floats.
    increments = np.ceil(np.maximum(seconds, minimum) / increment - 1e-9)
    return np.maximum(seconds, np.maximum(1.0, increments) * increment)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """A time that a further run is expected to take, by the user's own runs."""

    seconds: Interval
    runs: int
    """Runs on this machine."""
    others: int = 0
    """Runs on other machines of the same provider, which count as far as the machines differ."""

    def __post_init__(self) -> None:
        require_positive(runs_in_all=self.runs + self.others)
        require_not_negative(runs=self.runs, others=self.others)

    @property
    def source(self) -> str:
        """The evidence in words: `measured in 3 runs`."""
        if self.runs:
            return f"measured in {plural(self.runs, 'run')}"
        return f"measured in {plural(self.others, 'run')} on other machines of the provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStart:
    """The times that a run adds to those of its program, by the user's own runs; None if no run says anything."""

    boot: MeasuredTime | None = None
    """From the request until the machine is ready."""
    setup: MeasuredTime | None = None
    """From then until the program is started: files are sent, and the environment is made."""
    collecting: MeasuredTime | None = None
    """From the end of the program until its results are at home and the machine has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A provider's charges in addition to the price of a machine, and the time that it takes to start one."""

    provider: str
    billing: Billing
    boot_seconds: Interval
    """The time from the request until a login is possible; charged in full, though some providers start to count
    later."""
    disk_usd_per_gib_month: float = 0.0
    egress_usd_per_gib: float = 0.0
    free_egress_gib: float = 0.0
    """Free each month for the account; the remaining part of it is unknown."""
    assumed: bool = False
    """The provider's own terms are unknown, and those of other providers are used instead."""
    measured: MeasuredStart | None = None
    """The times of the user's own runs on this machine, which replace assumptions."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider)
        require_not_negative(
            disk_usd_per_gib_month=self.disk_usd_per_gib_month,
            egress_usd_per_gib=self.egress_usd_per_gib,
            free_egress_gib=self.free_egress_gib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """The rate at which a provider takes a spot machine back."""

    per_hour: Interval
    source: str
    """The origin of the rate, in words that a plan can print."""

    def __post_init__(self) -> None:
        require_text(source=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Resources that a training needs in addition to its iterations, as the user states them; None means the usual
    value."""

    boot_seconds: float | None = None
    setup_seconds: float | None = None
    disk_gib: float | None = None
    data_gib: float | None = None
    """Data to upload to the machine before the training."""
    results_gib: float | None = None
    """Results to download at the end; None means one checkpoint."""

    def __post_init__(self) -> None:
        require_not_negative(
            boot_seconds=self.boot_seconds,
            setup_seconds=self.setup_seconds,
            disk_gib=self.disk_gib,
            data_gib=self.data_gib,
            results_gib=self.results_gib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One amount, with a sentence that explains it and gives its numbers."""

    name: str
    usd: Interval
    how: str

    def __post_init__(self) -> None:
        if not self.name or not self.how:
            raise ValueError("a line of a bill must have a name and an explanation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """All lines of an Estimate, at the prices of one day. They add up to `usd`."""

    lines: tuple[BillLine, ...]
    usd: Interval
    billing: Billing
    billed_seconds: float
    """Charged for each node."""
    usd_per_hour: float
    """The price of all nodes together."""
    prices_seen_on: date

    def __post_init__(self) -> None:
        require_positive(billed_seconds=self.billed_seconds)
        require_not_negative(usd_per_hour=self.usd_per_hour)
        total = sum(line.usd.value for line in self.lines)
        if not math.isclose(total, self.usd.value, rel_tol=1e-6, abs_tol=1e-12):
            raise ValueError(f"the lines add up to {total} usd, not to {self.usd.value} usd")
