"""Hardware: a GPU, a type of machine that can be rented, and the host on which a profile was measured."""

from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text

HERE_PROVIDER, HERE_NAME = "local", "here"
HERE = f"{HERE_PROVIDER}/{HERE_NAME}"
"""The key of the machine at hand: the one on which this process runs."""

Dtype = Literal["float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator as software sees it, with its nominal figures; None means that it lacks the unit or the dtype.

    Plain figures are those of its ordinary cores, `_tensor_` figures those of its tensor (matrix) cores, dense, without
    sparsity. A board with two chips is two Gpus.
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
    """The power limit of its board: a low limit for many units keeps them below their nominal clock."""
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
            raise ValueError(f"launch_year must lie between 2006, the year of CUDA, and 2100, got {self.launch_year}")

    def peak_flops_per_second(self, dtype: str) -> float:
        """The peak of the fastest unit that computes in `dtype`; a dtype that the chip lacks runs as float32.

        float32 does not include TF32: products that may use TF32 have the dtype `tf32`. On AMD's GPUs that is float32:
        PyTorch for ROCm does not use their TF32 units unless an environment variable of its libraries says so.
        """
        tflops = {
            "float64": self.fp64_tflops,
            "tf32": None if self.vendor == "amd" else self.tf32_tensor_tflops,
            "float16": self.fp16_tensor_tflops or self.fp16_tflops,
            "bfloat16": self.bf16_tensor_tflops,
            "float8": self.fp8_tensor_tflops or self.fp16_tensor_tflops,
        }.get(dtype)
        return (tflops or self.fp32_tflops) * 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One model of CPU, with its nominal figures.

    fp32_gflops_per_core = 2 · simd_bits / 32 · fma_units · clock_ghz
    """

    name: str
    vendor: Literal["intel", "amd", "arm", "apple"]
    """The maker of the instruction set's cores; `arm` for all of Arm's designs, whoever builds the chip."""
    architecture: str
    launch_year: int
    cores: int
    """The physical cores of one socket."""
    threads_per_core: int = 2
    """The vCPUs that providers make of one core: 2 with hyper-threading, else 1."""
    simd_bits: int
    """The width of its widest vector registers: 128, 256 or 512."""
    fma_units: int
    """Fused multiply-add units of that width in one core."""
    clock_ghz: float
    """The clock that all cores sustain together."""
    memory_gb_per_second: float
    """The bandwidth of the memory of one socket."""
    bf16_matrix_unit: bool = False
    """True if it multiplies bfloat16 matrices in hardware, as AMX does."""

    def __post_init__(self) -> None:
        require_text(name=self.name, architecture=self.architecture)
        require_positive(
            cores=self.cores,
            threads_per_core=self.threads_per_core,
            simd_bits=self.simd_bits,
            fma_units=self.fma_units,
            clock_ghz=self.clock_ghz,
            memory_gb_per_second=self.memory_gb_per_second,
        )

    @property
    def fp32_gflops_per_core(self) -> float:
        return 2 * self.simd_bits / 32 * self.fma_units * self.clock_ghz


@dataclass(frozen=True, slots=True, kw_only=True)
class VmType:
    """A type of machine that can be rented, or a machine of the user."""

    provider: str
    name: str
    gpu: Gpu | None
    gpus: int
    vcpus: float | None
    memory_gib: float | None
    network_gb_per_second: float | None = None
    """The bandwidth to other machines, in gigabytes per second; None if unknown."""
    cpu: Cpu | None = None
    """The model of its CPU; None if unknown."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider, name=self.name)
        require_not_negative(gpus=self.gpus)
        require_positive(vcpus=self.vcpus, memory_gib=self.memory_gib, network_gb_per_second=self.network_gb_per_second)
        if (self.gpu is None) != (self.gpus == 0):
            raise ValueError(f"{self.key} has {self.gpus} GPUs and {self.gpu.name if self.gpu else 'no GPU'}")

    @property
    def key(self) -> str:
        """The name of the machine in options, files and tables: `aws/p3.2xlarge`."""
        return f"{self.provider}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine on which a profile was measured, as it describes itself."""

    name: str
    cpu: str | None = None
    cores: int | None = None
    """The logical CPUs that a program may use."""
    physical_cores: int | None = None
    """The physical cores behind them; None if the machine does not tell."""
    simd_bits: int | None = None
    """The width of its widest vector registers; None if unknown."""
    clock_ghz: float | None = None
    """The clock that the machine states; None if unknown."""
    memory_gib: float | None = None
    gpu: str | None = None
    gpus: int = 0
    vm_type: str | None = None
    """The key of its VmType; None if unknown."""

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(
            cores=self.cores,
            physical_cores=self.physical_cores,
            simd_bits=self.simd_bits,
            clock_ghz=self.clock_ghz,
            memory_gib=self.memory_gib,
        )
        require_not_negative(gpus=self.gpus)
        if self.vm_type is not None and not all(self.vm_type.partition("/")[::2]):
            raise ValueError(f"vm_type must be provider/name, got {self.vm_type}")
