"""How many workers behind a parameter server, of which type: FC2's algorithms on prices, networks and profiles, and
beside them our own choice by predicted time and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.workload import require_epochs
from trainfare.catalog.catalog import Catalog
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.estimator.parallel.parameter_server import transfer_seconds
from trainfare.model.cluster import ALGORITHMS, Algorithm, Cluster, ClusterLimit, RatedCluster, Server, ClusterEstimate, Worker
from trainfare.model.machine import VmType
from trainfare.model.offer import Offer
from trainfare.model.profile import Profile
from trainfare.recommender.clusters.fc2 import (
    FILL,
    cost_opt,
    mbps_of,
    reasons,
    scala_opt,
    scala_opt_m,
    time_opt,
    widest_server,
)
from trainfare.recommender.clusters.own import MOST_WORKERS, beside, cheapest, own_reasons
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

if TYPE_CHECKING:
    from trainfare.app.recommending.own_cluster import Forecast

BYTES_PER_SECOND_OF_MBPS = 125_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAdvice:
    cluster: Cluster
    reasons: tuple[str, ...]
    epochs: int | None = None
    """That the predictions are of; None where there is no profile to predict from."""
    rated: tuple[RatedCluster, ...] = ()
    """What each algorithm of FC2 takes and what we take, by our predictions; empty where nothing can be predicted."""
    remarks: tuple[str, ...] = ()
    """On the predictions."""


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
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    fill: float = FILL,
    settings: Settings | None = None,
) -> ClusterAdvice:
    """`workers` and `servers` are machine types with their dollars an hour, or None for the catalog's price.

    `worker_mbps` is what one worker sends; where it is not said, it follows from the profiles: of one that was taken on
    that machine type as measured, else as predicted. Without workers, the machines of the profiles are the workers.
    With profiles the training of `epochs` is predicted on every cluster that the limit allows.
    """
    settings = settings or read_settings()
    if algorithm not in ALGORITHMS:
        raise NotFoundError("algorithm", algorithm, ALGORITHMS)
    if not 0 < fill <= 1:
        raise UsageError(f"--fill is the part of the server's network that may be used, up to 1, not {fill:g}.")
    require_epochs(epochs)
    catalog = open_catalog(settings)
    prices = _Prices(catalog, _today())
    if not servers:
        raise UsageError("give the parameter server, as in --server m4.large=0.125 --server-mbps 450.")
    possible = [
        Server(name=name, usd_per_hour=prices.of("server", name, usd), mbps=_mbps_of_server(name, server_mbps))
        for name, usd in servers.items()
    ]
    server = widest_server(possible)
    profiles = _profiles(profile_ids, settings)
    wanted = dict(workers) or _machines_of(profiles)
    if not wanted:
        raise UsageError("give the types that may be workers, as in --worker aws/g4dn.xlarge or --worker mine=0.40.")
    _require_named(worker_mbps or {}, wanted)
    limit = _limit(usd_per_hour, max_workers)
    known = {name: vm_type for name in wanted if (vm_type := _vm_type(catalog, name))}
    found = _forecast(profiles, known, epochs, iterations_per_epoch, settings) if profiles else None
    forecast = None if isinstance(found, str) else found
    sent = _Sent(worker_mbps or {}, profiles, known, forecast, server)
    types = [
        Worker(name=name, usd_per_hour=prices.of("worker", name, usd), mbps=sent.by(name))
        for name, usd in wanted.items()
    ]
    cluster = _solve(algorithm, server, types, limit, fill)
    trained = forecast.trained(possible, types, limit) if forecast else ()
    rated = beside(_answers(cluster, server, types, limit, fill, trained), trained)
    return ClusterAdvice(
        cluster=cluster,
        reasons=(*_server_reasons(server, possible), *reasons(cluster)),
        epochs=forecast.epochs if forecast and rated else None,
        rated=rated,
        remarks=_remarks(found, rated, types),
    )


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
        "epochs": advice.epochs,
        "rated": [_rated_record(each) for each in advice.rated],
        "remarks": list(advice.remarks),
    }


def _rated_record(each: RatedCluster) -> dict[str, Any]:
    return {
        "by": each.by,
        "server": each.server and each.server.name,
        "worker": each.worker.name,
        "workers": each.workers,
        "usd_per_hour": each.usd_per_hour,
        **_trained_record(each.trained),
        "over_cheapest": each.over_cheapest,
        "over_fastest": each.over_fastest,
        "over_as_fast": each.over_as_fast,
        "as_fast": each.as_fast
        and {
            "server": each.as_fast.server and each.as_fast.server.name,
            "worker": each.as_fast.worker.name,
            "workers": each.as_fast.workers,
            **_trained_record(each.as_fast),
        },
    }


def _trained_record(trained: ClusterEstimate | None) -> dict[str, float | str | None]:
    if trained is None:
        return dict.fromkeys(("seconds", "seconds_low", "seconds_high", "usd", "usd_low", "usd_high", "basis"))
    return {
        "seconds": trained.seconds.value,
        "seconds_low": trained.seconds.low,
        "seconds_high": trained.seconds.high,
        "usd": trained.usd.value,
        "usd_low": trained.usd.low,
        "usd_high": trained.usd.high,
        "basis": trained.basis,
    }


def _solve(algorithm: Algorithm, server: Server, types: Sequence[Worker], limit: ClusterLimit, fill: float) -> Cluster:
    if algorithm == "cost-opt":
        return cost_opt(server, types, limit)
    if algorithm == "time-opt":
        return time_opt(server, types, limit)
    silent = [worker.name for worker in types if worker.mbps is None]
    if silent:
        raise UsageError(
            f"nobody knows what one {silent[0]} sends, and {algorithm} counts by it. Give --mbps-per-worker "
            f"{silent[0]}=N, measured with one worker and the server, or --profile with a profile taken there."
        )
    if algorithm == "scala-opt-m":
        if len(types) > 1:
            raise UsageError("scala-opt-m takes the one type that you choose: give one --worker, or use scala-opt.")
        return scala_opt_m(server, types[0], limit, fill=fill)
    return scala_opt(server, types, limit, fill=fill)


def _limit(usd_per_hour: float | None, max_workers: int | None) -> ClusterLimit:
    if usd_per_hour is None and max_workers is None:
        raise UsageError("say how much it may be: --budget-per-hour 2, or --max-workers 6.")
    if usd_per_hour is not None and usd_per_hour <= 0:
        raise UsageError(f"a budget must be positive, got {usd_per_hour:g}.")
    return ClusterLimit(usd_per_hour=usd_per_hour, workers=max_workers)


@dataclass(frozen=True, slots=True)
class _Prices:
    catalog: Catalog
    today: date

    def of(self, role: str, name: str, stated: float | None) -> float:
        """As stated, else the lowest at which it can be had today without being taken away again."""
        if stated is not None:
            if stated <= 0:
                raise UsageError(f"the price of {name} must be positive, got {stated:g}.")
            return stated
        try:
            offers = self.catalog.find(name)
        except NotFoundError as error:
            raise UsageError(f"{error} Or give its price: --{role} {name}=DOLLARS_AN_HOUR") from error
        steady = [o for o in offers if o.rentable_on(self.today) and o.market != "spot"]
        if not steady:
            raise UsageError(f"{name} can no longer be rented. To reckon with it, give --{role} {name}={_last(offers)}")
        return min(offer.usd_per_hour for offer in steady)


def _last(offers: Sequence[Offer]) -> str:
    return f"{max(offers, key=lambda offer: offer.seen_on).usd_per_hour:g}"


def _mbps_of_server(name: str, stated: Mapping[str, float]) -> float:
    mbps = stated.get(name, stated.get(""))
    if mbps is None:
        raise UsageError(f"the network of {name} is not known to the catalog: give --server-mbps {name}=N.")
    return mbps


def _profiles(profile_ids: Sequence[str], settings: Settings) -> tuple[Profile, ...]:
    if not profile_ids:
        return ()
    with open_history(settings.store) as history:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))


def _machines_of(profiles: Sequence[Profile]) -> dict[str, float | None]:
    """The workers, where the user names none."""
    for profile in profiles:
        if profile.host.vm_type is None:
            raise UsageError(
                f"profile {profile.id} does not say which machine type it was taken on, so it speaks of no worker. "
                "Take it with trainfare profile --on MACHINE, or name the workers with --worker."
            )
    return dict.fromkeys(profile.host.vm_type for profile in profiles if profile.host.vm_type)


def _vm_type(catalog: Catalog, name: str) -> VmType | None:
    try:
        return catalog.find(name)[0].vm_type
    except NotFoundError:
        return None


def _forecast(
    profiles: Sequence[Profile],
    known: Mapping[str, VmType],
    epochs: int | None,
    iterations_per_epoch: int | None,
    settings: Settings,
) -> "Forecast | str":
    """Or why there is none: FC2's answers need no number of iterations."""
    from trainfare.app.recommending.own_cluster import forecast

    try:
        return forecast(profiles, known, epochs=epochs, iterations_per_epoch=iterations_per_epoch, settings=settings)
    except UsageError as error:
        if epochs is not None or iterations_per_epoch is not None:
            raise
        return str(error)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What one worker sends, where somebody knows."""

    stated: Mapping[str, float]
    profiles: Sequence[Profile]
    known: Mapping[str, VmType]
    forecast: "Forecast | None"
    server: Server

    def by(self, name: str) -> float | None:
        if name in self.stated:
            return self.stated[name]
        key = self.known[name].key if name in self.known else name
        for profile in reversed(self.profiles):  # of several, the last that was named
            if profile.host.vm_type == key and (mbps := _mbps_of_profile(profile, self.server)):
                return mbps
        return self.forecast.mbps(name, self.server) if self.forecast else None


def _answers(
    asked: Cluster,
    server: Server,
    types: Sequence[Worker],
    limit: ClusterLimit,
    fill: float,
    trained: Sequence[ClusterEstimate],
) -> tuple[Cluster, ...]:
    """Of all of FC2's algorithms that have one; scala-opt-m takes the type that our cheapest has behind a server."""
    if not trained:
        return ()
    served = [one for one in trained if one.server is not None]
    ours = [cheapest(served).worker] if served else []
    found = []
    for algorithm in ALGORITHMS:
        if algorithm == asked.algorithm:
            found.append(asked)
            continue
        mine = ours if algorithm == "scala-opt-m" else types
        if mine and (algorithm in ("cost-opt", "time-opt") or all(worker.mbps for worker in mine)):
            try:
                found.append(_solve(algorithm, server, mine, limit, fill))
            except InfeasibleError:
                continue  # it was not asked for, and the table shows those that have an answer
    return tuple(found)


def _remarks(found: "Forecast | str | None", rated: Sequence[RatedCluster], types: Sequence[Worker]) -> tuple[str, ...]:
    if found is None:
        return ()
    if isinstance(found, str):
        return (f"times are not predicted: {found}",)
    silent = [worker.name for worker in types if found.alone(worker.name) is None]
    said = []
    if silent:
        why = "the catalog does not know it, it has no GPU and no profile, or its memory is too small"
        said.append(f"nothing is predicted of {', '.join(silent)}: {why}")
    if not rated:
        return tuple(said)
    said += [
        f"nothing is predicted of {each.workers} × {each.worker.name}: an epoch has fewer batches, or they are more "
        f"than {MOST_WORKERS}"
        for each in rated
        if each.trained is None and each.worker.name not in silent
    ]
    size = found.profile.micro_batch_size
    batch = f"batch of {size}" if size else "batch"
    guessed = found.workload.leading.length.guessed
    return (
        *own_reasons(rated),
        f"each worker keeps its {batch}, so that more workers make a larger batch of all, which may need more epochs; "
        "a server waits for all its workers; boot and setup are not counted",
        *(
            f"scala-opt-m wants a type named and is given {each.worker.name}, with which a server costs least"
            for each in rated
            if each.by == "scala-opt-m" and len(types) > 1
        ),
        *dict.fromkeys(said),
        *([guessed] if guessed else []),
    )


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
            raise NotFoundError("worker", name, wanted)
        if mbps <= 0:
            raise UsageError(f"what one {name} sends must be positive, got {mbps:g} Mbps.")


def _server_reasons(server: Server, possible: Sequence[Server]) -> tuple[str, ...]:
    if len(possible) == 1:
        return ()
    return (f"{server.name} has the largest network of {len(possible)} servers: {server.mbps:.4g} Mbps",)


def _today() -> date:
    return datetime.now(UTC).date()
