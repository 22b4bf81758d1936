from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainfare.errors import InfeasibleError
from trainfare.model.cluster import Cluster, ClusterLimit, Server, Worker
from trainfare.model.reason import Reason
from trainfare.recommender.clusters.fc2 import (
    cost_opt,
    fc2_reasons,
    mbps_of,
    mbps_range_for,
    scala_opt,
    scala_opt_m,
    time_opt,
    training_usd,
    widest_server,
)

cents = st.integers(1, 500).map(lambda n: n / 100)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Server, list[Worker], ClusterLimit]:
    """Prices in cents and integer megabits, so that brute force can count in fractions."""
    server = Server(name="ps", usd_per_hour=draw(cents), mbps=draw(st.integers(1, 2000)))
    types = draw(st.lists(st.tuples(cents, st.integers(1, 500)), min_size=1, max_size=4))
    workers = [Worker(name=f"w{i}", usd_per_hour=price, mbps=mbps) for i, (price, mbps) in enumerate(types)]
    budget = draw(st.none() | st.integers(1, 3000).map(lambda n: n / 100))
    most = draw(st.integers(1, 12)) if budget is None else draw(st.none() | st.integers(1, 12))
    return server, workers, ClusterLimit(usd_per_hour=budget, workers=most)


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def affordable(server: Server, worker: Worker, limit: ClusterLimit, n: int) -> bool:
    if limit.usd_per_hour is None:
        return True
    return exact(server.usd_per_hour) + n * exact(worker.usd_per_hour) <= exact(limit.usd_per_hour)


def is_allowed(server: Server, worker: Worker, limit: ClusterLimit, fill: Fraction, n: int) -> bool:
    return n * exact(worker.mbps or 0) <= fill * exact(server.mbps) and affordable(server, worker, limit, n)


def largest(allowed: Callable[[int], bool]) -> int:
    n = 0
    while n < 40_000 and allowed(n + 1):
        n += 1
    return n


@given(problems())
def test_cost_opt_agrees_with_brute_force(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
    """The most workers of the cheapest type that the limit allows."""
    server, workers, limit = problem
    cheapest = min(workers, key=lambda w: w.usd_per_hour)
    n = largest(lambda n: n <= (limit.workers or 10**4) and affordable(server, cheapest, limit, n))
    if n == 0:
        with pytest.raises(InfeasibleError):
            cost_opt(server, workers, limit)
        return
    found = cost_opt(server, workers, limit)
    assert (found.workers, found.worker.usd_per_hour) == (n, cheapest.usd_per_hour)


@given(problems())
def test_cost_opt_never_costs_more_than_as_many_of_another_type(
    problem: tuple[Server, list[Worker], ClusterLimit],
) -> None:
    server, workers, limit = problem
    try:
        found = cost_opt(server, workers, limit)
    except InfeasibleError:
        assume(False)
    for worker in workers:
        assert found.usd_per_hour <= server.usd_per_hour + found.workers * worker.usd_per_hour + 1e-9


@given(problems())
def test_time_opt_takes_the_most_expensive_type_within_the_limit(
    problem: tuple[Server, list[Worker], ClusterLimit],
) -> None:
    server, workers, limit = problem
    most_expensive = max(workers, key=lambda w: w.usd_per_hour)
    n = largest(lambda n: n <= (limit.workers or 10**4) and affordable(server, most_expensive, limit, n))
    assume(n > 0)
    found = time_opt(server, workers, limit)
    assert (found.workers, found.worker.usd_per_hour) == (n, most_expensive.usd_per_hour)


@given(problems(), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_scala_opt_agrees_with_brute_force(problem: tuple[Server, list[Worker], ClusterLimit], fill: float) -> None:
    """Step by step as in the document, in fractions."""
    server, workers, limit = problem
    best: tuple[int, Worker] | None = None
    for worker in sorted(workers, key=lambda w: -w.usd_per_hour):
        n = largest(partial(is_allowed, server, worker, limit, exact(fill)))
        if n and (best is None or n < best[0]):
            best = n, worker
    if best is None:
        with pytest.raises(InfeasibleError):
            scala_opt(server, workers, limit, fill=fill)
        return
    found = scala_opt(server, workers, limit, fill=fill)
    assert (found.workers, found.worker) == (min(best[0], limit.workers or best[0]), best[1])


@given(problems())
def test_scala_opt_never_exceeds_the_server_nor_the_limit(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
    server, workers, limit = problem
    try:
        found = scala_opt(server, workers, limit)
    except InfeasibleError:
        assume(False)
    assert (found.mbps or 0) <= 0.95 * server.mbps * (1 + 1e-9)
    assert found.workers <= (limit.workers or found.workers)
    assert found.usd_per_hour <= (limit.usd_per_hour or found.usd_per_hour) * (1 + 1e-9)


@given(problems())
def test_more_bandwidth_never_gets_fewer_workers_of_one_type(
    problem: tuple[Server, list[Worker], ClusterLimit],
) -> None:
    server, (worker, *_), limit = problem
    wider = Server(name="wider", usd_per_hour=server.usd_per_hour, mbps=2 * server.mbps)
    try:
        narrow = scala_opt_m(server, worker, limit)
    except InfeasibleError:
        assume(False)
    assert scala_opt_m(wider, worker, limit).workers >= narrow.workers


M4_LARGE = Server(name="m4.large", usd_per_hour=0.125, mbps=450)


def worker(name: str, price: float, mbps: float) -> Worker:
    return Worker(name=name, usd_per_hour=price, mbps=mbps)


def test_of_equal_numbers_the_most_expensive_type_wins() -> None:
    types = [worker("cheap", 0.2, 150), worker("expensive", 0.3, 150)]
    assert scala_opt(M4_LARGE, types, ClusterLimit(workers=6)).worker.name == "expensive"


def test_a_type_that_needs_fewer_workers_wins_although_it_is_cheaper() -> None:
    types = [worker("fast", 0.2, 200), worker("expensive", 0.3, 100)]
    found = scala_opt(M4_LARGE, types, ClusterLimit(workers=6))
    assert (found.worker.name, found.workers) == ("fast", 2)


def test_types_are_compared_before_the_number_is_cut_to_the_limit() -> None:
    """If cut first, all would have 6, and the most expensive would win: not the recommendation of section 8.4."""
    server = Server(name="m4.10xlarge", usd_per_hour=2.5, mbps=10_000)
    types = [worker("c4.8xlarge", 1.848, 250), worker("p2.xlarge", 1.718, 180), worker("g3.4xlarge", 1.67, 400)]
    found = scala_opt(server, types, ClusterLimit(workers=6))
    assert (found.worker.name, found.workers) == ("g3.4xlarge", 6)


def test_scala_opt_m_uses_the_type_of_the_user() -> None:
    found = scala_opt_m(M4_LARGE, worker("mine", 0.2, 100), ClusterLimit(usd_per_hour=2))
    assert (found.algorithm, found.workers) == ("scala-opt-m", 4)


def test_two_dollars_an_hour_by_hand() -> None:
    """(2 − 0.125) / 0.231 = 8.1."""
    assert cost_opt(M4_LARGE, [worker("c4.xlarge", 0.231, 1)], ClusterLimit(usd_per_hour=2)).workers == 8


def test_rounding_errors_do_not_lose_a_worker() -> None:
    """(0.425 − 0.125) / 0.1 is 2.9999999999999996 in floats."""
    assert cost_opt(M4_LARGE, [worker("w", 0.1, 1)], ClusterLimit(usd_per_hour=0.425)).workers == 3


def test_the_server_with_the_largest_bandwidth_is_chosen_and_of_equal_ones_the_cheapest() -> None:
    servers = [Server(name=n, usd_per_hour=p, mbps=m) for n, p, m in (("a", 1, 10), ("b", 3, 20), ("c", 2, 20))]
    assert widest_server(servers).name == "c"


@given(st.integers(1, 50), st.floats(10, 1e5), st.floats(0.1, 1))
def test_every_bandwidth_in_the_range_gives_that_number(n: int, mbps: float, fill: float) -> None:
    server = Server(name="ps", usd_per_hour=1, mbps=mbps)
    low, high = mbps_range_for(n, server, fill=fill)
    for inside in (low * (1 + 1e-6), (low + high) / 2, high):
        assert scala_opt_m(server, worker("w", 1, inside), ClusterLimit(workers=1000), fill=fill).workers == n
    for outside in (low, high * (1 + 1e-6)):
        try:
            assert scala_opt_m(server, worker("w", 1, outside), ClusterLimit(workers=1000), fill=fill).workers != n
        except InfeasibleError:
            assert n == 1


def test_a_megabyte_a_second_is_eight_megabits() -> None:
    assert mbps_of(2e6, 2.0) == 8


def test_a_budget_below_one_worker_names_the_price_of_one() -> None:
    with pytest.raises(InfeasibleError, match=r"which cost \$0\.33"):
        cost_opt(M4_LARGE, [worker("w", 0.2, 1)], ClusterLimit(usd_per_hour=0.3))


def test_a_worker_that_exceeds_the_server_asks_for_more_bandwidth() -> None:
    with pytest.raises(InfeasibleError, match="more bandwidth"):
        scala_opt(M4_LARGE, [worker("w", 0.2, 500)], ClusterLimit(workers=6))


def test_an_hour_of_the_cluster_is_the_server_and_all_workers() -> None:
    found = time_opt(M4_LARGE, [worker("w", 0.25, 1)], ClusterLimit(workers=6))
    assert training_usd(found, 3600) == pytest.approx(0.125 + 6 * 0.25)


def reasons_by_code(found: Cluster) -> dict[str, Reason]:
    return {reason.code: reason for reason in fc2_reasons(found)}


def test_scala_opt_is_explained_by_the_network_and_the_other_types() -> None:
    types = [worker("fast", 0.2, 200), worker("expensive", 0.3, 100)]
    found = reasons_by_code(scala_opt(M4_LARGE, types, ClusterLimit(usd_per_hour=2)))
    assert list(found) == ["workers_by_network", "cluster_price"]
    assert found["workers_by_network"].values == {
        "worker": "fast",
        "worker_mbps": 200,
        "server": "m4.large",
        "server_mbps": 450,
        "fill": 0.95,
        "by_network": 2,
        "by_budget": 9,
        "others": ({"worker": "expensive", "workers": 4},),
    }
    assert found["cluster_price"].values["usd_per_hour"] == pytest.approx(0.125 + 2 * 0.2)


def test_cost_opt_is_explained_by_prices_and_the_limit() -> None:
    found = reasons_by_code(cost_opt(M4_LARGE, [worker("w", 0.2, 10)], ClusterLimit(workers=6)))
    assert list(found) == ["worker_by_price", "worker_limit_reached"]
    assert found["worker_by_price"].values == {"worker": "w", "cheapest": True, "types": 1}
    assert found["worker_limit_reached"].values == {"workers": 6}


def test_more_workers_than_the_bandwidth_allows_are_a_reason_to_warn() -> None:
    found = reasons_by_code(time_opt(M4_LARGE, [worker("w", 0.2, 200)], ClusterLimit(workers=6)))
    assert found["server_saturated"].values == {"workers": 6, "mbps": 1200, "server_mbps": 450}


def test_invalid_nouns_are_refused() -> None:
    with pytest.raises(ValueError, match="budget or a maximum number"):
        ClusterLimit()
    with pytest.raises(ValueError, match="mbps"):
        Server(name="ps", usd_per_hour=1, mbps=0)
    with pytest.raises(ValueError, match="usd_per_hour"):
        Worker(name="w", usd_per_hour=0)
