"""A migration between two machines: its bytes, its time and its cost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_profile, make_vm_type
from trainfare.estimator.cost.checkpoints import checkpoints_of
from trainfare.estimator.cost.migration import MigrationEnd, TransferRates, migration_between
from trainfare.model.bill import Billing, Terms
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.model.split import Migration
from trainfare.units import BYTES_PER_GIB

GIB = BYTES_PER_GIB
PLAIN = make_profile(gradient_bytes=GIB, optimizer_bytes=GIB)


def end(
    provider: str = "aws", region: str = "us-east-1", *, usd_per_hour: float = 3.6, egress: float = 0.09
) -> MigrationEnd:
    vm_type = make_vm_type(provider=provider) if provider != "local" else make_slice()
    offer = make_offer(
        vm_type=vm_type,
        region=region,
        usd_per_hour=usd_per_hour,
        market="own" if provider == "local" else "on_demand",
    )
    terms = Terms(provider=provider, billing=Billing(), boot_seconds=Interval.exactly(60.0), egress_usd_per_gib=egress)
    return MigrationEnd(candidate=make_candidate(offer=offer), terms=terms)


def make_slice() -> VmType:
    return make_vm_type(provider="local", name="half", gpu=None, gpus=0, vcpus=0.5)


def migrate(
    first: MigrationEnd, second: MigrationEnd, profile: Profile = PLAIN, rates: TransferRates | None = None
) -> Migration:
    checkpoints = checkpoints_of(profile, iterations_per_epoch=23)
    return migration_between(first, second, profile=profile, checkpoints=checkpoints, rates=rates or TransferRates())


def test_weights_and_optimiser_state_are_uploaded_and_downloaded() -> None:
    found = migrate(end(), end())
    assert found.bytes is not None
    assert found.bytes.value == 2 * GIB
    assert found.upload.seconds.value == found.download.seconds.value == pytest.approx(20.0)
    assert found.seconds.value == pytest.approx(sum(part.seconds.value for part in found.parts.values()))


def test_each_machine_is_paid_for_its_own_part() -> None:
    """At $3.60 and $36 an hour a second costs $0.001 and $0.01."""
    found = migrate(end(), end(usd_per_hour=36.0))
    first = found.checkpoint.seconds.value + found.upload.seconds.value
    second = found.download.seconds.value + found.restore.seconds.value
    assert found.machine_usd.value == pytest.approx(0.001 * first + 0.01 * second)


@pytest.mark.parametrize(("second", "usd"), [(end(), 0.0), (end("gcp"), 2 * 0.09), (end("aws", "eu-west-1"), 2 * 0.09)])
def test_data_that_leaves_the_region_pays_egress(second: MigrationEnd, usd: float) -> None:
    assert migrate(end(), second).transfer_usd.value == pytest.approx(usd)


def test_free_egress_may_be_used_up() -> None:
    first = end()
    found = migrate(replace(first, terms=replace(first.terms, free_egress_gib=100.0)), end("gcp"))
    assert found.transfer_usd.value == 0
    assert found.transfer_usd.high == pytest.approx(2 * 1.1 * 0.09)


def test_own_checkpoint_of_the_program_is_in_its_segment() -> None:
    own = make_profile(iteration_seconds=(0.1,) * 50, loss=(), checkpoint_seconds=(1.0, 3.0))
    assert migrate(end(), end(), own).checkpoint.basis == "nothing"
    assert migrate(end(), end(), own).checkpoint.seconds.value == 0
    assert migrate(end(), end()).checkpoint.basis == "assumed"
    assert migrate(end(), end()).checkpoint.seconds.value == pytest.approx(2 * GIB / 125e6)


def test_between_slices_of_one_machine_the_file_is_copied_once() -> None:
    found = migrate(end("local"), end("local", "here"))
    assert found.download.basis == "nothing"
    assert found.upload.seconds.value == pytest.approx(2 * GIB / 125e6)
    assert found.transfer_usd.high == 0
    assert found.restore.seconds.value > 0


def test_stated_rate_is_used() -> None:
    found = migrate(end(), end(), rates=TransferRates(upload=2 * GIB, download=GIB))
    assert (found.upload.basis, found.download.basis) == ("stated", "stated")
    assert (found.upload.seconds.value, found.download.seconds.value) == pytest.approx((1.0, 2.0))


def test_unknown_size_has_a_wide_interval() -> None:
    unknown = migrate(end(), end(), make_profile(gradient_bytes=None, parameters=None))
    assert unknown.bytes is None
    assert unknown.seconds.high / unknown.seconds.value > 10


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_larger_model_never_migrates_faster(a: int, b: int) -> None:
    small, large = (
        migrate(end(), end("gcp"), make_profile(gradient_bytes=size, optimizer_bytes=0)) for size in sorted((a, b))
    )
    assert small.seconds.value <= large.seconds.value * (1 + 1e-9)
    assert small.usd.value <= large.usd.value * (1 + 1e-9)
