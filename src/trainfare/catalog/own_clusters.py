"""The user's clusters that Slurm schedules: sections of `machines.toml` with `slurm = true`.

[lab]                            becomes slurm/lab-PARTITION, one for each partition
slurm = true
ssh = "ada@login.lab"            the login host; absent: sbatch is on this host
usd_per_hour = 0.10              of one node; absent: it costs nothing
options = ["--account=p1"]       further options of every sbatch

[lab.partitions.gpu]             what differs in the partition gpu; the cluster tells the rest
usd_per_hour = 1.20
gpu = "A100"                     if Slurm's name for it is not one of the catalog
gpus = 1                         one GPU of a node, not all
vcpus = 8
memory_gib = 64
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from trainfare.catalog.machines_file import COMMITMENTS, GPUS, FileSection, read_machines_file
from trainfare.errors import UsageError
from trainfare.model.machine import HERE_NAME
from trainfare.model.slurm import SlurmCluster

CLUSTERS = "slurm"
"""The provider of the nodes of clusters."""
MARK = "slurm"
"""The field that makes a section a cluster."""

_KEYS = (MARK, "ssh", "usd_per_hour", "options", "partitions", "seen_on")
_PARTITION_KEYS = ("usd_per_hour", "gpu", "gpus", "vcpus", "memory_gib")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTerms:
    """The statements of the user about a partition; None where the cluster decides."""

    usd_per_hour: float | None = None
    gpu: str | None = None
    gpus: int | None = None
    vcpus: float | None = None
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCluster:
    """A cluster, and what the user states of it."""

    cluster: SlurmCluster
    usd_per_hour: float
    seen_on: date
    terms: Mapping[str, PartitionTerms] = field(default_factory=dict)
    """By the name of the partition, with its kind of nodes if it has several."""


def is_cluster(fields: object) -> bool:
    """True for a section of a cluster."""
    return isinstance(fields, dict) and MARK in fields


def read_clusters(path: Path) -> tuple[OwnCluster, ...]:
    """The clusters of the file; none if the file does not exist."""
    file = read_machines_file(path)
    if file is None:
        return ()
    return tuple(
        _cluster(path, FileSection(path, name, fields), file.changed_on)
        for name, fields in file.sections.items()
        if name not in (GPUS, COMMITMENTS) and is_cluster(fields)
    )


def _cluster(path: Path, section: FileSection, changed_on: date) -> OwnCluster:
    section.require_known(_KEYS)
    if not section.flag(MARK):
        raise section.error("slurm must be true, or left out")
    if section.name == HERE_NAME:
        raise section.error("[here] is this machine: give the cluster another name")
    destination = section.text("ssh")
    if destination is not None and not destination.strip():
        raise section.error('ssh must name the login host, as in ssh = "user@host"')
    options = section.fields.get("options", [])
    if not isinstance(options, list) or not all(isinstance(each, str) and each.startswith("-") for each in options):
        raise section.error('options must be a list of options of sbatch, as in ["--account=p1"]')
    partitions = section.fields.get("partitions", {})
    if not isinstance(partitions, dict):
        raise UsageError(f"{path}, [{section.name}]: partitions must hold sections: [{section.name}.partitions.NAME]")
    return OwnCluster(
        cluster=SlurmCluster(name=section.name, destination=destination, options=tuple(options)),
        usd_per_hour=section.number("usd_per_hour") or 0.0,
        seen_on=section.day("seen_on") or changed_on,
        terms={
            name: _terms(FileSection(path, f"{section.name}.partitions.{name}", fields))
            for name, fields in partitions.items()
        },
    )


def _terms(section: FileSection) -> PartitionTerms:
    section.require_known(_PARTITION_KEYS)
    return PartitionTerms(
        usd_per_hour=section.number("usd_per_hour"),
        gpu=section.text("gpu"),
        gpus=section.positive_integer("gpus"),
        vcpus=section.positive_number("vcpus"),
        memory_gib=section.positive_number("memory_gib"),
    )
