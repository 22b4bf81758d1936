"""What a predicted iteration time is based on, as data; `views/prediction.py` writes the sentences."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOnMachine:
    """Profiles of the program, taken on the same machine type at the same batch size."""

    profile_ids: tuple[str, ...]
    batch_size: int | None
    """The effective batch size of the profiles; None where they do not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAtOtherBatchSizes:
    """Profiles taken on the same machine type, scaled to another batch size."""

    machine: str
    measured_batch_sizes: tuple[int, ...]
    """Micro batch sizes, smallest first."""
    batch_size: int
    """The micro batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOnSlices:
    """Profiles taken on slices of the same machine, scaled to another number of its cores."""

    slices: tuple[str | None, ...]
    """Machine types such as `local/half`; None stands for the whole machine."""
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOnOtherCpu:
    """Profiles taken on one CPU, scaled to other cores, or to those of another model."""

    profile_ids: tuple[str, ...]
    cpu: str
    cores: float
    """Physical cores of the machine of the first profile."""
    target_cpu: str
    target_cores: float
    by_operations: bool
    """Scaled by times predicted from the operations; otherwise by the speed and the number of the cores alone."""
    busy_share: float = 0.0
    """The share of the time in which the profiled program had to wait for a CPU that others used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataWait:
    """The wait for data in a profile, scaled to the host of another machine."""

    profile_id: str
    share: float
    """The share of the predicted iteration."""
    workers: int | None
    """The processes of the loader; None if unknown."""
    cores: float | None
    """The cores that they have on the machine; None if unknown."""
    busy_share: float = 0.0
    """The share of the time in which the profiled program had to wait for a CPU that others used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOnOtherGpus:
    """Profiles taken on known GPUs, scaled to another GPU or to the same GPU in another machine."""

    profiles: tuple[tuple[str, str], ...]
    """Profile id and GPU name of each."""
    method: Literal["operations", "operations and other programs", "other programs"]
    """Scaled by times predicted from the operations, by how other programs speed up between the GPUs, or by both."""
    dtype_known: bool = True
    """False if the profile does not tell in which dtype the program computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTimes:
    """The time of each operator in a profile, scaled operator by operator to another GPU."""

    profile_id: str
    gpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsAlone:
    """The operations of one iteration and a model of the GPU; no measurement of the program on any GPU."""

    gpu: str
    gpu_measured: bool
    """Other programs were measured on this GPU; otherwise only its nominal figures are known."""
    corrected: bool
    """The user's own profiles on this GPU corrected the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFramework:
    """The kernels are assumed to be those of PyTorch, although the program uses another framework."""

    framework: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSync:
    """Several GPUs synchronise their gradients in each iteration."""

    nodes: int
    gpus: int
    """GPUs of each node."""
    samples_per_gpu: int
    own_runs: bool
    """The program itself was measured on one and on several GPUs of one node of this machine type."""


Evidence = (
    MeasuredOnMachine
    | MeasuredAtOtherBatchSizes
    | MeasuredOnSlices
    | MeasuredOnOtherCpu
    | DataWait
    | MeasuredOnOtherGpus
    | OperatorTimes
    | OperationsAlone
    | OtherFramework
    | GradientSync
)
