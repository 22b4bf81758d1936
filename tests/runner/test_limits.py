"""Limits warn before they stop: once for each, with the figures, the moment of the stop and how far it will be."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.makers import NOON, make_candidate, make_checkpoint, make_fact, make_machine, make_offer, make_run
from trainfare.model.bill import Billing
from trainfare.model.interval import Interval
from trainfare.model.run import Fact, RunLimits
from trainfare.runner.decide import JobView, Patience, View, decide
from trainfare.runner.life import Life, after, life_of
from trainfare.runner.limits import lease_reason, limit_reached, limits_ahead
from trainfare.runner.progress import RunProgress
from trainfare.runner.receipt import receipt_of

HOUR = 3600.0
RUN = make_run(candidate=make_candidate(offer=make_offer(usd_per_hour=3.0)))


def progress(**changes: Any) -> RunProgress:
    """Half of 10,000 iterations are done; the rest takes two hours, or 1.8 to 2.3."""
    fields: dict[str, Any] = {
        "iterations": 5000,
        "total_iterations": 10_000,
        "seconds": 2 * HOUR,
        "iteration_seconds": Interval(value=1.44, low=1.3, high=1.66),
        "remaining_seconds": Interval(value=2 * HOUR, low=1.8 * HOUR, high=2.3 * HOUR),
        "loss": None,
    }
    return RunProgress(**(fields | changes))


def ahead(limits: RunLimits, **changes: Any) -> list[str]:
    run = replace(RUN, limits=limits, made_at=NOON - timedelta(hours=2))
    found = limits_ahead(run, NOON, spent=6.0, usd_per_hour=3.0, progress=progress(**changes))
    return [limit.text for limit in found]


def test_a_budget_that_does_not_suffice_is_said_with_the_figures() -> None:
    assert ahead(RunLimits(budget_usd=10.0)) == [
        "It will cost $12.00 ($11.40 to $12.90) of a budget of $10.00; it will be stopped at about 13:19 UTC at 83%."
    ]
    assert ahead(RunLimits(budget_usd=12.5)) == []


def test_a_deadline_and_a_longest_duration_that_do_not_suffice_are_said() -> None:
    assert ahead(RunLimits(deadline=NOON + timedelta(hours=1))) == [
        "It will end at about 14:00 UTC (13:48 UTC to 14:18 UTC), after its deadline of 13:00 UTC; "
        "it will be stopped at about 13:00 UTC at 75%."
    ]
    assert ahead(RunLimits(longest_seconds=3 * HOUR)) == [
        "It will take 4 h (3 h 48 min to 4 h 18 min) of at most 3 h; it will be stopped at about 13:00 UTC at 75%."
    ]
    both = RunLimits(deadline=NOON + timedelta(hours=1), longest_seconds=3 * HOUR, budget_usd=7.0)
    assert len(ahead(both)) == 3


def test_without_a_predicted_end_there_is_no_warning() -> None:
    assert ahead(RunLimits(budget_usd=7.0), remaining_seconds=None) == []


def test_each_limit_warns_once() -> None:
    run = replace(RUN, limits=RunLimits(budget_usd=10.0, longest_seconds=3 * HOUR), made_at=NOON)
    life = Life(state="training", attempt=1, candidate=run.candidate, machines=(make_machine(),), started_at=NOON)
    view = View(now=NOON, machines=(make_machine(),), job=JobView(started=True), spent_usd=6.0, progress=progress())
    seen = []
    while isinstance(fact := decide(run, life, view, patience=Patience()), Fact):
        seen.append((fact.kind, fact.stop_reason))
        life = after(life, fact)
        view = replace(view, progress=progress(remaining_seconds=Interval.exactly(5 * HOUR)))
    assert seen == [("warned", "budget"), ("warned", "longest duration")]
    assert life.stop_reason is None
    assert life.warned_of == {"budget", "longest duration"}


def test_a_small_budget_keeps_a_tenth_of_it_for_saving() -> None:
    run = replace(RUN, limits=RunLimits(budget_usd=0.01))
    assert limit_reached(run, NOON, spent=0.0089, usd_per_hour=3.0) is None
    assert limit_reached(run, NOON, spent=0.0091, usd_per_hour=3.0) is not None


def test_a_checkpoint_that_takes_long_is_saved_and_fetched_within_the_budget() -> None:
    run = replace(RUN, limits=RunLimits(budget_usd=6.0))
    assert limit_reached(run, NOON, spent=5.4, usd_per_hour=3.0, checkpoint_seconds=300.0) is None
    assert limit_reached(run, NOON, spent=5.6, usd_per_hour=3.0, checkpoint_seconds=300.0) is not None
    assert limit_reached(run, NOON, spent=2.9, usd_per_hour=3.0, checkpoint_seconds=9000.0) is None, "half is used"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (RunLimits(), None),
        (RunLimits(budget_usd=1.0), "budget"),
        (RunLimits(deadline=NOON), "deadline"),
        (RunLimits(longest_seconds=1.0), "longest duration"),
    ],
)
def test_a_machine_that_ended_at_its_lease_stopped_the_run(limits: RunLimits, reason: str | None) -> None:
    assert lease_reason(replace(RUN, limits=limits)) == reason


def test_the_time_of_a_lost_machine_is_training_and_all_attempts_are_paid() -> None:
    kinds: list[tuple[Any, dict[str, Any]]] = [
        ("launch intended", {"attempt": 1, "candidate": RUN.candidate}),
        ("machines seen", {}),
        ("machines ready", {}),
        ("program started", {}),
        ("checkpoint fetched", {}),
        ("machines lost", {}),
        ("termination intended", {}),
        ("terminated", {}),
        ("launch intended", {"attempt": 2, "candidate": RUN.candidate, "checkpoint": make_checkpoint()}),
        ("machines seen", {}),
        ("machines ready", {}),
        ("program started", {}),
        ("program ended", {}),
        ("results collected", {}),
        ("termination intended", {}),
        ("terminated", {}),
    ]
    facts = [
        make_fact(kind=kind, number=number, seen_at=NOON + timedelta(seconds=100 * number), **fields)
        for number, (kind, fields) in enumerate(kinds)
    ]
    assert life_of(facts).resumed_from == make_checkpoint()
    receipt = receipt_of(RUN, facts, billing=Billing(), now=facts[-1].seen_at)
    assert {line.part: line.seconds for line in receipt.lines} == {
        "boot": 400.0,
        "setup": 200.0,
        "training": 300.0,
        "collecting": 500.0,
    }
    assert receipt.attempts == 2
    assert receipt.total.paid_usd == pytest.approx(3.0 * 1400 / 3600)
