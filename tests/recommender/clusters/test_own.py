import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.model.cluster import Cluster, ClusterLimit, Server, ClusterEstimate, Worker
from trainfare.model.interval import Interval
from trainfare.recommender.clusters.fc2 import cost_opt, time_opt
from trainfare.recommender.clusters.own import (
    MOST_WORKERS,
    beside,
    cheapest,
    cluster_words,
    counts,
    fastest,
    own_reasons,
)

PS = Server(name="ps", usd_per_hour=0.5, mbps=1000)
SLOW = Worker(name="slow", usd_per_hour=0.2, mbps=50)
FAST = Worker(name="fast", usd_per_hour=1.0, mbps=300)


def trained(worker: Worker, workers: int, seconds: float, server: Server | None = PS) -> ClusterEstimate:
    return ClusterEstimate(
        server=server, worker=worker, workers=workers, seconds=Interval.exactly(seconds), basis="scaled"
    )


def served(worker: Worker, compute: float, transfer: float, most: int) -> list[ClusterEstimate]:
    """T = t/n + k, the document's form."""
    return [trained(worker, n, 3600 * (compute / n + transfer)) for n in range(1, most + 1)]


@given(st.floats(0.1, 100), st.floats(1e-3, 1))
def test_the_cheapest_number_behind_a_server_is_the_root_of_the_formula(compute: float, transfer: float) -> None:
    """√(c_ps·t/(c_t·k)), rounded to one of its neighbours."""
    best = math.sqrt(PS.usd_per_hour * compute / (SLOW.usd_per_hour * transfer))
    found = cheapest(served(SLOW, compute, transfer, most=math.ceil(best) + 3)).workers
    assert found in {max(1, math.floor(best)), math.ceil(best)}


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(1, 1e5)), min_size=1, max_size=12, unique_by=lambda t: t[0]))
def test_nothing_is_cheaper_than_the_cheapest_nor_faster_than_the_fastest(times: list[tuple[int, float]]) -> None:
    all_of_them = [trained(SLOW, n, seconds) for n, seconds in times]
    assert all(cheapest(all_of_them).usd.value <= one.usd.value for one in all_of_them)
    assert all(fastest(all_of_them).seconds.value <= one.seconds.value for one in all_of_them)


@given(st.floats(0.1, 100), st.floats(1e-3, 1), st.integers(1, 12))
def test_a_recommendation_loses_nothing_or_something_never_less(compute: float, transfer: float, most: int) -> None:
    limit = ClusterLimit(workers=most)
    everything = [*served(SLOW, compute, transfer, most), *served(FAST, compute / 4, transfer, most)]
    for each in beside([f(PS, [SLOW, FAST], limit) for f in (cost_opt, time_opt)], everything):
        for lost in (each.over_cheapest, each.over_fastest, each.over_as_fast):
            assert lost is not None
            assert lost >= -1e-9
        assert each.as_fast is not None
        assert each.trained is not None
        assert each.as_fast.seconds.value <= each.trained.seconds.value


def test_the_budget_is_for_the_server_too_where_there_is_one() -> None:
    limit = ClusterLimit(usd_per_hour=1.5)
    assert list(counts(PS, SLOW, limit)) == [1, 2, 3, 4, 5]
    assert max(counts(None, SLOW, limit)) == 7
    assert max(counts(None, SLOW, ClusterLimit(usd_per_hour=1.5, workers=3))) == 3
    assert list(counts(PS, SLOW, ClusterLimit(usd_per_hour=0.6))) == []
    assert max(counts(PS, SLOW, ClusterLimit(usd_per_hour=1e6))) == MOST_WORKERS


def test_ours_stand_below_fc2s_each_cluster_once() -> None:
    everything = [trained(SLOW, 1, 7200), trained(SLOW, 2, 4000), trained(SLOW, 1, 7000, server=None)]
    shown = beside([cost_opt(PS, [SLOW], ClusterLimit(workers=2))], everything)
    assert [(each.by, cluster_words(each)) for each in shown] == [
        ("cost-opt", "2 × slow behind ps"),
        ("ours, cheapest", "1 × slow alone"),
        ("ours, fastest", "2 × slow behind ps"),
    ]


def test_one_that_is_both_is_called_both() -> None:
    shown = beside([], [trained(SLOW, 1, 7200), trained(SLOW, 1, 3600, server=None)])
    assert [each.by for each in shown] == ["ours, cheapest and fastest", "ours, cheapest and fastest with a server"]


def test_what_is_not_predicted_is_listed_without_numbers() -> None:
    unknown = Worker(name="unknown", usd_per_hour=0.1)
    (first, *_) = beside([cost_opt(PS, [unknown, SLOW], ClusterLimit(workers=2))], [trained(SLOW, 1, 7200)])
    assert (first.worker, first.trained, first.over_as_fast, first.over_cheapest) == (unknown, None, None, None)
    assert own_reasons([first]) == ()


def test_what_fc2_loses_for_nothing_is_said_in_dollars() -> None:
    found: list[Cluster] = [time_opt(PS, [SLOW, FAST], ClusterLimit(workers=6))]
    everything = [trained(FAST, 6, 3600), trained(FAST, 2, 3600, server=None)]
    (words,) = own_reasons(beside(found, everything))
    assert "time-opt: 6 × fast behind ps costs 6.50 $" in words
    assert "2 × fast, no server takes no longer" in words
    assert "2.00 $, 69 % less" in words


def test_nothing_predicted_is_nothing_compared() -> None:
    assert beside([cost_opt(PS, [SLOW], ClusterLimit(workers=2))], []) == ()


def test_cost_is_price_times_time() -> None:
    assert trained(SLOW, 3, 1800).usd.value == pytest.approx((0.5 + 3 * 0.2) / 2)
    with pytest.raises(ValueError, match="workers"):
        trained(SLOW, 0, 1800)
