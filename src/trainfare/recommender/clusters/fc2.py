"""How many workers behind one parameter server, and of which type: the four algorithms of FC2 (Ta 2019, section 5.2).

One server, workers of one type. C is the budget an hour, c_ps and c_t the prices of the server and of a worker of
type t, B_ps the server's network, b_t what one worker of type t sends and receives, p < 1 what of the network may be
filled.

    Cost-Opt     the cheapest type;        n = (C − c_ps)/c_t
    Time-Opt     the most expensive type;  n = (C − c_ps)/c_t
    Scala-Opt    n_t = min{B_ps·p/b_t, (C − c_ps)/c_t} of every type, the most expensive first; the smallest n_t is
                 kept, and with equal numbers the first: a type that fills the network with few workers is a fast one
    Scala-Opt-M  the same n for the type that the user names

n is rounded down. Instead of C (or with it) a largest number of workers may be given. Cost-Opt and Time-Opt then take
that number. For Scala-Opt the document gives no formula for it; here the types are compared first and the winner is
cut to the limit, because only so do its recommendations behind a large server come out: cut before comparing, every
type would have the limit, and the most expensive would win.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from trainfare.errors import InfeasibleError
from trainfare.model.checks import require_positive
from trainfare.model.cluster import Algorithm, Cluster, ConsideredWorker, ClusterLimit, Server, Worker
from trainfare.units import SECONDS_PER_HOUR, format_number, format_usd

FILL = 0.95
"""p, as in the experiments of the document (its section 7.2); its section 5.2 suggests 0.8 as an example."""


def widest_server(servers: Sequence[Server]) -> Server:
    """Where the user names none: the one with the largest network; of equal ones the cheapest."""
    return min(servers, key=lambda server: (-server.mbps, server.usd_per_hour))


def cost_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    """The cheapest type, as many as the limit allows. The network does not count."""
    return _by_price("cost-opt", server, sorted(workers, key=lambda worker: worker.usd_per_hour), limit)


def time_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    """The most expensive type, as many as the limit allows: dear is taken to be fast. The network does not count."""
    return _by_price("time-opt", server, _dearest_first(workers), limit)


def scala_opt(server: Server, workers: Sequence[Worker], limit: ClusterLimit, *, fill: float = FILL) -> Cluster:
    """The type that needs the fewest workers to fill the server's network within the budget."""
    if not 0 < fill <= 1:
        raise ValueError(f"p lies above 0 and not above 1, got {fill}")
    considered = tuple(
        ConsideredWorker(
            worker=worker,
            by_network=_network_allows(server, worker, fill),
            by_budget=_budget_allows(server, worker, limit),
        )
        for worker in _dearest_first(workers)
    )
    chosen: ConsideredWorker | None = None
    for each in considered:
        n = each.workers
        if not n:
            # A type of which not even one can be had is no answer; the document's experiments have none.
            continue
        if chosen is None or n < (chosen.workers or 0):
            chosen = each
    if chosen is None:
        raise InfeasibleError(_none_fits(server, considered, limit, fill))
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
    """Scala-Opt for the one type that the user has chosen."""
    return replace(scala_opt(server, [worker], limit, fill=fill), algorithm="scala-opt-m")


def mbps_of(bytes_each_iteration: float, iteration_seconds: float) -> float:
    """b_t: megabits a second of one worker, from the bytes of an iteration and its time."""
    require_positive(bytes_each_iteration=bytes_each_iteration, iteration_seconds=iteration_seconds)
    return 8e-6 * bytes_each_iteration / iteration_seconds


def mbps_that_gives(workers: int, server: Server, *, fill: float = FILL) -> tuple[float, float]:
    """The b_t for which B_ps·p/b_t, rounded down, is this number: above the first, up to the second."""
    require_positive(workers=workers)
    return server.mbps * fill / (workers + 1), server.mbps * fill / workers


def usd_of_training(cluster: Cluster, seconds: float) -> float:
    return cluster.usd_per_hour * seconds / SECONDS_PER_HOUR


def reasons(cluster: Cluster) -> tuple[str, ...]:
    """Why this one, in sentences with numbers."""
    server, worker, limit = cluster.server, cluster.worker, cluster.limit
    said = []
    if cluster.algorithm in ("cost-opt", "time-opt"):
        extreme = "cheapest" if cluster.algorithm == "cost-opt" else "most expensive"
        said.append(f"{worker.name} is the {extreme} of {len(cluster.considered)} types, as many as allowed")
    else:
        said += _network_reasons(cluster)
    if limit.usd_per_hour is not None:
        said.append(
            f"it costs {format_usd(cluster.usd_per_hour)} an hour of {format_usd(limit.usd_per_hour)}: the server "
            f"{format_usd(server.usd_per_hour)}, each worker {format_usd(worker.usd_per_hour)}"
        )
    if limit.workers is not None and cluster.workers == limit.workers:
        said.append(f"{limit.workers} workers are the most that you allow")
    if cluster.mbps is not None and cluster.mbps > server.mbps:
        said.append(
            f"{cluster.workers} workers would send {format_number(cluster.mbps)} Mbps to a server that takes "
            f"{format_number(server.mbps)}: beyond that, more workers hardly train faster"
        )
    return tuple(said)


def _network_reasons(cluster: Cluster) -> list[str]:
    server, worker = cluster.server, cluster.worker
    mine = next(each for each in cluster.considered if each.worker == worker)
    said = [
        f"one {worker.name} sends {format_number(worker.mbps or 0.0)} Mbps, and {server.name} takes "
        f"{cluster.fill:.3g} × {format_number(server.mbps)} Mbps: {mine.by_network} workers fill it"
    ]
    if mine.by_budget is not None and mine.by_network is not None and mine.by_budget < mine.by_network:
        said.append(f"the budget pays for {mine.by_budget}")
    others = [each for each in cluster.considered if each is not mine and each.workers]
    if others:
        counts = ", ".join(f"{each.worker.name} {each.workers}" for each in others)
        said.append(f"other types would need as many or more ({counts}), so each of them does less")
    return said


def _by_price(algorithm: Algorithm, server: Server, ordered: Sequence[Worker], limit: ClusterLimit) -> Cluster:
    worker = ordered[0]
    affordable = _budget_allows(server, worker, limit)
    n = min(bound for bound in (affordable, limit.workers) if bound is not None)
    considered = tuple(
        ConsideredWorker(worker=each, by_network=None, by_budget=_budget_allows(server, each, limit)) for each in ordered
    )
    if n < 1:
        raise InfeasibleError(_none_fits(server, considered[:1], limit, None))
    return Cluster(
        algorithm=algorithm, server=server, worker=worker, workers=n, fill=1.0, limit=limit, considered=considered
    )


def _dearest_first(workers: Sequence[Worker]) -> list[Worker]:
    return sorted(workers, key=lambda worker: -worker.usd_per_hour)


def _network_allows(server: Server, worker: Worker, fill: float) -> int:
    if worker.mbps is None:
        raise ValueError(f"Scala-Opt needs the bandwidth of {worker.name}")
    return _whole(server.mbps * fill / worker.mbps)


def _budget_allows(server: Server, worker: Worker, limit: ClusterLimit) -> int | None:
    if limit.usd_per_hour is None:
        return None
    return max(0, _whole((limit.usd_per_hour - server.usd_per_hour) / worker.usd_per_hour))


def _whole(number: float) -> int:
    """Rounded down, but 3 where the arithmetic of floats says 2.9999999999."""
    return math.floor(number * (1 + 1e-12) + 1e-12)


def _none_fits(server: Server, considered: Sequence[ConsideredWorker], limit: ClusterLimit, fill: float | None) -> str:
    if limit.usd_per_hour is not None and all(each.by_budget == 0 for each in considered):
        cheapest = min(each.worker.usd_per_hour for each in considered)
        return (
            f"{format_usd(limit.usd_per_hour)} an hour do not pay for {server.name} and one worker: that takes "
            f"{format_usd(server.usd_per_hour + cheapest)}. Give a larger budget or a cheaper server."
        )
    least = min(each.worker.mbps or 0 for each in considered)
    return (
        f"one worker alone fills {server.name}: it sends {format_number(least)} Mbps, and the server takes "
        f"{format_number((fill or 1) * server.mbps)}. Take a server with a larger network."
    )
