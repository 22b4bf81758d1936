"""A belief about one iteration on one kind of machine: how long, what it is made of, what it leans on."""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.estimate import Basis, Limit, MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a share of the iteration goes to: a class of operators, the host, data, the network."""

    name: str
    seconds: float
    limited_by: Limit

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_not_negative(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One training iteration at `batch_size`, of all `nodes` × `gpus` together."""

    vm_type: VmType
    gpus: int
    """Of each node, that share the work; 0 where the machine has none."""
    nodes: int
    batch_size: int | None
    basis: Basis
    iteration_seconds: Interval
    limited_by: Limit | None
    parts: tuple[Part, ...]
    """Of what the model reckons with, longest first; where things overlap their sum is more than the iteration."""
    leans_on: tuple[str, ...]
    """The measurements behind it, a sentence each."""
    memory: MemoryFit | None = None

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes, batch_size=self.batch_size, seconds=self.iteration_seconds.value)
        require_not_negative(gpus=self.gpus)

    @property
    def samples_per_second(self) -> Interval | None:
        """None where nobody knows how many samples an iteration has."""
        if self.batch_size is None or self.iteration_seconds.low <= 0:
            return None
        return Interval(
            value=self.batch_size / self.iteration_seconds.value,
            low=self.batch_size / self.iteration_seconds.high,
            high=self.batch_size / self.iteration_seconds.low,
        )
