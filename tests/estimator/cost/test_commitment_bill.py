"""The cost of a run on a reserved machine: its share of the cost of the commitment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_profile, shipped_coefficients
from tests.model.test_commitment import commitments, reserved
from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Billing, Overheads, Terms
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Commitment, Offer

NONE = Overheads(boot_seconds=0, setup_seconds=0, disk_gib=0, results_gib=0)


def estimates(*offers: Offer, nodes: int = 1, epochs: int = 10, rule: Billing | None = None) -> tuple[Estimate, ...]:
    terms = Terms(provider="aws", billing=rule or Billing(), boot_seconds=Interval.exactly(0.0))
    profile = make_profile(host=Host(name="h", vm_type="aws/g4dn.xlarge"))
    return estimate_all(
        StepTimePredictor([profile], calibration=shipped_coefficients()),
        [make_candidate(offer=offer, nodes=nodes) for offer in offers],
        iterations_per_epoch=23,
        epochs=epochs,
        charges=Charges(terms=lambda _: terms, overheads=NONE),
    )


@given(
    commitment=commitments,
    nodes=st.integers(1, 8),
    epochs=st.integers(1, 500),
    rule=st.builds(Billing, increment_seconds=st.sampled_from([1.0, 60.0, 3600.0])),
)
def test_cost_is_the_effective_rate_times_billed_time_times_nodes(
    commitment: Commitment, nodes: int, epochs: int, rule: Billing
) -> None:
    (found,) = estimates(reserved(commitment), nodes=nodes, epochs=epochs, rule=rule)
    assert found.bill is not None
    hours = found.bill.billed_seconds / 3600
    assert found.usd.value == pytest.approx(commitment.effective_usd_per_hour * hours * nodes)
    assert found.usd.low <= found.usd.value <= found.usd.high


@given(commitments, st.booleans())
def test_existing_and_new_commitments_have_the_same_cost(commitment: Commitment, upfront: bool) -> None:
    """A run uses hours that another run could have used."""
    one = Commitment(
        months=commitment.months,
        upfront_usd=commitment.total_usd if upfront else 0.0,
        usd_per_hour=0.0 if upfront else commitment.effective_usd_per_hour,
        held=not commitment.held,
    )
    mine, other = estimates(reserved(commitment), reserved(one))
    assert mine.usd.value == pytest.approx(other.usd.value)
    assert mine.seconds == other.seconds


def test_bill_explains_the_price_of_a_commitment() -> None:
    (found,) = estimates(reserved(Commitment(months=12, upfront_usd=876.0, usd_per_hour=0.3)), nodes=2)
    assert found.bill is not None
    first, second, *_ = (line.how for line in found.bill.lines)
    assert "× 2 nodes × $0.40/h reserved (12 months: $876.00 / 8,760 h + $0.30/h) = " in first
    assert "× 2 nodes × $0.40/h reserved = " in second


@pytest.mark.parametrize(
    ("commitment", "rule"),
    [
        (Commitment(months=1, usd_per_hour=0.3), "(1 month, nothing upfront)"),
        (Commitment(months=36, upfront_usd=26_280.0), "(36 months: $26,280.00 / 26,280 h)"),
    ],
)
def test_unused_payment_is_not_in_the_calculation(commitment: Commitment, rule: str) -> None:
    (found,) = estimates(reserved(commitment))
    assert found.bill is not None
    assert rule in found.bill.lines[0].how


def test_commitments_at_one_price_explain_their_own_terms() -> None:
    year, three = (reserved(Commitment(months=months, usd_per_hour=0.3)) for months in (12, 36))
    rules = [found.bill.lines[0].how for found in estimates(year, three) if found.bill]
    assert ["12 months" in rules[0], "36 months" in rules[1]] == [True, True]


def test_bill_without_a_commitment_does_not_mention_one() -> None:
    (found,) = estimates(make_offer())
    assert found.bill is not None
    assert not any("reserved" in line.how for line in found.bill.lines)
