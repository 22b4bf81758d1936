"""The table of jobs × slots of the stored queue."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.app.queue_makers import A10G, HOUR, T4, T4X4, store, store_submission, t4_profile, too_large_profile
from tests.makers import make_profile, make_program
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.queue.table import instance_from_now
from trainfare.app.queue.table import queue_table as build_table
from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.recommend import recommend
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.queue import Job, Slot
from trainfare.scheduler.job_table import QueueTable, log_error
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history


def queue_table(**question: Any) -> QueueTable:
    return build_table(QueueQuestion(**question))


def job(table: QueueTable, name: str) -> Job:
    assert table.instance is not None
    return next(each for each in table.instance.jobs if each.id == name)


def seconds(table: QueueTable, name: str, machine: str, gpus: int = 1) -> float:
    assert table.instance is not None
    return job(table, name).seconds[table.instance.slots.index(Slot(machine, gpus))]


def test_time_is_the_estimate_without_the_boot() -> None:
    store(t4_profile())
    store_submission("s1", most_gpus=4)
    table = queue_table(machines=[T4, T4X4, A10G])
    no_boot = Settings(boot_seconds=0.0)
    for machine, gpus in ((T4, 1), (T4X4, 1), (T4X4, 3), (T4X4, 4), (A10G, 1)):
        there = estimate("p7k2", on=machine, gpus=gpus, epochs=100, settings=no_boot).estimate
        assert seconds(table, "s1", machine, gpus) == there.seconds.value


def test_node_price_is_that_of_the_cheapest_region() -> None:
    store(t4_profile())
    store_submission("s1")
    table = queue_table(machines=[A10G])
    assert table.instance is not None
    (kind,) = table.instance.types
    assert (kind.name, kind.gpu, kind.gpus) == (A10G, "A10G", 1)
    assert kind.usd_per_hour == estimate("p7k2", on=A10G).estimate.candidate.offer.usd_per_hour
    assert kind.reclaims_per_hour == 0


def test_program_that_never_ran_on_several_gpus_gets_one_unless_stated() -> None:
    store(t4_profile())
    store_submission("alone")
    store_submission("two", most_gpus=2)
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2]
    assert math.isinf(seconds(table, "alone", T4X4, 2))
    assert seconds(table, "two", T4X4, 2) < seconds(table, "two", T4X4, 1)
    remarks = {remark.reason.code: remark.reason.values for remark in table.remarks}
    assert remarks["single_gpu_jobs"]["jobs"] == ("alone",)


def test_program_that_ran_on_several_gpus_can_use_all() -> None:
    four = Host(name="h", gpu="Tesla T4", gpus=4, vm_type=T4X4)
    store(t4_profile(), t4_profile(id="p8", host=four, world_size=4, micro_batch_size=16))
    store_submission("s1", profile_ids=("p7k2", "p8"))
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2, 3, 4]


def test_job_has_at_most_one_gpu_per_sample_of_its_batch() -> None:
    store(t4_profile(micro_batch_size=2))
    store_submission("s1", most_gpus=4)
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2]


def test_log_error_follows_from_the_interval() -> None:
    assert log_error(Interval.within_factor(100.0, math.e**1.645)) == pytest.approx(1.0)
    assert log_error(Interval(value=100.0, low=0.0, high=100 * math.e**1.645)) == pytest.approx(1.0)
    assert log_error(Interval.exactly(5.0)) == 0
    store(t4_profile())
    store_submission("s1")
    measured, moved = (job(queue_table(machines=[machine]), "s1").log_error for machine in (T4, A10G))
    assert 0 < measured < moved


def test_spot_node_is_cheaper_reclaimed_and_as_fast() -> None:
    store(t4_profile())
    store_submission("s1")
    table = queue_table(machines=[T4], spot=True)
    assert table.instance is not None
    steady, spot = table.instance.types
    assert (spot.name, spot.gpu) == (f"{T4} spot", steady.gpu)
    assert spot.usd_per_hour < steady.usd_per_hour
    assert spot.reclaims_per_hour > 0 == steady.reclaims_per_hour
    assert seconds(table, "s1", spot.name) == seconds(table, "s1", T4)
    assert table.delays.checkpoint_every_seconds < math.inf


def test_types_share_a_gpu_label_only_if_times_are_equal() -> None:
    slower = Host(name="h", gpu="Tesla T4", gpus=4, vm_type=T4X4)
    store(t4_profile(), t4_profile(id="p8", host=slower, iteration_seconds=(3.0, *[1.7] * 9)))
    store_submission("s1")
    table = queue_table(machines=[T4, "aws/g4dn.2xlarge", T4X4])
    assert table.instance is not None
    assert seconds(table, "s1", "aws/g4dn.2xlarge") == pytest.approx(seconds(table, "s1", T4), rel=1e-9)
    assert seconds(table, "s1", T4X4) > 1.1 * seconds(table, "s1", T4)
    assert [kind.gpu for kind in table.instance.types] == ["T4", "T4", f"T4 of {T4X4}"]


def test_owned_machine_is_one_node_without_boot() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text('[bench]\nusd_per_hour = 0.1\ngpu = "T4"\ngpus = 2\nvcpus = 8\nmemory_gib = 32\n')
    store(t4_profile())
    store_submission("s1")
    table = queue_table(machines=["own/bench"])
    assert table.instance is not None
    assert [(kind.name, kind.gpus, kind.max_nodes) for kind in table.instance.types] == [("own/bench", 2, 1)]
    assert (table.delays.boot_seconds, table.delays.restart_seconds) == (0.0, 2.0)  # the start of its program


def test_machine_without_a_gpu_has_one_slot() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text("[bench]\nusd_per_hour = 0.1\nvcpus = 8\nmemory_gib = 32\n")
    store(make_profile(host=Host(name="h", vm_type="own/bench")))
    store_submission("s1")
    table = queue_table(machines=["own/bench"])
    assert table.instance is not None
    assert table.instance.slots == (Slot("own/bench", 1),)


def test_job_that_fits_in_no_memory_is_unplanned_and_the_others_are_planned() -> None:
    store(
        t4_profile(),
        too_large_profile(id="huge"),
    )
    store_submission("s1")
    store_submission("s2", profile_ids=("huge",))
    table = queue_table(machines=[T4])
    assert [each.submission.id for each in table.trainings] == ["s1"]
    (left,) = table.unplanned
    assert left.submission.id == "s2"
    assert (left.reason.code, left.reason.values["machines"]) == ("out_of_memory", (T4,))


def test_job_without_an_estimate_is_unplanned() -> None:
    store(make_profile(operations=(), device="cpu"))
    store_submission("s1")
    table = queue_table(machines=[T4])
    assert table.instance is None
    reason = table.unplanned[0].reason
    assert (reason.code, reason.values) == ("no_estimate", {"profile": "p7k2", "machines": (T4,)})


def test_job_whose_profile_was_removed_is_unplanned() -> None:
    store(t4_profile(), t4_profile(id="p8", program=make_program(command=("python", "new.py"))))
    store_submission("s1")
    store_submission("s2", profile_ids=("p8",))
    with open_history(read_settings().store) as history:
        history.profiles.remove("p8")
    table = queue_table(machines=[T4])
    assert [each.submission.id for each in table.trainings] == ["s1"]
    reason = table.unplanned[0].reason
    assert reason.code == "error"
    assert "there is no profile p8" in str(reason.values["message"])


def test_no_slot_exceeds_the_quota_of_its_user() -> None:
    store(t4_profile())
    store_submission("s1", most_gpus=4, user="alice")
    store_submission("s2", most_gpus=4, user="bob")
    store_submission("s3", user="eve")
    table = queue_table(machines=[T4X4], quotas=[("alice", 2), ("eve", 0)])
    assert [math.isfinite(seconds(table, "s1", T4X4, gpus)) for gpus in (1, 2, 3, 4)] == [True, True, False, False]
    assert math.isfinite(seconds(table, "s2", T4X4, 4))
    assert (table.unplanned[0].reason.code, table.unplanned[0].reason.values) == ("quota_of_zero", {"user": "eve"})
    assert table.instance is not None
    assert dict(table.instance.quotas) == {"alice": 2, "eve": 0}


def test_unknown_and_retired_machines_are_refused() -> None:
    store(t4_profile())
    store_submission("s1")
    with pytest.raises(NotFoundError, match="Did you mean"):
        queue_table(machines=["aws/g4dn.xlarg"])
    with pytest.raises(UsageError, match=r"aws/p3.2xlarge can no longer be rented, since"):
        queue_table(machines=["aws/p3.2xlarge"])
    with pytest.raises(UsageError) as caught:
        queue_table(nodes=0)
    assert caught.value.field == "nodes"


def test_machine_that_no_job_can_use_gives_a_remark() -> None:
    store(make_profile(operations=(), host=Host(name="h", vm_type=T4)))
    store_submission("s1")
    table = queue_table(machines=[T4, A10G])
    remarks = {remark.reason.code: remark.reason.values for remark in table.remarks}
    assert remarks["machines_unused"] == {"machines": (A10G,)}
    assert list(table.offers) == [T4]


def test_machines_are_chosen_from_the_fronts_of_the_jobs() -> None:
    store(t4_profile())
    store_submission("s1")
    store_submission("s2", epochs=5000)
    table = queue_table()
    plan = recommend(["p7k2"], epochs=5000, settings=Settings(boot_seconds=0.0)).plan
    names = set(table.offers)
    assert 3 <= len(names) <= 8
    assert plan.chosen.candidate.offer.vm_type.key in names
    assert plan.front[0].candidate.offer.vm_type.key in names
    remarks = {remark.reason.code: remark.reason.values for remark in table.remarks}
    assert remarks["machines_chosen"] == {"types": len(names)}


def test_machines_with_several_gpus_are_chosen_if_nodes_are_few() -> None:
    store(t4_profile())
    for number in range(3):
        store_submission(f"s{number}")
    alone, shared = queue_table(), queue_table(nodes=1)
    assert alone.instance is not None
    assert shared.instance is not None
    assert {kind.gpus for kind in alone.instance.types} == {1}
    assert max(kind.gpus for kind in shared.instance.types) >= 4
    assert len(shared.instance.types) <= 8


def test_instance_from_now_starts_now_in_the_order_of_submission() -> None:
    store(t4_profile())
    store_submission("late", ago=3 * HOUR, within=-HOUR)
    store_submission("soon", ago=5 * HOUR, within=2 * HOUR)
    store_submission("never", within=None)
    jobs = instance_from_now(queue_table(machines=[T4])).jobs
    assert [each.id for each in jobs] == ["soon", "late", "never"]
    assert {each.submitted_seconds for each in jobs} == {0.0}
    assert jobs[0].deadline_seconds == pytest.approx(7200, abs=60)
    assert jobs[1].deadline_seconds == pytest.approx(-3600, abs=60)
    assert jobs[2].deadline_seconds == math.inf
    assert jobs[0].late_usd_per_second == pytest.approx(30 / 3600)
    assert jobs[2].late_usd_per_second == 0


def test_empty_queue_has_no_instance() -> None:
    assert queue_table().instance is None
    with pytest.raises(UsageError, match="the stored queue is empty: submit a training"):
        instance_from_now(queue_table())
    store(make_profile(operations=(), device="cpu"))
    store_submission("s1")
    with pytest.raises(UsageError, match="no job of the stored queue can be planned: s1: its profile p7k2 gives no"):
        instance_from_now(queue_table(machines=[T4]))
