"""Our own choice of a cluster by predicted time and cost, compared with the choices of FC2's algorithms.

FC2 counts by prices and bandwidth and predicts no time. Here the time of the training is predicted for every allowed
number n of workers of every type, behind each server and without one, and the cheapest and the fastest are chosen. With
t the computing time of one worker, k = 2·S/B the time of one worker's gradient and weights on the server's network, and
c_ps and c_t the prices:

    time  ∝ t/n + k                      behind a server that waits for all; each worker keeps its batch
    cost  ∝ (c_ps + n·c_t)·(t/n + k)     least at n = √(c_ps·t/(c_t·k)); without a server, at one worker

So more workers always take less time, down to k, and soon cost more. The loss of a recommendation is given in three
ways: cost above the cheapest cluster, time above the fastest, and cost above the cheapest that is as fast. Only the
last is a pure loss.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainfare.model.cluster import (
    OURS,
    Cluster,
    ClusterEstimate,
    ClusterLimit,
    RatedCluster,
    Server,
    Worker,
)
from trainfare.model.reason import Reason
from trainfare.recommender.clusters.fc2 import round_down

MIN_LOSS = 0.01
"""A loss below this share is not mentioned."""

MAX_WORKERS = 128
"""Workers of one type that are considered; a budget may pay for thousands of a cheap type."""

ClusterKey = tuple[str | None, str, int]
"""The names of server and worker, and the number of workers."""


def worker_counts(server: Server | None, worker: Worker, limit: ClusterLimit) -> range:
    """The numbers of workers of a type that the limit allows, from one on."""
    most = min(MAX_WORKERS, limit.workers or MAX_WORKERS)
    if limit.usd_per_hour is not None:
        left = limit.usd_per_hour - (server.usd_per_hour if server else 0.0)
        most = min(most, round_down(left / worker.usd_per_hour))
    return range(1, most + 1)


def cheapest(estimates: Iterable[ClusterEstimate]) -> ClusterEstimate:
    """The cheapest cluster; of equal ones the fastest."""
    return min(estimates, key=lambda one: (one.usd.value, one.seconds.value))


def fastest(estimates: Iterable[ClusterEstimate]) -> ClusterEstimate:
    """The fastest cluster; of equal ones the cheapest."""
    return min(estimates, key=lambda one: (one.seconds.value, one.usd.value))


def rate_clusters(fc2: Sequence[Cluster], estimates: Sequence[ClusterEstimate]) -> tuple[RatedCluster, ...]:
    """The choices of FC2 first, then ours, each of ours once. `estimates` are all clusters that the limit allows."""
    if not estimates:
        return ()
    by_key = {_key(one.server, one.worker, one.workers): one for one in estimates}
    return (
        *(_rate(each.algorithm, each.server, each.worker, each.workers, by_key, estimates) for each in fc2),
        *(_rate(by, one.server, one.worker, one.workers, by_key, estimates) for by, one in _our_choices(estimates)),
    )


def _our_choices(estimates: Sequence[ClusterEstimate]) -> Iterator[tuple[str, ClusterEstimate]]:
    """The cheapest and the fastest of all, then of those with a server; each cluster once."""
    named = []
    with_server = [one for one in estimates if one.server is not None]
    for suffix, group in (("", estimates), (" with a server", with_server)):
        if not group:
            continue
        least, quickest = cheapest(group), fastest(group)
        both = [("cheapest and fastest", least)] if least == quickest else [("cheapest", least), ("fastest", quickest)]
        for name, one in both:
            if one not in named:
                named.append(one)
                yield f"{OURS}{name}{suffix}", one


def rating_reasons(rated: Sequence[RatedCluster]) -> tuple[Reason, ...]:
    """The pure losses of FC2's choices, the same choice of several algorithms once."""
    found = []
    algorithms: dict[ClusterKey, list[str]] = {}
    for each in rated:
        if not each.is_ours:
            algorithms.setdefault(_key(each.server, each.worker, each.workers), []).append(each.by)
    for each in rated:
        names = algorithms.pop(_key(each.server, each.worker, each.workers), [])
        loss, better = each.cost_over_as_fast, each.cheapest_as_fast
        if not names or each.estimate is None or better is None or loss is None or loss < MIN_LOSS:
            continue
        found.append(
            Reason(
                topic="why",
                code="cheaper_cluster_as_fast",
                values={
                    "algorithms": tuple(names),
                    **_values("chosen", each.estimate),
                    **_values("better", better),
                    "saved_share": 1 - 1 / (1 + loss),
                },
            )
        )
    return tuple(found)


def _values(prefix: str, one: ClusterEstimate) -> dict[str, str | int | float | None]:
    return {
        f"{prefix}_workers": one.workers,
        f"{prefix}_worker": one.worker.name,
        f"{prefix}_server": None if one.server is None else one.server.name,
        f"{prefix}_seconds": one.seconds.value,
        f"{prefix}_usd": one.usd.value,
    }


def _rate(
    by: str,
    server: Server | None,
    worker: Worker,
    workers: int,
    by_key: Mapping[ClusterKey, ClusterEstimate],
    estimates: Sequence[ClusterEstimate],
) -> RatedCluster:
    own = by_key.get(_key(server, worker, workers))
    return RatedCluster(
        by=by,
        server=server,
        worker=worker,
        workers=workers,
        estimate=own,
        cheapest_as_fast=cheapest(e for e in estimates if e.seconds.value <= own.seconds.value) if own else None,
        cost_over_cheapest=own.usd.value / cheapest(estimates).usd.value - 1 if own else None,
        time_over_fastest=own.seconds.value / fastest(estimates).seconds.value - 1 if own else None,
    )


def _key(server: Server | None, worker: Worker, workers: int) -> ClusterKey:
    return None if server is None else server.name, worker.name, workers
