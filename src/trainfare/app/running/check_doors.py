"""Use case: which doors are ready, what is missing, and what makes it ready. Hosts and clusters are asked at once."""

import shlex
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_clusters import gpu_of, learn_cluster, own_clusters, terms_of
from trainfare.app.catalog.own_hosts import destination_of, known_host, learn_host
from trainfare.catalog.catalog import Catalog
from trainfare.catalog.own_clusters import CLUSTERS, OwnCluster
from trainfare.catalog.own_machines import HOSTS, read_groups
from trainfare.clouds.skypilot_api import SkyPilotStartingError
from trainfare.clouds.skypilot_launch import CLOUDS
from trainfare.clouds.skypilot_setup import SkyPilotInstallation
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import TrainfareError
from trainfare.model.doors import DoorStatus
from trainfare.model.machine import HERE, HERE_PROVIDER
from trainfare.model.slurm import SlurmPartition
from trainfare.settings import Settings, read_settings
from trainfare.units import format_duration, format_number, plural

WITHIN_SECONDS = 10.0
"""The time that a host or a cluster has to answer."""

START_WITHIN_SECONDS = 120.0
"""The time that SkyPilot's server has to start: it took 20 s on two idle cores, and a minute on busy ones."""

RENTS = "skypilot"
"""The door to the machines of clouds."""
_SET_UP = "trainfare doors setup skypilot"
_LOG_IN = {
    "aws": "aws configure",
    "azure": "az login",
    "gcp": "gcloud auth application-default login",
}
"""The command by which a user logs in to a cloud."""

Check = Callable[[], DoorStatus]


def check_doors(
    *,
    settings: Settings | None = None,
    within_seconds: float = WITHIN_SECONDS,
    start_within_seconds: float = START_WITHIN_SECONDS,
    on_progress: Callable[[str], None] = lambda _line: None,
) -> tuple[DoorStatus, ...]:
    """The state of every door, in the order of the doors. Whatever is wrong with one does not hide the others.
    `on_progress` gets a sentence about what is waited for longer than `within_seconds`."""
    settings = settings or read_settings()
    catalog = open_catalog(settings)
    checks: list[Check] = [
        partial(_check_here, catalog),
        *_host_checks(catalog, settings, within_seconds),
        *_cluster_checks(catalog, settings, within_seconds),
    ]
    with ThreadPoolExecutor(max_workers=min(32, len(checks) + 1)) as pool:
        rented = pool.submit(_check_clouds, catalog, settings, start_within_seconds, on_progress)
        return (*pool.map(lambda check: check(), checks), *rented.result())


def _check_here(catalog: Catalog) -> DoorStatus:
    here = catalog.here
    size = "" if here is None else f": {_size(here.vm_type.vcpus, here.vm_type.memory_gib)}"
    slices = tuple(offer.vm_type.key for offer in catalog.offers if offer.vm_type.provider == HERE_PROVIDER)
    return DoorStatus(
        door=HERE_PROVIDER, place="here", is_ready=True, text=f"this machine{size}", machines=(HERE, *slices)
    )


def _host_checks(catalog: Catalog, settings: Settings, within_seconds: float) -> Sequence[Check]:
    keys = [o.vm_type.key for o in (*catalog.offers, *catalog.hosts) if o.vm_type.provider == HOSTS]
    if keys:
        return [partial(_check_host, settings, key, within_seconds) for key in keys]
    missing = DoorStatus(
        door=HOSTS,
        is_ready=False,
        text="no host is named; any host that ssh reaches can be used",
        fix=_added(settings, "[box]", 'ssh = "user@host"'),
    )
    return [lambda: missing]


def _check_host(settings: Settings, key: str, within_seconds: float) -> DoorStatus:
    name, destination = key.partition("/")[2], destination_of(settings, key)
    group = [place.destination for place in read_groups(Path(settings.machines)).get(key, ())]
    try:
        for each in group or [destination]:
            SshShell(SshConnection(each), ".").run(("true",), timeout_seconds=within_seconds)
        host = known_host(settings, key) or learn_host(settings, key)
    except TrainfareError as error:
        fix = f"{shlex.join(('ssh', destination, 'true'))}   # must end without a question and without an error"
        return DoorStatus(door=HOSTS, place=name, is_ready=False, text=error.message, fix=fix, machines=(key,))
    gpus = f", {host.gpus} × {host.gpu}" if host.gpus else ""
    names = f"{len(group)} hosts, {', '.join(group)}" if group else destination
    text = f"{names}: {_size(host.cores, host.memory_gib)}{gpus}{' each' if len(group) > 1 else ''}"
    return DoorStatus(door=HOSTS, place=name, is_ready=True, text=text, machines=(key,))


def _cluster_checks(catalog: Catalog, settings: Settings, within_seconds: float) -> Sequence[Check]:
    clusters = own_clusters(settings)
    if clusters:
        return [partial(_check_cluster, catalog, settings, own, within_seconds) for own in clusters]
    here = shutil.which("sbatch") is not None
    missing = DoorStatus(
        door=CLUSTERS,
        is_ready=False,
        text="sbatch is on this host, and no cluster is named" if here else "no cluster is named",
        fix=_added(settings, "[cluster]", "slurm = true", *(() if here else ('ssh = "user@login"',))),
    )
    return [lambda: missing]


def _check_cluster(catalog: Catalog, settings: Settings, own: OwnCluster, within_seconds: float) -> DoorStatus:
    name, destination = own.cluster.name, own.cluster.destination
    try:
        found = learn_cluster(settings, own, timeout_seconds=within_seconds)
    except TrainfareError as error:
        fix = shlex.join(("ssh", destination, "sinfo") if destination else ("sinfo",))
        fix += "   # must list the partitions"
        return DoorStatus(door=CLUSTERS, place=name, is_ready=False, text=error.message, fix=fix)
    partitions = "; ".join(_describe(catalog, own, each) for each in found.partitions)
    return DoorStatus(
        door=CLUSTERS,
        place=name,
        is_ready=True,
        text=f"{found.version} on {destination or 'this host'}; {partitions}",
        machines=tuple(f"{CLUSTERS}/{each.name}" for each in found.partitions),
    )


def _check_clouds(
    catalog: Catalog, settings: Settings, start_within_seconds: float, on_progress: Callable[[str], None]
) -> tuple[DoorStatus, ...]:
    """The clouds that SkyPilot is installed for. It checks their credentials, and may have to start its server."""
    skypilot = SkyPilotInstallation(Path(settings.skypilot))
    installed = skypilot.installed()
    if installed is None:
        text = "SkyPilot, which rents machines from clouds, is not installed"
        return (DoorStatus(door=RENTS, is_ready=False, text=text, fix=_SET_UP),)
    limit = format_duration(start_within_seconds)
    starting = f"SkyPilot's API server starts, which takes up to a minute; it is waited for up to {limit}."
    try:
        skypilot.api.require_running(within_seconds=start_within_seconds, on_start=lambda: on_progress(starting))
        enabled = skypilot.check(installed.clouds)
    except SkyPilotStartingError as error:
        text = f"SkyPilot's API server was started, and does not answer after {limit}; it may still come up"
        fix = f"trainfare doors   # once more; what the start has printed is in {error.log}"
        return (DoorStatus(door=RENTS, is_ready=False, text=text, fix=fix),)
    except TrainfareError as error:
        fix = f"{shlex.quote(str(skypilot.api.program))} api stop   # then look again"
        return (DoorStatus(door=RENTS, is_ready=False, text=error.message, fix=fix),)
    return tuple(
        _rented_status(catalog, skypilot, cloud, version=installed.version, is_ready=cloud in enabled)
        for cloud in installed.clouds
    )


def _rented_status(
    catalog: Catalog, skypilot: SkyPilotInstallation, cloud: str, *, version: str, is_ready: bool
) -> DoorStatus:
    offers = [offer for offer in catalog.offers if offer.vm_type.provider == cloud and offer.retired_on is None]
    machines = tuple(sorted({offer.vm_type.key for offer in offers}))
    if is_ready:
        markets = " and ".join(sorted({offer.market.replace("_", " ") for offer in offers})) or "no price is known"
        text = f"SkyPilot {version}; {plural(len(machines), 'machine type')}, {markets}"
        return DoorStatus(door=RENTS, place=cloud, is_ready=True, text=text, machines=machines)
    fix = _LOG_IN.get(cloud, f"{shlex.quote(str(skypilot.api.program))} check {CLOUDS[cloud]}")
    return DoorStatus(
        door=RENTS,
        place=cloud,
        is_ready=False,
        text="SkyPilot finds no credentials that can rent machines",
        fix=f"{fix}   # then look again",
    )


def _describe(catalog: Catalog, own: OwnCluster, partition: SlurmPartition) -> str:
    """A partition in a few words; a GPU that the catalog does not know is said."""
    words = [f"{plural(partition.nodes, 'node')} of {_size(partition.cpus, partition.memory_mib / 1024)}"]
    if partition.gpus:
        slurm_name = partition.gpu or "GPU"
        gpu = gpu_of(catalog, terms_of(own, partition).gpu or partition.gpu)
        known = gpu.name if gpu else f"{slurm_name} (not in the catalog: state gpu in machines.toml)"
        words.append(f"{partition.gpus} × {known}")
    if partition.longest_seconds is not None:
        words.append(f"up to {format_duration(partition.longest_seconds)}")
    return f"{partition.name}: {', '.join(words)}"


def _added(settings: Settings, *lines: str) -> str:
    """The command that adds a section to machines.toml."""
    text = "".join(line + "\\n" for line in lines)
    return f"printf '{text}' >> {shlex.quote(settings.machines)}"


def _size(cpus: float | None, memory_gib: float | None) -> str:
    parts = [] if cpus is None else [f"{cpus:g} CPUs"]
    if memory_gib:
        parts.append(f"{format_number(memory_gib)} GiB")
    return ", ".join(parts) or "size unknown"
