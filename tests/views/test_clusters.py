"""The sentences and the record of a recommended cluster."""

import pytest

from trainfare.model.cluster import ClusterAdvice, ClusterEstimate, ClusterLimit, Server, Worker
from trainfare.model.interval import Interval
from trainfare.model.reason import Reason
from trainfare.recommender.clusters.fc2 import cost_opt, fc2_reasons, scala_opt, time_opt
from trainfare.recommender.clusters.own import rate_clusters, rating_reasons
from trainfare.views.cluster_record import cluster_record
from trainfare.views.clusters import cluster_name
from trainfare.views.reasons import sentence

PS = Server(name="ps", usd_per_hour=0.5, mbps=450)
FAST = Worker(name="fast", usd_per_hour=1.0, mbps=200)
SLOW = Worker(name="slow", usd_per_hour=0.2, mbps=100)


def estimate(worker: Worker, workers: int, seconds: float, server: Server | None = PS) -> ClusterEstimate:
    return ClusterEstimate(
        server=server, worker=worker, workers=workers, seconds=Interval.within_factor(seconds, 1.5), basis="scaled"
    )


def test_a_cluster_is_named_by_its_workers_and_its_server() -> None:
    assert cluster_name(estimate(FAST, 3, 60)) == "3 × fast behind ps"
    assert cluster_name(estimate(FAST, 3, 60, server=None)) == "3 × fast, no server"
    assert cluster_name(estimate(FAST, 1, 60, server=None)) == "1 × fast alone"


def test_scala_opt_in_sentences() -> None:
    cluster = scala_opt(PS, [SLOW, FAST], ClusterLimit(usd_per_hour=3))
    assert [sentence(reason) for reason in fc2_reasons(cluster)] == [
        "one fast sends 200 Mbps, and ps can use 95% of its 450 Mbps, which is enough for 2 workers; other types would "
        "need as many or more (slow 4), so each of them does less",
        "it costs $2.50 an hour of a budget of $3.00: $0.50 for the server and $1.00 for each worker",
    ]


def test_a_budget_below_the_bandwidth_is_mentioned() -> None:
    cluster = scala_opt(PS, [FAST], ClusterLimit(usd_per_hour=1.6))
    assert "enough for 2 workers; the budget pays for 1" in sentence(fc2_reasons(cluster)[0])


def test_cost_opt_in_sentences() -> None:
    cluster = cost_opt(PS, [SLOW, FAST], ClusterLimit(workers=6))
    assert [sentence(reason) for reason in fc2_reasons(cluster)] == [
        "slow is the cheapest of 2 types; as many as the limit allows",
        "the limit of 6 workers is reached",
        "6 workers would send 600 Mbps to a server with a bandwidth of 450 Mbps; above that, more workers hardly make "
        "the training faster",
    ]


def test_a_pure_loss_is_given_in_dollars_and_percent() -> None:
    every = [estimate(FAST, 6, 3600), estimate(FAST, 2, 3600, server=None)]
    (reason,) = rating_reasons(rate_clusters([time_opt(PS, [SLOW, FAST], ClusterLimit(workers=6))], every))
    assert sentence(reason) == (
        "time-opt: 6 × fast behind ps costs $6.50; 2 × fast, no server takes no longer (1 h, compared with 1 h) and "
        "costs $2.00, 69% less"
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            Reason(topic="why", code="widest_server", values={"server": "ps", "servers": 2, "mbps": 450.0}),
            "ps has the largest bandwidth of 2 servers: 450 Mbps",
        ),
        (
            Reason(topic="assumptions", code="times_not_predicted", values={"why": "no epochs"}),
            "times are not predicted: no epochs",
        ),
        (
            Reason(topic="assumptions", code="scala_opt_m_worker", values={"worker": "fast"}),
            "scala-opt-m needs one type of worker and gets fast, with which a cluster with a server costs least",
        ),
        (
            Reason(
                topic="assumptions",
                code="worker_count_not_predicted",
                values={"workers": 9, "worker": "fast", "most": 128},
            ),
            "no time is predicted for 9 × fast: an epoch has fewer batches than workers, or there are more than 128 "
            "workers",
        ),
    ],
)
def test_remarks_are_sentences(reason: Reason, expected: str) -> None:
    assert sentence(reason) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [(64, "each worker keeps its batch size of 64,"), (None, "batch size, ")]
)
def test_the_batch_size_is_named_if_known(size: int | None, expected: str) -> None:
    assert expected in sentence(
        Reason(topic="assumptions", code="workers_keep_their_batch", values={"batch_size": size})
    )


def test_the_record_keeps_its_keys() -> None:
    cluster = cost_opt(PS, [SLOW, FAST], ClusterLimit(workers=2))
    rated = rate_clusters([cluster], [estimate(SLOW, 2, 3600), estimate(SLOW, 1, 3600, server=None)])
    advice = ClusterAdvice(cluster=cluster, reasons=fc2_reasons(cluster), epochs=3, rated=rated)
    record = cluster_record(advice)
    assert (record["worker"], record["workers"], record["limit"]) == ("slow", 2, {"usd_per_hour": None, "workers": 2})
    first = record["rated"][0]
    assert set(first) == {
        *("by", "server", "worker", "workers", "usd_per_hour", "basis"),
        *("seconds", "seconds_low", "seconds_high", "usd", "usd_low", "usd_high"),
        *("over_cheapest", "over_fastest", "over_as_fast", "as_fast"),
    }
    assert (first["by"], first["as_fast"]["workers"], first["as_fast"]["server"]) == ("cost-opt", 1, None)
    assert first["over_as_fast"] == pytest.approx(0.9 / 0.2 - 1)
    assert record["reasons"] == [sentence(reason) for reason in advice.reasons]
