"""What is held may be chosen, what is to be bought only when asked for; and both say what they rest on."""

from dataclasses import replace

from tests.makers import make_candidate, make_estimate
from tests.model.test_commitment import reserved
from tests.recommender.explain.test_reasons import CHEAP, FAST, billed, case, said
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Commitment
from trainfare.recommender.choose import best_per_machine, choosable

BUY = Commitment(months=12, usd_per_hour=0.63, on_demand_usd_per_hour=1.0)
HELD = replace(BUY, held=True)


def committed(commitment: Commitment, usd: float = 0.5) -> Estimate:
    offer = reserved(commitment)
    return billed(make_estimate(candidate=make_candidate(offer=offer), usd=Interval.within_factor(usd, 2)))


def test_what_is_to_be_bought_is_chosen_only_when_allowed() -> None:
    held, bought = committed(HELD), committed(BUY)
    assert choosable([held, bought, CHEAP], spot=False) == (held, CHEAP)
    assert choosable([held, bought, CHEAP], spot=True) == (held, CHEAP)
    assert choosable([held, bought, CHEAP], spot=False, reserved=True) == (held, bought, CHEAP)
    assert choosable([held, bought, CHEAP], spot=True, reserved=False) == (CHEAP,)


def test_what_is_held_is_listed_beside_what_would_be_bought() -> None:
    held, bought, longer = committed(HELD), committed(BUY), committed(replace(BUY, months=36))
    assert best_per_machine([bought, longer, held, CHEAP]) == (bought, held, CHEAP)


def test_a_cheaper_commitment_is_mentioned_with_the_hours_above_which_it_pays_off() -> None:
    text = said(case(CHEAP, FAST, estimates=(committed(BUY), CHEAP, FAST)))
    assert "with a commitment of 12 months, aws g4dn.xlarge reserved would cost 0.50 $" in text
    assert "it pays off above 460 hours a month (63 % of the time) against on demand at 1 $/h" in text
    assert "only with --reserved" in text
    assert "--reserved" not in said(case(CHEAP, FAST, estimates=(committed(BUY, 9.0), CHEAP, FAST)))


def test_who_would_have_to_commit_is_told_to_what_and_when_it_pays_off() -> None:
    text = said(case(committed(BUY), CHEAP, reserved=True))
    assert "the cost is at 0.63 $/h, its share of the 5519 $ that 12 months of one machine cost" in text
    assert "this training takes 1.0 of 8760 hours" in text
    assert "a commitment of 12 months pays off above 460 hours a month" in text


def test_a_commitment_that_is_dearer_than_on_demand_never_pays_off() -> None:
    text = said(case(committed(replace(BUY, usd_per_hour=1.2)), CHEAP, reserved=True))
    assert "a commitment of 12 months never pays off against on demand at 1 $/h" in text
    unknown = said(case(committed(replace(BUY, on_demand_usd_per_hour=None)), CHEAP, reserved=True))
    assert "cannot be compared with on demand" in unknown


def test_who_holds_it_is_told_that_the_run_adds_nothing() -> None:
    text = said(case(committed(HELD), CHEAP))
    assert "you hold it for 12 months, paid whether used or not" in text
    assert "the run adds nothing to what you pay" in text
    assert "pays off" not in text


def test_what_is_held_and_not_chosen_is_remembered() -> None:
    held = committed(HELD, 4.0)
    text = said(case(CHEAP, FAST, estimates=(CHEAP, FAST, held)))
    assert "aws g4dn.xlarge (yours) is paid for already: it would take 1 × the time" in text
    assert "its share of what was paid is 4.00 $" in text
    assert "paid for already" not in said(case(CHEAP, FAST, estimates=(CHEAP, FAST, held), reserved=False))
