"""Use case: the number and the type of workers behind a parameter server.

FC2's algorithms choose by prices, bandwidth and profiles; our own choice by predicted time and cost is compared with
theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from statistics import median
from typing import Unpack

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import Workload, build_workload
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.catalog.catalog import Catalog
from trainfare.errors import InfeasibleError, NotFoundError, Remedy, UsageError
from trainfare.estimator.parallel.parameter_server import transfer_seconds
from trainfare.model.cluster import (
    ALGORITHMS,
    Algorithm,
    Cluster,
    ClusterAdvice,
    ClusterEstimate,
    ClusterLimit,
    RatedCluster,
    Server,
    Worker,
)
from trainfare.model.machine import VmType
from trainfare.model.offer import Offer
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.clusters.fc2 import (
    FILL,
    cost_opt,
    fc2_reasons,
    mbps_of,
    scala_opt,
    scala_opt_m,
    time_opt,
    widest_server,
)
from trainfare.recommender.clusters.forecast import BYTES_PER_SECOND_OF_MBPS, ClusterForecast
from trainfare.recommender.clusters.own import MAX_WORKERS, cheapest, rate_clusters, rating_reasons
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history

PRICE_ONLY_ALGORITHMS = ("cost-opt", "time-opt")
"""Algorithms that need no bandwidth of the workers."""


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
    **length: Unpack[LengthKeywords],
) -> ClusterAdvice:
    """The cluster that the algorithm chooses, rated by predicted time and cost if there are profiles.

    `workers` and `servers` are machine types with their hourly prices in dollars, or None for the price in the catalog.
    `worker_mbps` is the traffic of one worker. If missing, it follows from the profiles: measured if a profile was
    taken on that machine type, else predicted. Without `workers`, the machines of the profiles are the workers. With
    profiles, the training of `epochs` is predicted on every cluster that the limit allows.
    """
    settings = settings or read_settings()
    if algorithm not in ALGORITHMS:
        raise NotFoundError("algorithm", algorithm, ALGORITHMS, field="algorithm")
    if not 0 < fill <= 1:
        message = f"must be the share of the server's bandwidth that may be used, above 0 and up to 1, got {fill:g}."
        raise UsageError(message, field="fill")
    stated = StatedLength(**length)
    catalog = open_catalog(settings)
    prices = _Prices(catalog, datetime.now(UTC).date())
    if not servers:
        raise UsageError(
            "a parameter server is needed, with its bandwidth.",
            field="servers",
            remedies=[Remedy({"servers": "m4.large=0.125", "server_mbps": 450})],
        )
    possible = [
        Server(name=name, usd_per_hour=prices.find("servers", name, usd), mbps=_server_mbps(name, server_mbps))
        for name, usd in servers.items()
    ]
    server = widest_server(possible)
    profiles = _profiles(profile_ids, settings)
    if profiles:
        profiles = stated.apply(profiles)
    prices_by_worker = dict(workers) or _machines_of(profiles)
    if not prices_by_worker:
        raise UsageError(
            "at least one type of worker is needed.",
            field="workers",
            remedies=[Remedy({"workers": "aws/g4dn.xlarge"}), Remedy({"workers": "mine=0.40"})],
        )
    _require_known_workers(worker_mbps or {}, prices_by_worker)
    limit = _limit(usd_per_hour, max_workers)
    vm_types = {name: vm_type for name in prices_by_worker if (vm_type := _vm_type(catalog, name))}
    prediction = _predict(profiles, vm_types, stated, settings)
    traffic = _WorkerTraffic(worker_mbps or {}, profiles, vm_types, prediction.forecast, server)
    types = [
        Worker(name=name, usd_per_hour=prices.find("workers", name, usd), mbps=traffic.mbps(name))
        for name, usd in prices_by_worker.items()
    ]
    cluster = _solve(algorithm, server, types, limit, fill)
    forecast = prediction.forecast
    estimates = forecast.estimates(possible, types, limit) if forecast else ()
    rated = rate_clusters(_fc2_choices(cluster, server, types, limit, fill, estimates), estimates)
    return ClusterAdvice(
        cluster=cluster,
        reasons=(*_server_reasons(server, possible), *fc2_reasons(cluster)),
        epochs=forecast.epochs if forecast and rated else None,
        rated=rated,
        remarks=tuple(_remarks(prediction, rated, types)),
    )


def _solve(algorithm: Algorithm, server: Server, types: Sequence[Worker], limit: ClusterLimit, fill: float) -> Cluster:
    if algorithm == "cost-opt":
        return cost_opt(server, types, limit)
    if algorithm == "time-opt":
        return time_opt(server, types, limit)
    unknown = [worker.name for worker in types if worker.mbps is None]
    if unknown:
        raise UsageError(
            f"the traffic of one {unknown[0]} is not known, and {algorithm} needs it. Measure it with one worker and "
            "the server, or use a profile taken on that machine type.",
            field="worker_mbps",
            remedies=[Remedy({"worker_mbps": f"{unknown[0]}=N"})],
        )
    if algorithm == "scala-opt-m":
        if len(types) > 1:
            raise UsageError(
                "scala-opt-m needs exactly one type of worker. Name one, or use scala-opt.",
                field="workers",
                remedies=[Remedy({"algorithm": "scala-opt"})],
            )
        return scala_opt_m(server, types[0], limit, fill=fill)
    return scala_opt(server, types, limit, fill=fill)


def _limit(usd_per_hour: float | None, max_workers: int | None) -> ClusterLimit:
    if usd_per_hour is None and max_workers is None:
        raise UsageError(
            "a limit is needed: an hourly budget or a maximum number of workers.",
            remedies=[Remedy({"usd_per_hour": 2}), Remedy({"max_workers": 6})],
        )
    if usd_per_hour is not None and usd_per_hour <= 0:
        raise UsageError(f"must be positive, got {usd_per_hour:g}.", field="usd_per_hour")
    return ClusterLimit(usd_per_hour=usd_per_hour, workers=max_workers)


@dataclass(frozen=True, slots=True)
class _Prices:
    catalog: Catalog
    today: date

    def find(self, field: str, name: str, stated: float | None) -> float:
        """The stated hourly price, else the lowest price of today that is not a spot price."""
        if stated is not None:
            if stated <= 0:
                raise UsageError(f"the price of {name} must be positive, got {stated:g}.", field=field)
            return stated
        try:
            offers = self.catalog.find(name)
        except NotFoundError as error:
            raise UsageError(
                f"{error.message} Give its hourly price if the catalog does not have it.",
                field=field,
                remedies=[Remedy({field: f"{name}=USD_PER_HOUR"})],
            ) from error
        rentable = [o for o in offers if o.rentable_on(self.today) and o.market != "spot"]
        if not rentable:
            raise UsageError(
                f"{name} can no longer be rented. Give its hourly price to use it nevertheless.",
                field=field,
                remedies=[Remedy({field: f"{name}={_last_price(offers):g}"})],
            )
        price = min(offer.usd_per_hour for offer in rentable)
        if not price:
            raise UsageError(
                f"{name} costs nothing, and clusters are compared by their prices. Give the price of an hour of it.",
                field=field,
                remedies=[Remedy({field: f"{name}=USD_PER_HOUR"})],
            )
        return price


def _last_price(offers: Sequence[Offer]) -> float:
    return max(offers, key=lambda offer: offer.seen_on).usd_per_hour


def _server_mbps(name: str, stated: Mapping[str, float]) -> float:
    mbps = stated.get(name, stated.get(""))
    if mbps is None:
        raise UsageError(
            f"the bandwidth of {name} is not in the catalog. Give it in Mbit/s.",
            field="server_mbps",
            remedies=[Remedy({"server_mbps": f"{name}=N"})],
        )
    return mbps


def _profiles(profile_ids: Sequence[str], settings: Settings) -> tuple[Profile, ...]:
    if not profile_ids:
        return ()
    with open_existing_history(settings.store) as history:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))


def _machines_of(profiles: Sequence[Profile]) -> dict[str, float | None]:
    """The machine types of the profiles, which are the workers if the user names none."""
    for profile in profiles:
        if profile.host.vm_type is None:
            raise UsageError(
                f"the machine type of profile {profile.id} is not known, so it cannot serve as a worker. Profile with "
                "the name of the machine type, or name the workers.",
                field="workers",
                remedies=[Remedy({"on": "MACHINE"}, command="profile", program=profile.program.command_line)],
            )
    return dict.fromkeys(profile.host.vm_type for profile in profiles if profile.host.vm_type)


def _vm_type(catalog: Catalog, name: str) -> VmType | None:
    try:
        return catalog.find(name)[0].vm_type
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prediction:
    """The forecast, the reason for its number of epochs, or why there is no forecast."""

    forecast: ClusterForecast | None = None
    length_reason: Reason | None = None
    error: UsageError | None = None


def _predict(
    profiles: Sequence[Profile],
    vm_types: Mapping[str, VmType],
    stated: StatedLength,
    settings: Settings,
) -> _Prediction:
    """The forecast if there are profiles. FC2 needs no number of iterations, so an unknown one is only a remark."""
    if not profiles:
        return _Prediction()
    try:
        workload = build_workload(
            profiles,
            decide=partial(decide_epochs, stated, leading=profiles[0]),
            iterations_per_epoch=stated.iterations_per_epoch,
            overheads=None,
            settings=settings,
        )
    except UsageError as error:
        if stated != StatedLength():
            raise
        return _Prediction(error=error)
    leading = workload.leading
    forecast = ClusterForecast(
        predictor=workload.predictor,
        profile=leading.profiles[0],
        length_at=partial(_length_at, workload),
        epochs=leading.length.epochs,
        vm_types=vm_types,
    )
    return _Prediction(forecast=forecast, length_reason=leading.length.reason)


def _length_at(workload: Workload, batch_size: int | None) -> tuple[float, int]:
    group = workload.at(batch_size)
    length = group.length
    exact = group.iterations_per_epoch if length.iterations is None else length.iterations / length.epochs
    return exact, length.epochs


@dataclass(frozen=True, slots=True)
class _WorkerTraffic:
    """The traffic of one worker: stated, measured in a profile, or predicted."""

    stated: Mapping[str, float]
    profiles: Sequence[Profile]
    vm_types: Mapping[str, VmType]
    forecast: ClusterForecast | None
    server: Server

    def mbps(self, name: str) -> float | None:
        if name in self.stated:
            return self.stated[name]
        key = self.vm_types[name].key if name in self.vm_types else name
        for profile in reversed(self.profiles):  # of several profiles, the last one named
            if profile.host.vm_type == key and (mbps := _profiled_mbps(profile, self.server)):
                return mbps
        return self.forecast.mbps(name, self.server) if self.forecast else None


def _profiled_mbps(profile: Profile, server: Server) -> float | None:
    """Bytes per iteration divided by its time, in the busier direction.

    A profile without a server has sent nothing. Then the gradient goes up and the weights come down once per iteration,
    which takes longer by that: S/(t + 2·S/B).
    """
    steady = profile.steady_iteration_seconds
    if not steady:
        return None
    seconds = median(steady)
    measured = max(profile.sent_bytes or 0, profile.received_bytes or 0)
    if profile.world_size > 1 and measured:
        return mbps_of(measured, seconds)
    if not profile.gradient_bytes:
        return None
    bytes_per_second = server.mbps * BYTES_PER_SECOND_OF_MBPS
    transfer = transfer_seconds(profile.gradient_bytes, gpus_at_server=1, bytes_per_second=bytes_per_second)
    return mbps_of(profile.gradient_bytes, seconds + transfer)


def _fc2_choices(
    requested: Cluster,
    server: Server,
    types: Sequence[Worker],
    limit: ClusterLimit,
    fill: float,
    estimates: Sequence[ClusterEstimate],
) -> tuple[Cluster, ...]:
    """The choices of all algorithms of FC2 that have one; scala-opt-m gets the type of our cheapest cluster with a
    server."""
    if not estimates:
        return ()
    with_server = [one for one in estimates if one.server is not None]
    ours = [cheapest(with_server).worker] if with_server else []
    found = []
    for algorithm in ALGORITHMS:
        if algorithm == requested.algorithm:
            found.append(requested)
            continue
        given = ours if algorithm == "scala-opt-m" else types
        if given and (algorithm in PRICE_ONLY_ALGORITHMS or all(worker.mbps for worker in given)):
            try:
                found.append(_solve(algorithm, server, given, limit, fill))
            except InfeasibleError:
                continue  # it was not requested, and the table shows only algorithms with a choice
    return tuple(found)


def _remarks(prediction: _Prediction, rated: Sequence[RatedCluster], types: Sequence[Worker]) -> Iterator[Reason]:
    """Remarks on the predictions: losses of FC2's choices, assumptions, and what could not be predicted."""
    error = prediction.error
    if error is not None:
        missing_argument = {error.field: "N"} if error.field else {}
        yield Reason(
            topic="assumptions", code="times_not_predicted", values={"why": error.message}, arguments=missing_argument
        )
    forecast = prediction.forecast
    if forecast is None:
        return
    unknown = tuple(worker.name for worker in types if forecast.single_worker(worker.name) is None)
    missing = (
        [Reason(topic="assumptions", code="workers_not_predicted", values={"workers": unknown})] if unknown else []
    )
    if not rated:
        yield from missing
        return
    yield from rating_reasons(rated)
    batch_size = forecast.profile.micro_batch_size
    yield Reason(topic="assumptions", code="workers_keep_their_batch", values={"batch_size": batch_size})
    for each in rated:
        if each.by == "scala-opt-m" and len(types) > 1:
            yield Reason(topic="assumptions", code="scala_opt_m_worker", values={"worker": each.worker.name})
    yield from missing
    counts = {
        (each.workers, each.worker.name): None
        for each in rated
        if each.estimate is None and each.worker.name not in unknown
    }
    for workers, worker in counts:
        values: dict[str, Scalar] = {"workers": workers, "worker": worker, "most": MAX_WORKERS}
        yield Reason(topic="assumptions", code="worker_count_not_predicted", values=values)
    if prediction.length_reason is not None:
        yield prediction.length_reason


def _require_known_workers(stated: Mapping[str, float], prices_by_worker: Mapping[str, float | None]) -> None:
    for name, mbps in stated.items():
        if name not in prices_by_worker:
            raise NotFoundError("worker", name, prices_by_worker, field="worker_mbps")
        if mbps <= 0:
            raise UsageError(f"the traffic of one {name} must be positive, got {mbps:g} Mbit/s.", field="worker_mbps")


def _server_reasons(server: Server, possible: Sequence[Server]) -> tuple[Reason, ...]:
    if len(possible) == 1:
        return ()
    values: dict[str, Scalar] = {"server": server.name, "servers": len(possible), "mbps": server.mbps}
    return (Reason(topic="why", code="widest_server", values=values),)
