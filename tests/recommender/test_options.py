"""Options are rows of a table: what is chosen among thousands is what would be chosen among objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_profile
from tests.recommender.test_choose import CHEAPEST, FASTEST, estimate, some_estimates, weighted
from trainfare.catalog.terms import find_interruptions, find_terms
from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.estimate import CandidateEstimator, Totals, TrainingWork
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.estimate import Estimate
from trainfare.model.machine import Host
from trainfare.model.plan import Goal
from trainfare.recommender.choose import best_of, best_per_machine, in_order
from trainfare.recommender.limits import within_limits
from trainfare.recommender.options import Options, as_options
from trainfare.recommender.pareto import front

goals = st.sampled_from([CHEAPEST, FASTEST, weighted(0.3), Goal(deadline_seconds=1e4, budget_usd=9.0, confidence=0.8)])


@pytest.fixture(scope="module")
def totals() -> Options[Totals]:
    """The totals of one measured machine at several prices, on demand and on spot."""
    profile = make_profile(host=Host(name="there", vm_type="aws/g4dn.xlarge", gpu="Tesla T4", gpus=1), device="cuda")
    candidates = [
        make_candidate(offer=make_offer(market=market, region=region, usd_per_hour=usd))
        for market, region, usd in (
            ("on_demand", "us-east-1", 0.5),
            ("on_demand", "eu-west-1", 0.4),
            ("spot", "us-east-1", 0.2),
            ("spot", "eu-west-1", 0.3),
            ("on_demand", "eu-north-1", 0.4),
        )
    ]
    charges = Charges(terms=find_terms, interruptions=lambda offer: find_interruptions(offer.vm_type, offer.region))
    work = TrainingWork(iterations_per_epoch=2300.0, epochs=40)
    return Options.all_of(CandidateEstimator(StepTimePredictor([profile]), charges).table(candidates, lambda _: work))


@given(goal=goals, confidence=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_rows_are_chosen_like_their_objects(totals: Options[Totals], goal: Goal, confidence: float) -> None:
    objects = tuple(totals)
    assert in_order(totals, goal) == in_order(objects, goal)
    assert best_of(totals, goal) == best_of(objects, goal)
    assert within_limits(totals, goal) == within_limits(objects, goal)
    assert best_per_machine(totals) == best_per_machine(objects)
    assert front(totals) == front(objects)
    for quantity in ("seconds", "usd"):
        bounds = [getattr(each, quantity).upper_bound(confidence) for each in objects]
        assert totals.upper_bounds(quantity, confidence).tolist() == bounds


def test_an_item_is_read_from_its_row(totals: Options[Totals]) -> None:
    cheapest = in_order(totals, CHEAPEST)[0]
    assert cheapest.usd.value == totals.usd.min()
    assert cheapest.interruptions is not None
    assert (cheapest.epochs, cheapest.fits) == (40, None)
    assert totals.matching(cheapest.candidate) == (cheapest,)


@given(some_estimates, st.data())
def test_parts_are_put_together_in_the_order_given(estimates: list[Estimate], data: st.DataObject) -> None:
    given_options = as_options(estimates)
    mask = data.draw(st.lists(st.booleans(), min_size=len(estimates), max_size=len(estimates)))
    some = given_options.where(mask)
    others = given_options.without(some)
    assert some == [e for e, wanted in zip(estimates, mask, strict=True) if wanted]
    assert others == [e for e, wanted in zip(estimates, mask, strict=True) if not wanted]
    assert given_options.among(others) == others
    assert some.followed_by(others) == (*some, *others)
    assert given_options[1:] == estimates[1:]


def test_rows_of_another_table_are_refused() -> None:
    one, other = as_options([estimate("a")]), as_options([estimate("a")])
    with pytest.raises(ValueError, match="another table"):
        one.without(other)
