"""The prediction for a machine, by which profiles there are."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import make_profile, make_vm_type, shipped_coefficients
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predicted_times import MachineShape
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.evidence import (
    GradientSync,
    MeasuredAtOtherBatchSizes,
    MeasuredOnOtherGpus,
    OperatorTimes,
    OtherFramework,
)
from trainfare.model.machine import Host, VmType
from trainfare.model.profile import Operation, Profile

GPUS = load_gpus()


def machine(gpu: str = "T4", gpus: int = 1, **changes: object) -> VmType:
    return make_vm_type(**({"gpu": GPUS[gpu], "gpus": gpus, "name": f"with-{gpu}"} | changes))


def operations(batch: int = 64) -> tuple[Operation, ...]:
    """Products of (batch, 4096) and (4096, 4096), and what goes with them."""
    return (
        Operation(
            kind="matmul",
            dtype="float32",
            flops=2.0 * batch * 4096 * 4096,
            bytes=4.0 * (2 * batch * 4096 + 4096 * 4096),
            count=60,
            name="aten.mm",
            inputs=((batch, 4096), (4096, 4096)),
            outputs=((batch, 4096),),
        ),
        Operation(
            kind="pointwise",
            dtype="float32",
            flops=0,
            bytes=8.0 * batch * 4096,
            count=60,
            name="aten.relu",
            inputs=((batch, 4096),),
            outputs=((batch, 4096),),
        ),
    )


def on_gpu(gpu: str = "T4", seconds: float = 0.1, batch: int = 64, **changes: object) -> Profile:
    fields = {
        "id": f"p{gpu.lower()}{batch}",
        "device": "cuda",
        "host": Host(name="h", gpu=gpu, gpus=1, vm_type=f"aws/with-{gpu}"),
        "iteration_seconds": (1.0, *[seconds] * 9),
        "loss": (),
        "micro_batch_size": batch,
        "operations": operations(batch),
    }
    return make_profile(**(fields | changes))


def predicted(
    *profiles: Profile, on: VmType, batch: int | None = 64, nodes: int = 1, gpus: int = 1, calibrated: bool = True
) -> StepTimePrediction | None:
    predictor = StepTimePredictor(
        profiles,
        gpus=GPUS,
        slice_cores={"local/half": 0.5},
        calibration=shipped_coefficients() if calibrated else None,
    )
    return predictor.predict(on, nodes=nodes, gpus=gpus, batch_size=batch)


def seconds(*profiles: Profile, on: VmType, **asked: object) -> float:
    found = predicted(*profiles, on=on, **asked)  # type: ignore[arg-type] # options by name, of several types
    assert found is not None
    return found.times.later.value


def test_machine_measured_at_the_batch_size_keeps_its_measured_time() -> None:
    found = predicted(on_gpu(), on=machine())
    assert found is not None
    assert found.basis == "measured"
    assert found.times.later.value == pytest.approx(0.1)


def test_without_a_calibration_only_measured_machines_are_predicted() -> None:
    assert predicted(on_gpu(), on=machine(), calibrated=False) is not None
    assert predicted(on_gpu(), on=machine("V100"), calibrated=False) is None


def test_other_batch_size_is_scaled_between_no_change_and_proportion() -> None:
    found = predicted(on_gpu(), on=machine(), batch=128)
    assert found is not None
    assert found.basis == "scaled"
    assert 0.1 < found.times.later.value < 0.2
    assert found.iteration.evidence == (
        MeasuredAtOtherBatchSizes(machine="aws/with-T4", measured_batch_sizes=(64,), batch_size=128),
    )


def test_two_measured_batch_sizes_give_those_between() -> None:
    both = on_gpu(seconds=0.1, batch=64), on_gpu(seconds=0.3, batch=256)
    assert seconds(*both, on=machine(), batch=160) == pytest.approx(0.2, rel=0.1)


def test_time_on_another_gpu_scales_nearly_in_proportion() -> None:
    slow, fast = (seconds(on_gpu(seconds=each), on=machine("V100")) for each in (0.2, 0.1))
    assert 1.7 * fast < slow <= 2 * fast
    assert seconds(on_gpu(), on=machine("V100")) < 0.1 < seconds(on_gpu(), on=machine("K80"))


def test_every_measured_gpu_is_evidence_for_another() -> None:
    large_gain, small_gain = (predicted(on_gpu(), on_gpu("V100", t), on=machine("A100")) for t in (0.03, 0.06))
    assert large_gain is not None
    assert small_gain is not None
    assert large_gain.times.later.value < small_gain.times.later.value
    assert large_gain.iteration.evidence == (
        MeasuredOnOtherGpus(profiles=(("pt464", "T4"), ("pv10064", "V100")), method="operations and other programs"),
    )


def test_gpu_measured_in_another_machine_is_the_only_evidence() -> None:
    elsewhere = machine("T4", name="another")
    assert seconds(on_gpu("T4", 0.1), on_gpu("V100", 0.01), on=elsewhere) == pytest.approx(0.1)


def test_nearest_measured_batch_size_is_scaled() -> None:
    found = predicted(on_gpu(seconds=0.1, batch=32), on_gpu(seconds=0.3, batch=256), on=machine("V100"), batch=128)
    assert found is not None
    assert found.iteration.profile.micro_batch_size == 256


def test_cpu_profile_never_determines_the_speed_of_a_gpu() -> None:
    quick, slow = (make_profile(operations=operations(), iteration_seconds=(1.0, *[t] * 4)) for t in (0.01, 9.0))
    assert seconds(quick, on=machine()) == seconds(slow, on=machine())
    found = predicted(quick, on=machine())
    assert found is not None
    assert found.basis == "extrapolated"


def test_measured_gpu_has_a_narrower_interval() -> None:
    known, unknown = (predicted(make_profile(operations=operations()), on=machine(g)) for g in ("RTX 3090", "K40"))
    assert known is not None
    assert unknown is not None
    assert known.times.later.high / known.times.later.low < unknown.times.later.high / unknown.times.later.low


def test_wait_for_data_grows_with_the_batch_and_not_with_the_gpu() -> None:
    def wait(gpu: str, batch: int) -> float:
        profile = make_profile(operations=operations(), data_wait_seconds=(0.0, *[0.05] * 4))
        found = predicted(profile, on=machine(gpu), batch=batch)
        assert found is not None
        return next(part.seconds for part in found.iteration.parts if part.name == "waiting for data")

    assert wait("T4", 64) == wait("H100", 64) == pytest.approx(0.05)
    assert wait("T4", 128) == pytest.approx(0.1)


def test_run_without_operations_is_scaled_by_other_programs() -> None:
    found = predicted(on_gpu(operations=()), on=machine("V100"))
    assert found is not None
    assert found.basis == "scaled"
    assert found.iteration.evidence == (MeasuredOnOtherGpus(profiles=(("pt464", "T4"),), method="other programs"),)
    assert found.times.later.value < 0.1


def test_cpu_run_without_operations_says_nothing_about_a_gpu() -> None:
    assert predicted(make_profile(operations=()), on=machine()) is None


def test_timed_operators_are_scaled_one_by_one_if_that_is_narrower() -> None:
    timed = {"aten::mm": 0.08, "aten::relu": 0.015}
    found = predicted(on_gpu("K80", operations=(), operator_seconds=timed), on=machine("V100"))
    assert found is not None
    assert found.iteration.evidence == (OperatorTimes(profile_id="pk8064", gpu="K80"),)


def test_several_gpus_share_the_batch_and_synchronise_gradients() -> None:
    found = predicted(on_gpu("V100"), on=machine("V100", 8), batch=64, gpus=8)
    assert found is not None
    assert found.basis == "scaled"
    assert any(part.limited_by == "network" for part in found.iteration.parts)
    alone = seconds(on_gpu("V100"), on=machine("V100", 8), batch=8)
    assert found.times.later.value > alone


def test_batch_smaller_than_the_number_of_gpus_is_not_predicted() -> None:
    assert predicted(on_gpu("V100"), on=machine("V100", 8), batch=4, gpus=8) is None


def test_machine_measured_on_as_many_gpus_is_measured() -> None:
    profile = on_gpu("V100", world_size=4, batch=16)
    found = predicted(profile, on=machine("V100", 4), batch=64, gpus=4)
    assert found is not None
    assert found.basis == "measured"


def test_processes_that_share_a_machine_without_gpus_are_measured_there() -> None:
    host = Host(name="h", vm_type="local/here")
    profile = make_profile(host=host, world_size=2, micro_batch_size=32, iteration_seconds=(1.0, *[0.2] * 9), loss=())
    here = make_vm_type(provider="local", name="here", gpu=None, gpus=0)
    found = predicted(profile, on=here, batch=64)
    assert found is not None
    assert found.basis == "measured"
    assert found.times.later.value == pytest.approx(0.2)


def test_steps_on_few_gpus_are_evidence_for_more() -> None:
    def eight(four_seconds: float) -> StepTimePrediction:
        there = on_gpu("V100", 0.1, 16), on_gpu("V100", four_seconds, 16, id="pfour", world_size=4)
        found = predicted(*there, on=machine("V100", 8), batch=128, gpus=8)
        assert found is not None
        return found

    assert eight(0.101).times.later.value < eight(0.15).times.later.value
    assert eight(0.15).iteration.evidence[-1] == GradientSync(nodes=1, gpus=8, samples_per_gpu=16, own_runs=True)


def test_steps_on_one_node_are_partial_evidence_for_several() -> None:
    def two_nodes(four_seconds: float) -> StepTimePrediction:
        there = on_gpu("V100", 0.1, 16), on_gpu("V100", four_seconds, 16, id="pfour", world_size=4)
        found = predicted(*there, on=machine("V100", 4), batch=128, gpus=4, nodes=2)
        assert found is not None
        return found

    assert two_nodes(0.101).times.later.value < two_nodes(0.15).times.later.value
    assert two_nodes(0.15).iteration.evidence[-1] == GradientSync(nodes=2, gpus=4, samples_per_gpu=16, own_runs=True)


def test_slice_of_the_same_machine_is_scaled_by_its_cores() -> None:
    whole = make_profile(host=Host(name="h", cpu="c", cores=2), cpu_use=1.9, device="cpu")
    half = VmType(provider="local", name="half", gpu=None, gpus=0, vcpus=0.5, memory_gib=None)
    found = predicted(whole, on=half)
    assert found is not None
    assert found.basis == "scaled"
    assert found.times.later.value > 0.2


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(GPUS)), st.sampled_from([8, 32, 64, 100, 512]), st.integers(1, 3), st.integers(1, 8))
def test_every_prediction_lies_within_its_interval(name: str, batch: int, nodes: int, gpus: int) -> None:
    found = predicted(on_gpu(), on=machine(name, 8), batch=batch, nodes=nodes, gpus=gpus)
    if batch < nodes * gpus:
        assert found is None
        return
    assert found is not None
    later = found.times.later
    assert 0 < later.low <= later.value <= later.high


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(GPUS)), st.integers(4, 9))
def test_larger_batch_never_takes_less_time(name: str, power: int) -> None:
    small, large = (
        seconds(make_profile(operations=operations()), on=machine(name), batch=2**p) for p in (power, power + 1)
    )
    assert small <= large * 1.02


def test_gpu_facts_are_found_by_the_device_name_of_the_profile() -> None:
    profile = on_gpu(host=Host(name="h", gpu="Tesla T4", gpus=1))
    known, unknown = (
        StepTimePredictor([profile], gpus=gpus, calibration=shipped_coefficients()).predict(
            machine("V100"), batch_size=64
        )
        for gpus in ({"Tesla T4": GPUS["T4"]}, GPUS)
    )
    assert known is not None
    assert unknown is not None
    assert (known.basis, unknown.basis) == ("scaled", "extrapolated")


def test_equal_questions_get_the_same_prediction() -> None:
    predictor = StepTimePredictor([on_gpu()], gpus=GPUS, calibration=shipped_coefficients())
    first, again, other_machine = (
        predictor.predict(machine("V100", name=name), batch_size=64) for name in ("one", "one", "two")
    )
    assert first is again is other_machine


def test_accumulated_passes_split_the_batch() -> None:
    """A batch of 256 in four passes is predicted as the passes of 64 samples that were profiled."""
    profile = on_gpu(accumulation_steps=4)
    assert profile.effective_batch_size == 256
    found = predicted(profile, on=machine("V100"), batch=256)
    alone = predicted(on_gpu(), on=machine("V100"), batch=64)
    assert found is not None
    assert alone is not None
    assert found.times.later == alone.times.later


def test_other_frameworks_have_wider_intervals() -> None:
    ours, theirs = (
        predicted(make_profile(operations=operations(), framework=framework), on=machine("A100"))
        for framework in ("pytorch", "jax")
    )
    assert ours is not None
    assert theirs is not None
    assert theirs.times.later.value == ours.times.later.value
    assert theirs.times.later.high > ours.times.later.high
    assert theirs.iteration.evidence[-1] == OtherFramework(framework="jax")


def without_operations(**changes: object) -> Profile:
    """A past run on an H100 of which only the times are known."""
    fields: dict[str, Any] = {"dtype": None, "framework": "unknown", "origin": "csv", **changes}
    return on_gpu("H100", 0.9, operations=(), **fields)


def test_log_of_one_gpu_is_scaled_to_every_other_gpu_with_a_wide_interval() -> None:
    predictor = StepTimePredictor([without_operations()], gpus=GPUS, calibration=shipped_coefficients())
    for gpu in ("T4", "A100", "L4", "B200"):
        found = predictor.predict(machine(gpu))
        assert found is not None
        assert found.basis == "scaled"
        seconds = found.iteration.seconds
        assert seconds.high / seconds.low > 2
        (evidence,) = found.iteration.evidence
        assert isinstance(evidence, MeasuredOnOtherGpus)
        assert not evidence.dtype_known


def test_known_dtype_narrows_what_is_scaled_from_times_alone() -> None:
    def width(dtype: str | None) -> float:
        predictor = StepTimePredictor([without_operations(dtype=dtype)], gpus=GPUS, calibration=shipped_coefficients())
        found = predictor.predict(machine("T4"))
        assert found is not None
        return found.iteration.seconds.high / found.iteration.seconds.low

    assert width("float16") < width(None)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["measured", "elsewhere", "traced"]),
    st.sampled_from(["T4", "V100", "A100", "H100"]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 2, 16]),
    st.sampled_from([16, 64, 256]),
    st.sampled_from([(), (0.3,), (0.3, 0.2)]),
)
def test_times_are_those_of_the_whole_prediction(
    known: str, gpu: str, gpus: int, nodes: int, batch_size: int, validations: tuple[float, ...]
) -> None:
    """Thousands of machines are compared by `times`, and the few that are shown are explained by `predict`."""
    profile = {
        "measured": on_gpu("T4", validation_seconds=validations),
        "elsewhere": on_gpu("P100", validation_seconds=validations),
        "traced": make_profile(operations=operations(), validation_seconds=validations),
    }[known]
    target = machine(gpu, gpus, network_gb_per_second=12.5)
    predictor = StepTimePredictor([profile], gpus=GPUS, calibration=shipped_coefficients())
    (fast,) = predictor.times([MachineShape(target, nodes, gpus, batch_size)])
    whole = predictor.predict(target, nodes=nodes, gpus=gpus, batch_size=batch_size)
    if fast is None or whole is None:
        assert (fast, whole) == (None, None)
        return
    assert (fast.profile, fast.basis) == (whole.profile, whole.basis)
    columns, times = predictor.columns([fast]), whole.times
    assert columns.validates.tolist() == [times.first_validation is not None]
    expected = {
        "init": times.init,
        "first": times.first,
        "later": times.later,
        "first_validation": times.first_validation,
        "later_validation": times.later_validation or times.first_validation,
    }
    for name, interval in expected.items():
        for end in ("value", "low", "high"):
            ((found,),) = [getattr(getattr(columns, name), end).tolist()]
            assert found == pytest.approx(0.0 if interval is None else getattr(interval, end), rel=1e-12)


def test_launch_time_belongs_to_the_host_and_not_to_the_gpu() -> None:
    """In the fit, the RTX 3090 stood in the machine with the fastest launches, and a rented one will not."""
    relu = replace(operations()[1], bytes=8.0 * 4096, count=300, inputs=((1, 4096),), outputs=((1, 4096),))
    small = make_profile(operations=(relu,), micro_batch_size=1)
    newest, older = (predicted(small, on=machine(gpu), batch=1) for gpu in ("H100", "RTX 3090"))
    assert newest is not None
    assert older is not None
    assert older.iteration.limited_by == "launches"
    assert older.times.later.value > newest.times.later.value
    assert older.times.later.high / older.times.later.value > 1.3
