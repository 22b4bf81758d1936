import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.model.cluster import Cluster, ClusterEstimate, ClusterLimit, Server, Worker
from trainfare.model.interval import Interval
from trainfare.recommender.clusters.fc2 import cost_opt, time_opt
from trainfare.recommender.clusters.own import (
    MAX_WORKERS,
    cheapest,
    fastest,
    rate_clusters,
    rating_reasons,
    worker_counts,
)
from trainfare.views.clusters import cluster_name

PS = Server(name="ps", usd_per_hour=0.5, mbps=1000)
SLOW = Worker(name="slow", usd_per_hour=0.2, mbps=50)
FAST = Worker(name="fast", usd_per_hour=1.0, mbps=300)


def estimate(worker: Worker, workers: int, seconds: float, server: Server | None = PS) -> ClusterEstimate:
    return ClusterEstimate(
        server=server, worker=worker, workers=workers, seconds=Interval.exactly(seconds), basis="scaled"
    )


def behind_server(worker: Worker, compute: float, transfer: float, most: int) -> list[ClusterEstimate]:
    """T = t/n + k, as in the document."""
    return [estimate(worker, n, 3600 * (compute / n + transfer)) for n in range(1, most + 1)]


@given(st.floats(0.1, 100), st.floats(1e-3, 1))
def test_the_cheapest_number_behind_a_server_agrees_with_the_formula(compute: float, transfer: float) -> None:
    """√(c_ps·t/(c_t·k)), rounded to one of its neighbours."""
    best = math.sqrt(PS.usd_per_hour * compute / (SLOW.usd_per_hour * transfer))
    found = cheapest(behind_server(SLOW, compute, transfer, most=math.ceil(best) + 3)).workers
    assert found in {max(1, math.floor(best)), math.ceil(best)}


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(1, 1e5)), min_size=1, max_size=12, unique_by=lambda t: t[0]))
def test_nothing_is_cheaper_than_the_cheapest_nor_faster_than_the_fastest(times: list[tuple[int, float]]) -> None:
    every = [estimate(SLOW, n, seconds) for n, seconds in times]
    assert all(cheapest(every).usd.value <= one.usd.value for one in every)
    assert all(fastest(every).seconds.value <= one.seconds.value for one in every)


@given(st.floats(0.1, 100), st.floats(1e-3, 1), st.integers(1, 12))
def test_losses_are_never_negative(compute: float, transfer: float, most: int) -> None:
    limit = ClusterLimit(workers=most)
    every = [*behind_server(SLOW, compute, transfer, most), *behind_server(FAST, compute / 4, transfer, most)]
    for each in rate_clusters([f(PS, [SLOW, FAST], limit) for f in (cost_opt, time_opt)], every):
        for lost in (each.cost_over_cheapest, each.time_over_fastest, each.cost_over_as_fast):
            assert lost is not None
            assert lost >= -1e-9
        assert each.cheapest_as_fast is not None
        assert each.estimate is not None
        assert each.cheapest_as_fast.seconds.value <= each.estimate.seconds.value


def test_the_budget_includes_the_server_if_there_is_one() -> None:
    limit = ClusterLimit(usd_per_hour=1.5)
    assert list(worker_counts(PS, SLOW, limit)) == [1, 2, 3, 4, 5]
    assert max(worker_counts(None, SLOW, limit)) == 7
    assert max(worker_counts(None, SLOW, ClusterLimit(usd_per_hour=1.5, workers=3))) == 3
    assert list(worker_counts(PS, SLOW, ClusterLimit(usd_per_hour=0.6))) == []
    assert max(worker_counts(PS, SLOW, ClusterLimit(usd_per_hour=1e6))) == MAX_WORKERS


def test_our_choices_follow_those_of_fc2_each_cluster_once() -> None:
    every = [estimate(SLOW, 1, 7200), estimate(SLOW, 2, 4000), estimate(SLOW, 1, 7000, server=None)]
    shown = rate_clusters([cost_opt(PS, [SLOW], ClusterLimit(workers=2))], every)
    assert [(each.by, cluster_name(each)) for each in shown] == [
        ("cost-opt", "2 × slow behind ps"),
        ("ours, cheapest", "1 × slow alone"),
        ("ours, fastest", "2 × slow behind ps"),
    ]


def test_a_cluster_that_is_cheapest_and_fastest_is_named_once() -> None:
    shown = rate_clusters([], [estimate(SLOW, 1, 7200), estimate(SLOW, 1, 3600, server=None)])
    assert [each.by for each in shown] == ["ours, cheapest and fastest", "ours, cheapest and fastest with a server"]


def test_a_cluster_without_a_prediction_is_listed_without_numbers() -> None:
    unknown = Worker(name="unknown", usd_per_hour=0.1)
    (first, *_) = rate_clusters([cost_opt(PS, [unknown, SLOW], ClusterLimit(workers=2))], [estimate(SLOW, 1, 7200)])
    assert (first.worker, first.estimate, first.cost_over_as_fast, first.cost_over_cheapest) == (
        unknown,
        None,
        None,
        None,
    )
    assert rating_reasons([first]) == ()


def test_a_pure_loss_of_fc2_is_a_reason() -> None:
    found: list[Cluster] = [time_opt(PS, [SLOW, FAST], ClusterLimit(workers=6))]
    every = [estimate(FAST, 6, 3600), estimate(FAST, 2, 3600, server=None)]
    (reason,) = rating_reasons(rate_clusters(found, every))
    assert reason.code == "cheaper_cluster_as_fast"
    assert reason.values == {
        "algorithms": ("time-opt",),
        "chosen_workers": 6,
        "chosen_worker": "fast",
        "chosen_server": "ps",
        "chosen_seconds": 3600,
        "chosen_usd": 6.5,
        "better_workers": 2,
        "better_worker": "fast",
        "better_server": None,
        "better_seconds": 3600,
        "better_usd": 2.0,
        "saved_share": pytest.approx(1 - 2 / 6.5),
    }


def test_without_predictions_nothing_is_rated() -> None:
    assert rate_clusters([cost_opt(PS, [SLOW], ClusterLimit(workers=2))], []) == ()


def test_cost_is_price_times_time() -> None:
    assert estimate(SLOW, 3, 1800).usd.value == pytest.approx((0.5 + 3 * 0.2) / 2)
    with pytest.raises(ValueError, match="workers"):
        estimate(SLOW, 0, 1800)
