"""The sentences about queues: one for each code, in plain words."""

import pytest

from trainfare.model.reason import Reason, Value
from trainfare.scheduler.job_table import QueueRemark
from trainfare.views.queue import remark_sentence
from trainfare.views.queue_reasons import SENTENCES
from trainfare.views.reasons import sentence

EXAMPLES: dict[str, tuple[dict[str, Value], str]] = {
    "value_out_of_range": (
        {"name": "seconds", "value": 1e300, "low": 0.001, "high": 1e10},
        "its time in seconds is 1e+300; supported are 0.001 to 1e+10",
    ),
    "no_slot_available": (
        {"nodes": 2, "user": "ann", "quota": 0},
        "it can never run: no slot that it has times for is available with 2 nodes and the quota of 0 GPUs of ann",
    ),
    "quota_of_zero": ({"user": "eve"}, "the quota of eve is 0 GPUs; it needs at least 1"),
    "takes_too_long": (
        {"epochs": 10**12},
        "it would take more than ten years for 1,000,000,000,000 epochs: submit it with fewer epochs, or plan with "
        "faster machines",
    ),
    "out_of_memory": (
        {"machines": ("a", "b")},
        "it does not fit in the memory of a, b: plan with a machine with more memory",
    ),
    "no_suitable_machine": ({}, "no machine that can be rented suits it: name machines"),
    "no_estimate": (
        {"profile": "p7", "machines": ("a",)},
        "its profile p7 gives no estimate for a: profile the program there",
    ),
    "quota_used": ({"user": "alice", "gpus": 1}, "alice uses the complete quota of 1 GPU"),
    "all_nodes_used": ({"nodes": 1}, "the only node is in use"),
    "all_machines_used": ({}, "every machine is in use"),
    "held_back": ({}, "the policy holds it back, because it has time"),
    "held_back_late": ({}, "the policy holds it back, although it will be late"),
    "held_back_without_deadline": ({}, "the policy holds it back, because it has no deadline"),
    "too_many_variables": (
        {"nodes": 8},
        "a model with a variable for each job on each node takes too long with more than 8 nodes; it runs if it is "
        "named",
    ),
    "machines_chosen": (
        {"types": 5},
        "no machine is named, so the plan uses 5 machine types from the time-cost fronts of the jobs",
    ),
    "machines_unused": ({"machines": ("a",)}, "no job can run on a"),
    "single_gpu_jobs": (
        {"jobs": ("s1", "s2")},
        "these jobs get one GPU each, because they have never run on several: s1, s2",
    ),
    "free_lateness": ({}, "lateness costs nothing, so no money is spent to meet the deadline"),
    "error": ({"message": "there is no profile p8"}, "there is no profile p8"),
    "default_lateness_cost": (
        {"usd_per_hour": 32.4},
        "an hour of lateness is assumed to cost $32.40;  sets another cost",
    ),
    "single_gpu": ({}, "it has never run on several GPUs, so it gets one;  lets it use N"),
}


@pytest.mark.parametrize("code", SENTENCES)
def test_every_code_has_a_plain_sentence(code: str) -> None:
    values, expected = EXAMPLES[code]
    assert sentence(Reason(topic="why", code=code, values=values)) == expected


def test_several_nodes_in_use_are_counted() -> None:
    assert sentence(Reason(topic="why", code="all_nodes_used", values={"nodes": 1200})) == "all 1,200 nodes are in use"


def test_arguments_are_spelled_for_the_reader() -> None:
    reason = Reason(topic="assumptions", code="single_gpu", arguments={"gpus": "N"})
    assert sentence(reason).endswith("gpus=N lets it use N")
    assert sentence(reason, lambda _: "--gpus N").endswith("--gpus N lets it use N")


def test_remark_names_the_jobs_that_it_applies_to() -> None:
    remark = QueueRemark(reason=Reason(topic="assumptions", code="free_lateness"), jobs=("s1", "s2"))
    assert remark_sentence(remark).startswith("s1, s2: lateness costs nothing")
