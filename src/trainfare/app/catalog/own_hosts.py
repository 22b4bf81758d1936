"""The user's hosts that are reached by ssh, as offers: what each tells of itself is asked once, and remembered.

ssh/box    a section of machines.toml with `ssh`       always a candidate
ssh/NAME   a name of ~/.ssh/config that was used       only if it is named
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from trainfare.catalog.catalog import Catalog
from trainfare.catalog.cpu_facts import cpu_for
from trainfare.catalog.own_machines import HOSTS, REGION, read_destinations
from trainfare.clouds.door import Shell
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError
from trainfare.model.machine import Host, VmType
from trainfare.model.offer import Offer
from trainfare.profiler.host import clock_ghz, physical_cores, read_cpuinfo, simd_bits
from trainfare.settings import Settings

SOURCE = "the host itself"
_KIB_PER_GIB = 1 << 20

_ASK = """
hostname
nproc
sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo
nvidia-smi -L 2> /dev/null | sed -n 's/^GPU [0-9]*: \\(.*\\) (UUID.*/\\1/p' | tr '\\n' '|'
echo
sed '/^$/q' /proc/cpuinfo
"""


def describe_host(shell: Shell, *, vm_type: str | None = None) -> Host:
    """Ask a host for its CPUs, its memory and its NVIDIA GPUs."""
    done = shell.run(["sh", "-c", _ASK])
    lines = done.output.decode(errors="replace").split("\n", 4)
    if len(lines) < 5 or not lines[0].strip():
        raise ExternalError("The host does not describe itself: it must be Linux, with /proc.")
    name, cores, kib, boards, cpuinfo = lines
    facts = read_cpuinfo(cpuinfo)
    count = int(cores) if cores.strip().isdigit() else None
    gpus = [board for board in boards.split("|") if board.strip()]
    return Host(
        name=name.strip(),
        cpu=facts.get("model name") or None,
        cores=count,
        physical_cores=physical_cores(count, facts),
        simd_bits=simd_bits(facts),
        clock_ghz=clock_ghz(facts),
        memory_gib=round(int(kib) / _KIB_PER_GIB, 2) if kib.strip().isdigit() else None,
        gpu=gpus[0].strip() if gpus else None,
        gpus=gpus.count(gpus[0]) if gpus else 0,
        vm_type=vm_type,
    )


def learn_host(settings: Settings, key: str) -> Host:
    """Ask a host what it is, and remember it."""
    host = describe_host(SshShell(SshConnection(destination_of(settings, key)), "."), vm_type=key)
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(settings, key)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(msgspec.json.encode(host))
    fresh.replace(path)
    return host


def destination_of(settings: Settings, key: str) -> str:
    """The name by which ssh knows the host `ssh/NAME`: the one in machines.toml, else NAME."""
    return read_destinations(Path(settings.machines)).get(key, key.partition("/")[2])


def is_known(settings: Settings, key: str) -> bool:
    """True if the host has described itself before."""
    return _path(settings, key).exists()


def known_host(settings: Settings, key: str) -> Host | None:
    """A host as it described itself; None if it was never asked."""
    return _read_host(_path(settings, key))


def known_hosts(settings: Settings) -> tuple[str, ...]:
    """The keys of all hosts: those in machines.toml that ssh reaches, and those that were used before."""
    stated = read_destinations(Path(settings.machines))
    return tuple(sorted({*stated, *_remembered(_folder(settings))}))


def with_own_hosts(catalog: Catalog, settings: Settings) -> Catalog:
    """The catalog, completed by what hosts say of themselves. Where machines.toml states a fact, it decides."""
    known = _remembered(_folder(settings))
    if not known:
        return catalog
    stated = {offer.vm_type.key for offer in catalog.offers if offer.vm_type.provider == HOSTS}
    offers = tuple(
        replace(offer, vm_type=_vm_type(catalog, host, offer.vm_type))
        if (host := known.get(offer.vm_type.key))
        else offer
        for offer in catalog.offers
    )
    others = tuple(_offer(catalog, key, host) for key, host in known.items() if key not in stated)
    return replace(catalog, offers=offers, hosts=others)


def _offer(catalog: Catalog, key: str, host: Host) -> Offer:
    nothing = VmType(provider=HOSTS, name=key.partition("/")[2], gpu=None, gpus=0, vcpus=None, memory_gib=None)
    return Offer(
        vm_type=_vm_type(catalog, host, nothing),
        region=REGION,
        market="own",
        usd_per_hour=0.0,
        seen_on=datetime.now(UTC).date(),
        source=SOURCE,
        most_nodes=1,
    )


def _vm_type(catalog: Catalog, host: Host, stated: VmType) -> VmType:
    gpu = stated.gpu or (catalog.find_gpu(host.gpu) if host.gpu else None)
    gpus = stated.gpus if stated.gpu else host.gpus
    return replace(
        stated,
        gpu=gpu,
        gpus=max(1, gpus) if gpu else 0,
        vcpus=stated.vcpus or (float(host.cores) if host.cores else None),
        memory_gib=stated.memory_gib or host.memory_gib,
        cpu=stated.cpu or (cpu_for(host.cpu) if host.cpu else None),
    )


def _remembered(folder: Path) -> dict[str, Host]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        host = _read_host(path)
        if host is not None:
            found[f"{HOSTS}/{unquote(path.name.removesuffix('.json'))}"] = host
    return found


def _read_host(path: Path) -> Host | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Host)
    except (OSError, msgspec.MsgspecError, ValueError):  # it is asked again when it is used
        return None


def _path(settings: Settings, key: str) -> Path:
    return _folder(settings) / f"{quote(key.partition('/')[2], safe='@')}.json"


def _folder(settings: Settings) -> Path:
    return Path(settings.runs) / "hosts"
