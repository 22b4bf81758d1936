"""Jobs, machines and options beyond the limits: jobs are excluded with a reason, the rest is a usage error."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.makers import K80, make_job
from trainfare.errors import UsageError
from trainfare.model.queue import Instance, Job, Slot, single_node_slots
from trainfare.scheduler.limits import exclude_impossible_jobs, require_nodes, require_tick

GANG_SLOTS = (*single_node_slots(K80), Slot("NC24", 4, 3))


def queue(*jobs: Job, **changes: Any) -> Instance:
    return replace(Instance(types=K80, slots=single_node_slots(K80), jobs=(make_job("good"), *jobs)), **changes)


@pytest.mark.parametrize(
    ("job", "name", "value"),
    [
        (replace(make_job("bad"), seconds=(1e300,) * 7), "seconds", 1e300),
        (replace(make_job("bad"), seconds=(1e-9,) * 7), "seconds", 1e-9),
        (make_job("bad", submitted_seconds=1e12), "submitted_seconds", 1e12),
        (make_job("bad", deadline_seconds=-1e300), "deadline_seconds", -1e300),
        (make_job("bad", late_usd_per_second=1e300), "late_usd_per_second", 1e300),
        (make_job("bad", log_error=1e3), "log_error", 1e3),
    ],
    ids=["too long", "too short", "submitted", "deadline", "lateness", "error"],
)
def test_job_with_a_number_out_of_range_is_excluded(job: Job, name: str, value: float) -> None:
    instance, (excluded,) = exclude_impossible_jobs(queue(job), 2)
    assert [each.id for each in instance.jobs] == ["good"]
    assert (excluded.job, excluded.reason.code) == ("bad", "value_out_of_range")
    assert (excluded.reason.values["name"], excluded.reason.values["value"]) == (name, value)


def test_job_that_fits_on_no_node_is_excluded() -> None:
    gang = replace(make_job("gang"), seconds=(*(math.inf for _ in single_node_slots(K80)), 3600.0))
    good = replace(make_job("good"), seconds=(*make_job().seconds, 900.0))
    made = queue(jobs=(gang, good), slots=GANG_SLOTS)
    instance, (excluded,) = exclude_impossible_jobs(made, 2)
    assert [each.id for each in instance.jobs] == ["good"]
    assert (excluded.job, excluded.reason.code, excluded.reason.values["nodes"]) == ("gang", "no_slot_available", 2)
    assert exclude_impossible_jobs(made, 3) == (made, ())


def test_job_beyond_its_quota_is_excluded() -> None:
    poor = queue(make_job("poor", user="ann"), quotas=(("ann", 0),))
    _, (excluded,) = exclude_impossible_jobs(poor, 1)
    assert excluded.reason.values == {"nodes": 1, "user": "ann", "quota": 0}


def test_true_times_of_excluded_jobs_are_removed() -> None:
    bad = make_job("bad", submitted_seconds=0.0, late_usd_per_second=1e300)
    made = queue(bad, true_seconds=((7200.0,) * 7, (60.0,) * 7))
    assert exclude_impossible_jobs(made, 1)[0].true_seconds == ((7200.0,) * 7,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"usd_per_hour": 1e300}, r"NC6 costs \$1e\+300 an hour"),
        ({"gpus": 10**9}, r"NC6 has 1e\+09 GPUs"),
        ({"reclaims_per_hour": 1e9}, r"NC6 is reclaimed 1e\+09 times an hour"),
    ],
    ids=["price", "gpus", "reclaims"],
)
def test_machine_out_of_range_is_an_error(changes: dict[str, Any], message: str) -> None:
    node_type = replace(K80[0], **changes)
    job = replace(make_job(), seconds=(60.0,))
    with pytest.raises(UsageError, match=message):
        exclude_impossible_jobs(Instance(types=(node_type,), slots=(Slot(node_type.name, 1),), jobs=(job,)), 1)


def test_gang_with_too_many_nodes_is_an_error() -> None:
    job = replace(make_job(), seconds=(60.0, 6.0))
    slots = (Slot("NC6", 1), Slot("NC6", 1, 10**30))
    with pytest.raises(UsageError, match="a gang has 1e"):
        exclude_impossible_jobs(Instance(types=K80[:1], slots=slots, jobs=(job,)), 1)


@pytest.mark.parametrize(("nodes", "remedy"), [(0, 1), (-3, 1), (10**9, 100_000)])
def test_number_of_nodes_out_of_range_is_an_error_with_a_remedy(nodes: int, remedy: int) -> None:
    with pytest.raises(UsageError) as caught:
        require_nodes(nodes)
    assert caught.value.field == "nodes"
    assert caught.value.remedies[0].arguments == {"nodes": remedy}


def test_tick_that_needs_too_many_decisions_is_an_error_with_a_remedy() -> None:
    with pytest.raises(UsageError, match=r"more than 1,000,000 times") as caught:
        require_tick(1e-6, queue(), 2)
    assert caught.value.field == "tick_seconds"
    (remedy,) = caught.value.remedies
    require_tick(float(str(remedy.arguments["tick_seconds"])), queue(), 2)
