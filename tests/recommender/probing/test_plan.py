"""From estimates to probes in words."""

from typing import Any

import pytest

from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_vm_type
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.probing.plan import believe, next_probe, plan_probes, sentence, suggest


def on(name: str, hours: float, factor: float = 1.5, *, price: float = 1.0, **changes: Any) -> Estimate:
    """An hour of it costs a dollar; five minutes of boot."""
    offer = make_offer(vm_type=make_vm_type(name=name, gpu=make_gpu(name=f"GPU of {name}")), usd_per_hour=price)
    works = Interval.within_factor(hours * 3600, factor)
    boot = Interval.exactly(300.0)
    fields: dict[str, Any] = {
        "candidate": make_candidate(offer=offer),
        "iteration_seconds": Interval.within_factor(1.0, factor),
        "phases": (Phase(name="boot", seconds=boot), Phase(name="steady iterations", seconds=works)),
        "seconds": works + boot,
        "usd": (works + boot) * (price / 3600),
    }
    return make_estimate(**(fields | changes))


def names(probes: tuple[Any, ...]) -> list[str]:
    return [probe.candidate.offer.vm_type.name for probe in probes]


def test_two_that_cannot_be_told_apart_are_worth_a_probe_when_the_training_is_long() -> None:
    probes = suggest([on("a", 50), on("b", 52)], Goal())
    assert set(names(probes)) <= {"a", "b"}
    assert probes
    assert all(probe.usd == pytest.approx(probe.seconds / 3600) for probe in probes)
    assert "would settle it: trainfare probe --plan" in sentence(probes)
    assert "aws " in sentence(probes)


def test_a_short_training_is_not_worth_a_probe() -> None:
    assert suggest([on("a", 0.05), on("b", 0.06)], Goal()) == ()


def test_what_is_sure_to_win_needs_no_probe() -> None:
    assert suggest([on("a", 10, 1.1), on("b", 100, 1.1)], Goal()) == ()
    assert suggest([on("a", 10)], Goal()) == ()


def test_a_plan_begins_with_the_best_for_nothing_and_each_probe_pays_for_itself() -> None:
    plan = plan_probes([on("a", 50), on("b", 52), on("c", 500)], Goal())
    assert plan.start.candidate.offer.vm_type.name == "a"
    assert plan.start.usd == 0
    assert names(plan.probes) == ["b"]
    for probe in plan.probes:
        assert probe.expected_saving_usd > probe.usd > 0
        assert "chance" in probe.why
    assert plan.expected_usd < plan.unprobed_usd
    assert plan.sentences[-1] == plan.stop_when


def test_the_plan_says_how_fast_the_first_machine_must_be_to_stop_there() -> None:
    plan = plan_probes([on("a", 5), on("b", 6)], Goal())
    assert plan.stop_when.startswith("stop")
    assert "aws a" in plan.stop_when


def test_what_was_measured_is_not_probed_again() -> None:
    measured = on("a", 50, 1.01, basis="measured")
    plan = plan_probes([measured, on("b", 52)], Goal())
    assert plan.start.seconds == 0
    assert names(plan.probes) == ["b"]
    probe = next_probe([measured, on("b", 52)], Goal())
    assert probe is not None
    assert probe.candidate.offer.vm_type.name == "b"
    assert next_probe([measured, on("b", 52, 1.01, basis="measured")], Goal()) is None


def test_only_what_can_be_reached_is_next() -> None:
    estimates = [on("a", 50), on("b", 52)]
    probe = next_probe(estimates, Goal(), reachable=lambda e: e.candidate.offer.vm_type.name == "b")
    assert probe is not None
    assert probe.candidate.offer.vm_type.name == "b"
    assert next_probe(estimates, Goal(), reachable=lambda _: False) is None


def test_doubt_about_epochs_is_no_doubt_about_machines() -> None:
    sure = [on("a", 10, 1.05), on("b", 12, 1.05)]
    unsure = [on("a", 10, 3.0, epochs_interval=Interval(value=10, low=10 / 2.98, high=10 * 2.98)), on("b", 12, 3.0)]
    ours, theirs = (believe(estimates).covariance[0, 0] for estimates in (sure, unsure))
    assert theirs == pytest.approx(ours, rel=0.2)


@pytest.mark.parametrize(
    "goal",
    [
        Goal(kind="fastest"),
        Goal(kind="weighted", weight_time=0.5),
        Goal(deadline_seconds=40 * 3600),
        Goal(kind="fastest", budget_usd=45.0),
    ],
)
def test_every_goal_has_a_plan_in_sentences(goal: Goal) -> None:
    plan = plan_probes([on("a", 50), on("b", 30, price=2.0), on("c", 20, 2.0, price=3.0)], goal)
    assert plan.goal == goal
    assert all(sentence and "nan" not in sentence for sentence in plan.sentences)


def test_nothing_to_choose_from_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to choose from"):
        plan_probes([], Goal())
