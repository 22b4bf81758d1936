"""What each GPU can do: every figure with the source it is credited to."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from trainfare.model.machine import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The document that a figure is credited to, and whether anybody looked."""

    key: str
    title: str
    publisher: str
    date: str
    checked: Literal["read", "quoted", "not opened"]
    """Read itself; seen quoted by others; or credited from general knowledge, the document not opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One field of a Gpu, as text, and its source."""

    fact: str
    value: str
    source: Source


def bundled_rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table that is shipped in `data/`."""
    text = files("trainfare.catalog").joinpath("data", name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


@cache
def load_sources() -> Mapping[str, Source]:
    return {row["key"]: msgspec.convert(row, Source) for row in bundled_rows("sources.csv")}


@cache
def load_figures() -> Mapping[str, tuple[Figure, ...]]:
    """By the name of the GPU, in the order of the table: oldest architecture first."""
    sources = load_sources()
    figures: dict[str, list[Figure]] = {}
    for row in bundled_rows("gpus.csv"):
        figure = Figure(fact=row["fact"], value=row["value"], source=sources[row["source"]])
        figures.setdefault(row["gpu"], []).append(figure)
    return {name: tuple(found) for name, found in figures.items()}


@cache
def load_gpus() -> Mapping[str, Gpu]:
    """By name. A figure that is not known is absent."""
    return {
        name: msgspec.convert({"name": name} | {figure.fact: figure.value for figure in figures}, Gpu, strict=False)
        for name, figures in load_figures().items()
    }
