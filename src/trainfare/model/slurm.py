"""A cluster that Slurm schedules: the way to it, and its partitions as the cluster describes them."""

from dataclasses import dataclass

from trainfare.model.checks import require_positive, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCluster:
    """A cluster that the user has an account on."""

    name: str
    destination: str | None = None
    """The login host, as ssh knows it; None if Slurm's commands are on this host."""
    options: tuple[str, ...] = ()
    """Further options of every `sbatch`, such as an account."""

    def __post_init__(self) -> None:
        require_text(name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """The nodes of one kind in a partition: those with the same GPU. If they differ otherwise, the least counts."""

    cluster: str
    partition: str
    kind: str | None = None
    """The kind of nodes, if the partition has several; None if it has one."""
    nodes: int
    cpus: int
    memory_mib: int
    longest_seconds: float | None = None
    """The longest time of a job; None if there is no limit."""
    gpu: str | None = None
    """The type of the GPU by its name in Slurm; None if it does not tell, or if there is none."""
    gpus: int = 0

    def __post_init__(self) -> None:
        require_text(cluster=self.cluster, partition=self.partition)
        require_positive(nodes=self.nodes, cpus=self.cpus, longest_seconds=self.longest_seconds)

    @property
    def name(self) -> str:
        """The name of its machines, after the provider: `lab-gpu`, or `lab-gpu-a100`."""
        return "-".join(filter(None, (self.cluster, self.partition, self.kind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmDescription:
    """A cluster as it described itself."""

    version: str
    partitions: tuple[SlurmPartition, ...]
