"""The JSON record of a recommended cluster."""

from dataclasses import asdict
from typing import Any, Protocol

from trainfare.model.cluster import ClusterAdvice, ClusterEstimate, RatedCluster
from trainfare.recommender.clusters.measured import PredictedWorkers, TriedWorkers, best_measured
from trainfare.views.estimates import spread
from trainfare.views.reasons import sentence


class MeasuredCluster(Protocol):
    """Short runs of a server and some workers."""

    @property
    def machine(self) -> str: ...
    @property
    def link_mbps(self) -> float: ...
    @property
    def tried(self) -> tuple[TriedWorkers, ...]: ...
    @property
    def predicted(self) -> tuple[PredictedWorkers, ...]: ...


def measured_cluster_record(measured: MeasuredCluster) -> dict[str, Any]:
    """The short runs of each number of workers, and the steps that the first one predicts."""
    return {
        "machine": measured.machine,
        "link_mbps": measured.link_mbps,
        "tried": [asdict(each) for each in measured.tried],
        "predicted": [asdict(each) for each in measured.predicted],
        "best_workers": best_measured(measured.tried),
    }


def cluster_record(advice: ClusterAdvice) -> dict[str, Any]:
    """The recommended cluster, the types that were considered, and the rating of every algorithm's choice."""
    cluster = advice.cluster
    return {
        "algorithm": cluster.algorithm,
        "worker": cluster.worker.name,
        "workers": cluster.workers,
        "server": cluster.server.name,
        "usd_per_hour": cluster.usd_per_hour,
        "worker_usd_per_hour": cluster.worker.usd_per_hour,
        "server_usd_per_hour": cluster.server.usd_per_hour,
        "worker_mbps": cluster.worker.mbps,
        "server_mbps": cluster.server.mbps,
        "mbps": cluster.mbps,
        "fill": cluster.fill,
        "limit": asdict(cluster.limit),
        "considered": [
            {
                "worker": each.worker.name,
                "usd_per_hour": each.worker.usd_per_hour,
                "mbps": each.worker.mbps,
                "by_network": each.by_network,
                "by_budget": each.by_budget,
            }
            for each in cluster.considered
        ],
        "reasons": [sentence(reason) for reason in advice.reasons],
        "epochs": advice.epochs,
        "rated": [_rated_record(each) for each in advice.rated],
        "remarks": [sentence(remark) for remark in advice.remarks],
    }


def _rated_record(each: RatedCluster) -> dict[str, Any]:
    as_fast = each.cheapest_as_fast
    return {
        "by": each.by,
        "server": each.server and each.server.name,
        "worker": each.worker.name,
        "workers": each.workers,
        "usd_per_hour": each.usd_per_hour,
        **_estimate_record(each.estimate),
        "over_cheapest": each.cost_over_cheapest,
        "over_fastest": each.time_over_fastest,
        "over_as_fast": each.cost_over_as_fast,
        "as_fast": as_fast
        and {
            "server": as_fast.server and as_fast.server.name,
            "worker": as_fast.worker.name,
            "workers": as_fast.workers,
            **_estimate_record(as_fast),
        },
    }


def _estimate_record(estimate: ClusterEstimate | None) -> dict[str, float | str | None]:
    if estimate is None:
        return dict.fromkeys(("seconds", "seconds_low", "seconds_high", "usd", "usd_low", "usd_high", "basis"))
    return {**spread("seconds", estimate.seconds), **spread("usd", estimate.usd), "basis": estimate.basis}
