"""The sentences and the records of probes."""

from dataclasses import replace

import pytest

from tests.makers import make_plan, make_profile
from tests.recommender.probing.test_plan import on
from trainfare.model.plan import Goal
from trainfare.model.probing import ProbeResult, ProbingPlan, ProbingResult
from trainfare.model.reason import Reason
from trainfare.recommender.probing.plan import plan_probes, suggest_probes, suggestion_reason
from trainfare.views.probing import (
    plan_sentences,
    probe_record,
    probe_sentence,
    probing_plan_record,
    probing_result_record,
)

TWO = [on("a", 50), on("b", 52)]


def test_a_plan_is_told_in_order() -> None:
    start, probe, lost, stop = plan_sentences(plan_probes(TWO, Goal()))
    assert start == (
        "start the training on aws a, which is expected to be best ($50.08, 2 d 2 h); its first iterations, 5 min 30 s "
        "from now, are a free measurement"
    )
    assert probe.startswith("meanwhile, probe aws b: 5 min 30 s, $0.092, expected to save $")
    assert probe.endswith("; expected to be 4% more expensive than aws a, with an even chance that it is cheaper")
    assert lost.startswith("if a probe turns out better, start over there")
    assert stop.startswith("stop")


def test_with_checkpoints_the_work_is_kept() -> None:
    sentences = list(plan_sentences(plan_probes(TWO, Goal(), keeps_work=True)))
    assert "if a probe turns out better, continue there from the last checkpoint" in sentences


def test_a_measured_start_is_told_as_measured() -> None:
    start, *_ = plan_sentences(plan_probes([on("a", 50, 1.01, basis="measured"), on("b", 52)], Goal()))
    assert start == "start the training on aws a, which is measured ($50.08, 2 d 2 h)"


def rival(**changes: object) -> Reason:
    values = {
        "best": "aws a",
        "goal": "cheapest",
        "cost_ratio": 1.2,
        "time_ratio": 0.8,
        "better_but_uncertain_limit": False,
        "probability": 0.2,
    }
    return Reason(topic="why", code="probe_rival", values=values | changes)  # type: ignore[arg-type] # fields by name, of several types


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (rival(), "expected to be 20% more expensive than aws a, with one chance in 5 that it is cheaper"),
        (
            rival(goal="fastest", time_ratio=1.1),
            "expected to be 10% slower than aws a, with one chance in 5 that it is",
        ),
        (rival(cost_ratio=1.001), "expected to be as good as aws a, with one chance in 5 that it is cheaper"),
        (rival(probability=0.45), "with an even chance that it is cheaper"),
        (rival(goal="weighted"), "expected to take 0.8x the time and 1.2x the cost of aws a"),
        (
            rival(cost_ratio=0.7, better_but_uncertain_limit=True),
            "expected to be 30% cheaper than aws a, but not certain to be within the limit",
        ),
    ],
)
def test_a_rival_is_compared_with_the_best(reason: Reason, expected: str) -> None:
    assert expected in probe_sentence(reason)


def test_a_suggestion_names_machines_time_and_cost() -> None:
    probes = suggest_probes(TWO, Goal())
    said = probe_sentence(suggestion_reason(probes))
    assert said.startswith("a measurement of ")
    assert "aws " in said
    assert said.endswith("would decide it: `trainfare probe` plans it")


@pytest.mark.parametrize(
    ("code", "values", "expected"),
    [
        ("stop_now", {}, "stop here: no probe is expected to save more than it costs"),
        ("stop_when_no_probe_pays", {}, "stop as soon as no probe is expected to save more than it costs"),
        ("stop_after_start", {"machine": "aws a"}, "whatever the measurement on aws a shows"),
        (
            "stop_at_iteration_time",
            {"machine": "aws a", "iteration_seconds": 0.102, "has_probes": False},
            "an iteration on aws a takes at most 102 ms; if it is slower, plan the probes again",
        ),
        ("probing_interrupted", {}, "interrupted"),
        ("probe_limit_reached", {"most": 1}, "the limit of 1 probe is reached"),
        ("no_probe_pays", {}, "no further probe is expected to save more than it costs"),
        ("only_unreachable_probes_pay", {}, "cannot be reached from here"),
    ],
)
def test_why_the_probing_stops(code: str, values: dict[str, str | float | bool], expected: str) -> None:
    assert expected in probe_sentence(Reason(topic="why", code=code, values=values))


def test_the_record_of_a_plan_keeps_its_keys() -> None:
    plan = plan_probes(TWO, Goal())
    record = probing_plan_record(ProbingPlan(plan=plan, profiles=(make_profile(),), unreachable=plan.probes))
    assert set(record) == {
        *("profiles", "goal", "start", "probes", "stop_when", "unreached", "sentences"),
        *("expected_usd", "expected_seconds", "unprobed_usd", "unprobed_seconds"),
    }
    assert record["unreached"] == ["aws/b"]
    assert record["sentences"][-1] == record["stop_when"]
    assert set(record["start"]) == {
        *("machine", "market", "region", "nodes", "batch_size", "seconds", "usd", "why"),
        *("expected_saving_usd", "expected_saving_seconds"),
    }


def test_the_record_of_a_result_keeps_its_keys() -> None:
    probe = plan_probes(TWO, Goal()).probes[0]
    plan = make_plan()
    step = ProbeResult(probe=probe, profile=make_profile(), chosen=plan.chosen)
    result = ProbingResult(
        steps=(step, replace(step, profile=None, failure="it does not start")),
        stopped=Reason(topic="why", code="no_probe_pays"),
        interrupted=False,
        unreachable=(probe,),
        plan=plan,
    )
    record = probing_result_record(result)
    assert [(step["machine"], step["profile"], step["failure"]) for step in record["steps"]] == [
        ("aws/b", make_profile().id, None),
        ("aws/b", None, "it does not start"),
    ]
    assert record["stopped"] == "no further probe is expected to save more than it costs"
    assert record["unreached"] == [probe_record(probe)]
    assert (record["plan"], record["chosen"]["machine"]) == (plan.id, plan.chosen.candidate.offer.vm_type.name)
