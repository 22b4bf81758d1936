"""The page as the chapters read it: machines and their prices, batch sizes, samples, and the columns of a table."""

from trainfare.model.interval import Interval
from trainfare.papers.printed import Printed
from trainfare.papers.published import PublishedTable, tables

MACHINES = ("p2.xlarge", "p2.8xlarge", "p2.16xlarge", "p3.2xlarge", "p3.8xlarge", "p3.16xlarge")
BATCH_SIZES = (256, 512, 1024, 2048)

SEISMIC_SAMPLES = 40_512
"""Sections 4.1 and 5.4."""
CIFAR_SAMPLES = 50_000
"""Section 4.1."""
MNIST_SAMPLES = 50_000
"""Section 5.4."""


def table(name: str) -> PublishedTable:
    return tables("malta")[name]


def where(row: str, column: str) -> str:
    """`p2.xlarge, 256: cost ($)`: how a reader points to a number."""
    return f"{row}: {column}"


def seconds(source: PublishedTable, row: str, column: str) -> Interval:
    return source.number(row, column).interval


def usd_per_hour() -> dict[str, float]:
    """A price list's prices are exact: table 3.1."""
    offers = table("malta-3.1")
    return {machine: offers.number(machine, "$/h").value for machine in MACHINES}


def error_pct(estimate: Printed, real: Printed, *, of: Printed) -> Printed:
    """How far the estimate is off, as a share of either."""
    return abs(real - estimate) / of * 100
