"""A program before its first iteration: the model that it has made, and the memory of the machine it runs on."""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive

HEAVY_PRESSURE = 0.2
"""A share of time in which every process waits for memory. Reading a data set can reach a few percent for a moment; a
machine that swaps reaches most of the time."""
HEAVY_SWAPPING = 20e6
"""Bytes per second to and from swap, of a machine whose memory is nearly full."""
NEARLY_FULL = 0.1
"""The share of the memory that is still available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """The memory of a machine at one moment, or that of the control group which limits the program."""

    total_bytes: int
    available_bytes: int
    """Memory that the program could still get without swapping."""
    program_bytes: int
    """Resident memory of all processes of the program."""
    peak_program_bytes: int
    """The largest `program_bytes` since the program was started."""
    swap_bytes_per_second: float = 0.0
    """Bytes written to and read from swap per second, by all programs of the machine."""
    pressure: float = 0.0
    """The share of the last ten seconds in which all processes that could run waited for memory."""

    def __post_init__(self) -> None:
        require_positive(total_bytes=self.total_bytes)
        require_not_negative(
            available_bytes=self.available_bytes,
            program_bytes=self.program_bytes,
            peak_program_bytes=self.peak_program_bytes,
            swap_bytes_per_second=self.swap_bytes_per_second,
            pressure=self.pressure,
        )

    @property
    def usable_bytes(self) -> int:
        """Memory that the program has or could still get without swapping."""
        return min(self.total_bytes, self.available_bytes + self.program_bytes)

    @property
    def is_short(self) -> bool:
        """The machine swaps, or its processes wait for memory most of the time."""
        nearly_full = self.available_bytes < NEARLY_FULL * self.total_bytes
        return self.pressure >= HEAVY_PRESSURE or (nearly_full and self.swap_bytes_per_second >= HEAVY_SWAPPING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructedModel:
    """The parameters and optimizers that a program has made so far, in all of its processes."""

    parameters: int
    trainable_parameters: int
    host_weight_bytes: int
    """Weights and buffers in the memory of the host, not in that of a GPU."""
    host_gradient_bytes: int
    """Gradients that the trainable ones of these weights will have."""
    optimizer: str | None = None
    """The class of the first optimizer; None while there is none."""
    optimizers: int = 0
    host_optimizer_bytes: int = 0
    """The state that the optimizers will keep in the memory of the host; 0 for an optimizer whose state is unknown."""
    processes: int = 1

    def __post_init__(self) -> None:
        require_not_negative(
            parameters=self.parameters,
            trainable_parameters=self.trainable_parameters,
            host_weight_bytes=self.host_weight_bytes,
            host_gradient_bytes=self.host_gradient_bytes,
            host_optimizer_bytes=self.host_optimizer_bytes,
        )

    @property
    def host_bytes(self) -> int:
        """Weights, gradients and optimizer state in the memory of the host, without activations."""
        return self.host_weight_bytes + self.host_gradient_bytes + self.host_optimizer_bytes

    @property
    def least_host_bytes(self) -> int:
        """A lower bound of the memory of the host that training needs.

        Processes that train together may share everything but one copy of the weights, and one optimizer per layer
        frees each gradient before the next.
        """
        if self.processes > 1:
            return self.host_weight_bytes // self.processes
        gradients = self.host_gradient_bytes if self.optimizers == 1 else 0
        return self.host_weight_bytes + gradients + self.host_optimizer_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """The state of a program that has not ended its first iteration."""

    seconds: float
    """Time since the program was started."""
    frameworks: tuple[str, ...] = ()
    """The frameworks that it has imported."""
    model: ConstructedModel | None = None
    memory: MemoryReading | None = None
    has_accelerator: bool = False
    """The machine has a GPU or another accelerator, to which a model in the memory of the host may still move."""

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds)

    @property
    def certainly_too_large(self) -> bool:
        """Training needs more memory than the machine has, so that it is killed or swaps in every iteration."""
        if self.model is None or self.memory is None or self.has_accelerator:
            return False
        return self.model.least_host_bytes > self.memory.total_bytes

    @property
    def probably_too_large(self) -> bool:
        """Training needs more memory than the machine has free now, or the machine swaps already."""
        if self.memory is None:
            return False
        needed = 0 if self.model is None or self.has_accelerator else self.model.host_bytes
        return needed > self.memory.usable_bytes or self.memory.is_short
