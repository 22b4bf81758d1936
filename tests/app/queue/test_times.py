"""From what waits in the store to a table of jobs and slots."""

import math
from pathlib import Path

import pytest

from tests.app.queue_makers import A10G, HOUR, T4, T4X4, keep, on_a_t4, submitted
from tests.makers import make_profile, make_program
from trainfare.app.queue.times import QueueTable, log_error, queue_table
from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.recommend import recommend
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.queue import Job, Slot
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history


def job(table: QueueTable, name: str) -> Job:
    assert table.instance is not None
    return next(each for each in table.instance.jobs if each.id == name)


def seconds(table: QueueTable, name: str, machine: str, gpus: int = 1) -> float:
    assert table.instance is not None
    return job(table, name).seconds[table.instance.slots.index(Slot(machine, gpus))]


def test_a_time_is_the_estimate_of_that_machine_without_its_boot() -> None:
    keep(on_a_t4())
    submitted("s1", most_gpus=4)
    table = queue_table(machines=[T4, T4X4, A10G])
    no_boot = Settings(boot_seconds=0.0)
    for machine, gpus in ((T4, 1), (T4X4, 1), (T4X4, 3), (T4X4, 4), (A10G, 1)):
        there = estimate("p7k2", on=machine, gpus=gpus, epochs=100, settings=no_boot).estimate
        assert seconds(table, "s1", machine, gpus) == there.seconds.value


def test_nodes_cost_what_the_cheapest_region_asks() -> None:
    keep(on_a_t4())
    submitted("s1")
    table = queue_table(machines=[A10G])
    assert table.instance is not None
    (kind,) = table.instance.types
    assert (kind.name, kind.gpu, kind.gpus) == (A10G, "A10G", 1)
    assert kind.usd_per_hour == estimate("p7k2", on=A10G).estimate.candidate.offer.usd_per_hour
    assert kind.reclaims_per_hour == 0


def test_a_program_never_seen_on_several_gpus_gets_one_unless_told() -> None:
    keep(on_a_t4())
    submitted("alone")
    submitted("two", most_gpus=2)
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2]
    assert math.isinf(seconds(table, "alone", T4X4, 2))
    assert seconds(table, "two", T4X4, 2) < seconds(table, "two", T4X4, 1)
    assert any(remark.startswith("one GPU each, never seen on several: alone.") for remark in table.remarks)


def test_a_program_seen_on_several_gpus_may_have_all() -> None:
    four = Host(name="h", gpu="Tesla T4", gpus=4, vm_type=T4X4)
    keep(on_a_t4(), on_a_t4(id="p8", host=four, world_size=4, micro_micro_batch_size=16))
    submitted("s1", profile_ids=("p7k2", "p8"))
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2, 3, 4]


def test_a_batch_is_not_shared_by_more_gpus_than_it_has_samples() -> None:
    keep(on_a_t4(micro_batch_size=2))
    submitted("s1", most_gpus=4)
    table = queue_table(machines=[T4X4])
    assert table.instance is not None
    assert [slot.gpus for slot in table.instance.slots] == [1, 2]


def test_the_error_is_that_of_the_interval() -> None:
    assert log_error(Interval.within_factor(100.0, math.e**1.645)) == pytest.approx(1.0)
    assert log_error(Interval(value=100.0, low=0.0, high=100 * math.e**1.645)) == pytest.approx(1.0)
    assert log_error(Interval.exactly(5.0)) == 0
    keep(on_a_t4())
    submitted("s1")
    measured, moved = (job(queue_table(machines=[machine]), "s1").log_error for machine in (T4, A10G))
    assert 0 < measured < moved


def test_on_spot_a_node_is_cheaper_may_be_taken_back_and_works_as_fast() -> None:
    keep(on_a_t4())
    submitted("s1")
    table = queue_table(machines=[T4], spot=True)
    assert table.instance is not None
    steady, spot = table.instance.types
    assert (spot.name, spot.gpu) == (f"{T4} spot", steady.gpu)
    assert spot.usd_per_hour < steady.usd_per_hour
    assert spot.reclaims_per_hour > 0 == steady.reclaims_per_hour
    assert seconds(table, "s1", spot.name) == seconds(table, "s1", T4)
    assert table.delays.checkpoint_every_seconds < math.inf


def test_types_are_of_one_gpu_only_where_jobs_are_as_fast_on_either() -> None:
    slower = Host(name="h", gpu="Tesla T4", gpus=4, vm_type=T4X4)
    keep(on_a_t4(), on_a_t4(id="p8", host=slower, iteration_seconds=(3.0, *[1.7] * 9)))
    submitted("s1")
    table = queue_table(machines=[T4, "aws/g4dn.2xlarge", T4X4])
    assert table.instance is not None
    assert seconds(table, "s1", "aws/g4dn.2xlarge") == pytest.approx(seconds(table, "s1", T4), rel=1e-9)
    assert seconds(table, "s1", T4X4) > 1.1 * seconds(table, "s1", T4)
    assert [kind.gpu for kind in table.instance.types] == ["T4", "T4", f"T4 of {T4X4}"]


def test_your_own_machine_is_one_and_needs_no_boot() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text('[bench]\nusd_per_hour = 0.1\ngpu = "T4"\ngpus = 2\nvcpus = 8\nmemory_gib = 32\n')
    keep(on_a_t4())
    submitted("s1")
    table = queue_table(machines=["own/bench"])
    assert table.instance is not None
    assert [(kind.name, kind.gpus, kind.max_nodes) for kind in table.instance.types] == [("own/bench", 2, 1)]
    assert (table.delays.boot_seconds, table.delays.restart_seconds) == (0.0, 2.0)  # its program's own start


def test_a_machine_without_a_gpu_counts_as_one() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text("[bench]\nusd_per_hour = 0.1\nvcpus = 8\nmemory_gib = 32\n")
    keep(make_profile(host=Host(name="h", vm_type="own/bench")))
    submitted("s1")
    table = queue_table(machines=["own/bench"])
    assert table.instance is not None
    assert table.instance.slots == (Slot("own/bench", 1),)


def test_what_fits_on_no_machine_is_left_out_with_the_reason_and_the_others_go_on() -> None:
    keep(on_a_t4(), on_a_t4(id="huge", activation_bytes=10**12, program=make_program(command=("python", "huge.py"))))
    submitted("s1")
    submitted("s2", profile_ids=("huge",))
    table = queue_table(machines=[T4])
    assert [each.submission.id for each in table.trainings] == ["s1"]
    (left,) = table.unplanned
    assert left.submission.id == "s2"
    assert left.why == f"it does not fit in the memory of {T4}: name a machine with more, --machine"


def test_what_a_profile_says_nothing_of_is_left_out_with_what_to_do() -> None:
    keep(make_profile(operations=(), device="cpu"))
    submitted("s1")
    table = queue_table(machines=[T4])
    assert table.instance is None
    assert table.unplanned[0].why == (
        f"its profile p7k2 says nothing of {T4}: take one there, trainfare profile --on {T4} -- …"
    )


def test_a_job_whose_profile_was_removed_is_left_out() -> None:
    keep(on_a_t4(), on_a_t4(id="p8", program=make_program(command=("python", "new.py"))))
    submitted("s1")
    submitted("s2", profile_ids=("p8",))
    with open_history(read_settings().store) as history:
        history.profiles.remove("p8")
    table = queue_table(machines=[T4])
    assert [each.submission.id for each in table.trainings] == ["s1"]
    assert "there is no profile p8" in table.unplanned[0].why


def test_no_slot_has_more_gpus_than_its_user_may_have() -> None:
    keep(on_a_t4())
    submitted("s1", most_gpus=4, user="alice")
    submitted("s2", most_gpus=4, user="bob")
    submitted("s3", user="eve")
    table = queue_table(machines=[T4X4], quotas=[("alice", 2), ("eve", 0)])
    assert [math.isfinite(seconds(table, "s1", T4X4, gpus)) for gpus in (1, 2, 3, 4)] == [True, True, False, False]
    assert math.isfinite(seconds(table, "s2", T4X4, 4))
    assert table.unplanned[0].why.startswith("eve may have no GPU")
    assert table.instance is not None
    assert dict(table.instance.quotas) == {"alice": 2, "eve": 0}


def test_machines_that_cannot_be_had_are_refused() -> None:
    keep(on_a_t4())
    submitted("s1")
    with pytest.raises(NotFoundError, match="Did you mean"):
        queue_table(machines=["aws/g4dn.xlarg"])
    with pytest.raises(UsageError, match=r"aws/p3.2xlarge can no longer be rented, since"):
        queue_table(machines=["aws/p3.2xlarge"])
    with pytest.raises(UsageError, match="give --nodes 1 or more"):
        queue_table(nodes=0)


def test_a_machine_that_no_job_can_use_is_named() -> None:
    keep(make_profile(operations=(), host=Host(name="h", vm_type=T4)))
    submitted("s1")
    table = queue_table(machines=[T4, A10G])
    assert f"no job can run on {A10G}" in table.remarks
    assert list(table.offers) == [T4]


def test_unless_machines_are_named_a_handful_suits_the_jobs() -> None:
    keep(on_a_t4())
    submitted("s1")
    submitted("s2", epochs=5000)
    table = queue_table()
    plan = recommend(["p7k2"], epochs=5000, settings=Settings(boot_seconds=0.0)).plan
    names = set(table.offers)
    assert 3 <= len(names) <= 8
    assert plan.chosen.candidate.offer.vm_type.key in names
    assert plan.front[0].candidate.offer.vm_type.key in names
    assert any(remark.startswith(f"no machine was named: planned with {len(names)} types") for remark in table.remarks)


def test_where_nodes_are_few_there_are_machines_to_share() -> None:
    keep(on_a_t4())
    for number in range(3):
        submitted(f"s{number}")
    alone, shared = queue_table(), queue_table(nodes=1)
    assert alone.instance is not None
    assert shared.instance is not None
    assert {kind.gpus for kind in alone.instance.types} == {1}
    assert max(kind.gpus for kind in shared.instance.types) >= 4
    assert len(shared.instance.types) <= 8


def test_the_instance_of_the_queue_begins_now_in_the_order_of_submission() -> None:
    keep(on_a_t4())
    submitted("late", ago=3 * HOUR, within=-HOUR)
    submitted("soon", ago=5 * HOUR, within=2 * HOUR)
    submitted("never", within=None)
    jobs = queue_table(machines=[T4]).from_now().jobs
    assert [each.id for each in jobs] == ["soon", "late", "never"]
    assert {each.submitted_seconds for each in jobs} == {0.0}
    assert jobs[0].deadline_seconds == pytest.approx(7200, abs=60)
    assert jobs[1].deadline_seconds == pytest.approx(-3600, abs=60)
    assert jobs[2].deadline_seconds == math.inf
    assert jobs[0].late_usd_per_second == pytest.approx(30 / 3600)
    assert jobs[2].late_usd_per_second == 0


def test_an_empty_queue_has_no_instance_and_says_how_to_fill_it() -> None:
    assert queue_table().instance is None
    with pytest.raises(UsageError, match="trainfare schedule submit"):
        queue_table().from_now()
    keep(make_profile(operations=(), device="cpu"))
    submitted("s1")
    with pytest.raises(UsageError, match="nothing in the queue can be planned: s1: its profile p7k2 says nothing"):
        queue_table(machines=[T4]).from_now()
