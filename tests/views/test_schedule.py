"""The JSON records of simulations, comparisons and bounds."""

import json
import math

import pytest

from tests.scheduler.makers import K80, make_job, random_instance
from trainfare.app.queue.simulate import bound_queue, compare_policies, simulate_queue
from trainfare.model.queue import ExcludedJob, Instance, single_node_slots
from trainfare.model.reason import text_reason
from trainfare.scheduler.simulation.options import SimulationOptions
from trainfare.views.schedule import bound_record, comparison_record, excluded_sentence, simulation_record

QUEUE = random_instance(7, jobs=6, load=4)


def test_simulation_record_has_the_outcome_and_every_job_and_is_plain_json() -> None:
    jobs = (make_job("j1", deadline_seconds=math.inf), make_job("j2", deadline_seconds=60.0))
    endless = Instance(types=K80, slots=single_node_slots(K80), jobs=jobs)
    record = simulation_record(simulate_queue(endless, nodes=1, policy="fifo"))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    first, second = record["jobs"]
    assert (first["job"], first["deadline_s"], first["late_s"]) == ("j1", None, 0)
    assert second["late_s"] == pytest.approx(second["ended_s"] - 60)
    assert second["late_usd"] == pytest.approx(second["late_s"] * 0.005) == pytest.approx(record["tardiness_usd"])
    assert record["total_usd"] == pytest.approx(record["rental_usd"] + record["tardiness_usd"])
    assert record["gap"] == pytest.approx(record["total_usd"] / record["lower_bound_usd"] - 1)
    assert (
        sum(
            stretch["gpus"] * (stretch["end_s"] - stretch["start_s"])
            for job in record["jobs"]
            for stretch in job["stretches"]
        )
        > 0
    )


def test_comparison_record_has_an_entry_for_each_policy() -> None:
    record = comparison_record(compare_policies(QUEUE, nodes=2, policies=["fifo", "greedy"]))
    assert record["best"] == record["policies"][0]["policy"]
    assert {"total_usd", "late_jobs", "decision_p99_s", "gap"} <= set(record["policies"][1])


def test_rent_is_the_sum_of_the_rentals_in_the_record() -> None:
    options = SimulationOptions(mode="real")
    record = simulation_record(simulate_queue(QUEUE, nodes=2, policy="greedy", options=options))
    price = {each.name: each.usd_per_hour for each in QUEUE.types}
    by_hand = sum((each["end_s"] - each["start_s"]) * price[each["vm_type"]] / 3600 for each in record["rentals"])
    assert by_hand == pytest.approx(record["rental_usd"]) == pytest.approx(sum(r["usd"] for r in record["rentals"]))
    assert all(each["ready_s"] - each["start_s"] == pytest.approx(120) for each in record["rentals"])
    rented = {each["node"] for each in record["rentals"]}
    assert {node for job in record["jobs"] for s in job["stretches"] for node in s["nodes"]} <= rented
    assert record["checkpoint_every_s"] == 600
    assert simulation_record(simulate_queue(QUEUE, nodes=2, policy="fifo"))["checkpoint_every_s"] is None


def test_bound_record_has_both_bounds() -> None:
    record = bound_record(bound_queue(QUEUE, nodes=2))
    assert record["lower_bound_usd"] >= record["each_job_alone_usd"] > 0
    assert (record["job_count"], record["nodes"], record["left_out"]) == (6, 2, [])


def test_excluded_job_is_named_with_its_reason() -> None:
    excluded = ExcludedJob(job="j7", reason=text_reason("why", "its line is empty"))
    assert excluded_sentence(excluded) == "job j7 is left out: its line is empty"
