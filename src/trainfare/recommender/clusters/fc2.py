"""The number and the type of workers behind one parameter server: the four algorithms of FC2 (Ta 2019, section 5.2).

One server, workers of one type. C is the hourly budget, c_ps and c_t the hourly prices of the server and of a worker of
type t, B_ps the bandwidth of the server, b_t the traffic of one worker of type t, p < 1 the share of the bandwidth that
may be used.

    Cost-Opt     the cheapest type;        n = (C − c_ps)/c_t
    Time-Opt     the most expensive type;  n = (C − c_ps)/c_t
    Scala-Opt    n_t = min{B_ps·p/b_t, (C − c_ps)/c_t} for every type, the most expensive first; the smallest n_t wins,
                 and of equal numbers the first: a type that uses the bandwidth with few workers is a fast one
    Scala-Opt-M  the same n for the type that the user names

n is rounded down. Instead of C (or with it) a maximum number of workers may be given. Cost-Opt and Time-Opt then use
that number. For Scala-Opt the document gives no formula for it; here the types are compared first and the number of the
winner is cut to the maximum, because only this reproduces the document's recommendations behind a large server: if the
numbers were cut before the comparison, every type would have the maximum, and the most expensive would win.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainfare.errors import InfeasibleError
from trainfare.model.checks import require_positive
from trainfare.model.cluster import Algorithm, Cluster, ClusterLimit, ConsideredWorker, Server, Worker
from trainfare.model.reason import Reason, Scalar
from trainfare.units import SECONDS_PER_HOUR, format_number, format_usd

FILL = 0.95
"""p, as in the experiments of the document (its section 7.2); its section 5.2 suggests 0.8 as an example."""


def widest_server(servers: Sequence[Server]) -> Server:
    """The server with the largest bandwidth; of equal ones the cheapest."""
    return min(servers, key=lambda server: (-server.mbps, server.usd_per_hour))


def cost_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    """The cheapest type, with as many workers as the limit allows. The bandwidth is ignored."""
    return _by_price("cost-opt", server, sorted(workers, key=lambda worker: worker.usd_per_hour), limit)


def time_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    """The most expensive type, with as many workers as the limit allows: a higher price is taken as a higher speed. The
    bandwidth is ignored."""
    return _by_price("time-opt", server, _most_expensive_first(workers), limit)


def scala_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit, *, fill: float = FILL) -> Cluster:
    """The type that needs the fewest workers to use the server's bandwidth within the budget."""
    if not 0 < fill <= 1:
        raise ValueError(f"p must lie above 0 and not above 1, got {fill}")
    considered = tuple(
        ConsideredWorker(
            worker=worker,
            by_network=_workers_by_network(server, worker, fill),
            by_budget=_workers_by_budget(server, worker, limit),
        )
        for worker in _most_expensive_first(workers)
    )
    chosen: ConsideredWorker | None = None
    for each in considered:
        n = each.workers
        if not n:
            # A type without a single affordable worker is no answer; the document's experiments have none.
            continue
        if chosen is None or n < (chosen.workers or 0):
            chosen = each
    if chosen is None:
        raise _no_worker_error(server, considered, limit, fill)
    n = chosen.workers or 0
    return Cluster(
        algorithm="scala-opt",
        server=server,
        worker=chosen.worker,
        workers=n if limit.workers is None else min(n, limit.workers),
        fill=fill,
        limit=limit,
        considered=considered,
    )


def scala_opt_m(server: Server, worker: Worker, limit: ClusterLimit, *, fill: float = FILL) -> Cluster:
    """Scala-Opt for the one type that the user chose."""
    return replace(scala_opt(server, [worker], limit, fill=fill), algorithm="scala-opt-m")


def mbps_of(bytes_each_iteration: float, iteration_seconds: float) -> float:
    """b_t: megabits per second of one worker, from the bytes of an iteration and its time."""
    require_positive(bytes_each_iteration=bytes_each_iteration, iteration_seconds=iteration_seconds)
    return 8e-6 * bytes_each_iteration / iteration_seconds


def mbps_range_for(workers: int, server: Server, *, fill: float = FILL) -> tuple[float, float]:
    """The range of b_t for which B_ps·p/b_t, rounded down, is this number: above the first end, up to the second."""
    require_positive(workers=workers)
    return server.mbps * fill / (workers + 1), server.mbps * fill / workers


def training_usd(cluster: Cluster, seconds: float) -> float:
    """The cost of a training of this length."""
    return cluster.usd_per_hour * seconds / SECONDS_PER_HOUR


def fc2_reasons(cluster: Cluster) -> tuple[Reason, ...]:
    """The reasons for the choice of an algorithm of FC2."""
    return tuple(_reasons(cluster))


def _reasons(cluster: Cluster) -> Iterator[Reason]:
    server, worker, limit = cluster.server, cluster.worker, cluster.limit
    if cluster.algorithm in ("cost-opt", "time-opt"):
        yield Reason(
            topic="why",
            code="worker_by_price",
            values={
                "worker": worker.name,
                "cheapest": cluster.algorithm == "cost-opt",
                "types": len(cluster.considered),
            },
        )
    else:
        yield _network_reason(cluster)
    if limit.usd_per_hour is not None:
        yield Reason(
            topic="why",
            code="cluster_price",
            values={
                "usd_per_hour": cluster.usd_per_hour,
                "budget_usd_per_hour": limit.usd_per_hour,
                "server_usd_per_hour": server.usd_per_hour,
                "worker_usd_per_hour": worker.usd_per_hour,
            },
        )
    if limit.workers is not None and cluster.workers == limit.workers:
        yield Reason(topic="why", code="worker_limit_reached", values={"workers": limit.workers})
    if cluster.mbps is not None and cluster.mbps > server.mbps:
        yield Reason(
            topic="why",
            code="server_saturated",
            values={"workers": cluster.workers, "mbps": cluster.mbps, "server_mbps": server.mbps},
        )


def _network_reason(cluster: Cluster) -> Reason:
    server, worker = cluster.server, cluster.worker
    chosen = next(each for each in cluster.considered if each.worker == worker)
    others: tuple[dict[str, Scalar], ...] = tuple(
        {"worker": each.worker.name, "workers": each.workers}
        for each in cluster.considered
        if each is not chosen and each.workers
    )
    return Reason(
        topic="why",
        code="workers_by_network",
        values={
            "worker": worker.name,
            "worker_mbps": worker.mbps,
            "server": server.name,
            "server_mbps": server.mbps,
            "fill": cluster.fill,
            "by_network": chosen.by_network,
            "by_budget": chosen.by_budget,
            "others": others,
        },
    )


def _by_price(algorithm: Algorithm, server: Server, ordered: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    worker = ordered[0]
    affordable = _workers_by_budget(server, worker, limit)
    n = min(bound for bound in (affordable, limit.workers) if bound is not None)
    considered = tuple(
        ConsideredWorker(worker=each, by_network=None, by_budget=_workers_by_budget(server, each, limit))
        for each in ordered
    )
    if n < 1:
        raise _no_worker_error(server, considered[:1], limit, None)
    return Cluster(
        algorithm=algorithm, server=server, worker=worker, workers=n, fill=1.0, limit=limit, considered=considered
    )


def _most_expensive_first(workers: Sequence[Worker]) -> list[Worker]:
    return sorted(workers, key=lambda worker: -worker.usd_per_hour)


def _workers_by_network(server: Server, worker: Worker, fill: float) -> int:
    if worker.mbps is None:
        raise ValueError(f"Scala-Opt needs the bandwidth of {worker.name}")
    return round_down(server.mbps * fill / worker.mbps)


def _workers_by_budget(server: Server, worker: Worker, limit: ClusterLimit) -> int | None:
    if limit.usd_per_hour is None:
        return None
    return max(0, round_down((limit.usd_per_hour - server.usd_per_hour) / worker.usd_per_hour))


def round_down(number: float) -> int:
    """The number rounded down, but 3 if the rounding errors of floats made it 2.9999999999."""
    return math.floor(number * (1 + 1e-12) + 1e-12)


def _no_worker_error(
    server: Server, considered: Sequence[ConsideredWorker], limit: ClusterLimit, fill: float | None
) -> InfeasibleError:
    if limit.usd_per_hour is not None and all(each.by_budget == 0 for each in considered):
        cheapest = min(each.worker.usd_per_hour for each in considered)
        return InfeasibleError(
            f"{format_usd(limit.usd_per_hour)} an hour does not pay for {server.name} and one worker, which cost "
            f"{format_usd(server.usd_per_hour + cheapest)}. Give a larger budget or choose a cheaper server.",
            field="usd_per_hour",
        )
    least = min(each.worker.mbps or 0 for each in considered)
    return InfeasibleError(
        f"one worker alone exceeds the bandwidth of {server.name}: it sends {format_number(least)} Mbps, and the "
        f"server can use {format_number((fill or 1) * server.mbps)} Mbps. Choose a server with more bandwidth."
    )
