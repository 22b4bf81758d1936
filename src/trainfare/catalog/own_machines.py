"""The user's own machines: `machines.toml` → offers on the market "own", at the price that the user states.

[bench]                          becomes own/bench, in the region "here"
usd_per_hour = 0.35              0: it costs nothing
gpu = "RTX 3090"                 absent: a machine without a GPU
gpus = 1
vcpus = 16
memory_gib = 64
seen_on = 2026-11-01             absent: the day the file was changed

[half]                           becomes local/half: a slice of this machine, in which programs are started
slice = true
usd_per_hour = 0.02
vcpus = 0.5                      one CPU for half of the time
memory_gib = 4                   absent: no limit

[box]                            becomes ssh/box: a host on which programs are started, reached by ssh
ssh = "ada@box.lab"              a name of ~/.ssh/config, a host, or user@host
usd_per_hour = 0.10              absent: it costs nothing; the host tells its GPUs, CPUs and memory

[lab]                            becomes ssh/lab: equal hosts, each of which is a node of a run on several
hosts = ["ada@a.lab", "ada@b.lab"]
addresses = ["10.0.0.1", "10.0.0.2"]   absent: hosts reach each other where ssh reaches them
usd_per_hour = 0.10              of each

[here]                           this machine, local/here: only its price is needed
usd_per_hour = 0.05

[gpus."My GPU"]                  a GPU that the catalog does not know; the fields of Gpu

`own_clusters.py` reads sections with `slurm = true`, and `own_commitments.py` reads [[commitment]], the machines of
providers that the user has reserved.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path

import msgspec

from trainfare.catalog.gpu_boards import normalise_name
from trainfare.catalog.machines_file import COMMITMENTS, GPUS, FileSection, read_machines_file, suggest
from trainfare.catalog.own_clusters import is_cluster
from trainfare.errors import UsageError
from trainfare.model.hosts import HostPlace
from trainfare.model.machine import HERE_NAME, HERE_PROVIDER, Gpu, VmType
from trainfare.model.offer import Offer

PROVIDER = "own"
SLICES = HERE_PROVIDER
"""The provider of slices of this machine."""
HOSTS = "ssh"
"""The provider of hosts that are reached by ssh."""
REGION = "here"
SOURCE = "your machines.toml"

_MACHINE_KEYS = ("usd_per_hour", "gpu", "gpus", "vcpus", "memory_gib", "seen_on", "slice", "ssh", "hosts", "addresses")
_GPU_KEYS = tuple(field.name for field in fields(Gpu) if field.name != "name")
_REQUIRED_GPU_KEYS = tuple(f.name for f in fields(Gpu) if f.default is MISSING and f.name != "name")


def read_machines(path: Path, known: Mapping[str, Gpu]) -> tuple[tuple[Offer, ...], Mapping[str, Gpu]]:
    """The offers of the file, and the GPUs that it describes; nothing if the file does not exist."""
    file = read_machines_file(path)
    if file is None:
        return (), {}
    described = file.sections.get(GPUS, {})
    if not isinstance(described, dict):
        raise UsageError(f'{path}: gpus must hold sections, as in [gpus."My GPU"]')
    own_gpus = {name: _gpu(FileSection(path, f"gpus.{name}", fields)) for name, fields in described.items()}
    for name, value in file.sections.items():
        if isinstance(value, list) and name != COMMITMENTS:
            raise UsageError(f"{path}: only [[commitment]] has double brackets, not [[{name}]]")
    gpus = {**known, **own_gpus}
    offers = tuple(
        _offer(name, FileSection(path, name, fields), gpus, file.changed_on)
        for name, fields in file.sections.items()
        if name not in (GPUS, COMMITMENTS) and not is_cluster(fields)
    )
    return offers, own_gpus


def read_destinations(path: Path) -> Mapping[str, str]:
    """The names by which ssh knows the hosts of the file, by their keys; of a group, that of its first host."""
    file = read_machines_file(path)
    sections = file.sections if file else {}
    alone = {
        f"{HOSTS}/{name}": fields["ssh"]
        for name, fields in sections.items()
        if isinstance(fields, dict) and isinstance(fields.get("ssh"), str) and not is_cluster(fields)
    }
    return {**alone, **{key: places[0].destination for key, places in read_groups(path).items()}}


def read_groups(path: Path) -> Mapping[str, tuple[HostPlace, ...]]:
    """The groups of hosts of the file, by their keys."""
    file = read_machines_file(path)
    sections = file.sections if file else {}
    return {
        f"{HOSTS}/{name}": _places(FileSection(path, name, fields))
        for name, fields in sections.items()
        if isinstance(fields, dict) and "hosts" in fields and not is_cluster(fields)
    }


def _places(section: FileSection) -> tuple[HostPlace, ...]:
    """The hosts of a group, each once."""
    hosts, addresses = section.texts("hosts"), section.texts("addresses")
    if not hosts:
        raise section.error('hosts must name at least one host, as in hosts = ["user@a", "user@b"]')
    if len(set(hosts)) < len(hosts):
        raise section.error("hosts names a host twice: each is one node")
    if addresses and len(addresses) != len(hosts):
        raise section.error(f"addresses must have one for each host: {len(hosts)}, not {len(addresses)}")
    return tuple(
        HostPlace(destination=host, address=address)
        for host, address in zip(hosts, addresses or (None,) * len(hosts), strict=True)
    )


def _offer(name: str, section: FileSection, gpus: Mapping[str, Gpu], changed_on: date) -> Offer:
    section.require_known(_MACHINE_KEYS)
    destination, group = section.text("ssh"), _places(section) if "hosts" in section.fields else ()
    if "addresses" in section.fields and not group:
        raise section.error("addresses belong to hosts: name the hosts of the group too")
    usd_per_hour = section.number("usd_per_hour")
    is_host = destination is not None or bool(group)
    if usd_per_hour is None and is_host:
        usd_per_hour = 0.0
    if usd_per_hour is None:
        raise section.error("usd_per_hour is missing: what does an hour of it cost you?")
    gpu = _named_gpu(section, gpus)
    count = section.positive_integer("gpus")
    if gpu is None and count is not None:
        raise section.error("gpus is given without gpu: add the name of the GPU, or leave gpus out")
    is_slice = section.flag("slice")
    if is_host:
        _check_host(name, section, is_slice=is_slice)
    if is_slice and name == HERE_NAME:
        raise section.error("[here] is this whole machine: leave slice out, or give the slice another name")
    if is_slice and gpu is not None:
        raise section.error("a slice has no GPU of its own: leave gpu out, or slice")
    if is_slice and section.positive_number("vcpus") is None:
        raise section.error("a slice must state its number of CPUs of this machine: add vcpus")
    try:
        vm_type = VmType(
            provider=HOSTS if is_host else SLICES if is_slice or name == HERE_NAME else PROVIDER,
            name=name,
            gpu=gpu,
            gpus=(count or 1) if gpu else 0,
            vcpus=section.positive_number("vcpus"),
            memory_gib=section.positive_number("memory_gib"),
        )
        return Offer(
            vm_type=vm_type,
            region=REGION,
            market="own",
            usd_per_hour=usd_per_hour,
            seen_on=section.day("seen_on") or changed_on,
            source=SOURCE,
            most_nodes=(len(group) or 1) if is_host else None,
        )
    except ValueError as error:
        raise section.error(str(error)) from error


def _check_host(name: str, section: FileSection, *, is_slice: bool) -> None:
    """Refuse a host that ssh could not have."""
    if "hosts" in section.fields and "ssh" in section.fields:
        raise section.error("ssh names one host and hosts several: leave one of them out")
    if not section.fields.get("ssh", "x").strip():
        raise section.error('ssh must name the host, as in ssh = "user@host"')
    if is_slice or name == HERE_NAME:
        raise section.error("a machine that is reached by ssh is not this machine: leave ssh out")


def _named_gpu(section: FileSection, gpus: Mapping[str, Gpu]) -> Gpu | None:
    name = section.text("gpu")
    if name is None:
        return None
    found = {normalise_name(known): gpu for known, gpu in gpus.items()}.get(normalise_name(name))
    if found is None:
        raise section.error(
            f"gpu = {name!r} is not in the catalog.{suggest(name, gpus)} `trainfare catalog gpus` shows all;"
            f' or describe it in a section [gpus."{name}"].'
        )
    return found


def _gpu(section: FileSection) -> Gpu:
    section.require_known(_GPU_KEYS)
    missing = [key for key in _REQUIRED_GPU_KEYS if key not in section.fields]
    if missing:
        raise section.error(f"{', '.join(missing)} must be given")
    try:
        return msgspec.convert({"name": section.name.removeprefix("gpus."), **section.fields}, Gpu)
    except (msgspec.ValidationError, ValueError) as error:
        raise section.error(str(error)) from error
