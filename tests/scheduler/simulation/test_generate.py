"""Generated queues follow the rule of Jahani et al. 2019."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.model.queue import Instance, Slot
from trainfare.scheduler.simulation.generate import AZURE, IN_HOUSE, QueueSetting, generate

TEN = QueueSetting(nodes=10)


def seconds_of(instance: Instance) -> dict[Slot, np.ndarray]:
    return dict(zip(instance.slots, np.array([job.seconds for job in instance.jobs]).T, strict=True))


def gaps_of(instance: Instance) -> np.ndarray:
    return np.diff([job.submitted_seconds for job in instance.jobs])


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_queue_follows_the_rule_of_the_papers(seed: int) -> None:
    instance = generate(TEN, seed)
    assert len(instance.jobs) == 100
    assert instance.jobs[0].submitted_seconds == 0
    for job in instance.jobs:
        slack = (job.deadline_seconds - job.submitted_seconds) / job.shortest_seconds
        assert 1 <= slack <= 3
        assert 0.003 <= job.late_usd_per_second <= 0.015


def test_same_seed_gives_the_same_queue() -> None:
    assert generate(TEN, 4) == generate(TEN, 4)
    assert generate(TEN, 4) != generate(TEN, 5)


def test_times_follow_a_power_law_that_is_the_same_on_both_gpus() -> None:
    of = seconds_of(generate(TEN, 1))
    for name in ("NC24", "NV24"):
        power = np.log(of[Slot(name, 1)] / of[Slot(name, 4)]) / math.log(4)
        assert of[Slot(name, 3)] == pytest.approx(of[Slot(name, 1)] / 3**power)
        assert power == pytest.approx(np.log2(of[Slot("NC12", 1)] / of[Slot("NC12", 2)]))
        assert power.min() >= 0.6
        assert power.max() <= 0.95


def test_times_are_distributed_like_the_published_ones() -> None:
    """200 published jobs have K80 over M60 e^(0.166 ± 0.261), and a mean of 17.6 hours on one K80."""
    of = seconds_of(generate(replace(TEN, jobs=5000), 2))
    ratio = np.log(of[Slot("NC6", 1)] / of[Slot("NV6", 1)])
    assert (ratio.mean(), ratio.std()) == pytest.approx((0.166, 0.261), abs=0.02)
    assert of[Slot("NC6", 1)].mean() / 3600 == pytest.approx(17.6, rel=0.1)


def test_types_of_one_gpu_take_equally_long() -> None:
    of = seconds_of(generate(TEN, 3))
    assert (of[Slot("NC6", 1)] == of[Slot("NC24", 1)]).all()


@pytest.mark.parametrize("load", [0.25, 1.0, 1.5])
def test_load_is_work_divided_by_node_time(load: float) -> None:
    instance = generate(QueueSetting(nodes=10, jobs=2000, load=load), 0)
    of = seconds_of(instance)
    work = np.min([of[slot] * slot.gpus / {"6": 1, "1": 2, "2": 4}[slot.type[2]] for slot in instance.slots], axis=0)
    assert work.sum() / (10 * instance.jobs[-1].submitted_seconds) == pytest.approx(load, rel=0.08)


def test_another_load_changes_only_the_gaps() -> None:
    high, low = generate(QueueSetting(nodes=10, load=1.0), 0), generate(QueueSetting(nodes=10, load=0.25), 0)
    assert gaps_of(low) == pytest.approx(4 * gaps_of(high))
    assert [job.seconds for job in low.jobs] == [job.seconds for job in high.jobs]


def test_gaps_have_the_requested_mean_and_deviation() -> None:
    exponential = gaps_of(generate(QueueSetting(nodes=1, jobs=4000, mean_gap_seconds=30), 0))
    poisson = gaps_of(generate(QueueSetting(nodes=1, jobs=4000, mean_gap_seconds=30, arrivals="poisson"), 0))
    assert (exponential.mean(), exponential.std()) == pytest.approx((30, 30), rel=0.1)
    assert (poisson.mean(), poisson.std()) == pytest.approx((30, math.sqrt(30)), rel=0.1)


def test_prediction_errors_do_not_change_predictions() -> None:
    right, wrong = generate(TEN, 6), generate(replace(TEN, log_error=0.3), 6)
    assert [replace(job, log_error=0.0) for job in wrong.jobs] == list(right.jobs)
    factors = np.array(wrong.true_seconds) / np.array([job.seconds for job in wrong.jobs])
    assert factors == pytest.approx(np.repeat(factors[:, :1], factors.shape[1], axis=1))
    assert np.log(factors[:, 0]).std() == pytest.approx(0.3, rel=0.2)
    assert right.true_seconds == ()


def test_users_share_the_jobs_and_have_quotas() -> None:
    instance = generate(replace(TEN, users=3, quota_gpus=8), 0)
    assert {job.user for job in instance.jobs} == {"user0", "user1", "user2"}
    assert instance.quotas == (("user0", 8), ("user1", 8), ("user2", 8))


def test_gangs_are_faster_than_one_node_and_slower_than_in_proportion() -> None:
    instance = generate(replace(TEN, gang_nodes=(2,)), 0)
    of = seconds_of(instance)
    assert [slot for slot in instance.slots if slot.nodes > 1] == [Slot("NC24", 4, 2), Slot("NV24", 4, 2)]
    assert (of[Slot("NC24", 4, 2)] < of[Slot("NC24", 4)]).all()
    assert (of[Slot("NC24", 4, 2)] > of[Slot("NC24", 4)] / 2).all()


def test_spot_type_is_the_same_machine_cheaper_and_reclaimed() -> None:
    instance = generate(replace(TEN, spot_discount=0.6, spot_reclaims_per_hour=0.1), 0)
    spot, on_demand = next(each for each in instance.types if each.name == "NC6 spot"), instance.types[0]
    assert (spot.gpu, spot.gpus, spot.reclaims_per_hour) == (on_demand.gpu, on_demand.gpus, 0.1)
    assert spot.usd_per_hour == pytest.approx(0.4 * on_demand.usd_per_hour)
    of = seconds_of(instance)
    assert (of[Slot("NC6 spot", 1)] == of[Slot("NC6", 1)]).all()


def test_in_house_servers_join_the_fleet() -> None:
    of = seconds_of(generate(replace(TEN, types=AZURE + IN_HOUSE), 0))
    assert np.median(of[Slot("In-house server 2", 1)]) < np.median(of[Slot("NV6", 1)])
    assert np.median(of[Slot("NV6", 1)]) < np.median(of[Slot("In-house server 1", 1)])


def test_zero_jobs_give_an_empty_queue() -> None:
    assert generate(QueueSetting(nodes=2, jobs=0), 0).jobs == ()


@pytest.mark.parametrize(
    "wrong",
    [{"load": 0.0}, {"nodes": 0}, {"spot_discount": 1.0}, {"gang_nodes": (1,)}, {"mean_gap_seconds": -1.0}],
    ids=["no load", "no nodes", "free spot", "gang of one", "backwards"],
)
def test_invalid_setting_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).split("_")[0]):
        QueueSetting(**{"nodes": 1, **wrong})  # type: ignore[arg-type] # wrong fields are what is tried
