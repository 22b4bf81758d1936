"""Where a run on spot goes on, by price, losses, refusals, deadline and budget."""

import itertools
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_checkpoint, make_estimate, make_fact, make_offer, make_run
from trainfare.estimator.spot.switching import DECIDE_EVERY_SECONDS
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Market
from trainfare.model.run import Fact, Run, RunLimits
from trainfare.runner.life import Life
from trainfare.runner.progress import RunProgress
from trainfare.runner.recovery import (
    LEAVING_SECONDS,
    RETRY_SECONDS,
    Onward,
    Situation,
    SpotRecord,
    losses_per_hour,
    onward,
    spot_records,
)

HOUR = 3600.0
START, WORK, ITERATIONS = 300.0, 10 * HOUR, 36_000
SAVING = 2.0
"""What the checkpoint of `make_checkpoint` costs."""


def estimate_in(region: str, market: Market, usd_per_hour: float, *, interruptions: float = 2.0) -> Estimate:
    offer = make_offer(region=region, market=market, usd_per_hour=usd_per_hour)
    phases = (
        Phase(name="boot", seconds=Interval.exactly(START)),
        Phase(name="steady iterations", seconds=Interval.exactly(WORK)),
    )
    return make_estimate(
        candidate=make_candidate(offer=offer),
        phases=phases,
        seconds=Interval.exactly(START + WORK),
        usd=Interval.exactly((START + WORK) / HOUR * usd_per_hour),
        interruptions=Interval.exactly(interruptions) if market == "spot" else None,
        checkpoint_every_seconds=900.0,
        iterations=ITERATIONS,
    )


CHEAP, OTHER = estimate_in("a", "spot", 1.0), estimate_in("b", "spot", 1.1)
STEADY = estimate_in("c", "on_demand", 3.0)
RUN = make_run(candidate=CHEAP.candidate, estimate=CHEAP, resume_flag="--resume {}")
DONE = make_checkpoint(iteration=18_000)
"""Half of the work is saved."""
LOST = Life(attempt=1, starts=1, candidate=CHEAP.candidate, started_at=NOON, interrupted=True, checkpoint=DONE)


def due_in(hours: float) -> Run:
    return replace(RUN, limits=RunLimits(deadline=NOON + timedelta(hours=hours)))


def situation(*others: Estimate, **changes: Any) -> Situation:
    fields: dict[str, Any] = {"now": NOON, "spent_usd": 1.0, "progress": None, "records": {}}
    return Situation(**(fields | {"others": others or (OTHER, STEADY)} | changes))


def refused(estimate: Estimate, *, minutes: float = 1, cause: Any = "capacity") -> Fact:
    moment = NOON - timedelta(minutes=minutes)
    return make_fact(kind="launch refused", attempt=2, candidate=estimate.candidate, refusal=cause, seen_at=moment)


def chosen(run: Run, life: Life, now: Situation) -> str | None:
    """The region that it goes on in; None if it waits."""
    found = onward(run, life, now)
    assert found is not None
    return found.candidate.offer.region if found.candidate else None


def at_iteration(iterations: int, seconds: float = 1.0) -> RunProgress:
    return RunProgress(
        iterations=iterations,
        total_iterations=ITERATIONS,
        seconds=0.0,
        iteration_seconds=Interval.exactly(seconds),
        remaining_seconds=Interval.exactly((ITERATIONS - iterations) * seconds),
        loss=None,
        is_measured=True,
    )


def test_after_a_loss_the_cheapest_offer_is_asked_for_its_observed_losses_included() -> None:
    assert chosen(RUN, LOST, situation()) == "a"
    lossy = {CHEAP.candidate.offer.key: SpotRecord(losses=8, hours=4.0)}
    assert chosen(RUN, LOST, situation(records=lossy)) == "b", "10% dearer, and far fewer losses"
    everywhere = {each.candidate.offer.key: SpotRecord(losses=120, hours=4.0) for each in (CHEAP, OTHER)}
    assert chosen(RUN, LOST, situation(records=everywhere)) == "c", "on demand is cheaper than being lost all the time"


def test_losses_that_were_seen_weigh_more_the_more_there_are() -> None:
    predicted = losses_per_hour(CHEAP, SpotRecord())
    assert predicted == pytest.approx(2.0 / ((START + WORK) / HOUR))
    assert predicted < losses_per_hour(CHEAP, SpotRecord(1, 1.0)) < losses_per_hour(CHEAP, SpotRecord(10, 10.0)) < 1.0
    assert losses_per_hour(CHEAP, SpotRecord(0, 20.0)) < predicted


def test_an_offer_without_capacity_is_left_alone_for_a_while_and_a_quota_for_a_day() -> None:
    assert chosen(RUN, replace(LOST, refusals=(refused(CHEAP),)), situation()) == "b"
    later = RETRY_SECONDS / 60 + 1
    assert chosen(RUN, replace(LOST, refusals=(refused(CHEAP, minutes=later),)), situation()) == "a"
    assert chosen(RUN, replace(LOST, refusals=(refused(CHEAP, minutes=later, cause="quota"),)), situation()) == "b"
    assert chosen(RUN, LOST, situation(refusals=(refused(CHEAP),))) == "b", "another run was refused"


def test_without_a_spot_machine_it_waits_as_long_as_the_deadline_allows_and_says_so() -> None:
    life = replace(LOST, refusals=(refused(CHEAP), refused(OTHER)))
    found = onward(due_in(8), life, situation())
    assert found is not None
    assert (found.candidate, found.must_leave, found.gives_up) == (None, False, False)
    # Five hours of work, a start, the checkpoint and the time to leave before 20:00.
    assert found.text == (
        "No spot machine can be had now: it is asked for again every 10 min until 14:53 UTC, then it goes on on "
        "aws/g4dn.xlarge in c on demand ($3.00 an hour)."
    )


@pytest.mark.parametrize(("minutes_of_slack", "region"), [(5, "a"), (0.5, "c"), (-60, "c")])
def test_when_the_time_left_is_just_enough_it_goes_on_on_demand(minutes_of_slack: float, region: str) -> None:
    needed = START + SAVING + LEAVING_SECONDS + WORK / 2 + 60 * minutes_of_slack
    run = due_in(needed / HOUR)
    assert chosen(run, LOST, situation()) == region
    found = onward(run, LOST, situation())
    assert found is not None
    assert found.must_leave == (region == "c")
    assert ("leaves no time for spot" in found.text) == (region == "c")


def test_the_deadline_of_the_plan_counts_too_and_does_not_end_the_run() -> None:
    planned = replace(RUN, due=NOON + timedelta(hours=5))
    assert chosen(planned, LOST, situation()) == "c"
    assert chosen(planned, LOST, situation(now=NOON + timedelta(hours=6))) == "c", "late, and it goes on"
    over = onward(due_in(5), LOST, situation(now=NOON + timedelta(hours=6)))
    assert over is not None
    assert over.gives_up


def test_the_uncertainty_of_the_rest_is_kept_in_reserve() -> None:
    unsure = replace(STEADY, phases=(STEADY.phases[0], Phase(name="steady iterations", seconds=wide(WORK))))
    run = due_in((START + SAVING + LEAVING_SECONDS + WORK / 2 + 900) / HOUR)
    assert chosen(run, LOST, situation(OTHER, STEADY)) == "a"
    assert chosen(run, LOST, situation(OTHER, unsure)) == "c"


def wide(value: float) -> Interval:
    return Interval(value=value, low=value / 1.3, high=value * 1.3)


def test_a_spot_machine_is_left_in_time_for_the_work_that_is_not_saved_too() -> None:
    training = replace(LOST, state="training", interrupted=False)
    halfway = situation(progress=at_iteration(19_800))  # half an hour is not at home
    left = WORK * (1 - 19_800 / ITERATIONS)
    needed = START + SAVING + LEAVING_SECONDS + left + 1800.0
    assert onward(due_in((needed + 120) / HOUR), training, halfway) is None
    found = onward(due_in((needed + 30) / HOUR), training, halfway)
    assert found is not None
    assert (found.must_leave, found.candidate) == (True, STEADY.candidate)
    assert "is near" in found.text


def test_where_iterations_are_not_counted_the_time_of_the_program_counts() -> None:
    training = replace(LOST, state="training", interrupted=False, checkpoint=None)
    half = situation(now=NOON + timedelta(hours=5))
    needed = 60.0 + START + LEAVING_SECONDS + WORK / 2 + 5 * HOUR  # nothing is at home
    assert onward(due_in(5 + (needed + 120) / HOUR), training, half) is None
    found = onward(due_in(5 + (needed + 30) / HOUR), training, half)
    assert found is not None
    assert found.must_leave


def test_a_spot_machine_that_alone_can_still_be_in_time_is_kept() -> None:
    training = replace(LOST, state="training", interrupted=False)
    nearly = situation(progress=at_iteration(35_900))
    assert onward(due_in(150 / HOUR), training, nearly) is None, "100 s are left; a start takes longer"


def test_a_run_on_demand_stays_there_and_one_that_was_never_on_spot_is_left_alone() -> None:
    moved = replace(LOST, state="training", candidate=STEADY.candidate, interrupted=False)
    assert onward(due_in(5), moved, situation(progress=at_iteration(20_000))) is None
    never = make_run(candidate=STEADY.candidate, estimate=STEADY)
    assert onward(never, LOST, situation()) is None
    assert onward(replace(RUN, estimate=replace(CHEAP, iterations=None)), LOST, situation()) is None
    assert onward(RUN, replace(LOST, stop_reason="user"), situation()) is None


def test_a_program_that_is_slower_than_predicted_needs_to_leave_earlier() -> None:
    run = due_in((START + SAVING + LEAVING_SECONDS + 1.5 * WORK / 2 + 30) / HOUR)
    assert chosen(run, LOST, situation(progress=at_iteration(20_000))) == "a"
    assert chosen(run, LOST, situation(progress=at_iteration(20_000, seconds=1.5))) == "c"


def test_without_a_deadline_it_waits_for_a_day_and_pays_for_on_demand_only_what_was_agreed_to() -> None:
    life = replace(LOST, refusals=(refused(CHEAP), refused(OTHER)), refused_since=NOON - timedelta(minutes=1))
    assert chosen(RUN, life, situation()) is None
    dear = replace(CHEAP, usd=Interval(value=10.0, low=10.0, high=20.0))
    generous = make_run(candidate=dear.candidate, estimate=dear, resume_flag="--resume {}")
    assert chosen(generous, life, situation()) == "c", "the rest costs $15 there, and up to $20 were agreed to"
    found = onward(RUN, replace(life, refused_since=NOON - timedelta(days=2)), situation())
    assert found is not None
    assert found.gives_up


def test_a_budget_that_does_not_pay_for_on_demand_keeps_it_on_spot() -> None:
    late = replace(due_in(5), limits=RunLimits(deadline=NOON + timedelta(hours=5), budget_usd=10.0))
    assert chosen(late, LOST, situation()) == "a", "on demand would cost $15 of $9"
    empty = replace(late, limits=RunLimits(budget_usd=1.02))
    found = onward(empty, LOST, situation())
    assert found is not None
    assert found.gives_up
    assert found.text == "What is left of its budget, $0.020, does not pay for another start."


def test_losses_and_hours_are_counted_by_offer() -> None:
    def at(minutes: float) -> datetime:
        return NOON + timedelta(minutes=minutes)

    facts = [
        make_fact(number=0, candidate=CHEAP.candidate),
        make_fact(number=1, kind="machines ready", seen_at=at(10)),
        make_fact(number=2, kind="machines lost", seen_at=at(70), reclaimed=True),
        make_fact(number=3, candidate=STEADY.candidate, attempt=2),
        make_fact(number=4, kind="machines ready", seen_at=at(80)),
        make_fact(number=5, kind="program ended", seen_at=at(90)),
        make_fact(number=6, candidate=CHEAP.candidate, attempt=3),
        make_fact(number=7, kind="machines ready", seen_at=at(100)),
        make_fact(number=8, kind="program ended", seen_at=at(130)),
    ]
    assert spot_records(facts) == {CHEAP.candidate.offer.key: SpotRecord(losses=1, hours=1.5)}


@given(
    hours=st.floats(0.1, 30.0),
    done=st.integers(0, ITERATIONS),
    spent=st.floats(0.0, 40.0),
    budget=st.none() | st.floats(0.5, 60.0),
    gone=st.lists(st.sampled_from([CHEAP, OTHER]), unique=True),
)
def test_a_deadline_that_on_demand_can_meet_is_never_given_away(
    hours: float, done: int, spent: float, budget: float | None, gone: list[Estimate]
) -> None:
    """Whatever it does on spot or by waiting, on demand from the next decision on would still be in time, unless the
    budget does not pay for that or it is too late already. It never plans to spend more than is left."""
    life = replace(LOST, checkpoint=make_checkpoint(iteration=done), refusals=tuple(map(refused, gone)))
    limits = RunLimits(deadline=NOON + timedelta(hours=hours), budget_usd=budget)
    found = onward(replace(RUN, limits=limits), life, situation(spent_usd=spent))
    assert isinstance(found, Onward)
    left = WORK * (1 - done / ITERATIONS)
    usd = (START + SAVING + left) / HOUR * 3.0
    can_pay = budget is None or usd <= budget - spent
    needed = START + SAVING + LEAVING_SECONDS + left
    is_steady = found.candidate == STEADY.candidate
    if can_pay and not is_steady and not found.gives_up:
        assert hours * HOUR >= needed + DECIDE_EVERY_SECONDS - 1e-6
    if is_steady:
        assert can_pay


def test_the_choice_is_the_least_of_all_expected_costs() -> None:
    """Against every combination of a few losses and prices, by a formula written again."""
    for first, second, price in itertools.product((0, 3, 12), (0, 3, 12), (1.0, 1.3, 2.0)):
        other = estimate_in("b", "spot", price)
        records = {
            CHEAP.candidate.offer.key: SpotRecord(first, 6.0),
            other.candidate.offer.key: SpotRecord(second, 6.0),
        }
        costs = {
            "a": expected_usd(1.0, losses_per_hour(CHEAP, records[CHEAP.candidate.offer.key])),
            "b": expected_usd(price, losses_per_hour(other, records[other.candidate.offer.key])),
            "c": expected_usd(3.0, 0.0),
        }
        assert chosen(RUN, LOST, situation(other, STEADY, records=records)) == min(costs, key=lambda r: costs[r])


def expected_usd(price: float, per_hour: float) -> float:
    """Simulated in the mean: each piece of 15 minutes is done again, with a start, until it is not interrupted."""
    import math

    rate, piece, pieces = per_hour / HOUR, 900.0, round(WORK / 2 / 900.0)
    start = START + SAVING

    def until_undisturbed(seconds: float) -> float:
        return (math.exp(rate * seconds) - 1) / rate if rate else seconds

    again = math.exp(rate * start)
    return price / HOUR * (until_undisturbed(start) + again * pieces * until_undisturbed(piece))
