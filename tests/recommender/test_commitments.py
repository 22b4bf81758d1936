"""Commitments: those that are held are eligible, those to be bought only if allowed, and both are explained."""

from dataclasses import replace

from tests.makers import make_candidate, make_estimate
from tests.model.test_commitment import reserved
from tests.recommender.explain.test_reasons import CHEAP, FAST, billed, codes, context, find, values
from tests.recommender.test_choose import listed
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Commitment
from trainfare.recommender.choose import best_per_machine, reject_ineligible

BUY = Commitment(months=12, usd_per_hour=0.63, on_demand_usd_per_hour=1.0)
HELD = replace(BUY, held=True)


def committed(commitment: Commitment, usd: float = 0.5) -> Estimate:
    offer = reserved(commitment)
    return billed(make_estimate(candidate=make_candidate(offer=offer), usd=Interval.within_factor(usd, 2)))


def test_a_commitment_to_be_bought_is_eligible_only_if_allowed() -> None:
    held, bought = committed(HELD), committed(BUY)
    every = [held, bought, CHEAP]
    eligible, rejections = reject_ineligible(every, spot=False)
    assert eligible == (held, CHEAP)
    assert listed(rejections) == {"market_not_allowed": (bought,)}
    assert reject_ineligible(every, spot=True)[0] == (held, CHEAP)
    assert reject_ineligible(every, spot=False, reserved=True)[0] == (held, bought, CHEAP)
    assert reject_ineligible(every, spot=True, reserved=False)[0] == (CHEAP,)


def test_held_and_to_be_bought_commitments_are_listed_separately() -> None:
    held, bought, longer = committed(HELD), committed(BUY), committed(replace(BUY, months=36))
    assert best_per_machine([bought, longer, held, CHEAP]) == (bought, held, CHEAP)


def test_a_better_commitment_is_mentioned_with_its_break_even_hours() -> None:
    found = find(context(CHEAP, FAST, estimates=(committed(BUY),)), "commitment_would_be_better")
    assert found is not None
    assert found.arguments == {"reserved": True}
    assert (found.values["usd"], found.values["months"]) == (0.5, 12)
    assert (found.values["break_even_hours"], found.values["on_demand_usd_per_hour"]) == (0.63 * 730, 1.0)
    expensive = context(CHEAP, FAST, estimates=(committed(BUY, 9.0),))
    assert "commitment_would_be_better" not in codes(expensive)


def test_a_chosen_commitment_to_be_bought_has_its_total_and_its_break_even() -> None:
    found = context(committed(BUY), CHEAP, reserved=True)
    assert values(found, "commitment_share") == {
        "months": 12,
        "usd_per_hour": 0.63,
        "total_usd": 0.63 * 8760,
        "training_hours": 1.0,
        "commitment_hours": 8760.0,
    }
    assert values(found, "commitment_break_even")["break_even_hours"] == 0.63 * 730


def test_a_chosen_commitment_that_is_held_has_no_break_even() -> None:
    found = context(committed(HELD), CHEAP)
    assert values(found, "held_commitment") == {"months": 12, "usd_per_hour": 0.63, "total_usd": 0.63 * 8760}
    assert "commitment_break_even" not in codes(found)


def test_a_held_machine_that_is_not_chosen_is_mentioned() -> None:
    held = committed(HELD, 4.0)
    found = values(context(CHEAP, FAST, estimates=(held,)), "held_machine_is_idle")
    assert (found["time_ratio"], found["usd"]) == (1.0, 4.0)
    assert "held_machine_is_idle" not in codes(context(CHEAP, FAST, estimates=(held,), reserved=False))
