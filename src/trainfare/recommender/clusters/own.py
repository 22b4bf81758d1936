"""Our own choice of a cluster, by predicted time and cost, beside what FC2's algorithms recommend.

FC2 counts by prices and bandwidth and predicts no time. Here every allowed number n of workers of every type has a
predicted training, behind each server and without one, and the cheapest and the fastest are taken. With t what a
worker computes, k = 2·S/B what one worker's gradient and weights take on the server's network, c_ps and c_t the prices:

    time  ∝ t/n + k                      of a server that waits for all; each worker keeps its batch
    cost  ∝ (c_ps + n·c_t)·(t/n + k)     least at n = √(c_ps·t/(c_t·k)); without a server, at one worker

So more workers always take less time, down to k, and soon cost more. What a recommendation loses is told in three ways:
cost above the cheapest of all, time above the fastest of all, and cost above the cheapest that is as fast. Only the
last is lost for nothing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from trainfare.model.cluster import Cluster, ClusterLimit, RatedCluster, Server, ClusterEstimate, Worker
from trainfare.units import format_duration, format_usd

WORTH_SAYING = 0.01
"""A loss below this share is none."""

MOST_WORKERS = 128
"""Of one type that are looked at: a budget may pay for thousands of a cheap one."""

OURS = "ours, "
"""What our own choices are called begins so."""


def counts(server: Server | None, worker: Worker, limit: ClusterLimit) -> range:
    """How many workers of a type the limit allows, one first."""
    most = min(MOST_WORKERS, limit.workers or MOST_WORKERS)
    if limit.usd_per_hour is not None:
        left = limit.usd_per_hour - (server.usd_per_hour if server else 0.0)
        most = min(most, math.floor(left / worker.usd_per_hour * (1 + 1e-12) + 1e-12))
    return range(1, most + 1)


def cheapest(trained: Iterable[ClusterEstimate]) -> ClusterEstimate:
    """Of equal ones the fastest."""
    return min(trained, key=lambda one: (one.usd.value, one.seconds.value))


def fastest(trained: Iterable[ClusterEstimate]) -> ClusterEstimate:
    """Of equal ones the cheapest."""
    return min(trained, key=lambda one: (one.seconds.value, one.usd.value))


def beside(fc2: Sequence[Cluster], trained: Sequence[ClusterEstimate]) -> tuple[RatedCluster, ...]:
    """FC2's answers first, then ours; of ours each cluster once. `trained` is all that the limit allows."""
    if not trained:
        return ()
    found = {_key(one.server, one.worker, one.workers): one for one in trained}
    return (
        *(_rated(each.algorithm, each.server, each.worker, each.workers, found, trained) for each in fc2),
        *(_rated(by, one.server, one.worker, one.workers, found, trained) for by, one in _ours(trained)),
    )


def _ours(trained: Sequence[ClusterEstimate]) -> Iterator[tuple[str, ClusterEstimate]]:
    """Of all, then of those with a server; what was named already is not named again."""
    named = []
    for which, of in (("", trained), (" with a server", [one for one in trained if one.server is not None])):
        if not of:
            continue
        least, quickest = cheapest(of), fastest(of)
        both = [("cheapest and fastest", least)] if least == quickest else [("cheapest", least), ("fastest", quickest)]
        for what, one in both:
            if one not in named:
                named.append(one)
                yield f"{OURS}{what}{which}", one


def own_reasons(rated: Sequence[RatedCluster]) -> tuple[str, ...]:
    """What FC2's answers lose, in sentences; nothing of those that lose nothing worth a sentence."""
    said = []
    seen: dict[tuple[object, ...], list[str]] = {}
    for each in rated:
        if not each.by.startswith(OURS):
            seen.setdefault(_key(each.server, each.worker, each.workers), []).append(each.by)
    for each in rated:
        alike = seen.pop(_key(each.server, each.worker, each.workers), [])
        lost, better = each.over_as_fast, each.as_fast
        if not alike or each.trained is None or better is None or lost is None or lost < WORTH_SAYING:
            continue
        said.append(
            f"{' and '.join(alike)}: {cluster_words(each)} costs {format_usd(each.trained.usd.value)}; "
            f"{cluster_words(better)} takes no longer ({format_duration(better.seconds.value)} against "
            f"{format_duration(each.trained.seconds.value)}) and costs {format_usd(better.usd.value)}, "
            f"{100 * (1 - 1 / (1 + lost)):.0f} % less"
        )
    return tuple(said)


def cluster_words(one: ClusterEstimate | RatedCluster | Cluster) -> str:
    many = f"{one.workers} × {one.worker.name}"
    if one.server is not None:
        return f"{many} behind {one.server.name}"
    return f"{many}, no server" if one.workers > 1 else f"{many} alone"


def _rated(
    by: str,
    server: Server | None,
    worker: Worker,
    workers: int,
    found: "dict[tuple[object, ...], ClusterEstimate]",
    trained: Sequence[ClusterEstimate],
) -> RatedCluster:
    mine = found.get(_key(server, worker, workers))
    return RatedCluster(
        by=by,
        server=server,
        worker=worker,
        workers=workers,
        trained=mine,
        as_fast=cheapest(t for t in trained if t.seconds.value <= mine.seconds.value) if mine else None,
        over_cheapest=mine.usd.value / cheapest(trained).usd.value - 1 if mine else None,
        over_fastest=mine.seconds.value / fastest(trained).seconds.value - 1 if mine else None,
    )


def _key(server: Server | None, worker: Worker, workers: int) -> tuple[object, ...]:
    return server and server.name, worker.name, workers
