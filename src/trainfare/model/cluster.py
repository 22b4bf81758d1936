"""Clusters of a parameter server and workers, or of workers alone: their types, their limits and their ratings."""

from dataclasses import dataclass
from typing import Literal, get_args

from trainfare.model.checks import require_positive, require_text
from trainfare.model.estimate import Basis
from trainfare.model.interval import Interval
from trainfare.model.reason import Reason
from trainfare.units import SECONDS_PER_HOUR

Algorithm = Literal["cost-opt", "time-opt", "scala-opt", "scala-opt-m"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
OURS = "ours, "
"""The start of the names of our own choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A type of worker; `mbps` is b_t, the traffic of one worker that has a server to itself, if it was measured."""

    name: str
    usd_per_hour: float
    mbps: float | None = None

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(usd_per_hour=self.usd_per_hour, mbps=self.mbps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A type of parameter server; `mbps` is B_ps, its bandwidth."""

    name: str
    usd_per_hour: float
    mbps: float

    def __post_init__(self) -> None:
        require_text(name=self.name)
        require_positive(usd_per_hour=self.usd_per_hour, mbps=self.mbps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimit:
    """The user's limits: dollars an hour for the server and all workers, a number of workers, or both."""

    usd_per_hour: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        require_positive(usd_per_hour=self.usd_per_hour, workers=self.workers)
        if self.usd_per_hour is None and self.workers is None:
            raise ValueError("a cluster needs a budget or a maximum number of workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredWorker:
    """One type of worker, and the number of them that the network and the budget allow; None means no bound."""

    worker: Worker
    by_network: int | None
    by_budget: int | None

    @property
    def workers(self) -> int | None:
        """The number that both allow."""
        return min((n for n in (self.by_network, self.by_budget) if n is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that an algorithm chose, with every type in the order in which it was considered."""

    algorithm: Algorithm
    server: Server
    worker: Worker
    workers: int
    fill: float
    """p: the share of the server's network that may be used; 1 if the algorithm ignores the network."""
    limit: ClusterLimit
    considered: tuple[ConsideredWorker, ...]

    def __post_init__(self) -> None:
        require_positive(workers=self.workers)
        if not 0 < self.fill <= 1:
            raise ValueError(f"fill must lie above 0 and not above 1, got {self.fill}")

    @property
    def usd_per_hour(self) -> float:
        return self.server.usd_per_hour + self.workers * self.worker.usd_per_hour

    @property
    def mbps(self) -> float | None:
        """The traffic of all workers together; None if it was not measured."""
        return None if self.worker.mbps is None else self.workers * self.worker.mbps


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEstimate:
    """The predicted time and cost of a training on a number of workers of one type.

    Boot and setup are left out: they take equally long for all clusters, though more machines pay more for them.
    """

    server: Server | None
    """The parameter server; None if the workers sum their gradients among themselves, or one worker trains alone."""
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
    """A recommended cluster, compared with the best alternatives; the comparisons are None if its time is not
    predicted."""

    by: str
    """The name of the algorithm: one of FC2, or one of ours, which begins with `OURS`."""
    server: Server | None
    worker: Worker
    workers: int
    estimate: ClusterEstimate | None
    cheapest_as_fast: ClusterEstimate | None
    """The cheapest cluster that takes no longer; the recommended cluster itself if none is cheaper."""
    cost_over_cheapest: float | None
    """The cost above that of the cheapest cluster, as a share of the latter."""
    time_over_fastest: float | None
    """The time above that of the fastest cluster, as a share of the latter."""

    @property
    def is_ours(self) -> bool:
        return self.by.startswith(OURS)

    @property
    def usd_per_hour(self) -> float:
        return (self.server.usd_per_hour if self.server else 0.0) + self.workers * self.worker.usd_per_hour

    @property
    def cost_over_as_fast(self) -> float | None:
        """The cost above that of the cheapest cluster that is as fast, as a share of the latter: pure loss."""
        if self.estimate is None or self.cheapest_as_fast is None:
            return None
        return self.estimate.usd.value / self.cheapest_as_fast.usd.value - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAdvice:
    """The recommended cluster, the reasons for it, and its rating by predicted time and cost."""

    cluster: Cluster
    reasons: tuple[Reason, ...]
    epochs: int | None = None
    """The number of epochs of the predictions; None if nothing can be predicted."""
    rated: tuple[RatedCluster, ...] = ()
    """The choices of each algorithm of FC2 and ours, by our predictions; empty if nothing can be predicted."""
    remarks: tuple[Reason, ...] = ()
    """Remarks on the predictions."""
