"""What may be taken: the part of all offers, clusters and batch sizes that the user wants to choose from."""

from dataclasses import dataclass

from trainfare.model.checks import require_positive, require_text
from trainfare.model.machine import VmType


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """At most so many at once: machines of a type, or GPUs of a name or of a provider."""

    of: str
    """`aws/p3.2xlarge`, `A100` or `aws`."""
    most: int

    def __post_init__(self) -> None:
        require_text(of=self.of)
        if self.most < 0:
            raise ValueError(f"a quota cannot be negative, got {self.most} of {self.of}")

    def max_nodes(self, vm_type: VmType) -> int | None:
        """How many machines of that type it leaves; None where it does not speak of them."""
        if self.of in (vm_type.key, vm_type.name):
            return self.most
        of_its_gpus = vm_type.gpu is not None and self.of == vm_type.gpu.name
        if not of_its_gpus and self.of != vm_type.provider:
            return None
        return self.most // vm_type.gpus if vm_type.gpus else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Nothing named is no restriction."""

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    """By key or by name."""
    min_gpu_gib: float | None = None
    """Of one GPU."""
    yours: bool = False
    """Only machines that are the user's: owned, or held by a commitment."""
    quota: tuple[Quota, ...] = ()
    nodes: int | None = None
    """At most so many machines together, with all their GPUs; None: one, and more where the program is seen to use
    several GPUs."""
    batch_sizes: tuple[int, ...] = ()
    """Of all GPUs together; empty: those that were profiled, and others where the command says how to set one."""
    any_batch_size: bool = False
    """Others even where nobody knows how to set one."""
    spot: bool = False
    reserved: bool | None = None
    """Commitments that are still to be bought; None: those that are held; False: neither."""

    def __post_init__(self) -> None:
        require_positive(min_gpu_gib=self.min_gpu_gib, nodes=self.nodes)
        for size in self.batch_sizes:
            require_positive(batch_size=size)

    def max_nodes(self, vm_type: VmType) -> int | None:
        """Machines of that type that the quotas leave; None where none speaks of them."""
        return min((left for quota in self.quota if (left := quota.max_nodes(vm_type)) is not None), default=None)
