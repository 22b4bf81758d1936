"""Iterations on machines without GPUs, from a profile on another CPU."""

from dataclasses import replace

import pytest

from tests.makers import make_profile, make_vm_type
from trainfare.catalog.cpu_facts import load_cpus
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.evidence import MeasuredOnOtherCpu
from trainfare.model.machine import Host, VmType
from trainfare.model.profile import Operation, Profile

CPUS = load_cpus()
ICE_LAKE, ZEN = "Xeon Platinum 8375C", "EPYC 9R14"
HOST = Host(name="laptop", cpu=ICE_LAKE, cores=4, physical_cores=2)


def rented(vcpus: float | None = 4, cpu: str | None = ICE_LAKE, name: str = "c") -> VmType:
    return make_vm_type(gpu=None, gpus=0, vcpus=vcpus, cpu=CPUS[cpu] if cpu else None, name=f"{name}{vcpus}{cpu}")


def profiled(**changes: object) -> Profile:
    fields = {"host": HOST, "iteration_seconds": (0.5, *[0.1] * 12), "loss": ()}
    return make_profile(**(fields | changes))


def predicted(*profiles: Profile, on: VmType, batch: int | None = 64) -> PredictedIteration | None:
    predictor = StepTimePredictor(profiles, cpus=CPUS, slice_cores={"local/one": 1.0, "local/half": 0.5})
    found = predictor.predict(on, batch_size=batch)
    return None if found is None else found.iteration


def seconds(*profiles: Profile, on: VmType, batch: int | None = 64) -> float:
    found = predicted(*profiles, on=on, batch=batch)
    assert found is not None
    return found.seconds.value


def test_the_same_cpu_and_cores_take_the_measured_time() -> None:
    assert seconds(profiled(), on=rented()) == pytest.approx(0.1)


def test_more_cores_are_faster_and_less_than_in_proportion() -> None:
    assert 0.1 / 8 < seconds(profiled(), on=rented(32)) < 0.1


def test_prediction_names_its_evidence_and_its_limit() -> None:
    found = predicted(profiled(), on=rented(16, ZEN))
    assert found is not None
    assert (found.basis, found.limited_by) == ("scaled", "compute")
    evidence = found.evidence[0]
    assert isinstance(evidence, MeasuredOnOtherCpu)
    assert (evidence.profile_ids, evidence.cpu, evidence.cores) == (("p7k2",), ICE_LAKE, 2)
    assert (evidence.target_cpu, evidence.target_cores, evidence.by_operations) == (ZEN, 16, True)
    assert found.seconds.high > 1.3 * found.seconds.value


def test_a_profile_on_a_gpu_says_nothing_about_a_cpu() -> None:
    on_gpu = profiled(device="cuda", host=replace(HOST, gpu="T4", gpus=1))
    assert predicted(on_gpu, on=rented()) is None


def test_a_machine_of_unknown_size_is_not_predicted() -> None:
    assert predicted(profiled(), on=rented(None)) is None
    assert predicted(profiled(host=Host(name="laptop")), on=rented()) is None


def test_a_larger_batch_takes_longer() -> None:
    assert seconds(profiled(), on=rented(), batch=128) > 1.3 * seconds(profiled(), on=rented(), batch=64)


def test_another_batch_size_needs_the_operations() -> None:
    untraced = profiled(operations=())
    assert predicted(untraced, on=rented(), batch=128) is None
    found = predicted(untraced, on=rented(16), batch=64)
    assert found is not None
    assert found.seconds.value < 0.1


def test_a_program_without_operations_has_a_wider_interval() -> None:
    traced, untraced = (predicted(profiled(**fields), on=rented(16)) for fields in ({}, {"operations": ()}))
    assert traced is not None
    assert untraced is not None
    assert untraced.seconds.high / untraced.seconds.low > traced.seconds.high / traced.seconds.low


def test_a_program_that_computes_in_one_thread_gains_nothing_from_cores() -> None:
    host = replace(HOST, cores=16, physical_cores=8)
    assert seconds(profiled(host=host, threads=1), on=rented(64)) == pytest.approx(0.1)
    assert seconds(profiled(host=host, threads=8), on=rented(64)) < 0.095


def test_a_busy_host_lowers_the_expected_time_and_is_named() -> None:
    found = predicted(profiled(cpu_queue_share=0.4, threads=2), on=rented())
    assert found is not None
    assert found.seconds.value == pytest.approx(0.1 * 0.6**2)
    assert found.seconds.high >= 0.1
    assert isinstance(found.evidence[0], MeasuredOnOtherCpu)
    assert found.evidence[0].busy_share == 0.4


def test_a_slice_narrows_what_more_cores_gain() -> None:
    half_as_fast = profiled(
        id="one",
        host=replace(HOST, cores=1, physical_cores=1, vm_type="local/one"),
        iteration_seconds=(0.5, *[0.2] * 12),
    )
    alone, both = (predicted(*profiles, on=rented(32)) for profiles in ([profiled()], [profiled(), half_as_fast]))
    assert alone is not None
    assert both is not None
    assert both.seconds.value < alone.seconds.value
    assert isinstance(both.evidence[0], MeasuredOnOtherCpu)
    assert both.evidence[0].profile_ids == ("p7k2", "one")


def test_wait_of_a_loader_without_workers_does_not_shrink_with_cores() -> None:
    waiting = profiled(data_wait_seconds=(0.05,) * 13, loader_workers=0)
    found = predicted(waiting, on=rented(64))
    assert found is not None
    assert found.parts[-1].name == "waiting for data"
    assert found.parts[-1].seconds == pytest.approx(0.05)


def test_slices_at_another_batch_size_are_predicted_from_operations() -> None:
    slice_ = make_vm_type(provider="local", name="one", gpu=None, gpus=0, vcpus=1, memory_gib=None)
    here = profiled(host=replace(HOST, cores=2))
    predictor = StepTimePredictor([here], cpus=CPUS, slice_cores={"local/one": 1.0})
    found = predictor.predict(slice_, batch_size=128)
    assert found is not None
    assert found.times.later == found.iteration.seconds
    assert found.times.later.value > 0.15


def test_times_of_a_training_follow_from_the_iteration() -> None:
    predictor = StepTimePredictor([profiled()], cpus=CPUS)
    found = predictor.predict(rented(8), batch_size=64)
    assert found is not None
    assert found.times.later == found.iteration.seconds
    assert found.times.first.value > found.times.later.value


def test_operations_in_bfloat16_are_slow_without_a_matrix_unit() -> None:
    half = tuple(Operation(kind="matmul", dtype="bfloat16", flops=1e10, bytes=1e6, count=4) for _ in range(1))
    measured = profiled(operations=half, dtype="bfloat16")
    without, with_unit = (seconds(measured, on=rented(4, cpu)) for cpu in (ICE_LAKE, "Xeon Platinum 8488C"))
    assert with_unit < without / 5


def test_without_operations_nobody_knows_what_limits_a_cpu() -> None:
    waiting = profiled(operations=(), data_wait_seconds=(0.001,) * 13, loader_workers=0)
    found = predicted(waiting, on=rented(16, ZEN))
    assert found is not None
    assert (found.limited_by, found.parts) == (None, ())
