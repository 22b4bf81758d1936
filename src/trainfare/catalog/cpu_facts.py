"""The facts about each CPU, and the CPU that the name of a processor or of a machine type means.

`cpus.csv` has a row for each model, with its source. Clocks are those that all cores sustain with the widest vectors;
docs/catalog.md says how they were derived. `cpu_names.csv` has the names that do not contain a model, because the
hypervisor hides it; `cpu_machines.csv` says which CPU the machines of a family have, and the first row that matches
decides.
"""

import fnmatch
import re
from collections.abc import Mapping
from functools import cache

import msgspec

from trainfare.catalog.gpu_facts import bundled_rows, load_sources
from trainfare.model.catalog import FactSource
from trainfare.model.machine import Cpu

_NOISE = re.compile(
    r"\((r|tm)\)|\b(intel|amd|cpu|processor|\d+th gen)\b|@.*|\bw(ith|/) radeon.*"
    r"|\b(\d+|four|six|eight|twelve|sixteen)-cores?\b"
)
"""The parts of a processor's name, in lower case, that do not tell its model."""
_VARIANT = re.compile(r"(core.*\dk?)[fs]|(epyc.*\d)p")
"""Models that differ from another only in their graphics (F), their boost (S) or their sockets (P)."""


@cache
def load_cpus() -> Mapping[str, Cpu]:
    """Every CPU, by name."""
    return {row["name"]: msgspec.convert(row, Cpu, strict=False) for row in bundled_rows("cpus.csv")}


@cache
def load_cpu_sources() -> Mapping[str, FactSource]:
    """The source of each CPU's figures, by the name of the CPU."""
    sources = load_sources()
    return {row["name"]: sources[row["source"]] for row in bundled_rows("cpus.csv")}


def cpu_for(name: str) -> Cpu | None:
    """The CPU of a name in the catalog, or of one that `/proc/cpuinfo` gives; None if it is unknown."""
    by_model, model = _cpus_by_model(), _model(name)
    if found := _hidden_models().get(_squeeze(name)) or by_model.get(_squeeze(name)) or by_model.get(model):
        return found
    variant = _VARIANT.fullmatch(model)
    return by_model.get(variant[1] or variant[2]) if variant else None


@cache
def cpu_of_machine(provider: str, machine: str) -> Cpu | None:
    """The CPU of a machine type, by its family; None if it is unknown."""
    pattern, cpus = _machine_patterns().get(provider, (None, ()))
    found = pattern.match(machine) if pattern else None
    return load_cpus()[cpus[found.lastindex - 1]] if found and found.lastindex else None


@cache
def _machine_patterns() -> Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]]:
    """By provider, one pattern with a group for each row, and the CPU of each: the first that matches decides."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for row in bundled_rows("cpu_machines.csv"):
        rows.setdefault(row["provider"], []).append((fnmatch.translate(row["machine"]), row["cpu"]))
    return {
        provider: (re.compile("|".join(f"({glob})" for glob, _ in found)), tuple(cpu for _, cpu in found))
        for provider, found in rows.items()
    }


@cache
def _cpus_by_model() -> Mapping[str, Cpu]:
    return {_squeeze(name): cpu for name, cpu in load_cpus().items()}


@cache
def _hidden_models() -> Mapping[str, Cpu]:
    cpus = load_cpus()
    return {_squeeze(row["name"]): cpus[row["cpu"]] for row in bundled_rows("cpu_names.csv")}


def _model(name: str) -> str:
    """`Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz` → `xeonplatinum8375c`."""
    return _squeeze(_NOISE.sub(" ", name.lower()))


def _squeeze(name: str) -> str:
    """The name without case, blanks and punctuation; a plus stays, because the 8480+ is another model than the 8480."""
    return re.sub(r"[^a-z0-9+.]", "", name.lower())
