"""Our predictions of clusters agree with those of `estimate` and behave physically."""

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.cluster import recommend_cluster
from trainfare.app.recommending.estimate import estimate
from trainfare.model.cluster import ClusterAdvice, RatedCluster
from trainfare.model.machine import Host
from trainfare.settings import read_settings
from trainfare.store.open import open_history

TRAINING = ("initialisation", "first iteration", "steady iterations", "validation")


@pytest.fixture(autouse=True)
def stored_profile() -> None:
    profile = make_profile(
        host=Host(name="there", vm_type="aws/g4dn.xlarge"),
        samples=64_000,
        iterations_per_epoch=1000,
        micro_batch_size=64,
    )
    with open_history(read_settings().store) as history:
        history.profiles.add(profile)


def advice(*, most: int = 1, mbps: float = 1e4, epochs: int = 7, price: float = 0.2) -> ClusterAdvice:
    return recommend_cluster(
        {"aws/g4dn.xlarge": 0.5},
        {"ps": price},
        {"ps": mbps},
        algorithm="time-opt",
        max_workers=most,
        profile_ids=["p7k2"],
        epochs=epochs,
    )


def by(name: str, found: ClusterAdvice) -> RatedCluster:
    return next(each for each in found.rated if each.by.startswith(name))


def seconds(name: str, found: ClusterAdvice) -> float:
    predicted = by(name, found).estimate
    assert predicted is not None
    return predicted.seconds.value


def test_one_worker_alone_takes_as_long_as_the_estimate_of_the_machine() -> None:
    expected = estimate("p7k2", on="aws/g4dn.xlarge", epochs=7).estimate
    phases = sum(phase.seconds.value for phase in expected.phases if phase.name in TRAINING)
    alone = by("ours, cheapest", advice())
    assert (alone.server, alone.workers) == (None, 1)
    assert seconds("ours, cheapest", advice()) == pytest.approx(phases)


def test_more_bandwidth_is_faster_and_no_server_is_fastest_for_one_worker() -> None:
    narrow, wide = (seconds("time-opt", advice(mbps=mbps)) for mbps in (100, 1e5))
    assert seconds("ours, cheapest", advice()) < wide < narrow


def test_two_workers_behind_a_wide_server_take_about_half_the_time_of_one() -> None:
    one, two = (seconds("time-opt", advice(most=n, mbps=1e6)) for n in (1, 2))
    assert 0.45 < two / one < 0.6


def test_twice_the_epochs_take_about_twice_as_long() -> None:
    once, twice = (seconds("time-opt", advice(epochs=n)) for n in (50, 100))
    assert twice / once == pytest.approx(2, rel=0.05)


def test_more_workers_than_an_epoch_has_batches_are_not_predicted() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(
            make_profile(
                id="few", host=Host(name="there", vm_type="aws/g4dn.xlarge"), samples=200, iterations_per_epoch=4
            )
        )
    found = recommend_cluster(
        {"aws/g4dn.xlarge": 0.5},
        {"ps": 0.2},
        {"ps": 1e5},
        algorithm="time-opt",
        max_workers=9,
        profile_ids=["few"],
        epochs=7,
    )
    assert by("time-opt", found).estimate is None
    assert max(each.workers for each in found.rated if each.estimate) <= 3
