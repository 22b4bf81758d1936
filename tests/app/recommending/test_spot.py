"""Plans on spot: where their runs may go on, and offers that were refused."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.makers import make_fact, make_profile, make_program, make_run
from trainfare.app.recommending.recommend import Recommendation, recommend
from trainfare.model.lease import run_lease_name
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history
from trainfare.views.reasons import sentence

COMMAND = make_program(command=("python", "train.py", "--batch-size", "64"))
RENTED = Scope(spot=True, gpus=("T4",), providers=("aws",), batch_sizes=(64,))


@pytest.fixture(autouse=True)
def _stored() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400, program=COMMAND))


def refuse(candidate: Candidate, *, hours_ago: float) -> None:
    """A run that was refused for capacity."""
    moment = datetime.now(UTC) - timedelta(hours=hours_ago)
    with open_history(read_settings().store) as history:
        history.runs.add(make_run(id=f"r{hours_ago:g}", plan_id=None, made_at=moment))
        lease = history.leases.take(run_lease_name(f"r{hours_ago:g}"), holder="a test", seconds=60, now=moment)
        fact = make_fact(
            run_id=f"r{hours_ago:g}",
            kind="launch refused",
            attempt=1,
            candidate=candidate,
            refusal="capacity",
            seen_at=moment,
        )
        history.facts.append(fact, lease=lease)


def codes(found: Recommendation) -> list[str]:
    return [reason.code for reason in found.plan.reasons]


def test_a_plan_on_spot_knows_its_machine_in_other_regions_and_on_demand() -> None:
    plan = recommend(epochs=30_000, scope=RENTED).plan
    chosen = plan.chosen.candidate
    assert chosen.offer.market == "spot"
    *spot, steady = (each.candidate for each in plan.spot_fallbacks)
    assert {each.offer.vm_type.key for each in (*spot, steady)} == {chosen.offer.vm_type.key}
    assert {each.shape for each in (*spot, steady)} == {chosen.shape}
    assert [each.offer.market for each in (*spot, steady)] == [*["spot"] * len(spot), "on_demand"]
    regions = [each.offer.region for each in spot]
    assert len({chosen.offer.region, *regions}) == 1 + len(regions)
    assert [each.usd_per_hour for each in spot] == sorted(each.usd_per_hour for each in spot)
    with open_history(read_settings().store) as history:
        assert history.plans.get(plan.id).spot_fallbacks == plan.spot_fallbacks
    steady_scope = Scope(gpus=("T4",), providers=("aws",), batch_sizes=(64,))
    assert recommend(epochs=30_000, scope=steady_scope).plan.spot_fallbacks == ()


def test_an_offer_that_was_refused_is_left_out_for_a_day_and_the_plan_says_so() -> None:
    chosen = recommend(epochs=30_000, scope=RENTED).plan.chosen.candidate
    refuse(chosen, hours_ago=25)
    assert recommend(epochs=30_000, scope=RENTED).plan.chosen.candidate == chosen
    refuse(chosen, hours_ago=3)
    other = recommend(epochs=30_000, scope=RENTED)
    assert other.plan.chosen.candidate.offer.key != chosen.offer.key
    (why,) = [sentence(reason) for reason in other.plan.reasons if reason.code == "refused_offers"]
    assert f"in {chosen.offer.region} is left out: it was refused for capacity 3 h" in why
    named = Scope(spot=True, machines=(chosen.offer.vm_type.key,), batch_sizes=(64,))
    again = recommend(epochs=30_000, scope=named)
    assert again.plan.chosen.candidate.offer.key == chosen.offer.key
    assert "refused_offers" not in codes(again)


def test_the_promise_of_a_plan_is_that_of_the_rule_that_runs_follow() -> None:
    """At the last safe moment it changes to on demand: it is late only where on demand is, and never costs more."""
    risk = recommend(epochs=300_000, scope=RENTED, goal=Goal(deadline_seconds=60 * 3600.0)).plan.spot_risk
    assert risk is not None
    assert risk.with_fallback.late == risk.on_demand.late
    assert risk.spot_only.usd <= risk.with_fallback.usd <= risk.on_demand.usd * 1.1
