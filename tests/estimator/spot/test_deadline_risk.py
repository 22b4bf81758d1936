"""The deadline risk and the cost of changing to on demand, compared with trainings on simulated markets."""

from dataclasses import replace
from functools import cache
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.spot_policies import Policy, greedy, guarded, spot_only
from benchmarks.spot_replay import Zone, run
from tests.makers import make_candidate, make_estimate, make_offer
from tests.spot_makers import HOUR, make_availability, make_training, make_zone
from trainfare.estimator.spot.deadline_risk import (
    cheapest_actions,
    fallback_outcome,
    late_probability,
    probability_above,
    spot_only_outcome,
    spot_risk,
    work_quantiles,
)
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Market
from trainfare.model.plan import Goal
from trainfare.model.spot import Availability, SpotMarket, SpotTraining

GOOD = make_availability()
BAD = make_availability(zone="us-east-1c", lost_per_hour=(1.4, 0.8, 0.3, 0.15), return_per_hour=(1.2, 0.6, 0.3, 0.25))
TRAINING = make_training()
TIGHT = make_training(work_seconds=6 * HOUR, deadline_seconds=7 * HOUR, start_seconds=600.0)


@cache
def market(availability: Availability) -> Zone:
    return make_zone(availability, seed=3, slots=300_000)


def ran(training: SpotTraining, policy: Policy, availability: Availability) -> list[tuple[float, float, bool]]:
    zone = market(availability)
    return [run(training, policy, zone, begin) for begin in range(0, len(zone.seen) - 12_000, 1200)]


@pytest.mark.parametrize("availability", [GOOD, BAD], ids=["good", "bad"])
@pytest.mark.parametrize("training", [TRAINING, TIGHT], ids=["long", "tight"])
def test_spot_only_outcome_agrees_with_simulated_markets(training: SpotTraining, availability: Availability) -> None:
    runs = ran(training, spot_only, availability)
    predicted = spot_only_outcome(training, availability)
    assert predicted.late == pytest.approx(
        fmean(seconds > training.deadline_seconds for _, seconds, _ in runs), abs=0.06
    )
    assert predicted.usd == pytest.approx(fmean(usd for usd, _, _ in runs), rel=0.03)
    assert predicted.seconds == pytest.approx(fmean(seconds for _, seconds, _ in runs), rel=0.08)


@pytest.mark.parametrize("availability", [GOOD, BAD], ids=["good", "bad"])
@pytest.mark.parametrize("training", [TRAINING, TIGHT], ids=["long", "tight"])
def test_fallback_outcome_agrees_with_simulated_markets(training: SpotTraining, availability: Availability) -> None:
    runs = ran(training, greedy(training), availability)
    predicted = fallback_outcome(training, availability)
    assert predicted.usd == pytest.approx(fmean(usd for usd, _, _ in runs), rel=0.05)
    assert predicted.fallback == pytest.approx(fmean(used for _, _, used in runs), abs=0.06)
    assert all(seconds <= training.deadline_seconds for _, seconds, _ in runs)


def test_cheapest_actions_are_cheaper_than_greedy_and_their_cost_is_predicted() -> None:
    table = cheapest_actions(TIGHT, BAD)
    ours = ran(TIGHT, guarded(TIGHT, table.cheapest), BAD)
    assert all(seconds <= TIGHT.deadline_seconds for _, seconds, _ in ours)
    paid = fmean(usd for usd, _, _ in ours)
    assert paid < fmean(usd for usd, _, _ in ran(TIGHT, greedy(TIGHT), BAD))
    assert table.outcome.usd == pytest.approx(paid, rel=0.05)


def test_finer_slots_hardly_change_the_result() -> None:
    coarse, fine = (fallback_outcome(TRAINING, BAD, slots=slots) for slots in (200, 800))
    assert coarse.usd == pytest.approx(fine.usd, rel=0.02)
    assert late_probability(TRAINING, [BAD], slots=200) == pytest.approx(
        late_probability(TRAINING, [BAD], slots=800), abs=0.02
    )


rates = st.tuples(*(st.floats(0.01, 3),) * 4)


@settings(max_examples=15, deadline=None)
@given(rates, rates, st.floats(1.05, 3), st.floats(0.1, 1.9))
def test_later_deadline_lowers_the_risk_and_more_work_raises_it(
    lost: tuple[float, ...], back: tuple[float, ...], room: float, more: float
) -> None:
    market = [make_availability(lost_per_hour=lost, return_per_hour=back)]
    training = make_training(deadline_seconds=room * 12.1 * HOUR)
    late = late_probability(training, market, slots=100)
    longer = replace(training, deadline_seconds=(1 + more) * training.deadline_seconds)
    harder = replace(training, work_seconds=(1 + more) * training.work_seconds)
    assert 0 <= late_probability(longer, market, slots=100) <= late + 0.02
    assert late - 0.02 <= late_probability(harder, market, slots=100) <= 1


@settings(max_examples=15, deadline=None)
@given(rates, rates, st.floats(1.05, 3))
def test_best_rule_costs_at_most_greedy_and_at_most_on_demand(
    lost: tuple[float, ...], back: tuple[float, ...], room: float
) -> None:
    availability = make_availability(lost_per_hour=lost, return_per_hour=back)
    training = make_training(deadline_seconds=room * 12.1 * HOUR)
    best = cheapest_actions(training, availability, slots=100).outcome
    greedy_outcome = fallback_outcome(training, availability, slots=100)
    on_demand_usd = 3.0 * (training.work_seconds + training.start_seconds) / HOUR
    assert best.usd <= greedy_outcome.usd + 1e-9
    assert training.work_seconds / HOUR <= best.usd <= on_demand_usd + 1e-6


def test_machine_that_is_never_lost_is_in_time_and_an_impossible_deadline_is_missed() -> None:
    always = make_availability(lost_per_hour=(0.0,) * 4, return_per_hour=(1e6,) * 4)
    assert always.share == 1.0
    assert late_probability(TRAINING, [always]) == pytest.approx(0, abs=1e-3)
    assert late_probability(make_training(deadline_seconds=11 * HOUR), [always]) == 1.0


def test_distant_deadline_is_met_on_spot_at_the_price_of_spot() -> None:
    training = make_training(work_seconds=HOUR, deadline_seconds=2000 * HOUR, start_seconds=60.0)
    spot_alone = spot_only_outcome(training, GOOD, slots=150)
    with_fallback = cheapest_actions(training, GOOD, slots=150).outcome
    assert spot_alone.late == pytest.approx(0, abs=1e-3)
    assert with_fallback.fallback == pytest.approx(0, abs=1e-3)
    assert spot_alone.usd == pytest.approx(1.1, rel=0.15)
    assert with_fallback.usd <= spot_alone.usd * 1.001


def test_zones_are_averaged_by_weight() -> None:
    good, bad = (late_probability(TRAINING, [each]) for each in (GOOD, BAD))
    both = late_probability(TRAINING, [replace(GOOD, weight=3.0), BAD])
    assert good < both < bad
    assert both == pytest.approx((3 * good + bad) / 4)


def test_uncertain_work_raises_the_risk() -> None:
    roomy = make_training(deadline_seconds=20 * HOUR)
    exact = late_probability(roomy, [GOOD])
    assert late_probability(roomy, [GOOD], work=Interval.within_factor(12 * HOUR, 2)) > exact
    points = work_quantiles(Interval.within_factor(100.0, 2))
    assert points[4] == pytest.approx(100.0)
    assert list(points) == sorted(points)


def test_probability_above_the_ends_of_an_interval_follows_its_confidence() -> None:
    interval = Interval(value=100.0, low=80.0, high=150.0)
    assert probability_above(interval, 150.0) == pytest.approx(0.05, abs=1e-9)
    assert probability_above(interval, 80.0) == pytest.approx(0.95, abs=1e-9)
    assert probability_above(interval, 100.0) == pytest.approx(0.5)
    assert (probability_above(Interval.exactly(5.0), 4.0), probability_above(Interval.exactly(5.0), 5.0)) == (1.0, 0.0)


def estimated(market: Market, usd_per_hour: float, *, factor: float = 1.1) -> Estimate:
    phases = [
        Phase(name="boot", seconds=Interval.within_factor(300.0, 2)),
        Phase(name="steady iterations", seconds=Interval.within_factor(12 * HOUR, factor)),
    ]
    if market == "spot":
        phases.append(Phase(name="spot rework", seconds=Interval.within_factor(HOUR, 2)))
    seconds = Interval.within_factor(sum(phase.seconds.value for phase in phases), factor)
    return make_estimate(
        candidate=make_candidate(offer=make_offer(market=market, usd_per_hour=usd_per_hour)),
        phases=tuple(phases),
        seconds=seconds,
        usd=seconds * (usd_per_hour / HOUR),
        checkpoint_every_seconds=900.0 if market == "spot" else None,
    )


MARKET = SpotMarket(zones=(GOOD, BAD), pooled=GOOD, source="two zones")


def test_risk_of_an_estimate_on_spot_with_and_without_fallback() -> None:
    goal = Goal(deadline_seconds=18 * HOUR)
    risk = spot_risk(estimated("spot", 1.0), estimated("on_demand", 3.0), goal, MARKET)
    assert 0.1 < risk.spot_only.late < 0.9
    assert risk.with_fallback.late < 0.01
    assert risk.spot_only.usd < risk.with_fallback.usd < risk.on_demand.usd
    # 18 h minus a start of 5 min minus 12 h · 1.1^0.779128 = 12 h · 1.0770855, the work that 90% confidence requires
    assert risk.fallback_at_seconds == pytest.approx(18 * HOUR - 300 - 12 * 1.0770855 * HOUR, abs=0.1)
    assert risk.spot_only.seconds > 14 * HOUR


def test_training_without_slack_begins_on_demand() -> None:
    goal = Goal(deadline_seconds=13 * HOUR)
    risk = spot_risk(estimated("spot", 1.0), estimated("on_demand", 3.0), goal, MARKET)
    assert risk.fallback_at_seconds == 0
    assert (risk.with_fallback.usd, risk.with_fallback.fallback) == (risk.on_demand.usd, 1.0)
    higher_confidence = spot_risk(
        estimated("spot", 1.0), estimated("on_demand", 3.0), Goal(deadline_seconds=15 * HOUR, confidence=0.99), MARKET
    )
    assert 0 < higher_confidence.fallback_at_seconds < 15 * HOUR - 300 - 13.2 * HOUR


def test_goal_without_a_deadline_is_refused() -> None:
    with pytest.raises(ValueError, match="deadline"):
        spot_risk(estimated("spot", 1.0), estimated("on_demand", 3.0), Goal(), MARKET)
