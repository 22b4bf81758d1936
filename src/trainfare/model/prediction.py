"""The predicted time of one iteration on a machine, its parts, and what the prediction is based on."""

import math
from dataclasses import dataclass

from trainfare.errors import NotFiniteError
from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.estimate import Basis, Bottleneck, MemoryFit
from trainfare.model.evidence import Evidence
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationPart:
    """One part of an iteration: a class of operators, the host, data loading or the network."""

    name: str
    seconds: float
    limited_by: Bottleneck

    def __post_init__(self) -> None:
        if self.name.isascii() and self.name.strip() and 0 <= self.seconds < math.inf:
            return  # thousands are made for one table
        require_text(name=self.name)
        if not math.isfinite(self.seconds):
            raise NotFiniteError(f"The part `{self.name}` of an iteration", self.seconds)
        require_not_negative(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One training iteration at `batch_size`, shared by all `nodes` × `gpus`."""

    vm_type: VmType
    gpus: int
    """GPUs of each node that share the work; 0 on a machine without GPUs."""
    nodes: int
    batch_size: int | None
    basis: Basis
    iteration_seconds: Interval
    limited_by: Bottleneck | None
    parts: tuple[IterationPart, ...]
    """The parts that the model distinguishes, longest first; where parts overlap, their sum exceeds the iteration."""
    evidence: tuple[Evidence, ...]
    """The measurements behind the prediction."""
    memory: MemoryFit | None = None
    tokens_per_sample: int | None = None
    """The length of the sequences of a language model."""

    def __post_init__(self) -> None:
        require_positive(
            nodes=self.nodes,
            batch_size=self.batch_size,
            seconds=self.iteration_seconds.value,
            tokens_per_sample=self.tokens_per_sample,
        )
        require_not_negative(gpus=self.gpus)

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput of a language model; None if it is none, or if the batch size is unknown."""
        rate = self.samples_per_second
        return None if rate is None or self.tokens_per_sample is None else rate.value * self.tokens_per_sample

    @property
    def samples_per_second(self) -> Interval | None:
        """Throughput of all GPUs together; None if the batch size is unknown."""
        if self.batch_size is None or self.iteration_seconds.low <= 0:
            return None
        return Interval(
            value=self.batch_size / self.iteration_seconds.value,
            low=self.batch_size / self.iteration_seconds.high,
            high=self.batch_size / self.iteration_seconds.low,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """Limits of the batch size on one GPU: up to `fits` samples fit, more than `at_most` do not; between is tight."""

    fits: int
    at_most: int

    def __post_init__(self) -> None:
        require_not_negative(fits=self.fits, at_most=self.at_most - self.fits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWorkers:
    """A step of `workers` GPUs behind one parameter server, each with the requested batch; times in seconds."""

    workers: int
    synchronous: float
    """The server waits for all workers in every step."""
    asynchronous: float
    """No worker waits for another."""
    knee: float
    """The number of workers from which on the server's network is always busy."""
    saturated: bool
    """There are at least `knee` workers: one more adds almost no throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReport:
    """The requested prediction, with predictions for other batch sizes and numbers of GPUs."""

    prediction: Prediction
    batches: tuple[Prediction, ...]
    """The same GPUs at other batch sizes, smallest first; sizes that do not fit in memory are included."""
    strong: tuple[Prediction, ...]
    """Strong scaling: more GPUs and nodes of the type at the same global batch size."""
    weak: tuple[Prediction, ...]
    """Weak scaling: more GPUs and nodes of the type at the same batch size per GPU."""
    served: tuple[ServedWorkers, ...]
    """Workers behind a parameter server; empty unless the network of a server is given."""
    largest_batch: LargestBatch | None
    """The largest batch of one GPU; None if memory use is unknown."""
    saturation_batch: float | None
    """The batch size at which one GPU reaches 90% of its highest throughput."""
    profiles: tuple[Profile, ...]
    remarks: tuple[str, ...]
