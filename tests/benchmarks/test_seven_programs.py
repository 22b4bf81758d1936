"""The networks of the seven programs are as large as their authors say; the file that ships is what they trace to."""

import math

import msgspec
import pytest

from benchmarks.accuracy.unseen_gpu import by_times
from benchmarks.accuracy.unseen_gpu.by_times import ByOperations, PhysicsFits
from benchmarks.traced.seven_programs import BATCHES, traced
from trainfare.estimator.gpu.physics import PhysicsFit, StepSeconds
from trainfare.measurements.seven_models import TracedProgram, traced_programs
from trainfare.model.interval import Interval
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation

PARAMETERS = {
    "ResNet-18": 11.17e6,
    "ResNet-50": 25.56e6,
    "Transformer": 44.1e6 + 2 * 3000 * 512,
    "LM": 2 * 33278 * 200 + 33278 + 2 * 4 * 200 * (200 + 200 + 2),
    "Recommendation": 2 * 20108 * 200 + 20108 + 200,
    "CycleGAN": 2 * 11.38e6 + 2 * 2.76e6,
}


def flops(operations: tuple[Operation, ...]) -> float:
    return math.fsum(operation.flops * operation.count for operation in operations)


def test_every_program_and_batch_of_the_table_is_there() -> None:
    assert set(traced_programs()) == {(name, float(batch)) for name, batches in BATCHES.items() for batch in batches}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_network_is_as_large_as_its_authors_say(name: str) -> None:
    found = traced_programs()[name, float(BATCHES[name][0])]
    assert found.gradient_bytes / 4 == pytest.approx(PARAMETERS[name], rel=0.005)


@pytest.mark.parametrize(("name", "giga_multiply_adds"), [("ResNet-18", 0.556), ("ResNet-50", 4.09)])
def test_backward_costs_twice_the_forward_pass(name: str, giga_multiply_adds: float) -> None:
    """Except for the gradient of the images, which is not computed."""
    batch = BATCHES[name][0]
    forward = 2e9 * giga_multiply_adds * batch
    assert 2.9 * forward < flops(traced_programs()[name, float(batch)].operations) <= 3.0 * forward * 1.005


@pytest.mark.parametrize("name", ["ResNet-18", "LM", "Recommendation"])
def test_work_grows_with_the_batch_and_launches_do_not(name: str) -> None:
    small, large = (traced_programs()[name, float(batch)] for batch in (BATCHES[name][0], BATCHES[name][-1]))
    grown = large.batch_size / small.batch_size
    assert flops(large.operations) == pytest.approx(grown * flops(small.operations), rel=1e-6)
    launches = [sum(operation.count for operation in one.operations) for one in (small, large)]
    assert launches[0] == launches[1]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["LM", "A3C"])
def test_the_file_is_what_the_networks_trace_to(name: str) -> None:
    batch = BATCHES[name][0]
    assert msgspec.convert(traced(name, batch), TracedProgram) == traced_programs()[name, float(batch)]


# Moved by operations, in the benchmark


def row(program: str, gpu: str, *, seconds: float = 1.0, operations: tuple[Operation, ...] = ()) -> MeasuredIteration:
    return MeasuredIteration(
        source="made up", program=program, family=program, gpu=gpu, dtype="float32", batch_size=16, seconds=seconds,
        operations=operations,
    )  # fmt: skip


def test_neither_the_gpu_nor_the_programs_asked_for_are_in_what_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[tuple[str, str]]] = []

    def fitted(rows: list[MeasuredIteration], _gpus: object) -> PhysicsFit:
        seen.append([(row.program, row.gpu) for row in rows])
        return PhysicsFit(coefficients={}, launches={}, launch_seconds=1e-5)

    monkeypatch.setattr(by_times, "fit_physics", fitted)
    table = [row(program, gpu) for program in ("resnet50", "vgg16") for gpu in ("A100", "Titan V")]
    physics = PhysicsFits(table, [row("ResNet-50", "V100")])
    assert physics.without(["V100"]) is physics.without(["P100"])
    assert physics.without(["Titan V"]) is not None
    assert physics.without(["Titan V", "A100"]) is None
    assert seen == [[("vgg16", "A100"), ("vgg16", "Titan V")], [("vgg16", "A100")]]


def test_without_operations_times_alone_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = PhysicsFit(coefficients={}, launches={}, launch_seconds=1e-5)
    moving = ByOperations(fit, [by_times.GPUS[name] for name in ("K80", "V100")])
    times, there = Interval.within_factor(0.5, 1.5), row("LM", "V100")
    assert moving.with_times(there, "V100", [row("LM", "K80")], times) == times


def test_with_operations_the_answer_leaves_that_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    step = StepSeconds(
        seconds=0.2, classes=(), device_seconds=0.2, host_seconds=0.0, limited_by="compute", unfamiliar=0.0
    )
    fit = PhysicsFit(coefficients={}, launches={}, launch_seconds=1e-5)
    moving = ByOperations(fit, [by_times.GPUS[name] for name in ("K80", "V100")])
    monkeypatch.setattr(moving._model, "seconds", lambda _: (step, step))
    operations = (Operation(kind="matmul", dtype="float32", flops=1e9, bytes=1e6),)
    here, there = (row("LM", name, seconds=0.2, operations=operations) for name in ("K80", "V100"))
    found = moving.with_times(there, "V100", [here], Interval.within_factor(0.05, 1.5))
    assert 0.05 < found.value < 0.2
