"""What is believed of a machine, by which profiles there are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import make_profile, make_vm_type, shipped_coefficients
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.machine import Gpu, Host, VmType
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


def believed(
    *profiles: Profile, on: VmType, batch: int | None = 64, nodes: int = 1, gpus: int = 1, calibrated: bool = True
) -> StepTimePrediction | None:
    coefficients = shipped_coefficients() if calibrated else None
    predictor = StepTimePredictor(
        profiles, gpu_called=GPUS.get, calibration=coefficients, cores_of={"local/half": 0.5}.get
    )
    return predictor.predict(on, nodes=nodes, gpus=gpus, batch_size=batch)


def seconds(*profiles: Profile, on: VmType, **asked: object) -> float:
    found = believed(*profiles, on=on, **asked)  # type: ignore[arg-type] # options by name
    assert found is not None
    return found.times.later.value


def test_measured_there_at_that_batch_is_taken_as_it_is() -> None:
    found = believed(on_gpu(), on=machine())
    assert found is not None
    assert found.basis == "measured"
    assert found.times.later.value == pytest.approx(0.1)


def test_without_coefficients_only_what_was_measured_is_believed() -> None:
    assert believed(on_gpu(), on=machine(), calibrated=False) is not None
    assert believed(on_gpu(), on=machine("V100"), calibrated=False) is None


def test_measured_there_at_another_batch_is_scaled_between_no_change_and_proportion() -> None:
    found = believed(on_gpu(), on=machine(), batch=128)
    assert found is not None
    assert found.basis == "scaled"
    assert 0.1 < found.times.later.value < 0.2
    assert "at batch size 64" in found.iteration.leans_on[0]


def test_two_batch_sizes_measured_there_give_the_ones_between() -> None:
    both = on_gpu(seconds=0.1, batch=64), on_gpu(seconds=0.3, batch=256)
    assert seconds(*both, on=machine(), batch=160) == pytest.approx(0.2, rel=0.1)


def test_a_time_on_another_gpu_is_moved_nearly_in_proportion() -> None:
    slow, fast = (seconds(on_gpu(seconds=each), on=machine("V100")) for each in (0.2, 0.1))
    assert 1.7 * fast < slow <= 2 * fast
    assert seconds(on_gpu(), on=machine("V100")) < 0.1 < seconds(on_gpu(), on=machine("K80"))


def test_every_gpu_that_was_measured_tells_of_another_one() -> None:
    gains_much, gains_little = (believed(on_gpu(), on_gpu("V100", t), on=machine("A100")) for t in (0.03, 0.06))
    assert gains_much is not None
    assert gains_little is not None
    assert gains_much.times.later.value < gains_little.times.later.value
    assert "pt464 on T4, pv10064 on V100" in gains_much.iteration.leans_on[0]


def test_a_gpu_that_was_measured_in_another_machine_tells_of_itself_alone() -> None:
    elsewhere = machine("T4", name="another")
    assert seconds(on_gpu("T4", 0.1), on_gpu("V100", 0.01), on=elsewhere) == pytest.approx(0.1)


def test_of_several_batches_on_a_gpu_the_nearest_is_moved() -> None:
    found = believed(on_gpu(seconds=0.1, batch=32), on_gpu(seconds=0.3, batch=256), on=machine("V100"), batch=128)
    assert found is not None
    assert found.iteration.profile.micro_batch_size == 256


def test_a_profile_of_a_cpu_never_anchors_the_speed_of_a_gpu() -> None:
    quick, slow = (make_profile(operations=operations(), iteration_seconds=(1.0, *[t] * 4)) for t in (0.01, 9.0))
    assert seconds(quick, on=machine()) == seconds(slow, on=machine())
    found = believed(quick, on=machine())
    assert found is not None
    assert found.basis == "extrapolated"


def test_a_gpu_that_was_measured_is_surer_than_one_that_was_not() -> None:
    known, unknown = (believed(make_profile(operations=operations()), on=machine(g)) for g in ("RTX 3090", "K40"))
    assert known is not None
    assert unknown is not None
    assert known.times.later.high / known.times.later.low < unknown.times.later.high / unknown.times.later.low


def test_waiting_for_data_grows_with_the_batch_and_not_with_the_gpu() -> None:
    def wait(gpu: str, batch: int) -> float:
        profile = make_profile(operations=operations(), data_wait_seconds=(0.0, *[0.05] * 4))
        found = believed(profile, on=machine(gpu), batch=batch)
        assert found is not None
        return next(part.seconds for part in found.iteration.parts if part.name == "waiting for data")

    assert wait("T4", 64) == wait("H100", 64) == pytest.approx(0.05)
    assert wait("T4", 128) == pytest.approx(0.1)


def test_a_past_run_without_operations_is_moved_by_what_other_programs_gain() -> None:
    found = believed(on_gpu(operations=()), on=machine("V100"))
    assert found is not None
    assert found.basis == "scaled"
    assert "other programs" in found.iteration.leans_on[0]
    assert found.times.later.value < 0.1


def test_a_past_run_without_operations_on_a_cpu_says_nothing_of_a_gpu() -> None:
    assert believed(make_profile(operations=()), on=machine()) is None


def test_operators_that_were_timed_are_moved_one_by_one_where_that_is_surer() -> None:
    timed = {"aten::mm": 0.08, "aten::relu": 0.015}
    found = believed(on_gpu("K80", operations=(), operator_seconds=timed), on=machine("V100"))
    assert found is not None
    assert "each operator" in found.iteration.leans_on[0]


def test_several_gpus_share_the_batch_and_add_up_their_gradients() -> None:
    found = believed(on_gpu("V100"), on=machine("V100", 8), batch=64, gpus=8)
    assert found is not None
    assert found.basis == "scaled"
    assert any(part.limited_by == "network" for part in found.iteration.parts)
    alone = seconds(on_gpu("V100"), on=machine("V100", 8), batch=8)
    assert found.times.later.value > alone


def test_a_batch_smaller_than_the_number_of_gpus_cannot_be_shared() -> None:
    assert believed(on_gpu("V100"), on=machine("V100", 8), batch=4, gpus=8) is None


def test_measured_on_as_many_gpus_is_measured() -> None:
    profile = on_gpu("V100", world_size=4, batch=16)
    found = believed(profile, on=machine("V100", 4), batch=64, gpus=4)
    assert found is not None
    assert found.basis == "measured"


def test_steps_on_few_gpus_say_what_more_of_them_take() -> None:
    def eight(four_seconds: float) -> StepTimePrediction:
        there = on_gpu("V100", 0.1, 16), on_gpu("V100", four_seconds, 16, id="pfour", world_size=4)
        found = believed(*there, on=machine("V100", 8), batch=128, gpus=8)
        assert found is not None
        return found

    assert eight(0.101).times.later.value < eight(0.15).times.later.value
    assert "it took itself on fewer" in eight(0.15).iteration.leans_on[-1]


def test_steps_on_one_node_tell_a_part_of_what_several_take() -> None:
    def two_nodes(four_seconds: float) -> StepTimePrediction:
        there = on_gpu("V100", 0.1, 16), on_gpu("V100", four_seconds, 16, id="pfour", world_size=4)
        found = believed(*there, on=machine("V100", 4), batch=128, gpus=4, nodes=2)
        assert found is not None
        return found

    assert two_nodes(0.101).times.later.value < two_nodes(0.15).times.later.value
    assert "half of what it took itself on one node" in two_nodes(0.15).iteration.leans_on[-1]


def test_a_slice_of_the_same_machine_is_scaled_by_its_cores() -> None:
    whole = make_profile(host=Host(name="h", cpu="c", cores=2), cpu_use=1.9, device="cpu")
    half = VmType(provider="local", name="half", gpu=None, gpus=0, vcpus=0.5, memory_gib=None)
    found = believed(whole, on=half)
    assert found is not None
    assert found.basis == "scaled"
    assert found.times.later.value > 0.2


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(GPUS)), st.sampled_from([8, 32, 64, 100, 512]), st.integers(1, 3), st.integers(1, 8))
def test_every_belief_is_a_time_within_its_interval(name: str, batch: int, nodes: int, gpus: int) -> None:
    found = believed(on_gpu(), on=machine(name, 8), batch=batch, nodes=nodes, gpus=gpus)
    if batch < nodes * gpus:
        assert found is None
        return
    assert found is not None
    later = found.times.later
    assert 0 < later.low <= later.value <= later.high


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(GPUS)), st.integers(4, 9))
def test_a_larger_batch_never_takes_less_time(name: str, power: int) -> None:
    small, large = (
        seconds(make_profile(operations=operations()), on=machine(name), batch=2**p) for p in (power, power + 1)
    )
    assert small <= large * 1.02


def test_facts_of_a_gpu_are_asked_for_by_the_name_its_driver_gives() -> None:
    asked: list[str] = []

    def called(name: str) -> Gpu | None:
        asked.append(name)
        return GPUS["T4"]

    profile = on_gpu(host=Host(name="h", gpu="Tesla T4", gpus=1))
    predictor = StepTimePredictor([profile], gpu_called=called, calibration=shipped_coefficients())
    assert predictor.predict(machine("V100"), batch_size=64) is not None
    assert set(asked) == {"Tesla T4"}


def test_other_frameworks_are_less_sure_than_the_one_whose_kernels_were_measured() -> None:
    ours, theirs = (
        believed(make_profile(operations=operations(), framework=framework), on=machine("A100"))
        for framework in ("pytorch", "jax")
    )
    assert ours is not None
    assert theirs is not None
    assert theirs.times.later.value == ours.times.later.value
    assert theirs.times.later.high > ours.times.later.high
    assert "may fuse them" in theirs.iteration.leans_on[-1]
