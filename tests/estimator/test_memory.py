"""The memory of an iteration by batch size, with and without accumulation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu, make_profile, make_vm_type
from tests.needs import need
from trainfare.estimator.memory import (
    CONTEXT_GIB,
    accumulation,
    largest_batch,
    memory_fit,
    memory_need,
    ways_to_fit,
)
from trainfare.model.machine import Host
from trainfare.model.profile import MemoryMoment, Operation, Profile

GIB = 2**30


def profiled(**changes: Any) -> Profile:
    """64 samples of 1/64 GiB each, and weights of 0.1 GiB with two moments."""
    fields = {
        "activation_bytes": GIB,
        "parameters": 26_843_545,
        "gradient_bytes": GIB // 10,
        "optimizer_bytes": GIB // 5,
    }
    return make_profile(**(fields | changes))


def test_needed_memory_is_the_sum_of_its_parts() -> None:
    need = memory_need(profiled())
    assert need is not None
    parts = need.weights_gib + need.gradients_gib + need.optimizer_gib + need.activations_gib + need.temporary_gib
    assert need.tensors_gib == parts
    assert need.needed_gib.value == pytest.approx(parts + need.context_gib + need.margin_gib)


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    small, large = memory_need(profiled()), memory_need(profiled(), micro_batch_size=256)
    assert small is not None
    assert large is not None
    assert large.activations_gib == pytest.approx(4 * small.activations_gib)
    assert large.weights_gib == small.weights_gib == pytest.approx(0.1)
    assert large.optimizer_gib == small.optimizer_gib


def test_two_profiles_determine_the_fixed_part_of_activations() -> None:
    """A line of 0.5 GiB and 1/128 GiB a sample: at 256 it is 2.5 GiB; in proportion it would be 4."""
    other = profiled(micro_batch_size=192, activation_bytes=2 * GIB)
    need = memory_need(profiled(), micro_batch_size=256, others=[other])
    assert need is not None
    assert need.activations_gib == pytest.approx(2.5)


def test_adam_needs_a_copy_of_the_weights_where_activations_are_small() -> None:
    plain = memory_need(profiled(activation_bytes=0, optimizer_bytes=0))
    adam = memory_need(profiled(activation_bytes=0))
    assert plain is not None
    assert adam is not None
    assert plain.temporary_gib == 0
    assert adam.temporary_gib == pytest.approx(adam.weights_gib)


def test_several_gpus_have_a_second_copy_of_the_gradients() -> None:
    single, one_of_four = memory_need(profiled()), memory_need(profiled(), micro_batch_size=64, gpus=4)
    assert single is not None
    assert one_of_four is not None
    assert one_of_four.micro_batch_size == 64
    assert one_of_four.activations_gib == single.activations_gib
    assert one_of_four.gradients_gib == 2 * single.gradients_gib


def test_several_gpus_divide_the_effective_batch() -> None:
    fit = memory_fit(profiled(), make_vm_type(gpus=4), batch_size=256, gpus=4)
    need = memory_need(profiled(), micro_batch_size=64, gpus=4)
    assert fit is not None
    assert need is not None
    assert fit.needed_gib == need.needed_gib


def test_accumulated_passes_need_the_memory_of_one_pass() -> None:
    """Four passes of 64 samples need as much as one, and an effective batch of 512 is four passes of 128."""
    once, accumulated = profiled(), profiled(accumulation_steps=4)
    assert accumulated.effective_batch_size == 256
    assert memory_fit(accumulated, make_vm_type(), batch_size=256) == memory_fit(once, make_vm_type(), batch_size=64)
    assert memory_fit(accumulated, make_vm_type(), batch_size=512) == memory_fit(once, make_vm_type(), batch_size=128)
    assert memory_fit(accumulated, make_vm_type()) == memory_fit(once, make_vm_type())


@given(st.integers(1, 8), st.integers(1, 8))
def test_largest_batch_counts_effective_samples(steps: int, gpus: int) -> None:
    vm_type = make_vm_type(gpus=gpus)
    once = largest_batch([profiled()], vm_type, gpus=gpus)
    accumulated = largest_batch([profiled(accumulation_steps=steps)], vm_type, gpus=gpus)
    assert once is not None
    assert accumulated is not None
    assert (accumulated.fits, accumulated.at_most) == (steps * once.fits, steps * once.at_most)


def test_accumulation_does_not_depend_on_that_of_the_profile() -> None:
    plans = [accumulation([profiled(accumulation_steps=steps)], make_vm_type(), 4096) for steps in (1, 4)]
    assert plans[0] is not None
    assert plans[0] == plans[1]


def test_measured_peak_is_used_at_its_batch_size() -> None:
    fit = memory_fit(profiled(peak_device_bytes=3 * GIB), make_vm_type())
    assert fit is not None
    assert fit.needed_gib.low == pytest.approx(3)
    assert 3 + CONTEXT_GIB <= fit.needed_gib.value <= 4


def test_measured_peak_grows_by_its_activations() -> None:
    profile = profiled(peak_device_bytes=int(1.4 * GIB))
    need = memory_need(profile, micro_batch_size=128)
    assert need is not None
    assert need.activations_gib == pytest.approx(2, rel=1e-6)
    low = memory_need(profiled(peak_device_bytes=GIB // 4), micro_batch_size=128)
    assert low is not None
    assert low.activations_gib == 0
    assert low.tensors_gib == pytest.approx(0.25)


def test_memory_without_a_trace_is_unknown() -> None:
    assert memory_fit(make_profile(), make_vm_type()) is None
    assert largest_batch([make_profile()], make_vm_type()) is None
    assert largest_batch([], make_vm_type()) is None
    assert largest_batch([profiled(micro_batch_size=None)], make_vm_type()) is None


def test_machine_without_gpu_needs_the_memory_of_the_host() -> None:
    host = make_vm_type(gpu=None, gpus=0, memory_gib=8.0)
    profile = profiled(peak_host_bytes=4 * GIB)
    fit, larger = memory_fit(profile, host), memory_fit(profile, host, batch_size=256)
    assert fit is not None
    assert larger is not None
    assert fit.verdict == "fits"
    assert larger.needed_gib.value == pytest.approx(4 + 1.2 * 3)


@given(st.integers(1, 4096), st.integers(1, 4096), st.floats(0, 1e10), st.floats(0, 1e10), st.floats(0, 2e10))
def test_memory_grows_with_the_batch(b: int, other: int, weights: float, state: float, activations: float) -> None:
    profile = profiled(gradient_bytes=int(weights), optimizer_bytes=int(state), activation_bytes=int(activations))
    small, large = (memory_need(profile, micro_batch_size=batch) for batch in sorted((b, other)))
    assert small is not None
    assert large is not None
    assert small.needed_gib.value <= large.needed_gib.value * (1 + 1e-12)


@given(st.floats(1, 80), st.integers(1, 8))
def test_largest_batch_fits_and_a_larger_one_does_not(memory_gib: float, gpus: int) -> None:
    vm_type = make_vm_type(gpu=make_gpu(memory_gib=memory_gib), gpus=gpus)
    largest = largest_batch([profiled()], vm_type, gpus=gpus)
    assert largest is not None
    for batch, inside in ((largest.fits, {"fits"}), (largest.at_most, {"fits", "tight"})):
        below = memory_fit(profiled(), vm_type, batch_size=batch or gpus, gpus=gpus)
        above = memory_fit(profiled(), vm_type, batch_size=batch + gpus, gpus=gpus)
        assert below is not None
        assert above is not None
        assert batch == 0 or below.verdict in inside
        assert above.verdict not in inside


@given(st.integers(1, 100_000), st.integers(1, 8))
def test_accumulated_passes_cover_the_batch_and_each_fits(batch: int, gpus: int) -> None:
    vm_type = make_vm_type(gpus=gpus)
    advice = accumulation([profiled()], vm_type, batch, gpus=gpus)
    assert advice is not None
    assert batch <= advice.effective_batch_size < batch + advice.steps * gpus
    step = memory_fit(profiled(), vm_type, batch_size=advice.micro_batch_size * gpus, gpus=gpus)
    assert step is not None
    assert step.verdict == "fits"


def test_accumulation_divides_the_batch_where_it_can() -> None:
    advice = accumulation([profiled()], make_vm_type(), 4096)
    assert advice is not None
    assert advice.effective_batch_size == 4096


def test_model_that_never_fits_has_no_accumulation() -> None:
    tiny = make_vm_type(gpu=make_gpu(memory_gib=1.0))
    assert accumulation([profiled()], tiny, 64) is None
    largest = largest_batch([profiled()], tiny)
    assert largest is not None
    assert largest.fits == 0


# ---- what occupies memory


def adapted(**changes: Any) -> Profile:
    """3 GiB of frozen weights, and adapters of 10 MiB."""
    fields = {
        "parameters": 2_621_440,
        "frozen_parameters": 1_640_000_000,
        "weight_bytes": 3 * GIB,
        "gradient_bytes": 10 * 2**20,
        "optimizer_bytes": 20 * 2**20,
    }
    return profiled(**(fields | changes))


def test_frozen_weights_need_memory_and_have_neither_gradients_nor_state() -> None:
    need = memory_need(adapted())
    assert need is not None
    assert need.weights_gib == 3
    assert need.gradients_gib < 0.02
    assert need.needed_gib.low > 3


def test_what_needs_more_than_there_is_does_not_fit() -> None:
    """With about 5 GiB needed, 4.5 GiB are too little, even where the low end of the interval is less."""
    need = memory_need(adapted())
    assert need is not None
    for gib, verdict in ((2.9, "does not fit"), (need.needed_gib.value - 0.01, "does not fit"),
                         (need.needed_gib.value, "tight"), (need.needed_gib.high, "fits")):  # fmt: skip
        fit = memory_fit(adapted(), make_vm_type(gpu=make_gpu(memory_gib=gib)))
        assert fit is not None
        assert fit.verdict == verdict


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_a_gpu_smaller_than_the_weights_never_fits(weights_gib: float, share: float) -> None:
    profile = adapted(weight_bytes=int(weights_gib * GIB), activation_bytes=0)
    gib = weights_gib * min(1.0, share / 100) + 1e-6
    fit = memory_fit(profile, make_vm_type(gpu=make_gpu(memory_gib=gib)))
    assert fit is not None
    assert fit.verdict == "does not fit"


def test_a_run_that_happened_fits_where_it_ran() -> None:
    """A program that took 15.9 GiB on a GPU with 15 GiB of nominal memory ran there: smaller batches fit too."""
    vm_type = make_vm_type(gpu=make_gpu(memory_gib=15.0))
    ran = profiled(peak_device_bytes=int(15.9 * GIB), device="cuda", host=Host(name="there", vm_type=vm_type.key))
    for batch_size, fits in ((64, True), (32, True), (65, False)):
        fit = memory_fit(ran, vm_type, batch_size=batch_size)
        assert fit is not None
        assert (fit.verdict == "fits") is fits
    elsewhere = memory_fit(ran, make_vm_type(name="p3.8xlarge", gpu=make_gpu(memory_gib=15.0)))
    assert elsewhere is not None
    assert elsewhere.verdict == "does not fit"


def test_a_run_on_a_cpu_does_not_show_that_it_fits_on_a_gpu() -> None:
    vm_type = make_vm_type(gpu=make_gpu(memory_gib=1.0))
    on_cpu = profiled(device="cpu", host=Host(name="there", vm_type=vm_type.key))
    fit = memory_fit(on_cpu, vm_type)
    assert fit is not None
    assert fit.verdict == "does not fit"


def test_host_needs_the_tensors_of_a_profile_from_a_gpu() -> None:
    host = make_vm_type(gpu=None, gpus=0, memory_gib=64.0)
    on_gpu = memory_fit(profiled(peak_host_bytes=4 * GIB, device="cuda"), host)
    need = memory_need(profiled(device="cuda"))
    assert on_gpu is not None
    assert need is not None
    assert on_gpu.needed_gib.value == pytest.approx(4 + need.tensors_gib)


def test_the_peak_is_at_the_moment_that_is_largest_at_that_batch_size() -> None:
    """0.1 GiB of gradients and 0.2 growing, or none and 0.5: the second is the peak from 16 samples on."""
    moments = (
        MemoryMoment(fixed_bytes=GIB // 10, growing_bytes=GIB // 5),
        MemoryMoment(fixed_bytes=0, growing_bytes=GIB // 2),
    )
    profile = profiled(optimizer_bytes=0, activation_bytes=GIB // 4, memory_moments=moments)
    for batch_size, gib in ((8, 0.1 + 0.1 + 0.2 / 8), (64, 0.1 + 0.5), (128, 0.1 + 1.0)):
        need = memory_need(profile, micro_batch_size=batch_size)
        assert need is not None
        assert need.tensors_gib == pytest.approx(gib, rel=1e-6)


def test_a_fused_step_makes_no_copies() -> None:
    """AdamW in bfloat16 needs 10 bytes a parameter in its step, and 8 where it is fused."""
    fields = {"parameters": 10**9, "weight_bytes": 2 * 10**9, "gradient_bytes": 2 * 10**9}
    for foreach, size in ((True, 10), (None, 10), (False, 8)):
        need = memory_need(profiled(**fields, optimizer_bytes=4 * 10**9, activation_bytes=0, optimizer_foreach=foreach))
        assert need is not None
        assert need.tensors_gib * GIB == pytest.approx(size * 10**9)


def test_sharded_state_is_divided_over_the_gpus() -> None:
    """Stage 3 divides weights, gradients and state, stage 1 only the state; two gathered units come on top."""
    units = tuple(Operation(kind="communication", dtype="float32", flops=0.0, bytes=size) for size in (300.0, 150.0))
    fields = {"weight_bytes": 16 * GIB, "gradient_bytes": 16 * GIB, "optimizer_bytes": 32 * GIB, "world_size": 2}
    whole = profiled(**fields, operations=units, zero_stage=3)
    need, state_only = memory_need(whole, gpus=8), memory_need(profiled(**fields, zero_stage=1), gpus=8)
    assert need is not None
    assert state_only is not None
    assert (need.weights_gib, need.optimizer_gib) == (2, 4)
    assert need.gradients_gib == pytest.approx(2 + 300 / GIB)
    assert (state_only.weights_gib, state_only.optimizer_gib) == (16, 4)


# ---- what would make it fit


def ways(profile: Profile, gib: float, **options: Any) -> dict[str, Any]:
    return {way.way: way for way in ways_to_fit([profile], make_vm_type(gpu=make_gpu(memory_gib=gib)), **options)}


def test_a_smaller_batch_or_accumulation_makes_activations_fit() -> None:
    found = ways(profiled(activation_bytes=40 * GIB), 16.0)
    assert list(found)[:2] == ["smaller batch", "accumulation"]
    passes = found["accumulation"]
    assert passes.micro_batch_size * passes.steps >= 64
    assert found["checkpointing"].needed_gib < 16
    assert found["larger gpu"].needed_gib > 40


def test_adapters_or_sharding_make_a_large_model_fit() -> None:
    """7 B parameters in bfloat16 with AdamW: 67 GiB do not fit in 24, the weights alone do."""
    n = 7 * 10**9
    large = profiled(parameters=n, weight_bytes=2 * n, gradient_bytes=2 * n, optimizer_bytes=4 * n)
    found = ways(large, 24.0)
    assert "smaller batch" not in found
    assert found["adapters"].needed_gib < 24
    assert found["sharding"].gpus == 4
    assert "adapters" not in ways(adapted(), 3.0)
    assert "adapters" not in ways(large, 12.0)


def test_no_way_is_known_without_a_trace() -> None:
    assert ways(make_profile(), 1.0) == {}


# ---- compared with PyTorch's memory tracker


def tracked(make: Any, batch_size: int) -> tuple[float, Profile]:
    """The peak by PyTorch's memory tracker on fake tensors, and the profile of the same iteration."""
    torch = need("torch")
    tracker = need("torch.distributed._tools.mem_tracker").MemTracker()
    from torch._subclasses.fake_tensor import FakeTensorMode  # as in PyTorch's own examples of the tracker

    from trainfare.probe.torch_operations import Tracer

    loss_of = torch.nn.functional.cross_entropy
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, inputs, labels = make(torch, batch_size)
        optimizer = torch.optim.Adam(model.parameters())
        tracker.track_external(model, optimizer, inputs, labels)
        with tracker:
            for _ in range(2):
                tracker.reset_mod_stats()
                optimizer.zero_grad()
                loss_of(model(inputs), labels).backward()
                optimizer.step()
        (peak,) = tracker.get_tracker_snapshot("peak").values()
    model, inputs, labels = make(torch, batch_size)
    counting = Tracer(torch, lambda: True)
    counting.enter()
    loss = loss_of(model(inputs.clone()), labels)
    counting.backward_started()
    loss.backward()
    counting.backward_ended()
    counting.step_started(gradients=[p.grad for p in model.parameters()])
    facts = counting.leave()
    moments = [MemoryMoment(fixed_bytes=fixed, growing_bytes=growing) for fixed, growing in facts["moments"]]
    parameters = sum(p.numel() for p in model.parameters())
    profile = profiled(
        micro_batch_size=batch_size,
        activation_bytes=facts["activation_bytes"],
        memory_moments=tuple(moments),
        parameters=parameters,
        gradient_bytes=4 * parameters,
        optimizer_bytes=8 * parameters,
    )
    return float(peak["Total"]), profile


def wide_mlp(torch: Any, b: int) -> Any:
    nn = torch.nn
    layers = (nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return nn.Sequential(*layers), torch.randn(b, 256), torch.randint(0, 10, (b,))


def deep_cnn(torch: Any, b: int) -> Any:
    nn = torch.nn
    blocks = [
        part
        for i, o in ((3, 16), (16, 16), (16, 32), (32, 32))
        for part in (nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    ]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return model, torch.randn(b, 3, 16, 16), torch.randint(0, 10, (b,))


@pytest.mark.parametrize(("make", "within"), [(wide_mlp, 0.12), (deep_cnn, 0.03)])
def test_predicted_peak_is_near_that_of_pytorchs_tracker(make: Any, within: float) -> None:
    """The perceptron's peak is in Adam's step, which takes one tensor after the other in the tracker."""
    peak, profile = tracked(make, 32)
    need = memory_need(profile)
    assert need is not None
    assert need.tensors_gib == pytest.approx(peak / GIB, rel=within)
