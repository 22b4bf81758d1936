"""Facts that all chapters share: machines and their prices, batch sizes, numbers of samples; and access to tables."""

from trainfare.model.interval import Interval
from trainfare.papers.printed import PrintedNumber
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
    """A table of the dissertation."""
    return tables("malta")[name]


def cell_name(row: str, column: str) -> str:
    """The name of a number in a table: `p2.xlarge, 256: cost ($)`."""
    return f"{row}: {column}"


def seconds(source: PublishedTable, row: str, column: str) -> Interval:
    return source.number(row, column).interval


def usd_per_hour() -> dict[str, float]:
    """The hourly prices of table 3.1; listed prices are exact."""
    offers = table("malta-3.1")
    return {machine: offers.number(machine, "$/h").value for machine in MACHINES}


def error_pct(estimate: PrintedNumber, real: PrintedNumber, *, of: PrintedNumber) -> PrintedNumber:
    """The error of the estimate in percent of the estimate or of the real time."""
    return abs(real - estimate) / of * 100
