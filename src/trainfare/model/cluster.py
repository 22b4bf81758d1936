"""A parameter server and its workers: what may be taken, what is allowed, and what was recommended."""

from dataclasses import dataclass
from typing import Literal, get_args

from trainfare.model.checks import require_positive, require_text

Algorithm = Literal["cost-opt", "time-opt", "scala-opt", "scala-opt-m"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A type that may be taken; `mbps` is b_t, of one worker with a server to itself, where it was measured."""

    name: str
    usd_per_hour: float
    mbps: float | None = None

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(usd_per_hour=self.usd_per_hour, mbps=self.mbps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A type that may hold the parameters; `mbps` is B_ps."""

    name: str
    usd_per_hour: float
    mbps: float

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(usd_per_hour=self.usd_per_hour, mbps=self.mbps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What the user allows: dollars an hour for the server and all workers, a number of workers, or both."""

    usd_per_hour: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        require_positive(usd_per_hour=self.usd_per_hour, workers=self.workers)
        if self.usd_per_hour is None and self.workers is None:
            raise ValueError("a cluster needs a budget or a largest number of workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """One type of worker: how many the network and the budget would allow; None where that is no bound."""

    worker: Worker
    by_network: int | None
    by_budget: int | None

    @property
    def workers(self) -> int | None:
        return min((n for n in (self.by_network, self.by_budget) if n is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The answer, with every type in the order in which it was considered."""

    algorithm: Algorithm
    server: Server
    worker: Worker
    workers: int
    fill: float
    """p: what of the server's network may be filled; 1 where the network does not count."""
    limit: Limit
    considered: tuple[Considered, ...]

    def __post_init__(self) -> None:
        require_positive(workers=self.workers)
        if not 0 < self.fill <= 1:
            raise ValueError(f"fill lies above 0 and not above 1, got {self.fill}")

    @property
    def usd_per_hour(self) -> float:
        return self.server.usd_per_hour + self.workers * self.worker.usd_per_hour

    @property
    def mbps(self) -> float | None:
        """What all workers together would send."""
        return None if self.worker.mbps is None else self.workers * self.worker.mbps
