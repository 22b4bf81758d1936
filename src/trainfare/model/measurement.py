"""Rows of published measurements, which the models are fitted to and tested on.

A row names its GPU as the catalog does; the readers in `measurements/` translate the names of the tables.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.profile import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredIteration:
    """One training iteration of a program, on one GPU or on several that add up their gradients."""

    source: str
    """The table that the row comes from, such as `rented_gpus`."""
    program: str
    family: str
    """The family of programs with a similar architecture: a measurement of one nearly predicts the others."""
    gpu: str
    dtype: str
    batch_size: float
    """The batch size of one GPU."""
    seconds: float
    """Time of one iteration; of one sample, or of one unit of the program's throughput, if only that is known."""
    gpus: int = 1
    nodes: int = 1
    machine: str | None = None
    """Distinguishes several machines with the same GPU."""
    operations: tuple[Operation, ...] = ()
    gradient_bytes: float | None = None
    """The gradients that several GPUs add up in every iteration; None if the size is unknown."""
    network_gb_per_second: float | None = None
    """Between nodes."""

    def __post_init__(self) -> None:
        require_text(source=self.source, program=self.program, family=self.family, gpu=self.gpu, dtype=self.dtype)
        require_positive(batch_size=self.batch_size, seconds=self.seconds, gpus=self.gpus, nodes=self.nodes)
        require_positive(gradient_bytes=self.gradient_bytes, network_gb_per_second=self.network_gb_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProfile:
    """One training step on one machine type, with the device time and the host time of each operator by name."""

    program: str
    family: str
    vm_type: str
    """The provider's name, such as `p3.2xlarge`."""
    gpu: str
    batch_size: float
    image_side: int
    optimizer: str
    seconds: float
    """Wall time of a step."""
    device_seconds: Mapping[str, float] = field(default_factory=dict)
    host_seconds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text(program=self.program, family=self.family, vm_type=self.vm_type, gpu=self.gpu)
        require_positive(batch_size=self.batch_size, image_side=self.image_side, seconds=self.seconds)
        for name, seconds in {**self.device_seconds, **self.host_seconds}.items():
            require_not_negative(**{name: seconds})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLayer:
    """A single layer on one GPU; a dense layer is a convolution of one pixel with a kernel of one."""

    kind: Literal["convolution", "dense"]
    gpu: str
    batch_size: int
    channels_in: int
    channels_out: int
    seconds: float
    side: int = 1
    """Size of the input plane."""
    kernel: int = 1
    stride: int = 1
    padded: bool = False
    bias: bool = False
    activation: str | None = None
    optimizer: str | None = None
    """The optimizer; None for the forward pass alone."""
    dtype: str = "float32"

    def __post_init__(self) -> None:
        require_text(gpu=self.gpu, dtype=self.dtype)
        require_positive(
            batch_size=self.batch_size,
            channels_in=self.channels_in,
            channels_out=self.channels_out,
            seconds=self.seconds,
            side=self.side,
            kernel=self.kernel,
            stride=self.stride,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """All rows of a folder of tables, by the model that is fitted to them; missing tables are empty."""

    traced: tuple[MeasuredIteration, ...] = ()
    """Iterations on one GPU, with their operations."""
    programs: tuple[MeasuredIteration, ...] = ()
    """Iterations on one GPU, known by their times alone."""
    clusters: tuple[MeasuredIteration, ...] = ()
    """Iterations on one GPU and on several that add up their gradients."""
    operators: tuple[OperatorProfile, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rows of each table."""
        counts = Counter(row.source for row in (*self.traced, *self.programs, *self.clusters))
        return {**counts, **({"cnn_on_ec2": len(self.operators)} if self.operators else {})}
