"""The facts about each GPU, each with its source."""

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from trainfare.model.catalog import FactSource, GpuFact
from trainfare.model.machine import Gpu


def bundled_rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table that is shipped in `data/`."""
    text = files("trainfare.catalog").joinpath("data", name).read_text(encoding="utf-8")
    lines = csv.reader(text.splitlines())
    header = next(lines)
    yield from (dict(zip(header, cells, strict=True)) for cells in lines)


@cache
def load_sources() -> Mapping[str, FactSource]:
    """Every source, by its key."""
    return {row["key"]: msgspec.convert(row, FactSource) for row in bundled_rows("sources.csv")}


@cache
def load_gpu_facts() -> Mapping[str, tuple[GpuFact, ...]]:
    """The facts by the name of the GPU, in the order of the table: oldest architecture first."""
    sources = load_sources()
    facts: dict[str, list[GpuFact]] = {}
    for row in bundled_rows("gpus.csv"):
        fact = GpuFact(fact=row["fact"], value=row["value"], source=sources[row["source"]])
        facts.setdefault(row["gpu"], []).append(fact)
    return {name: tuple(of_gpu) for name, of_gpu in facts.items()}


@cache
def load_gpus() -> Mapping[str, Gpu]:
    """Every GPU, by name. Unknown figures are None. The sources are not read: most commands do not show them."""
    figures: dict[str, dict[str, str]] = {}
    for row in bundled_rows("gpus.csv"):
        figures.setdefault(row["gpu"], {"name": row["gpu"]})[row["fact"]] = row["value"]
    return {name: msgspec.convert(facts, Gpu, strict=False) for name, facts in figures.items()}
