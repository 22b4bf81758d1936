"""A parameter server and its workers, or workers alone: what may be taken, what is allowed, what was recommended."""

from dataclasses import dataclass
from typing import Literal, get_args

from trainfare.model.checks import require_positive, require_text
from trainfare.model.estimate import Basis
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

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
class ClusterLimit:
    """What the user allows: dollars an hour for the server and all workers, a number of workers, or both."""

    usd_per_hour: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        require_positive(usd_per_hour=self.usd_per_hour, workers=self.workers)
        if self.usd_per_hour is None and self.workers is None:
            raise ValueError("a cluster needs a budget or a largest number of workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredWorker:
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
    limit: ClusterLimit
    considered: tuple[ConsideredWorker, ...]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEstimate:
    """A belief: how long the training takes on so many workers of one type, and what it costs.

    Boot and setup are not in it: they take as long for all clusters, though many machines pay more for them.
    """

    server: Server | None
    """None: the workers add up their gradients among themselves; one worker trains alone."""
    worker: Worker
    workers: int
    seconds: Interval
    basis: Basis

    def __post_init__(self) -> None:
        require_positive(workers=self.workers, seconds=self.seconds.value)

    @property
    def usd_per_hour(self) -> float:
        return (self.server.usd_per_hour if self.server else 0.0) + self.workers * self.worker.usd_per_hour

    @property
    def usd(self) -> Interval:
        return self.seconds * (self.usd_per_hour / SECONDS_PER_HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedCluster:
    """What somebody recommends, and what was to be had in its place; of what is not predicted, nothing is said."""

    by: str
    """An algorithm of FC2, or which of ours."""
    server: Server | None
    worker: Worker
    workers: int
    trained: ClusterEstimate | None
    as_fast: ClusterEstimate | None
    """The cheapest of all that take no longer: itself, where there is none better."""
    over_cheapest: float | None
    """What it costs above the cheapest of all, as a share of that; likewise in time above the fastest."""
    over_fastest: float | None

    @property
    def usd_per_hour(self) -> float:
        return (self.server.usd_per_hour if self.server else 0.0) + self.workers * self.worker.usd_per_hour

    @property
    def over_as_fast(self) -> float | None:
        """What it costs above the cheapest that is as fast: what is lost for nothing."""
        if self.trained is None or self.as_fast is None:
            return None
        return self.trained.usd.value / self.as_fast.usd.value - 1
