"""Plans of probes made from estimates."""

from typing import Any, cast

import pytest

from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_vm_type
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.probing.plan import (
    next_probe,
    plan_probes,
    suggest_probes,
    suggestion_reason,
    time_distribution,
)
from trainfare.views.probing import plan_sentences


def on(name: str, hours: float, factor: float = 1.5, *, price: float = 1.0, **changes: Any) -> Estimate:
    """A training of some hours at a dollar an hour, and five minutes of boot."""
    offer = make_offer(vm_type=make_vm_type(name=name, gpu=make_gpu(name=f"GPU of {name}")), usd_per_hour=price)
    work = Interval.within_factor(hours * 3600, factor)
    boot = Interval.exactly(300.0)
    fields: dict[str, Any] = {
        "candidate": make_candidate(offer=offer),
        "iteration_seconds": Interval.within_factor(1.0, factor),
        "phases": (Phase(name="boot", seconds=boot), Phase(name="steady iterations", seconds=work)),
        "seconds": work + boot,
        "usd": (work + boot) * (price / 3600),
    }
    return make_estimate(**(fields | changes))


def names(probes: tuple[Any, ...]) -> list[str]:
    return [probe.candidate.offer.vm_type.name for probe in probes]


def test_two_close_machines_are_worth_a_probe_if_the_training_is_long() -> None:
    probes = suggest_probes([on("a", 50), on("b", 52)], Goal())
    assert set(names(probes)) <= {"a", "b"}
    assert probes
    assert all(probe.usd == pytest.approx(probe.seconds / 3600) for probe in probes)
    reason = suggestion_reason(probes)
    assert (reason.topic, reason.code) == ("certainty", "probes_would_decide")
    assert reason.values == {
        "machines": tuple(f"aws {name}" for name in names(probes)),
        "seconds": sum(probe.seconds for probe in probes),
        "usd": sum(probe.usd for probe in probes),
    }


def test_a_short_training_is_not_worth_a_probe() -> None:
    assert suggest_probes([on("a", 0.05), on("b", 0.06)], Goal()) == ()


def test_a_clear_winner_needs_no_probe() -> None:
    assert suggest_probes([on("a", 10, 1.1), on("b", 100, 1.1)], Goal()) == ()
    assert suggest_probes([on("a", 10)], Goal()) == ()


def test_a_plan_starts_on_the_best_machine_and_each_probe_pays() -> None:
    plan = plan_probes([on("a", 50), on("b", 52), on("c", 500)], Goal())
    assert plan.start.candidate.offer.vm_type.name == "a"
    assert plan.start.usd == 0
    assert names(plan.probes) == ["b"]
    for probe in plan.probes:
        assert probe.expected_saving_usd > probe.usd > 0
        assert probe.reason.code == "probe_rival"
        assert probe.reason.values["best"] == "aws a"
        assert probe.reason.values["cost_ratio"] == pytest.approx(52 / 50, rel=0.01)
        assert 0.4 < cast("float", probe.reason.values["probability"]) < 0.5
    assert plan.expected_usd < plan.unprobed_usd


def test_the_plan_has_the_iteration_time_below_which_to_stop() -> None:
    plan = plan_probes([on("a", 5), on("b", 6)], Goal())
    assert plan.stop.code == "stop_at_iteration_time"
    assert plan.stop.values["machine"] == "aws a"
    assert 0.5 < cast("float", plan.stop.values["iteration_seconds"]) < 2.0


def test_a_measured_machine_is_not_probed_again() -> None:
    measured = on("a", 50, 1.01, basis="measured")
    plan = plan_probes([measured, on("b", 52)], Goal())
    assert plan.start.seconds == 0
    assert names(plan.probes) == ["b"]
    probe = next_probe([measured, on("b", 52)], Goal())
    assert probe is not None
    assert probe.candidate.offer.vm_type.name == "b"
    assert next_probe([measured, on("b", 52, 1.01, basis="measured")], Goal()) is None


def test_only_a_reachable_machine_is_the_next_probe() -> None:
    estimates = [on("a", 50), on("b", 52)]
    probe = next_probe(estimates, Goal(), reachable=lambda e: e.candidate.offer.vm_type.name == "b")
    assert probe is not None
    assert probe.candidate.offer.vm_type.name == "b"
    assert next_probe(estimates, Goal(), reachable=lambda _: False) is None


def test_uncertain_epochs_do_not_make_machines_uncertain() -> None:
    fixed = [on("a", 10, 1.05), on("b", 12, 1.05)]
    uncertain = [on("a", 10, 3.0, epochs_interval=Interval(value=10, low=10 / 2.98, high=10 * 2.98)), on("b", 12, 3.0)]
    of_fixed, of_uncertain = (time_distribution(estimates).covariance[0, 0] for estimates in (fixed, uncertain))
    assert of_uncertain == pytest.approx(of_fixed, rel=0.2)


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
    assert all(sentence and "nan" not in sentence for sentence in plan_sentences(plan))


def test_an_empty_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to choose from"):
        plan_probes([], Goal())
