"""`[[commitment]]` in machines.toml: the offers that it gives, and the errors of a wrong one."""

from datetime import date
from pathlib import Path

import pytest

from tests.makers import make_gpu, make_offer, make_vm_type
from trainfare.catalog.catalog import load_catalog
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.own_commitments import read_commitments
from trainfare.catalog.own_machines import read_machines
from trainfare.errors import UsageError
from trainfare.model.offer import Commitment, Offer

P4D = make_vm_type(name="p4d.24xlarge", gpu=make_gpu(name="A100"), gpus=8)
OFFERS = (
    make_offer(vm_type=P4D, usd_per_hour=32.0),
    make_offer(vm_type=P4D, usd_per_hour=12.0, market="spot"),
    make_offer(vm_type=P4D, usd_per_hour=40.0, region="eu-west-1"),
    make_offer(usd_per_hour=0.5),
    make_offer(vm_type=make_vm_type(name="p5.48xlarge"), usd_per_hour=98.0, region="us-west-2"),
    make_offer(vm_type=make_vm_type(provider="gcp", name="a2"), usd_per_hour=3.0, region="us-central1"),
    make_offer(vm_type=make_vm_type(provider="azure", name="a2"), usd_per_hour=3.0, region="eastus"),
    make_offer(vm_type=make_vm_type(provider="own", name="bench"), market="own", region="here"),
)

YEAR = 'machine = "aws/p4d.24xlarge"\nregion = "us-east-1"\nmonths = 12\n'


def read(tmp_path: Path, fields: str) -> tuple[Offer, ...]:
    path = tmp_path / "machines.toml"
    path.write_text(f"[[commitment]]\n{fields}\n")
    return read_commitments(path, OFFERS)


def commitment_of(tmp_path: Path, fields: str) -> Commitment:
    (offer,) = read(tmp_path, fields)
    assert offer.commitment is not None
    return offer.commitment


def test_a_commitment_is_an_offer_of_the_reserved_market_at_its_effective_price(tmp_path: Path) -> None:
    more = "upfront_usd = 87_600\nusd_per_hour = 8.5\nalready_paid = true\nseen_on = 2026-11-01"
    (offer,) = read(tmp_path, YEAR + more)
    assert offer.key == ("aws/p4d.24xlarge", "us-east-1", "reserved")
    assert offer.usd_per_hour == pytest.approx(18.5)
    assert offer.commitment == Commitment(
        months=12, upfront_usd=87_600, usd_per_hour=8.5, held=True, on_demand_usd_per_hour=32.0
    )
    assert (offer.vm_type, offer.seen_on, offer.source) == (P4D, date(2026, 11, 1), "your machines.toml")


def test_a_discount_is_off_the_price_on_demand_of_the_region(tmp_path: Path) -> None:
    east, west = (
        commitment_of(tmp_path, YEAR.replace("us-east-1", region) + "discount = 0.25")
        for region in ("us-east-1", "eu-west-1")
    )
    assert (east.usd_per_hour, west.usd_per_hour) == (24.0, 30.0)
    assert not east.held


def test_a_discount_includes_the_upfront_payment(tmp_path: Path) -> None:
    commitment = commitment_of(tmp_path, YEAR + "discount = 0.25\nupfront_usd = 87_600")
    assert commitment.usd_per_hour == pytest.approx(14.0)
    assert commitment.effective_usd_per_hour == pytest.approx(24.0)


def test_all_may_be_paid_upfront(tmp_path: Path) -> None:
    assert commitment_of(tmp_path, YEAR + "upfront_usd = 175_200").effective_usd_per_hour == pytest.approx(20.0)
    rounded = commitment_of(tmp_path, YEAR + "discount = 0.375\nupfront_usd = 175_300")
    assert rounded.usd_per_hour == 0


def test_the_region_may_be_left_out_if_there_is_only_one(tmp_path: Path) -> None:
    (offer,) = read(tmp_path, 'machine = "G4DN.xlarge"\nmonths = 36\nusd_per_hour = 0.2')
    assert (offer.vm_type.key, offer.region) == ("aws/g4dn.xlarge", "us-east-1")


def test_with_a_stated_price_the_region_need_not_list_the_machine(tmp_path: Path) -> None:
    commitment = commitment_of(tmp_path, YEAR.replace("us-east-1", "US-WEST-2") + "usd_per_hour = 20")
    assert commitment.on_demand_usd_per_hour is None


def test_a_commitment_ends_after_its_last_day(tmp_path: Path) -> None:
    (offer,) = read(tmp_path, YEAR + "usd_per_hour = 20\nuntil = 2027-06-30")
    assert offer.rentable_on(date(2027, 6, 30))
    assert not offer.rentable_on(date(2027, 7, 1))


def test_several_commitments_and_machines_can_be_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "machines.toml"
    one = f"[[commitment]]\n{YEAR}usd_per_hour = 20\n"
    path.write_text(f"[bench]\nusd_per_hour = 1\n{one}{one.replace('12', '36')}")
    assert [o.commitment.months for o in read_commitments(path, OFFERS) if o.commitment] == [12, 36]
    offers, _ = read_machines(path, load_gpus())
    assert [offer.vm_type.key for offer in offers] == ["own/bench"]


def test_a_missing_file_and_a_file_without_commitments_give_none(tmp_path: Path) -> None:
    assert read_commitments(tmp_path / "machines.toml", OFFERS) == ()
    (tmp_path / "machines.toml").write_text("[bench]\nusd_per_hour = 1\n")
    assert read_commitments(tmp_path / "machines.toml", OFFERS) == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("months = 12\nusd_per_hour = 1", "machine is missing"),
        ("machine = 3\nmonths = 12", "machine must be text in quotes, got 3"),
        (YEAR.replace("p4d.24", "p4d.48") + "usd_per_hour = 1", "Did you mean aws/p4d.24xlarge?"),
        ('machine = "own/bench"\nmonths = 12\nusd_per_hour = 1', "there is no machine own/bench in the catalog"),
        ('machine = "a2"\nmonths = 12\nusd_per_hour = 1', "write gcp/a2 or azure/a2"),
        (YEAR.replace('region = "us-east-1"\n', "") + "usd_per_hour = 1", "offered in eu-west-1, us-east-1"),
        (YEAR.replace("us-east-1", "us-est-1") + "usd_per_hour = 1", "no region us-est-1. Did you mean us-east-1?"),
        (YEAR.replace("us-east-1", "us-west-2") + "discount = 0.4", "no price on demand in us-west-2 to discount"),
        (YEAR.replace("months = 12", "") + "usd_per_hour = 1", "months is missing"),
        (YEAR.replace("12", "1.5") + "usd_per_hour = 1", "months must be a whole number, got 1.5"),
        (YEAR.replace("12", "0") + "usd_per_hour = 1", "months must be positive, got 0"),
        (YEAR.replace("months", "month") + "usd_per_hour = 1", "no field month. Did you mean months?"),
        (YEAR, "usd_per_hour is missing, or discount"),
        (YEAR + "usd_per_hour = 0", "must cost something"),
        (YEAR + "usd_per_hour = -1", "usd_per_hour must be positive, got -1"),
        (YEAR + "usd_per_hour = 1\ndiscount = 0.3", "leave one of them out"),
        (YEAR + "discount = 37", "as in 0.37 for 37%, got 37"),
        (YEAR + "discount = 0", "discount must be positive, got 0"),
        (YEAR + "discount = 0.4\nupfront_usd = 900_000", "upfront_usd alone is $102.74/h"),
        (YEAR + 'usd_per_hour = 1\nalready_paid = "yes"', "already_paid must be true or false, got 'yes'"),
        (YEAR + 'usd_per_hour = 1\nuntil = "2027-06-30"', "until must be a day without quotes"),
    ],
)
def test_a_mistake_is_reported_with_file_commitment_and_field(tmp_path: Path, fields: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, fields)
    assert message in str(caught.value)
    assert "machines.toml, [[commitment]] 1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[commitment]\nmonths = 12\n", "in double brackets"),
        ("commitment = 3\n", "in double brackets"),
        ("commitment = [3]\n", "in double brackets"),
        (
            "[[commitments]]\nmonths = 12\n",
            r"only \[\[commitment\]\] has double brackets, not \[\[commitments\]\]",
        ),
    ],
)
def test_a_wrong_heading_is_reported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "machines.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_catalog(path, tmp_path / "prices")


def test_commitments_are_not_among_the_offers_of_the_catalog(tmp_path: Path) -> None:
    path = tmp_path / "machines.toml"
    path.write_text(f"[[commitment]]\n{YEAR}discount = 0.4\n")
    catalog = load_catalog(path, tmp_path / "prices")
    (offer,) = catalog.commitments_to("aws/p4d.24xlarge")
    assert offer.commitment is not None
    assert offer.commitment.break_even_hours == pytest.approx(0.6 * 730)
    assert "reserved" not in {each.market for each in catalog.offers}
    assert load_catalog(tmp_path / "none.toml", tmp_path / "prices").commitments == ()
