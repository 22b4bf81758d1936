"""The part of all offers, clusters and batch sizes from which the user wants to choose."""

from dataclasses import dataclass

from trainfare.model.checks import require_positive, require_text
from trainfare.model.machine import VmType


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A maximum number at the same time: of machines of a type, or of GPUs of a model or of a provider."""

    name: str
    """`aws/p3.2xlarge`, `A100` or `aws`."""
    limit: int

    def __post_init__(self) -> None:
        require_text(name=self.name)
        if self.limit < 0:
            raise ValueError(f"a quota must not be negative, got {self.limit} of {self.name}")

    def max_nodes(self, vm_type: VmType) -> int | None:
        """The number of machines of that type that it allows; None if it does not apply to them."""
        if self.name in (vm_type.key, vm_type.name):
            return self.limit
        names_its_gpu = vm_type.gpu is not None and self.name == vm_type.gpu.name
        if not names_its_gpu and self.name != vm_type.provider:
            return None
        return self.limit // vm_type.gpus if vm_type.gpus else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Restrictions on candidates. An empty field is no restriction."""

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    """Machines by key or by name; `here` is the machine at hand."""
    also: tuple[str, ...] = ()
    """Keys of machines that are considered too: hosts and slices of this machine that are in no file."""
    exclude: tuple[str, ...] = ()
    """Machines, providers, GPUs or regions that are left out; `here` is the machine at hand."""
    min_gpu_gib: float | None = None
    """The minimum memory of one GPU."""
    yours: bool = False
    """Only machines that the user owns or holds by a commitment."""
    quota: tuple[Quota, ...] = ()
    nodes: int | None = None
    """The maximum number of machines together, with all their GPUs. None: one, or more if the program was profiled on
    several GPUs."""
    batch_sizes: tuple[int, ...] = ()
    """Effective batch sizes. Empty: those that were profiled, and others if the command has an option for the batch
    size."""
    any_batch_size: bool = False
    """Consider other batch sizes even if the command has no known option for them."""
    spot: bool = False
    reserved: bool | None = None
    """True: commitments, also those that are not bought yet. None: only those that are held. False: none."""

    def __post_init__(self) -> None:
        require_positive(min_gpu_gib=self.min_gpu_gib, nodes=self.nodes)
        for size in self.batch_sizes:
            require_positive(batch_size=size)

    def max_nodes(self, vm_type: VmType) -> int | None:
        """The number of machines of that type that the quotas allow; None if no quota applies to them."""
        return min((limit for quota in self.quota if (limit := quota.max_nodes(vm_type)) is not None), default=None)
