"""Properties of every bill: its lines, its total and its intervals."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_profile, make_vm_type, shipped_coefficients
from trainfare.estimator.cost.bill import SETUP_SECONDS, Charges
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Billing, Interruptions, Overheads, Terms
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Market

AWS = Terms(
    provider="aws",
    billing=Billing(increment_seconds=1.0, minimum_seconds=60.0),
    boot_seconds=Interval.within_factor(90.0, 2.5),
    disk_usd_per_gib_month=0.08,
    egress_usd_per_gib=0.09,
    free_egress_gib=100.0,
)
NONE = Overheads(boot_seconds=0, setup_seconds=0, disk_gib=0, results_gib=0)


def estimate(
    *,
    terms: Terms = AWS,
    overheads: Overheads | None = None,
    market: Market = "on_demand",
    per_hour: float = 0.3,
    nodes: int = 1,
    price: float = 0.526,
    epochs: int = 10,
    epochs_interval: Interval | None = None,
    iterations_per_epoch: float = 23,
    **changes: Any,
) -> Estimate:
    profile = make_profile(host=Host(name="h", vm_type="aws/g4dn.xlarge"), **changes)
    offer = make_offer(market=market, usd_per_hour=price)
    rate = Interruptions(per_hour=Interval.within_factor(per_hour, 2), source="a test")
    (found,) = estimate_all(
        StepTimePredictor([profile], calibration=shipped_coefficients()),
        [make_candidate(offer=offer, nodes=nodes)],
        iterations_per_epoch=iterations_per_epoch,
        epochs=epochs,
        epochs_interval=epochs_interval,
        charges=Charges(terms=lambda _: terms, interruptions=lambda _: rate, overheads=overheads or Overheads()),
    )
    return found


def lines(found: Estimate) -> dict[str, float]:
    assert found.bill is not None
    return {line.name: line.usd.value for line in found.bill.lines}


def seconds(found: Estimate) -> dict[str, float]:
    return {phase.name: phase.seconds.value for phase in found.phases}


def test_bill_has_a_line_for_every_phase_and_every_other_charge() -> None:
    found = estimate(overheads=Overheads(results_gib=200), init_seconds=2.5)
    assert list(lines(found)) == [*seconds(found), "rounding", "storage", "egress"]
    assert list(seconds(found)) == [
        "boot", "setup", "initialisation", "first iteration", "steady iterations", "validation"
    ]  # fmt: skip


def test_line_explains_its_calculation() -> None:
    found = estimate()
    assert found.bill is not None
    how = {line.name: line.how for line in found.bill.lines}
    assert how["steady iterations"] == "0.1 s × (23 × 10 − 1) = 23 s; × $0.526/h = $0.0033"
    assert how["boot"].startswith("1 min 30 s (36 s to 3 min 45 s) on aws, an assumption")
    assert how["storage"].startswith("100 GiB × $0.080 per GiB and month, for 4 min 58 s of 730 h")


markets = st.sampled_from(["on_demand", "spot", "reserved"])
rules = st.builds(
    Billing, increment_seconds=st.sampled_from([1.0, 60.0, 3600.0]), minimum_seconds=st.sampled_from([0.0, 60.0, 600.0])
)


@given(
    market=markets,
    rule=rules,
    nodes=st.integers(1, 8),
    price=st.floats(0.01, 100),
    epochs=st.integers(1, 500),
    iteration=st.floats(1e-3, 5),
    per_hour=st.floats(0.001, 2),
    results=st.floats(0, 500),
)
def test_cost_is_price_times_billed_time_times_nodes_plus_storage_and_egress(
    market: Market,
    rule: Billing,
    nodes: int,
    price: float,
    epochs: int,
    iteration: float,
    per_hour: float,
    results: float,
) -> None:
    found = estimate(
        market=market,
        terms=replace(AWS, billing=rule),
        nodes=nodes,
        price=price,
        epochs=epochs,
        per_hour=per_hour,
        overheads=Overheads(results_gib=results),
        iteration_seconds=(1.0, *[iteration] * 4),
    )
    bill = found.bill
    assert bill is not None
    charged = price / 3600 * nodes * bill.billed_seconds
    others = lines(found).get("storage", 0) + lines(found).get("egress", 0)
    assert found.usd.value == pytest.approx(charged + others)
    assert bill.billed_seconds >= found.seconds.value
    assert sum(lines(found).values()) == pytest.approx(found.usd.value)
    for interval in (found.seconds, found.usd, *(phase.seconds for phase in found.phases)):
        assert interval.low <= interval.value <= interval.high
    for end in ("low", "high"):
        billed = rule.billed_seconds(getattr(found.seconds, end))
        assert getattr(found.usd, end) >= price / 3600 * nodes * billed * (1 - 1e-9)


@given(market=markets, fewer=st.integers(1, 400), more=st.integers(0, 400), per_hour=st.floats(0, 1))
def test_time_and_cost_grow_with_epochs(market: Market, fewer: int, more: int, per_hour: float) -> None:
    short, long = (
        estimate(market=market, epochs=epochs, per_hour=per_hour, checkpoint_seconds=(0.01,))
        for epochs in (fewer, fewer + more)
    )
    for part in ("low", "value", "high"):
        assert getattr(short.seconds, part) <= getattr(long.seconds, part) * (1 + 1e-9)
        assert getattr(short.usd, part) <= getattr(long.usd, part) * (1 + 1e-9)


@given(st.integers(1, 300), st.sampled_from([(), (0.5,), (0.5, 0.5)]))
def test_spot_without_interruptions_takes_the_time_of_on_demand(epochs: int, written: tuple[float, ...]) -> None:
    steady, spot = (
        estimate(market=market, per_hour=0.0, epochs=epochs, checkpoint_seconds=written)
        for market in ("on_demand", "spot")
    )
    assert spot.seconds == steady.seconds
    assert spot.usd == steady.usd
    assert spot.interruptions == Interval.exactly(0.0)
    assert steady.interruptions is None


def test_interruptions_cost_time_starts_and_checkpoints() -> None:
    found = estimate(market="spot", per_hour=1.0, epochs=10_000)
    assert found.interruptions is not None
    assert found.interruptions.value == pytest.approx(found.seconds.value / 3600, rel=1e-3)
    assert seconds(found)["spot rework"] > 0.9 * found.interruptions.value * (90 + 180)
    assert seconds(found)["checkpoints"] > 0
    assert found.checkpoint_every_seconds is not None


def test_losing_one_of_several_nodes_stops_all() -> None:
    one, four = (estimate(market="spot", nodes=nodes, epochs=3000) for nodes in (1, 4))
    assert one.interruptions is not None
    assert four.interruptions is not None
    # They share the work, so it ends sooner; the rate is four times as high.
    one_rate, four_rate = (e.interruptions.value / e.seconds.value for e in (one, four) if e.interruptions)
    assert four_rate == pytest.approx(4 * one_rate, rel=0.05)


def test_short_training_pays_for_the_start_and_the_minimum() -> None:
    found = estimate(overheads=NONE, epochs=1, validation_seconds=())
    assert found.bill is not None
    assert found.seconds.value == pytest.approx(2 + 1 + 22 * 0.1)
    assert found.bill.billed_seconds == 60
    assert lines(found)["minimum charge"] == pytest.approx(0.526 / 3600 * (60 - 5.2))
    started = estimate(epochs=1)
    assert seconds(started)["boot"] + seconds(started)["setup"] > 0.9 * started.seconds.value


@pytest.mark.parametrize("over", [1e-9, 1e-6, 3e-4, 0.5, 0.9999])
def test_rounding_is_a_line_however_small_it_is(over: float) -> None:
    found = estimate(overheads=NONE, init_seconds=70 - over, validation_seconds=(), iterations_per_epoch=1, epochs=1)
    assert sum(lines(found).values()) == pytest.approx(found.usd.value, rel=1e-7)


def test_own_machine_has_neither_boot_nor_egress() -> None:
    own = Terms(provider="own", billing=Billing(), boot_seconds=Interval.exactly(0.0))
    found = estimate(terms=own, market="own", overheads=Overheads(boot_seconds=500, results_gib=10))
    assert not {"boot", "setup"} & set(seconds(found))
    assert not {"egress", "storage"} & set(lines(found))


def test_stated_overheads_replace_the_defaults() -> None:
    default, stated = estimate(), estimate(overheads=Overheads(boot_seconds=10, setup_seconds=20, disk_gib=500))
    assert seconds(default)["setup"] == SETUP_SECONDS.value
    assert (seconds(stated)["boot"], seconds(stated)["setup"]) == (10, 20)
    assert lines(stated)["storage"] / stated.seconds.value == pytest.approx(
        5 * lines(default)["storage"] / default.seconds.value, rel=0.05
    )


def test_uploaded_data_takes_time_and_disk() -> None:
    without, with_data = estimate(), estimate(overheads=Overheads(data_gib=100))
    assert seconds(with_data)["setup"] - seconds(without)["setup"] == pytest.approx(1000)
    assert lines(with_data)["storage"] > 2 * lines(without)["storage"]


def test_results_are_a_checkpoint_by_default_and_the_first_gib_are_free() -> None:
    free = estimate(gradient_bytes=2**30, optimizer_bytes=2**31)
    assert free.bill is not None
    egress = next(line for line in free.bill.lines if line.name == "egress")
    assert egress.usd.value == 0
    assert egress.usd.high == pytest.approx(3 * 0.09)
    assert lines(estimate(overheads=Overheads(results_gib=150)))["egress"] == pytest.approx(50 * 0.09)
    assert "egress" not in lines(estimate(gradient_bytes=None, parameters=None))


def test_checkpoints_of_the_program_are_in_the_time() -> None:
    found = estimate(iteration_seconds=(1.0, *[0.1] * 45), loss=(), checkpoint_seconds=(0.5, 0.7), epochs=10)
    assert seconds(found)["checkpoints"] == pytest.approx(10 * 0.6)


def test_fractional_epochs_are_counted_exactly() -> None:
    found = estimate(overheads=NONE, iterations_per_epoch=100 / 5, epochs=5)
    assert seconds(found)["steady iterations"] == pytest.approx(0.1 * 99)
    fractional = estimate(overheads=NONE, iterations_per_epoch=101 / 5, epochs=5)
    assert seconds(fractional)["steady iterations"] == pytest.approx(0.1 * 100)


@pytest.mark.parametrize(
    "changes",
    [
        {"iteration_seconds": (0.01, 0.1, 0.1, 0.1)},
        {"validation_seconds": (0.0, 0.0)},
        {"validation_seconds": ()},
        {"init_seconds": None},
        {"init_seconds": 0.0},
        {"parameters": None, "gradient_bytes": None},
    ],
    ids=["fast first iteration", "zero validation", "no validation", "unknown start", "no start", "unknown size"],
)
@pytest.mark.parametrize("market", ["on_demand", "spot"])
def test_unusual_profiles_have_an_estimate(changes: dict[str, Any], market: Market) -> None:
    found = estimate(market=market, iterations_per_epoch=1, epochs=3, **changes)
    assert 0 < found.seconds.low <= found.seconds.value <= found.seconds.high
    assert 0 < found.usd.low <= found.usd.value <= found.usd.high


def test_repeats_on_the_machine_are_combined() -> None:
    vm_type = make_vm_type(name="g4dn.xlarge")
    host = Host(name="h", vm_type=vm_type.key)
    runs = [
        make_profile(id=f"p{i}", host=host, iteration_seconds=(1.0, *[each] * 9), loss=())
        for i, each in enumerate((0.10, 0.11, 0.12))
    ]
    one, three = (
        estimate_all(StepTimePredictor(known), [make_candidate()], iterations_per_epoch=23, epochs=10)[0]
        for known in (runs[:1], runs)
    )
    assert one.iteration_seconds.value == pytest.approx(0.10)
    assert three.iteration_seconds.value == pytest.approx((0.10 * 0.11 * 0.12) ** (1 / 3))
    assert three.profile_id == "p0"


def test_uncertain_epochs_widen_the_interval_of_interruptions() -> None:
    hour: dict[str, Any] = {"market": "spot", "epochs": 100, "iteration_seconds": (1.0, *[3.0] * 9), "loss": ()}
    exact, found = estimate(**hour), estimate(**hour, epochs_interval=Interval(value=100, low=1, high=400))
    assert exact.interruptions is not None
    assert found.interruptions is not None
    assert found.interruptions.value == exact.interruptions.value
    assert found.interruptions.high > 3 * exact.interruptions.value
    assert found.bill is not None
    assert found.bill.usd == found.usd
    assert found.usd.high > 3 * exact.usd.value
    assert found.usd.low < exact.usd.low
