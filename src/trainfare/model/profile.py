"""Facts measured in one short run of a Program on one machine."""

import math
from dataclasses import dataclass
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
]

Ending = Literal["enough", "finished", "interrupted", "failed", "stalled"]
"""Why measuring ended: enough was seen; the program finished, was interrupted, failed or stood still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A kernel launched `count` times in one iteration, each time with this much work."""

    kind: OperationKind
    dtype: str
    flops: float
    bytes: float
    count: int = 1

    def __post_init__(self) -> None:
        require_text(dtype=self.dtype)
        require_not_negative(flops=self.flops, bytes=self.bytes)
        require_positive(count=self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one short run showed. None and empty mean that the run could not tell, never zero."""

    id: str
    program: Program
    host: Host
    measured_at: datetime
    ending: Ending = "enough"

    framework: str
    framework_version: str | None = None
    device: Literal["cpu", "cuda", "mps", "xpu", "tpu"] | None = None
    dtype: str | None = None
    world_size: int = 1

    batch_size: int | None = None
    samples: int | None = None
    iterations_per_epoch: int | None = None
    epochs: int | None = None
    """How many the program says it will train; None where it does not say."""

    parameters: int | None = None
    gradient_bytes: int | None = None
    optimizer: str | None = None
    optimizer_bytes: int | None = None
    activation_bytes: int | None = None
    """What the forward pass keeps for the backward pass, at this batch size."""
    peak_host_bytes: int | None = None
    peak_device_bytes: int | None = None

    init_seconds: float | None = None
    iteration_seconds: tuple[float, ...]
    """Every iteration from the first on, each from the end of the one before; validation is not in them."""
    data_wait_seconds: tuple[float, ...] = ()
    """The part of each iteration that waited for data; as long as `iteration_seconds`, or empty."""
    validation_seconds: tuple[float, ...] = ()
    loss: tuple[float | None, ...] = ()
    """One an iteration; None where it was not a finite number."""
    operations: tuple[Operation, ...] = ()
    """What one iteration launches: empty where it was not traced."""

    def __post_init__(self) -> None:
        require_text(id=self.id, framework=self.framework)
        require_aware(measured_at=self.measured_at)
        require_positive(
            world_size=self.world_size,
            batch_size=self.batch_size,
            samples=self.samples,
            iterations_per_epoch=self.iterations_per_epoch,
            epochs=self.epochs,
            parameters=self.parameters,
        )
        require_not_negative(
            init_seconds=self.init_seconds,
            gradient_bytes=self.gradient_bytes,
            optimizer_bytes=self.optimizer_bytes,
            activation_bytes=self.activation_bytes,
            peak_host_bytes=self.peak_host_bytes,
            peak_device_bytes=self.peak_device_bytes,
        )
        if not self.iteration_seconds:
            raise ValueError("iteration_seconds must hold at least the first iteration")
        for seconds in self.iteration_seconds:
            require_positive(iteration_seconds=seconds)
        for seconds in (*self.data_wait_seconds, *self.validation_seconds):
            require_not_negative(seconds=seconds)
        if self.data_wait_seconds and len(self.data_wait_seconds) != len(self.iteration_seconds):
            raise ValueError("data_wait_seconds must have one entry an iteration, or none")
        if any(value is not None and not math.isfinite(value) for value in self.loss):
            raise ValueError("loss must be finite or None")

    @property
    def first_iteration_seconds(self) -> float:
        return self.iteration_seconds[0]

    @property
    def steady_iteration_seconds(self) -> tuple[float, ...]:
        """All but the first, which also loads libraries, allocates and compiles."""
        return self.iteration_seconds[1:]
