"""Clusters with a parameter server as sentences."""

from collections.abc import Mapping

from trainfare.model.cluster import Cluster, ClusterEstimate, RatedCluster
from trainfare.model.reason import Reason
from trainfare.units import format_count, format_duration, format_number, format_percent, format_usd, plural
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, listed, number, optional_number, optional_text, records, text, texts


def cluster_name(cluster: ClusterEstimate | RatedCluster | Cluster) -> str:
    """`4 × g4dn.xlarge behind m4.large`, `4 × g4dn.xlarge, no server`, `1 × g4dn.xlarge alone`."""
    server = None if cluster.server is None else cluster.server.name
    return _cluster(cluster.workers, cluster.worker.name, server)


def _cluster(workers: int, worker: str, server: str | None) -> str:
    name = f"{format_count(workers)} × {worker}"
    if server is not None:
        return f"{name} behind {server}"
    return f"{name}, no server" if workers > 1 else f"{name} alone"


def _widest_server(values: Values) -> str:
    return (
        f"{text(values, 'server')} has the largest bandwidth of {format_count(integer(values, 'servers'))} servers: "
        f"{format_number(number(values, 'mbps'))} Mbps"
    )


def _worker_by_price(values: Values) -> str:
    extreme = "cheapest" if values["cheapest"] else "most expensive"
    types = plural(integer(values, "types"), "type")
    return f"{text(values, 'worker')} is the {extreme} of {types}; as many as the limit allows"


def _workers_by_network(values: Values) -> str:
    by_network, by_budget = integer(values, "by_network"), optional_number(values, "by_budget")
    said = (
        f"one {text(values, 'worker')} sends {format_number(number(values, 'worker_mbps'))} Mbps, and "
        f"{text(values, 'server')} can use {format_percent(number(values, 'fill'))} of its "
        f"{format_number(number(values, 'server_mbps'))} Mbps, which is enough for {plural(by_network, 'worker')}"
    )
    if by_budget is not None and by_budget < by_network:
        said += f"; the budget pays for {format_count(int(by_budget))}"
    others = ", ".join(f"{text(o, 'worker')} {format_count(integer(o, 'workers'))}" for o in records(values, "others"))
    return f"{said}; other types would need as many or more ({others}), so each of them does less" if others else said


def _cluster_price(values: Values) -> str:
    return (
        f"it costs {format_usd(number(values, 'usd_per_hour'))} an hour of a budget of "
        f"{format_usd(number(values, 'budget_usd_per_hour'))}: {format_usd(number(values, 'server_usd_per_hour'))} for "
        f"the server and {format_usd(number(values, 'worker_usd_per_hour'))} for each worker"
    )


def _worker_limit_reached(values: Values) -> str:
    return f"the limit of {plural(integer(values, 'workers'), 'worker')} is reached"


def _server_saturated(values: Values) -> str:
    return (
        f"{plural(integer(values, 'workers'), 'worker')} would send {format_number(number(values, 'mbps'))} Mbps to a "
        f"server with a bandwidth of {format_number(number(values, 'server_mbps'))} Mbps; above that, more workers "
        "hardly make the training faster"
    )


def _cheaper_cluster_as_fast(values: Values) -> str:
    chosen, better = (
        _cluster(
            integer(values, f"{which}_workers"),
            text(values, f"{which}_worker"),
            optional_text(values, f"{which}_server"),
        )
        for which in ("chosen", "better")
    )
    return (
        f"{listed(texts(values, 'algorithms'))}: {chosen} costs {format_usd(number(values, 'chosen_usd'))}; "
        f"{better} takes no longer ({format_duration(number(values, 'better_seconds'))}, compared with "
        f"{format_duration(number(values, 'chosen_seconds'))}) and costs {format_usd(number(values, 'better_usd'))}, "
        f"{format_percent(round(number(values, 'saved_share'), 2))} less"
    )


def _times_not_predicted(reason: Reason, spell: SpellArguments) -> str:
    why = text(reason.values, "why").rstrip(".")
    said = f"times are not predicted: {why[:1].lower()}{why[1:]}"
    return f"{said}; to predict them, pass {spell(reason.arguments)}" if reason.arguments else said


def _workers_not_predicted(values: Values) -> str:
    return (
        f"no time is predicted for {', '.join(texts(values, 'workers'))}: the type is not in the catalog, it has "
        "neither a GPU nor a profile, or its memory is too small"
    )


def _worker_count_not_predicted(values: Values) -> str:
    return (
        f"no time is predicted for {_count(values)}: an epoch has fewer batches than workers, or there are more than "
        f"{plural(integer(values, 'most'), 'worker')}"
    )


def _count(values: Values) -> str:
    return f"{format_count(integer(values, 'workers'))} × {text(values, 'worker')}"


def _workers_keep_their_batch(values: Values) -> str:
    size = optional_number(values, "batch_size")
    batch = "its batch size" if size is None else f"its batch size of {format_count(int(size))}"
    return (
        f"each worker keeps {batch}, so that more workers make a larger effective batch, which may need more epochs; a "
        "server waits for all its workers; boot and setup are not counted"
    )


def _scala_opt_m_worker(values: Values) -> str:
    worker = text(values, "worker")
    return f"scala-opt-m needs one type of worker and gets {worker}, with which a cluster with a server costs least"


SENTENCES: Mapping[str, Sentence] = {
    "times_not_predicted": _times_not_predicted,
    **from_values(
        {
            "widest_server": _widest_server,
            "worker_by_price": _worker_by_price,
            "workers_by_network": _workers_by_network,
            "cluster_price": _cluster_price,
            "worker_limit_reached": _worker_limit_reached,
            "server_saturated": _server_saturated,
            "cheaper_cluster_as_fast": _cheaper_cluster_as_fast,
            "workers_not_predicted": _workers_not_predicted,
            "worker_count_not_predicted": _worker_count_not_predicted,
            "workers_keep_their_batch": _workers_keep_their_batch,
            "scala_opt_m_worker": _scala_opt_m_worker,
        }
    ),
}
"""The sentence of each reason about clusters, by its code."""
