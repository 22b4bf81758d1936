"""Nouns refuse invalid values."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from random import Random
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import makers
from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_profile, make_vm_type
from tests.strategies import intervals, not_negative
from trainfare.model.estimate import MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.lease import Lease
from trainfare.model.machine import Host
from trainfare.model.profile import EarlyStopping, Epoch, Operation
from trainfare.model.run import RunLimits
from trainfare.model.scope import Quota, Scope

BAD = math.nan, math.inf, -math.inf, -1.0
NAIVE = datetime(2026, 11, 16)  # noqa: DTZ001 # the missing time zone is what is tested


@pytest.mark.parametrize("usd_per_hour", [*BAD, 0.0])
def test_a_price_is_positive(usd_per_hour: float) -> None:
    with pytest.raises(ValueError, match="usd_per_hour"):
        make_offer(usd_per_hour=usd_per_hour)


@pytest.mark.parametrize("usd_per_hour", BAD)
def test_only_a_machine_of_the_user_can_cost_nothing(usd_per_hour: float) -> None:
    assert make_offer(market="own", usd_per_hour=0.0).usd_per_hour == 0
    with pytest.raises(ValueError, match="usd_per_hour"):
        make_offer(market="own", usd_per_hour=usd_per_hour)


def test_an_offer_is_not_rentable_from_the_day_it_retires() -> None:
    offer = make_offer(retired_on=date(2026, 9, 30))
    assert offer.rentable_on(date(2026, 9, 29))
    assert not offer.rentable_on(date(2026, 9, 30))


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (make_gpu, {"memory_gib": 0}),
        (make_gpu, {"fp16_tensor_tflops": math.nan}),
        (make_gpu, {"launch_year": 16}),
        (make_gpu, {"name": " "}),
        (make_vm_type, {"gpu": None}),
        (make_vm_type, {"gpus": 0}),
        (make_vm_type, {"gpus": -1}),
        (make_vm_type, {"vcpus": 0}),
        (make_offer, {"region": ""}),
        (make_offer, {"source": ""}),
        (make_candidate, {"nodes": 0}),
        (make_candidate, {"batch_size": 0}),
        (makers.make_program, {"command": ()}),
        (makers.make_program, {"command": ("",)}),
        (makers.make_program, {"command": ("python", "\udcff.py")}),
        (make_profile, {"id": ""}),
        (make_profile, {"iteration_seconds": ()}),
        (make_profile, {"iteration_seconds": (1.0, 0.0)}),
        (make_profile, {"iteration_seconds": (1.0, math.nan)}),
        (make_profile, {"data_wait_seconds": (0.1,)}),
        (make_profile, {"validation_seconds": (-0.1,)}),
        (make_profile, {"loss": (math.nan,)}),
        (make_profile, {"samples": 0}),
        (make_profile, {"micro_batch_size": 0}),
        (make_profile, {"accumulation_steps": 0}),
        (make_profile, {"world_size": 0}),
        (make_profile, {"curve": (Epoch(number=2), Epoch(number=1))}),
        (make_profile, {"curve": (Epoch(number=1), Epoch(number=1))}),
        (make_profile, {"learning_rate": (math.inf,)}),
        (make_profile, {"checkpoint_seconds": (-1.0,)}),
        (Epoch, {"number": 0}),
        (Epoch, {"number": 1, "metrics": {"accuracy": math.nan}}),
        (EarlyStopping, {"metric": "val_loss", "patience": -1}),
        (make_profile, {"init_seconds": -1}),
        (make_profile, {"measured_at": NAIVE}),
        (make_estimate, {"epochs": 0}),
        (make_estimate, {"epochs_interval": Interval.within_factor(11, 2)}),
        (make_estimate, {"phases": ()}),
        (makers.make_plan, {"reasons": ()}),
        (makers.make_plan, {"runners_up": (make_estimate(),)}),
        (makers.make_plan, {"considered": 1}),
        (makers.make_run, {"plan_id": ""}),
        (makers.make_run, {"made_at": NAIVE}),
        (makers.make_run, {"owner": ""}),
        (makers.make_run, {"candidate": make_candidate(nodes=2), "estimate": make_estimate()}),
        (RunLimits, {"budget_usd": 0.0}),
        (RunLimits, {"longest_seconds": math.nan}),
        (RunLimits, {"deadline": NAIVE}),
        (makers.make_fact, {"number": -1}),
        (makers.make_fact, {"seen_at": NAIVE}),
        (makers.make_fact, {"attempt": 0}),
        (makers.make_fact, {"candidate": None}),
        (makers.make_fact, {"text": "\udcff"}),
        (makers.make_fact, {"kind": "machines seen", "machines": ()}),
        (makers.make_fact, {"kind": "program ended", "exit_code": None}),
        (makers.make_fact, {"kind": "run ended", "outcome": None}),
        (makers.make_fact, {"kind": "stop asked", "stop_reason": None}),
        (makers.make_fact, {"kind": "warned", "text": None}),
        (makers.make_machine, {"attempt": 0}),
        (makers.make_machine, {"expires_at": NAIVE}),
        (makers.make_observation, {"number": 0}),
        (makers.make_observation, {"attempt": 0}),
        (makers.make_observation, {"node": -1}),
        (makers.make_observation, {"at": NAIVE}),
        (makers.make_observation, {"values": {"seconds": math.inf}}),
        (makers.make_observation, {"values": {"seconds": [0.1, math.nan]}}),
        (makers.make_observation, {"values": {"seconds": [0.1, "0.2"]}}),
        (makers.make_observation, {"values": {"ended": True}}),
        (makers.make_observation, {"values": {"losses": {"first": 0}}}),
        (makers.make_observation, {"values": {"path": "\udcff.pt"}}),
        (Lease, {"name": "run/r93", "holder": "", "token": 1, "expires_at": makers.NOON}),
        (Lease, {"name": "run/r93", "holder": "a", "token": 0, "expires_at": makers.NOON}),
        (Lease, {"name": "run/r93", "holder": "a", "token": 1, "expires_at": NAIVE}),
    ],
)
def test_an_invalid_noun_is_refused(make: Callable[..., Any], changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make(**changes)


def test_a_past_run_may_have_no_iteration_times() -> None:
    past = make_profile(origin="keras-csv", iteration_seconds=(), loss=())
    assert past.first_iteration_seconds is None
    assert past.steady_iteration_seconds == ()


@pytest.mark.parametrize(("value", "low", "high"), [(1, 2, 3), (4, 2, 3), (math.nan, 0, 1), (1, 0, math.inf)])
def test_an_interval_contains_its_value(value: float, low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"between|negative|not a number"):
        Interval(value=value, low=low, high=high)


@given(intervals(), intervals(), st.floats(0, 1e6))
def test_sums_and_multiples_of_intervals_contain_their_values(a: Interval, b: Interval, k: float) -> None:
    total, multiple = a + b, a * k
    assert total.low <= total.value <= total.high
    assert multiple.value == a.value * k
    assert (total.low, total.high) == (a.low + b.low, a.high + b.high)


@given(not_negative, st.floats(1, 100))
def test_a_factor_of_one_is_exact_and_a_larger_one_is_wider(value: float, factor: float) -> None:
    assert Interval.within_factor(value, 1) == Interval.exactly(value)
    assert Interval.within_factor(value, factor).high >= Interval.exactly(value).high


@given(intervals(st.floats(1e-3, 1e6)), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_higher_confidence_gives_a_wider_interval(interval: Interval, a: float, b: float) -> None:
    narrow, wide = (interval.at_confidence(confidence) for confidence in sorted((a, b)))
    assert wide.low <= narrow.low * (1 + 1e-9)
    assert narrow.high <= wide.high * (1 + 1e-9)
    back = wide.at_confidence(interval.confidence)
    assert (back.low, back.value, back.high) == pytest.approx((interval.low, interval.value, interval.high), rel=1e-6)


@given(intervals(st.floats(1e-3, 1e6)), st.floats(0.51, 0.99))
def test_a_bound_has_one_side_and_an_interval_has_two(interval: Interval, confidence: float) -> None:
    """10% of the values lie above an 80% interval, so its high end is a bound of 90%."""
    bound = interval.upper_bound(confidence)
    assert bound == pytest.approx(interval.at_confidence(2 * confidence - 1).high, rel=1e-6)
    assert interval.upper_bound((1 + interval.confidence) / 2) == interval.high


@given(intervals(st.just(0.0) | st.floats(1e-6, 1e6)), st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_a_bound_grows_with_its_confidence_from_the_value_on(interval: Interval, a: float, b: float) -> None:
    lower, higher = (interval.upper_bound(confidence) for confidence in sorted((a, b)))
    assert interval.value <= lower <= higher * (1 + 1e-12)
    if max(a, b) <= (1 + interval.confidence) / 2:
        assert higher <= interval.high * (1 + 1e-12)


@given(st.floats(1e-300, 1e300), st.floats(0.01, 0.999))
def test_the_bound_of_an_exact_value_is_the_value(value: float, confidence: float) -> None:
    assert Interval.exactly(value).upper_bound(confidence) == value
    assert Interval.exactly(0.0).upper_bound(confidence) == 0.0


@given(intervals(st.floats(1e-3, 1e6)), st.floats(0.51, 0.99), st.floats(0.1, 10))
def test_a_bound_scales_with_the_interval_and_ignores_its_low_end(
    interval: Interval, confidence: float, factor: float
) -> None:
    bound = interval.upper_bound(confidence)
    assert (interval * factor).upper_bound(confidence) == pytest.approx(factor * bound)
    assert replace(interval, low=0.0).upper_bound(confidence) == bound


def test_up_to_one_half_the_bound_is_the_value() -> None:
    interval = Interval(value=100.0, low=80.0, high=150.0)
    assert [interval.upper_bound(confidence) for confidence in (0.1, 0.5)] == [100.0, 100.0]
    assert interval.upper_bound(0.9) == pytest.approx(100 * 1.5 ** (1.2815516 / 1.6448536), rel=1e-7)


@given(st.floats(0.1, 10), st.floats(1.01, 3), st.floats(0.6, 0.99))
def test_the_share_of_a_log_normal_below_its_bound_is_the_confidence(
    median: float, deviation_factor: float, confidence: float
) -> None:
    """The interval ends 1.645 standard deviations from the median; Φ of the bound's distance is the confidence."""
    deviation = math.log(deviation_factor)
    interval = Interval.within_factor(median, math.exp(1.6448536269514722 * deviation))
    distance = math.log(interval.upper_bound(confidence) / median) / deviation
    assert NormalDist().cdf(distance) == pytest.approx(confidence, abs=1e-9)


@given(st.lists(not_negative, min_size=1, max_size=30), st.randoms())
def test_the_interval_of_a_median_does_not_depend_on_the_order(values: list[float], random: Random) -> None:
    shuffled = random.sample(values, len(values))
    assert Interval.from_median(values) == Interval.from_median(shuffled)
    assert min(values) <= Interval.from_median(values).value <= max(values)


def test_phases_add_up_to_the_total() -> None:
    phase = Phase(name="validation", seconds=Interval.exactly(1))
    with pytest.raises(ValueError, match="add up to 1"):
        make_estimate(phases=(phase,), seconds=Interval.exactly(2))
    with pytest.raises(ValueError, match="only once"):
        make_estimate(phases=(phase, phase), seconds=Interval.exactly(2))


@pytest.mark.parametrize(("available", "verdict"), [(9.0, "fits"), (5.0, "tight"), (1.9, "does not fit")])
def test_memory_is_tight_if_the_interval_contains_the_available_memory(available: float, verdict: str) -> None:
    fit = MemoryFit(needed_gib=Interval(value=4, low=2, high=8), available_gib=available)
    assert fit.verdict == verdict
    assert make_estimate(memory=fit).fits is (verdict != "does not fit")


def test_whether_unknown_memory_fits_is_unknown() -> None:
    assert make_estimate().fits is None


def test_the_effective_batch_size_is_the_product_of_its_factors() -> None:
    profile = make_profile(micro_batch_size=16, accumulation_steps=2, world_size=4)
    assert profile.effective_batch_size == 128
    assert make_profile(micro_batch_size=None, accumulation_steps=2).effective_batch_size is None


@pytest.mark.parametrize(
    ("quota", "nodes"), [("aws/four", 7), ("four", 7), ("T4", 1), ("aws", 1), ("gcp", None), ("V100", None)]
)
def test_a_quota_counts_machines_of_a_type_and_gpus_of_a_model_or_provider(quota: str, nodes: int | None) -> None:
    machine = make_vm_type(name="four", gpus=4)
    assert Quota(name=quota, limit=7).max_nodes(machine) == nodes
    several = Scope(quota=(Quota(name="aws", limit=100), Quota(name=quota, limit=7)))
    assert several.max_nodes(machine) == (25 if nodes is None else nodes)
    with pytest.raises(ValueError, match="negative"):
        Quota(name=quota, limit=-1)


def test_the_vm_type_of_a_host_is_a_key() -> None:
    with pytest.raises(ValueError, match="provider/name"):
        Host(name="h", vm_type="p3.2xlarge")
    assert Host(name="h", vm_type="azure/Standard NC6").vm_type == "azure/Standard NC6"


def test_the_price_of_an_hour_counts_every_node() -> None:
    assert make_candidate(nodes=3).usd_per_hour == pytest.approx(3 * 0.526)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "code/train.py", "--lr", "0.1"), "train.py"),
        (("env", "X=1", "python", "-m", "pkg.train"), "pkg.train"),
        (("bash", "run.sh"), "run.sh"),
        (("/usr/bin/my-trainer",), "my-trainer"),
    ],
)
def test_a_program_is_named_by_its_script_or_module_or_executable(command: tuple[str, ...], name: str) -> None:
    assert makers.make_program(command=command).name == name


def test_half_precision_runs_on_tensor_cores_and_a_missing_dtype_runs_as_float32() -> None:
    gpu = make_gpu(fp16_tensor_tflops=65.0, fp16_tflops=16.2)
    assert gpu.peak_flops_per_second("float16") == 65e12
    assert gpu.peak_flops_per_second("bfloat16") == gpu.peak_flops_per_second("float32") == 8.1e12
    assert make_gpu(fp16_tensor_tflops=None, fp16_tflops=None).peak_flops_per_second("float16") == 8.1e12


@pytest.mark.parametrize("field", ["flops", "bytes"])
@pytest.mark.parametrize("value", BAD)
def test_work_is_never_negative(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Operation(**({"kind": "matmul", "dtype": "float32", "flops": 1.0, "bytes": 1.0} | {field: value}))  # type: ignore[arg-type] # fields by name, of several types
