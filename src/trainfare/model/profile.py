"""Facts measured in one short run of a Program on one machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text
from trainfare.model.machine import Host
from trainfare.model.program import Program

OperationKind = Literal[
    "convolution",
    "matmul",
    "attention",
    "norm",
    "pointwise",
    "reduction",
    "embedding",
    "rnn",
    "optimizer",
    "copy",
    "communication",
]

Ending = Literal["enough", "time_limit", "finished", "interrupted", "failed", "stalled"]
"""The reason why measuring ended: enough iterations were measured, the time limit was reached, or the program finished,
was interrupted, failed or stalled."""

Origin = Literal["probe", "code", "run", "tensorboard", "hf", "keras-csv", "mlflow", "wandb", "csv", "spark"]
"""Measured by the probe, by our callback in the program's code, or read from the logs of a past run."""

Norm = Literal["batch", "layer", "group", "instance", "rms"]

StepPart = Literal["forward", "backward", "optimizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """The shape of a convolution, which determines the kernel that a GPU uses for it."""

    channels_in: int
    channels_out: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    plane: tuple[int, ...]
    """The size of the output in each dimension, such as height and width."""
    groups: int = 1
    transposed: bool = False

    def __post_init__(self) -> None:
        require_positive(channels_in=self.channels_in, channels_out=self.channels_out, groups=self.groups)
        if not len(self.kernel) == len(self.stride) == len(self.plane):
            raise ValueError("kernel, stride and plane must have the same number of dimensions")
        for extent in (*self.kernel, *self.stride, *self.plane):
            require_positive(extent=extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A kernel launched `count` times in one iteration, each time with this much work.

    The fields below `count` are for models of kernels; they are absent if the tracer cannot provide them.
    """

    kind: OperationKind
    dtype: str
    flops: float
    bytes: float
    count: int = 1
    name: str | None = None
    """The name in the framework: `aten.convolution_backward`."""
    part: StepPart | None = None
    inputs: tuple[tuple[int, ...], ...] = ()
    """Shapes of the tensors that it reads."""
    outputs: tuple[tuple[int, ...], ...] = ()
    """Shapes of the tensors that it writes."""
    convolution: Convolution | None = None
    norm: Norm | None = None
    row: int | None = None
    """The number of elements over which a norm or a softmax reduces."""
    autocast: bool = False
    """True if an autocast keeps it in float32 while it runs others in a smaller dtype."""

    def __post_init__(self) -> None:
        work_is_valid = 0 <= self.flops < math.inf and 0 <= self.bytes < math.inf and 0 < self.count < math.inf
        if work_is_valid and (self.row or 1) > 0 and self.row != 0 and self.dtype.isascii() and self.dtype.strip():
            return  # thousands are made for one prediction: say what is wrong only if something is
        require_text(dtype=self.dtype)
        require_not_negative(flops=self.flops, bytes=self.bytes)
        require_positive(count=self.count, row=self.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Results of one pass over the data; `metrics` have the names that the program gives them."""

    number: int
    """Counted from 1."""
    seconds: float | None = None
    """The time of the epoch, validation included."""
    loss: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_positive(number=self.number, seconds=self.seconds)
        for name, value in {"loss": self.loss, **self.metrics}.items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} of epoch {self.number} must be finite or absent")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """The rule by which the program itself stops."""

    metric: str | None
    patience: int

    def __post_init__(self) -> None:
        require_not_negative(patience=self.patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMoment:
    """Bytes of the tensors that an iteration has made, at one moment; weights and optimizer state come on top."""

    fixed_bytes: int
    """Gradients of weights and copies of weights, whatever the batch size."""
    growing_bytes: int
    """Activations, their gradients and temporary tensors, in proportion to the batch size."""

    def __post_init__(self) -> None:
        require_not_negative(fixed_bytes=self.fixed_bytes, growing_bytes=self.growing_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Measurements of one short run, or of a past one. None and empty mean unknown."""

    id: str
    program: Program
    host: Host
    measured_at: datetime
    origin: Origin = "probe"
    ending: Ending = "enough"

    framework: str
    framework_version: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of other libraries that determine the speed, by name."""
    device: Literal["cpu", "cuda", "mps", "xpu", "tpu"] | None = None
    dtype: str | None = None
    world_size: int = 1

    micro_batch_size: int | None = None
    """Samples that one process takes through one forward pass: one batch of its loader."""
    accumulation_steps: int = 1
    """Forward and backward passes of one process between two steps of the optimizer."""
    samples: int | None = None
    validation_samples: int | None = None
    iterations_per_epoch: int | None = None
    tokens_per_sample: int | None = None
    """The tokens of one sample of a language model: the length of its sequences."""
    epochs: int | float | None = None  # a stored whole number stays one
    """The number of epochs that the program says it will train, 1.5 for one and a half; None if it does not say."""
    planned_iterations: int | None = None
    """The number of iterations that the program says it will train, if it counts in iterations."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The origin of the fields above, by the name of the field: a data loader, a loop, an argument, the user."""
    early_stopping: EarlyStopping | None = None

    parameters: int | None = None
    """Parameters that are trained."""
    frozen_parameters: int | None = None
    """Parameters that are in memory but are not trained, such as those under LoRA."""
    weight_bytes: int | None = None
    """All parameters and buffers as they are stored, quantised ones too; of the whole model where it is sharded."""
    weight_copy_bytes: int | None = None
    """Copies of weights in a smaller dtype, which autocast keeps through an iteration."""
    gradient_bytes: int | None = None
    """Gradients of the trained parameters; of the whole model where it is sharded."""
    optimizer: str | None = None
    optimizer_bytes: int | None = None
    """The state that the optimizer has after a step; of the whole model where it is sharded."""
    optimizer_foreach: bool | None = None
    """True if a step on a GPU takes all parameters at once, with temporary tensors as large as they are."""
    zero_stage: int = 0
    """The stage of ZeRO: the processes divide 1 the optimizer state, 2 gradients too, 3 weights too (FSDP)."""
    learning_rate_schedule: str | None = None
    """The name of the learning-rate scheduler."""
    learning_rate_plan: tuple[float, ...] = ()
    """The learning rate that the scheduler gives at the start of each epoch that the program would train; of some
    hundred epochs if the number of epochs is unknown."""
    gradient_noise: float | None = None
    """The variance of the gradient of one batch divided by the square of its mean, at this batch size."""
    activation_bytes: int | None = None
    """The memory that the forward pass retains for the backward pass, at this batch size."""
    memory_moments: tuple[MemoryMoment, ...] = ()
    """Moments of the forward and backward pass that could be its peak at some batch size; empty if not traced."""
    peak_host_bytes: int | None = None
    peak_device_bytes: int | None = None
    sent_bytes: int | None = None
    """Bytes that this process sends to the network in a steady iteration."""
    received_bytes: int | None = None
    """Bytes that this process receives from the network in a steady iteration."""
    cpu_use: float | None = None
    """The mean number of busy cores over the measured iterations, without the workers of loaders."""
    cpu_queue_share: float | None = None
    """The share of the measured time in which the program's main thread was ready to run and had to wait for a CPU that
    others used; None if unknown."""
    threads: int | None = None
    """The threads that the framework computes with on the CPU; None if unknown."""
    loader_workers: int | None = None
    """The processes of the loader that prepare batches; 0 if the program prepares them itself."""
    loader_cpu_seconds: float | None = None
    """The CPU time that these processes use for one iteration; None if unknown."""
    gpu_use: float | None = None
    """The share of the measured time in which the GPU computed."""
    compile_seconds: float | None = None
    compile_cache_warm: bool | None = None
    """True if compiled code of an earlier run was reused; a rented machine has none."""

    init_seconds: float | None = None
    iteration_seconds: tuple[float, ...] = ()
    """The time of every iteration from the first on, each measured from the end of the previous one, without
    validation. Empty only for a past run that left no times."""
    run_seconds: float | None = None
    """The wall time of a past run from its start to its end."""
    run_iterations: int | None = None
    """The number of iterations in `run_seconds`."""
    data_wait_seconds: tuple[float, ...] = ()
    """The time that each iteration waited for data: one entry for each of `iteration_seconds`, or empty."""
    validation_seconds: tuple[float, ...] = ()
    checkpoint_seconds: tuple[float, ...] = ()
    loss: tuple[float | None, ...] = ()
    """The loss of each iteration; None if it was not finite."""
    learning_rate: tuple[float | None, ...] = ()
    """The learning rate of each iteration, for the first parameter group."""
    curve: tuple[Epoch, ...] = ()
    """The epochs that the run completed."""
    operations: tuple[Operation, ...] = ()
    """The kernels that one iteration launches; empty if it was not traced."""
    operator_seconds: Mapping[str, float] = field(default_factory=dict)
    """The time of the device in one iteration for each operator, by the framework's names; empty on a CPU, and if it
    was not measured."""
    operator_host_seconds: Mapping[str, float] = field(default_factory=dict)
    """The time of the host in one iteration for each operator."""

    def __post_init__(self) -> None:
        require_text(id=self.id, framework=self.framework)
        require_aware(measured_at=self.measured_at)
        require_positive(
            world_size=self.world_size,
            micro_batch_size=self.micro_batch_size,
            accumulation_steps=self.accumulation_steps,
            samples=self.samples,
            iterations_per_epoch=self.iterations_per_epoch,
            validation_samples=self.validation_samples,
            epochs=self.epochs,
            tokens_per_sample=self.tokens_per_sample,
            planned_iterations=self.planned_iterations,
            parameters=self.parameters,
            run_seconds=self.run_seconds,
            run_iterations=self.run_iterations,
            threads=self.threads,
        )
        require_not_negative(
            init_seconds=self.init_seconds,
            frozen_parameters=self.frozen_parameters,
            weight_bytes=self.weight_bytes,
            weight_copy_bytes=self.weight_copy_bytes,
            gradient_bytes=self.gradient_bytes,
            optimizer_bytes=self.optimizer_bytes,
            activation_bytes=self.activation_bytes,
            peak_host_bytes=self.peak_host_bytes,
            peak_device_bytes=self.peak_device_bytes,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
            cpu_use=self.cpu_use,
            cpu_queue_share=self.cpu_queue_share,
            loader_workers=self.loader_workers,
            loader_cpu_seconds=self.loader_cpu_seconds,
            gpu_use=self.gpu_use,
            compile_seconds=self.compile_seconds,
            gradient_noise=self.gradient_noise,
        )
        if self.zero_stage not in range(4):
            raise ValueError(f"zero_stage must be from 0 to 3, got {self.zero_stage}")
        if not self.iteration_seconds and self.origin in ("probe", "code"):
            raise ValueError("iteration_seconds must hold at least the first iteration")
        for seconds in self.iteration_seconds:
            require_positive(iteration_seconds=seconds)
        for rate in self.learning_rate_plan:
            require_not_negative(learning_rate_plan=rate)
        for seconds in (
            *self.data_wait_seconds,
            *self.validation_seconds,
            *self.checkpoint_seconds,
            *self.operator_seconds.values(),
            *self.operator_host_seconds.values(),
        ):
            require_not_negative(seconds=seconds)
        if self.data_wait_seconds and len(self.data_wait_seconds) != len(self.iteration_seconds):
            raise ValueError("data_wait_seconds must have one entry for each iteration, or none")
        if any(value is not None and not math.isfinite(value) for value in (*self.loss, *self.learning_rate)):
            raise ValueError("loss and learning_rate must be finite or None")
        numbers = [epoch.number for epoch in self.curve]
        if numbers != sorted(set(numbers)):
            raise ValueError("curve must have each epoch once, in order")

    @property
    def effective_batch_size(self) -> int | None:
        """Samples of one iteration, which is one step of the optimizer: micro batch × accumulation × processes."""
        if self.micro_batch_size is None:
            return None
        return self.micro_batch_size * self.accumulation_steps * self.world_size

    @property
    def tokens_per_iteration(self) -> int | None:
        """Tokens of one iteration of a language model; None if it is none, or if the batch size is unknown."""
        size = self.effective_batch_size
        return None if size is None or self.tokens_per_sample is None else size * self.tokens_per_sample

    @property
    def total_parameters(self) -> int | None:
        """Trained and frozen parameters; None if the trained ones are unknown."""
        return None if self.parameters is None else self.parameters + (self.frozen_parameters or 0)

    @property
    def first_iteration_seconds(self) -> float | None:
        return self.iteration_seconds[0] if self.iteration_seconds else None

    @property
    def median_data_wait_seconds(self) -> float:
        """The median wait for data of the iterations after the first; 0 if waits were not measured."""
        waits = sorted(self.data_wait_seconds[1:])
        return waits[len(waits) // 2] if waits else 0.0

    @property
    def steady_iteration_seconds(self) -> tuple[float, ...]:
        """The times of all iterations but the first, which also loads libraries, allocates memory and compiles."""
        return self.iteration_seconds[1:]
