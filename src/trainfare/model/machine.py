"""Hardware: a GPU, a machine type that can be rented, the host a profile was measured on."""

from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text

Dtype = Literal["float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator as software sees it, by its nominal figures; None is a unit or a dtype that it lacks.

    Plain figures are those of its ordinary cores, `_tensor_` figures those of its tensor (matrix) cores,
    dense, without sparsity. A board with two chips is two Gpus.
    """

    name: str
    vendor: Literal["nvidia", "amd", "aws", "google"]
    architecture: str
    launch_year: int
    memory_gib: float
    memory_gb_per_second: float
    fp32_tflops: float
    fp64_tflops: float | None = None
    fp16_tflops: float | None = None
    tf32_tensor_tflops: float | None = None
    fp16_tensor_tflops: float | None = None
    bf16_tensor_tflops: float | None = None
    fp8_tensor_tflops: float | None = None
    multiprocessors: int | None = None
    board_watts: float | None = None
    """What its board may draw: with little for its units it does not keep their clock."""
    l2_mib: float | None = None
    interconnect: str
    interconnect_gb_per_second: float

    def __post_init__(self) -> None:
        require_text(name=self.name, architecture=self.architecture, interconnect=self.interconnect)
        require_positive(
            memory_gib=self.memory_gib,
            memory_gb_per_second=self.memory_gb_per_second,
            fp32_tflops=self.fp32_tflops,
            fp64_tflops=self.fp64_tflops,
            fp16_tflops=self.fp16_tflops,
            tf32_tensor_tflops=self.tf32_tensor_tflops,
            fp16_tensor_tflops=self.fp16_tensor_tflops,
            bf16_tensor_tflops=self.bf16_tensor_tflops,
            fp8_tensor_tflops=self.fp8_tensor_tflops,
            multiprocessors=self.multiprocessors,
            board_watts=self.board_watts,
            l2_mib=self.l2_mib,
            interconnect_gb_per_second=self.interconnect_gb_per_second,
        )
        if not 2006 <= self.launch_year <= 2100:
            raise ValueError(f"launch_year must be the year of a GPU for computing, got {self.launch_year}")

    def peak_flops_per_second(self, dtype: str) -> float:
        """The fastest unit that computes in `dtype`; a dtype that the chip lacks runs as float32.

        float32 means float32: frameworks use TF32 only when told to, and then say so.
        """
        tflops = {
            "float64": self.fp64_tflops,
            "tf32": self.tf32_tensor_tflops,
            "float16": self.fp16_tensor_tflops or self.fp16_tflops,
            "bfloat16": self.bf16_tensor_tflops,
            "float8": self.fp8_tensor_tflops or self.fp16_tensor_tflops,
        }.get(dtype)
        return (tflops or self.fp32_tflops) * 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class VmType:
    """A machine that can be rented, or the user's own."""

    provider: str
    name: str
    gpu: Gpu | None
    gpus: int
    vcpus: float | None
    memory_gib: float | None
    network_gb_per_second: float | None = None
    """To other machines, in gigabytes; None where it is not known."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider, name=self.name)
        require_not_negative(gpus=self.gpus)
        require_positive(vcpus=self.vcpus, memory_gib=self.memory_gib, network_gb_per_second=self.network_gb_per_second)
        if (self.gpu is None) != (self.gpus == 0):
            raise ValueError(f"{self.key} has {self.gpus} GPUs and {self.gpu.name if self.gpu else 'no GPU'}")

    @property
    def key(self) -> str:
        """`aws/p3.2xlarge`: how a machine is named in flags, files and tables."""
        return f"{self.provider}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine a profile was measured on, as it described itself."""

    name: str
    cpu: str | None = None
    cores: int | None = None
    memory_gib: float | None = None
    gpu: str | None = None
    gpus: int = 0
    vm_type: str | None = None
    """The key of its VmType, where that is known."""

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(cores=self.cores, memory_gib=self.memory_gib)
        require_not_negative(gpus=self.gpus)
        if self.vm_type is not None and not all(self.vm_type.partition("/")[::2]):
            raise ValueError(f"vm_type must be provider/name, got {self.vm_type}")
