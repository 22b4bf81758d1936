"""The user's Slurm clusters as offers: what each tells of itself is asked once, and remembered.

slurm/lab-gpu           the partition gpu of the cluster [lab] in machines.toml
slurm/lab-gpu-a100      if the partition has nodes with different GPUs
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import msgspec

from trainfare.catalog.catalog import Catalog
from trainfare.catalog.own_clusters import CLUSTERS, OwnCluster, PartitionTerms, read_clusters
from trainfare.catalog.own_machines import REGION, SOURCE
from trainfare.clouds.slurm import describe_cluster
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Offer
from trainfare.model.slurm import SlurmDescription, SlurmPartition
from trainfare.settings import Settings

_MIB_PER_GIB = 1024
_NOTHING = PartitionTerms()


def own_clusters(settings: Settings) -> tuple[OwnCluster, ...]:
    """The clusters of machines.toml."""
    return read_clusters(Path(settings.machines))


def learn_cluster(settings: Settings, own: OwnCluster, *, timeout_seconds: float = 60.0) -> SlurmDescription:
    """Ask a cluster for its partitions, and remember them."""
    found = describe_cluster(own.cluster, timeout_seconds=timeout_seconds)
    path = _path(settings, own)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(msgspec.json.encode(found))
    fresh.replace(path)
    return found


def learn_cluster_of(settings: Settings, key: str) -> None:
    """Ask the cluster of a machine that is not known yet. `UsageError` if it is of no cluster."""
    name = key.partition("/")[2]
    clusters = own_clusters(settings)
    mine = [own for own in clusters if name == own.cluster.name or name.startswith(f"{own.cluster.name}-")]
    if not mine:
        raise UsageError(
            f"{key} is in no cluster of {settings.machines}: add a section with slurm = true, and the login host as "
            'ssh = "user@host" unless sbatch is on this host.',
            field="on",
        )
    for own in mine:
        learn_cluster(settings, own)
    known = own_partitions(settings)
    if key not in known:
        raise NotFoundError("machine", key, sorted(known), field="on")


def known_description(settings: Settings, own: OwnCluster) -> SlurmDescription | None:
    """A cluster as it described itself; None if it was never asked."""
    try:
        return msgspec.json.decode(_path(settings, own).read_bytes(), type=SlurmDescription)
    except (OSError, msgspec.MsgspecError, ValueError):  # it is asked again when it is used
        return None


def own_partitions(settings: Settings) -> Mapping[str, SlurmPartition]:
    """The partitions that are known, by the keys of their machines."""
    return {f"{CLUSTERS}/{each.name}": each for _, each in _all_partitions(settings)}


def with_own_clusters(catalog: Catalog, settings: Settings) -> Catalog:
    """The catalog with an offer for each partition that is known."""
    offers = tuple(_offer(catalog, own, partition) for own, partition in _all_partitions(settings))
    return replace(catalog, offers=(*offers, *catalog.offers)) if offers else catalog


def gpu_of(catalog: Catalog, name: str | None) -> Gpu | None:
    """The GPU that Slurm calls by a name: `a100`, `nvidia_a100-sxm4-80gb`."""
    if name is None:
        return None
    return catalog.find_gpu(name) or catalog.find_gpu(name.replace("_", " "))


def terms_of(own: OwnCluster, partition: SlurmPartition) -> PartitionTerms:
    """The statements of the user about a partition: about this kind of its nodes, or about all."""
    named = "-".join(filter(None, (partition.partition, partition.kind)))
    return own.terms.get(named) or own.terms.get(partition.partition) or _NOTHING


def _all_partitions(settings: Settings) -> Iterator[tuple[OwnCluster, SlurmPartition]]:
    for own in own_clusters(settings):
        described = known_description(settings, own)
        for partition in described.partitions if described else ():
            yield own, partition


def _offer(catalog: Catalog, own: OwnCluster, partition: SlurmPartition) -> Offer:
    terms = terms_of(own, partition)
    gpu = gpu_of(catalog, terms.gpu or partition.gpu) if partition.gpus else None
    gpus = min(terms.gpus or partition.gpus, partition.gpus) if gpu else 0
    share = gpus / partition.gpus if gpus else 1.0
    cpus, memory_gib = partition.cpus * share, partition.memory_mib * share / _MIB_PER_GIB
    return Offer(
        vm_type=VmType(
            provider=CLUSTERS,
            name=partition.name,
            gpu=gpu,
            gpus=gpus,
            vcpus=min(terms.vcpus or max(1.0, cpus // 1), float(partition.cpus)),
            memory_gib=terms.memory_gib or (memory_gib if partition.memory_mib > 1 else None),
        ),
        region=REGION,
        market="own",
        usd_per_hour=own.usd_per_hour if terms.usd_per_hour is None else terms.usd_per_hour,
        seen_on=own.seen_on,
        source=SOURCE,
        most_nodes=partition.nodes,
    )


def _path(settings: Settings, own: OwnCluster) -> Path:
    return Path(settings.runs) / "clusters" / f"{quote(own.cluster.name, safe='')}.json"
