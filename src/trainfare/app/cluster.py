"""How many workers behind a parameter server, of which type: FC2's algorithms on prices, networks and profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from statistics import median
from typing import Any

from trainfare.app.catalog import open_catalog
from trainfare.catalog.catalog import Catalog
from trainfare.errors import AskedWrongly, NotFound
from trainfare.estimator.parameter_server import transfer_seconds
from trainfare.model.cluster import ALGORITHMS, Algorithm, Cluster, Limit, Server, Worker
from trainfare.model.offer import Offer
from trainfare.model.profile import Profile
from trainfare.recommender.cluster import (
    FILL,
    cost_opt,
    mbps_of,
    reasons,
    scala_opt,
    scala_opt_m,
    time_opt,
    widest_server,
)
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

BYTES_PER_SECOND_OF_MBPS = 125_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAdvice:
    cluster: Cluster
    reasons: tuple[str, ...]


def recommend_cluster(
    workers: Mapping[str, float | None],
    servers: Mapping[str, float | None],
    server_mbps: Mapping[str, float],
    *,
    algorithm: Algorithm = "scala-opt",
    usd_per_hour: float | None = None,
    max_workers: int | None = None,
    worker_mbps: Mapping[str, float] | None = None,
    profile_ids: Sequence[str] = (),
    fill: float = FILL,
    settings: Settings | None = None,
) -> ClusterAdvice:
    """`workers` and `servers` are machine types with their dollars an hour, or None for the catalog's price.

    `worker_mbps` is what one worker sends; where it is not said, it follows from the profiles, each of which speaks of
    the machine type that it was taken on. Without workers, the machines of the profiles are the workers.
    """
    settings = settings or read_settings()
    if algorithm not in ALGORITHMS:
        raise NotFound("algorithm", algorithm, ALGORITHMS)
    if not 0 < fill <= 1:
        raise AskedWrongly(f"--fill is the part of the server's network that may be used, up to 1, not {fill:g}.")
    prices = _Prices(open_catalog(settings), _today())
    if not servers:
        raise AskedWrongly("give the parameter server, as in --server m4.large=0.125 --server-mbps 450.")
    possible = [
        Server(name=name, usd_per_hour=prices.of("server", name, usd), mbps=_mbps_of_server(name, server_mbps))
        for name, usd in servers.items()
    ]
    server = widest_server(possible)
    profiles = _profiles(profile_ids, settings)
    wanted = dict(workers) or dict.fromkeys(profiles)
    if not wanted:
        raise AskedWrongly("give the types that may be workers, as in --worker aws/g4dn.xlarge or --worker mine=0.40.")
    measured = {name: mbps for name, profile in profiles.items() if (mbps := _mbps_of_profile(profile, server))}
    stated = {**measured, **(worker_mbps or {})}
    _require_named(stated, wanted)
    types = [
        Worker(name=name, usd_per_hour=prices.of("worker", name, usd), mbps=stated.get(name))
        for name, usd in wanted.items()
    ]
    cluster = _solve(algorithm, server, types, _limit(usd_per_hour, max_workers), fill)
    return ClusterAdvice(cluster=cluster, reasons=(*_server_reasons(server, possible), *reasons(cluster)))


def cluster_record(advice: ClusterAdvice) -> dict[str, Any]:
    """What `--json` prints."""
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
        "reasons": list(advice.reasons),
    }


def _solve(algorithm: Algorithm, server: Server, types: Sequence[Worker], limit: Limit, fill: float) -> Cluster:
    if algorithm == "cost-opt":
        return cost_opt(server, types, limit)
    if algorithm == "time-opt":
        return time_opt(server, types, limit)
    silent = [worker.name for worker in types if worker.mbps is None]
    if silent:
        raise AskedWrongly(
            f"nobody knows what one {silent[0]} sends, and {algorithm} counts by it. Give --mbps-per-worker "
            f"{silent[0]}=N, measured with one worker and the server, or --profile with a profile taken there."
        )
    if algorithm == "scala-opt-m":
        if len(types) > 1:
            raise AskedWrongly("scala-opt-m takes the one type that you choose: give one --worker, or use scala-opt.")
        return scala_opt_m(server, types[0], limit, fill=fill)
    return scala_opt(server, types, limit, fill=fill)


def _limit(usd_per_hour: float | None, max_workers: int | None) -> Limit:
    if usd_per_hour is None and max_workers is None:
        raise AskedWrongly("say how much it may be: --budget-per-hour 2, or --max-workers 6.")
    if usd_per_hour is not None and usd_per_hour <= 0:
        raise AskedWrongly(f"a budget must be positive, got {usd_per_hour:g}.")
    return Limit(usd_per_hour=usd_per_hour, workers=max_workers)


@dataclass(frozen=True, slots=True)
class _Prices:
    catalog: Catalog
    today: date

    def of(self, role: str, name: str, stated: float | None) -> float:
        """As stated, else the lowest at which it can be had today without being taken away again."""
        if stated is not None:
            if stated <= 0:
                raise AskedWrongly(f"the price of {name} must be positive, got {stated:g}.")
            return stated
        try:
            offers = self.catalog.find(name)
        except NotFound as error:
            raise AskedWrongly(f"{error} Or give its price: --{role} {name}=DOLLARS_AN_HOUR") from error
        steady = [o for o in offers if o.rentable_on(self.today) and o.market != "spot"]
        if not steady:
            raise AskedWrongly(
                f"{name} can no longer be rented. To reckon with it, give --{role} {name}={_last(offers)}"
            )
        return min(offer.usd_per_hour for offer in steady)


def _last(offers: Sequence[Offer]) -> str:
    return f"{max(offers, key=lambda offer: offer.seen_on).usd_per_hour:g}"


def _mbps_of_server(name: str, stated: Mapping[str, float]) -> float:
    mbps = stated.get(name, stated.get(""))
    if mbps is None:
        raise AskedWrongly(f"the network of {name} is not known to the catalog: give --server-mbps {name}=N.")
    return mbps


def _profiles(profile_ids: Sequence[str], settings: Settings) -> dict[str, Profile]:
    """By the machine type that each was taken on; of several on one, the last that was named."""
    if not profile_ids:
        return {}
    found = {}
    with open_history(settings.store) as history:
        for profile_id in profile_ids:
            profile = history.profile(profile_id)
            if profile.host.vm_type is None:
                raise AskedWrongly(
                    f"profile {profile_id} does not say which machine type it was taken on, so it speaks of no worker. "
                    "Take it with trainfare profile --on MACHINE, or give --mbps-per-worker."
                )
            found[profile.host.vm_type] = profile
    return found


def _mbps_of_profile(profile: Profile, server: Server) -> float | None:
    """Bytes an iteration over its time, of the busier direction.

    A profile taken without a server has sent nothing. Then the gradient goes up and the weights come down once an
    iteration, which lasts longer by that: S/(t + 2·S/B).
    """
    steady = profile.steady_iteration_seconds
    if not steady:
        return None
    seconds = median(steady)
    moved = max(profile.sent_bytes or 0, profile.received_bytes or 0)
    if profile.world_size > 1 and moved:
        return mbps_of(moved, seconds)
    if not profile.gradient_bytes:
        return None
    bytes_per_second = server.mbps * BYTES_PER_SECOND_OF_MBPS
    transfer = transfer_seconds(profile.gradient_bytes, gpus_at_server=1, bytes_per_second=bytes_per_second)
    return mbps_of(profile.gradient_bytes, seconds + transfer)


def _require_named(stated: Mapping[str, float], wanted: Mapping[str, float | None]) -> None:
    for name, mbps in stated.items():
        if name not in wanted:
            raise NotFound("worker", name, wanted)
        if mbps <= 0:
            raise AskedWrongly(f"what one {name} sends must be positive, got {mbps:g} Mbps.")


def _server_reasons(server: Server, possible: Sequence[Server]) -> tuple[str, ...]:
    if len(possible) == 1:
        return ()
    return (f"{server.name} has the largest network of {len(possible)} servers: {server.mbps:.4g} Mbps",)


def _today() -> date:
    return datetime.now(UTC).date()
