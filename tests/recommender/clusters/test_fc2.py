from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainfare.errors import InfeasibleError
from trainfare.model.cluster import Cluster, ClusterLimit, Server, Worker
from trainfare.recommender.clusters.fc2 import (
    cost_opt,
    mbps_of,
    mbps_that_gives,
    reasons,
    scala_opt,
    scala_opt_m,
    time_opt,
    usd_of_training,
    widest_server,
)

cents = st.integers(1, 500).map(lambda n: n / 100)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Server, list[Worker], ClusterLimit]:
    """Prices in cents and whole megabits, so that brute force can count in fractions."""
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


def holds(server: Server, worker: Worker, limit: ClusterLimit, fill: Fraction, n: int) -> bool:
    return n * exact(worker.mbps or 0) <= fill * exact(server.mbps) and affordable(server, worker, limit, n)


def largest(allowed: Callable[[int], bool]) -> int:
    n = 0
    while n < 40_000 and allowed(n + 1):
        n += 1
    return n


@given(problems())
def test_cost_opt_agrees_with_brute_force(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
    """Of every type and number that the limit allows: the most workers of the cheapest type."""
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
def test_cost_opt_never_costs_more_than_as_many_of_another_type(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
    server, workers, limit = problem
    try:
        found = cost_opt(server, workers, limit)
    except InfeasibleError:
        assume(False)
    for worker in workers:
        assert found.usd_per_hour <= server.usd_per_hour + found.workers * worker.usd_per_hour + 1e-9


@given(problems())
def test_time_opt_takes_the_dearest_within_the_limit(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
    server, workers, limit = problem
    dearest = max(workers, key=lambda w: w.usd_per_hour)
    n = largest(lambda n: n <= (limit.workers or 10**4) and affordable(server, dearest, limit, n))
    assume(n > 0)
    found = time_opt(server, workers, limit)
    assert (found.workers, found.worker.usd_per_hour) == (n, dearest.usd_per_hour)


@given(problems(), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_scala_opt_agrees_with_brute_force(problem: tuple[Server, list[Worker], ClusterLimit], fill: float) -> None:
    """Step by step as the document has it, in fractions."""
    server, workers, limit = problem
    best: tuple[int, Worker] | None = None
    for worker in sorted(workers, key=lambda w: -w.usd_per_hour):
        n = largest(partial(holds, server, worker, limit, exact(fill)))
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
def test_a_wider_server_never_gets_fewer_workers_of_one_type(problem: tuple[Server, list[Worker], ClusterLimit]) -> None:
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


def test_with_equal_numbers_the_first_and_most_expensive_stays() -> None:
    types = [worker("cheap", 0.2, 150), worker("dear", 0.3, 150)]
    assert scala_opt(M4_LARGE, types, ClusterLimit(workers=6)).worker.name == "dear"


def test_a_type_that_fills_the_network_with_fewer_wins_though_it_is_cheaper() -> None:
    types = [worker("fast", 0.2, 200), worker("dear", 0.3, 100)]
    found = scala_opt(M4_LARGE, types, ClusterLimit(workers=6))
    assert (found.worker.name, found.workers) == ("fast", 2)


def test_types_are_compared_before_the_limit_cuts_the_winner() -> None:
    """Cut first, all would have 6, and the most expensive would stay: not what the document recommends in 8.4."""
    server = Server(name="m4.10xlarge", usd_per_hour=2.5, mbps=10_000)
    types = [worker("c4.8xlarge", 1.848, 250), worker("p2.xlarge", 1.718, 180), worker("g3.4xlarge", 1.67, 400)]
    found = scala_opt(server, types, ClusterLimit(workers=6))
    assert (found.worker.name, found.workers) == ("g3.4xlarge", 6)


def test_scala_opt_m_keeps_the_type_of_the_user() -> None:
    found = scala_opt_m(M4_LARGE, worker("mine", 0.2, 100), ClusterLimit(usd_per_hour=2))
    assert (found.algorithm, found.workers) == ("scala-opt-m", 4)


def test_two_dollars_an_hour_by_hand() -> None:
    """(2 − 0.125) / 0.231 = 8.1."""
    assert cost_opt(M4_LARGE, [worker("c4.xlarge", 0.231, 1)], ClusterLimit(usd_per_hour=2)).workers == 8


def test_a_count_that_floats_would_miss_is_whole() -> None:
    """(0.425 − 0.125) / 0.1 is 2.9999999999999996 in floats."""
    assert cost_opt(M4_LARGE, [worker("w", 0.1, 1)], ClusterLimit(usd_per_hour=0.425)).workers == 3


def test_the_widest_server_is_taken_and_of_equal_ones_the_cheapest() -> None:
    servers = [Server(name=n, usd_per_hour=p, mbps=m) for n, p, m in (("a", 1, 10), ("b", 3, 20), ("c", 2, 20))]
    assert widest_server(servers).name == "c"


@given(st.integers(1, 50), st.floats(10, 1e5), st.floats(0.1, 1))
def test_every_bandwidth_of_the_range_gives_that_number(n: int, mbps: float, fill: float) -> None:
    server = Server(name="ps", usd_per_hour=1, mbps=mbps)
    low, high = mbps_that_gives(n, server, fill=fill)
    for inside in (low * (1 + 1e-6), (low + high) / 2, high):
        assert scala_opt_m(server, worker("w", 1, inside), ClusterLimit(workers=1000), fill=fill).workers == n
    for outside in (low, high * (1 + 1e-6)):
        try:
            assert scala_opt_m(server, worker("w", 1, outside), ClusterLimit(workers=1000), fill=fill).workers != n
        except InfeasibleError:
            assert n == 1


def test_a_megabyte_a_second_is_eight_megabits() -> None:
    assert mbps_of(2e6, 2.0) == 8


def test_a_budget_that_pays_for_no_worker_says_what_one_takes() -> None:
    with pytest.raises(InfeasibleError, match=r"that takes 0\.33 \$"):
        cost_opt(M4_LARGE, [worker("w", 0.2, 1)], ClusterLimit(usd_per_hour=0.3))


def test_a_worker_that_fills_the_server_alone_asks_for_a_larger_network() -> None:
    with pytest.raises(InfeasibleError, match="larger network"):
        scala_opt(M4_LARGE, [worker("w", 0.2, 500)], ClusterLimit(workers=6))


def test_an_hour_of_the_cluster_is_the_server_and_all_workers() -> None:
    found = time_opt(M4_LARGE, [worker("w", 0.25, 1)], ClusterLimit(workers=6))
    assert usd_of_training(found, 3600) == pytest.approx(0.125 + 6 * 0.25)


def said(found: Cluster) -> str:
    return " ".join(reasons(found))


def test_reasons_say_what_filled_the_network_and_what_the_others_needed() -> None:
    types = [worker("fast", 0.2, 200), worker("dear", 0.3, 100)]
    words = said(scala_opt(M4_LARGE, types, ClusterLimit(usd_per_hour=2)))
    assert "one fast sends 200 Mbps" in words
    assert "dear 4" in words


def test_more_workers_than_the_network_takes_are_warned_of() -> None:
    assert "beyond that, more workers hardly train faster" in said(
        time_opt(M4_LARGE, [worker("w", 0.2, 200)], ClusterLimit(workers=6))
    )


def test_nouns_refuse_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="budget or a largest number"):
        ClusterLimit()
    with pytest.raises(ValueError, match="mbps"):
        Server(name="ps", usd_per_hour=1, mbps=0)
    with pytest.raises(ValueError, match="usd_per_hour"):
        Worker(name="w", usd_per_hour=0)
