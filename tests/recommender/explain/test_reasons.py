"""The reasons of a plan: their codes, values and arguments. `tests/views/` has the sentences."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from tests.makers import (
    NOON,
    make_candidate,
    make_estimate,
    make_fact,
    make_gpu,
    make_offer,
    make_profile,
    make_vm_type,
)
from trainfare.catalog.cpu_facts import load_cpus
from trainfare.model.bill import Bill, Billing, BillLine, Interruptions
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.plan import Goal
from trainfare.model.reason import Reason, Value
from trainfare.recommender.choose import ideal_point
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.explain.codes import describe, reason
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.explain.reasons import reasons
from trainfare.recommender.limits import reject_beyond_limits
from trainfare.recommender.options import as_options
from trainfare.recommender.pareto import front, knee

A100 = make_vm_type(name="a2", gpu=make_gpu(name="A100"))
CHEAP = make_estimate(usd=Interval.within_factor(1.0, 2), limited_by="launches")
FAST = make_estimate(
    candidate=make_candidate(offer=make_offer(vm_type=A100)),
    usd=Interval.within_factor(3.0, 2),
    seconds=Interval.within_factor(1800.0, 2),
)
SPOT = make_estimate(candidate=make_candidate(offer=make_offer(market="spot")), usd=Interval.within_factor(0.2, 2))
G4DN = {"provider": "aws", "machine": "g4dn.xlarge", "market": "on_demand", "held": False, "nodes": 1}
A2 = G4DN | {"machine": "a2"}


def context(
    *ordered: Estimate,
    goal: Goal | None = None,
    eligible: Sequence[Estimate] = (),
    estimates: Sequence[Estimate] = (),
    **changes: Any,
) -> ChoiceContext:
    """A context in which the first of `ordered` is chosen, without a reason to mention anything else."""
    ordered = ordered or (CHEAP, FAST)
    eligible = eligible or ordered
    goal = goal or Goal(kind="cheapest")
    considered = as_options(eligible)
    accepted, rejections = reject_beyond_limits(considered, goal)
    plain = ChoiceContext(
        goal=goal,
        profile=make_profile(),
        chosen=ordered[0],
        ordered=ordered,
        compared=as_options((*eligible, *estimates)),
        eligible=considered,
        ideal=ideal_point(eligible),
        accepted=accepted,
        rejections=rejections,
        winning_ranges=(WinningRange(first=1, last=None, estimate=ordered[0]),),
        today=NOON.date(),
    )
    return replace(plain, **changes)


def codes(given: ChoiceContext, topic: str | None = None) -> list[str]:
    return [each.code for each in reasons(given) if topic in (None, each.topic)]


def find(given: ChoiceContext, code: str) -> Reason | None:
    return next((each for each in reasons(given) if each.code == code), None)


def values(given: ChoiceContext, code: str) -> dict[str, Value]:
    found = find(given, code)
    assert found is not None, codes(given)
    return dict(found.values)


def test_reasons_come_by_topic() -> None:
    probe = Reason(topic="certainty", code="probes_would_decide")
    topics = [each.topic for each in reasons(context(billed(CHEAP, starting=1200.0), FAST, probe=probe))]
    assert list(dict.fromkeys(topics)) == ["why", "certainty", "changes", "charges", "assumptions"]
    assert topics == sorted(topics, key=["why", "certainty", "changes", "charges", "assumptions"].index)


def test_the_first_reason_counts_the_candidates() -> None:
    first = reasons(context())[0]
    assert first.code == "best_candidate"
    assert (first.values["goal"], first.values["candidates"], first.values["machine_types"]) == ("cheapest", 2, 2)
    assert (first.values["max_nodes"], first.values["batch_sizes"]) == (1, 1)


def test_nodes_batch_sizes_limits_and_rejections_are_counted() -> None:
    four = replace(FAST, candidate=replace(FAST.candidate, nodes=4, batch_size=128))
    late = make_estimate(candidate=replace(CHEAP.candidate, nodes=2), seconds=Interval.within_factor(99_000.0, 2))
    large, spot = (as_options([replace(CHEAP, candidate=replace(CHEAP.candidate, nodes=nodes))]) for nodes in (3, 5))
    goal = Goal(kind="cheapest", deadline_seconds=43_200.0, budget_usd=20.0)
    found = context(CHEAP, FAST, goal=goal, eligible=(CHEAP, FAST, four, late))
    found = replace(found, rejections={**found.rejections, "does_not_fit": large, "spot_too_risky": spot})
    assert values(found, "best_candidate") == {
        "goal": "cheapest",
        "value_of_time_usd_per_hour": None,
        "usd_with_time": None,
        "candidates": 3,
        "machine_types": 2,
        "max_nodes": 4,
        "batch_sizes": 2,
        "beyond_limits": 1,
        "spot_too_risky": 1,
        "spot_not_checked": 0,
        "too_late_for_early_target": 0,
        "does_not_fit": 1,
        "slower_than_here": 0,
        "epochs_guessed": 0,
        "deadline_seconds": 43_200.0,
        "budget_usd": 20.0,
        "confidence": 0.9,
    }


def test_candidates_that_miss_the_early_target_are_counted_and_no_alternatives() -> None:
    better = make_estimate(candidate=replace(CHEAP.candidate, nodes=2), usd=Interval.within_factor(0.5, 2))
    found = context(CHEAP, FAST, goal=Goal(budget_usd=9.0), eligible=(better, CHEAP, FAST))
    rejections = {**found.rejections, "too_late_for_early_target": found.eligible.matching(better.candidate)}
    found = replace(found, accepted=found.eligible[1:], rejections=rejections)
    assert values(found, "best_candidate")["too_late_for_early_target"] == 1
    assert values(found, "best_candidate")["candidates"] == 2
    assert "looser_budget" not in codes(found)


def test_the_other_extreme_is_compared() -> None:
    assert values(context(), "other_extreme") == {
        "kind": "fastest",
        "machine": A2,
        "time_ratio": 0.5,
        "cost_ratio": 3.0,
        "usd": 3.0,
    }
    assert values(context(FAST, CHEAP, goal=Goal(kind="fastest")), "other_extreme")["machine"] == G4DN


def test_the_other_extreme_is_within_the_limits() -> None:
    found = context(CHEAP, goal=Goal(kind="cheapest", budget_usd=5.0), eligible=(CHEAP, FAST))
    assert "other_extreme" not in codes(found)


def test_the_bottleneck_of_an_iteration_is_named() -> None:
    assert values(context(), "limited_by") == {"limited_by": "launches", "iteration_seconds": 0.1, "gpus": 1}


def test_the_runners_up_are_compared_with_the_chosen_one() -> None:
    second = A2 | {"time_ratio": 0.5, "cost_ratio": 3.0, "usd": 3.0, "more_seconds": -1800.0, "more_usd": 2.0}
    assert values(context(), "runners_up") == {"machines": (second,)}


def test_the_same_machine_in_another_region_is_no_runner_up() -> None:
    elsewhere = replace(CHEAP, candidate=make_candidate(offer=make_offer(region="elsewhere")))
    assert "runners_up" not in codes(context(CHEAP, elsewhere))


def test_a_batch_size_is_described_only_if_it_differs_from_the_chosen_one() -> None:
    larger = replace(FAST, candidate=replace(FAST.candidate, batch_size=256))
    assert values(context(CHEAP, larger), "other_extreme")["machine"] == A2 | {"batch_size": 256}


MIDDLE = make_estimate(
    candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name="mid", gpu=make_gpu(name="L4")))),
    usd=Interval.within_factor(1.2, 1.1),
    seconds=Interval.within_factor(2000.0, 1.1),
)
FRONT = front((CHEAP, MIDDLE, FAST))


def test_the_knee_is_another_machine_or_the_choice() -> None:
    assert knee(FRONT) == MIDDLE
    found = values(context(CHEAP, MIDDLE, FAST, front=FRONT, knee=MIDDLE), "knee")
    assert found["machine"] == G4DN | {"machine": "mid"}
    assert found["time_ratio"] == pytest.approx(2000 / 3600)
    by_weight = context(MIDDLE, CHEAP, FAST, goal=Goal(kind="weighted", weight_time=0.5), front=FRONT, knee=MIDDLE)
    assert values(by_weight, "chosen_is_knee") == {"front": 3}


def test_a_rejected_knee_is_not_mentioned() -> None:
    goal = Goal(budget_usd=2.1)
    assert {"knee", "chosen_is_knee"}.isdisjoint(
        codes(context(CHEAP, goal=goal, eligible=(CHEAP, FAST), front=FRONT, knee=FAST))
    )


def test_the_baseline_is_compared_by_speed_up_and_cost_ratio() -> None:
    """Twice as fast for three times the cost: Δ = 2/3."""
    found = context(FAST, CHEAP, goal=Goal(kind="fastest"), baseline=CHEAP, delta=2 / 3)
    assert values(found, "compared_with_baseline") == {
        "machine": G4DN,
        "speed_up": 2.0,
        "cost_ratio": 3.0,
        "delta": 2 / 3,
    }
    assert "chosen_is_baseline" in codes(context(baseline=CHEAP, delta=1.0))


def test_the_meaning_of_the_weights_is_given_in_time_and_money() -> None:
    """Least time 1800 s, least cost $1: a weight of 0.25 values an hour at 1/3 · $2; 0.25·2 + 0.75·1 = 1.25."""
    found = context(CHEAP, FAST, goal=Goal(kind="weighted", weight_time=0.25))
    assert values(found, "weights") == {
        "weight_time": 0.25,
        "time_ratio": 2.0,
        "cost_ratio": 1.0,
        "score": 1.25,
        "usd_per_hour": pytest.approx(2 / 3),
    }
    assert values(found, "other_extreme")["kind"] == "fastest"
    assert {"fewer_epochs", "more_epochs", "best_for_any_epochs"}.isdisjoint(codes(found))


def test_a_better_spot_candidate_is_mentioned_with_the_argument_that_allows_it() -> None:
    found = find(context(CHEAP, FAST, estimates=(SPOT,)), "spot_would_be_better")
    assert found is not None
    assert found.arguments == {"spot": True}
    assert found.values == {"machine": G4DN | {"market": "spot"}, "usd": 0.2, "interruptions": None}


def test_a_spot_candidate_beyond_the_deadline_is_not_mentioned() -> None:
    late = replace(SPOT, seconds=Interval.within_factor(9000.0, 2), phases=in_phases(9000.0))
    goal = Goal(kind="cheapest", deadline_seconds=10_000.0)
    assert "spot_would_be_better" not in codes(context(CHEAP, FAST, goal=goal, estimates=(late,)))


def test_spot_is_not_suggested_if_it_was_allowed() -> None:
    assert "spot_would_be_better" not in codes(context(CHEAP, FAST, estimates=(SPOT,), spot=True))


def test_for_the_fastest_goal_a_cheaper_spot_candidate_may_be_hardly_slower() -> None:
    fast = Goal(kind="fastest")
    offer = make_offer(vm_type=A100, market="spot")
    near, far = (
        make_estimate(
            candidate=make_candidate(offer=offer),
            usd=Interval.within_factor(1.0, 2),
            seconds=Interval.within_factor(seconds, 2),
        )
        for seconds in (1900.0, 2100.0)
    )
    assert "spot_would_be_better" in codes(context(FAST, CHEAP, goal=fast, estimates=(near,)))
    assert "spot_would_be_better" not in codes(context(FAST, CHEAP, goal=fast, estimates=(far,)))


def test_if_only_a_split_plan_is_within_the_limits_nothing_else_is_a_reason() -> None:
    goal = Goal(kind="cheapest", deadline_seconds=3000.0)
    split = Reason(topic="why", code="split_plan")
    found = context(FAST, goal=goal, eligible=(CHEAP, FAST), more_why=(split,))
    why, *others = (each for each in reasons(found) if each.topic == "why")
    assert (why.code, why.values["candidates"], others) == ("no_single_machine_within_limits", 2, [split])
    (change,) = (each for each in reasons(found) if each.topic == "changes")
    assert (change.code, change.arguments) == ("looser_deadline", {"deadline": "1h43m"})


def test_further_reasons_for_the_choice_come_last() -> None:
    split = Reason(topic="why", code="split_plan")
    assert [each for each in reasons(context(more_why=(split,))) if each.topic == "why"][-1] == split


# certainty


def test_an_uncertain_ranking_has_the_probability_that_the_other_is_better() -> None:
    near = replace(FAST, usd=Interval.within_factor(1.5, 2))
    found = values(context(CHEAP, near), "ranking_uncertain")
    assert found["machine"] == A2
    assert found["ratio"] == 1.5
    assert found["probability"] == pytest.approx(0.248, abs=0.001)
    assert found["others"] == 0
    assert found["bargain"] == A2 | {"ratio": 0.5, "is_first": True}
    assert "ranking_uncertain" not in codes(context(CHEAP, near, goal=Goal(kind="cheapest", confidence=0.7)))


def test_the_fastest_of_several_uncertain_candidates_is_a_bargain() -> None:
    near = replace(FAST, usd=Interval.within_factor(1.5, 2))
    nearly = replace(near, candidate=replace(near.candidate, batch_size=128))
    slow = make_estimate(candidate=near.candidate, usd=near.usd)
    assert values(context(CHEAP, near, nearly), "ranking_uncertain")["others"] == 1
    found = values(context(CHEAP, slow, nearly), "ranking_uncertain")
    assert found["bargain"] == A2 | {"batch_size": 128, "ratio": 0.5, "is_first": False}


def test_the_cheapest_of_several_about_equally_fast_candidates_is_a_bargain() -> None:
    nearly = replace(CHEAP, seconds=Interval.within_factor(2000.0, 2), phases=in_phases(2000.0))
    fastest = Goal(kind="fastest")
    bargain = values(context(FAST, nearly, goal=fastest), "ranking_uncertain")["bargain"]
    assert bargain == G4DN | {"ratio": pytest.approx(1 / 3), "is_first": True}
    as_expensive = replace(nearly, usd=FAST.usd)
    assert values(context(FAST, as_expensive, goal=fastest), "ranking_uncertain")["bargain"] is None


def test_the_price_ranks_two_offers_with_one_prediction() -> None:
    more_expensive = replace(
        CHEAP, usd=Interval.within_factor(1.1, 2), candidate=make_candidate(offer=make_offer(region="elsewhere"))
    )
    assert "ranking_uncertain" not in codes(context(CHEAP, more_expensive))


def test_a_clear_winner_has_a_certain_ranking() -> None:
    assert "ranking_uncertain" not in codes(context(CHEAP, replace(FAST, usd=Interval.within_factor(100.0, 2))))


def test_the_uncertainty_of_the_epochs_does_not_make_a_ranking_uncertain() -> None:
    """The chosen estimate includes it, the ordered ones do not."""
    narrow, other = (replace(e, usd=Interval.within_factor(e.usd.value, 1.05)) for e in (CHEAP, FAST))
    found = context(narrow, other)
    assert "ranking_uncertain" not in codes(replace(found, chosen=replace(narrow, usd=Interval.within_factor(1.0, 9))))


@pytest.mark.parametrize("basis", ["measured", "scaled", "extrapolated"])
def test_the_basis_is_the_first_statement_of_certainty(basis: str) -> None:
    first = codes(context(replace(CHEAP, basis=basis)), "certainty")[0]  # type: ignore[arg-type] # one of the three literals, by parametrize
    assert first.startswith(f"basis_{basis}")


def test_only_a_wide_interval_is_called_wide() -> None:
    narrow = replace(CHEAP, iteration_seconds=Interval.within_factor(0.1, 1.2))
    assert values(context(CHEAP), "basis_extrapolated")["wide"] is True
    assert values(context(narrow), "basis_extrapolated")["wide"] is False


def test_a_scaled_time_has_the_machine_it_was_measured_on() -> None:
    scaled = replace(CHEAP, basis="scaled")
    same = make_profile(
        host=Host(name="h", gpu="T4", gpus=1, vm_type="aws/g4dn.xlarge"), device="cuda", micro_batch_size=32
    )
    assert values(context(scaled, profile=same), "basis_scaled_from_same_machine")["batch_size"] == 32
    other = make_profile(host=Host(name="h", gpu="V100", gpus=1, vm_type="aws/p3.2xlarge"), device="cuda")
    found = values(context(scaled, profile=other), "basis_scaled_from_gpu")
    assert (found["from_gpu"], found["to_gpu"]) == ("V100", "T4")
    slice_ = make_vm_type(provider="local", name="half", gpu=None, gpus=0, vcpus=0.5)
    sliced = replace(scaled, candidate=make_candidate(offer=make_offer(vm_type=slice_, market="own")))
    taken = make_profile(host=Host(name="here", vm_type="local/one"))
    assert values(context(sliced, profile=taken), "basis_scaled_from_slice")["machine"] == "local/one"


def test_a_suggested_probe_replaces_the_advice_to_profile_there() -> None:
    assert values(context(), "basis_extrapolated")["profile_on"] == "aws/g4dn.xlarge"
    probe = Reason(topic="certainty", code="probes_would_decide")
    found = context(probe=probe)
    assert values(found, "basis_extrapolated")["profile_on"] is None
    assert codes(found, "certainty")[-1] == "probes_would_decide"


# changes


def ranges(*found: tuple[int, int | None, Estimate]) -> tuple[WinningRange, ...]:
    return tuple(WinningRange(first=first, last=last, estimate=estimate) for first, last, estimate in found)


def test_the_winners_at_fewer_and_at_more_epochs_are_named() -> None:
    fewer = context(winning_ranges=ranges((1, 3, FAST), (4, None, CHEAP)))
    assert values(fewer, "fewer_epochs") == {"epochs": 3, "machine": A2, "batch_size": None}
    more = context(winning_ranges=ranges((1, 3000, CHEAP), (3001, None, FAST)))
    assert values(more, "more_epochs") == {"epochs": 3001, "machine": A2, "batch_size": None}
    assert values(context(), "best_for_any_epochs") == {"goal": "cheapest", "batch_size": None}


EPOCHS = {"fewer_epochs", "more_epochs", "best_for_any_epochs"}


@pytest.mark.parametrize("goal", [Goal(deadline_seconds=9e9), Goal(budget_usd=9e9)])
def test_with_a_limit_no_winners_at_other_epochs_are_named(goal: Goal) -> None:
    """With fewer epochs others would be within the limit too."""
    walk = ranges((1, 30, CHEAP), (31, None, FAST))
    assert EPOCHS.isdisjoint(codes(context(winning_ranges=walk, goal=goal)))
    assert EPOCHS.isdisjoint(codes(context(goal=goal)))


def test_winners_at_other_epochs_need_an_alternative_and_a_range_with_the_choice() -> None:
    assert EPOCHS.isdisjoint(codes(context(CHEAP)))
    rounding_decided = ranges((1, 30, FAST), (31, None, CHEAP))
    assert EPOCHS.isdisjoint(codes(context(winning_ranges=rounding_decided)))


def test_winners_at_other_epochs_have_the_batch_size_if_several_are_in_order() -> None:
    larger = replace(FAST, candidate=replace(FAST.candidate, batch_size=256))
    walk = ranges((1, 30, CHEAP), (31, None, FAST))
    assert values(context(CHEAP, FAST, larger, winning_ranges=walk), "more_epochs")["batch_size"] == 64


def test_a_tighter_deadline_names_the_candidate_within_it() -> None:
    """With 90% confidence, CHEAP takes 1 h · 2^0.7791 = 6178 s at most, FAST 3089 s."""
    found = find(context(), "tighter_deadline")
    assert found is not None
    assert found.arguments == {"deadline": "52m"}
    assert found.values["below"] == pytest.approx(6177.9, abs=0.1)
    assert found.values == {"below": found.values["below"], "machine": A2, "seconds": 1800.0, "usd": 3.0}


def test_a_tighter_limit_that_rounds_to_the_same_is_not_mentioned() -> None:
    a_second_less = make_estimate(candidate=FAST.candidate, usd=FAST.usd, seconds=Interval.within_factor(3599.9, 2))
    assert "tighter_deadline" not in codes(context(CHEAP, a_second_less))
    a_cent_less = replace(CHEAP, usd=Interval.within_factor(2.9999, 2))
    assert "tighter_budget" not in codes(context(FAST, a_cent_less, goal=Goal(kind="fastest")))


def test_more_epochs_within_the_deadline_are_counted() -> None:
    """10 epochs take 6178 s at most: 3 h are enough for 17.5, 6700 s for 10.8."""
    found = context(goal=Goal(deadline_seconds=10_800.0))
    assert values(found, "epochs_within_deadline") == {"epochs": 17}
    assert "epochs_within_deadline" not in codes(context(goal=Goal(deadline_seconds=6700.0)))
    assert "epochs_within_deadline" not in codes(context())


def test_a_looser_deadline_is_mentioned_if_it_saves_money() -> None:
    found = find(context(FAST, goal=Goal(deadline_seconds=4000.0), eligible=(CHEAP, FAST)), "looser_deadline")
    assert found is not None
    assert (found.arguments, found.values["machine"], found.values["usd"]) == ({"deadline": "1h43m"}, G4DN, 1.0)


def test_tighter_and_looser_budgets_are_mentioned() -> None:
    """With 90% confidence, CHEAP costs $1 · 2^0.7791 = $1.716 at most, FAST $5.148."""
    tighter = find(context(FAST, CHEAP, goal=Goal(kind="fastest")), "tighter_budget")
    assert tighter is not None
    assert (tighter.arguments, tighter.values["machine"]) == ({"budget": 1.72}, G4DN)
    assert tighter.values["below"] == pytest.approx(5.148, abs=0.001)
    looser = find(context(CHEAP, goal=Goal(kind="fastest", budget_usd=3.0), eligible=(CHEAP, FAST)), "looser_budget")
    assert looser is not None
    assert (looser.arguments, looser.values["machine"], looser.values["seconds"]) == ({"budget": 5.15}, A2, 1800.0)


def test_the_break_even_price_is_given_if_a_provider_sets_it() -> None:
    """Three times the cost: 3 × $0.526/h."""
    found = values(context(), "price_rise")
    assert (found["machine"], found["other"], found["usd_per_hour"]) == (G4DN, A2, 0.526)
    assert found["break_even_usd_per_hour"] == pytest.approx(1.578)
    assert "price_rise" not in codes(context(FAST, CHEAP, goal=Goal(kind="fastest")))
    own = replace(CHEAP, candidate=make_candidate(offer=make_offer(market="own")))
    assert "price_rise" not in codes(context(own, FAST))


# charges


def billed(estimate: Estimate, *lines: BillLine, starting: float = 0.0, **changes: Any) -> Estimate:
    """The estimate with a bill of these lines and the rest, and with a boot of `starting` seconds."""
    rest = BillLine(
        name="all else", usd=Interval.exactly(estimate.usd.value - sum(each.usd.value for each in lines)), how="rest"
    )
    bill = Bill(
        lines=(rest, *lines),
        usd=estimate.usd,
        billing=Billing(increment_seconds=60.0),
        billed_seconds=3600.0,
        usd_per_hour=1.0,
        prices_seen_on=NOON.date(),
    )
    phases = in_phases(estimate.seconds.value, boot=starting) if starting else estimate.phases
    fields: dict[str, Any] = {"bill": bill, "phases": phases}
    return replace(estimate, **(fields | changes))


def in_phases(total: float, **seconds: float) -> tuple[Phase, ...]:
    """Phases of these names, and steady iterations for the rest."""
    named = {name.replace("_", " "): each for name, each in seconds.items()}
    steady = {"steady iterations": total - sum(seconds.values())}
    return tuple(
        Phase(name=name, seconds=Interval.within_factor(each, 2))  # type: ignore[arg-type] # a name mypy cannot narrow
        for name, each in (named | steady).items()
    )


def test_a_long_start_is_mentioned_with_the_arguments_that_state_it() -> None:
    found = find(context(billed(CHEAP, starting=1200.0), FAST), "long_start")
    assert found is not None
    assert found.values == {"starting_seconds": 1200.0, "seconds": 3600.0}
    assert set(found.arguments) == {"boot", "setup"}
    assert "long_start" not in codes(context(billed(CHEAP, starting=300.0), FAST))


def test_time_that_is_charged_and_not_used_is_mentioned_if_it_costs_much() -> None:
    line = BillLine(name="minimum charge", usd=Interval.exactly(0.4), how="charged by the hour: 30 min more")
    assert values(context(billed(CHEAP, line)), "unused_time")["usd"] == 0.4
    small = replace(line, usd=Interval.exactly(0.05))
    assert "unused_time" not in codes(context(billed(CHEAP, small)))


def test_the_billing_rule_comes_with_the_date_of_the_price() -> None:
    found = values(context(billed(CHEAP), FAST), "price_seen")
    assert found == {"seen_on": "2026-08-22", "today": "2026-11-16", "billing": "by the minute"}
    assert values(context(), "price_seen")["billing"] is None


def seen_on(estimate: Estimate, day: date) -> Estimate:
    offer = replace(estimate.candidate.offer, seen_on=day)
    return replace(estimate, candidate=replace(estimate.candidate, offer=offer))


def test_an_old_price_of_the_chosen_machine_comes_with_the_best_newer_one() -> None:
    old = seen_on(CHEAP, date(2025, 9, 1))
    fresh, newer = seen_on(FAST, date(2026, 11, 10)), seen_on(FAST, date(2026, 8, 22))
    found = values(context(old, fresh), "price_is_old")
    assert found["newer"] == describe(FAST.candidate)
    assert (found["newer_days"], found["newer_usd"]) == (6, FAST.usd.value)
    assert values(context(old, newer), "price_is_old")["newer_days"] == 86, "not fresh, but much newer"
    as_old = values(context(old, seen_on(FAST, date(2025, 9, 2))), "price_is_old")
    assert "newer" not in as_old
    assert "price_is_old" not in codes(context(seen_on(CHEAP, date(2026, 11, 1)), FAST))


RATE = Interruptions(per_hour=Interval.exactly(0.3), source="traces of 11 zones")
INTERRUPTED = billed(
    CHEAP,
    phases=in_phases(3600.0, spot_rework=600.0),
    interruptions=Interval(value=1.62, low=0, high=4),
    checkpoint_every_seconds=840.0,
)


def test_interruptions_on_spot_are_counted_with_what_they_assume() -> None:
    found = context(INTERRUPTED, FAST, spot=True, interruptions=RATE)
    assert values(found, "spot_interruptions") == {
        "interruptions": 1.62,
        "low": 0,
        "high": 4,
        "rework_seconds": 600.0,
        "source": "traces of 11 zones",
    }
    assert values(found, "assumed_checkpoints") == {"every_seconds": 840.0}
    assert values(found, "spot_price_age")["factor"] == 1.93


def test_own_checkpoints_and_none_are_distinguished() -> None:
    own = context(INTERRUPTED, interruptions=RATE, profile=make_profile(checkpoint_seconds=(2.0,)))
    assert "own_checkpoints" in codes(own)
    none = context(replace(INTERRUPTED, checkpoint_every_seconds=None), interruptions=RATE)
    assert "no_checkpoints" in codes(none)


def test_an_estimate_without_a_bill_has_no_charges() -> None:
    assert codes(context(), "charges") == []


# assumptions


def test_iterations_are_converted_to_epochs() -> None:
    found = context(planned_iterations=10_000, iterations_per_epoch=400)
    assert values(found, "iterations_planned") == {"iterations": 10_000, "epochs": 25.0}


def test_a_batch_larger_than_the_data_set_is_mentioned() -> None:
    large = make_profile(samples=50, micro_batch_size=64)
    assert values(context(profile=large), "batch_larger_than_data_set") == {"batch_size": 64, "samples": 50}


def test_missing_measurements_and_left_out_offers_are_mentioned() -> None:
    assumed = reason("assumptions", "epochs_assumed", {"epochs": "N"}, epochs=10)
    found = context(
        profile=make_profile(validation_seconds=()), epochs=(assumed,), incompatible_offers=9, old_marketplace_offers=4
    )
    assert assumed in reasons(found)
    assert {"validation_not_measured", "memory_unknown"} <= set(codes(found))
    assert values(found, "incompatible_offers") == {"offers": 9}
    assert values(found, "old_marketplace_offers") == {"offers": 4}
    assert codes(found)[-1] == "price_seen"


def test_the_last_of_the_offers_that_were_left_out_for_a_refusal_is_named() -> None:
    fact = make_fact(kind="launch refused", attempt=1, candidate=make_candidate(), refusal="quota", seen_at=NOON)
    found = values(context(refusals=(fact, fact), now=NOON + timedelta(hours=3)), "refused_offers")
    assert (found["machine"], found["region"], found["cause"]) == ("g4dn.xlarge", "us-east-1", "quota")
    assert (found["seconds"], found["others"]) == (3 * 3600.0, 1)


def test_several_gpus_and_idle_gpus_are_mentioned() -> None:
    big = make_offer(vm_type=make_vm_type(name="big", gpus=4))
    eight = replace(CHEAP, candidate=make_candidate(offer=big, nodes=2))
    assert values(context(eight, FAST), "limited_by")["gpus"] == 8
    assert values(context(eight, FAST), "several_gpus_assumed") == {"gpus": 8}
    several = make_profile(world_size=2)
    assert "several_gpus_assumed" not in codes(context(eight, FAST, profile=several))
    one = replace(CHEAP, candidate=make_candidate(offer=big))
    assert values(context(one, FAST), "idle_gpus") == {"used": 1, "available": 4}


def test_compared_batch_sizes_come_with_their_epochs() -> None:
    larger = replace(FAST, candidate=replace(FAST.candidate, batch_size=256))
    same = context(CHEAP, larger)
    assert values(same, "same_epochs_at_batch_sizes") == {"batch_size": 64, "batch_sizes": (64, 256)}
    different = context(CHEAP, replace(larger, epochs=14))
    assert values(different, "epochs_by_batch_size") == {
        "batch_size": 64,
        "batch_sizes": (64, 256),
        "epochs": (10, 14),
    }
    predicted = reason("assumptions", "epochs_at_batch_size", batch_size=64)
    assert "same_epochs_at_batch_sizes" not in codes(context(CHEAP, larger, epochs=(predicted,)))


def test_a_plan_with_everything_to_mention_has_about_a_dozen_reasons() -> None:
    found = context(
        CHEAP,
        MIDDLE,
        FAST,
        goal=Goal(kind="cheapest", deadline_seconds=9000.0),
        front=FRONT,
        knee=knee(FRONT),
        baseline=FAST,
        delta=1.5,
        probe=Reason(topic="certainty", code="probes_would_decide"),
        epochs=(reason("assumptions", "epochs_assumed", epochs=10),),
        incompatible_offers=12,
    )
    assert 10 <= len(reasons(found)) <= 17


def test_a_time_scaled_from_another_cpu_names_both() -> None:
    cpu = next(iter(load_cpus().values()))
    rented = make_vm_type(name="c", gpu=None, gpus=0, vcpus=8, cpu=cpu)
    scaled = replace(CHEAP, basis="scaled", candidate=make_candidate(offer=make_offer(vm_type=rented)))
    taken = make_profile(host=Host(name="laptop", cpu="Xeon", cores=4, physical_cores=2))
    found = values(context(scaled, profile=taken), "basis_scaled_from_cpu")
    assert (found["from_cpu"], found["from_cores"], found["to_cpu"], found["vcpus"]) == ("Xeon", 2, cpu.name, 8)


def test_a_busy_profile_and_a_wait_for_data_are_named() -> None:
    waiting = replace(CHEAP, limited_by="data")
    found = context(waiting, profile=make_profile(cpu_queue_share=0.4, loader_workers=2))
    assert values(found, "busy_profile")["share"] == 0.4
    assert values(found, "busy_profile")["idle_here_seconds"] is None
    assert values(found, "data_wait_uncertain")["workers"] == 2


def test_a_rental_is_not_compared_with_a_busy_machine_alone() -> None:
    """The time here is with the other work, the time of a rented machine without it."""
    busy = make_profile(cpu_queue_share=0.8, threads=2)
    found = context(FAST, profile=busy, here=CHEAP, here_idle_factor=0.04)
    assert values(found, "busy_profile")["idle_here_seconds"] == pytest.approx(CHEAP.seconds.value * 0.04)


def test_that_no_gpu_could_be_compared_is_said() -> None:
    """A profile on a CPU without operations says nothing about GPUs: the cheapest CPU is not the best of all."""
    rented = make_vm_type(name="c", gpu=None, gpus=0, vcpus=8)
    without = replace(CHEAP, basis="scaled", candidate=make_candidate(offer=make_offer(vm_type=rented)))
    untraced, traced = make_profile(device="cpu", operations=()), make_profile(device="cpu")
    assert values(context(without, profile=untraced), "gpus_unknown") == {"profile": untraced.id}
    assert values(context(without, profile=untraced), "basis_scaled_from_cpu")["by_operations"] is False
    assert values(context(without, profile=untraced), "limited_by")["gpus"] == 0
    for other in (context(without, profile=traced), context(without, FAST, profile=untraced)):
        assert "gpus_unknown" not in [each.code for each in reasons(other)]
